//! Checks a database that is not open, file by file, and then as a whole. Changes nothing.

use std::collections::BTreeMap;
use std::fmt;

use thermocline_machine::ids::{DatabaseId, Identity, PartitionId, Sequence};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::TupleId;
use thermocline_types::{Error, Result};

use crate::backup::check_whole;
use crate::blocks::SegmentExtent;
use crate::damage::{damaged_segment, missing_bytes};
use crate::disk::{Disk, TEMPORARY, read_pieces};
use crate::log::{Control, Next, Opened, SegmentNumber, SegmentReader, list_segments};
use crate::recovery::{Choice, Execute, Halt, Plan, Progress, Rebuild};
use crate::snapshot::{Manifest, RowFileReader, RowsHeader, SnapshotFile, list_snapshots, read_definitions};

/// Findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Damaged or missing files and records, with their places.
    pub problems: Vec<String>,
    /// States that a crash may leave, and how the next start deals with them; and damage of bytes that nothing needs.
    pub notes: Vec<String>,
    /// Snapshots read.
    pub snapshots: u64,
    /// Rows in them.
    pub rows: u64,
    /// Segments of the log read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
}

/// Prints a line for each finding, then the amounts read.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "damaged: {problem}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        let Self { snapshots, rows, segments, records, .. } = self;
        writeln!(f, "{snapshots} snapshots with {rows} rows, {segments} log segments with {records} records")
    }
}

impl Report {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Records an error in the data as a finding; an I/O error stays an error.
    fn found<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt(problem) | Error::CannotOpen(problem)) => {
                let problem = String::from(problem);
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads every file to its end and compares all checksums. Only I/O errors are returned as errors; the caller has
/// locked the directory.
pub fn check_files(disk: &dyn Disk) -> Result<Report> {
    let (mut report, lost) = look_at_files(disk)?;
    report.problems.extend(lost);
    Ok(report)
}

/// [`check_files`], and apart from it the lost rows of the newest snapshot, by file: the log behind it may remove them.
fn look_at_files(disk: &dyn Disk) -> Result<(Report, Vec<String>)> {
    let (mut report, mut lost) = (Report::default(), Vec::new());
    report.found(check_whole(disk))?;
    let snapshots = list_snapshots(disk)?;
    for position in &snapshots {
        let checked = check_snapshot(disk, *position);
        report.snapshots += 1;
        let Some((manifest, rows)) = report.found(checked)? else { continue };
        report.rows += rows;
        // Each missing or damaged file is a finding of its own.
        let missing = manifest.references.missing(disk)?;
        for extent in &manifest.references.segments {
            let checked = match missing.iter().find(|(missing, _)| missing == extent) {
                Some((extent, length)) => Err(missing_bytes(disk, &manifest, *extent, *length)),
                None => match check_extent(disk, &manifest, extent) {
                    Err(Error::Corrupt(what)) if snapshots.last() == Some(position) => {
                        lost.push(String::from(what));
                        Ok(None)
                    }
                    checked => checked,
                },
            };
            let harmless = report.found(checked)?.flatten();
            report.notes.extend(harmless);
        }
    }
    let control = Control::read(disk);
    report.found(control)?;
    check_log(disk, &mut report)?;
    for name in disk.list()? {
        let unfinished = SnapshotFile::of_name(&name).is_some_and(|file| !snapshots.contains(&file.position()));
        if unfinished || name.ends_with(TEMPORARY) {
            report.notes.push(format!("{name} was never finished; the next start removes it"));
        }
    }
    Ok((report, lost))
}

/// [`check_files`], and, if they are sound, the state that they give: every record has the effects that
/// it had, every index its rows, every row its partition. Rows may be lost in the newest snapshot that are not in this
/// state any more. To find that, rows of blocks have to stay there, which `rebuild` is told.
pub fn check<X: Execute>(
    disk: &dyn Disk,
    rebuild: impl FnOnce(&Plan, Identity, bool) -> Result<Rebuild<X>>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report> {
    let (mut report, lost) = look_at_files(disk)?;
    if check_whole(disk).is_err() {
        report.problems.extend(lost);
        return Ok(report);
    }
    let plan = Plan::make(disk)?;
    let is_recovered = matches!(plan.choice(), Choice::Recover { .. }) && report.is_sound();
    if let (false, true, Some(identity)) = (lost.is_empty(), is_recovered, plan.identity()) {
        match check_state(disk, &plan, rebuild(&plan, identity, true)?, progress) {
            Ok(()) => {
                let removed = |what: String| format!("the log has removed what is lost: {what}");
                report.notes.extend(lost.into_iter().map(removed));
            }
            // The rows are named already.
            Err(Error::Corrupt(_)) => report.problems.extend(lost),
            Err(error) => return Err(error),
        }
        return Ok(report);
    }
    report.problems.extend(lost);
    match plan.choice() {
        // The report names this more exactly, unless a file is missing.
        Choice::Refuse(_) | Choice::Show { .. } if report.is_sound() => {
            report.found(plan.wrong().map_or(Ok(()), Err))?;
        }
        Choice::Refuse(_) | Choice::Show { .. } | Choice::Create => {}
        Choice::Recover { .. } => {
            if let (true, Some(identity)) = (report.is_sound(), plan.identity()) {
                let checked = check_state(disk, &plan, rebuild(&plan, identity, false)?, progress);
                report.found(checked)?;
            }
        }
    }
    Ok(report)
}

fn check_state<X: Execute>(
    disk: &dyn Disk,
    plan: &Plan,
    mut rebuild: Rebuild<X>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<()> {
    let recovered = plan.replay(disk, &mut rebuild, progress).map_err(Halt::into_error)?;
    if let Some(read_only) = recovered.read_only {
        return Err(read_only.cause);
    }
    let (members, ..) = rebuild.into_parts();
    members.iter().try_for_each(|member| member.partition.check())
}

/// Checks the files of a snapshot, except for the content of blocks. Returns the number of rows.
fn check_snapshot(disk: &dyn Disk, position: Sequence) -> Result<(Manifest, u64)> {
    let manifest = Manifest::read(disk, position)?;
    read_definitions(disk, &manifest)?;
    let mut rows = 0;
    for (partition, file) in (0..).map(PartitionId).zip(&manifest.partitions) {
        let header = RowsHeader { database: manifest.database, position, partition };
        let mut reader = RowFileReader::open(disk, header, *file)?;
        // A bit for each row of each table.
        let mut seen: BTreeMap<TableId, Vec<u64>> = BTreeMap::new();
        while let Some(chunk) = reader.next_chunk()? {
            let rows = chunk.rows().map(|(tuple, _)| tuple);
            for tuple in rows.chain(chunk.places().map(|(tuple, _)| tuple)) {
                let bits = seen.entry(chunk.table).or_default();
                let word = tuple.min(TupleId::MAX).0 as usize / 64;
                if bits.len() <= word {
                    bits.resize(word + 1, 0);
                }
                let bit = 1 << (tuple.0 % 64);
                let before = bits.get_mut(word).map_or(0, |bits| std::mem::replace(bits, *bits | bit));
                if tuple > TupleId::MAX || before & bit != 0 {
                    let name = SnapshotFile::Rows(position, partition).name();
                    return Err(Error::corrupt(format_args!("{name} has row {} twice, or it is none", tuple.0)));
                }
            }
        }
        rows += file.rows;
    }
    Ok((manifest, rows))
}

/// An error unless the bytes of a file that the snapshot refers to, which are there, have their checksum; damage that does
/// no harm is a note.
fn check_extent(disk: &dyn Disk, manifest: &Manifest, extent: &SegmentExtent) -> Result<Option<String>> {
    let file = disk.open(&extent.segment.file_name())?;
    if read_pieces(&*file, extent.bytes, &mut |_| Ok(()))? == Some(extent.checksum) {
        return Ok(None);
    }
    damaged_segment(disk, manifest, extent.segment).map(Some)
}

fn check_log(disk: &dyn Disk, report: &mut Report) -> Result<()> {
    let segments = list_segments(disk)?;
    let mut database = None;
    // Where the next segment has to begin; unknown behind a damaged one.
    let mut expected = None;
    for (place, segment) in segments.iter().enumerate() {
        let last = place + 1 == segments.len();
        let checked = check_segment(disk, *segment, last, &mut database, report);
        let range = report.found(checked)?.flatten();
        if let (Some(expected), Some((first, _))) = (expected, range)
            && expected != first
        {
            let name = segment.file_name();
            report.problems.push(format!("{name} begins with record {first}, and {expected} is the next"));
        }
        expected = range.map(|(_, next)| next);
        report.segments += 1;
    }
    Ok(())
}

/// Returns the first sequence of a segment and the sequence after its last; `None` if it has no header.
fn check_segment(
    disk: &dyn Disk,
    segment: SegmentNumber,
    last: bool,
    database: &mut Option<DatabaseId>,
    report: &mut Report,
) -> Result<Option<(Sequence, Sequence)>> {
    let name = segment.file_name();
    let unfinished = || Error::corrupt(format_args!("{name} has no end, and is not the last"));
    let mut reader = match SegmentReader::open(disk, segment, *database)? {
        Opened::Reader(reader) => reader,
        Opened::Torn if last => {
            report.notes.push(format!("{name} was never begun; the next start removes it"));
            return Ok(None);
        }
        Opened::Torn => return Err(unfinished()),
    };
    *database = Some(reader.header().identity.database);
    let first = reader.header().first;
    loop {
        match reader.next_group()? {
            Next::Group(group) => report.records += u64::from(group.count()),
            Next::Sealed => break,
            Next::End if last => break,
            Next::Torn if last => {
                let offset = reader.offset();
                report.notes.push(format!(
                    "{name}, offset {offset}: the last group was not written to its end; nobody was told of it, and \
                     the next start leaves it out"
                ));
                break;
            }
            Next::End | Next::Torn => return Err(unfinished()),
        }
    }
    Ok(Some((first, reader.next_sequence())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::read_file;
    use crate::recovery::tests::Database;

    fn database() -> Database {
        let mut database = Database::new(1);
        (0..20).for_each(|_| database.commit(5).unwrap());
        database.snapshot(12).unwrap();
        database
    }

    #[test]
    fn a_sound_database_is_sound_and_nothing_is_written() {
        let database = database();
        let operations = database.disk.operations();
        let report = check_files(&database.disk).unwrap();
        let (rows, segments) = (12, u64::try_from(list_segments(&database.disk).unwrap().len()).unwrap());
        assert_eq!(report, Report { snapshots: 1, rows, segments, records: 100, ..Report::default() });
        assert!(report.is_sound() && segments > 3);
        assert_eq!(database.disk.operations(), operations);
        let text = format!("1 snapshots with 12 rows, {segments} log segments with 100 records\n");
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn every_changed_bit_is_found_in_whichever_file() {
        for seed in 0..300 {
            let mut database = Database::new(seed);
            (0..20).for_each(|_| database.commit(5).unwrap());
            database.snapshot(12).unwrap();
            let (name, offset) = database.disk.flip_bit().unwrap();
            let report = check_files(&database.disk).unwrap();
            assert!(report.problems.iter().any(|problem| problem.contains(&name)), "{name}, {offset}: {report}");
        }
    }

    #[test]
    fn what_a_crash_leaves_is_a_note() {
        let database = database();
        let name = list_segments(&database.disk).unwrap().last().unwrap().file_name();
        let mut bytes = read_file(&database.disk, &name, 1 << 20).unwrap();
        bytes.pop();
        database.disk.overwrite(&name, bytes);
        let unfinished = SnapshotFile::Definitions(Sequence(50)).name();
        database.disk.overwrite(&unfinished, vec![1]);
        let report = check_files(&database.disk).unwrap();
        assert!(report.is_sound(), "{report}");
        assert!(report.notes[0].starts_with(&format!("{name}, offset ")), "{report}");
        assert!(report.notes[1].starts_with(&unfinished), "{report}");
    }

    #[test]
    fn segments_that_do_not_follow_are_found() {
        let database = database();
        database.disk.remove(&SegmentNumber(2).file_name()).unwrap();
        let report = check_files(&database.disk).unwrap();
        let expected = format!("{} begins with record", SegmentNumber(3).file_name());
        assert!(report.problems[0].starts_with(&expected), "{report}");
    }
}
