//! One measured query.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use serde::Serialize;
use thermocline_compute::QueryStats;
use thermocline_pushdown::Route;

/// A line of `bench --json`. Fields are added, never renamed.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names are the documentation, and the design's")]
pub struct Record {
    pub workload: String,
    pub scale: f64,
    pub format: String,
    pub mode: String,
    pub policy: String,
    pub cache_bytes: u64,
    /// `null` without a limit.
    pub egress_bytes_per_s: Option<u64>,
    pub query: String,
    pub sql: String,
    /// `warmup` or `timed`.
    pub run: &'static str,
    pub seconds: f64,
    pub rows: u64,
    pub result_hash: String,
    pub bytes_from_storage: u64,
    pub bytes_to_storage: u64,
    pub partitions_local: u64,
    pub partitions_load: u64,
    pub partitions_pushdown: u64,
    pub partitions_bitmap: u64,
    pub partitions_pullup: u64,
    pub partitions_pushed_back: u64,
    pub bitmap_bytes_to_storage: u64,
    pub bitmap_bytes_from_storage: u64,
    /// Columns that storage nodes read, summed over partitions.
    pub columns_scanned: u64,
    pub segments_hit: u64,
    pub segments_missed: u64,
    pub segments_admitted: u64,
    pub segments_evicted: u64,
    pub dollars: f64,
}

impl Record {
    /// Fills in what a query's scans did.
    pub(super) fn with_stats(mut self, stats: &QueryStats) -> Self {
        self.bytes_from_storage = stats.bytes_from_storage;
        self.bytes_to_storage = stats.bytes_to_storage;
        self.partitions_local = stats.partitions(Route::Local);
        self.partitions_load = stats.partitions(Route::Load);
        self.partitions_pushdown = stats.partitions(Route::Pushdown);
        self.partitions_bitmap = stats.partitions(Route::Bitmap);
        self.partitions_pullup = stats.partitions(Route::Pullup);
        self.partitions_pushed_back = stats.partitions_pushed_back;
        self.bitmap_bytes_to_storage = stats.bitmap_bytes_to_storage;
        self.bitmap_bytes_from_storage = stats.bitmap_bytes_from_storage;
        self.columns_scanned = stats.columns_scanned;
        self.segments_hit = stats.segments_hit;
        self.segments_missed = stats.segments_missed;
        self.segments_admitted = stats.segments_admitted;
        self.segments_evicted = stats.segments_evicted;
        self
    }
}

/// A hash of the rows as a multiset: equal results hash alike whatever the order of equal rows.
///
/// # Errors
/// If a column has a type that cannot be printed.
pub fn result_hash(batches: &[RecordBatch]) -> Result<String> {
    let options = FormatOptions::new().with_null("\u{0}");
    let mut sum: u64 = 0;
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            // FNV-1a per row, summed up.
            let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
            for column in &columns {
                for byte in column.value(row).to_string().bytes().chain([0xff]) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            sum = sum.wrapping_add(hash);
        }
    }
    Ok(format!("{sum:016x}"))
}
