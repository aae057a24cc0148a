//! The use of rows by sampled transactions: their order, and how many uses there were.

use super::*;
use crate::table::chain::Chain;
use crate::table::victims::Victims;

/// Uses of a table's rows by sampled transactions.
#[derive(Debug, Default)]
pub(super) struct Recency {
    /// Reads and writes since they were last asked for. A write counts as often as it looks its row up.
    accesses: u64,
    /// The live rows in the order of their use; `None` under [`Victims::Sampled`], and of a table that keeps its rows.
    chain: Option<Chain>,
}

impl Recency {
    pub(super) fn bytes(&self) -> usize {
        self.chain.as_ref().map_or(0, Chain::bytes)
    }

    /// Makes room for a row.
    #[inline]
    pub(super) fn reserve(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        self.chain.as_mut().map_or(Ok(()), |chain| chain.reserve(id, budget, growth))
    }

    /// Adds a row as the one used last.
    #[inline]
    pub(super) fn add_hot(&mut self, id: TupleId) {
        if let Some(chain) = &mut self.chain {
            chain.add_hot(id);
        }
    }

    /// Moves a row to the hot end, so that no search for cold ones passes it.
    pub(super) fn touch(&mut self, id: TupleId) {
        if let Some(chain) = &mut self.chain {
            chain.touch(id);
        }
    }

    /// Adds a row as the next to be evicted.
    pub(super) fn add_cold(&mut self, id: TupleId) {
        if let Some(chain) = &mut self.chain {
            chain.add_cold(id);
        }
    }

    /// Removes a row.
    #[inline]
    pub(super) fn leave(&mut self, id: TupleId) {
        if let Some(chain) = &mut self.chain {
            chain.leave(id);
        }
    }

    pub(super) fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }
}

impl Table {
    /// Notes that a row is read or written.
    #[inline]
    pub(super) fn note_access(&self, id: TupleId) {
        self.uses.add(id);
        if self.is_monitored {
            self.note_sampled(id);
        }
    }

    #[cold]
    fn note_sampled(&self, id: TupleId) {
        let mut recency = self.recency.lock();
        recency.accesses += 1;
        if let Some(chain) = &mut recency.chain {
            chain.touch(id);
        }
    }

    /// Says whether the next transaction is sampled.
    pub(crate) fn set_monitored(&mut self, is_monitored: bool) {
        self.is_monitored = is_monitored && self.is_evictable();
    }

    /// Reads and writes of rows by sampled transactions since the last call.
    pub(crate) fn take_accesses(&mut self) -> u64 {
        std::mem::take(&mut self.recency.get_mut().accesses)
    }

    /// Sets the policy that chooses its rows, before it has any.
    pub fn set_victims(&mut self, victims: Victims) {
        debug_assert_eq!(self.ids.live(), 0, "rows would not be in the chain");
        let has_chain = victims == Victims::Chain && self.is_evictable();
        self.recency.get_mut().chain = has_chain.then(Chain::default);
    }

    /// The least recently used rows that are not pinned, coldest first, about `bytes` bytes of images together, among
    /// the first `looks_max`; `None` without a chain.
    pub(super) fn least_recent(&self, bytes: usize, looks_max: usize) -> Option<Vec<TupleId>> {
        let recency = self.recency.lock();
        let (mut cold, mut found_bytes) = (Vec::new(), 0);
        for id in recency.chain()?.coldest_first().take(looks_max) {
            if found_bytes >= bytes {
                break;
            }
            if let Some(Locator::Live(item)) = self.locators.get(id)
                && !self.pinned.contains(&id)
            {
                found_bytes += item.len();
                cold.push(id);
            }
        }
        Some(cold)
    }

    /// What is wrong with the chain; `None` if it has exactly the live rows, or there is none.
    pub(super) fn wrong_chain(&self) -> Option<String> {
        let recency = self.recency.lock();
        let chain = recency.chain()?;
        if !chain.is_sound() || chain.len() != self.live_rows() {
            return Some(format!("the chain of {} rows has {} and may be broken", self.live_rows(), chain.len()));
        }
        let missing = self.ids.iter().find(|id| chain.contains(*id) == self.block_place(*id).is_some());
        missing.map(|id| format!("row {} is in the chain and in a block, or in neither", id.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thermocline_types::{DataType, ValueRef};

    use super::*;
    use crate::schema::{IndexKind, fixture};
    use crate::table::Budget;

    /// A search is not to pass the rows that a large transaction holds again and again.
    #[test]
    fn pinned_rows_are_not_where_victims_are_sought() {
        for victims in [Victims::Sampled, Victims::Chain] {
            let definition = fixture::table(&[("a", DataType::BigInt, false)], IndexKind::Hash, &["a"]);
            let mut table = Table::new(Arc::new(definition), Arc::new(Budget::unlimited()), 1).unwrap();
            table.set_victims(victims);
            let mut undo = Undo::new(usize::MAX);
            let ids: Vec<_> = (0..1000).map(|key| table.insert(&[ValueRef::Int(key)], &mut undo).unwrap()).collect();
            ids.iter().take(900).for_each(|id| table.pin(*id));
            table.coldest(1, 1000);
            assert!(!table.coldest(1, 10).cold.is_empty(), "{victims:?}");
            table.unpin();
            table.check().unwrap();
        }
    }

    /// A start fills tables after counting has begun.
    #[test]
    fn uses_of_filled_rows_count() {
        let definition = Arc::new(fixture::table(&[("a", DataType::BigInt, false)], IndexKind::Hash, &["a"]));
        let new = || Table::new(Arc::clone(&definition), Arc::new(Budget::unlimited()), 1).unwrap();
        let (mut source, mut table, mut undo) = (new(), new(), Undo::new(usize::MAX));
        table.start_counting();
        for key in 0..1000 {
            let id = source.insert(&[ValueRef::Int(key)], &mut undo).unwrap();
            table.fill(&mut [], None, id, source.image(id).unwrap()).unwrap();
        }
        assert_eq!(table.coldest(1, 1).cold, [TupleId(0)], "nobody has used it");
        table.note_access(TupleId(500));
        let cold = table.coldest(usize::MAX, usize::MAX).cold;
        assert!(cold.len() == 998 && !cold.contains(&TupleId(500)), "{}", cold.len());
    }
}
