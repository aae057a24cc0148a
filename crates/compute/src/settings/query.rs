//! Settings of a session's queries.

use std::any::Any;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err, plan_err};
use thermocline_catalog::AllowedLocations;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{
    at_least, exact_size, format_duration, on_off, parse_count, parse_duration, parse_size, parse_switch, size_within,
};
use thermocline_pushdown::wire::{Compression, ORIGIN_BYTES_MAX};
use thermocline_types::{Scope, Setting};

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

/// Forms in which mode `auto` keeps columns in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedRepresentations {
    /// Arrays.
    Decoded,
    /// Stored bytes, where an object has them by column.
    Stored,
    /// Whichever saves more time per byte.
    Both,
}

impl CachedRepresentations {
    fn name(self) -> &'static str {
        match self {
            CachedRepresentations::Decoded => "decoded",
            CachedRepresentations::Stored => "stored",
            CachedRepresentations::Both => "both",
        }
    }
}

/// Settings of a session for its queries; prefix `thermocline`.
#[derive(Debug, Clone)]
pub struct QuerySettings {
    /// Limit on routes.
    pub mode: Mode,
    /// Whether the route `bitmap` may be taken.
    pub bitmaps: bool,
    /// Whether mode `auto` keeps answers of storage in the cache.
    pub cached_answers: bool,
    /// Forms in which mode `auto` keeps columns in the cache.
    pub cached_representations: CachedRepresentations,
    /// Whether storage nodes may find rows through indexes, and indexes are kept up to date.
    pub indexes: bool,
    /// Requests in flight at once per scan, each for one partition or a group of them.
    pub partitions_in_flight: usize,
    /// Stored bytes in flight at once per scan, unless one request alone is for more.
    pub bytes_in_flight: u64,
    /// The longest wait for a storage node's next message.
    pub request_timeout: Duration,
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
    /// Whose queries these are: storage nodes share their slots among tenants before their queries. Empty for the
    /// default tenant.
    pub tenant: String,
    /// Where tables, `COPY` and `BACKUP` may read and write.
    pub allowed_locations: AllowedLocations,
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

impl Default for QuerySettings {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            bitmaps: true,
            cached_answers: true,
            cached_representations: CachedRepresentations::Both,
            indexes: true,
            partitions_in_flight: 16,
            bytes_in_flight: 256 << 20,
            request_timeout: Duration::from_secs(30),
            compression: WireCompression::Auto,
            pushdown_operators: PushdownOperators::All,
            bloom_filters: true,
            bloom_filter_size: 1 << 20,
            bloom_filter_fpr: 0.01,
            pushback: true,
            tenant: String::new(),
            allowed_locations: AllowedLocations::default(),
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

/// Settings of a query's session.
pub const QUERY_SETTINGS: &[Setting<QuerySettings>] = &[
    Setting {
        name: "mode",
        scope: Scope::Session,
        unit: "auto, hybrid, caching, pushdown, pullup",
        description: "how partitions get their routes: auto (what is expected to be fastest), or hybrid, caching, pushdown or pullup",
        get: |s| s.mode.to_string(),
        set: |s, text| text.parse().map(|mode| s.mode = mode),
    },
    Setting {
        name: "bitmaps",
        scope: Scope::Session,
        unit: "switch",
        description: "whether selection bitmaps join cached columns to those at storage nodes: on or off",
        get: |s| on_off(s.bitmaps).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.bitmaps = on),
    },
    Setting {
        name: "cached_answers",
        scope: Scope::Session,
        unit: "switch",
        description: "whether mode auto keeps what storage nodes answer in the cache, and answers from it: on or off",
        get: |s| on_off(s.cached_answers).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.cached_answers = on),
    },
    Setting {
        name: "cached_representations",
        scope: Scope::Session,
        unit: "both, decoded, stored",
        description: "how mode auto keeps Parquet columns in the cache: decoded, as stored bytes, or whichever saves more time per byte",
        get: |s| s.cached_representations.name().to_owned(),
        set: |s, text| {
            use CachedRepresentations::{Both, Decoded, Stored};
            let known = [Both, Decoded, Stored];
            let named = known.into_iter().find(|known| known.name().eq_ignore_ascii_case(text.trim()));
            s.cached_representations =
                named.ok_or_else(|| format!("unknown representations '{text}': expected both, decoded or stored"))?;
            Ok(())
        },
    },
    Setting {
        name: "indexes",
        scope: Scope::Session,
        unit: "switch",
        description: "whether storage nodes use indexes, and new objects are indexed: on or off",
        get: |s| on_off(s.indexes).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.indexes = on),
    },
    Setting {
        name: "partitions_in_flight",
        scope: Scope::Session,
        unit: "count",
        description: "partitions that a scan fetches at once",
        get: |s| s.partitions_in_flight.to_string(),
        set: |s, text| parse_count(text, 1).map(|n| s.partitions_in_flight = n as usize),
    },
    Setting {
        name: "bytes_in_flight",
        scope: Scope::Session,
        unit: "bytes",
        description: "stored bytes that a scan fetches at once, unless one partition alone is larger",
        get: |s| exact_size(s.bytes_in_flight),
        set: |s, text| at_least(parse_size(text)?, 1, text).map(|size| s.bytes_in_flight = size),
    },
    Setting {
        name: "request_timeout",
        scope: Scope::Session,
        unit: "time",
        description: "longest wait for a storage node's next message, such as 30s",
        get: |s| format_duration(s.request_timeout),
        set: |s, text| parse_duration(text).map(|time| s.request_timeout = time.max(Duration::from_millis(1))),
    },
    Setting {
        name: "compression",
        scope: Scope::Session,
        unit: "auto, none, lz4, zstd",
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
        scope: Scope::Session,
        unit: "all, filters",
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
        scope: Scope::Session,
        unit: "switch",
        description: "whether joins give Bloom filters and sets of their build keys to their probe side's scans: on or off",
        get: |s| on_off(s.bloom_filters).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.bloom_filters = on),
    },
    Setting {
        name: "bloom_filter_size",
        scope: Scope::Session,
        unit: "bytes",
        description: "largest Bloom filter; a build side with more keys than fit sends none",
        get: |s| exact_size(s.bloom_filter_size as u64),
        set: |s, text| {
            let size = size_within(parse_size(text)?, (32, BLOOM_FILTER_BYTES_MAX), text)?;
            s.bloom_filter_size = size as usize;
            Ok(())
        },
    },
    Setting {
        name: "bloom_filter_fpr",
        scope: Scope::Session,
        unit: "number",
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
        scope: Scope::Session,
        unit: "switch",
        description: "whether a busy storage node may send this side for the stored bytes: on or off",
        get: |s| on_off(s.pushback).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.pushback = on),
    },
    Setting {
        name: "tenant",
        scope: Scope::Session,
        unit: "text",
        description: "whose queries these are: storage nodes share their slots among tenants before their queries; empty for the default one",
        get: |s| s.tenant.clone(),
        set: |s, text| {
            if text.len() > ORIGIN_BYTES_MAX {
                return Err(format!("a tenant has at most {ORIGIN_BYTES_MAX} bytes, not {}", text.len()));
            }
            s.tenant = text.to_owned();
            Ok(())
        },
    },
    Setting {
        name: "allowed_locations",
        scope: Scope::Session,
        unit: "text",
        description: "where LOCATION, paths in FROM, COPY, BACKUP and cache_policy may lead: all, none, or directories, s3:// and thermocline:// addresses, comma separated; a session can only narrow it",
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
        name: "price_compute_hour",
        scope: Scope::Session,
        unit: "number",
        description: "dollars per hour of this compute node",
        get: |s| s.price_compute_hour.to_string(),
        set: |s, text| price(text).map(|price| s.price_compute_hour = price),
    },
    Setting {
        name: "price_requests_1000",
        scope: Scope::Session,
        unit: "number",
        description: "dollars per thousand requests to storage",
        get: |s| s.price_requests_1000.to_string(),
        set: |s, text| price(text).map(|price| s.price_requests_1000 = price),
    },
    Setting {
        name: "price_scanned_gb",
        scope: Scope::Session,
        unit: "number",
        description: "dollars per GB that pushed-down fragments read at storage",
        get: |s| s.price_scanned_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_scanned_gb = price),
    },
    Setting {
        name: "price_returned_gb",
        scope: Scope::Session,
        unit: "number",
        description: "dollars per GB that pushed-down fragments return",
        get: |s| s.price_returned_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_returned_gb = price),
    },
    Setting {
        name: "price_transferred_gb",
        scope: Scope::Session,
        unit: "number",
        description: "dollars per GB that leaves storage, whichever way",
        get: |s| s.price_transferred_gb.to_string(),
        set: |s, text| price(text).map(|price| s.price_transferred_gb = price),
    },
];

impl ConfigExtension for QuerySettings {
    const PREFIX: &'static str = "thermocline";
}

impl ExtensionOptions for QuerySettings {
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
        let Some(setting) = QUERY_SETTINGS.iter().find(|setting| setting.name == key) else {
            return config_err!("there is no setting {key} of queries");
        };
        (setting.set)(self, value).or_else(|why| plan_err!("thermocline.{key}: {why}"))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |setting: &Setting<Self>| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, setting.name),
            value: Some((setting.get)(self)),
            description: setting.description,
        };
        QUERY_SETTINGS.iter().map(entry).collect()
    }
}

/// A filter travels with its fragment, so both stay below what a node accepts.
const BLOOM_FILTER_BYTES_MAX: u64 = 2 << 20;

fn price(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(price) if price.is_finite() && price >= 0.0 => Ok(price),
        _ => Err(format!("'{text}' is not a price in dollars")),
    }
}
