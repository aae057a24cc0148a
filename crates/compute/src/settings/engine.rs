//! Settings of what all queries of a database share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use thermocline_cache::{Belady, Lfu, Policy, policies, policy_named};
use thermocline_pushdown::units::{at_least, exact_size, parse_count, parse_size};
use thermocline_replay::trace::{Trace, TraceError};
use thermocline_types::{Scope, Setting};

/// Name of Belady's policy, which stands before the path of its trace.
const BELADY: &str = "belady";

/// A replacement policy, and the text that chose it.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// The policy that the cache follows.
    policy: Arc<dyn Policy>,
    /// Path of the trace of Belady's policy, if the text chose that; also where another one stands in for it.
    trace: Option<String>,
}

impl CachePolicy {
    /// Path of the trace that a text names; `None` if it names none.
    pub fn trace_in(text: &str) -> Option<&str> {
        let (name, path) = text.trim().split_once(':')?;
        name.eq_ignore_ascii_case(BELADY).then_some(path.trim())
    }

    /// The text, with an absolute path of its trace: a relative one is another file in another directory.
    pub fn with_absolute_path(text: &str) -> String {
        let absolute = Self::trace_in(text).and_then(|path| std::path::absolute(path).ok());
        absolute.map_or_else(|| text.to_owned(), |path| format!("{BELADY}:{}", path.display()))
    }

    /// The default policy, in place of Belady's whose trace at `path` cannot be used. It prints as Belady's.
    pub fn without_trace(path: &str) -> Self {
        Self { trace: Some(path.to_owned()), ..Self::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &Arc<dyn Policy> {
        &self.policy
    }

    /// Name of the policy that the cache follows, without a trace.
    pub fn name(&self) -> &'static str {
        self.policy.name()
    }
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self { policy: Arc::new(Lfu), trace: None }
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trace {
            Some(trace) => write!(f, "{BELADY}:{trace}"),
            None => f.write_str(self.name()),
        }
    }
}

impl FromStr for CachePolicy {
    type Err = String;

    /// A name, or `belady:` and the path of a trace, which is read now.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = Self::with_absolute_path(text);
        let Some(path) = Self::trace_in(&text) else {
            let known = policy_named(&text).map_err(|error| format!("{error}, belady:FILE"))?;
            return Ok(Self { policy: known, trace: None });
        };
        if path.is_empty() {
            return Err(format!("cache policy {BELADY}: no file is named after the colon: {BELADY}:FILE"));
        }
        let failed = |error: TraceError| format!("cache policy {BELADY}: '{path}': {error}");
        let trace = Trace::open(Path::new(path)).map_err(failed)?;
        Ok(Self { policy: Arc::new(Belady::new(&trace)), trace: Some(path.to_owned()) })
    }
}

/// Resources that all queries of a database share.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Replacement policy of the segment cache.
    pub cache_policy: CachePolicy,
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
            cache_policy: CachePolicy::default(),
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
        unit: "lfu, lru, wlfu, gdsf, belady:FILE",
        description: "what the segment cache keeps: lfu, lru, wlfu, gdsf, or belady: and a trace recorded by bench --trace",
        get: |s| s.cache_policy.to_string(),
        set: |s, text| text.parse().map(|policy| s.cache_policy = policy),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_named_by_one_policy() {
        for (text, path) in [
            ("belady:a/b.trace", Some("a/b.trace")),
            (" Belady:C:x ", Some("C:x")),
            ("belady: a.trace", Some("a.trace")),
            ("belady:", Some("")),
            ("belady", None),
            ("lru", None),
            ("lru:a", None),
        ] {
            assert_eq!(CachePolicy::trace_in(text), path, "{text}");
        }
        let here = std::env::current_dir().unwrap().join("a.trace");
        assert_eq!(CachePolicy::with_absolute_path("Belady: a.trace"), format!("belady:{}", here.display()));
        assert_eq!(CachePolicy::with_absolute_path("lru"), "lru");
        for empty in ["belady:", "belady:  "] {
            assert!(empty.parse::<CachePolicy>().unwrap_err().contains("belady:FILE"));
        }
        let error = "belady:/there/is/no/trace".parse::<CachePolicy>().unwrap_err();
        assert!(error.contains("/there/is/no/trace"), "{error}");
        let stand_in = CachePolicy::without_trace("/there/is/no/trace");
        assert_eq!((stand_in.to_string().as_str(), stand_in.name()), ("belady:/there/is/no/trace", "lfu"));
    }
}
