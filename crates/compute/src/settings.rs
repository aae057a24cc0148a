//! Settings: `SET thermocline.x = ...`, checked when they are set.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err, plan_err};
use thermocline_cache::{Policy, policy_named};
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{format_size, parse_duration, parse_size};
use thermocline_pushdown::wire::Compression;

use crate::locations::AllowedLocations;
use crate::session::QueryStats;

/// Compression of answers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireCompression {
    /// ZSTD over a link and for text, LZ4 for Parquet within the process.
    Auto,
    /// As given.
    Fixed(Compression),
}

/// Which operators above a scan move into its fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushdownOperators {
    /// All that are local and bounded.
    All,
    /// The scan's own filter and columns: what most systems push.
    Filters,
}

impl PushdownOperators {
    fn name(self) -> &'static str {
        match self {
            PushdownOperators::All => "all",
            PushdownOperators::Filters => "filters",
        }
    }
}

/// One session's settings, prefix `thermocline`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Limit on routes.
    pub mode: Mode,
    /// Replacement policy of the segment cache, which all sessions of the process share.
    pub cache_policy: Arc<dyn Policy>,
    /// Limit of the segment cache, in bytes.
    pub cache_size: usize,
    /// Limit of the decoded footers that are kept, in bytes.
    pub footer_cache_size: usize,
    /// Whether the route `bitmap` may be taken.
    pub bitmaps: bool,
    /// Whether storage nodes may find rows through indexes, and indexes are kept up to date.
    pub indexes: bool,
    /// Stored bytes that a partition aims at.
    pub partition_size: u64,
    /// Requests in flight at once per scan, each for one partition or a group of them.
    pub partitions_in_flight: usize,
    /// Stored bytes in flight at once per scan, unless one request alone is for more.
    pub bytes_in_flight: u64,
    /// The longest wait for a storage node's next message.
    pub request_timeout: Duration,
    /// The longest that a query may take; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// Compression of answers.
    pub compression: WireCompression,
    /// Which operators above a scan move into its fragment.
    pub pushdown_operators: PushdownOperators,
    /// Whether joins give Bloom filters and sets of their build keys to the scans of their probe side.
    pub bloom_filters: bool,
    /// Largest Bloom filter, in bytes; a build side with more keys than fit sends none.
    pub bloom_filter_size: usize,
    /// Share of rows without a partner that a Bloom filter may let through.
    pub bloom_filter_fpr: f64,
    /// Whether a busy storage node may have this side fetch the stored bytes and run the fragment.
    pub pushback: bool,
    /// Where tables, `COPY` and `BACKUP` may read and write.
    pub allowed_locations: AllowedLocations,
    /// Executor partitions of a database's row tables; for a new one as many as cores unless it is set.
    pub executor_partitions: u16,
    /// Whether somebody has set them. If not, a database that has row tables keeps its own, whatever machine it is on.
    pub executor_partitions_given: bool,
    /// Bytes that rows, their indexes and locators may take.
    pub row_memory_limit: u64,
    /// Longest wait of a commit for others to share its sync of the log.
    pub commit_interval: Duration,
    /// Bytes of the log that are synced without waiting for more.
    pub commit_size: usize,
    /// Whether a commit returns only once it is durable.
    pub synchronous_commit: bool,
    /// The longest that a session may do nothing inside a transaction.
    pub idle_transaction_timeout: Duration,
    /// Dollars per hour of this compute node.
    pub price_compute_hour: f64,
    /// Dollars per thousand requests to storage.
    pub price_requests_1000: f64,
    /// Dollars per decimal GB that pushed-down fragments read at storage.
    pub price_scanned_gb: f64,
    /// Dollars per decimal GB that pushed-down fragments return.
    pub price_returned_gb: f64,
    /// Dollars per decimal GB that leaves storage, whichever way.
    pub price_transferred_gb: f64,
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(u16::MAX))
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Hybrid,
            cache_policy: Arc::new(thermocline_cache::Lfu),
            cache_size: 1 << 30,
            footer_cache_size: 256 << 20,
            bitmaps: true,
            indexes: true,
            partition_size: 16 << 20,
            partitions_in_flight: 16,
            bytes_in_flight: 256 << 20,
            request_timeout: Duration::from_secs(30),
            statement_timeout: None,
            compression: WireCompression::Auto,
            pushdown_operators: PushdownOperators::All,
            bloom_filters: true,
            bloom_filter_size: 1 << 20,
            bloom_filter_fpr: 0.01,
            pushback: true,
            allowed_locations: AllowedLocations::default(),
            executor_partitions: cores(),
            executor_partitions_given: false,
            row_memory_limit: 1 << 30,
            commit_interval: Duration::from_micros(200),
            commit_size: 1 << 20,
            synchronous_commit: true,
            idle_transaction_timeout: Duration::from_secs(60),
            // Table I of the PushdownDB paper: S3 and an r4.8xlarge of one region, 2020. Out of the
            // cloud a GB transferred was 0.09. What storing costs no query changes.
            price_compute_hour: 2.128,
            price_requests_1000: 0.0004,
            price_scanned_gb: 0.002,
            price_returned_gb: 0.0007,
            price_transferred_gb: 0.0,
        }
    }
}

/// One row per setting: name, description, how to print it, how to change it.
struct Setting {
    name: &'static str,
    description: &'static str,
    get: fn(&Settings) -> String,
    set: fn(&mut Settings, &str) -> Result<(), String>,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "mode",
        description: "limit on routes: hybrid, caching, pushdown or pullup",
        get: |s| s.mode.to_string(),
        set: |s, text| text.parse().map(|mode| s.mode = mode),
    },
    Setting {
        name: "cache_policy",
        description: "what the segment cache keeps: lfu or lru",
        get: |s| s.cache_policy.name().to_owned(),
        set: |s, text| policy_named(text).map(|policy| s.cache_policy = policy),
    },
    Setting {
        name: "cache_size",
        description: "limit of the segment cache, shared by all sessions of the process",
        get: |s| format_size(s.cache_size as u64),
        set: |s, text| parse_size(text).map(|size| s.cache_size = size as usize),
    },
    Setting {
        name: "footer_cache_size",
        description: "limit of the decoded Parquet footers that are kept, shared by all sessions of the process",
        get: |s| format_size(s.footer_cache_size as u64),
        set: |s, text| parse_size(text).map(|size| s.footer_cache_size = size as usize),
    },
    Setting {
        name: "bitmaps",
        description: "whether selection bitmaps join cached columns to those at storage nodes: on or off",
        get: |s| if s.bitmaps { "on" } else { "off" }.to_owned(),
        set: |s, text| switch(text).map(|on| s.bitmaps = on),
    },
    Setting {
        name: "indexes",
        description: "whether storage nodes use indexes, and new objects are indexed: on or off",
        get: |s| if s.indexes { "on" } else { "off" }.to_owned(),
        set: |s, text| switch(text).map(|on| s.indexes = on),
    },
    Setting {
        name: "partition_size",
        description: "stored bytes that a partition aims at",
        get: |s| format_size(s.partition_size),
        set: |s, text| at_least(parse_size(text)?, 64 << 10, text).map(|size| s.partition_size = size),
    },
    Setting {
        name: "partitions_in_flight",
        description: "partitions that a scan fetches at once",
        get: |s| s.partitions_in_flight.to_string(),
        set: |s, text| at_least(count(text)?, 1, text).map(|n| s.partitions_in_flight = n as usize),
    },
    Setting {
        name: "bytes_in_flight",
        description: "stored bytes that a scan fetches at once, unless one partition alone is larger",
        get: |s| format_size(s.bytes_in_flight),
        set: |s, text| at_least(parse_size(text)?, 1, text).map(|size| s.bytes_in_flight = size),
    },
    Setting {
        name: "request_timeout",
        description: "longest wait for a storage node's next message, such as 30s",
        get: |s| format!("{}ms", s.request_timeout.as_millis()),
        set: |s, text| parse_duration(text).map(|time| s.request_timeout = time.max(Duration::from_millis(1))),
    },
    Setting {
        name: "statement_timeout",
        description: "longest that a query may take, such as 5min; 0 for no limit",
        get: |s| format!("{}ms", s.statement_timeout.unwrap_or_default().as_millis()),
        set: |s, text| parse_duration(text).map(|time| s.statement_timeout = (!time.is_zero()).then_some(time)),
    },
    Setting {
        name: "compression",
        description: "compression of answers on the wire: auto, none, lz4 or zstd",
        get: |s| {
            match s.compression {
                WireCompression::Auto => "auto",
                WireCompression::Fixed(Compression::None) => "none",
                WireCompression::Fixed(Compression::Lz4) => "lz4",
                WireCompression::Fixed(Compression::Zstd) => "zstd",
            }
            .to_owned()
        },
        set: |s, text| {
            s.compression = match text.trim().to_ascii_lowercase().as_str() {
                "auto" => WireCompression::Auto,
                "none" => WireCompression::Fixed(Compression::None),
                "lz4" => WireCompression::Fixed(Compression::Lz4),
                "zstd" => WireCompression::Fixed(Compression::Zstd),
                _ => return Err(format!("unknown compression '{text}': expected auto, none, lz4 or zstd")),
            };
            Ok(())
        },
    },
    Setting {
        name: "pushdown_operators",
        description: "what moves into a scan's fragment: all that is local and bounded, or filters (and columns) only",
        get: |s| s.pushdown_operators.name().to_owned(),
        set: |s, text| {
            let known = [PushdownOperators::All, PushdownOperators::Filters];
            let found = known.into_iter().find(|known| known.name().eq_ignore_ascii_case(text.trim()));
            s.pushdown_operators =
                found.ok_or_else(|| format!("unknown operators '{text}': expected all or filters"))?;
            Ok(())
        },
    },
    Setting {
        name: "bloom_filters",
        description: "whether joins give Bloom filters and sets of their build keys to their probe side's scans: on or off",
        get: |s| on_off(s.bloom_filters).to_owned(),
        set: |s, text| switch(text).map(|on| s.bloom_filters = on),
    },
    Setting {
        name: "bloom_filter_size",
        description: "largest Bloom filter; a build side with more keys than fit sends none",
        get: |s| format_size(s.bloom_filter_size as u64),
        set: |s, text| {
            let size = at_least(parse_size(text)?, 32, text)?;
            if size > BLOOM_FILTER_BYTES_MAX {
                return Err(format!("{text} is above {}", format_size(BLOOM_FILTER_BYTES_MAX)));
            }
            s.bloom_filter_size = size as usize;
            Ok(())
        },
    },
    Setting {
        name: "bloom_filter_fpr",
        description: "share of rows without a partner that a Bloom filter may let through, such as 0.01",
        get: |s| s.bloom_filter_fpr.to_string(),
        set: |s, text| match text.trim().parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate < 1.0 => {
                s.bloom_filter_fpr = rate;
                Ok(())
            }
            _ => Err(format!("'{text}' is not a rate between 0 and 1")),
        },
    },
    Setting {
        name: "pushback",
        description: "whether a busy storage node may send this side for the stored bytes: on or off",
        get: |s| on_off(s.pushback).to_owned(),
        set: |s, text| switch(text).map(|on| s.pushback = on),
    },
    Setting {
        name: "allowed_locations",
        description: "where LOCATION, COPY and BACKUP may lead: all, none, or directories, s3:// and thermocline:// addresses, comma separated; a session can only narrow it",
        get: |s| s.allowed_locations.to_string(),
        set: |s, text| {
            let locations = AllowedLocations::parse(text)?;
            if !locations.is_within(&s.allowed_locations) {
                return Err(format!("{locations} is more than the {} that is allowed", s.allowed_locations));
            }
            s.allowed_locations = locations;
            Ok(())
        },
    },
    Setting {
        name: "executor_partitions",
        description: "partitions of row tables, one for each core unless set; decided when a database gets its first one, \
                      and changed where it is opened with another number",
        get: |s| s.executor_partitions.to_string(),
        set: |s, text| {
            let count = at_least(count(text)?, 1, text)?;
            s.executor_partitions = u16::try_from(count).map_err(|_| format!("{text} is above {}", u16::MAX))?;
            s.executor_partitions_given = true;
            Ok(())
        },
    },
    Setting {
        name: "row_memory_limit",
        description: "bytes that row tables and their indexes may take, shared by all sessions of the process",
        get: |s| format_size(s.row_memory_limit),
        set: |s, text| at_least(parse_size(text)?, 1 << 20, text).map(|size| s.row_memory_limit = size),
    },
    Setting {
        name: "commit_interval",
        description: "how long a commit waits at most for others to share its sync, such as 200us; decided at opening",
        get: |s| format!("{}us", s.commit_interval.as_micros()),
        set: |s, text| {
            let interval = parse_duration(text)?;
            match u32::try_from(interval.as_micros()) {
                Ok(_) => s.commit_interval = interval,
                Err(_) => return Err(format!("{text} is more than an hour")),
            }
            Ok(())
        },
    },
    Setting {
        name: "commit_size",
        description: "bytes of the log that are synced without waiting for more; decided at opening",
        get: |s| format_size(s.commit_size as u64),
        set: |s, text| at_least(parse_size(text)?, 1, text).map(|size| s.commit_size = size as usize),
    },
    Setting {
        name: "synchronous_commit",
        description: "whether commits wait until they are durable: on or off; decided at opening",
        get: |s| on_off(s.synchronous_commit).to_owned(),
        set: |s, text| switch(text).map(|on| s.synchronous_commit = on),
    },
    Setting {
        name: "idle_transaction_timeout",
        description: "longest that a session may do nothing inside a transaction, such as 60s; decided at opening",
        get: |s| format!("{}ms", s.idle_transaction_timeout.as_millis()),
        set: |s, text| parse_duration(text).map(|time| s.idle_transaction_timeout = time.max(Duration::from_millis(1))),
    },
    Setting {
        name: "price_compute_hour",
        description: "dollars per hour of this compute node",
        get: |s| s.price_compute_hour.to_string(),
        set: |s, text| price(text).map(|price| s.price_compute_hour = price),
    },
    Setting {
        name: "price_requests_1000",
        description: "dollars per thousand requests to storage",
        get: |s| s.price_requests_1000.to_string(),
        set: |s, text| price(text).map(|price| s.price_requests_1000 = price),
    },
    Setting {
        name: "price_scanned_gb",
        description: "dollars per GB that pushed-down fragments read at storage",
        get: |s| s.price_scanned_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_scanned_gb = price),
    },
    Setting {
        name: "price_returned_gb",
        description: "dollars per GB that pushed-down fragments return",
        get: |s| s.price_returned_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_returned_gb = price),
    },
    Setting {
        name: "price_transferred_gb",
        description: "dollars per GB that leaves storage, whichever way",
        get: |s| s.price_transferred_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_transferred_gb = price),
    },
];

impl Settings {
    /// Name (with prefix), value and description of every setting.
    pub fn rows(&self) -> Vec<(String, String, &'static str)> {
        SETTINGS
            .iter()
            .map(|setting| (format!("{}.{}", Self::PREFIX, setting.name), (setting.get)(self), setting.description))
            .collect()
    }

    /// Whether there is a setting of this name, which has no prefix.
    pub(crate) fn has(name: &str) -> bool {
        SETTINGS.iter().any(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    /// When a statement that begins now has taken too long; `None` if it may take any time.
    pub fn statement_deadline(&self) -> Option<Instant> {
        // A timeout too long for the clock never comes.
        self.statement_timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Cost of a query of `seconds` under the configured prices.
    pub fn dollars(&self, seconds: f64, stats: &QueryStats) -> f64 {
        const GB: f64 = 1e9;
        seconds / 3600.0 * self.price_compute_hour
            + stats.requests as f64 / 1000.0 * self.price_requests_1000
            + stats.bytes_scanned as f64 / GB * self.price_scanned_gb
            + stats.bytes_returned as f64 / GB * self.price_returned_gb
            + stats.bytes_from_storage as f64 / GB * self.price_transferred_gb
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "thermocline";
}

impl ExtensionOptions for Settings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
            let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
            return config_err!("there is no setting thermocline.{key}; there are {}", names.join(", "));
        };
        (setting.set)(self, value).or_else(|why| plan_err!("thermocline.{key}: {why}"))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        self.rows()
            .into_iter()
            .map(|(key, value, description)| ConfigEntry { key, value: Some(value), description })
            .collect()
    }
}

/// A filter travels with its fragment, so both stay below what a node accepts.
const BLOOM_FILTER_BYTES_MAX: u64 = 2 << 20;

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(format!("'{text}' is neither on nor off")),
    }
}

fn count(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is not a whole number"))
}

fn at_least(value: u64, min: u64, text: &str) -> Result<u64, String> {
    if value < min { Err(format!("{text} is below {min}")) } else { Ok(value) }
}

fn price(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(price) if price.is_finite() && price >= 0.0 => Ok(price),
        _ => Err(format!("'{text}' is not a price in dollars")),
    }
}
