use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long transactions have held one partition, so that nothing else ran there.
///
/// Holds in microseconds: of statements and calls of sessions, and looks at the partition such as the steps of a
/// snapshot and of a query, and whatever holds several partitions, from when this one waits for the others. Not timed
/// are transactions over one partition that nobody can stop, as programs with many at a time submit them: two looks at
/// the clock would be a twentieth of what one of them takes.
#[derive(Debug, Default)]
pub struct Holds {
    longest_ns: AtomicU64,
    long: AtomicU64,
}

/// Statistics of a partition's holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldTimes {
    /// The longest since the database was opened.
    pub longest: Duration,
    /// How many were longer than [`HoldTimes::LONG`].
    pub long: u64,
}

impl HoldTimes {
    /// So long that whoever waits for the partition notices it.
    pub const LONG: Duration = Duration::from_millis(10);
}

impl Holds {
    /// One more.
    pub fn add(&self, held: Duration) {
        self.longest_ns.fetch_max(u64::try_from(held.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if held > HoldTimes::LONG {
            self.long.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those so far.
    pub fn times(&self) -> HoldTimes {
        let longest = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        HoldTimes { longest, long: self.long.load(Ordering::Relaxed) }
    }
}
