//! Backup and restore: a snapshot's files, in a directory of their own.
//!
//! ```text
//!  database: snapshot, log  --backup-->  snapshot  --restore-->  database: snapshot
//! ```
//!
//! A backup is the state at one place in the log, without anything later. Backing up and restoring both check every
//! byte against the manifest while copying, and write the manifest last: a directory that has one is whole. A backup
//! can also be opened in place.
//!
//! Left out: taking the snapshot, and keeping it until it is copied; the engine does both, so that a
//! running database can be backed up.

use thermocline_machine::ids::PartitionId;
use thermocline_types::{Error, Result};

use crate::blocks::SegmentExtent;
use crate::damage::damaged_segment;
use crate::disk::{Disk, read_pieces, write_file_whole};
use crate::log::{Control, LogExtent, list_segments};
use crate::snapshot::{Manifest, SnapshotFile, list_snapshots};

/// Copies the newest snapshot of a database into an empty directory. The caller sees to it that no
/// other snapshot takes its place meanwhile.
pub fn backup(database: &dyn Disk, into: &dyn Disk) -> Result<Manifest> {
    copy(database, into, "the database has no snapshot to back up")
}

/// Makes a backup the content of an empty directory, which can then be opened as a database, and says in it which
/// database it is, last of all.
pub fn restore(backup: &dyn Disk, into: &dyn Disk) -> Result<Manifest> {
    if !list_segments(backup)?.is_empty() {
        return Err(Error::cannot_open(
            "what is to be restored has a log: it is a database, not a backup, and the log would be left out; \
             --until RECORD restores the state that it had after a record",
        ));
    }
    let manifest = copy(backup, into, "what is to be restored has no snapshot: it is no backup, or not a whole one")?;
    Control { identity: manifest.identity(), log: LogExtent::NotBegun }.write(into)?;
    Ok(manifest)
}

/// An error unless the directory for a copy has no file.
pub fn check_empty(into: &dyn Disk) -> Result<()> {
    match into.list()?.first() {
        Some(name) => Err(Error::cannot_open(format_args!("the directory for the copy is not empty: it has {name}"))),
        None => Ok(()),
    }
}

fn copy(from: &dyn Disk, into: &dyn Disk, missing: &str) -> Result<Manifest> {
    check_empty(into)?;
    let position = list_snapshots(from)?.last().copied().ok_or_else(|| Error::cannot_open(missing))?;
    let manifest = Manifest::read(from, position)?;
    let (bytes, checksum) = manifest.definitions;
    copy_file(from, into, &SnapshotFile::Definitions(position).name(), (bytes, checksum), Length::Exact)?;
    for (partition, rows) in (0..).map(PartitionId).zip(&manifest.partitions) {
        let name = SnapshotFile::Rows(position, partition).name();
        copy_file(from, into, &name, (rows.bytes, rows.checksum), Length::Exact)?;
    }
    for SegmentExtent { segment, bytes, checksum } in &manifest.references.segments {
        match copy_file(from, into, &segment.file_name(), (*bytes, *checksum), Length::Least) {
            Err(Error::Corrupt(_)) => return Err(damaged_segment(from, &manifest, *segment)),
            copied => copied?,
        }
    }
    into.sync_directory()?;
    write_file_whole(into, &SnapshotFile::Manifest(position).name(), manifest.to_text().as_bytes())?;
    Ok(manifest)
}

/// Length of a file that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// As many bytes as are copied.
    Exact,
    /// At least as many.
    Least,
}

fn copy_file(
    from: &dyn Disk,
    into: &dyn Disk,
    name: &str,
    (bytes, checksum): (u64, u32),
    length: Length,
) -> Result<()> {
    let other = || Error::corrupt(format_args!("{name} is not the file of the snapshot's manifest"));
    let from = from.open(name)?;
    if length == Length::Exact && from.length()? != bytes {
        return Err(other());
    }
    let mut into = into.create(name)?;
    if read_pieces(&*from, bytes, &mut |piece| into.append(piece))? != Some(checksum) {
        return Err(other());
    }
    into.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Faults, SimulatedDisk, read_file};
    use crate::recovery::tests::{Database, numbers};

    fn empty(seed: u64) -> SimulatedDisk {
        SimulatedDisk::new(seed, Faults::default())
    }

    #[test]
    fn a_backup_is_the_state_of_its_snapshot() {
        let mut database = Database::new(1);
        (0..4).for_each(|_| database.commit(5).unwrap());
        let there = empty(2);
        assert!(backup(&database.disk, &there).unwrap_err().to_string().contains("no snapshot"));
        database.snapshot(12).unwrap();
        assert_eq!(backup(&database.disk, &there).unwrap().position.0, 12);
        database.commit(5).unwrap();

        let back = empty(3);
        let identity = restore(&there, &back).unwrap().identity();
        assert_eq!(Control::read(&there), Ok(None));
        assert_eq!(Control::read(&back), Ok(Some(Control { identity, log: LogExtent::NotBegun })));
        let (state, recovered) = Database::recover_disk(&back).unwrap();
        assert_eq!((state, recovered.end.next.0), (numbers(12), 13));
        let mut restored = Database::open(back, recovered.end);
        restored.commit(3).unwrap();
        assert_eq!(Database::recover_disk(&restored.disk).unwrap().0, numbers(15));

        let error = backup(&database.disk, &there).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        let error = restore(&database.disk, &empty(4)).unwrap_err();
        assert!(error.to_string().contains("has a log"), "{error}");
        let error = restore(&empty(4), &empty(5)).unwrap_err();
        assert!(error.to_string().contains("no backup"), "{error}");
    }

    #[test]
    fn a_damaged_backup_is_not_restored() {
        let mut database = Database::new(1);
        database.commit(5).unwrap();
        database.snapshot(5).unwrap();
        for seed in 0..100 {
            let there = empty(seed);
            backup(&database.disk, &there).unwrap();
            let (name, offset) = there.flip_bit().unwrap();
            let back = empty(0);
            let error = restore(&there, &back).expect_err(&format!("{name}, {offset}"));
            assert!(matches!(error, Error::Corrupt(_) | Error::CannotOpen(_)));
            assert_eq!(list_snapshots(&back).unwrap(), [], "what is not whole has no manifest");
        }
    }

    #[test]
    fn a_full_disk_leaves_no_manifest() {
        let mut database = Database::new(1);
        database.commit(5).unwrap();
        database.snapshot(5).unwrap();
        let there = SimulatedDisk::new(1, Faults { full: 2, ..Faults::default() });
        assert_eq!(backup(&database.disk, &there).unwrap_err().sqlstate(), "53100");
        assert_eq!(list_snapshots(&there).unwrap(), []);
        assert!(
            read_file(&there, &SnapshotFile::Definitions(thermocline_machine::ids::Sequence(5)).name(), 100).is_ok()
        );
    }
}
