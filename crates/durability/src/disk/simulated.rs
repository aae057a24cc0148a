//! A disk in memory that fails by seed.
//!
//! ```text
//!             append               sync                    power lost
//!  (nothing) --------> unsynced ---------> durable       unsynced, lost: each sector stays or not
//!                          |                             durable: stays
//!                          | sync fails
//!                          +---------> lost (still readable)
//! ```
//!
//! Invariants:
//! - `durable`, `unsynced` and `lost` ranges of a file cover its bytes
//! - a durable byte never changes, except by [`SimulatedDisk::flip_bit`], or if it is room
//! - names after a power loss = `durable_names` and the first few of `changes`
//! - the counts only grow

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::random::Random;
use thermocline_types::{Error, Result};

use crate::disk::{AppendFile, DirectoryLock, Disk, ReadFile, SECTOR};

mod faults;

pub use faults::{Crash, FaultCounts, Faults};

/// A directory that lives as long as its handles and outlasts simulated crashes; cloning gives
/// another handle.
#[derive(Debug, Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    random: Random,
    faults: Faults,
    counts: FaultCounts,
    /// Operations that changed something, so far.
    operations: u64,
    /// The operation in the middle of which the process ends.
    crash_at: Option<u64>,
    crashed: bool,
    /// Number of this start; handles of earlier starts are dead.
    start: u64,
    locked: bool,
    files: BTreeMap<FileId, Content>,
    file_next: FileId,
    /// Names as the running process sees them.
    names: BTreeMap<String, FileId>,
    durable_names: BTreeMap<String, FileId>,
    /// Changes of names since the last sync of the directory, oldest first.
    changes: Vec<Change>,
}

type FileId = u64;

#[derive(Debug, Clone)]
enum Change {
    Create(String, FileId),
    Rename(String, String),
    Remove(String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Create(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// How many of the bytes were appended; the rest is room.
    appended: usize,
    /// From the first to the last byte that no sync has covered.
    unsynced: Option<Range<usize>>,
    /// Ranges covered by a sync that failed.
    lost: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Create,
    Append,
    Sync,
    SyncDirectory,
    Rename,
    Remove,
}

/// How far an operation gets.
enum Outcome {
    Done,
    /// The process ends; the operation has taken effect or not.
    Crash {
        effective: bool,
    },
}

impl SimulatedDisk {
    /// An empty directory.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let state = State {
            random: Random::new(seed),
            faults,
            counts: FaultCounts::default(),
            operations: 0,
            crash_at: None,
            crashed: false,
            start: 0,
            locked: false,
            files: BTreeMap::new(),
            file_next: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Ends the process in the middle of the operation after this many more (0: the next one).
    pub fn crash_after(&self, operations: Option<u64>) {
        let mut state = self.state.lock();
        state.crash_at = operations.map(|after| state.operations + after);
    }

    /// Sets another frequency of faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// Whether the process has ended, so that every operation fails until [`SimulatedDisk::restart`].
    pub fn crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// Operations that changed something, so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Counts of faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.state.lock().counts
    }

    /// Ends the process, if it has not ended, and starts another one on the files that remain.
    pub fn restart(&self, crash: Crash) {
        let state = &mut *self.state.lock();
        match crash {
            Crash::Process => state.counts.process_crashes += 1,
            Crash::Power => {
                state.counts.power_losses += 1;
                state.lose_power();
            }
        }
        state.start += 1;
        state.crashed = false;
        state.crash_at = None;
        state.locked = false;
    }

    /// Flips one bit of one file and returns its place; `None` if all files are empty.
    pub fn flip_bit(&self) -> Option<(String, u64)> {
        let state = &mut *self.state.lock();
        let files: Vec<_> = state.names.iter().filter(|(_, id)| !state.is_empty(**id)).collect();
        let (name, id) = state.random.pick(&files).map(|(name, id)| ((*name).clone(), **id))?;
        let content = state.files.get_mut(&id)?;
        let offset = state.random.index(content.bytes.len());
        *content.bytes.get_mut(offset)? ^= 1 << state.random.below(8);
        state.counts.flipped_bits += 1;
        Some((name, offset as u64))
    }

    /// Replaces a file's bytes, all of them durable, to test damage beyond a single bit.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        let state = &mut *self.state.lock();
        let id = state.names.get(name).copied().unwrap_or(state.file_next);
        state.file_next = state.file_next.max(id + 1);
        state.names.insert(name.to_owned(), id);
        state.durable_names.insert(name.to_owned(), id);
        state.files.insert(id, Content { appended: bytes.len(), bytes, ..Content::default() });
    }
}

impl State {
    fn is_empty(&self, id: FileId) -> bool {
        self.files.get(&id).is_none_or(|content| content.bytes.is_empty())
    }

    fn alive(&self, start: u64) -> Result<()> {
        if self.crashed || self.start != start {
            return Err(Error::Io("the simulated process has ended".into()));
        }
        Ok(())
    }

    /// Counts an operation and decides whether the process ends in its middle.
    fn begin(&mut self, start: u64, operation: Operation) -> Result<Outcome> {
        self.alive(start)?;
        let number = self.operations;
        self.operations += 1;
        if self.crash_at != Some(number) {
            return Ok(Outcome::Done);
        }
        self.crashed = true;
        let counts = &mut self.counts;
        *match operation {
            Operation::Create => &mut counts.crashes_in_create,
            Operation::Append => &mut counts.crashes_in_append,
            Operation::Sync => &mut counts.crashes_in_sync,
            Operation::SyncDirectory => &mut counts.crashes_in_sync_directory,
            Operation::Rename => &mut counts.crashes_in_rename,
            Operation::Remove => &mut counts.crashes_in_remove,
        } += 1;
        Ok(Outcome::Crash { effective: self.random.one_in(2) })
    }

    /// Changes names; `change` is not called if the process ends before it takes effect.
    fn change(&mut self, start: u64, operation: Operation, change: Change) -> Result<()> {
        let outcome = self.begin(start, operation)?;
        if !matches!(outcome, Outcome::Crash { effective: false }) {
            change.apply(&mut self.names);
            self.changes.push(change);
        }
        self.end(&outcome)
    }

    fn end(&self, outcome: &Outcome) -> Result<()> {
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Crash { .. } => self.alive(self.start),
        }
    }

    fn id(&self, name: &str) -> Result<FileId> {
        self.names.get(name).copied().ok_or_else(|| Error::Io(format!("{name} does not exist").into()))
    }

    fn lose_power(&mut self) {
        let kept = self.random.index(self.changes.len() + 1);
        self.counts.lost_names += (self.changes.len() - kept) as u64;
        for change in self.changes.drain(..).take(kept) {
            change.apply(&mut self.durable_names);
        }
        self.names = self.durable_names.clone();
        let names = &self.names;
        self.files.retain(|id, _| names.values().any(|named| named == id));
        for content in self.files.values_mut() {
            content.lose_power(&mut self.random, &mut self.counts);
        }
    }
}

impl Content {
    fn append(&mut self, bytes: &[u8]) {
        let start = self.appended;
        self.appended += bytes.len();
        self.bytes.resize(self.bytes.len().max(self.appended), 0);
        if let Some(place) = self.bytes.get_mut(start..self.appended) {
            place.copy_from_slice(bytes);
        }
        self.note_unsynced(start..self.appended);
    }

    fn make_room(&mut self, bytes: usize) {
        let (start, end) = (self.bytes.len(), self.appended + bytes);
        if end > start {
            self.bytes.resize(end, 0);
            self.note_unsynced(start..end);
        }
    }

    fn note_unsynced(&mut self, range: Range<usize>) {
        let before = self.unsynced.take().unwrap_or_else(|| range.clone());
        self.unsynced = Some(before.start.min(range.start)..before.end.max(range.end));
    }

    /// Keeps some sectors of the bytes that are not durable; the others become zeros or are cut off the end of the
    /// file.
    fn lose_power(&mut self, random: &mut Random, counts: &mut FaultCounts) {
        let after_failure = self.lost.len();
        let doubtful: Vec<Range<usize>> = self.lost.drain(..).chain(self.unsynced.take()).collect();
        let whole = self.bytes.len();
        for (place, range) in doubtful.iter().enumerate() {
            // No sector, all sectors, or any of them.
            let keep_of_4 = *random.pick(&[0, 4, 1, 2, 3]).unwrap_or(&0);
            let (mut kept, mut dropped, mut hole) = (0_usize, 0_usize, false);
            for piece in sectors(range.clone()) {
                if random.below(4) < keep_of_4 {
                    kept += piece.len();
                    hole |= dropped > 0;
                } else {
                    dropped += piece.len();
                    self.bytes.get_mut(piece).unwrap_or_default().fill(0);
                }
            }
            counts.lost_writes += u64::from(kept == 0 && dropped > 0);
            counts.torn_writes += u64::from(kept > 0 && dropped > 0);
            counts.torn_writes_with_holes += u64::from(hole);
            counts.lost_after_sync_failure += if place < after_failure { dropped as u64 } else { 0 };
            // The length is metadata of its own, so the last range may end anywhere.
            if range.end == whole && dropped > 0 && random.one_in(2) {
                self.bytes.truncate(range.start + random.index(range.len() + 1));
            }
        }
    }
}

/// Splits a range at sector boundaries.
fn sectors(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let sector = usize::try_from(SECTOR).unwrap_or(usize::MAX);
    let mut start = range.start;
    std::iter::from_fn(move || {
        let piece = start..range.end.min((start / sector + 1) * sector);
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

impl Disk for SimulatedDisk {
    fn list(&self) -> Result<Vec<String>> {
        let state = self.state.lock();
        state.alive(state.start)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        let state = &mut *self.state.lock();
        if state.names.contains_key(name) {
            return Err(Error::Io(format!("cannot create {name}: it exists already").into()));
        }
        let file = state.file_next;
        state.file_next += 1;
        let start = state.start;
        state.change(start, Operation::Create, Change::Create(name.to_owned(), file))?;
        state.files.insert(file, Content::default());
        Ok(Box::new(SimulatedFile { disk: self.clone(), file, start, name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        let state = self.state.lock();
        state.alive(state.start)?;
        let file = state.id(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file, start: state.start, name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let state = &mut *self.state.lock();
        state.id(from)?;
        let start = state.start;
        state.change(start, Operation::Rename, Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let state = &mut *self.state.lock();
        state.id(name)?;
        let start = state.start;
        state.change(start, Operation::Remove, Change::Remove(name.to_owned()))
    }

    fn sync_directory(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        let outcome = state.begin(state.start, Operation::SyncDirectory)?;
        if matches!(outcome, Outcome::Done) && state.random.one_in(state.faults.sync) {
            state.counts.sync_failures += 1;
            return Err(Error::Io("cannot sync the directory: simulated failure".into()));
        }
        if !matches!(outcome, Outcome::Crash { effective: false }) {
            for change in state.changes.drain(..) {
                change.apply(&mut state.durable_names);
            }
        }
        state.end(&outcome)
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let mut state = self.state.lock();
        state.alive(state.start)?;
        if state.locked {
            return Err(Error::CannotOpen("another process has the simulated disk open".into()));
        }
        state.locked = true;
        Ok(Box::new(SimulatedLock { disk: self.clone(), start: state.start }))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: FileId,
    start: u64,
    name: String,
}

impl SimulatedFile {
    /// Calls `write` with the number of these bytes that get into the file.
    fn write(&self, bytes: usize, write: impl FnOnce(&mut Content, usize)) -> Result<()> {
        let state = &mut *self.disk.state.lock();
        let outcome = state.begin(self.start, Operation::Append)?;
        let full = matches!(outcome, Outcome::Done) && state.random.one_in(state.faults.full);
        let written = match outcome {
            Outcome::Done if full => state.random.index(bytes),
            Outcome::Done | Outcome::Crash { effective: true } => bytes,
            Outcome::Crash { effective: false } => state.random.index(bytes),
        };
        if let Some(content) = state.files.get_mut(&self.file) {
            write(content, written);
        }
        if full {
            state.counts.disk_full += 1;
            return Err(Error::DiskFull(format!("cannot write to {}: simulated disk is full", self.name).into()));
        }
        state.end(&outcome)
    }
}

impl AppendFile for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes.len(), |content, written| content.append(bytes.get(..written).unwrap_or_default()))
    }

    fn make_room(&mut self, bytes: u64) -> Result<()> {
        self.write(usize::try_from(bytes).unwrap_or(usize::MAX), Content::make_room)
    }

    fn sync(&mut self) -> Result<()> {
        let state = &mut *self.disk.state.lock();
        let outcome = state.begin(self.start, Operation::Sync)?;
        let fails = matches!(outcome, Outcome::Done) && state.random.one_in(state.faults.sync);
        if let Some(content) = state.files.get_mut(&self.file)
            && !matches!(outcome, Outcome::Crash { effective: false })
            && let Some(unsynced) = content.unsynced.take()
            && fails
        {
            content.lost.push(unsynced);
        }
        if fails {
            state.counts.sync_failures += 1;
            return Err(Error::Io(format!("cannot sync {}: simulated failure", self.name).into()));
        }
        state.end(&outcome)
    }
}

impl ReadFile for SimulatedFile {
    fn length(&self) -> Result<u64> {
        let state = self.disk.state.lock();
        state.alive(self.start)?;
        Ok(state.files.get(&self.file).map_or(0, |content| content.bytes.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let state = &mut *self.disk.state.lock();
        state.alive(self.start)?;
        if state.random.one_in(state.faults.read) {
            state.counts.read_failures += 1;
            return Err(Error::Io(format!("cannot read {}: simulated failure", self.name).into()));
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = state.files.get(&self.file).and_then(|content| content.bytes.get(offset..)).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        if let (Some(into), Some(from)) = (buffer.get_mut(..read), rest.get(..read)) {
            into.copy_from_slice(from);
        }
        Ok(read)
    }
}

#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    start: u64,
}

impl DirectoryLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        // The lock of an earlier start must not release the current one's.
        if state.start == self.start {
            state.locked = false;
        }
    }
}

#[cfg(test)]
mod tests;
