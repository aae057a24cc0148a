use crate::table::TupleId;

/// Which rows of a table have not been read.
///
/// With `cursor` the next id to read and `bound` above all ids when reading began:
/// - a row below `cursor`, or marked in `done`, has been read if it was there at the beginning
/// - an id from `cursor` on that is not marked is as it was at the beginning
/// - an id from `bound` on was free at the beginning
/// - `cursor` and the marks only grow
#[derive(Debug)]
pub struct Unread {
    pub cursor: TupleId,
    pub bound: TupleId,
    /// A bit for each id that changed before the cursor came to it, as far as there are any.
    done: Vec<u64>,
}

impl Unread {
    /// A table whose ids are all below `bound`.
    pub fn new(bound: TupleId) -> Self {
        Self { cursor: TupleId(0), bound, done: Vec::new() }
    }

    /// Whether a row has been read out of turn.
    pub fn is_done(&self, id: TupleId) -> bool {
        let word = self.done.get(id.0 as usize / 64).copied().unwrap_or(0);
        word >> (id.0 % 64) & 1 == 1
    }

    /// Marks a row that changes; false if it has been read, or was not there.
    pub fn mark(&mut self, id: TupleId) -> bool {
        if id < self.cursor || id >= self.bound || self.is_done(id) {
            return false;
        }
        let word = id.0 as usize / 64;
        if self.done.len() <= word {
            self.done.resize(word + 1, 0);
        }
        if let Some(word) = self.done.get_mut(word) {
            *word |= 1 << (id.0 % 64);
        }
        true
    }
}
