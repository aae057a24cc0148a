//! One result of a transactional workload as a line of JSON.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::measured::{EvictionCounts, Moment};
use super::{Measured, Scan};

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
    /// Transactions that ran again because they needed a partition that they did not have; in other databases, because
    /// of a deadlock.
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
    /// Bytes of a row; `null` for TPC-C.
    pub row_bytes: Option<usize>,
    /// Whether the hot keys are spread out; `null` for TPC-C.
    pub scrambled: Option<bool>,
    /// `null` for YCSB.
    pub warehouses: Option<u32>,
    /// Whether TPC-C's transactions touch other warehouses; `null` for YCSB.
    pub remote: Option<bool>,
    /// Committed NewOrder transactions; `null` for YCSB.
    pub new_orders_per_s: Option<f64>,
    /// Whether rows could be evicted.
    pub evicts: bool,
    /// Bytes of rows in a block.
    pub block_bytes: usize,
    /// What comes back with an evicted row: `tuple`, the row alone, or `block`.
    pub merge: &'static str,
    /// How evicted rows are read.
    pub fetching: &'static str,
    /// How evicted rows were chosen: `sampled` or `chain`.
    pub victims: &'static str,
    /// Share of the transactions that the chain follows.
    pub chain_sampling: f64,
    /// What eviction did in the timed period.
    pub eviction: EvictionCounts,
    /// Times that the table was read as a whole during the run; `null` if no reader ran beside the clients.
    pub scans: Option<usize>,
    /// Mean time of them.
    pub scan_seconds: Option<f64>,
    /// Tenths of a second of the timed period.
    pub timeline: Vec<Moment>,
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
            eviction: measured.eviction,
            timeline: measured.timeline.clone(),
            ..self
        }
    }

    /// Fills in what a reader beside the clients did.
    #[must_use]
    pub fn with_scans(self, scans: &[Scan]) -> Self {
        let seconds: f64 = scans.iter().map(|scan| scan.took.as_secs_f64()).sum();
        let scan_seconds = (!scans.is_empty()).then(|| seconds / scans.len() as f64);
        Self { scans: Some(scans.len()), scan_seconds, ..self }
    }
}

// Not derived: benches of the row engine compile the types without `serde`.
impl Serialize for EvictionCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            evicted_rows,
            returned_rows,
            written_bytes,
            reads,
            read_bytes,
            waits,
            blocking,
            held_us_max,
            held: _,
        } = self;
        let mut fields = serializer.serialize_struct("EvictionCounts", 8)?;
        fields.serialize_field("evicted_rows", evicted_rows)?;
        fields.serialize_field("returned_rows", returned_rows)?;
        fields.serialize_field("written_bytes", written_bytes)?;
        fields.serialize_field("reads", reads)?;
        fields.serialize_field("read_bytes", read_bytes)?;
        fields.serialize_field("waits", waits)?;
        fields.serialize_field("blocking", blocking)?;
        fields.serialize_field("held_us_max", held_us_max)?;
        fields.end()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Moment", 4)?;
        fields.serialize_field("seconds", &self.seconds)?;
        fields.serialize_field("transactions", &self.transactions)?;
        fields.serialize_field("evicted_rows", &self.evicted_rows)?;
        fields.serialize_field("returned_rows", &self.returned_rows)?;
        fields.end()
    }
}
