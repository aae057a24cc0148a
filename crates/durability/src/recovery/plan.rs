//! Reads the files of a database and acts on them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use thermocline_machine::ids::{Identity, Micros, Sequence, TransactionId};
use thermocline_machine::interrupt::Interrupt;
use thermocline_types::{Error, Result};

use super::choice::{Choice, LogState, SnapshotState, choose};
use super::run::Run;
use super::{Halt, ReadOnly, Replay};
use crate::Semantics;
use crate::backup::check_whole;
use crate::blocks::{BlockFiles, Segment};
use crate::damage::missing_bytes;
use crate::disk::{Disk, TEMPORARY, read_pieces};
use crate::log::{
    CONTROL, Control, LogEnd, LogExtent, Next, Opened, SegmentNumber, SegmentReader, end_of_segment, list_segments,
};
use crate::snapshot::{Manifest, list_snapshots, remove_snapshots, remove_unfinished};

/// Files of a database, and the recovery planned from them.
#[derive(Debug)]
pub struct Plan {
    snapshot_state: SnapshotState,
    log_state: LogState,
    /// First damage found, with its place.
    damage: Option<Error>,
    identity: Option<Identity>,
    pub(super) snapshot: Option<Manifest>,
    /// Position of the newest snapshot, whole or not; zero without one.
    pub(super) position: Sequence,
    /// The directory's control file; `None` if it is missing or damaged.
    control: Option<Control>,
    pub(super) log: Log,
    /// Stops a replay; `None` if nothing does.
    interrupt: Option<Arc<Interrupt>>,
    /// Whether a replay goes on without rows that cannot be read.
    pub(super) loses: bool,
    /// Files of blocks that are missing, to which the snapshot refers. None unless it `loses` rows.
    pub(super) missing: BTreeSet<Segment>,
}

/// The segments, oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Segments with records and a readable header, each with its first sequence.
    segments: VecDeque<(SegmentNumber, Sequence)>,
    /// End of the groups of the last segment.
    pub(super) end: u64,
    /// A segment after them without records.
    empty: Option<SegmentNumber>,
    /// Number of partitions named by each segment whose header can be read.
    partitions: Vec<(SegmentNumber, u16)>,
    /// The sequence after the last record.
    next: Option<Sequence>,
    /// Whether the last of them is sealed.
    is_sealed: bool,
    torn: bool,
}

/// Progress of recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows loaded from the snapshot.
    pub rows: u64,
    /// Rows in the snapshot.
    pub rows_total: u64,
    /// Bytes of the log replayed.
    pub log_bytes: u64,
    /// Bytes of the log not covered by the snapshot, and of at most a segment more.
    pub log_bytes_total: u64,
    /// Records replayed.
    pub records: u64,
}

/// State from which a recovered database continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Where the log continues.
    pub end: LogEnd,
    /// Largest transaction number in the files.
    pub transaction: TransactionId,
    /// Latest timestamp in the files; time continues from there even if the clock was set back.
    pub timestamp: Micros,
    /// Amounts read.
    pub progress: Progress,
    /// Whether the last group was left out because it was incomplete.
    pub cut: bool,
    /// Oldest semantics that replayed records ran with, if older than this program's.
    pub older: Option<Semantics>,
    /// Why this is not the state of the last record; `None` if it is.
    pub read_only: Option<ReadOnly>,
}

impl Plan {
    /// Reads all files and changes nothing. Damage is part of the plan.
    ///
    /// # Errors
    /// If a file cannot be read, or is of a newer version, or the files are a part of an interrupted copy.
    pub fn make(disk: &dyn Disk) -> Result<Self> {
        Self::make_with(disk, false)
    }

    /// [`Plan::make`] for a replay that goes on without rows in blocks that cannot be read, whose keys cannot be read
    /// either: files of blocks may be missing or too short. A look-up does not find these rows, so what comes out is to be
    /// copied without them, and not to be used.
    ///
    /// # Errors
    /// See there.
    pub fn losing(disk: &dyn Disk) -> Result<Self> {
        Self::make_with(disk, true)
    }

    fn make_with(disk: &dyn Disk, loses: bool) -> Result<Self> {
        check_whole(disk)?;
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
        let stranger = snapshot.as_ref().map(|snapshot| snapshot.database);
        let snapshot = match (stranger, control) {
            (Some(stranger), Some(control)) if stranger != control.identity.database => {
                let other = control.identity.database;
                let message = format_args!("it is of database {stranger}, and the directory of {other}");
                damage = Some(Error::corrupt(message));
                None
            }
            _ => snapshot,
        };
        let missing = snapshot.as_ref().map_or(Ok(Vec::new()), |snapshot| snapshot.references.missing(disk))?;
        let snapshot = match (snapshot, missing.first()) {
            (Some(snapshot), Some((extent, length))) if !loses => {
                damage = Some(missing_bytes(disk, &snapshot, *extent, *length));
                None
            }
            (snapshot, _) => snapshot,
        };
        let missing = missing.into_iter().filter(|(_, length)| length.is_none());
        let missing = missing.map(|(extent, _)| extent.segment).collect();
        let snapshot_state = match (&snapshot, position) {
            (Some(_), _) => SnapshotState::Whole,
            (None, Some(_)) => SnapshotState::Damaged,
            (None, None) => SnapshotState::None,
        };
        let position = position.unwrap_or(Sequence::ZERO);
        // A snapshot whose number of partitions differs from the control file's is the one that changed it.
        let mut identity = snapshot.as_ref().map(Manifest::identity).or(control.map(|control| control.identity));
        let (log, gap, log_damage) = Log::look(disk, &mut identity)?;
        let log_damage = log_damage.or_else(|| log.of_other_partitions(identity?, position));
        let is_damaged = control_damage.is_some() || log_damage.is_some();
        let log_state = match gap {
            _ if is_damaged => LogState::Damaged,
            true => LogState::Gap,
            false => log.state(position),
        };
        // Damage of the snapshot comes first: without it the rest would not matter.
        damage = damage.or(control_damage).or(log_damage);
        let newest = log.segments.back().map(|(newest, _)| *newest);
        let missing_log = match control.map(|control| control.log) {
            Some(LogExtent::Ended(told)) if newest == Some(told) && !log.is_sealed => Some(missing_end(told, log.end)),
            Some(LogExtent::UpTo(told) | LogExtent::Ended(told)) if newest < Some(told) => {
                Some(missing_segment(told, newest))
            }
            _ => None,
        };
        let log_state = match (log_state, missing_log) {
            (LogState::Damaged | LogState::Gap, _) | (_, None) => log_state,
            (_, Some(missing)) => {
                damage = damage.or(Some(missing));
                LogState::Missing
            }
        };
        let interrupt = None;
        Ok(Self {
            snapshot_state,
            log_state,
            damage,
            identity,
            snapshot,
            position,
            control,
            log,
            interrupt,
            loses,
            missing,
        })
    }

    /// Lets `interrupt` stop its replays.
    #[must_use]
    pub fn with_interrupt(self, interrupt: &Arc<Interrupt>) -> Self {
        Self { interrupt: Some(Arc::clone(interrupt)), ..self }
    }

    /// Plans again from the current files, with the same interrupt.
    pub fn made_again(&self, disk: &dyn Disk) -> Result<Self> {
        Ok(Self { interrupt: self.interrupt.clone(), ..Self::make_with(disk, self.loses)? })
    }

    /// An error once the replay is to stop.
    pub fn check_interrupt(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check())
    }

    /// An error unless there is a state to show.
    pub fn check(&self) -> Result<()> {
        match (self.choice(), self.wrong()) {
            (Choice::Refuse(_), Some(wrong)) => Err(wrong),
            _ => Ok(()),
        }
    }

    /// Approximate number of bytes that a replay reads.
    pub fn bytes(&self, disk: &dyn Disk) -> Result<u64> {
        let rows: u64 = self.snapshot.iter().flat_map(|snapshot| &snapshot.partitions).map(|file| file.bytes).sum();
        let mut log = 0;
        for segment in self.uncovered() {
            log += disk.open(&segment.file_name())?.length()?;
        }
        Ok(rows + log)
    }

    /// The choice for these files.
    pub fn choice(&self) -> Choice {
        choose(self.snapshot_state, self.log_state)
    }

    /// Identity of the database; `None` if no readable file names it.
    pub const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// The files of blocks in the directory, with those to which the newest snapshot refers.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn block_files(&self, disk: &Arc<dyn Disk>) -> Result<Arc<BlockFiles>> {
        let snapshot = self.snapshot.as_ref().map(|snapshot| (snapshot.position, &snapshot.references));
        BlockFiles::open(Arc::clone(disk), snapshot)
    }

    /// [`Plan::block_files`] of a database that is to be copied: none is removed.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn block_files_to_copy(&self, disk: &Arc<dyn Disk>) -> Result<Arc<BlockFiles>> {
        BlockFiles::open_to_copy(Arc::clone(disk), self.snapshot.as_ref().map(|snapshot| &snapshot.references))
    }

    /// The newest snapshot; `None` if there is none, or it is damaged.
    pub const fn snapshot(&self) -> Option<&Manifest> {
        self.snapshot.as_ref()
    }

    /// The problem with the files; `None` if they give the state of the last record.
    pub fn wrong(&self) -> Option<Error> {
        let (Choice::Refuse(why) | Choice::Show { why, .. }) = self.choice() else { return None };
        Some(Error::corrupt(match &self.damage {
            Some(damage) => format!("{why}: {damage}"),
            None => format!("{why} ({} is where the newest snapshot is)", self.position),
        }))
    }

    /// Where the log continues.
    pub fn log_end(&self) -> LogEnd {
        let next = self.log.next.unwrap_or(self.position.next());
        let behind = self.log.segments.back().map_or(SegmentNumber::FIRST, |(last, _)| last.next());
        let next_segment = self.log.empty.unwrap_or(behind);
        LogEnd { next, next_segment, segments: self.log.segments.clone() }
    }

    /// Prepares the directory for a log that continues: removes unfinished files, earlier snapshots and a last segment
    /// without records, replaces the last segment with records by a copy of its whole groups that is durable and
    /// sealed, and writes its name into the control file. Stopping in the middle does no harm. If something is wrong
    /// with the files, returns an error and changes nothing.
    pub fn repair(&self, disk: &dyn Disk) -> Result<LogEnd> {
        self.wrong().map_or(Ok(()), Err)?;
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
            if let Err(error) = self.copy_sealed(disk, *last, end.next, &temporary) {
                // On a full disk the copy would occupy the room that somebody frees for it.
                let _ = disk.remove(&temporary);
                let Error::DiskFull(what) = error else { return Err(error) };
                let directory = disk.location().map_or("the directory".into(), |path| path.display().to_string());
                let bytes = self.log.end + end_of_segment(*last, end.next).len() as u64;
                return Err(Error::DiskFull(
                    format!(
                        "{what}: a start copies the end of the log to {temporary}, which needs {bytes} bytes of free \
                         space in {directory}"
                    )
                    .into(),
                ));
            }
            disk.rename(&temporary, &name)?;
            disk.sync_directory()?;
        }
        if let (Some(identity), Some((last, _))) = (self.identity, end.segments.back()) {
            let control = Control { identity, log: LogExtent::Ended(*last) };
            if self.control != Some(control) {
                control.write(disk)?;
            }
        }
        Ok(end)
    }

    /// Copies the whole groups of the last segment, followed by a seal, into a durable file.
    fn copy_sealed(&self, disk: &dyn Disk, last: SegmentNumber, next: Sequence, into: &str) -> Result<()> {
        let name = last.file_name();
        let from = disk.open(&name)?;
        let mut to = disk.create(into)?;
        let mut offset = 0;
        let copied = read_pieces(&*from, self.log.end, &mut |piece| {
            offset += piece.len() as u64;
            to.append(piece)
        });
        if copied?.is_none() {
            return Err(Error::corrupt(format_args!("{name}, offset {offset}: changes while it is read")));
        }
        to.append(&end_of_segment(last, next))?;
        to.sync()
    }

    /// Feeds the snapshot and the records after it to `replay`; changes nothing on the disk. If the log cannot be
    /// replayed to its end, the state of the last good record is [read-only](Recovered::read_only).
    pub fn replay(
        &self,
        disk: &dyn Disk,
        replay: &mut dyn Replay,
        report: &mut dyn FnMut(&Progress),
    ) -> Result<Recovered, Halt> {
        self.replay_until(disk, replay, Sequence(u64::MAX), report)
    }

    /// [`replay`](Self::replay) up to and including this record.
    pub fn replay_until(
        &self,
        disk: &dyn Disk,
        replay: &mut dyn Replay,
        until: Sequence,
        report: &mut dyn FnMut(&Progress),
    ) -> Result<Recovered, Halt> {
        self.check()?;
        Run::new(self, disk, replay, report).run(until, self.log_state == LogState::Torn)
    }

    /// The segments that have a record after the snapshot, and perhaps one more.
    pub(super) fn uncovered(&self) -> Vec<SegmentNumber> {
        let segments = &self.log.segments;
        let from = segments.iter().rposition(|(_, first)| *first <= self.position.next()).unwrap_or(0);
        segments.iter().skip(from).map(|(segment, _)| *segment).collect()
    }
}

fn missing_segment(told: SegmentNumber, newest: Option<SegmentNumber>) -> Error {
    let told = told.file_name();
    Error::corrupt(match newest {
        Some(newest) => format!("{CONTROL} says that it goes up to {told}, and it goes up to {}", newest.file_name()),
        None => format!("{CONTROL} says that it goes up to {told}, and there is none (log-*)"),
    })
}

fn missing_end(ended: SegmentNumber, end: u64) -> Error {
    let ended = ended.file_name();
    Error::corrupt(format_args!("{ended} was written to its end, {CONTROL} says, and it breaks off at offset {end}"))
}

pub(super) fn of_other_partitions(segment: SegmentNumber, partitions: u16, identity: Identity) -> Error {
    let (name, there) = (segment.file_name(), identity.partitions);
    Error::corrupt(format_args!("{name} is of the database with {partitions} partitions, and it has {there}"))
}

pub(super) fn unfinished(segment: SegmentNumber) -> Error {
    Error::corrupt(format_args!("{} has no end, and is not the last", segment.file_name()))
}

impl Log {
    /// Reads all segments' headers and all of the last segment; also returns whether a segment is missing between two
    /// others, and the first damage.
    fn look(disk: &dyn Disk, identity: &mut Option<Identity>) -> Result<(Self, bool, Option<Error>)> {
        let (mut log, mut damage) = (Self::default(), None);
        let numbers = list_segments(disk)?;
        let gap = numbers.windows(2).any(|pair| matches!(pair, [one, other] if one.next() != *other));
        for (place, number) in numbers.iter().enumerate() {
            match log.look_at(disk, *number, place + 1 == numbers.len(), identity) {
                // Other segments may still continue from the snapshot.
                Err(error @ Error::Corrupt(_)) => damage = damage.or(Some(error)),
                looked => looked?,
            }
        }
        Ok((log, gap, damage))
    }

    fn look_at(
        &mut self,
        disk: &dyn Disk,
        number: SegmentNumber,
        last: bool,
        identity: &mut Option<Identity>,
    ) -> Result<()> {
        match SegmentReader::open(disk, number, identity.map(|identity| identity.database))? {
            Opened::Reader(reader) => {
                let header = reader.header();
                identity.get_or_insert(header.identity);
                self.partitions.push((number, header.identity.partitions));
                self.segments.push_back((number, reader.header().first));
                self.next = Some(reader.header().first);
                if last && !self.look_at_last(reader)? {
                    self.segments.pop_back();
                    self.look_before(disk, *identity, number)?;
                }
                Ok(())
            }
            Opened::Torn if last => self.look_before(disk, *identity, number),
            Opened::Torn => Err(unfinished(number)),
        }
    }

    /// Reads the last segment to its end; returns false if it has no records.
    fn look_at_last(&mut self, mut reader: SegmentReader) -> Result<bool> {
        loop {
            self.end = reader.offset();
            match reader.next_group()? {
                Next::Group(_) => {}
                Next::End => break,
                Next::Sealed => {
                    self.is_sealed = true;
                    break;
                }
                Next::Torn => {
                    self.torn = true;
                    break;
                }
            }
        }
        let first = self.next.replace(reader.next_sequence());
        Ok(first != self.next)
    }

    /// Finds the end of the log in the segment before the last, which has no records.
    fn look_before(&mut self, disk: &dyn Disk, identity: Option<Identity>, empty: SegmentNumber) -> Result<()> {
        self.empty = Some(empty);
        let Some((before, _)) = self.segments.back() else { return Ok(()) };
        let Opened::Reader(mut reader) =
            SegmentReader::open(disk, *before, identity.map(|identity| identity.database))?
        else {
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
        self.is_sealed = true;
        Ok(())
    }

    /// Error for segments written with another number of partitions, which only a later snapshot can change.
    fn of_other_partitions(&self, identity: Identity, position: Sequence) -> Option<Error> {
        let end_of = |number: SegmentNumber| {
            let behind = self.segments.iter().find(|(segment, _)| *segment > number);
            behind.map(|(_, first)| *first).or(self.next)
        };
        let is_wrong = |(number, partitions): &&(SegmentNumber, u16)| {
            *partitions != identity.partitions && end_of(*number).is_none_or(|end| end > position.next())
        };
        let (number, partitions) = self.partitions.iter().find(is_wrong)?;
        Some(of_other_partitions(*number, *partitions, identity))
    }

    /// State of the log compared with a snapshot at this position.
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
