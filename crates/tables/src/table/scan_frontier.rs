//! Progress of a reader through a table that transactions change.

use super::{Table, TupleId};

/// Rows of a table that a reader (a snapshot, or a query) has not read yet. It reads all rows as of one moment, in
/// steps between which they change.
///
/// With `cursor` the next id to read and `bound` above all ids when reading began:
/// - a row below `cursor`, or marked in `done`, has been read if it was there at the beginning
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
        Self { cursor: TupleId(0), bound, done: vec![0; words] }
    }

    /// The next row in turn, and whether it has been read out of turn; `None` after the last.
    pub fn next(&mut self, table: &Table) -> Option<(TupleId, bool)> {
        let id = table.next(self.cursor).filter(|id| *id < self.bound)?;
        self.cursor = TupleId(id.0 + 1);
        Some((id, self.is_done(id)))
    }

    /// Marks a row that changes; true if its earlier image, if any, must be read now.
    pub fn mark(&mut self, id: TupleId) -> bool {
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
        self.done.len() * size_of::<u64>()
    }

    fn is_done(&self, id: TupleId) -> bool {
        let word = self.done.get(id.0 as usize / 64).copied().unwrap_or(0);
        word >> (id.0 % 64) & 1 == 1
    }
}
