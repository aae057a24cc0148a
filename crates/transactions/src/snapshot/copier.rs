//! Copies the rows of one partition while its transactions go on.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::rows::{CHUNK_BYTES, ChunkBuilder};
use crate::partition::{Partition, PreImages};
use crate::schema::TableId;
use crate::table::{Budget, Change, TupleId, Working};
use crate::{Error, Result};

/// A partition's share of a snapshot.
///
/// ```text
///  begin (at the barrier)      step                       step
/// -----------------------> copying -----> copying ... -----------> done
///                             |   changed(row not copied yet): its image of before is copied
///                             |
///                             +-- too many images wait, or a definition --> failed
/// ```
///
/// For each table, with `cursor` the next id to copy and `bound` above all ids at the barrier:
/// - a row below `cursor`, or marked in `done`, has been copied if it was there at the barrier
/// - an id from `cursor` on that is not marked is as it was at the barrier
/// - an id from `bound` on was free at the barrier
/// - `cursor` and the marks only grow
///
/// Steps run in the partition's thread, between transactions; chunks are taken by whoever writes or
/// reads them, which holds the lock for a moment. Dropping it ends the copying.
#[derive(Debug)]
pub struct Copier {
    state: Arc<Mutex<State>>,
}

/// What a step of copying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is more to copy.
    More,
    /// All rows are in chunks.
    Done,
}

/// Invariant: `charged` is what the budget was told, and [`State::memory_bytes`] after each change.
#[derive(Debug)]
struct State {
    /// Tables that are not copied yet; the first is being copied.
    tables: VecDeque<TableCopy>,
    open: ChunkBuilder,
    /// Complete chunks that have not been taken.
    chunks: VecDeque<Vec<u8>>,
    chunk_bytes: usize,
    bytes_max: usize,
    failed: Option<Error>,
    budget: Arc<Budget>,
    charged: usize,
}

#[derive(Debug)]
struct TableCopy {
    table: TableId,
    cursor: TupleId,
    bound: TupleId,
    /// A bit for each id below `bound` that changed after the barrier before the cursor came to it.
    done: Vec<u64>,
}

impl Copier {
    /// Starts with a partition that stands at the barrier. At most `bytes_max` bytes wait in memory: if
    /// transactions change rows faster than the chunks are taken, the copy fails rather than hold up
    /// transactions or take their memory.
    ///
    /// Replicated tables are copied from the first partition only.
    pub fn begin(partition: &mut Partition, bytes_max: usize) -> Self {
        let first = partition.id().0 == 0;
        let tables = partition
            .tables()
            .filter(|table| first || table.definition().partition_by.is_some())
            .map(|table| {
                let (table, bound) = (table.definition().id, table.id_bound());
                // Ids are 31 bits, so this fits.
                let words = usize::try_from(bound.0.div_ceil(u64::BITS)).unwrap_or(0);
                TableCopy { table, cursor: TupleId(0), bound, done: vec![0; words] }
            })
            .collect();
        let (open, chunks, budget) = (ChunkBuilder::default(), VecDeque::new(), Arc::clone(partition.budget()));
        let mut state = State { tables, open, chunks, chunk_bytes: 0, bytes_max, failed: None, budget, charged: 0 };
        state.charge();
        let state = Arc::new(Mutex::new(state));
        partition.watch(Box::new(Watcher { state: Arc::downgrade(&state) }));
        Self { state }
    }

    /// Looks at up to so many ids and copies the rows, up to about a chunk.
    pub fn step(&self, partition: &Partition, ids: u32) -> Result<Step> {
        let state = &mut *self.state.lock();
        let (mut left, mut bytes) = (ids, 0);
        while left > 0 && bytes < CHUNK_BYTES {
            state.check()?;
            let Some(copy) = state.tables.front_mut() else { break };
            let table = partition.table(copy.table)?;
            let next = table.next(copy.cursor).filter(|id| *id < copy.bound);
            let Some(id) = next else {
                state.tables.pop_front();
                continue;
            };
            copy.cursor = TupleId(id.0 + 1);
            let table_id = copy.table;
            if !copy.is_done(id) {
                let image = table.row(id)?.image();
                bytes += image.len();
                state.push(table_id, id, image);
            }
            left -= 1;
        }
        state.check()?;
        if !state.tables.is_empty() {
            return Ok(Step::More);
        }
        if let Some(chunk) = state.open.take() {
            state.keep(chunk);
        }
        state.charge();
        Ok(Step::Done)
    }

    /// A chunk to be written, if one is complete.
    pub fn take_chunk(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let chunk = state.chunks.pop_front()?;
        state.chunk_bytes -= chunk.capacity();
        state.charge();
        Some(chunk)
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.state.lock().memory_bytes()
    }
}

impl TableCopy {
    fn is_done(&self, id: TupleId) -> bool {
        let word = self.done.get(id.0 as usize / 64).copied().unwrap_or(0);
        word >> (id.0 % 64) & 1 == 1
    }

    /// Marks an id; false if it was marked, or needs no mark.
    fn mark(&mut self, id: TupleId) -> bool {
        if id < self.cursor || id >= self.bound || self.is_done(id) {
            return false;
        }
        if let Some(word) = self.done.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 % 64);
        }
        true
    }
}

impl State {
    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn push(&mut self, table: TableId, id: TupleId, image: &[u8]) {
        if let Some(chunk) = self.open.push(table, id, image) {
            self.keep(chunk);
        }
        self.charge();
    }

    fn keep(&mut self, chunk: Vec<u8>) {
        self.chunk_bytes += chunk.capacity();
        self.chunks.push_back(chunk);
        if self.chunk_bytes > self.bytes_max {
            let message = format!("a copy of the rows has more than {} bytes waiting", self.bytes_max);
            self.fail(Error::OutOfMemory(message.into()));
        } else if let Err(full) = self.budget.check_working(0) {
            // Transactions need the memory more.
            self.fail(Error::OutOfMemory(format!("a copy of the rows: {full}").into()));
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        (self.chunks, self.chunk_bytes, self.open) = (VecDeque::new(), 0, ChunkBuilder::default());
        self.tables.clear();
        self.charge();
    }

    fn memory_bytes(&self) -> usize {
        let marks: usize = self.tables.iter().map(|copy| copy.done.len() * 8).sum();
        self.chunk_bytes + self.open.memory_bytes() + marks
    }

    fn charge(&mut self) {
        let bytes = self.memory_bytes();
        self.budget.resize_working(Working::Snapshots, self.charged, bytes);
        self.charged = bytes;
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.budget.resize_working(Working::Snapshots, self.charged, 0);
    }
}

#[derive(Debug)]
struct Watcher {
    state: Weak<Mutex<State>>,
}

impl PreImages for Watcher {
    fn changed(&mut self, change: Change<'_>) -> bool {
        let Some(state) = self.state.upgrade() else { return false };
        let state = &mut *state.lock();
        let Some(copy) = state.tables.iter_mut().find(|copy| copy.table == change.table) else {
            return !state.tables.is_empty();
        };
        if copy.mark(change.id)
            && let Some(before) = change.before
        {
            state.push(change.table, change.id, before);
        }
        true
    }

    fn defined(&mut self) {
        if let Some(state) = self.state.upgrade() {
            let state = &mut *state.lock();
            // What is copied completely keeps its shape.
            if !state.tables.is_empty() {
                state.fail(Error::Retry("the schema has changed while rows were copied".into()));
            }
        }
    }
}
