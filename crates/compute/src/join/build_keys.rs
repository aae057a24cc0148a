//! The keys of a join's build side, from the first row to the finished filter.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_pushdown::BloomFilter;

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
///   Collecting --finished() by every partition--> Known(filter)
///       ^   \----------any partition gave up----> Known(None)
///       |                                            |
///       +-------------------reset()------------------+
/// ```
///
/// A partition that fails or is dropped never finishes, so a filter that misses keys is never seen.
#[derive(Debug)]
pub(crate) struct BuildKeys {
    partitions: usize,
    /// Largest filter, in bytes; each partition of the build side fills one of this size.
    bytes_max: usize,
    /// Share of foreign keys that a filter may let through.
    false_positive_rate: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Collecting { finished: usize, united: Option<BloomFilter>, gave_up: bool },
    Known(Option<Arc<BloomFilter>>),
}

impl State {
    fn empty() -> Self {
        State::Collecting { finished: 0, united: None, gave_up: false }
    }
}

impl BuildKeys {
    /// Keys of a build side of `partitions` partitions.
    pub(crate) fn new(partitions: usize, bytes_max: usize, false_positive_rate: f64) -> Arc<Self> {
        Arc::new(Self { partitions, bytes_max, false_positive_rate, state: Mutex::new(State::empty()) })
    }

    /// An empty filter for one partition to fill.
    pub(crate) fn empty_filter(&self) -> BloomFilter {
        BloomFilter::with_bytes(self.bytes_max)
    }

    /// Whether `filter` holds more keys than its size can tell from others.
    pub(crate) fn overflows(&self, filter: &BloomFilter) -> bool {
        filter.false_positive_rate() > self.false_positive_rate
    }

    /// Takes the filter of a partition that has seen all its rows; `None` if it gave up collecting.
    pub(crate) fn finished(&self, filter: Option<BloomFilter>) {
        let mut state = self.state.lock();
        let State::Collecting { finished, united, gave_up } = &mut *state else {
            return;
        };
        *finished += 1;
        match (filter, united.as_mut()) {
            (None, _) => *gave_up = true,
            (Some(filter), None) => *united = Some(filter),
            (Some(filter), Some(united)) => united.unite(&filter),
        }
        if *finished < self.partitions {
            return;
        }
        let filter = united.take().filter(|filter| !*gave_up && !self.overflows(filter));
        *state = State::Known(filter.map(|filter| Arc::new(filter.shrunk(self.false_positive_rate))));
    }

    /// The filter, once all partitions have finished; `None` before, or if there were too many keys.
    pub(crate) fn filter(&self) -> Option<Arc<BloomFilter>> {
        match &*self.state.lock() {
            State::Known(filter) => filter.clone(),
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

    use super::*;

    fn filter(keys: &BuildKeys, hashes: impl IntoIterator<Item = u64>) -> BloomFilter {
        let mut filter = keys.empty_filter();
        hashes.into_iter().for_each(|hash| filter.insert(hash));
        filter
    }

    fn spread(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn is_known_when_the_last_partition_finished() {
        let keys = BuildKeys::new(2, 1 << 12, 0.01);
        keys.finished(Some(filter(&keys, (0..50).map(spread))));
        assert!(keys.filter().is_none(), "half the keys are no filter");
        keys.finished(Some(filter(&keys, (50..100).map(spread))));
        let known = keys.filter().unwrap();
        assert!((0..100).map(spread).all(|hash| known.may_contain(hash)));
        keys.reset();
        assert!(keys.filter().is_none());
    }

    #[test]
    fn too_many_keys_are_no_filter() {
        let keys = BuildKeys::new(1, 1 << 10, 0.01);
        keys.finished(Some(filter(&keys, (0..100_000).map(spread))));
        assert!(keys.filter().is_none());

        let keys = BuildKeys::new(2, 1 << 10, 0.01);
        keys.finished(None);
        keys.finished(Some(filter(&keys, (0..10).map(spread))));
        assert!(keys.filter().is_none(), "a partition that gave up has keys that are not in it");
    }
}
