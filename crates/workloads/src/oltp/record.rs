//! One result of a transactional workload as a line of JSON.

use serde::Serialize;

use super::Measured;

/// A line of `bench --json` for a transactional workload. Fields are added, never renamed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are the documentation, and the design's")]
pub struct TransactionRecord {
    pub workload: &'static str,
    pub engine: String,
    pub mix: String,
    /// Exponent of the Zipf distribution; `null` if keys are not drawn from one.
    pub skew: Option<f64>,
    /// Rows, indexes and locators after the load.
    pub data_bytes: u64,
    pub memory_limit_bytes: u64,
    pub partitions: u16,
    /// Length of the timed period.
    pub seconds: f64,
    /// Committed transactions.
    pub transactions: u64,
    pub transactions_per_s: f64,
    /// Transactions that rolled themselves back.
    pub aborts: u64,
    /// Transactions that ran again because they needed a partition that they did not have.
    pub restarts: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub rss_max_bytes: Option<u64>,
    /// `rust`, `lua` or `sql`.
    pub procedures: String,
    /// Whether there was a command log.
    pub log: bool,
    /// Whether results waited until the log was on the disk.
    pub synchronous_commit: bool,
    pub clients: usize,
    /// Calls that each client has in flight.
    pub in_flight: usize,
    /// Calls refused with 40001.
    pub refused: u64,
    /// Rows of the table; `null` for TPC-C.
    pub rows: Option<u64>,
    /// Whether the hot keys are spread out; `null` for TPC-C.
    pub scrambled: Option<bool>,
    /// `null` for YCSB.
    pub warehouses: Option<u32>,
    /// Whether TPC-C's transactions touch other warehouses; `null` for YCSB.
    pub remote: Option<bool>,
    /// Committed NewOrder transactions; `null` for YCSB.
    pub new_orders_per_s: Option<f64>,
}

impl TransactionRecord {
    /// Fills in the measurements.
    #[must_use]
    pub fn with(self, measured: &Measured) -> Self {
        let micros = |share: f64| measured.latencies.quantile(share).as_nanos() as f64 / 1000.0;
        Self {
            seconds: measured.period.as_secs_f64(),
            transactions: measured.committed(),
            transactions_per_s: measured.per_second(measured.committed()),
            aborts: measured.aborted(),
            restarts: measured.restarts,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            rss_max_bytes: measured.rss_max_bytes,
            refused: measured.refused,
            ..self
        }
    }
}
