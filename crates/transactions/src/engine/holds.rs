//! Statistics of the times for which a partition was held.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thermocline_machine::Clock;
use thermocline_machine::ids::{Micros, PartitionId};
use thermocline_tables::partition::Member;

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
    /// See [`HoldTimes::counts`].
    counts: [AtomicU64; LENGTHS],
}

/// Lengths of holds that are counted apart: powers of two of microseconds.
const LENGTHS: usize = 32;

/// Statistics of a partition's holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldTimes {
    /// The longest hold since the database was opened.
    pub longest: Duration,
    /// Holds longer than [`HoldTimes::LONG`].
    pub long: u64,
    /// Holds by their length in microseconds: less than 1, 2, 4, 8, and so on.
    pub counts: [u64; LENGTHS],
}

impl HoldTimes {
    /// A hold so long that waiting requests notice it.
    pub const LONG: Duration = Duration::from_millis(10);

    /// The longest hold after `earlier`: exactly if it was the longest of all, otherwise twice as long at most.
    pub fn longest_since(&self, earlier: &Self) -> Duration {
        if self.longest > earlier.longest {
            return self.longest;
        }
        let grown = self.counts.iter().zip(&earlier.counts).rposition(|(now, before)| now > before);
        grown.map_or(Duration::ZERO, |length| Duration::from_micros(1 << length).min(self.longest))
    }

    /// Adds the holds of another partition.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.longest = self.longest.max(other.longest);
        self.long += other.long;
        self.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
        self
    }
}

impl Holds {
    /// Adds a hold.
    pub fn add(&self, held: Duration) {
        self.longest_ns.fetch_max(u64::try_from(held.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if held > HoldTimes::LONG {
            self.long.fetch_add(1, Ordering::Relaxed);
        }
        let length = held.as_micros().checked_ilog2().map_or(0, |power| power as usize + 1);
        if let Some(count) = self.counts.get(length.min(LENGTHS - 1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Statistics so far.
    pub fn times(&self) -> HoldTimes {
        let longest = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        HoldTimes { longest, long: self.long.load(Ordering::Relaxed), counts }
    }
}

/// Times for which eviction, and rows that come back from blocks, held each partition: also within a transaction that
/// reads them where it runs, or that finds no memory.
#[derive(Debug)]
pub struct EvictionHolds {
    clock: Clock,
    /// By number.
    partitions: Vec<Holds>,
}

impl EvictionHolds {
    /// Nothing yet, of so many partitions.
    pub fn new(clock: Clock, partitions: usize) -> Self {
        Self { clock, partitions: (0..partitions).map(|_| Holds::default()).collect() }
    }

    /// Does something to partitions that holds all of them meanwhile.
    pub fn hold<T>(&self, members: &mut [Member], work: impl FnOnce(&mut [Member]) -> T) -> T {
        let begun = self.clock.now();
        let done = work(members);
        for member in &*members {
            self.add(member.partition.id(), begun);
        }
        done
    }

    /// Adds a hold of one partition since `begun`; returns its duration.
    pub fn add(&self, partition: PartitionId, begun: Micros) -> Duration {
        let held = self.clock.since(begun);
        if let Some(holds) = self.partitions.get(usize::from(partition.0)) {
            holds.add(held);
        }
        held
    }

    /// Statistics of a partition so far.
    pub fn times(&self, partition: PartitionId) -> HoldTimes {
        self.partitions.get(usize::from(partition.0)).map(Holds::times).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_period() {
        let holds = Holds::default();
        let add = |us| holds.add(Duration::from_micros(us));
        let since = |earlier: &HoldTimes| holds.times().longest_since(earlier).as_micros();
        add(70_000);
        let loaded = holds.times();
        assert_eq!((since(&HoldTimes::default()), since(&loaded)), (70_000, 0));
        [0, 3, 900, 5].into_iter().for_each(add);
        assert_eq!(since(&loaded), 1024);
        let later = holds.times();
        add(80_000);
        assert_eq!((since(&loaded), since(&later)), (80_000, 80_000));
        assert_eq!(holds.times().with(&later).counts.iter().sum::<u64>(), 6 + 5);
    }
}
