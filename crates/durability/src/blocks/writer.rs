//! Blocks on their way to the disk: partitions do not wait for it.
//!
//! ```text
//!  BlockStore::put --> SegmentWrites: blocks of one segment, in order
//!                  --> BlockWrites: whose turn it is --> BlockWriter: appends them
//!                             |
//!                             +-- too many bytes wait: whoever puts one more writes some, too
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crc32c::{crc32c, crc32c_append};
use parking_lot::Mutex;
use thermocline_machine::{EventCount, Machine, Step, Wait};
use thermocline_types::{Error, Result};

use crate::disk::AppendFile;

/// Bytes of blocks that wait for the disk, of all partitions.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// Bytes of blocks of one segment that are appended together, unless one has more. A disk that is busy with reads takes
/// as long for a block as for this, and a writer that takes one at a time would fall behind eviction.
const TOGETHER_BYTES: usize = 1 << 20;

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

/// The file of a segment that this process writes, or has written.
#[derive(Debug)]
pub(super) struct SegmentWrites {
    /// Locked while a block is written.
    file: Mutex<Written>,
    waiting: Mutex<VecDeque<Arc<PendingBlock>>>,
    /// Whether nothing will be added.
    is_complete: AtomicBool,
    /// Why it takes no more blocks; unset while it does.
    failed: OnceLock<Error>,
    /// Why its bytes may be lost in a crash.
    not_synced: OnceLock<Error>,
}

#[derive(Debug)]
struct Written {
    /// `None` once it is complete and synced.
    file: Option<Box<dyn AppendFile>>,
    bytes: u64,
    /// Of these bytes.
    checksum: u32,
}

impl SegmentWrites {
    /// A file with this header, behind which blocks are to be written.
    pub fn new(file: Box<dyn AppendFile>, header: &[u8]) -> Arc<Self> {
        let written = Written { file: Some(file), bytes: header.len() as u64, checksum: crc32c(header) };
        Arc::new(Self {
            file: Mutex::new(written),
            waiting: Mutex::default(),
            is_complete: AtomicBool::new(false),
            failed: OnceLock::new(),
            not_synced: OnceLock::new(),
        })
    }

    /// Why a block could not be written.
    pub fn error(&self) -> Option<Error> {
        self.failed.get().cloned()
    }

    /// Whether a crash may take its bytes although they were to be synced.
    pub fn may_be_lost(&self) -> bool {
        self.not_synced.get().is_some()
    }

    /// Writes the blocks that wait longest, so many at most; the file is locked before they are chosen, so that blocks
    /// keep their order. If none waits and none will, the file is synced and closed, if `syncs`.
    fn write_some(&self, blocks: usize, syncs: bool) -> bool {
        let mut written = self.file.lock();
        // In this order: what is added before it is complete is found.
        let is_complete = self.is_complete.load(Ordering::Acquire);
        let next = self.take_waiting(blocks);
        if next.is_empty() {
            if syncs && is_complete && self.sync_written(&mut written).is_ok() {
                written.file = None;
            }
            return false;
        }
        if self.failed.get().is_none() {
            let closed = || Err(Error::internal("a block for a file that is closed"));
            let together = match &*next {
                [only] => Cow::Borrowed(only.bytes.as_slice()),
                all => Cow::Owned(all.iter().map(|block| block.bytes.as_slice()).collect::<Vec<_>>().concat()),
            };
            match written.file.as_mut().map_or_else(closed, |file| file.append(&together)) {
                Ok(()) => {
                    written.bytes += together.len() as u64;
                    written.checksum = crc32c_append(written.checksum, &together);
                }
                Err(error) => {
                    // Nobody else sets it: the file is locked.
                    let _set = self.failed.set(error);
                }
            }
        }
        let state = if self.failed.get().is_none() { WRITTEN } else { FAILED };
        next.iter().for_each(|block| block.state.store(state, Ordering::Release));
        true
    }

    /// As many blocks as had their turn: if it were fewer, some would wait without one.
    fn take_waiting(&self, blocks: usize) -> Vec<Arc<PendingBlock>> {
        let mut waiting = self.waiting.lock();
        let count = blocks.min(waiting.len());
        waiting.drain(..count).collect()
    }

    /// Writes what waits, and makes it outlast a crash; returns the number of bytes in the file, and their checksum.
    ///
    /// # Errors
    /// If it, or an earlier part, may be lost in a crash.
    pub fn sync(&self) -> Result<(u64, u32)> {
        while self.write_some(1, true) {}
        let mut written = self.file.lock();
        self.sync_written(&mut written)?;
        Ok((written.bytes, written.checksum))
    }

    fn sync_written(&self, written: &mut Written) -> Result<()> {
        if let Some(error) = self.not_synced.get() {
            return Err(error.clone());
        }
        let Some(file) = &mut written.file else { return Ok(()) };
        // After a failure, another attempt may succeed without the bytes.
        file.sync().inspect_err(|error| drop(self.not_synced.set(error.clone())))
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

    /// Adds a block to those of a segment. Writes others while more than `most` bytes wait, or more than ever may, but
    /// leaves syncs to the writer: the caller's partition does nothing else meanwhile.
    pub(super) fn push(&self, segment: &Arc<SegmentWrites>, block: Arc<PendingBlock>, most: usize) {
        let most = most.min(self.waiting_bytes_max);
        let bytes = block.bytes.len();
        segment.waiting.lock().push_back(block);
        let mut state = self.state.lock();
        state.turns.push_back((Arc::clone(segment), bytes));
        state.bytes += bytes;
        drop(state);
        self.arrived.advance();
        loop {
            let mut state = self.state.lock();
            if state.bytes <= most {
                break;
            }
            let is_block = |(_, bytes): &(_, usize)| *bytes > 0;
            let Some((segment, bytes)) =
                state.turns.iter().position(is_block).and_then(|next| state.turns.remove(next))
            else {
                break;
            };
            state.bytes -= bytes;
            drop(state);
            segment.write_some(1, false);
        }
    }

    /// Lets a segment be synced and closed behind its last block.
    pub(super) fn complete(&self, segment: &Arc<SegmentWrites>) {
        segment.is_complete.store(true, Ordering::Release);
        self.state.lock().turns.push_back((Arc::clone(segment), 0));
        self.arrived.advance();
        if self.waiting_bytes_max == 0 {
            self.write_all();
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.state.lock().turns.is_empty()
    }

    /// Writes the blocks whose turn it is, as far as they are of one segment, if any wait.
    fn write_next(&self) -> bool {
        let mut state = self.state.lock();
        let Some((segment, mut bytes)) = state.turns.pop_front() else { return false };
        let mut blocks = 1;
        let fits = |bytes: usize, (next, more): &(Arc<SegmentWrites>, usize)| {
            *more > 0 && bytes > 0 && bytes + more <= TOGETHER_BYTES && Arc::ptr_eq(next, &segment)
        };
        while let Some((_, more)) = state.turns.pop_front_if(|next| fits(bytes, next)) {
            (bytes, blocks) = (bytes + more, blocks + 1);
        }
        state.bytes -= bytes;
        drop(state);
        segment.write_some(blocks, true);
        true
    }

    /// Writes all that waits.
    pub(super) fn write_all(&self) {
        while self.write_next() {}
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
        if self.writes.write_next() {
            return Step::Go;
        }
        if self.writes.state.lock().is_closed {
            return Step::Over(());
        }
        Step::Wait(Wait::new(&self.writes.arrived, seen))
    }
}
