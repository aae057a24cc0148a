//! A map within a number of bytes.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// Values by key within a number of bytes, the least recently used forgotten.
///
/// Invariants: `bytes` = sum of the values' bytes <= `bytes_max`; `order` holds each key once, by its
/// last use.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    bytes_max: usize,
    bytes: usize,
    /// Grows with each use.
    tick: u64,
    values: HashMap<Arc<K>, Kept<V>>,
    order: BTreeMap<u64, Arc<K>>,
}

#[derive(Debug)]
struct Kept<V> {
    value: V,
    used: u64,
    bytes: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Nothing yet, of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, tick: 0, values: HashMap::new(), order: BTreeMap::new() }
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of `key`, which is used by that.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let kept = self.values.get_mut(key)?;
        let key = self.order.remove(&kept.used)?;
        self.tick += 1;
        kept.used = self.tick;
        self.order.insert(self.tick, key);
        Some(&kept.value)
    }

    /// Keeps `value`, which takes `bytes`, and forgets others for it; not if it alone is too large.
    pub(crate) fn put(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max && self.forget_oldest() {}
        self.tick += 1;
        let key = Arc::new(key);
        self.order.insert(self.tick, Arc::clone(&key));
        self.values.insert(key, Kept { value, used: self.tick, bytes });
        self.bytes += bytes;
    }

    /// Forgets the value of `key`.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(kept) = self.values.remove(key) {
            self.order.remove(&kept.used);
            self.bytes -= kept.bytes;
        }
    }

    /// Forgets the value that was not used for longest; `false` if there is none.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let Some((_, key)) = self.order.pop_first() else { return false };
        self.bytes -= self.values.remove(&key).map_or(0, |kept| kept.bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_least_recently_used_goes_first_and_bytes_stay_within_the_limit() {
        let mut recent = Recent::new(100);
        for key in 0..10 {
            recent.put(key, key, 10);
        }
        assert_eq!(recent.bytes(), 100);
        assert_eq!(recent.get(&0).copied(), Some(0));
        recent.put(10, 10, 15);
        assert_eq!((recent.get(&1).copied(), recent.get(&2).copied(), recent.get(&3).copied()), (None, None, Some(3)));
        assert_eq!((recent.get(&0).copied(), recent.get(&10).copied(), recent.bytes()), (Some(0), Some(10), 95));
        recent.put(0, 7, 5);
        assert_eq!((recent.get(&0).copied(), recent.bytes()), (Some(7), 90));
        recent.put(11, 11, 101);
        assert_eq!((recent.get(&11).copied(), recent.bytes()), (None, 90), "too large for all of it");
        recent.remove(&0);
        assert_eq!((recent.get(&0).copied(), recent.bytes()), (None, 85));
        while recent.forget_oldest() {}
        assert_eq!(recent.bytes(), 0);
    }
}
