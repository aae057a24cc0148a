//! Reading what there is, and acting on it.

use std::collections::VecDeque;

use super::Replay;
use super::choice::{Choice, LogState, SnapshotState, choose};
use crate::disk::{Disk, TEMPORARY};
use crate::ids::{Identity, Micros, PartitionId, Sequence, TransactionId};
use crate::log::{CONTROL, Control, LogEnd, Next, Opened, SegmentNumber, SegmentReader, end_of_segment, list_segments};
use crate::snapshot::{
    Manifest, RowFileReader, RowsHeader, list_snapshots, read_definitions, remove_snapshots, remove_unfinished,
};
use crate::{Error, Result};

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What the files of a database are, and what is to be done about them.
#[derive(Debug)]
pub struct Plan {
    snapshot_state: SnapshotState,
    log_state: LogState,
    /// The error that says what is damaged and where.
    damage: Option<Error>,
    identity: Option<Identity>,
    snapshot: Option<Manifest>,
    /// Where the newest snapshot is, whole or not; zero without one.
    position: Sequence,
    /// What the directory says of itself; `None` if that is nothing, or damaged.
    control: Option<Control>,
    log: Log,
}

/// The segments, oldest first.
#[derive(Debug, Default)]
struct Log {
    /// Those with records, and the sequence that each begins with.
    segments: VecDeque<(SegmentNumber, Sequence)>,
    /// Where the groups of the last of them end, and whether more stands behind.
    end: u64,
    /// A segment behind them that has no records.
    empty: Option<SegmentNumber>,
    /// The sequence after the last record.
    next: Option<Sequence>,
    torn: bool,
}

/// How far recovery is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows loaded from the snapshot.
    pub rows: u64,
    /// Rows in the snapshot.
    pub rows_total: u64,
    /// Bytes of the log replayed.
    pub log_bytes: u64,
    /// Bytes of the log that are not covered by the snapshot, or not much more.
    pub log_bytes_total: u64,
    /// Records replayed.
    pub records: u64,
}

/// Where a recovered database goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Where the log goes on.
    pub end: LogEnd,
    /// The largest number of a transaction in the files.
    pub transaction: TransactionId,
    /// The latest timestamp in the files; time goes on from there even if the clock was set back.
    pub timestamp: Micros,
    /// What was read.
    pub progress: Progress,
    /// Whether the last group was left out, because it was not written to its end.
    pub cut: bool,
}

impl Plan {
    /// Looks at all files; changes nothing. An error is one of reading, not of what was read.
    pub fn make(disk: &dyn Disk) -> Result<Self> {
        let (control, control_damage) = match Control::read(disk) {
            Err(error @ Error::Corrupt(_)) => (None, Some(error)),
            control => (control?, None),
        };
        let mut damage = None;
        let position = list_snapshots(disk)?.last().copied();
        let snapshot = match position.map(|position| Manifest::read(disk, position)) {
            Some(Err(error @ Error::Corrupt(_))) => {
                damage = Some(error);
                None
            }
            other => other.transpose()?,
        };
        let stranger = snapshot.as_ref().map(Manifest::identity);
        let snapshot = match (stranger, control) {
            (Some(stranger), Some(control)) if stranger != control.identity => {
                let other = control.identity.database;
                let message = format_args!("it is of database {}, and the directory of {other}", stranger.database);
                damage = Some(Error::corrupt(message));
                None
            }
            _ => snapshot,
        };
        let snapshot_state = match (&snapshot, position) {
            (Some(_), _) => SnapshotState::Whole,
            (None, Some(_)) => SnapshotState::Damaged,
            (None, None) => SnapshotState::None,
        };
        let position = position.unwrap_or(Sequence::ZERO);
        let mut identity = control.map_or(snapshot.as_ref().map(Manifest::identity), |control| Some(control.identity));
        let (log, log_state) = match Log::look(disk, &mut identity) {
            Ok((log, None)) => {
                let state = log.state(position);
                (log, state)
            }
            Ok((log, Some(LogState::Damaged))) => (log, LogState::Damaged),
            Ok((log, Some(state))) => (log, state),
            Err(error @ Error::Corrupt(_)) => {
                damage = Some(error);
                (Log::default(), LogState::Damaged)
            }
            Err(error) => return Err(error),
        };
        let newest = log.segments.back().map(|(newest, _)| *newest);
        let missing = control.and_then(|control| control.segment).filter(|told| newest < Some(*told));
        let log_state = match (log_state, missing) {
            _ if control_damage.is_some() => LogState::Damaged,
            (LogState::Damaged | LogState::Gap, _) | (_, None) => log_state,
            (_, Some(told)) => {
                damage = damage.or_else(|| Some(missing_segment(told, newest)));
                LogState::Missing
            }
        };
        let damage = control_damage.or(damage);
        Ok(Self { snapshot_state, log_state, damage, identity, snapshot, position, control, log })
    }

    /// What to do.
    pub fn choice(&self) -> Choice {
        choose(self.snapshot_state, self.log_state)
    }

    /// What the files say of the database; `None` if there are none.
    pub const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// The newest snapshot.
    pub const fn snapshot(&self) -> Option<&Manifest> {
        self.snapshot.as_ref()
    }

    /// The choice, unless it is to refuse.
    pub(crate) fn accepted(&self) -> Result<Choice> {
        match self.choice() {
            Choice::Refuse(why) => Err(Error::corrupt(match &self.damage {
                Some(damage) => format!("{why}: {damage}"),
                None => format!("{why} ({} is where the newest snapshot is)", self.position),
            })),
            accepted => Ok(accepted),
        }
    }

    /// Where the log goes on.
    pub fn log_end(&self) -> LogEnd {
        let next = self.log.next.unwrap_or(self.position.next());
        let behind = self.log.segments.back().map_or(SegmentNumber::FIRST, |(last, _)| last.next());
        let next_segment = self.log.empty.unwrap_or(behind);
        LogEnd { next, next_segment, segments: self.log.segments.clone() }
    }

    /// Makes the directory one that a log can go on in: what was never finished is removed, and the last
    /// segment replaced by a copy of its whole groups that is durable and sealed. Ending in the middle is
    /// no harm.
    pub fn repair(&self, disk: &dyn Disk) -> Result<LogEnd> {
        self.accepted()?;
        remove_unfinished(disk)?;
        if let Some(snapshot) = &self.snapshot {
            remove_snapshots(disk, snapshot.position)?;
        }
        if let Some(empty) = self.log.empty {
            disk.remove(&empty.file_name())?;
            disk.sync_directory()?;
        }
        let end = self.log_end();
        if let Some((last, _)) = self.log.segments.back() {
            let name = last.file_name();
            let temporary = format!("{name}{TEMPORARY}");
            let from = disk.open(&name)?;
            let mut to = disk.create(&temporary)?;
            let mut offset = 0;
            let mut buffer = vec![0; COPY_BYTES];
            while offset < self.log.end {
                let rest = usize::try_from(self.log.end - offset).unwrap_or(usize::MAX).min(COPY_BYTES);
                let piece = buffer.get_mut(..rest).unwrap_or_default();
                if from.read_at(offset, piece)? < rest {
                    return Err(Error::corrupt(format_args!("{name}, offset {offset}: changes while it is read")));
                }
                to.append(piece)?;
                offset += rest as u64;
            }
            to.append(&end_of_segment(*last, end.next))?;
            to.sync()?;
            drop(to);
            disk.rename(&temporary, &name)?;
            disk.sync_directory()?;
        }
        if let Some(identity) = self.identity.filter(|_| !end.segments.is_empty()) {
            let control = Control { identity, segment: end.segments.back().map(|(last, _)| *last) };
            if self.control != Some(control) {
                control.write(disk)?;
            }
        }
        Ok(end)
    }

    /// Feeds the snapshot and the records behind it to `replay`; changes nothing on the disk.
    pub fn replay(
        &self,
        disk: &dyn Disk,
        replay: &mut dyn Replay,
        report: &mut dyn FnMut(&Progress),
    ) -> Result<Recovered> {
        self.accepted()?;
        let rows_total = self.snapshot.iter().flat_map(|snapshot| &snapshot.partitions).map(|file| file.rows).sum();
        let recovered = Recovered {
            end: self.log_end(),
            transaction: TransactionId(0),
            timestamp: Micros(i64::MIN),
            progress: Progress { rows_total, ..Progress::default() },
            cut: self.log_state == LogState::Torn,
        };
        let mut run = Run { plan: self, disk, replay, report, recovered };
        run.load()?;
        run.replay()?;
        run.replay.finish()?;
        Ok(run.recovered)
    }

    /// The segments that have a record behind the snapshot, and perhaps one more.
    fn uncovered(&self) -> Vec<SegmentNumber> {
        let segments = &self.log.segments;
        let from = segments.iter().rposition(|(_, first)| *first <= self.position.next()).unwrap_or(0);
        segments.iter().skip(from).map(|(segment, _)| *segment).collect()
    }
}

/// A replay under way.
struct Run<'a> {
    plan: &'a Plan,
    disk: &'a dyn Disk,
    replay: &'a mut dyn Replay,
    report: &'a mut dyn FnMut(&Progress),
    recovered: Recovered,
}

impl Run<'_> {
    /// The snapshot.
    fn load(&mut self) -> Result<()> {
        let Some(snapshot) = &self.plan.snapshot else { return Ok(()) };
        (self.recovered.transaction, self.recovered.timestamp) = (snapshot.transaction, snapshot.timestamp);
        self.replay.definitions(snapshot.identity(), &read_definitions(self.disk, snapshot)?)?;
        let (database, position) = (snapshot.database, snapshot.position);
        for (partition, file) in (0..).map(PartitionId).zip(&snapshot.partitions) {
            let header = RowsHeader { database, position, partition };
            let mut reader = RowFileReader::open(self.disk, header, *file)?;
            while let Some(chunk) = reader.next_chunk()? {
                self.replay.rows(partition, &chunk)?;
                self.recovered.progress.rows += u64::from(chunk.count);
                (self.report)(&self.recovered.progress);
            }
        }
        Ok(())
    }

    /// The log behind it.
    fn replay(&mut self) -> Result<()> {
        let segments = self.plan.uncovered();
        if let Some((_, before)) = segments.split_last() {
            for segment in before {
                self.recovered.progress.log_bytes_total += self.disk.open(&segment.file_name())?.length()?;
            }
            // Behind that there may be room, or a torn group.
            self.recovered.progress.log_bytes_total += self.plan.log.end;
        }
        (self.report)(&self.recovered.progress);
        let mut expected = None;
        for (place, segment) in segments.iter().enumerate() {
            let (first, next) = self.segment(*segment, place + 1 == segments.len())?;
            if expected.is_some_and(|expected| expected != first) {
                let name = segment.file_name();
                return Err(Error::corrupt(format_args!(
                    "{name} begins with record {first}, not where the last ended"
                )));
            }
            expected = Some(next);
        }
        Ok(())
    }

    /// Gives back the sequences that the segment begins with, and that comes after it.
    fn segment(&mut self, segment: SegmentNumber, last: bool) -> Result<(Sequence, Sequence)> {
        let Opened::Reader(mut reader) = SegmentReader::open(self.disk, segment, self.plan.identity)? else {
            return Err(unfinished(segment));
        };
        let first = reader.header().first;
        let before = self.recovered.progress.log_bytes;
        loop {
            match reader.next_group()? {
                Next::Group(group) => {
                    for record in group.records().filter(|record| record.sequence > self.plan.position) {
                        self.replay.record(&record)?;
                        self.recovered.progress.records += 1;
                        self.recovered.transaction = self.recovered.transaction.max(record.transaction);
                        self.recovered.timestamp = self.recovered.timestamp.max(record.timestamp);
                    }
                    self.recovered.progress.log_bytes = before + reader.offset();
                    (self.report)(&self.recovered.progress);
                }
                Next::Sealed => break,
                Next::End | Next::Torn if last => break,
                Next::End | Next::Torn => return Err(unfinished(segment)),
            }
        }
        Ok((first, reader.next_sequence()))
    }
}

fn missing_segment(told: SegmentNumber, newest: Option<SegmentNumber>) -> Error {
    let told = told.file_name();
    Error::corrupt(match newest {
        Some(newest) => format!("{CONTROL} says that it goes up to {told}, and it goes up to {}", newest.file_name()),
        None => format!("{CONTROL} says that it goes up to {told}, and there is none (log-*)"),
    })
}

fn unfinished(segment: SegmentNumber) -> Error {
    Error::corrupt(format_args!("{} has no end, and is not the last", segment.file_name()))
}

impl Log {
    /// Looks at all segments' headers and at all of the last one. The state is `None` if it depends on
    /// the snapshot.
    fn look(disk: &dyn Disk, identity: &mut Option<Identity>) -> Result<(Self, Option<LogState>)> {
        let mut log = Self::default();
        let numbers = list_segments(disk)?;
        let gap = numbers.windows(2).any(|pair| matches!(pair, [one, other] if one.next() != *other));
        for (place, number) in numbers.iter().enumerate() {
            let last = place + 1 == numbers.len();
            match SegmentReader::open(disk, *number, *identity)? {
                Opened::Reader(reader) => {
                    *identity = Some(reader.header().identity);
                    log.segments.push_back((*number, reader.header().first));
                    log.next = Some(reader.header().first);
                    if last && !log.look_at_last(reader)? {
                        log.segments.pop_back();
                        log.look_before(disk, *identity, *number)?;
                    }
                }
                Opened::Torn if last => log.look_before(disk, *identity, *number)?,
                Opened::Torn => return Err(unfinished(*number)),
            }
        }
        Ok((log, gap.then_some(LogState::Gap)))
    }

    /// Reads the last segment to its end; false if it has no records.
    fn look_at_last(&mut self, mut reader: SegmentReader) -> Result<bool> {
        loop {
            self.end = reader.offset();
            match reader.next_group()? {
                Next::Group(_) => {}
                Next::Sealed | Next::End => break,
                Next::Torn => {
                    self.torn = true;
                    break;
                }
            }
        }
        let first = self.next.replace(reader.next_sequence());
        Ok(first != self.next)
    }

    /// The last segment has no records: the one before it says where the log ends.
    fn look_before(&mut self, disk: &dyn Disk, identity: Option<Identity>, empty: SegmentNumber) -> Result<()> {
        self.empty = Some(empty);
        let Some((before, _)) = self.segments.back() else { return Ok(()) };
        let Opened::Reader(mut reader) = SegmentReader::open(disk, *before, identity)? else {
            return Err(unfinished(*before));
        };
        loop {
            self.end = reader.offset();
            match reader.next_group()? {
                Next::Group(_) => {}
                Next::Sealed => break,
                Next::End | Next::Torn => return Err(unfinished(*before)),
            }
        }
        self.next = Some(reader.next_sequence());
        Ok(())
    }

    /// Compared with a snapshot at this position.
    fn state(&self, position: Sequence) -> LogState {
        let Some(next) = self.next else { return LogState::Absent };
        match self.segments.front() {
            _ if next <= position => LogState::Early,
            Some((_, first)) if *first > position.next() => LogState::Late,
            None if next > position.next() => LogState::Late,
            _ if self.torn => LogState::Torn,
            None => LogState::Absent,
            Some(_) => LogState::Whole,
        }
    }
}
