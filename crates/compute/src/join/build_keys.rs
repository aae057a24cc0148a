//! The keys of a join's build side, from the first row to the finished filter.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_pushdown::{BloomFilter, KeySet};

/// A hash join as seen by the scans that its dynamic filter reaches.
#[derive(Debug, Clone)]
pub(crate) struct FilterMaker {
    /// Keys of its build side, if it collects them.
    pub(crate) keys: Option<Arc<BuildKeys>>,
    /// Whether its probe side is the scan itself: nothing in between joins, aggregates or moves rows.
    pub(crate) direct: bool,
}

/// Keys that the partitions of a build side collect for the scans of the probe side.
///
/// ```text
///   Collecting --finished() by every partition--> Known(filter, set)
///       ^                                            |
///       +-------------------reset()------------------+
/// ```
///
/// There is no filter, or no set, if a partition gave up on its own.
///
/// A partition that fails or is dropped never finishes, so a filter that misses keys is never seen.
#[derive(Debug)]
pub(crate) struct BuildKeys {
    partitions: usize,
    /// Largest filter, in bytes; each partition of the build side fills one of this size. 0 for none.
    bytes_max: usize,
    /// Share of foreign keys that a filter may let through.
    false_positive_rate: f64,
    /// Whether keys are collected exactly too.
    exactly: bool,
    state: Mutex<State>,
}

/// Largest set of keys, in bytes: 32 million values between the least and the greatest.
pub(super) const SET_BYTES_MAX: usize = 4 << 20;

/// Keys as they are collected, by one partition or by all of them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// `None` if no filter is wanted, there were too many keys, or there was no memory for it.
    pub(super) filter: Option<BloomFilter>,
    /// `None` if no set is wanted, the keys lie too far apart or are none that a set holds, or there was no memory for
    /// it.
    pub(super) set: Option<KeySet>,
}

#[derive(Debug)]
enum State {
    Collecting { finished: usize, united: Option<Collected> },
    Known { filter: Option<Arc<BloomFilter>>, set: Option<Arc<KeySet>> },
}

impl State {
    fn empty() -> Self {
        State::Collecting { finished: 0, united: None }
    }
}

impl BuildKeys {
    /// Keys of a build side of `partitions` partitions, in a filter of at most `bytes_max` bytes (0 for
    /// none), and in a set if `exactly`.
    pub(crate) fn new(partitions: usize, bytes_max: usize, false_positive_rate: f64, exactly: bool) -> Arc<Self> {
        Arc::new(Self { partitions, bytes_max, false_positive_rate, exactly, state: Mutex::new(State::empty()) })
    }

    /// An empty filter and an empty set for one partition to fill.
    pub(super) fn empty(&self) -> Collected {
        Collected {
            filter: (self.bytes_max > 0).then(|| BloomFilter::with_bytes(self.bytes_max)),
            set: self.exactly.then(KeySet::default),
        }
    }

    /// Whether `filter` holds more keys than its size can tell from others.
    pub(crate) fn overflows(&self, filter: &BloomFilter) -> bool {
        filter.false_positive_rate() > self.false_positive_rate
    }

    /// Takes the keys of a partition that has seen all its rows.
    pub(super) fn finished(&self, keys: Collected) {
        let mut state = self.state.lock();
        let State::Collecting { finished, united } = &mut *state else {
            return;
        };
        *finished += 1;
        *united = Some(match united.take() {
            None => keys,
            Some(others) => Collected {
                filter: others.filter.zip(keys.filter).map(|(mut all, more)| {
                    all.unite(&more);
                    all
                }),
                set: others.set.zip(keys.set).and_then(|(all, more)| all.united(&more, SET_BYTES_MAX)),
            },
        });
        if *finished < self.partitions {
            return;
        }
        let Collected { filter, set } = united.take().unwrap_or_default();
        let filter = filter.filter(|filter| !self.overflows(filter));
        *state = State::Known {
            filter: filter.map(|filter| Arc::new(filter.shrunk(self.false_positive_rate))),
            set: set.map(Arc::new),
        };
    }

    /// The filter, once all partitions have finished; `None` before, or if there is none ([`Collected::filter`]).
    pub(crate) fn filter(&self) -> Option<Arc<BloomFilter>> {
        match &*self.state.lock() {
            State::Known { filter, .. } => filter.clone(),
            State::Collecting { .. } => None,
        }
    }

    /// All keys and no others, once all partitions have finished; `None` before, or if there is no set
    /// ([`Collected::set`]).
    pub(crate) fn set(&self) -> Option<Arc<KeySet>> {
        match &*self.state.lock() {
            State::Known { set, .. } => set.clone(),
            State::Collecting { .. } => None,
        }
    }

    /// Forgets everything: the plan is about to be executed again.
    pub(crate) fn reset(&self) {
        *self.state.lock() = State::empty();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn filter(keys: &BuildKeys, hashes: impl IntoIterator<Item = u64>) -> Collected {
        let mut filter = keys.empty().filter.unwrap();
        hashes.into_iter().for_each(|hash| filter.insert(hash));
        Collected { filter: Some(filter), set: None }
    }

    fn set(keys: &BuildKeys, values: impl IntoIterator<Item = i64>) -> Collected {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        let mut set = keys.empty().set.unwrap();
        assert!(set.insert(&values, SET_BYTES_MAX));
        Collected { filter: None, set: Some(set) }
    }

    fn spread(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn is_known_when_the_last_partition_finished() {
        let keys = BuildKeys::new(2, 1 << 12, 0.01, false);
        keys.finished(filter(&keys, (0..50).map(spread)));
        assert!(keys.filter().is_none(), "half the keys are no filter");
        keys.finished(filter(&keys, (50..100).map(spread)));
        let known = keys.filter().unwrap();
        assert!((0..100).map(spread).all(|hash| known.may_contain(hash)));
        keys.reset();
        assert!(keys.filter().is_none());
    }

    #[test]
    fn too_many_keys_are_no_filter() {
        let keys = BuildKeys::new(1, 1 << 10, 0.01, false);
        keys.finished(filter(&keys, (0..100_000).map(spread)));
        assert!(keys.filter().is_none());

        let keys = BuildKeys::new(2, 1 << 10, 0.01, false);
        keys.finished(Collected::default());
        keys.finished(filter(&keys, (0..10).map(spread)));
        assert!(keys.filter().is_none(), "a partition that gave up has keys that are not in it");
    }

    #[test]
    fn sets_are_known_when_the_last_partition_finished() {
        let keys = BuildKeys::new(2, 0, 0.01, true);
        assert!(keys.empty().filter.is_none());
        keys.finished(set(&keys, 0..50));
        assert!(keys.set().is_none(), "half the keys are no set");
        keys.finished(set(&keys, 1000..1050));
        assert_eq!(keys.set().unwrap().len(), 100);
        keys.reset();
        keys.finished(set(&keys, 0..50));
        keys.finished(Collected::default());
        assert!(keys.set().is_none(), "a partition that gave up has keys that are not in it");
        keys.reset();
        keys.finished(set(&keys, 0..50));
        keys.finished(set(&keys, [i64::MAX]));
        assert!(keys.set().is_none(), "they lie too far apart");
    }
}
