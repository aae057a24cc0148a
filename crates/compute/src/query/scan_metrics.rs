//! Counters of a scan: shown by `EXPLAIN ANALYZE`, summed up in `system.queries`.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use thermocline_pushdown::Route;

/// Counters of one scan, shared with its `EXPLAIN ANALYZE` line.
#[derive(Debug, Clone)]
pub struct ScanMetrics {
    set: ExecutionPlanMetricsSet,
    partitions: [Count; Route::ALL.len()],
    /// Partitions that are finished, whatever their route.
    pub partitions_done: Count,
    /// Partitions left out by their statistics.
    pub partitions_pruned: Count,
    /// Bloom filters of joins that were applied at storage, and those applied here.
    pub bloom_filters: Count,
    /// Sets of build keys that rows in memory are tested against.
    pub key_sets: Count,
    /// Scans that started without a join's filter, because it was not ready in time.
    pub filters_missed: Count,
    /// Partitions that were pushed down, and pulled up after all because the node was busy, or its
    /// answer would have been larger than the stored bytes or did not fit its memory.
    pub partitions_pushed_back: Count,
    /// Bytes of answers, as Flight messages.
    pub bytes_from_storage: Count,
    /// Bytes of requests.
    pub bytes_to_storage: Count,
    /// `DoGet` requests.
    pub requests: Count,
    /// Stored bytes that pushed-down fragments read at storage.
    pub bytes_scanned: Count,
    /// Bytes that pushed-down fragments returned.
    pub bytes_returned: Count,
    /// Selection bitmaps sent to storage nodes.
    pub bitmaps_to_storage: Count,
    /// Selection bitmaps that came from storage nodes. A partition whose predicate was evaluated in
    /// part on either side may count in both.
    pub bitmaps_from_storage: Count,
    /// Encoded bytes of the bitmaps sent, part of `bytes_to_storage`.
    pub bitmap_bytes_to_storage: Count,
    /// Encoded bytes of the bitmaps received, part of `bytes_from_storage`.
    pub bitmap_bytes_from_storage: Count,
    /// Columns that storage nodes were asked to read or to send as stored, summed over partitions.
    pub columns_scanned: Count,
    /// Columns that they would have read for the whole fragment and did not, because a bitmap or a
    /// cached column stood for them.
    pub columns_saved: Count,
    /// Partitions of which storage nodes found the rows through an index.
    pub partitions_indexed: Count,
    /// Bytes of index objects that they read for it, part of `bytes_scanned`.
    pub index_bytes_read: Count,
    /// Needed segments that were cached.
    pub segments_hit: Count,
    /// Needed segments that were not, those that another query was loading included.
    pub segments_missed: Count,
    /// Segments loaded into the cache.
    pub segments_admitted: Count,
    /// Segments evicted for them.
    pub segments_evicted: Count,
    /// Time that the fragment computed here, summed over threads.
    pub time_compute: Time,
    /// Time that stored bytes and answers were decoded here, summed over threads.
    pub time_decode: Time,
    /// Time that bytes were on their way, summed over requests.
    pub time_network: Time,
    /// Time that storage nodes report for fragments, without what they waited, summed over requests.
    pub time_storage: Time,
    /// Time that requests waited for a slot of their storage node, summed over requests.
    pub time_waiting: Time,
    /// Time that the model expected of scans whose routes it chose.
    pub time_expected: Time,
    /// Time that these scans took, from routing to the last row of the last partition.
    pub time_taken: Time,
}

impl ScanMetrics {
    /// All at zero.
    pub fn new() -> Self {
        let set = ExecutionPlanMetricsSet::new();
        let count = |name: &'static str| MetricBuilder::new(&set).global_counter(name);
        let time = |name: &'static str| MetricBuilder::new(&set).subset_time(name, 0);
        Self {
            partitions: Route::ALL.map(|route| {
                count(match route {
                    Route::Local => "partitions_local",
                    Route::Answered => "partitions_answered",
                    Route::Load => "partitions_load",
                    Route::Pushdown => "partitions_pushdown",
                    Route::Bitmap => "partitions_bitmap",
                    Route::Pullup => "partitions_pullup",
                })
            }),
            partitions_done: count("partitions_done"),
            partitions_pruned: count("partitions_pruned"),
            bloom_filters: count("bloom_filters"),
            key_sets: count("key_sets"),
            filters_missed: count("filters_missed"),
            partitions_pushed_back: count("partitions_pushed_back"),
            bytes_from_storage: count("bytes_from_storage"),
            bytes_to_storage: count("bytes_to_storage"),
            requests: count("requests"),
            bytes_scanned: count("bytes_scanned"),
            bytes_returned: count("bytes_returned"),
            bitmaps_to_storage: count("bitmaps_to_storage"),
            bitmaps_from_storage: count("bitmaps_from_storage"),
            bitmap_bytes_to_storage: count("bitmap_bytes_to_storage"),
            bitmap_bytes_from_storage: count("bitmap_bytes_from_storage"),
            columns_scanned: count("columns_scanned"),
            columns_saved: count("columns_saved"),
            partitions_indexed: count("partitions_indexed"),
            index_bytes_read: count("index_bytes_read"),
            segments_hit: count("segments_hit"),
            segments_missed: count("segments_missed"),
            segments_admitted: count("segments_admitted"),
            segments_evicted: count("segments_evicted"),
            time_compute: time("time_compute"),
            time_decode: time("time_decode"),
            time_network: time("time_network"),
            time_storage: time("time_storage"),
            time_waiting: time("time_waiting"),
            time_expected: time("time_expected"),
            time_taken: time("time_taken"),
            set,
        }
    }

    /// The counter of partitions that took `route`.
    pub fn partitions(&self, route: Route) -> &Count {
        let [local, answered, load, pushdown, bitmap, pullup] = &self.partitions;
        match route {
            Route::Local => local,
            Route::Answered => answered,
            Route::Load => load,
            Route::Pushdown => pushdown,
            Route::Bitmap => bitmap,
            Route::Pullup => pullup,
        }
    }

    /// A snapshot for `EXPLAIN ANALYZE`.
    pub fn snapshot(&self) -> MetricsSet {
        self.set.clone_inner()
    }
}
