//! Counts and latencies of a timed period.

use std::time::Duration;

use thermocline_transactions::database::Statistics;
use thermocline_transactions::engine::HoldTimes;

use super::Latencies;

/// Measurements of clients in the timed period.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Length of the period.
    pub period: Duration,
    /// By procedure, in the order in which these were given.
    pub tallies: Vec<Tally>,
    /// From submitting a call to having its result, for committed calls.
    pub latencies: Latencies,
    /// Calls refused with 40001: full queues, mostly.
    pub refused: u64,
    /// Transactions that ran again because they needed a partition that they did not have.
    pub restarts: u64,
    /// What eviction did in the period.
    pub eviction: EvictionCounts,
    /// Tenths of a second of the period, in order.
    pub timeline: Vec<Moment>,
    /// Maximum resident memory of the process; `None` if the system does not report it.
    pub rss_max_bytes: Option<u64>,
}

/// What eviction did in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvictionCounts {
    /// Rows that went to blocks.
    pub evicted_rows: u64,
    /// Rows that came back.
    pub returned_rows: u64,
    /// Bytes of the blocks written.
    pub written_bytes: u64,
    /// Reads of the disk.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Times that a transaction waited for rows.
    pub waits: u64,
    /// Times that a partition waited for rows.
    pub blocking: u64,
    /// Times for which eviction or returning rows held a partition, since the database was opened.
    pub held: HoldTimes,
    /// The longest of them in the period, in microseconds; exact to a factor of two unless there was none so long before.
    pub held_us_max: u64,
}

impl EvictionCounts {
    /// The counts since the database was opened.
    pub fn of(statistics: &Statistics) -> Self {
        let mut counts = Self::default();
        for partition in &statistics.partitions {
            for table in &partition.tables {
                counts.evicted_rows += table.evicted_total;
                counts.returned_rows += table.returned_total;
            }
            if let Some(blocks) = &partition.blocks {
                counts.written_bytes += blocks.written_bytes_total;
                counts.reads += blocks.reads_total;
                counts.read_bytes += blocks.read_bytes_total;
            }
            counts.waits += partition.waits.waits_total;
            counts.blocking += partition.waits.blocking_total;
            counts.held = counts.held.with(&partition.held_by_eviction);
        }
        counts.held_us_max = micros(counts.held.longest);
        counts
    }

    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            evicted_rows: self.evicted_rows - earlier.evicted_rows,
            returned_rows: self.returned_rows - earlier.returned_rows,
            written_bytes: self.written_bytes - earlier.written_bytes,
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            waits: self.waits - earlier.waits,
            blocking: self.blocking - earlier.blocking,
            held: self.held,
            held_us_max: micros(self.held.longest_since(&earlier.held)),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A piece of the timed period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds of the period by its end.
    pub seconds: f64,
    /// Transactions committed in it.
    pub transactions: u64,
    /// Rows evicted in it.
    pub evicted_rows: u64,
    /// Rows that came back in it.
    pub returned_rows: u64,
}

/// Outcomes of the calls of one procedure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that were committed.
    pub committed: u64,
    /// Those that rolled themselves back.
    pub aborted: u64,
}

impl Measured {
    /// Committed transactions of all procedures.
    pub fn committed(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.committed).sum()
    }

    /// Transactions that rolled themselves back.
    pub fn aborted(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.aborted).sum()
    }

    /// Events a second of the timed period.
    pub fn per_second(&self, events: u64) -> f64 {
        events as f64 / self.period.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds the measurements of another client in the same period.
    pub fn add(&mut self, other: &Self) {
        self.tallies.resize(self.tallies.len().max(other.tallies.len()), Tally::default());
        for (tally, other) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.committed += other.committed;
            tally.aborted += other.aborted;
        }
        self.latencies.add(&other.latencies);
        self.refused += other.refused;
    }
}
