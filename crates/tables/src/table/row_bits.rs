//! A bit for each row, such as of those that are in blocks.

use super::budget::Budget;
use super::tuple_ids::TupleId;

/// Words by which the bits grow: 32 Ki rows.
const STEP_WORDS: usize = 512;

/// A bit for each row of a table.
#[derive(Debug, Default)]
pub struct RowBits {
    words: Vec<u64>,
}

impl RowBits {
    /// Bytes of the bits.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Makes room for the bits of ids below this one, without asking: it is needed to free memory.
    pub fn reserve(&mut self, bound: TupleId, budget: &Budget) {
        let words = (bound.0 as usize).div_ceil(64).next_multiple_of(STEP_WORDS);
        if words > self.words.len() {
            let before = self.bytes();
            self.words.reserve_exact(words - self.words.len());
            self.words.resize(words, 0);
            budget.resize(before, self.bytes());
        }
    }

    /// Sets the bit of a row; does nothing if there is no room for it.
    pub fn set(&mut self, id: TupleId) {
        if let Some(word) = self.words.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 % 64);
        }
    }

    /// The bits of 64 rows.
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// Clears the bit of a row, and says whether it was set.
    pub fn take(&mut self, id: TupleId) -> bool {
        let was = self.word(id.0 as usize / 64) >> (id.0 % 64) & 1 == 1;
        self.clear(id);
        was
    }

    /// Clears all bits.
    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// Clears the bit of a row.
    pub fn clear(&mut self, id: TupleId) {
        if let Some(word) = self.words.get_mut(id.0 as usize / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }
}
