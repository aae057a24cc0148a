//! A replay in progress.

use thermocline_machine::caught;
use thermocline_machine::ids::{Micros, Sequence, TransactionId};
use thermocline_types::{Class, Error, Result};

use super::plan::{Plan, Progress, Recovered, of_other_partitions, unfinished};
use super::{Halt, ReadOnly, Replay, SnapshotRows};
use crate::Semantics;
use crate::disk::Disk;
use crate::log::{Body, Group, LogEnd, Next, Opened, Record, SegmentNumber, SegmentReader};
use crate::snapshot::read_definitions;

/// Applies the snapshot and the records after it to a state.
pub(super) struct Run<'a> {
    plan: &'a Plan,
    disk: &'a dyn Disk,
    replay: &'a mut dyn Replay,
    report: &'a mut dyn FnMut(&Progress),
    recovered: Recovered,
    /// Last record of the last transaction that was replayed completely; initially that of the snapshot.
    last: Sequence,
    /// Transaction of which only some records have been replayed; `None` between two.
    open: Option<TransactionId>,
}

impl<'a> Run<'a> {
    pub fn new(
        plan: &'a Plan,
        disk: &'a dyn Disk,
        replay: &'a mut dyn Replay,
        report: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let snapshot = plan.snapshot.as_ref();
        let rows_total = snapshot.iter().flat_map(|snapshot| &snapshot.partitions).map(|file| file.rows).sum();
        let recovered = Recovered {
            end: plan.log_end(),
            transaction: TransactionId(0),
            timestamp: Micros(i64::MIN),
            progress: Progress { rows_total, ..Progress::default() },
            cut: false,
            older: None,
            read_only: None,
        };
        let last = snapshot.map_or(Sequence::ZERO, |snapshot| snapshot.position);
        Self { plan, disk, replay, report, recovered, last, open: None }
    }

    /// Loads and replays up to and including this record; an error if its transaction has further records.
    pub fn run(mut self, until: Sequence, torn: bool) -> Result<Recovered, Halt> {
        self.load()?;
        let stopped = match self.segments(until) {
            // No record of the damaged group has been replayed.
            Err(Halt::Failed(error @ Error::Corrupt(_))) => Some(error),
            replayed => {
                replayed?;
                None
            }
        };
        let is_all = until == Sequence(u64::MAX);
        if let (Some(open), false) = (self.open, is_all) {
            return Err(Halt::Failed(Class::InvalidParameter.error(format_args!(
                "log record {until} is in the middle of transaction {}: the state before that is the one of record {}",
                open.0, self.last
            ))));
        }
        self.replay.finish().map_err(|error| self.differs(error, None))?;
        let wrong = if is_all { self.plan.wrong().or(stopped) } else { stopped };
        let end = LogEnd { next: self.last.next(), ..self.recovered.end.clone() };
        let read_only = match wrong {
            Some(cause) if self.is_empty() => return Err(cause.into()),
            Some(cause) => Some(ReadOnly { until: self.last, cause, older: None }),
            None => None,
        };
        Ok(Recovered { end, cut: torn && read_only.is_none(), read_only, ..self.recovered })
    }

    /// Whether there is nothing to show: neither a snapshot nor a record.
    fn is_empty(&self) -> bool {
        self.plan.snapshot.is_none() && self.last == Sequence::ZERO
    }

    /// Outcome of a replay that ended with this error.
    fn differs(&self, error: Error, older: Option<Semantics>) -> Halt {
        match error {
            // Includes panics.
            cause @ (Error::Corrupt(_) | Error::Internal(_)) if !self.is_empty() => {
                Halt::Differs(Box::new(ReadOnly { until: self.last, cause, older }))
            }
            error => error.into(),
        }
    }

    /// Loads the snapshot.
    fn load(&mut self) -> Result<()> {
        let Some(snapshot) = &self.plan.snapshot else { return Ok(()) };
        (self.recovered.transaction, self.recovered.timestamp) = (snapshot.transaction, snapshot.timestamp);
        self.replay.definitions(snapshot.identity(), &read_definitions(self.disk, snapshot)?)?;
        let (progress, report) = (&mut self.recovered.progress, &mut *self.report);
        self.replay.rows(&SnapshotRows::new(self.plan, self.disk, snapshot), &mut |rows| {
            progress.rows += rows;
            report(progress);
        })
    }

    /// Replays the log after it.
    fn segments(&mut self, until: Sequence) -> Result<(), Halt> {
        let segments = self.plan.uncovered();
        if let Some((_, before)) = segments.split_last() {
            for segment in before {
                self.recovered.progress.log_bytes_total += self.disk.open(&segment.file_name())?.length()?;
            }
            // Room or a torn group may follow.
            self.recovered.progress.log_bytes_total += self.plan.log.end;
        }
        (self.report)(&self.recovered.progress);
        let mut before: Option<SegmentNumber> = None;
        let mut next = None;
        for (place, segment) in segments.iter().enumerate() {
            if self.last >= until {
                break;
            }
            if let Some(missing) = before.map(SegmentNumber::next).filter(|expected| expected != segment) {
                return Err(Error::corrupt(format_args!("{} is missing", missing.file_name())).into());
            }
            next = self.segment(*segment, place + 1 == segments.len(), next, until)?;
            if next.is_none() {
                break;
            }
            before = Some(*segment);
        }
        Ok(())
    }

    /// Replays a segment that must begin with the record `next`, or, if that is `None`, at or before the first record
    /// after the snapshot. Returns the sequence after the segment, or `None` once a record is past `until`.
    fn segment(
        &mut self,
        segment: SegmentNumber,
        last: bool,
        next: Option<Sequence>,
        until: Sequence,
    ) -> Result<Option<Sequence>, Halt> {
        let identity = self.plan.identity();
        let Opened::Reader(mut reader) =
            SegmentReader::open(self.disk, segment, identity.map(|identity| identity.database))?
        else {
            return Err(unfinished(segment).into());
        };
        let header = reader.header();
        let follows = match next {
            Some(next) => header.first == next,
            None => header.first <= self.last.next(),
        };
        if !follows {
            let (name, next) = (segment.file_name(), next.unwrap_or(self.last.next()));
            return Err(Error::corrupt(format_args!(
                "{name} begins with record {}, and {next} is the next",
                header.first
            ))
            .into());
        }
        let before = self.recovered.progress.log_bytes;
        let mut window = Window::default();
        loop {
            let end = window.fill(&mut reader);
            let records: Vec<Record<'_>> = Group::records_of(&window.bytes).collect();
            let mut rest = &*records;
            for (count, offset) in &window.groups {
                for _ in 0..*count {
                    let Some((record, behind)) = rest.split_first() else { break };
                    rest = behind;
                    if record.sequence <= self.plan.position {
                        continue;
                    }
                    if record.sequence > until {
                        return Ok(None);
                    }
                    if let Some(identity) = identity.filter(|identity| *identity != header.identity) {
                        return Err(of_other_partitions(segment, header.identity.partitions, identity).into());
                    }
                    self.plan.check_interrupt()?;
                    let wanted = behind.partition_point(|later| later.sequence <= until);
                    self.record(record, header.semantics, behind.get(..wanted).unwrap_or_default())?;
                }
                self.recovered.progress.log_bytes = before + offset;
                (self.report)(&self.recovered.progress);
            }
            match end? {
                WindowEnd::Full => {}
                WindowEnd::Sealed => break,
                WindowEnd::End if last => break,
                WindowEnd::End => return Err(unfinished(segment).into()),
            }
        }
        Ok(Some(reader.next_sequence()))
    }

    fn record(&mut self, record: &Record<'_>, semantics: Semantics, behind: &[Record<'_>]) -> Result<(), Halt> {
        let older = (semantics < Semantics::CURRENT).then_some(semantics);
        let replayed =
            caught(format_args!("log record {}", record.sequence), || self.replay.record(record, semantics, behind));
        replayed.and_then(|replayed| replayed).map_err(|error| self.differs(error, older))?;
        if matches!(record.body, Body::Part(_)) {
            self.open = Some(record.transaction);
        } else {
            (self.last, self.open) = (record.sequence, None);
        }
        let recovered = &mut self.recovered;
        recovered.older = recovered.older.into_iter().chain(older).min();
        recovered.progress.records += 1;
        recovered.transaction = recovered.transaction.max(record.transaction);
        recovered.timestamp = recovered.timestamp.max(record.timestamp);
        Ok(())
    }
}

/// Bytes of records in a window from which on no further group is added.
const WINDOW_BYTES: usize = 256 << 10;
/// Records from which on none is.
const WINDOW_RECORDS: u32 = 256;

/// Whole groups of a segment that follow each other: while one of their records is replayed, those behind it are known.
#[derive(Debug, Default)]
struct Window {
    /// Records.
    bytes: Vec<u8>,
    /// Number of records of each group, and the offset behind it.
    groups: Vec<(u32, u64)>,
}

/// What follows a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowEnd {
    /// There may be more.
    Full,
    /// The segment was ended on purpose.
    Sealed,
    /// The segment ends, or has a write that did not complete.
    End,
}

impl Window {
    /// Reads the next groups. Those before one that cannot be read are there in any case.
    fn fill(&mut self, reader: &mut SegmentReader) -> Result<WindowEnd> {
        self.bytes.clear();
        self.groups.clear();
        let mut records = 0;
        while self.bytes.len() < WINDOW_BYTES && records < WINDOW_RECORDS {
            let count = match reader.next_group()? {
                Next::Group(group) => {
                    self.bytes.extend_from_slice(group.bytes());
                    group.count()
                }
                Next::Sealed => return Ok(WindowEnd::Sealed),
                Next::End | Next::Torn => return Ok(WindowEnd::End),
            };
            records += count;
            self.groups.push((count, reader.offset()));
        }
        Ok(WindowEnd::Full)
    }
}
