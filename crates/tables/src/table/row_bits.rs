//! A bit for each row: which were read of late, and which are in blocks.

use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::Budget;
use super::tuple_ids::TupleId;

/// Words by which the bits grow: 32 Ki rows.
const STEP_WORDS: usize = 512;

/// A bit for each row of a table.
///
/// Of the rows that are read, the bit is set by the read, and cleared by a search for rows that are not (the second chance
/// of the clock algorithm). It is the default in place of the LRU chain of Anti-Caching 2013, section 3.1
/// ([`Chain`](super::chain::Chain)): an eighth of a byte for each row, and no write for a row that is read again.
#[derive(Debug, Default)]
pub struct RowBits {
    words: Vec<AtomicU64>,
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
            self.words.resize_with(words, AtomicU64::default);
            budget.resize(before, self.bytes());
        }
    }

    /// Sets the bit of a row; does nothing if there is no room for it.
    #[inline]
    pub fn set(&self, id: TupleId) {
        if let Some(word) = self.words.get(id.0 as usize / 64) {
            let (known, bit) = (word.load(Ordering::Relaxed), 1 << (id.0 % 64));
            // The partition that owns the table is the only one that writes, so no bit gets lost in between.
            if known & bit == 0 {
                word.store(known | bit, Ordering::Relaxed);
            }
        }
    }

    /// The bits of 64 rows.
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Clears the bit of a row; returns whether it was set.
    pub fn take(&mut self, id: TupleId) -> bool {
        let Some(word) = self.words.get_mut(id.0 as usize / 64).map(AtomicU64::get_mut) else { return false };
        let bit = 1 << (id.0 % 64);
        let was_set = *word & bit != 0;
        *word &= !bit;
        was_set
    }
}
