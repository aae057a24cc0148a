//! Backup and restore: a snapshot's files, in a directory of their own.
//!
//! ```text
//!  database: snapshot, log  --backup-->  snapshot  --restore-->  database: snapshot
//! ```
//!
//! A backup is the state at one place in the log, without anything later. Backing up and restoring both check every
//! byte against the manifest while copying, and write the manifest last. Until the copy is whole, a [mark](Copying) in
//! the directory keeps it from being opened. A backup can also be opened in place.
//!
//! Left out: taking the snapshot, and keeping it until it is copied; the engine does both, so that a
//! running database can be backed up.

use thermocline_machine::ids::PartitionId;
use thermocline_types::{Error, Result};

use crate::blocks::SegmentExtent;
use crate::damage::{damaged_segment, missing_bytes};
use crate::disk::{Disk, read_pieces, write_file_whole};
use crate::log::{Control, LogExtent, list_segments};
use crate::snapshot::{Manifest, SnapshotFile, list_snapshots};

/// Copies the newest snapshot of a database into an empty directory. The caller sees to it that no
/// other snapshot takes its place meanwhile.
pub fn backup(database: &dyn Disk, into: &dyn Disk) -> Result<Manifest> {
    let manifest = copy(Copying::Backup, database, into, "the database has no snapshot to back up")?;
    Copying::Backup.complete(into)?;
    Ok(manifest)
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
    let missing = "what is to be restored has no snapshot: it is no backup, or not a whole one";
    let manifest = copy(Copying::Restore, backup, into, missing)?;
    Control { identity: manifest.identity(), log: LogExtent::NotBegun }.write(into)?;
    Copying::Restore.complete(into)?;
    Ok(manifest)
}

/// A copy on its way into a directory, marked by a file there: from before its first file, durably, until after its
/// last. Without the mark, an interrupted copy would open as an empty database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// Of a database into a backup.
    Backup,
    /// Of a backup, or of an earlier state, into a database.
    Restore,
}

impl Copying {
    const fn file_name(self) -> &'static str {
        match self {
            Self::Backup => "backup.unfinished",
            Self::Restore => "restore.unfinished",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }

    /// Marks an empty directory; one that has the mark and nothing else stays as it is.
    ///
    /// # Errors
    /// If the directory has other files, or cannot be written.
    pub fn begin(self, into: &dyn Disk) -> Result<()> {
        self.check(into)?;
        if !into.list()?.is_empty() {
            return Ok(());
        }
        let mut file = into.create(self.file_name())?;
        file.append(format!("The {} into this directory is not complete.\n", self.name()).as_bytes())?;
        file.sync()?;
        into.sync_directory()
    }

    /// Removes the mark: all files of the copy are durable.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn complete(self, into: &dyn Disk) -> Result<()> {
        into.remove(self.file_name())?;
        into.sync_directory()
    }

    /// An error unless the directory has no file but the mark.
    ///
    /// # Errors
    /// See there, and if the directory cannot be read.
    pub fn check(self, into: &dyn Disk) -> Result<()> {
        match into.list()?.as_slice() {
            [only] if only == self.file_name() => Ok(()),
            _ => check_empty(into),
        }
    }

    /// The copy that was interrupted and left these files; `None` if they are not of one.
    fn interrupted(files: &[String]) -> Option<Self> {
        [Self::Backup, Self::Restore].into_iter().find(|copying| files.iter().any(|name| name == copying.file_name()))
    }
}

/// An error if the directory has a part of an interrupted copy.
///
/// # Errors
/// See there, and if the directory cannot be read.
pub fn check_whole(disk: &dyn Disk) -> Result<()> {
    match Copying::interrupted(&disk.list()?) {
        Some(copying) => {
            let directory = named(disk);
            let (what, mark) = (copying.name(), copying.file_name());
            Err(Error::cannot_open(format_args!(
                "a {what} into {directory} was interrupted, and not all of its files are there ({mark}): remove what is \
                 there, and begin again"
            )))
        }
        None => Ok(()),
    }
}

/// A directory as errors name it.
fn named(disk: &dyn Disk) -> String {
    disk.location().map_or("this directory".into(), |path| path.display().to_string())
}

/// An error unless the directory for a copy has no file.
pub fn check_empty(into: &dyn Disk) -> Result<()> {
    check_whole(into)?;
    match into.list()?.first() {
        Some(name) => Err(Error::cannot_open(format_args!(
            "{} is not empty: it has {name}, and a copy goes into an empty directory",
            named(into)
        ))),
        None => Ok(()),
    }
}

/// Copies the newest snapshot; the copy remains marked.
fn copy(copying: Copying, from: &dyn Disk, into: &dyn Disk, missing: &str) -> Result<Manifest> {
    check_whole(from)?;
    copying.check(into)?;
    let position = list_snapshots(from)?.last().copied().ok_or_else(|| Error::cannot_open(missing))?;
    let mut manifest = Manifest::read(from, position)?;
    copying.begin(into)?;
    let (bytes, checksum) = manifest.definitions;
    copy_file(from, into, &SnapshotFile::Definitions(position).name(), (bytes, checksum))?;
    for (partition, rows) in (0..).map(PartitionId).zip(&manifest.partitions) {
        let name = SnapshotFile::Rows(position, partition).name();
        copy_file(from, into, &name, (rows.bytes, rows.checksum))?;
    }
    let mut extents = Vec::new();
    for extent in &manifest.references.segments {
        let copied = copy_extent(from, into, *extent)?;
        if copied != *extent {
            // A copy has the damage that does no harm, too, and its checksum.
            damaged_segment(from, &manifest, extent.segment)?;
            if copied.bytes < extent.bytes {
                return Err(missing_bytes(from, &manifest, *extent, Some(copied.bytes)));
            }
        }
        extents.push(copied);
    }
    manifest.references.segments = extents;
    into.sync_directory()?;
    write_file_whole(into, &SnapshotFile::Manifest(position).name(), manifest.to_text().as_bytes())?;
    Ok(manifest)
}

/// Copies the bytes of a file of blocks to which a snapshot refers, durably, whatever they are. Returns how many were
/// there, and their checksum.
///
/// # Errors
/// If they cannot be read or written.
pub fn copy_extent(from: &dyn Disk, into: &dyn Disk, extent: SegmentExtent) -> Result<SegmentExtent> {
    let name = extent.segment.file_name();
    let from = from.open(&name)?;
    let bytes = extent.bytes.min(from.length()?);
    let mut into = into.create(&name)?;
    let checksum = read_pieces(&*from, bytes, &mut |piece| into.append(piece))?;
    into.sync()?;
    let shorter = || Error::Io(format!("{name} becomes shorter while it is copied").into());
    Ok(SegmentExtent { bytes, checksum: checksum.ok_or_else(shorter)?, ..extent })
}

fn copy_file(from: &dyn Disk, into: &dyn Disk, name: &str, (bytes, checksum): (u64, u32)) -> Result<()> {
    let other = || Error::corrupt(format_args!("{name} is not the file of the snapshot's manifest"));
    let from = from.open(name)?;
    if from.length()? != bytes {
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
    use crate::check::check_files;
    use crate::disk::{Crash, Faults, RealDisk, SimulatedDisk};
    use crate::recovery::tests::{Database, numbers};
    use crate::recovery::{Choice, Plan};

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

    /// Wherever a copy is interrupted, what is left is refused as such, or whole.
    #[test]
    fn an_interrupted_copy_is_no_database() {
        let mut database = Database::new(1);
        database.commit(5).unwrap();
        database.snapshot(5).unwrap();
        let whole = empty(2);
        backup(&database.disk, &whole).unwrap();
        for (copying, crash) in [Copying::Backup, Copying::Restore]
            .into_iter()
            .flat_map(|copying| [Crash::Process, Crash::Power].map(|crash| (copying, crash)))
        {
            let (mut refused, mut opened) = (0, 0);
            for after in 0.. {
                let there = empty(after);
                there.crash_after(Some(after));
                let copied = match copying {
                    Copying::Backup => backup(&database.disk, &there),
                    Copying::Restore => restore(&whole, &there),
                };
                there.restart(crash);
                match Plan::make(&there) {
                    Err(error) => {
                        let expected = format!("a {} into this directory was interrupted", copying.name());
                        assert!(copied.is_err() && error.to_string().contains(&expected), "{after}: {error}");
                        let report = check_files(&there).unwrap();
                        assert!(report.problems[0].contains(&expected), "{after}: {report}");
                        assert_eq!(restore(&there, &empty(0)).unwrap_err(), error);
                        if there.list().unwrap().len() > 1 {
                            assert_eq!(copying.begin(&there).unwrap_err(), error, "nor is it overwritten");
                        }
                        refused += 1;
                    }
                    // The mark itself was not made.
                    Ok(_) if refused == 0 => assert_eq!(there.list().unwrap(), [""; 0]),
                    Ok(_) => {
                        assert_eq!(Database::recover_disk(&there).unwrap().0, numbers(5));
                        opened += 1;
                    }
                }
                if copied.is_ok() {
                    break;
                }
            }
            assert!(refused > 10 && opened > 0, "{copying:?}, {crash:?}: {refused} refused, {opened} opened");
        }
    }

    #[test]
    fn an_interrupted_copy_names_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        Copying::Backup.begin(&disk).unwrap();
        Copying::Backup.begin(&disk).unwrap();
        let error = Plan::make(&disk).unwrap_err().to_string();
        assert!(error.contains(&format!("a backup into {} was interrupted", directory.path().display())), "{error}");
        assert_eq!(Copying::Restore.begin(&disk).unwrap_err().to_string(), error);
        Copying::Backup.complete(&disk).unwrap();
        assert_eq!(Plan::make(&disk).unwrap().choice(), Choice::Create);
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
        let mut copied = 0;
        for seed in 0..20 {
            let there = SimulatedDisk::new(seed, Faults { full: 4, ..Faults::default() });
            match backup(&database.disk, &there) {
                Ok(_) => copied += 1,
                Err(error) => {
                    assert_eq!(error.sqlstate(), "53100");
                    assert_eq!(list_snapshots(&there).unwrap(), []);
                    let error = Plan::make(&there).unwrap_err();
                    assert!(error.to_string().contains("a backup into this directory was interrupted"), "{error}");
                }
            }
        }
        assert!((1..20).contains(&copied), "{copied}");
    }
}
