//! Numbers of rows, and the set of those that are taken.

use super::budget::{Budget, Full, Growth};

/// Number of a row within its table and partition, for as long as the row exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TupleId(pub u32);

impl TupleId {
    /// The largest id: indexes use the highest bit.
    pub const MAX: Self = Self((1 << 31) - 1);
}

/// Set of taken tuple ids: a bitmap with, above each level, one bit per full word.
///
/// The lowest free id is assigned first. So the next id depends only on the live ids, not on the history: an abort or a
/// recovery from a snapshot need not restore a free list for replay to repeat every id.
#[derive(Debug, Default)]
pub struct TupleIds {
    /// Bit i of level 0: id i is taken. Bit i of level n: word i of level n-1 is full.
    levels: Vec<Vec<u64>>,
    live: usize,
}

impl TupleIds {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of taken ids.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Bytes of the bitmaps.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * 8).sum()
    }

    /// The lowest free id.
    #[inline]
    pub fn lowest_free(&self) -> TupleId {
        let mut at = 0;
        let top = match self.levels.last() {
            Some(top) if top.first() == Some(&u64::MAX) => {
                // All lower ids are taken: the first id after them.
                return TupleId((64u64.pow(self.levels.len() as u32)).min(u64::from(u32::MAX)) as u32);
            }
            Some(_) => self.levels.len(),
            None => return TupleId(0),
        };
        for level in self.levels.iter().take(top).rev() {
            let word = level.get(at).copied().unwrap_or(0);
            at = at * 64 + (!word).trailing_zeros() as usize;
        }
        TupleId(at as u32)
    }

    /// Whether the id is taken.
    #[inline]
    pub fn contains(&self, id: TupleId) -> bool {
        let word = self.levels.first().and_then(|level| level.get(id.0 as usize / 64));
        word.is_some_and(|word| word & 1 << (id.0 % 64) != 0)
    }

    /// Takes an id; `false` if it was taken already.
    #[inline]
    pub fn take(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<bool, Full> {
        if self.contains(id) {
            return Ok(false);
        }
        let words = id.0 as usize / 64 + 1;
        if self.levels.first().is_none_or(|level| level.len() < words) {
            self.grow(words, budget, growth)?;
        }
        let mut at = id.0 as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { break };
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                break;
            }
            at /= 64;
        }
        self.live += 1;
        Ok(true)
    }

    /// Grows to this many words.
    fn grow(&mut self, words: usize, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let before = self.bytes();
        let capacity = self.levels.first().map_or(0, Vec::capacity);
        if words > capacity {
            // The vector at most doubles, and the levels above are a 63rd of it.
            growth.check(budget, (words.max(capacity * 2).max(8) - capacity) * 9)?;
        }
        let mut words = words;
        let mut number = 0;
        loop {
            if number == self.levels.len() {
                // A new top level starts with the state of the level below.
                let full = self.levels.last().and_then(|below| below.first()) == Some(&u64::MAX);
                self.levels.push(vec![u64::from(full)]);
            }
            if let Some(level) = self.levels.get_mut(number)
                && level.len() < words
            {
                level.resize(words, 0);
            }
            if words == 1 {
                break;
            }
            words = words.div_ceil(64);
            number += 1;
        }
        budget.resize(before, self.bytes());
        Ok(())
    }

    /// Releases an id; returns `false` if it was free.
    pub fn release(&mut self, id: TupleId) -> bool {
        if !self.contains(id) {
            return false;
        }
        let mut at = id.0 as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { break };
            let was_full = *word == u64::MAX;
            *word &= !(1 << (at % 64));
            if !was_full {
                break;
            }
            at /= 64;
        }
        self.live -= 1;
        true
    }

    /// The first taken id at or after `from`.
    pub fn next(&self, from: TupleId) -> Option<TupleId> {
        let level = self.levels.first()?;
        let mut at = from.0 as usize / 64;
        let mut word = level.get(at)? & (u64::MAX << (from.0 % 64));
        while word == 0 {
            at += 1;
            word = *level.get(at)?;
        }
        Some(TupleId((at * 64) as u32 + word.trailing_zeros()))
    }

    /// A bound above all taken ids, by less than 64.
    pub fn bound(&self) -> TupleId {
        let words = self.levels.first().and_then(|level| level.iter().rposition(|word| *word != 0));
        TupleId(words.map_or(0, |word| (word as u32 + 1) * 64))
    }

    /// The bitmap: bit i of word n stands for id 64 n + i.
    pub fn words(&self) -> &[u64] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }

    /// The taken ids in order.
    pub fn iter(&self) -> impl Iterator<Item = TupleId> {
        std::iter::successors(self.next(TupleId(0)), |id| self.next(TupleId(id.0 + 1)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_lowest_free_id_is_next_whatever_happened_before() {
        for seed in 0..8 {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let budget = Budget::unlimited();
            let mut ids = TupleIds::new();
            let mut model = BTreeSet::new();
            for step in 0..10_000 {
                if step % 997 == 0 {
                    let lowest = (0..).find(|id| !model.contains(id)).unwrap();
                    assert_eq!(ids.lowest_free(), TupleId(lowest));
                }
                if rng.random_bool(0.8) {
                    let id =
                        if rng.random_bool(0.9) { ids.lowest_free() } else { TupleId(rng.random_range(0..300_000)) };
                    assert_eq!(ids.take(id, &budget, Growth::Asked).unwrap(), model.insert(id.0));
                } else {
                    let id = rng.random_range(0..5000);
                    assert_eq!(ids.release(TupleId(id)), model.remove(&id));
                }
                assert_eq!(ids.live(), model.len());
            }
            assert_eq!(budget.used(), ids.bytes() as u64);
            assert!(ids.iter().map(|id| id.0).eq(model.iter().copied()));
        }
    }

    #[test]
    fn ids_follow_one_another_across_levels() {
        let budget = Budget::unlimited();
        let mut ids = TupleIds::new();
        for expected in 0..300_000 {
            let id = ids.lowest_free();
            assert_eq!(id.0, expected);
            ids.take(id, &budget, Growth::Asked).unwrap();
        }
        assert!(ids.bytes() < 300_000 / 8 * 3);
    }
}
