//! Records of benches, as lines of JSON.

/// Fields of a query that any bench has run.
pub const QUERY_FIELDS: [&str; 23] = [
    "query",
    "sql",
    "rows",
    "result_hash",
    "partitions_local",
    "partitions_answered",
    "partitions_load",
    "partitions_pushdown",
    "partitions_bitmap",
    "partitions_pullup",
    "partitions_pushed_back",
    "segments_hit",
    "segments_missed",
    "segments_admitted",
    "segments_evicted",
    "computing_us",
    "decoding_us",
    "network_us",
    "storage_us",
    "waiting_us",
    "expected_us",
    "taken_us",
    "dollars",
];
