//! Settings of the row engine, with their defaults, limits and texts.

use std::sync::Arc;
use std::time::Duration;

use thermocline_pushdown::units::{
    at_least, exact_size, format_duration, on_off, parse_count, parse_duration, parse_size, parse_switch, size_within,
};
use thermocline_transactions::blocks::{BlockStoreSettings, Fetching, FillFactor, Merge, SamplingRate, Victims};
use thermocline_transactions::database::{Notice, Settings as EngineSettings};
use thermocline_transactions::log::LogSettings;
use thermocline_types::{Scope, Setting};

/// Divisor of the memory limit for the undo log of a partition's running transaction.
const UNDO_SHARE: u64 = 4;

/// Limit on rows that a query outside a transaction reads in the row engine; larger queries run in the analytic engine
/// on a snapshot: see [`Session`](crate::Session). A query holds its partitions while it reads, up to 1 µs for a row
/// that is grouped, and delays others; the analytic engine takes a few milliseconds to start, which delays the query
/// itself. With this number of rows, both take about as long.
const QUERY_ROWS_MAX: u64 = 20_000;

/// Divisor of the memory limit for a file of blocks, and its minimum. Some files of each partition are kept however
/// little is left in them, which should be little beside the data.
const SEGMENT_SHARE: u64 = 16;
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Settings of the row engine of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSettings {
    /// Executor partitions of a new database, and of an existing one if given explicitly.
    pub partitions: u16,
    /// Whether the number was given explicitly. Then a database with another number is repartitioned when it is opened;
    /// otherwise it keeps its number, even on a machine with a different number of cores.
    pub partitions_given: bool,
    /// Limit on bytes of tables and working memory together.
    pub memory_bytes_max: u64,
    /// Whether the coldest rows go to blocks on the disk where tables would exceed the limit.
    pub evicts: bool,
    /// Bytes of rows in a block; `None` for what the device does well.
    pub block_bytes: Option<usize>,
    /// Share of the files of blocks that rows fill.
    pub fill_factor: FillFactor,
    /// How rows that are needed are read; `None` for what suits the device.
    pub fetching: Option<Fetching>,
    /// What comes back with a row that is needed.
    pub merge: Merge,
    /// How the rows that go are chosen.
    pub victims: Victims,
    /// Share of the transactions that the chain follows.
    pub chain_sampling: SamplingRate,
    /// Limit on idle time inside a transaction.
    pub idle_max: Duration,
    /// Group commit interval, in microseconds.
    pub commit_interval_us: u32,
    /// Bytes of the log from which a sync does not wait for more.
    pub commit_bytes: usize,
    /// Whether a commit is acknowledged only once it is durable.
    pub synchronous_commit: bool,
}

impl Default for RowSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self {
            partitions: u16::try_from(cores).unwrap_or(u16::MAX),
            partitions_given: false,
            memory_bytes_max: 1 << 30,
            evicts: true,
            block_bytes: None,
            fill_factor: FillFactor::default(),
            fetching: None,
            merge: Merge::Tuple,
            victims: Victims::Sampled,
            chain_sampling: SamplingRate::default(),
            idle_max: Duration::from_secs(60),
            commit_interval_us: 200,
            commit_bytes: 1 << 20,
            synchronous_commit: true,
        }
    }
}

/// Settings of the row engine, shared by all sessions of a database.
pub const ROW_SETTINGS: &[Setting<RowSettings>] = &[
    Setting {
        name: "executor_partitions",
        scope: Scope::Opening,
        unit: "count",
        description: "partitions of row tables, one for each core unless set; decided when a database gets its first one, \
                      and changed where it is opened with another number",
        get: |s| s.partitions.to_string(),
        set: |s, text| {
            let count = parse_count(text, 1)?;
            s.partitions = u16::try_from(count).map_err(|_| format!("{text} is above {}", u16::MAX))?;
            s.partitions_given = true;
            Ok(())
        },
    },
    Setting {
        name: "row_memory_limit",
        scope: Scope::Database,
        unit: "bytes",
        description: "bytes that row tables, their indexes, and the work on them may take: statements, results, undo, procedures",
        get: |s| exact_size(s.memory_bytes_max),
        set: |s, text| at_least(parse_size(text)?, 1 << 20, text).map(|size| s.memory_bytes_max = size),
    },
    Setting {
        name: "row_eviction",
        scope: Scope::Opening,
        unit: "switch",
        description: "whether the coldest rows go to the disk where row tables would exceed the limit, and come back when they \
                      are needed: on or off; without it, what does not fit is refused",
        get: |s| on_off(s.evicts).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.evicts = on),
    },
    Setting {
        name: "row_block_size",
        scope: Scope::Opening,
        unit: "bytes",
        description: "bytes of cold rows that go to the disk together, 4KiB to 1MiB; a row is read alone, whatever the size; \
                      auto for what was measured of the disk when the database was first opened",
        get: |s| s.block_bytes.map_or(AUTO.to_owned(), |bytes| exact_size(bytes as u64)),
        set: |s, text| {
            let size = |text: &str| size_within(parse_size(text)?, BlockStoreSettings::BLOCK_BYTES, text);
            or_auto(text, size).map(|size| s.block_bytes = size.map(|bytes| bytes as usize))
        },
    },
    Setting {
        name: "row_fill_factor",
        scope: Scope::Opening,
        unit: "number",
        description: "share of the bytes of files of blocks that rows in them take at least, 0.1 to 0.9: where it would be \
                      less, rows of the sparsest files move; a higher one takes less disk, and more writes",
        get: |s| s.fill_factor.to_string(),
        set: |s, text| text.parse().map(|share| s.fill_factor = share),
    },
    Setting {
        name: "row_fetch",
        scope: Scope::Opening,
        unit: "text",
        description: "how a transaction gets rows from the disk: asynchronous, it is undone and runs again when they were \
                      read; blocking, its partition waits; auto, by a read's time when the database was first opened",
        get: |s| s.fetching.map_or(AUTO, Fetching::name).to_owned(),
        set: |s, text| or_auto(text, str::parse).map(|fetching| s.fetching = fetching),
    },
    Setting {
        name: "row_merge",
        scope: Scope::Opening,
        unit: "text",
        description: "what comes back with a row that is needed: tuple, nothing else; block, all rows of its block, of which \
                      those that nobody uses are the first to go again",
        get: |s| s.merge.name().to_owned(),
        set: |s, text| text.parse().map(|merge| s.merge = merge),
    },
    Setting {
        name: "row_victims",
        scope: Scope::Opening,
        unit: "text",
        description: "which rows go to the disk first: sampled, those that were used least often lately; chain, those of a \
                      table that were used least recently, at 8 bytes of memory for each row",
        get: |s| s.victims.name().to_owned(),
        set: |s, text| text.parse().map(|victims| s.victims = victims),
    },
    Setting {
        name: "row_chain_sampling",
        scope: Scope::Opening,
        unit: "number",
        description: "share of the transactions whose reads and writes move rows in the chain of row_victims, above 0 and \
                      up to 1, such as 0.01",
        get: |s| s.chain_sampling.to_string(),
        set: |s, text| text.parse().map(|rate| s.chain_sampling = rate),
    },
    Setting {
        name: "commit_interval",
        scope: Scope::Opening,
        unit: "time",
        description: "how long a commit waits at most for others to share its sync, such as 200us",
        get: |s| format_duration(Duration::from_micros(s.commit_interval_us.into())),
        set: |s, text| {
            let micros = u32::try_from(parse_duration(text)?.as_micros());
            s.commit_interval_us = micros.map_err(|_| format!("{text} is more than an hour"))?;
            Ok(())
        },
    },
    Setting {
        name: "commit_size",
        scope: Scope::Opening,
        unit: "bytes",
        description: "bytes of the log that are synced without waiting for more",
        get: |s| exact_size(s.commit_bytes as u64),
        set: |s, text| at_least(parse_size(text)?, 1, text).map(|size| s.commit_bytes = size as usize),
    },
    Setting {
        name: "synchronous_commit",
        scope: Scope::Opening,
        unit: "switch",
        description: "whether commits wait until they are durable: on or off",
        get: |s| on_off(s.synchronous_commit).to_owned(),
        set: |s, text| parse_switch(text).map(|on| s.synchronous_commit = on),
    },
    Setting {
        name: "idle_transaction_timeout",
        scope: Scope::Opening,
        unit: "time",
        description: "longest that a session may do nothing inside a transaction, such as 60s",
        get: |s| format_duration(s.idle_max),
        set: |s, text| parse_duration(text).map(|time| s.idle_max = time.max(Duration::from_millis(1))),
    },
];

/// Leaves a setting to what was measured.
const AUTO: &str = "auto";

/// What a setting's text says; `None` if that is [`AUTO`].
fn or_auto<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text.trim().eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|error| format!("{error}, and not {AUTO}"))
}

impl RowSettings {
    /// Converts to the row engine's type.
    pub(super) fn engine(&self) -> EngineSettings {
        EngineSettings {
            partitions: self.partitions,
            repartition: self.partitions_given,
            memory_bytes_max: self.memory_bytes_max,
            eviction: self.evicts.then(|| {
                let most = BlockStoreSettings::default().segment_bytes;
                let segment_bytes = (self.memory_bytes_max / SEGMENT_SHARE).clamp(SEGMENT_BYTES_MIN, most);
                BlockStoreSettings {
                    segment_bytes,
                    block_bytes: self.block_bytes,
                    fill_factor: self.fill_factor,
                    fetching: self.fetching,
                    merge: self.merge,
                    victims: self.victims,
                    chain_sampling: self.chain_sampling,
                }
            }),
            undo_bytes_max: usize::try_from(self.memory_bytes_max / UNDO_SHARE).unwrap_or(usize::MAX),
            idle_timeout: self.idle_max,
            query_rows_max: Some(QUERY_ROWS_MAX),
            log: LogSettings {
                commit_interval_us: self.commit_interval_us,
                commit_bytes: self.commit_bytes,
                synchronous_commit: self.synchronous_commit,
                ..LogSettings::default()
            },
            notices: Arc::new(|notice: &Notice| tracing::warn!("{notice}")),
            ..EngineSettings::default()
        }
    }
}
