//! A replay in progress.

use thermocline_machine::caught;
use thermocline_machine::ids::{Micros, Sequence, TransactionId};
use thermocline_types::{Class, Error, Result};

use super::plan::{Plan, Progress, Recovered, of_other_partitions, unfinished};
use super::{Halt, ReadOnly, Replay, SnapshotRows};
use crate::Semantics;
use crate::disk::Disk;
use crate::log::{Body, LogEnd, Next, Opened, Record, SegmentNumber, SegmentReader};
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
        loop {
            match reader.next_group()? {
                Next::Group(group) => {
                    for record in group.records().filter(|record| record.sequence > self.plan.position) {
                        if record.sequence > until {
                            return Ok(None);
                        }
                        if let Some(identity) = identity.filter(|identity| *identity != header.identity) {
                            return Err(of_other_partitions(segment, header.identity.partitions, identity).into());
                        }
                        self.plan.check_interrupt()?;
                        self.record(&record, header.semantics)?;
                    }
                    self.recovered.progress.log_bytes = before + reader.offset();
                    (self.report)(&self.recovered.progress);
                }
                Next::Sealed => break,
                Next::End | Next::Torn if last => break,
                Next::End | Next::Torn => return Err(unfinished(segment).into()),
            }
        }
        Ok(Some(reader.next_sequence()))
    }

    fn record(&mut self, record: &Record<'_>, semantics: Semantics) -> Result<(), Halt> {
        let older = (semantics < Semantics::CURRENT).then_some(semantics);
        let replayed = caught(format_args!("log record {}", record.sequence), || self.replay.record(record, semantics));
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
