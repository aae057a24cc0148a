use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermocline_durability::log::LogSettings;
use thermocline_machine::ids::Micros;
use thermocline_procedures::{Limits, Registration};

use super::notice::Notices;
use super::snapshots::SnapshotSettings;

/// How a database runs, and what it may know of the world.
pub struct Settings {
    /// Executor partitions of a new database; one that exists keeps its own unless it is to be
    /// [repartitioned](Self::repartition).
    pub partitions: u16,
    /// Whether a database that has another number of partitions gets this one when it is opened: all of its rows are
    /// written once more. One that can only be read keeps its own.
    pub repartition: bool,
    /// Bytes that rows, indexes and locators may take together with what is needed while it runs: all of
    /// [`Working`](thermocline_tables::table::Working). Tables leave a sixteenth of it free, at most 256 MiB, for the
    /// latter.
    pub memory_bytes_max: u64,
    /// Bytes of rows that a transaction may change in a partition.
    pub undo_bytes_max: usize,
    /// Requests that wait for a partition at most; more are refused with 40001.
    pub queue_length: usize,
    /// Bytes of a partition's results that may wait for the log. While a slow disk keeps more of them waiting,
    /// the partition runs nothing, so that its queue fills and clients are told to try again. Also of a client's
    /// results that it has not received: if there are more, it is refused with 40001.
    pub results_bytes_max: usize,
    /// How long a session may do nothing inside a transaction; see
    /// [`Session::set_idle_timeout`](super::Session::set_idle_timeout).
    pub idle_timeout: Duration,
    /// How long a session's statement may take; `None` for any time. See
    /// [`Session::set_statement_timeout`](super::Session::set_statement_timeout).
    pub statement_timeout: Option<Duration>,
    /// Group commit and segments.
    pub log: LogSettings,
    /// Whether there is a log. Without one, which only a new database can be, all that was done is gone when
    /// the database is closed.
    pub durable: bool,
    /// When snapshots are taken.
    pub snapshots: SnapshotSettings,
    /// Limits of a procedure.
    pub limits: Limits,
    /// Rows that a query of a session may read outside of a transaction, by estimate or in fact; one that would read
    /// more is [`Error::Unsupported`](thermocline_types::Error::Unsupported), for who has another engine that reads a snapshot
    /// and holds no partition meanwhile. `None` where there is none. Inside a transaction and in a procedure queries
    /// run here, and [`Session::execute_unbounded`](super::Session::execute_unbounded) has any of them run here.
    pub query_rows_max: Option<u64>,
    /// Procedures in Rust. Those that the log calls have to be there when it is replayed.
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
            .field("log", &self.log)
            .field("durable", &self.durable)
            .field("snapshots", &self.snapshots)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// One partition, 1 GiB, the system's clock.
impl Default for Settings {
    fn default() -> Self {
        let now = system_time();
        Self {
            partitions: 1,
            repartition: false,
            memory_bytes_max: 1 << 30,
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

fn system_time() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
