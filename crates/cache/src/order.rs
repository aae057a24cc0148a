//! An order of slots that is kept up only where somebody looks.

use std::collections::BTreeMap;

use crate::slots::SlotId;

/// Slots by the key that they had when they were put here. Keys may have grown since: whoever takes
/// the first slot compares, and puts it back under its present key if that is another. So a use of a
/// slot costs nothing here, and taking the first costs O(log n), once more for each slot that was
/// used since it was last looked at. A key that shrinks has to be replaced at once.
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
