//! Histogram of durations.

use std::time::Duration;

/// Bits of a value that a bucket keeps: within 1 part in 64 of the recorded value.
const BITS: u32 = 6;
const LINEAR: u64 = 1 << BITS;
/// Buckets up to the largest `u64`.
const BUCKETS: usize = ((64 - BITS as usize) + 1) << BITS;

/// A histogram of durations with a bounded relative error, as HdrHistogram keeps it: buckets grow with the
/// value, 64 of them from one power of two to the next.
///
/// ```
/// use std::time::Duration;
/// use thermocline_workloads::oltp::Latencies;
///
/// let mut latencies = Latencies::default();
/// (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
/// let median = latencies.quantile(0.5).as_micros();
/// assert!((500..=508).contains(&median));
/// ```
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Counts by bucket.
    counts: Box<[u64]>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0 }
    }
}

impl Latencies {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
            self.count += 1;
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.count += other.count;
    }

    /// Number of durations.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The duration that this share of all durations, 0 to 1, does not exceed; zero if none was counted.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(largest(bucket));
            }
        }
        Duration::ZERO
    }
}

fn bucket(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    (((u64::from(shift) + 1) << BITS) + (value >> shift) - LINEAR) as usize
}

/// The largest value in a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let lowest = (LINEAR + (bucket & (LINEAR - 1))) << shift;
    lowest + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for value in (0..100_000).chain((5..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = bucket(value);
            assert!(bucket < BUCKETS && largest(bucket) >= value, "{value}");
            assert!(largest(bucket) - value <= value >> BITS, "{value}");
            assert!(bucket == 0 || largest(bucket - 1) < value, "{value}");
        }
        assert_eq!((bucket(u64::MAX), largest(BUCKETS - 1)), (BUCKETS - 1, u64::MAX));
    }

    #[test]
    fn quantiles() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), Duration::ZERO);
        for _ in 0..999 {
            latencies.record(Duration::from_nanos(10));
        }
        let mut other = Latencies::default();
        other.record(Duration::from_secs(1));
        latencies.add(&other);
        assert_eq!((latencies.count(), latencies.quantile(0.999)), (1000, Duration::from_nanos(10)));
        let slowest = latencies.quantile(1.0).as_secs_f64();
        assert!((1.0..1.0 + 1.0 / 64.0).contains(&slowest), "{slowest}");
    }
}
