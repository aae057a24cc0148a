//! One measured query.

use arrow::array::RecordBatch;
use datafusion::common::Result as DataFusionResult;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use thermocline_compute::{EngineSettings, QuerySettings, QueryStats};
use thermocline_pushdown::Route;

use super::results::{Row, rows, sort_keys};

/// A line of `bench --json`. Fields are added, never renamed.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names are the documentation, and the design's")]
pub struct Record {
    pub workload: String,
    pub scale: f64,
    pub format: String,
    pub mode: String,
    /// `null` without a limit, and for engines that read the files themselves.
    pub egress_bytes_per_s: Option<u64>,
    pub query: String,
    pub sql: String,
    /// `warmup` or `timed`.
    pub run: &'static str,
    pub seconds: f64,
    pub rows: u64,
    /// `null` for DuckDB, whose types differ: its rows are compared value by value instead.
    pub result_hash: Option<String>,
    /// Counters of our sessions. All of these fields are `null` for other engines.
    #[serde(flatten, serialize_with = "counts_or_nulls")]
    pub counts: Option<Counts>,
}

/// Counters of a query in a session.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the names are the documentation, and the design's")]
pub struct Counts {
    pub policy: String,
    pub cache_bytes: u64,
    pub bytes_from_storage: u64,
    pub bytes_to_storage: u64,
    pub partitions_local: u64,
    pub partitions_answered: u64,
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
    /// Times in microseconds, summed over threads or requests.
    pub computing_us: u64,
    pub decoding_us: u64,
    pub network_us: u64,
    pub storage_us: u64,
    pub waiting_us: u64,
    pub expected_us: u64,
    pub taken_us: u64,
    pub dollars: f64,
}

impl Record {
    /// Bytes from and to storage; `None` if they were not counted.
    pub fn bytes_moved(&self) -> Option<u64> {
        self.counts.as_ref().map(|counts| counts.bytes_from_storage + counts.bytes_to_storage)
    }

    /// One of the counts; 0 if it was not counted.
    pub fn count(&self, of: impl FnOnce(&Counts) -> u64) -> u64 {
        self.counts.as_ref().map_or(0, of)
    }
}

impl Counts {
    /// Counters of a query that took `seconds` under `settings` and `limits`.
    pub(super) fn new(settings: &QuerySettings, limits: &EngineSettings, stats: &QueryStats, seconds: f64) -> Self {
        Self {
            policy: limits.cache_policy.name().to_owned(),
            cache_bytes: limits.cache_size as u64,
            bytes_from_storage: stats.bytes_from_storage,
            bytes_to_storage: stats.bytes_to_storage,
            partitions_local: stats.partitions(Route::Local),
            partitions_answered: stats.partitions(Route::Answered),
            partitions_load: stats.partitions(Route::Load),
            partitions_pushdown: stats.partitions(Route::Pushdown),
            partitions_bitmap: stats.partitions(Route::Bitmap),
            partitions_pullup: stats.partitions(Route::Pullup),
            partitions_pushed_back: stats.partitions_pushed_back,
            bitmap_bytes_to_storage: stats.bitmap_bytes_to_storage,
            bitmap_bytes_from_storage: stats.bitmap_bytes_from_storage,
            columns_scanned: stats.columns_scanned,
            segments_hit: stats.segments_hit,
            segments_missed: stats.segments_missed,
            segments_admitted: stats.segments_admitted,
            segments_evicted: stats.segments_evicted,
            computing_us: stats.computing_us,
            decoding_us: stats.decoding_us,
            network_us: stats.network_us,
            storage_us: stats.storage_us,
            waiting_us: stats.waiting_us,
            expected_us: stats.expected_us,
            taken_us: stats.taken_us,
            dollars: stats.dollars(settings, seconds),
        }
    }
}

fn counts_or_nulls<S: Serializer>(counts: &Option<Counts>, serializer: S) -> Result<S::Ok, S::Error> {
    match counts {
        Some(counts) => counts.serialize(serializer),
        None => {
            let fields = serde_json::to_value(Counts::default()).map_err(S::Error::custom)?;
            let names = fields.as_object().into_iter().flat_map(|fields| fields.keys());
            serializer.collect_map(names.map(|name| (name, ())))
        }
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Hash of the rows of `sql`. Equal results hash alike in whatever order the query leaves open: all rows without ORDER
/// BY, and those with equal sort keys otherwise.
///
/// # Errors
/// If a column has a type that cannot be printed.
pub fn result_hash(sql: &str, batches: &[RecordBatch]) -> DataFusionResult<String> {
    let rows = rows(batches)?;
    let mut hash: u64 = 0;
    for run in sort_keys(sql, batches).runs(&rows) {
        // The sum does not depend on the order of rows within a run; the hash depends on the order of runs.
        hash =
            hash.wrapping_mul(FNV_PRIME).wrapping_add(run.iter().fold(0, |sum, row| sum.wrapping_add(row_hash(row))));
    }
    Ok(format!("{hash:016x}"))
}

/// FNV-1a. The marks of NULL and of a cell's end are not bytes of UTF-8.
fn row_hash(row: &Row) -> u64 {
    let bytes = row.iter().flat_map(|cell| {
        let text = cell.as_deref().map_or(&[0xfe][..], str::as_bytes);
        text.iter().copied().chain([0xff])
    });
    bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}
