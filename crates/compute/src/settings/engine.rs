//! Settings of what all queries of a database share.

use std::path::PathBuf;
use std::sync::Arc;

use thermocline_cache::{Lfu, Policy, policies, policy_named};
use thermocline_pushdown::units::{at_least, exact_size, parse_count, parse_size};
use thermocline_types::{Scope, Setting};

/// Resources that all queries of a database share.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Replacement policy of the segment cache.
    pub cache_policy: Arc<dyn Policy>,
    /// Limit of the segment cache, in bytes.
    pub cache_size: usize,
    /// Limit of the decoded footers that are kept, in bytes.
    pub footer_cache_size: usize,
    /// Stored bytes that a partition aims at.
    pub partition_size: u64,
    /// Memory for all queries that run, beside the segment cache, in bytes.
    pub query_memory_limit: usize,
    /// Queries that run at once; others wait for their turn.
    pub queries_in_flight: usize,
    /// Stored bytes that all scans may have in flight at once, beside one request of each.
    pub total_bytes_in_flight: u64,
    /// Where operators put what they have no memory for; `None` for the system's directory.
    pub temporary_directory: Option<PathBuf>,
    /// Bytes that they may put there.
    pub temporary_files_limit: u64,
}

/// Names of all replacement policies, in the order in which reports list them.
pub fn cache_policy_names() -> Vec<&'static str> {
    policies().iter().map(|policy| policy.name()).collect()
}

/// Queries that run at once for each core. A query that waits for storage needs none.
const QUERIES_PER_CORE: usize = 16;

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            cache_policy: Arc::new(Lfu),
            cache_size: 1 << 30,
            footer_cache_size: 256 << 20,
            partition_size: 16 << 20,
            query_memory_limit: 2 << 30,
            queries_in_flight: QUERIES_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from),
            total_bytes_in_flight: 1 << 30,
            temporary_directory: None,
            temporary_files_limit: 100 << 30,
        }
    }
}

/// Resources that all queries of a database share.
pub const ENGINE_SETTINGS: &[Setting<EngineSettings>] = &[
    Setting {
        name: "cache_policy",
        scope: Scope::Database,
        unit: "lfu, lru, wlfu, gdsf",
        description: "what the segment cache keeps: lfu, lru, wlfu or gdsf",
        get: |s| s.cache_policy.name().to_owned(),
        set: |s, text| policy_named(text).map(|policy| s.cache_policy = policy),
    },
    Setting {
        name: "cache_size",
        scope: Scope::Database,
        unit: "bytes",
        description: "limit of the segment cache",
        get: |s| exact_size(s.cache_size as u64),
        set: |s, text| parse_size(text).map(|size| s.cache_size = size as usize),
    },
    Setting {
        name: "footer_cache_size",
        scope: Scope::Database,
        unit: "bytes",
        description: "limit of the decoded Parquet footers that are kept",
        get: |s| exact_size(s.footer_cache_size as u64),
        set: |s, text| parse_size(text).map(|size| s.footer_cache_size = size as usize),
    },
    Setting {
        name: "partition_size",
        scope: Scope::Database,
        unit: "bytes",
        description: "stored bytes that a partition aims at",
        get: |s| exact_size(s.partition_size),
        set: |s, text| at_least(parse_size(text)?, 64 << 10, text).map(|size| s.partition_size = size),
    },
    Setting {
        name: "query_memory_limit",
        scope: Scope::Database,
        unit: "bytes",
        description: "memory for all queries that run, beside the segment cache; who needs more spills or fails",
        get: |s| exact_size(s.query_memory_limit as u64),
        set: |s, text| at_least(parse_size(text)?, 1 << 10, text).map(|size| s.query_memory_limit = size as usize),
    },
    Setting {
        name: "queries_in_flight",
        scope: Scope::Database,
        unit: "count",
        description: "queries of the analytic engine that run at once; others wait for their turn",
        get: |s| s.queries_in_flight.to_string(),
        set: |s, text| parse_count(text, 1).map(|count| s.queries_in_flight = count as usize),
    },
    Setting {
        name: "total_bytes_in_flight",
        scope: Scope::Database,
        unit: "bytes",
        description: "stored bytes that all scans fetch at once, beside one request of each",
        get: |s| exact_size(s.total_bytes_in_flight),
        set: |s, text| at_least(parse_size(text)?, 1, text).map(|size| s.total_bytes_in_flight = size),
    },
    Setting {
        name: "temporary_directory",
        scope: Scope::Opening,
        unit: "text",
        description: "where queries put what they have no memory for; empty for the system's directory",
        get: |s| s.temporary_directory.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        set: |s, text| {
            s.temporary_directory = (!text.is_empty()).then(|| text.into());
            Ok(())
        },
    },
    Setting {
        name: "temporary_files_limit",
        scope: Scope::Database,
        unit: "bytes",
        description: "bytes that queries may put there",
        get: |s| exact_size(s.temporary_files_limit),
        set: |s, text| parse_size(text).map(|size| s.temporary_files_limit = size),
    },
];
