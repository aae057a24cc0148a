//! An order of slots that is updated lazily.

use std::collections::BTreeMap;

use crate::slots::SlotId;

/// Slots by the key that they had when they were inserted. Keys may have grown since: when the first slot is taken, its
/// key is compared, and the slot is reinserted under its current key if that differs. So a use of a slot costs nothing
/// here, and taking the first costs O(log n), once more for each slot used since it was last visited. A key that
/// shrinks must be replaced at once.
#[derive(Debug)]
pub(crate) struct LazyOrder<K> {
    slots: BTreeMap<K, SlotId>,
}

impl<K> Default for LazyOrder<K> {
    fn default() -> Self {
        Self { slots: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> LazyOrder<K> {
    pub(crate) fn insert(&mut self, key: K, slot: SlotId) {
        self.slots.insert(key, slot);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.slots.remove(key);
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, SlotId)> {
        self.slots.pop_first()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}
