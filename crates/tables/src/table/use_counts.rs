//! In how many rounds rows were used of late.

use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::Budget;
use super::tuple_ids::TupleId;

/// Rows of a word.
const ROWS: usize = 16;
/// Words up to which the counts double as they grow, by which they grow at least from then on: 16 Ki rows.
const STEP_WORDS: usize = 1024;
/// Words of the counts of the smallest table.
const WORDS_MIN: usize = 8;
/// Bits of a row.
const BITS: u32 = 4;
/// Bit that says that the row was used since it was last passed. The count is below it.
const USED: u64 = 4;

/// A count for each row of a table: the rounds in which it was used, less those in which it was not, from 0 to
/// [`UseCounts::MOST`].
///
/// Searches for cold rows pass all rows in turn: a round. A row that was used since the last round gets one more, others
/// get one less, and those that have none left are cold (a generalised clock). It is the default in place of the LRU
/// chain of Anti-Caching 2013, section 3.1 ([`Chain`](super::chain::Chain)): half a byte for each row, and no write for
/// a row that was used in this round already.
///
/// Several uses in one round count once: a transaction looks at a row up to four times, and rows that are used by one
/// transaction alone, such as a delivered order, would outlast those that many will use.
///
/// A new row was used. One that came back from its block begins without uses, and the transaction that has fetched it
/// does not count: until the search reaches it, it has to be used by another one. Most rows that a skewed workload
/// fetches are not, and would push out rows that are used more often. If the transaction has to wait for further rows,
/// the row has the highest count, because a search would take it away before the transaction runs again.
///
/// In a simulation with keys from a Zipf distribution and memory for a tenth of the rows, 1.16, 1.18 and 1.19 times as
/// many rows had to be fetched as with the most popular rows in memory, for exponents 0.75, 1 and 1.25. If every use
/// counts, it is 1.18, 1.21 and 1.23; with one bit, 1.22, 1.26 and 1.29, and 1.30, 1.39 and 1.46 if a fetch sets it.
#[derive(Debug, Default)]
pub struct UseCounts {
    words: Vec<AtomicU64>,
}

impl UseCounts {
    /// The highest count.
    pub const MOST: u64 = 3;

    /// Bytes of the counts.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Makes room for the counts of ids below this one, without asking: it is needed to free memory.
    pub fn reserve(&mut self, bound: TupleId, budget: &Budget) {
        let words = (bound.0 as usize).div_ceil(ROWS);
        if words > self.words.len() {
            let before = self.bytes();
            let step = self.words.len().min(STEP_WORDS).max(self.words.len() / 8);
            let words = words.max(self.words.len() + step).next_multiple_of(WORDS_MIN);
            self.words.reserve_exact(words - self.words.len());
            self.words.resize_with(words, AtomicU64::default);
            budget.resize(before, self.bytes());
        }
    }

    /// Notes a use of a row; does nothing if there is no room for its count.
    #[inline]
    pub fn add(&self, id: TupleId) {
        if let Some(word) = self.words.get(id.0 as usize / ROWS) {
            let (counts, used) = (word.load(Ordering::Relaxed), USED << Self::shift(id));
            // The partition that owns the table is the only one that writes, so nothing gets lost in between.
            if counts & used == 0 {
                word.store(counts | used, Ordering::Relaxed);
            }
        }
    }

    /// Passes a row. Returns false if it was not used since it was last passed, and has no round left.
    pub fn pass(&mut self, id: TupleId) -> bool {
        let Some(word) = self.words.get_mut(id.0 as usize / ROWS).map(AtomicU64::get_mut) else { return false };
        let shift = Self::shift(id);
        let (count, was_used) = (*word >> shift & Self::MOST, *word >> shift & USED != 0);
        if was_used {
            *word ^= USED << shift;
            *word += u64::from(count < Self::MOST) << shift;
        } else {
            *word -= u64::from(count > 0) << shift;
        }
        was_used || count > 0
    }

    /// Gives a row the highest count, with a use in this round.
    pub fn fill(&mut self, id: TupleId) {
        if let Some(word) = self.words.get_mut(id.0 as usize / ROWS).map(AtomicU64::get_mut) {
            *word |= (USED | Self::MOST) << Self::shift(id);
        }
    }

    /// Forgets the uses of a row.
    pub fn clear(&mut self, id: TupleId) {
        if let Some(word) = self.words.get_mut(id.0 as usize / ROWS).map(AtomicU64::get_mut) {
            *word &= !((USED | Self::MOST) << Self::shift(id));
        }
    }

    #[inline]
    const fn shift(id: TupleId) -> u32 {
        id.0 % ROWS as u32 * BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that a row can be passed before it is cold.
    fn left(counts: &mut UseCounts, id: u32) -> usize {
        (0..9).take_while(|_| counts.pass(TupleId(id))).count()
    }

    #[test]
    fn counts_of_neighbours_do_not_mix() {
        let mut counts = UseCounts::default();
        counts.add(TupleId(5));
        counts.reserve(TupleId(70), &Budget::unlimited());
        for (id, rounds) in [(0, 1), (15, 9), (16, 2), (69, 3)] {
            for _ in 0..rounds {
                // However often it is used in a round.
                (0..2).for_each(|_| counts.add(TupleId(id)));
                assert!(counts.pass(TupleId(id)));
            }
        }
        counts.clear(TupleId(69));
        assert_eq!([0, 14, 15, 16, 17, 69].map(|id| left(&mut counts, id)), [1, 0, 3, 2, 0, 0]);
        assert_eq!([5, 1 << 20].map(|id| left(&mut counts, id)), [0, 0], "there was no room");
    }

    #[test]
    fn a_row_is_cold_after_as_many_rounds_without_uses_as_with_some() {
        let mut counts = UseCounts::default();
        counts.reserve(TupleId(1), &Budget::unlimited());
        for rounds in 0..6 {
            for _ in 0..rounds {
                counts.add(TupleId(0));
                assert!(counts.pass(TupleId(0)));
            }
            assert_eq!(left(&mut counts, 0), rounds.min(3), "{rounds}");
        }
    }
}
