use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, Micros, PartitionId, Sequence, TransactionId};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::TupleId;

use super::*;
use crate::disk::{Crash, Disk, Faults, SimulatedDisk, TEMPORARY, read_file};
use crate::log::{
    Batch, Body, CONTROL, Collector, Control, Head, LogEnd, LogExtent, LogSettings, SegmentNumber, Writer,
    list_segments,
};
use crate::snapshot::{SnapshotFile, SnapshotWriter, list_snapshots};

const IDENTITY: Identity = Identity { database: DatabaseId(3), partitions: 2 };
/// Records in the log of most tests, and the snapshot's position.
const RECORDS: u64 = 40;
const POSITION: u64 = 17;

/// A state that is a set of numbers: row `n` and record `n` both add `n`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    numbers: BTreeSet<u64>,
    finished: bool,
}

impl Replay for Numbers {
    fn definitions(&mut self, identity: Identity, sql: &str) -> Result<()> {
        assert_eq!((identity, sql, self.numbers.len()), (IDENTITY, "definitions", 0));
        Ok(())
    }

    fn rows(&mut self, rows: &SnapshotRows<'_>, loaded: &mut dyn FnMut(u64)) -> Result<()> {
        for partition in (0..IDENTITY.partitions).map(PartitionId) {
            rows.each_chunk(
                partition,
                Reading::Inline,
                |_| true,
                |chunk| {
                    for (tuple, _) in chunk.rows() {
                        assert!(self.numbers.insert(tuple.0.into()), "a row twice");
                    }
                    loaded(chunk.row_count().into());
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, _: Semantics, behind: &[Record<'_>]) -> Result<()> {
        assert!(behind.iter().zip(record.sequence.0 + 1..).all(|(next, number)| next.sequence.0 == number));
        let Body::Definition(sql) = record.body else { return Err(Error::internal("no definition")) };
        verify_digest(record, sql.len() as u64)?;
        let number = record.sequence.0;
        assert_eq!(self.numbers.last().copied().unwrap_or(0) + 1, number, "in order");
        self.numbers.insert(number);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.finished = true;
        Ok(())
    }
}

pub struct Database {
    pub disk: SimulatedDisk,
    collector: Collector,
    writer: Writer,
}

impl Database {
    pub fn new(seed: u64) -> Self {
        Self::open(SimulatedDisk::new(seed, Faults::default()), LogEnd::empty())
    }

    pub fn open(disk: SimulatedDisk, end: LogEnd) -> Self {
        let collector = Collector::new(LogSettings::default(), end.next);
        let writer = Writer::new(Arc::new(disk.clone()), IDENTITY, 1000, end);
        Self { disk, collector, writer }
    }

    fn with_room(self, bytes: u64) -> Self {
        Self { writer: self.writer.with_room(bytes), ..self }
    }

    /// One group of this many records.
    pub fn commit(&mut self, records: u64) -> Result<()> {
        let mut batch = Batch::default();
        for _ in 0..records {
            let sql = "some definition";
            let digest = sql.len() as u64;
            let (transaction, timestamp) = (TransactionId(100 + self.collector.appended().0), Micros(7));
            batch.definition(&Head { transaction, timestamp, seed: 0, digest, partitions: &[] }, sql)?;
        }
        self.collector.append(&mut batch, Micros(0))?;
        let mut group = self.collector.take().ok_or_else(|| Error::internal("no group"))?;
        let result = self.writer.write(&mut group).and_then(|()| self.writer.sync());
        self.collector.done(group, result.clone());
        result
    }

    pub fn snapshot(&self, position: u64) -> Result<()> {
        let head = (Sequence(position), TransactionId(position), Micros(5));
        let disk = Arc::new(self.disk.clone());
        let Some(mut writer) = SnapshotWriter::begin(disk, IDENTITY, head, "definitions")? else { return Ok(()) };
        for number in 1..=position {
            let tuple = TupleId(u32::try_from(number).unwrap());
            let mut chunk = crate::snapshot::tests::chunk(TableId(0), &[(tuple, b"")]);
            writer.append(PartitionId(u16::try_from(number % 2).unwrap()), &mut chunk)?;
        }
        writer.complete(self.collector.durable()).map(|_| ())
    }

    /// A log of several segments, and perhaps a snapshot in its middle.
    pub fn filled(snapshot: SnapshotState) -> Self {
        let mut database = Self::new(1);
        while database.collector.appended().0 < RECORDS {
            database.commit(2).unwrap();
        }
        if snapshot != SnapshotState::None {
            database.snapshot(POSITION).unwrap();
        }
        database
    }

    fn recover(&self) -> Result<(Numbers, Recovered)> {
        Self::recover_disk(&self.disk)
    }

    pub fn recover_disk(disk: &dyn Disk) -> Result<(Numbers, Recovered)> {
        recover(disk, |_| Ok(Numbers::default()), &mut |_| {})
    }

    fn content(&self, name: &str) -> Vec<u8> {
        read_file(&self.disk, name, 1 << 20).unwrap()
    }

    fn last_segment(&self) -> String {
        list_segments(&self.disk).unwrap().last().unwrap().file_name()
    }

    fn remove(&self, which: impl Fn(SegmentNumber) -> bool) {
        for segment in list_segments(&self.disk).unwrap() {
            if which(segment) {
                self.disk.remove(&segment.file_name()).unwrap();
            }
        }
    }
}

pub fn numbers(last: u64) -> Numbers {
    Numbers { numbers: (1..=last).collect(), finished: true }
}

const SNAPSHOTS: [SnapshotState; 3] = [SnapshotState::None, SnapshotState::Whole, SnapshotState::Damaged];
const LOGS: [LogState; 8] = [
    LogState::Damaged,
    LogState::Gap,
    LogState::Missing,
    LogState::Absent,
    LogState::Late,
    LogState::Early,
    LogState::Torn,
    LogState::Whole,
];

/// A directory in this state; `None` if that is impossible.
fn directory(snapshot: SnapshotState, log: LogState) -> Option<Database> {
    let database = Database::filled(snapshot);
    let first_after = |sequence: u64| {
        let segments: Vec<_> = database.writer.segments().collect();
        segments.into_iter().find(|(_, first)| first.0 > sequence).unwrap().0
    };
    match log {
        LogState::Missing => database.remove(|_| true),
        LogState::Absent => {
            database.remove(|_| true);
            database.disk.remove(CONTROL).unwrap();
        }
        LogState::Damaged => {
            let name = database.last_segment();
            let mut bytes = database.content(&name);
            bytes[100] ^= 1;
            database.disk.overwrite(&name, bytes);
        }
        LogState::Gap => {
            let gap = first_after(POSITION + 1);
            database.remove(|segment| segment == gap);
        }
        LogState::Late => {
            let from = first_after(POSITION + 1);
            database.remove(|segment| segment < from);
        }
        LogState::Early => {
            let from = first_after(POSITION / 2);
            database.remove(|segment| segment >= from);
            // Otherwise it would be reported as missing without the snapshot.
            Control { identity: IDENTITY, log: LogExtent::UpTo(SegmentNumber::FIRST) }.write(&database.disk).unwrap();
            if snapshot == SnapshotState::None {
                return None;
            }
        }
        LogState::Torn => {
            let name = database.last_segment();
            let mut bytes = database.content(&name);
            bytes.truncate(bytes.len() - 10);
            database.disk.overwrite(&name, bytes);
        }
        LogState::Whole => {}
    }
    if snapshot == SnapshotState::Damaged {
        let name = SnapshotFile::Manifest(Sequence(POSITION)).name();
        let mut bytes = database.content(&name);
        bytes[50] ^= 1;
        database.disk.overwrite(&name, bytes);
    }
    Some(database)
}

/// Last record before the damage, if there is one or a snapshot.
fn last_shown(database: &Database, snapshot: SnapshotState, log: LogState) -> Option<u64> {
    let segments: Vec<_> = database.writer.segments().collect();
    let (_, last) = segments.last().unwrap();
    let (_, gap) = segments.iter().find(|(_, first)| first.0 > POSITION + 1).unwrap();
    match (log, snapshot) {
        (LogState::Damaged, _) => Some(last.0 - 1),
        (LogState::Gap, _) => Some(gap.0 - 1),
        (LogState::Missing | LogState::Late | LogState::Early, SnapshotState::Whole) => Some(POSITION),
        _ => None,
    }
}

#[test]
fn every_combination_of_snapshot_and_log() {
    for (snapshot, log) in SNAPSHOTS.into_iter().flat_map(|snapshot| LOGS.map(|log| (snapshot, log))) {
        let Some(database) = directory(snapshot, log) else { continue };
        let what = format!("{snapshot:?}, {log:?}");
        let before: Vec<_> = database.disk.list().unwrap();
        let choice = Plan::make(&database.disk).unwrap().choice();
        assert_eq!(choice, choose(snapshot, log), "{what}");
        let operations = database.disk.operations();
        let result = database.recover();
        match choice {
            Choice::Refuse(why) => {
                let message = result.unwrap_err().to_string();
                assert!(message.starts_with(why), "{what}: {message}");
                assert_eq!((database.disk.list().unwrap(), database.disk.operations()), (before, operations), "{what}");
            }
            Choice::Show { load, why } => {
                match (result, last_shown(&database, snapshot, log)) {
                    (Ok((state, recovered)), Some(last)) => {
                        let read_only = recovered.read_only.unwrap();
                        assert_eq!((state, read_only.until), (numbers(last), Sequence(last)), "{what}");
                        assert!(read_only.cause.to_string().starts_with(why), "{what}: {read_only}");
                        assert_eq!((recovered.progress.rows > 0, recovered.cut), (load, false), "{what}");
                    }
                    (Err(error), None) => assert!(error.to_string().starts_with(why), "{what}: {error}"),
                    (result, last) => panic!("{what}: {result:?}, {last:?}"),
                }
                assert_eq!((database.disk.list().unwrap(), database.disk.operations()), (before, operations), "{what}");
            }
            Choice::Create => assert_eq!(result.unwrap().0, numbers(0), "{what}"),
            Choice::Recover { load, replay, cut } => {
                let (state, recovered) = result.unwrap();
                assert_eq!(recovered.read_only, None, "{what}");
                let last = if cut {
                    RECORDS - 2
                } else if replay {
                    RECORDS
                } else {
                    POSITION
                };
                assert_eq!((state, recovered.cut), (numbers(last), cut), "{what}");
                assert_eq!(recovered.end.next, Sequence(last + 1), "{what}");
                let progress = recovered.progress;
                assert_eq!((progress.rows > 0, progress.records > 0), (load, replay), "{what}");
                assert_eq!(progress.rows, progress.rows_total, "{what}");
                let transaction = if replay { 100 + last - 2 } else { POSITION };
                assert_eq!(recovered.transaction, TransactionId(transaction), "{what}");
            }
        }
    }
}

/// Why a database can only be read, or is refused.
fn wrong(database: &Database) -> String {
    match database.recover() {
        Ok((_, recovered)) => recovered.read_only.unwrap().cause.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_wrong_names_the_place() {
    let database = directory(SnapshotState::Whole, LogState::Damaged).unwrap();
    let message = wrong(&database);
    let name = database.last_segment();
    assert!(message.starts_with(&format!("the log is damaged: {name}, offset ")), "{message}");
}

#[test]
fn the_newest_segments_are_missed_whatever_the_snapshot_covers() {
    for snapshot in [None, Some(POSITION), Some(RECORDS)] {
        let database = Database::filled(SnapshotState::None);
        snapshot.into_iter().for_each(|position| database.snapshot(position).unwrap());
        let newest: Vec<_> = list_segments(&database.disk).unwrap();
        let (before, last) = (newest[newest.len() - 2], newest[newest.len() - 1]);
        let whole = database.content(&last.file_name());
        let refused = |said: &str| {
            let message = wrong(&database);
            let control =
                format!("the end of the log is missing: control says that it goes up to {}", last.file_name());
            assert!(message.starts_with(&control) && message.ends_with(said), "{snapshot:?}: {message}");
        };
        // A segment cut before its first record does not count either.
        database.disk.overwrite(&last.file_name(), whole[..100].to_vec());
        refused(&format!("it goes up to {}", before.file_name()));
        database.remove(|segment| segment == last);
        refused(&format!("it goes up to {}", before.file_name()));
        database.remove(|_| true);
        refused("there is none (log-*)");
    }
}

#[test]
fn a_closed_log_that_was_cut_is_read_and_not_written() {
    let mut database = Database::filled(SnapshotState::None);
    database.writer.close().unwrap();
    let (whole, recovered) = database.recover().unwrap();
    assert_eq!((whole.numbers.len() as u64, recovered.read_only), (RECORDS, None));
    let (name, control) = (database.last_segment(), Control::read(&database.disk).unwrap().unwrap());
    assert!(matches!(control.log, LogExtent::Ended(_)));
    let segments: Vec<_> = database.writer.segments().collect();
    let (_, first) = *segments.last().unwrap();
    let bytes = database.content(&name);
    for length in 0..bytes.len() {
        database.disk.overwrite(&name, bytes[..length].to_vec());
        let (state, recovered) = database.recover().unwrap();
        assert!(recovered.read_only.is_some(), "{length} of {} bytes", bytes.len());
        let records = state.numbers.len() as u64;
        assert!((first.0 - 1..=RECORDS).contains(&records), "{length} bytes: {records} records");
        assert!(Plan::make(&database.disk).unwrap().repair(&database.disk).is_err());
    }
    database.disk.overwrite(&name, bytes[..bytes.len() - 1].to_vec());
    assert!(wrong(&database).contains("was written to its end"), "{}", wrong(&database));
    // The next write shows that there was more.
    database.disk.overwrite(&name, bytes);
    let end = Plan::make(&database.disk).unwrap().repair(&database.disk).unwrap();
    assert_eq!(Control::read(&database.disk), Ok(Some(control)));
    let mut database = Database::open(database.disk, end);
    database.commit(2).unwrap();
    assert!(matches!(Control::read(&database.disk).unwrap().unwrap().log, LogExtent::UpTo(_)));
    assert_eq!(database.recover().unwrap().0.numbers.len() as u64, RECORDS + 2);
}

#[test]
fn damage_before_the_last_segment_is_found_while_replaying() {
    let database = Database::filled(SnapshotState::None);
    let name = SegmentNumber(2).file_name();
    let mut bytes = database.content(&name);
    bytes[100] ^= 1;
    database.disk.overwrite(&name, bytes);
    let (_, behind) = database.writer.segments().find(|(segment, _)| *segment == SegmentNumber(2)).unwrap();
    let operations = database.disk.operations();
    let (state, recovered) = database.recover().unwrap();
    let ReadOnly { until, cause, .. } = recovered.read_only.unwrap();
    assert_eq!((state, until), (numbers(behind.0 - 1), Sequence(behind.0 - 1)));
    assert!(cause.to_string().starts_with(&format!("{name}, offset ")), "{cause}");
    assert_eq!(database.disk.operations(), operations, "nothing is changed");
}

/// Damage in a segment that the snapshot covers does no harm.
#[test]
fn damage_before_the_snapshot_loses_nothing() {
    let mut database = Database::filled(SnapshotState::Whole);
    let first = SegmentNumber::FIRST.file_name();
    let mut bytes = database.content(&first);
    bytes[20] ^= 1;
    database.disk.overwrite(&first, bytes);
    let (state, recovered) = database.recover().unwrap();
    let ReadOnly { until, cause, .. } = recovered.read_only.unwrap();
    assert_eq!((state, until), (numbers(RECORDS), Sequence(RECORDS)), "{cause}");

    database = Database::filled(SnapshotState::Whole);
    database.disk.overwrite(CONTROL, b"rubbish".to_vec());
    let (state, recovered) = database.recover().unwrap();
    let ReadOnly { until, cause, .. } = recovered.read_only.unwrap();
    assert_eq!((state, until), (numbers(RECORDS), Sequence(RECORDS)), "{cause}");
    assert!(cause.to_string().contains("control is damaged"), "{cause}");
}

#[test]
fn the_state_of_any_record_can_be_replayed() {
    for snapshot in [SnapshotState::None, SnapshotState::Whole] {
        let database = Database::filled(snapshot);
        let plan = Plan::make(&database.disk).unwrap();
        let from = if snapshot == SnapshotState::Whole { POSITION } else { 1 };
        for until in from..=RECORDS + 1 {
            let mut state = Numbers::default();
            let recovered = plan.replay_until(&database.disk, &mut state, Sequence(until), &mut |_| {}).unwrap();
            let last = until.min(RECORDS);
            assert_eq!((state, recovered.end.next, recovered.read_only), (numbers(last), Sequence(last + 1), None));
        }
    }
}

/// Sets the semantics of a segment's header.
fn set_semantics(database: &Database, segment: SegmentNumber, semantics: u32) {
    let name = segment.file_name();
    let mut bytes = database.content(&name);
    bytes[48..52].copy_from_slice(&semantics.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    database.disk.overwrite(&name, bytes);
}

#[test]
fn a_log_of_older_semantics_is_replayed_and_one_of_newer_refused() {
    let database = Database::filled(SnapshotState::Whole);
    assert_eq!(database.recover().unwrap().1.older, None);
    let segments: Vec<_> = database.writer.segments().collect();
    let covered = segments.iter().rfind(|(_, first)| first.0 < POSITION - 5).unwrap().0;
    set_semantics(&database, covered, 1);
    assert_eq!(database.recover().unwrap().1.older, None, "nobody has to replay it");
    let (last, _) = *segments.last().unwrap();
    set_semantics(&database, last, 1);
    let (state, recovered) = database.recover().unwrap();
    assert_eq!((state, recovered.older, recovered.read_only), (numbers(RECORDS), Some(Semantics(1)), None));

    set_semantics(&database, last, 77);
    let operations = database.disk.operations();
    let error = database.recover().unwrap_err();
    let expected = format!(
        "{} was written with version 77 of the engine's semantics, which is newer than this program: it has version {}",
        last.file_name(),
        Semantics::CURRENT
    );
    assert_eq!((error.to_string(), database.disk.operations()), (expected, operations));
    assert!(matches!(error, Error::CannotOpen(_)));
}

#[test]
fn the_state_before_another_digest_can_be_read() {
    let mut database = Database::new(1);
    database.commit(1).unwrap();
    let mut batch = Batch::default();
    let head = Head { transaction: TransactionId(9), timestamp: Micros(0), seed: 0, digest: 1, partitions: &[] };
    batch.definition(&head, "xyz").unwrap();
    database.collector.append(&mut batch, Micros(0)).unwrap();
    let mut group = database.collector.take().unwrap();
    database.writer.write(&mut group).unwrap();
    database.writer.sync().unwrap();
    let operations = database.disk.operations();
    let (state, recovered) = database.recover().unwrap();
    let read_only = recovered.read_only.unwrap();
    assert_eq!((state, read_only.until, recovered.end.next), (numbers(1), Sequence(1), Sequence(2)));
    let text = read_only.to_string();
    assert!(text.contains("log record 2 of transaction 9 (xyz) changes other rows"), "{text}");
    assert!(text.contains("restore DB NEWDB --until 1'"), "{text}");
    assert_eq!((read_only.refusal().sqlstate(), database.disk.operations()), ("25006", operations));

    // Only the first record.
    let mut database = Database::new(1);
    batch.definition(&head, "xyz").unwrap();
    database.collector.append(&mut batch, Micros(0)).unwrap();
    let mut group = database.collector.take().unwrap();
    database.writer.write(&mut group).unwrap();
    let error = database.recover().unwrap_err();
    assert!(matches!(&error, Error::Corrupt(message) if message.contains("log record 1 of transaction 9")), "{error}");
}

/// Crashes at every operation, again and again also while recovering: nothing durable is lost.
#[test]
fn a_database_survives_crashes_at_every_operation() {
    for seed in 0..400 {
        let room = seed % 3 * 300;
        let mut database = Database::new(seed).with_room(room);
        let disk = database.disk.clone();
        let mut random = thermocline_machine::random::Random::new(seed);
        let (mut durable, mut appended) = (0, 0);
        for round in 0..6 {
            disk.crash_after(Some(random.below(60)));
            for step in 0.. {
                let result = match step % 7 {
                    6 if durable > 0 => database.snapshot(durable).and_then(|()| {
                        let position = *list_snapshots(&disk)?.last().unwrap();
                        crate::snapshot::remove_snapshots(&disk, position)?;
                        database.writer.remove_covered(position)
                    }),
                    _ => database.commit(1 + random.below(5)),
                };
                (durable, appended) = (database.collector.durable().0, database.collector.appended().0);
                if result.is_err() {
                    break;
                }
            }
            assert!(disk.crashed(), "seed {seed}: nothing else fails");
            // A recovery that is interrupted, then one that is not.
            let mut state = None;
            for attempt in 0..3 {
                disk.restart(if random.one_in(2) { Crash::Power } else { Crash::Process });
                disk.crash_after((attempt < 2).then(|| random.below(8)));
                match database.recover() {
                    Ok(recovered) => state = Some(recovered),
                    Err(error) => assert!(disk.crashed(), "seed {seed}, round {round}: {error}"),
                }
            }
            let (state, recovered) = state.unwrap();
            let last = state.numbers.len() as u64;
            assert_eq!(state, numbers(last), "seed {seed}, round {round}");
            assert!(last == durable || last == appended, "seed {seed}, round {round}: {durable}, {last}, {appended}");
            database = Database::open(disk.clone(), recovered.end).with_room(room);
            (durable, appended) = (last, last);
        }
        assert!(appended >= durable);
    }
}

#[test]
fn a_full_disk_is_read_and_written_once_there_is_room() {
    let mut database = Database::filled(SnapshotState::Whole);
    database.commit(1).unwrap();
    let (all, _) = Database::recover_disk(&database.disk.clone()).unwrap();
    let last = list_segments(&database.disk).unwrap().last().unwrap().file_name();
    let needed = format!("needs {} bytes of free space", database.disk.open(&last).unwrap().length().unwrap());
    for _ in 0..2 {
        database.disk.set_faults(Faults { full: 1, ..Faults::default() });
        let (numbers, recovered) = database.recover().unwrap();
        let read_only = recovered.read_only.unwrap();
        assert!(matches!(read_only.cause, Error::DiskFull(_)), "{read_only}");
        assert_eq!(read_only.refusal().sqlstate(), "53100");
        let said = read_only.to_string();
        assert!(said.contains(&needed) && said.contains(&format!("{last}{TEMPORARY}")), "{needed}: {said}");
        assert_eq!(numbers, all);
        let files = database.disk.list().unwrap();
        assert!(files.iter().all(|name| !name.ends_with(TEMPORARY)), "{files:?}");
    }
    database.disk.set_faults(Faults::default());
    let (numbers, recovered) = database.recover().unwrap();
    assert_eq!((numbers, recovered.read_only), (all, None));
}
