//! Copies the rows of one partition while its transactions go on.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thermocline_machine::ids::{LoadId, Sequence};
use thermocline_machine::{EventCount, Wait};
use thermocline_tables::partition::{Partition, PreImages};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{BlockPlace, Budget, Change, ScanFrontier, TupleId, TupleIds, Working};
use thermocline_types::{Error, Result};

use super::rows::{CHUNK_BYTES, ChunkBuilder, Kind};

/// Bytes that must be free in the budget for spare memory to be kept.
const SPARE_ROOM: usize = 8 * CHUNK_BYTES;
/// Bytes that a row in a block counts for in a step.
const PLACE_BYTES: usize = 64;
/// Divisor of the memory limit for the bytes that wait in memory.
const WAITING_SHARE: u64 = 64;

/// A partition's share of a snapshot.
///
/// ```text
///  begin (at the barrier)      step                       step
/// -----------------------> copying -----> copying ... -----------> done
///                             |   changed(row not copied yet): its image of before is copied
///                             |
///                             +-- a definition --> failed
/// ```
///
/// Rows may change faster than a disk takes images. If many wait, the partition's next transaction waits until some are
/// written ([`PreImages::held_up`]): a row is copied once, so a copy takes as long as the disk needs for all rows,
/// regardless of transactions. Without memory it waits for each chunk, so that a snapshot is possible however full
/// memory is: a copy takes a bit for each row, about two chunks for the copied rows and the places of others, and the
/// images that one transaction has changed.
///
/// Each table tracks its copied rows in a `ScanFrontier`. Steps run in the partition's thread, between transactions;
/// chunks are taken by their writer or reader, which holds the lock for a moment. Dropping the copier ends the copying.
#[derive(Debug)]
pub struct Copier {
    state: Arc<Mutex<State>>,
}

/// Result of a copying step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is more to copy.
    More,
    /// All rows are in chunks.
    Done,
}

/// Invariant: `charged` is what the budget is charged, and equals [`State::memory_bytes`] after each change.
#[derive(Debug)]
struct State {
    /// Tables not copied yet; the first is being copied.
    tables: VecDeque<TableCopy>,
    open: ChunkBuilder,
    /// Complete chunks that nobody has taken.
    chunks: VecDeque<Vec<u8>>,
    chunk_bytes: usize,
    /// Memory of a written chunk, for the next one.
    spare: Vec<u8>,
    /// Places of rows in blocks, and the blocks that have not been written yet.
    places: ChunkBuilder,
    blocks: ChunkBuilder,
    bytes_max: usize,
    /// Advances when chunks were taken or copying ended.
    taken: Arc<EventCount>,
    failed: Option<Error>,
    budget: Arc<Budget>,
    charged: usize,
}

#[derive(Debug)]
struct TableCopy {
    table: TableId,
    uncopied: ScanFrontier,
    /// Images of rows that changed before their turn. They are not in the chunk being filled: a chunk has rows of one
    /// table, and these may be of any table.
    changed: ChunkBuilder,
    /// Rows of loads that were unfinished at the barrier.
    hidden: Vec<Hidden>,
}

/// Rows of a load that was unfinished at the barrier, and may be finished by now.
#[derive(Debug)]
struct Hidden {
    /// Their bitmap at the barrier.
    ids: Box<[u64]>,
    rows: ChunkBuilder,
    places: ChunkBuilder,
}

impl Hidden {
    fn new((load, ids): (LoadId, &TupleIds)) -> Self {
        let (rows, places) = (ChunkBuilder::of_load(load), ChunkBuilder::places_of_load(load));
        Self { ids: ids.words().into(), rows, places }
    }

    fn contains(&self, id: TupleId) -> bool {
        self.ids.get(id.0 as usize / 64).is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }
}

impl TableCopy {
    /// The load of a row; `None` if it belonged to none.
    fn hidden(&mut self, id: TupleId) -> Option<&mut Hidden> {
        self.hidden.iter_mut().find(|hidden| hidden.contains(id))
    }

    /// The chunks that are not full.
    fn rest(self) -> impl Iterator<Item = Vec<u8>> {
        let hidden = self.hidden.into_iter().flat_map(|hidden| [hidden.rows, hidden.places]);
        std::iter::once(self.changed).chain(hidden).filter_map(|mut rows| rows.take())
    }

    fn memory_bytes(&self) -> usize {
        let hidden = self.hidden.iter();
        let hidden = hidden
            .map(|Hidden { ids, rows, places }| size_of_val(&**ids) + rows.memory_bytes() + places.memory_bytes());
        self.uncopied.memory_bytes() + self.changed.memory_bytes() + hidden.sum::<usize>()
    }
}

impl Copier {
    /// Begins to copy a partition that stands at the barrier, for the snapshot at this place in the log. While more than
    /// `bytes_max` bytes wait in memory, or a 64th of the memory limit, or more than a chunk where memory is full, the
    /// partition runs no further transaction; the changes of the last one may exceed this.
    ///
    /// Replicated tables are copied from the first partition only.
    pub fn begin(partition: &mut Partition, position: Sequence, bytes_max: usize) -> Self {
        partition.begin_snapshot(position);
        let first = partition.id().0 == 0;
        let tables: VecDeque<_> = partition
            .tables()
            .filter(|table| first || table.definition().partition_by.is_some())
            .map(|table| TableCopy {
                table: table.definition().id,
                uncopied: ScanFrontier::new(table),
                changed: ChunkBuilder::default(),
                hidden: table.loads().map(Hidden::new).collect(),
            })
            .collect();
        let mut layouts = ChunkBuilder::of_kind(Kind::Layouts);
        let copied = tables.iter().filter_map(|copy| partition.table(copy.table).ok());
        let each = copied
            .filter(|table| table.evicted_rows() > 0)
            .flat_map(|table| table.earlier_layouts().map(|layout| (table.definition().id, layout)));
        let mut chunks: VecDeque<_> = each.filter_map(|(table, layout)| layouts.push_layout(table, layout)).collect();
        chunks.extend(layouts.take());
        let share = usize::try_from(partition.budget().limit() / WAITING_SHARE).unwrap_or(usize::MAX);
        let mut state = State {
            tables,
            open: ChunkBuilder::default(),
            chunk_bytes: chunks.iter().map(Vec::capacity).sum(),
            chunks,
            spare: Vec::new(),
            places: ChunkBuilder::of_kind(Kind::Places),
            blocks: ChunkBuilder::of_kind(Kind::Blocks),
            bytes_max: bytes_max.min(share.max(CHUNK_BYTES)),
            taken: EventCount::new(),
            failed: None,
            budget: Arc::clone(partition.budget()),
            charged: 0,
        };
        state.charge();
        let state = Arc::new(Mutex::new(state));
        partition.watch(Box::new(Watcher { state: Arc::downgrade(&state) }));
        Self { state }
    }

    /// Visits up to `ids` ids and copies their rows, up to about a chunk. Rows in blocks stay there: their places are
    /// copied, and the snapshot refers to the blocks.
    pub fn step(&self, partition: &mut Partition, ids: u32) -> Result<Step> {
        let state = &mut *self.state.lock();
        let (mut left, mut bytes) = (ids, 0);
        while left > 0 && bytes < CHUNK_BYTES {
            state.check()?;
            let Some(copy) = state.tables.front_mut() else { break };
            let table = partition.table(copy.table)?;
            let Some((id, done)) = copy.uncopied.next(table) else {
                if let Some(copy) = state.tables.pop_front() {
                    copy.rest().for_each(|chunk| state.keep(chunk));
                }
                state.charge();
                continue;
            };
            left -= 1;
            if done {
                continue;
            }
            let table_id = copy.table;
            match table.block_place(id) {
                Some(place) => {
                    state.refer(partition, (table_id, id), place)?;
                    bytes += PLACE_BYTES;
                }
                None => {
                    let image = table.image(id)?;
                    bytes += image.len();
                    state.copy(table_id, id, image);
                }
            }
        }
        state.check()?;
        if !state.tables.is_empty() {
            return Ok(Step::More);
        }
        let mut directories = ChunkBuilder::of_kind(Kind::Directories);
        for directory in partition.blocks_mut().map(|blocks| blocks.directories()).unwrap_or_default() {
            directories.push_directory(&directory).into_iter().for_each(|chunk| state.keep(chunk));
        }
        let rest = [directories.take(), state.open.take(), state.places.take(), state.blocks.take()];
        rest.into_iter().flatten().for_each(|chunk| state.keep(chunk));
        state.spare = Vec::new();
        state.charge();
        Ok(Step::Done)
    }

    /// Takes a complete chunk, if there is one, to be written.
    pub fn take_chunk(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let chunk = state.chunks.pop_front()?;
        state.chunk_bytes -= chunk.capacity();
        state.charge();
        state.taken.advance();
        Some(chunk)
    }

    /// Whether so much waits that the writer should not rest.
    pub fn is_pressed(&self) -> bool {
        let state = self.state.lock();
        state.chunk_bytes > state.bytes_max / 4
    }

    /// Returns the memory of a chunk that is no longer needed.
    pub fn give_back(&self, mut chunk: Vec<u8>) {
        let mut state = self.state.lock();
        // Memory of one huge row is not kept, nor any once all rows are copied or when memory is scarce.
        if !state.tables.is_empty()
            && state.budget.has_room_for(SPARE_ROOM)
            && chunk.capacity() <= 2 * CHUNK_BYTES
            && chunk.capacity() > state.spare.capacity()
        {
            chunk.clear();
            state.spare = chunk;
            state.charge();
        }
    }

    /// Ends the copying, even if the copier is still referenced: no more chunks will be taken.
    pub fn give_up(&self) {
        self.state.lock().fail(Error::Cancelled("the copy of the rows was given up".into()));
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.state.lock().memory_bytes()
    }
}

impl State {
    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Copies the place of a row of the first table that is in a block.
    fn refer(&mut self, partition: &mut Partition, (table, id): (TableId, TupleId), place: BlockPlace) -> Result<()> {
        let blocks = partition.blocks_mut().ok_or_else(|| Error::internal("an evicted row without blocks"))?;
        let block = blocks.refer(place.block)?.and_then(|entry| self.blocks.push_block(&entry));
        let hidden = self.tables.front_mut().and_then(|copy| copy.hidden(id)).map(|hidden| &mut hidden.places);
        let places = hidden.unwrap_or(&mut self.places);
        let before = places.memory_bytes();
        let chunk = places.push_place(table, id, place);
        let resized = places.memory_bytes() != before;
        self.pushed(block, false);
        self.pushed(chunk, resized);
        Ok(())
    }

    /// Copies a row of the first table.
    fn copy(&mut self, table: TableId, id: TupleId, image: &[u8]) {
        match self.tables.front_mut().and_then(|copy| copy.hidden(id)).map(|hidden| &mut hidden.rows) {
            None => self.push(table, id, image),
            Some(rows) => {
                let before = rows.memory_bytes();
                let chunk = rows.push(table, id, image, &mut Vec::new());
                let resized = rows.memory_bytes() != before;
                self.pushed(chunk, resized);
            }
        }
    }

    fn push(&mut self, table: TableId, id: TupleId, image: &[u8]) {
        let before = self.open.memory_bytes();
        let chunk = self.open.push(table, id, image, &mut self.spare);
        self.pushed(chunk, self.open.memory_bytes() != before);
    }

    /// Keeps the chunk that a row completed, if any, and charges changes in size.
    fn pushed(&mut self, chunk: Option<Vec<u8>>, resized: bool) {
        if chunk.is_none() && !resized {
            return;
        }
        if let Some(chunk) = chunk {
            self.keep(chunk);
        }
        self.charge();
    }

    fn keep(&mut self, chunk: Vec<u8>) {
        self.chunk_bytes += chunk.capacity();
        self.chunks.push_back(chunk);
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        (self.chunks, self.chunk_bytes, self.open) = (VecDeque::new(), 0, ChunkBuilder::default());
        (self.spare, self.places, self.blocks) = (Vec::new(), ChunkBuilder::default(), ChunkBuilder::default());
        self.tables.clear();
        self.charge();
        self.taken.advance();
    }

    fn memory_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(TableCopy::memory_bytes).sum();
        let open = [&self.open, &self.places, &self.blocks].into_iter().map(ChunkBuilder::memory_bytes).sum::<usize>();
        self.chunk_bytes + open + self.spare.capacity() + tables
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
        self.taken.advance();
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
        if state.tables.is_empty() {
            return false;
        }
        if change.unread.is_some() {
            state.fail(Error::internal("an unread row has changed while rows are copied"));
            return false;
        }
        let Some(copy) = state.tables.iter_mut().find(|copy| copy.table == change.table) else {
            return true;
        };
        if copy.uncopied.mark(change.id)
            && let Some(before) = change.before
        {
            let hidden =
                copy.hidden.iter_mut().find(|hidden| hidden.contains(change.id)).map(|hidden| &mut hidden.rows);
            let rows = hidden.unwrap_or(&mut copy.changed);
            let memory = rows.memory_bytes();
            let chunk = rows.push(change.table, change.id, before, &mut Vec::new());
            let resized = rows.memory_bytes() != memory;
            state.pushed(chunk, resized);
        }
        true
    }

    fn is_over(&self) -> bool {
        self.state.upgrade().is_none_or(|state| state.lock().tables.is_empty())
    }

    fn held_up(&self) -> Option<Wait> {
        let state = self.state.upgrade()?;
        let state = state.lock();
        // Read before the bytes, which change only under this lock.
        let seen = state.taken.seen();
        let most = if state.budget.has_room_for(0) { state.bytes_max } else { CHUNK_BYTES.min(state.bytes_max) };
        (state.chunk_bytes > most).then(|| Wait::new(&state.taken, seen))
    }

    fn defined(&mut self) {
        if let Some(state) = self.state.upgrade() {
            let state = &mut *state.lock();
            // Tables that are completely copied are not affected.
            if !state.tables.is_empty() {
                state.fail(Error::Retry("the schema has changed while rows were copied".into()));
            }
        }
    }
}
