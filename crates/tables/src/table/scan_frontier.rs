//! Progress of a reader through a table that transactions change.

use std::ops::ControlFlow;

use thermocline_types::{Error, Result};

use super::put_off::{AtOnce, PutOff};
use super::{BlockReader, BlockRows, Blocks, Table, TableBlocks, TupleId};

/// Rows of a table that a reader (a snapshot, or a query) has not read yet. It reads all rows as of one moment, in
/// steps between which they change.
///
/// With `cursor` the next id to read and `bound` above all ids when reading began:
/// - a row below `cursor`, or marked in `done`, has been read if it was there at the beginning, unless it is in
///   `put_off`
/// - a row in `put_off` is as it was at the beginning
/// - an id from `cursor` on that is not marked is as it was at the beginning
/// - an id from `bound` on was free at the beginning
/// - `cursor` and the marks only grow
#[derive(Debug)]
pub struct ScanFrontier {
    cursor: TupleId,
    bound: TupleId,
    /// A bit for each id below `bound` that changed before the cursor reached it. Allocated at the beginning, because
    /// marks are made during commits.
    done: Vec<u64>,
    /// Rows that were in a block when the cursor reached them, and have not been read since.
    put_off: PutOff,
}

impl ScanFrontier {
    /// Begins to read the visible rows of a table.
    pub fn visible(table: &Table) -> Self {
        let mut unread = Self::new(table);
        for (_, hidden) in table.loads() {
            unread.done.iter_mut().zip(hidden.words()).for_each(|(done, word)| *done |= word);
        }
        unread
    }

    /// Begins to read all rows of a table, including those of unfinished loads.
    pub fn new(table: &Table) -> Self {
        let bound = table.id_bound();
        // Ids are 31 bits, so this fits.
        let words = usize::try_from(bound.0.div_ceil(u64::BITS)).unwrap_or(0);
        Self { cursor: TupleId(0), bound, done: vec![0; words], put_off: PutOff::default() }
    }

    /// The next row in turn, and whether it has been read out of turn; `None` after the last.
    pub fn next(&mut self, table: &Table) -> Option<(TupleId, bool)> {
        let id = table.next(self.cursor).filter(|id| *id < self.bound)?;
        self.cursor = TupleId(id.0 + 1);
        Some((id, self.is_done(id)))
    }

    /// Marks a row that changes; true if its earlier image, if any, must be read now.
    pub fn mark(&mut self, id: TupleId) -> bool {
        if self.put_off.take(id) {
            return true;
        }
        if id < self.cursor || id >= self.bound || self.is_done(id) {
            return false;
        }
        if let Some(word) = self.done.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 % 64);
        }
        true
    }

    /// Bytes of the marks.
    pub fn memory_bytes(&self) -> usize {
        self.done.capacity() * size_of::<u64>() + self.put_off.memory_bytes()
    }

    /// Puts off a row that was next, because it is in a block.
    pub fn put_off(&mut self, id: TupleId) {
        self.put_off.add(id, self.bound);
    }

    /// Whether rows that were put off have not been read.
    pub const fn has_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// Reads of blocks with rows that were put off, as many as are read at once, to be [chosen from](Self::choose), and
    /// the bytes that they take. Rows that are live by now are given to `live` instead, which says whether to go on. May
    /// return none although there are some.
    ///
    /// # Errors
    /// If there are no `blocks`, and those of `live`.
    pub(crate) fn block_readers(
        &mut self,
        (table, blocks): (&Table, Option<&dyn Blocks>),
        at_once: AtOnce,
        live: &mut dyn FnMut(TupleId) -> Result<ControlFlow<()>>,
    ) -> Result<(Vec<BlockReader>, usize)> {
        let blocks = blocks.ok_or_else(|| Error::internal("evicted rows without blocks"))?;
        let bytes_of = |block| blocks.bytes_of(block);
        let found = self.put_off.blocks(|id| table.block_place(id), (at_once, &bytes_of), live)?;
        let bytes = found.iter().copied().map(bytes_of).sum();
        let of_table = TableBlocks::new(table.definition(), blocks);
        let readers = found.into_iter().map(|block| of_table.block_reader(block));
        Ok((readers.collect::<Result<_>>()?, bytes))
    }

    /// Chooses the rows of a block that are to be read from it: those put off that are still there.
    ///
    /// # Errors
    /// If the block is damaged, and one of them is lost: that of the damage.
    pub fn choose(&mut self, table: &Table, block: &mut BlockRows) -> Result<()> {
        self.put_off.choose(|id| table.block_place(id), block)
    }

    fn is_done(&self, id: TupleId) -> bool {
        let word = self.done.get(id.0 as usize / 64).copied().unwrap_or(0);
        word >> (id.0 % 64) & 1 == 1
    }
}
