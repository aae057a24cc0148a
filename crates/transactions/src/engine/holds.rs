//! Statistics of the times for which a partition was held.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times for which transactions held one partition, so that nothing else ran there.
///
/// Counts, in microseconds, statements and calls of sessions; visits, such as steps of a snapshot or a query; and work
/// over several partitions, from when this one waits for the others. Transactions over one partition without an
/// interrupt, which programs submit many at a time, are not timed: reading the clock twice would be a twentieth of
/// their time.
#[derive(Debug, Default)]
pub struct Holds {
    longest_ns: AtomicU64,
    long: AtomicU64,
}

/// Statistics of a partition's holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldTimes {
    /// The longest hold since the database was opened.
    pub longest: Duration,
    /// Holds longer than [`HoldTimes::LONG`].
    pub long: u64,
}

impl HoldTimes {
    /// A hold so long that waiting requests notice it.
    pub const LONG: Duration = Duration::from_millis(10);
}

impl Holds {
    /// Adds a hold.
    pub fn add(&self, held: Duration) {
        self.longest_ns.fetch_max(u64::try_from(held.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if held > HoldTimes::LONG {
            self.long.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Statistics so far.
    pub fn times(&self) -> HoldTimes {
        let longest = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        HoldTimes { longest, long: self.long.load(Ordering::Relaxed) }
    }
}
