use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, Identity, Micros, Sequence};
use thermocline_types::{Error, Result};

use super::collector::PendingGroup;
use super::record::tests::head;
use super::*;
use crate::disk::{Crash, Disk, Faults, SimulatedDisk, read_file};

const IDENTITY: Identity = Identity { database: DatabaseId(7), partitions: 2 };

/// Sequences of all records; panics if anything is not whole.
pub fn sequences(disk: &dyn Disk) -> Vec<u64> {
    read(disk).unwrap().0
}

/// Sequences of all records, and whether the log ends in a torn group.
fn read(disk: &dyn Disk) -> Result<(Vec<u64>, bool)> {
    let mut sequences = Vec::new();
    for segment in list_segments(disk)? {
        let Opened::Reader(mut reader) = SegmentReader::open(disk, segment, None)? else {
            return Ok((sequences, true));
        };
        loop {
            match reader.next_group()? {
                Next::Group(group) => sequences.extend(group.records().map(|record| record.sequence.0)),
                Next::Sealed | Next::End => break,
                Next::Torn => return Ok((sequences, true)),
            }
        }
    }
    Ok((sequences, false))
}

struct Log {
    collector: Collector,
    writer: Writer,
}

impl Log {
    fn new(disk: &SimulatedDisk, segment_bytes: u64) -> Self {
        let collector = Collector::new(LogSettings::default(), Sequence(1));
        let writer = Writer::new(Arc::new(disk.clone()), IDENTITY, segment_bytes, LogEnd::empty());
        Self { collector, writer }
    }

    /// A group of this many records.
    fn group(&mut self, records: usize) -> Result<PendingGroup> {
        let mut batch = Batch::default();
        for _ in 0..records {
            batch.definition(&head(&[]), "DROP TABLE table_with_a_name")?;
        }
        self.collector.append(&mut batch, Micros(0))?;
        self.collector.take().ok_or_else(|| Error::internal("no group"))
    }

    /// Writes and syncs one group of this many records.
    fn commit(&mut self, records: usize) -> Result<()> {
        let mut group = self.group(records)?;
        let result = self.writer.write(&mut group).and_then(|()| self.writer.sync());
        self.collector.done(group, result.clone());
        result
    }
}

fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed, Faults::default())
}

fn numbers(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

#[test]
fn segments_follow_each_other_and_covered_ones_are_removed() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 1000);
    for _ in 0..20 {
        log.commit(3).unwrap();
    }
    log.writer.close().unwrap();
    assert_eq!(sequences(&disk), numbers(60));
    let segments: Vec<_> = log.writer.segments().collect();
    assert_eq!(segments.iter().map(|(segment, _)| *segment).collect::<Vec<_>>(), list_segments(&disk).unwrap());
    assert!(segments.len() > 4);

    let (_, third) = segments[2];
    log.writer.remove_covered(Sequence(third.0 - 2)).unwrap();
    assert_eq!(list_segments(&disk).unwrap()[0], segments[1].0, "one record of the second is not covered");
    log.writer.remove_covered(Sequence(third.0 - 1)).unwrap();
    assert_eq!(list_segments(&disk).unwrap()[0], segments[2].0);
    log.writer.remove_covered(Sequence(1000)).unwrap();
    assert_eq!(list_segments(&disk).unwrap().len(), 1, "the last one stays");
}

#[test]
fn a_covered_segment_stays_until_a_later_one_has_a_durable_record() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 1000);
    let first = loop {
        let mut group = log.group(3).unwrap();
        log.writer.write(&mut group).unwrap();
        if let Some((_, first)) = log.writer.segments().nth(1) {
            break first;
        }
        log.writer.sync().unwrap();
        log.collector.done(group, Ok(()));
    };
    let before = list_segments(&disk).unwrap();
    assert_eq!(before.len(), 2, "the second has a record that is not durable");
    log.writer.remove_covered(Sequence(first.0 - 1)).unwrap();
    assert_eq!(list_segments(&disk).unwrap(), before);
    log.writer.sync().unwrap();
    log.writer.remove_covered(Sequence(first.0 - 1)).unwrap();
    assert_eq!(list_segments(&disk).unwrap(), before[1..]);
}

#[test]
fn the_directory_names_the_segment_of_every_durable_group() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 1000);
    assert_eq!(Control::read(&disk), Ok(None));
    for _ in 0..20 {
        let (before, operations) = (Control::read(&disk).unwrap(), disk.operations());
        log.commit(3).unwrap();
        let newest = list_segments(&disk).unwrap().last().copied();
        let told = Control::read(&disk).unwrap().unwrap();
        assert_eq!(told, Control { identity: IDENTITY, log: LogExtent::UpTo(newest.unwrap()) });
        if before == Some(told) {
            assert_eq!(disk.operations(), operations + 2, "a write and a sync, as long as the segment is the same");
        }
    }
}

#[test]
fn a_group_that_is_durable_succeeds_though_its_segment_cannot_be_named() {
    let mut unnamed = 0;
    for operations in 0..20 {
        let disk = disk(operations);
        let mut log = Log::new(&disk, 1000);
        disk.crash_after(Some(operations));
        let committed = log.commit(3);
        let next = log.commit(3);
        disk.restart(Crash::Power);
        let is_named = Control::read(&disk).unwrap().is_some();
        if committed.is_ok() {
            assert!(sequences(&disk).starts_with(&numbers(3)), "{operations}: a power failure takes nothing of it");
        }
        if committed.is_ok() && !is_named {
            assert!(next.is_err(), "{operations}: nothing is written after the failure");
            unnamed += 1;
        }
    }
    assert!(unnamed > 0, "the failure was met between the sync and the name");
}

#[test]
fn what_is_not_whole_at_the_end_is_torn_wherever_the_power_fails() {
    let mut torn = 0;
    for seed in 0..400 {
        let disk = disk(seed);
        let mut log = Log::new(&disk, 2000);
        // Room of more than a segment, less than a group, and none.
        log.writer = log.writer.with_room([0, 300, 5000][usize::try_from(seed / 40 % 3).unwrap()]);
        disk.crash_after(Some(seed % 40));
        while log.commit(1 + usize::try_from(seed % 29).unwrap()).is_ok() {}
        let (durable, appended) = (log.collector.durable().0, log.collector.appended().0);
        disk.restart(if seed % 3 == 0 { Crash::Process } else { Crash::Power });

        let (left, is_torn) = read(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let last = left.last().copied().unwrap_or(0);
        assert_eq!(left, numbers(last), "seed {seed}");
        assert!(last == durable || last == appended, "seed {seed}: a group is there or not");
        torn += u64::from(is_torn);
    }
    assert!(torn > 50, "{torn}");
}

#[test]
fn a_changed_bit_is_an_error_that_names_file_and_offset_also_in_the_last_group() {
    for seed in 0..300 {
        let disk = disk(seed);
        let mut log = Log::new(&disk, 1000);
        for records in 1..8 {
            log.commit(records).unwrap();
        }
        // The control file has tests of its own.
        disk.remove(CONTROL).unwrap();
        let (name, offset) = disk.flip_bit().unwrap();
        match read(&disk) {
            Err(Error::Corrupt(message)) => {
                let place = message.strip_prefix(&*name).unwrap_or_else(|| panic!("seed {seed}: {message}"));
                let place = place.strip_prefix(", offset ").and_then(|place| place.split(':').next());
                let place: u64 = place.unwrap().parse().unwrap();
                assert!(place <= offset && offset < place + 200, "seed {seed}: {offset}: {message}");
            }
            Err(Error::CannotOpen(message)) => assert!(message.contains("newer"), "seed {seed}: {message}"),
            other => panic!("seed {seed}: {name}, {offset}: {other:?}"),
        }
    }
}

#[test]
fn room_is_made_ahead_and_is_no_part_of_the_log() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 5000);
    log.writer = log.writer.with_room(2000);
    let length = |segment: SegmentNumber| read_file(&disk, &segment.file_name(), 1 << 20).unwrap().len() as u64;
    let mut lengths = Vec::new();
    for commit in 1..=60 {
        log.commit(1).unwrap();
        assert_eq!(read(&disk), Ok((numbers(commit), false)));
        lengths.push(length(log.writer.segments().last().unwrap().0));
    }
    lengths.dedup();
    assert!(lengths.len() < 20, "a file seldom grows: {lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 5200), "{lengths:?}");
    log.writer.close().unwrap();
    assert_eq!(read(&disk), Ok((numbers(60), false)));

    // A byte other than zero is found there, whether the segment is sealed or not.
    let name = log.writer.segments().last().unwrap().0.file_name();
    let mut bytes = read_file(&disk, &name, 1 << 20).unwrap();
    *bytes.last_mut().unwrap() = 1;
    disk.overwrite(&name, bytes);
    assert!(matches!(read(&disk), Err(Error::Corrupt(message)) if message.contains("behind the end")));
}

#[test]
fn zeros_before_the_tail_are_damage() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 1 << 20);
    for _ in 0..20 {
        log.commit(3).unwrap();
    }
    let name = SegmentNumber::FIRST.file_name();
    let whole = read_file(&disk, &name, 1 << 20).unwrap();
    let mut last_is_torn = 0;
    for sector in 0..whole.len() / 512 {
        let mut bytes = whole.clone();
        bytes[sector * 512..(sector + 1) * 512].fill(0);
        disk.overwrite(&name, bytes);
        match read(&disk) {
            Ok((left, true)) => {
                assert!(left.len() >= 57, "sector {sector}: {left:?}");
                last_is_torn += 1;
            }
            Err(Error::Corrupt(_)) => {}
            other => panic!("sector {sector}: {other:?}"),
        }
    }
    assert!(last_is_torn <= 2, "{last_is_torn}");
}

#[test]
fn segments_that_are_not_ours() {
    let disk = disk(1);
    Log::new(&disk, 1000).commit(1).unwrap();
    let open = |database| SegmentReader::open(&disk, SegmentNumber::FIRST, Some(database)).map(|_| ());
    assert_eq!(open(IDENTITY.database), Ok(()));
    assert!(matches!(open(DatabaseId(8)), Err(Error::Corrupt(message)) if message.contains("is of database")));
    disk.rename(&SegmentNumber::FIRST.file_name(), &SegmentNumber(5).file_name()).unwrap();
    let error = SegmentReader::open(&disk, SegmentNumber(5), None).unwrap_err();
    assert_eq!(error.to_string(), "log-00000000000000000005 holds segment 1 of the log");
}

#[test]
fn nothing_is_written_after_a_failure() {
    let disk = disk(1);
    let mut log = Log::new(&disk, 1000);
    log.commit(2).unwrap();
    disk.set_faults(Faults { full: 1, ..Faults::default() });
    assert_eq!(log.commit(2).unwrap_err().sqlstate(), "53100");
    disk.set_faults(Faults::default());
    let operations = disk.operations();
    assert_eq!(log.commit(2).unwrap_err().sqlstate(), "53100");
    assert_eq!(log.writer.sync().unwrap_err().sqlstate(), "53100");
    assert_eq!(log.writer.close().unwrap_err().sqlstate(), "53100");
    assert_eq!(disk.operations(), operations);
    assert_eq!(read(&disk).unwrap(), (vec![1, 2], true));
}
