//! Counts and latencies of a timed period.

use super::Latencies;
use std::time::Duration;

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
    /// Maximum resident memory of the process; `None` if the system does not report it.
    pub rss_max_bytes: Option<u64>,
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
