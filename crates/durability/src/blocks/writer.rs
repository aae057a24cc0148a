//! Blocks on their way to the disk: partitions do not wait for it.
//!
//! ```text
//!  BlockStore::put --> SegmentWrites: blocks of one segment, in order
//!                  --> BlockWrites: whose turn it is --> BlockWriter: appends them
//!                             |
//!                             +-- too many bytes wait: whoever puts one more writes one, too
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use thermocline_machine::{EventCount, Machine, Step, Wait};
use thermocline_types::Error;

use crate::disk::AppendFile;

/// Bytes of blocks that wait for the disk, of all partitions.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// A block that is read from memory until it is in its file.
#[derive(Debug)]
pub(super) struct PendingBlock {
    pub bytes: Vec<u8>,
    state: AtomicU8,
}

const WAITS: u8 = 0;
const WRITTEN: u8 = 1;
const FAILED: u8 = 2;

impl PendingBlock {
    /// A block with these bytes, not written yet.
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, state: AtomicU8::new(WAITS) })
    }

    /// Lets it be written to another file.
    pub fn retry(&self) {
        self.state.store(WAITS, Ordering::Release);
    }

    /// Whether its file has it.
    pub fn is_written(&self) -> bool {
        self.state.load(Ordering::Acquire) == WRITTEN
    }

    /// Whether its file will never have it.
    pub fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }
}

/// The file of a segment that is being written.
#[derive(Debug)]
pub(super) struct SegmentWrites {
    /// Locked while a block is written.
    file: Mutex<Box<dyn AppendFile>>,
    waiting: Mutex<VecDeque<Arc<PendingBlock>>>,
    /// Why it takes no more blocks; unset while it does.
    failed: OnceLock<Error>,
}

impl SegmentWrites {
    /// A file at whose end blocks are to be written.
    pub fn new(file: Box<dyn AppendFile>) -> Arc<Self> {
        Arc::new(Self { file: Mutex::new(file), waiting: Mutex::default(), failed: OnceLock::new() })
    }

    /// Why a block could not be written.
    pub fn error(&self) -> Option<Error> {
        self.failed.get().cloned()
    }

    /// Writes the block that waits longest; the file is locked before that is chosen, so that blocks keep their order.
    fn write_one(&self) {
        let mut file = self.file.lock();
        let Some(block) = self.waiting.lock().pop_front() else { return };
        if self.failed.get().is_none()
            && let Err(error) = file.append(&block.bytes)
        {
            // Nobody else sets it: the file is locked.
            let _set = self.failed.set(error);
        }
        block.state.store(if self.failed.get().is_none() { WRITTEN } else { FAILED }, Ordering::Release);
    }
}

/// Blocks of all partitions that wait for the disk.
#[derive(Debug)]
pub struct BlockWrites {
    state: Mutex<State>,
    arrived: Arc<EventCount>,
    waiting_bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    /// A segment for each block that waits, with the block's bytes.
    turns: VecDeque<(Arc<SegmentWrites>, usize)>,
    bytes: usize,
    is_closed: bool,
}

impl BlockWrites {
    /// Writes for a [`BlockWriter`] to do.
    pub fn new() -> Arc<Self> {
        Self::with_limit(WAITING_BYTES_MAX)
    }

    /// Writes that are done at once by whoever wants them.
    pub fn at_once() -> Arc<Self> {
        Self::with_limit(0)
    }

    /// Writes of which this many bytes may wait.
    pub fn with_limit(waiting_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), arrived: EventCount::new(), waiting_bytes_max })
    }

    /// Adds a block to those of a segment. Writes others while more than `most` bytes wait, or more than ever may.
    pub(super) fn push(&self, segment: &Arc<SegmentWrites>, block: Arc<PendingBlock>, most: usize) {
        let most = most.min(self.waiting_bytes_max);
        let bytes = block.bytes.len();
        segment.waiting.lock().push_back(block);
        let mut state = self.state.lock();
        state.turns.push_back((Arc::clone(segment), bytes));
        state.bytes += bytes;
        drop(state);
        self.arrived.advance();
        while self.state.lock().bytes > most && self.write_one() {}
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.state.lock().turns.is_empty()
    }

    /// Writes a block, if one waits.
    fn write_one(&self) -> bool {
        let mut state = self.state.lock();
        let Some((segment, bytes)) = state.turns.pop_front() else { return false };
        state.bytes -= bytes;
        drop(state);
        segment.write_one();
        true
    }

    /// Writes all that waits.
    pub(super) fn write_all(&self) {
        while self.write_one() {}
    }

    /// Ends the writer once nothing waits.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.advance();
    }
}

/// Writes blocks of all partitions.
#[derive(Debug)]
pub struct BlockWriter {
    writes: Arc<BlockWrites>,
}

impl BlockWriter {
    /// A writer, which ends when these are closed.
    pub fn new(writes: &Arc<BlockWrites>) -> Self {
        Self { writes: Arc::clone(writes) }
    }
}

impl Machine for BlockWriter {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        let seen = self.writes.arrived.seen();
        if self.writes.write_one() {
            return Step::Go;
        }
        if self.writes.state.lock().is_closed {
            return Step::Over(());
        }
        Step::Wait(Wait::new(&self.writes.arrived, seen))
    }
}
