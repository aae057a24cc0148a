//! How often rows were used of late.

use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::Budget;
use super::tuple_ids::TupleId;

/// Rows of a word.
const ROWS: usize = 32;
/// Words by which the counts grow: 16 Ki rows.
const STEP_WORDS: usize = 512;

/// A count of uses for each row of a table, from 0 to [`UseCounts::MOST`].
///
/// A look at a row adds one; a statement looks at most rows once, and twice at some that it changes. A search for cold rows passes all of them in turn, takes one from each, and finds those that have none
/// left (the generalised clock algorithm). It is the default in place of the LRU chain of Anti-Caching 2013, section 3.1
/// ([`Chain`](super::chain::Chain)): a quarter of a byte for each row, and no write for a row that is used often.
///
/// A row that came back from its block begins with 0, and the transaction that has fetched it does not count: it has
/// until the search reaches it to be used by another one. Most of the rows that a skewed workload fetches are not, and
/// would push out rows that are used more often. In a simulation with one look for each use, keys from a Zipf distribution
/// and memory for a tenth of the rows, 1.18 to 1.23 times as many rows had to be fetched as with the most popular rows in
/// memory, for exponents from 0.75 to 1.25; with one bit, which the fetch itself set, 1.30 to 1.46 times.
#[derive(Debug, Default)]
pub struct UseCounts {
    words: Vec<AtomicU64>,
}

impl UseCounts {
    /// The highest count.
    pub const MOST: usize = 3;

    /// Bytes of the counts.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Makes room for the counts of ids below this one, without asking: it is needed to free memory.
    pub fn reserve(&mut self, bound: TupleId, budget: &Budget) {
        let words = (bound.0 as usize).div_ceil(ROWS).next_multiple_of(STEP_WORDS);
        if words > self.words.len() {
            let before = self.bytes();
            self.words.reserve_exact(words - self.words.len());
            self.words.resize_with(words, AtomicU64::default);
            budget.resize(before, self.bytes());
        }
    }

    /// Counts a use of a row; does nothing if there is no room for its count.
    #[inline]
    pub fn add(&self, id: TupleId) {
        if let Some(word) = self.words.get(id.0 as usize / ROWS) {
            let (counts, shift) = (word.load(Ordering::Relaxed), Self::shift(id));
            // The partition that owns the table is the only one that writes, so no count gets lost in between.
            if counts >> shift & 3 < Self::MOST as u64 {
                word.store(counts + (1 << shift), Ordering::Relaxed);
            }
        }
    }

    /// Takes one from the count of a row; returns whether there was one.
    pub fn take(&mut self, id: TupleId) -> bool {
        let Some(word) = self.words.get_mut(id.0 as usize / ROWS).map(AtomicU64::get_mut) else { return false };
        let shift = Self::shift(id);
        let was_used = *word >> shift & 3 > 0;
        *word -= u64::from(was_used) << shift;
        was_used
    }

    /// Forgets the uses of a row.
    pub fn clear(&mut self, id: TupleId) {
        if let Some(word) = self.words.get_mut(id.0 as usize / ROWS).map(AtomicU64::get_mut) {
            *word &= !(3 << Self::shift(id));
        }
    }

    #[inline]
    const fn shift(id: TupleId) -> u32 {
        id.0 % ROWS as u32 * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_neighbours_do_not_mix() {
        let mut counts = UseCounts::default();
        counts.add(TupleId(5));
        counts.reserve(TupleId(70), &Budget::unlimited());
        let used = [(0, 1), (31, 9), (32, 2), (69, 3)];
        for (id, times) in used {
            (0..times).for_each(|_| counts.add(TupleId(id)));
        }
        let left = |counts: &mut UseCounts, id| (0..9).take_while(|_| counts.take(TupleId(id))).count();
        counts.clear(TupleId(69));
        assert_eq!([0, 30, 31, 32, 33, 69].map(|id| left(&mut counts, id)), [1, 0, UseCounts::MOST, 2, 0, 0]);
        assert_eq!([5, 1 << 20].map(|id| left(&mut counts, id)), [0, 0], "there was no room");
    }
}
