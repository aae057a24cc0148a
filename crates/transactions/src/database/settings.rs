//! Configuration of a row engine, with its defaults.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermocline_durability::blocks::{BlockFiles, BlockStoreSettings, BlockWrites, Fetching};
use thermocline_durability::disk::{Device, Disk};
use thermocline_durability::log::LogSettings;
use thermocline_durability::recovery::{Execute, Rebuild};
use thermocline_machine::ids::{DatabaseId, Micros};
use thermocline_procedures::{Limits, Registration};
use thermocline_tables::table::Budget;
use thermocline_types::Result;

use super::block_writer::BlockWriterThread;
use super::notice::Notices;
use super::snapshots::SnapshotSettings;
use crate::engine::WAITS_MAX;

/// Configuration of a database, and its inputs from outside.
pub struct Settings {
    /// Executor partitions of a new database; an existing one keeps its own unless [`repartition`](Self::repartition)
    /// is set.
    pub partitions: u16,
    /// Whether a database with another number of partitions gets this one when it is opened, which writes all of its
    /// rows once more. A read-only database keeps its own.
    pub repartition: bool,
    /// Bytes for rows, indexes and locators together with all [`Working`](thermocline_tables::table::Working) memory.
    /// Tables leave a sixteenth of it, at most 256 MiB, to the latter; of less than 16 MiB up to an eighth.
    pub memory_bytes_max: u64,
    /// Blocks for rows that are evicted where tables would exceed the memory; `None` to refuse what does not fit.
    pub eviction: Option<BlockStoreSettings>,
    /// Bytes of rows that a transaction may change in a partition.
    pub undo_bytes_max: usize,
    /// Maximum requests that wait for a partition; more are refused with 40001.
    pub queue_length: usize,
    /// Bytes of a partition's results that may wait for the log. While a slow disk keeps more of them waiting, the
    /// partition runs nothing, so its queue fills and clients are told to try again. Also the limit for results that a
    /// client has not received: beyond it, its requests are refused with 40001.
    pub results_bytes_max: usize,
    /// Longest idle time of a session in a transaction; see
    /// [`RowSession::set_idle_timeout`](super::RowSession::set_idle_timeout).
    pub idle_timeout: Duration,
    /// Time limit of a session's statement; `None` for no limit. See
    /// [`RowSession::set_statement_timeout`](super::RowSession::set_statement_timeout).
    pub statement_timeout: Option<Duration>,
    /// Group commit and segments.
    pub log: LogSettings,
    /// Whether there is a log. Only a new database can be without one, and loses everything when it is closed.
    pub durable: bool,
    /// Schedule and cost of snapshots.
    pub snapshots: SnapshotSettings,
    /// Limits of a procedure.
    pub limits: Limits,
    /// Rows that a session's query may read outside of a transaction, by estimate or in fact. A query that would read
    /// more gets [`Error::Unsupported`](thermocline_types::Error::Unsupported), for callers with another engine that
    /// reads a snapshot and holds no partition meanwhile. `None` without such an engine. Queries in transactions and
    /// procedures have no limit, nor do those of
    /// [`RowSession::execute_unbounded`](super::RowSession::execute_unbounded).
    pub query_rows_max: Option<u64>,
    /// Procedures in Rust. Those that the log calls must be there for its replay.
    pub procedures: Vec<Registration>,
    /// Receiver of background failures.
    pub notices: Arc<Notices>,
    /// Seed of transactions' random numbers and of the identity of a new database.
    pub seed: u64,
    /// The time.
    pub clock: Box<dyn Fn() -> Micros + Send + Sync>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("partitions", &self.partitions)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("eviction", &self.eviction)
            .field("log", &self.log)
            .field("durable", &self.durable)
            .field("snapshots", &self.snapshots)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Decides what depends on the device and is left open. Measures the device if none has before and it `may_measure`;
    /// returns what it has measured.
    pub(super) fn adapt_to(&mut self, disk: &dyn Disk, may_measure: bool) -> Option<Device> {
        let is_open = |blocks: &&mut BlockStoreSettings| blocks.block_bytes.is_none() || blocks.fetching.is_none();
        let blocks = self.eviction.as_mut().filter(is_open).filter(|_| self.durable)?;
        let known = Device::known(disk);
        let measured = match known {
            None if may_measure => disk.measure().ok().flatten(),
            _ => None,
        };
        if let Some(device) = known.or(measured) {
            *blocks = blocks.for_device(&device);
        }
        measured
    }

    /// Times that a transaction is undone for evicted rows before it reads them where it runs.
    pub(super) fn waits_max(&self) -> u32 {
        match self.eviction.and_then(|blocks| blocks.fetching) {
            Some(Fetching::Blocking) => 0,
            Some(Fetching::Asynchronous) | None => WAITS_MAX,
        }
    }
}

/// One partition, 1 GiB, the system clock.
impl Default for Settings {
    fn default() -> Self {
        let now = system_time();
        Self {
            partitions: 1,
            repartition: false,
            memory_bytes_max: 1 << 30,
            eviction: None,
            undo_bytes_max: 64 << 20,
            queue_length: 4096,
            results_bytes_max: 64 << 20,
            idle_timeout: Duration::from_secs(60),
            statement_timeout: None,
            log: LogSettings::default(),
            durable: true,
            snapshots: SnapshotSettings::default(),
            limits: Limits::default(),
            query_rows_max: None,
            procedures: Vec::new(),
            notices: Arc::new(|_| {}),
            seed: now.0.cast_unsigned() ^ u64::from(std::process::id()) << 48,
            clock: Box::new(system_time),
        }
    }
}

/// Maximum bytes that tables leave to working memory, and the minimum unless that is more than an eighth of the limit.
const RESERVE_BYTES_MAX: u64 = 256 << 20;
const RESERVE_BYTES_MIN: u64 = 1 << 20;

/// Bytes of a limit that tables leave to working memory.
pub(super) fn reserve_of(limit: u64) -> u64 {
    (limit / 16).clamp(RESERVE_BYTES_MIN.min(limit / 8), RESERVE_BYTES_MAX)
}

/// Settings of the log whose buffers fit into a limit.
pub(super) fn log_within(log: LogSettings, limit: u64) -> LogSettings {
    let share = |of: u64| usize::try_from(limit / of).unwrap_or(usize::MAX);
    LogSettings {
        commit_bytes: log.commit_bytes.min(share(64)),
        buffer_bytes_max: log.buffer_bytes_max.min(share(16)),
        ..log
    }
}

/// Memory of a recovery, and blocks for the rows that exceed it.
#[derive(Debug, Clone)]
pub(super) struct RecoveryMemory {
    bytes_max: u64,
    /// `None` if all rows stay in memory.
    blocks: Option<(BlockStoreSettings, Arc<BlockWrites>)>,
}

impl Settings {
    /// Memory of a recovery with these settings.
    pub(super) fn recovery_memory(&self) -> RecoveryMemory {
        let blocks = self.eviction.filter(|_| self.durable).map(|settings| (settings, BlockWrites::new()));
        RecoveryMemory { bytes_max: self.memory_bytes_max, blocks }
    }
}

impl RecoveryMemory {
    /// Its budget, which refuses nothing.
    pub fn budget(&self) -> Arc<Budget> {
        Arc::new(match self.blocks {
            Some(_) => Budget::lenient(self.bytes_max, reserve_of(self.bytes_max)),
            None => Budget::unlimited(),
        })
    }

    /// What rebuilds a database, with blocks in these files if rows may be evicted.
    #[must_use]
    pub fn evicting<X: Execute>(
        &self,
        rebuild: Rebuild<X>,
        files: &Arc<BlockFiles>,
        database: DatabaseId,
    ) -> Rebuild<X> {
        match &self.blocks {
            Some((settings, writes)) => rebuild.with_blocks(files, database, *settings, writes),
            None => rebuild,
        }
    }

    /// Starts the thread that writes blocks; `None` without blocks.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_writer(&self) -> Result<Option<BlockWriterThread>> {
        self.blocks.as_ref().map(|(_, writes)| BlockWriterThread::start(writes)).transpose()
    }
}

fn system_time() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
