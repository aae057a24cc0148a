use std::path::Path;
use std::sync::Arc;

use datafusion::common::{exec_datafusion_err, exec_err};
use parking_lot::Mutex;
use thermocline_compute::Settings;
use thermocline_transactions::database::{Database, Notice, Settings as EngineSettings, SnapshotStatus};
use thermocline_transactions::disk::{Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::recovery::{Progress, ReadOnly};
use thermocline_transactions::{Error, Result};

use super::files::{DatabaseFiles, ROWS};
use super::mark::RowMark;
use crate::bridge::external;

/// The share of a partition's running transaction in the memory: what is needed to take it back.
const UNDO_SHARE: u64 = 4;

/// How the row engine of a database runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSettings {
    /// Executor partitions of a new one.
    pub partitions: u16,
    /// Bytes that rows, indexes and locators may take.
    pub memory_bytes_max: u64,
    /// How long a session may do nothing inside a transaction.
    pub idle_max: std::time::Duration,
    /// Group commit.
    pub commit_interval_us: u32,
    /// Bytes of the log that are synced without waiting for more.
    pub commit_bytes: usize,
    /// Whether a commit is told only once it is durable.
    pub synchronous_commit: bool,
}

impl RowSettings {
    /// What a session's settings say.
    pub fn of(settings: &Settings) -> Self {
        Self {
            partitions: settings.executor_partitions,
            memory_bytes_max: settings.row_memory_limit,
            idle_max: settings.idle_transaction_timeout,
            commit_interval_us: u32::try_from(settings.commit_interval.as_micros()).unwrap_or(u32::MAX),
            commit_bytes: settings.commit_size,
            synchronous_commit: settings.synchronous_commit,
        }
    }

    fn engine(&self) -> EngineSettings {
        EngineSettings {
            partitions: self.partitions,
            memory_bytes_max: self.memory_bytes_max,
            undo_bytes_max: usize::try_from(self.memory_bytes_max / UNDO_SHARE).unwrap_or(usize::MAX),
            idle_timeout: self.idle_max,
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

/// The row engine of a database, started when it is first needed: a database without row tables has
/// neither its threads nor its files.
#[derive(Debug)]
pub struct RowStore {
    /// Where rows are kept; `None` keeps them in memory only.
    files: Option<DatabaseFiles>,
    settings: Mutex<RowSettings>,
    database: Mutex<Option<Arc<Database>>>,
}

impl RowStore {
    /// The row engine of a directory, or one in memory; not started.
    pub fn new(files: Option<DatabaseFiles>, settings: RowSettings) -> Self {
        Self { files, settings: Mutex::new(settings), database: Mutex::default() }
    }

    /// Starts it if there are row tables, which takes as long as recovery does.
    ///
    /// # Errors
    /// If the directory cannot be read or written, is damaged, of a newer version, or has no row tables any
    /// more.
    pub fn recover(&self, progress: &mut dyn FnMut(&Progress)) -> Result<()> {
        match &self.files {
            Some(files) if files.has_rows() || RowMark::read(files.path())?.is_some() => {
                self.start(progress).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The row engine, if it has been started.
    pub fn started(&self) -> Option<Arc<Database>> {
        self.database.lock().clone()
    }

    /// The row engine.
    ///
    /// # Errors
    /// As [`RowStore::recover`].
    pub fn database(&self) -> Result<Arc<Database>> {
        self.start(&mut |_| {})
    }

    fn start(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Arc<Database>> {
        let mut started = self.database.lock();
        if let Some(database) = &*started {
            return Ok(Arc::clone(database));
        }
        let settings = self.settings.lock().engine();
        let database = match &self.files {
            Some(files) => self.open(files, settings, progress)?,
            None => {
                let nothing = Arc::new(SimulatedDisk::new(0, Faults::default()));
                Database::open(nothing, EngineSettings { durable: false, ..settings })?
            }
        };
        self.settings.lock().partitions = database.identity().partitions;
        let database = Arc::new(database);
        *started = Some(Arc::clone(&database));
        Ok(database)
    }

    fn open(
        &self,
        files: &DatabaseFiles,
        settings: EngineSettings,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Database> {
        let mark = RowMark::read(files.path())?;
        if let Some(mark) = mark {
            mark.check(files.path())?;
        }
        let database = Database::open_with_progress(files.disk()?, settings, progress);
        let database = database.map_err(|error| of_database(files.path(), error))?;
        if mark.is_none() && database.read_only().is_none() {
            // Before anything is answered: see `RowMark`.
            RowMark { database: database.identity().database }.write(files.path())?;
        }
        if let Some(read_only) = database.read_only() {
            // Whoever only reads has to know as well.
            tracing::error!("{}: {read_only}", files.path().display());
        }
        Ok(database)
    }

    /// Why nothing can be written to row tables; `None` if it can, or if there are none yet.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.started().and_then(|database| database.read_only().cloned())
    }

    /// What became of snapshots; `None` if the row engine has not been started, or has no files.
    pub fn snapshot_status(&self) -> Option<SnapshotStatus> {
        let database = self.started().filter(|_| self.files.is_some())?;
        Some(database.snapshot_status())
    }

    /// Writes a backup into a new directory: the rows as of one moment, and the catalog as it is then.
    ///
    /// # Errors
    /// If there is no database directory, or the backup's is there already or cannot be written.
    pub fn backup(&self, into: &Path) -> datafusion::common::Result<()> {
        let Some(files) = &self.files else { return exec_err!("a database without a directory has no backup") };
        let catalog = files.catalog()?;
        let database = self.started();
        if database.is_none() && !catalog.exists() {
            return exec_err!("there is nothing to back up: no row tables, and no definitions of external ones");
        }
        let failed = |error: std::io::Error| exec_datafusion_err!("backup {}: {error}", into.display());
        std::fs::create_dir(into).map_err(failed)?;
        let copied = database.map_or(Ok(()), |database| {
            let rows = RealDisk::open_or_create(into.join(ROWS))?;
            database.backup(&rows).map(|_| ())
        });
        let copied = copied.map_err(external).and_then(|()| catalog.copy_to(into));
        if copied.is_err()
            && let Err(error) = std::fs::remove_dir_all(into)
        {
            // It was made here, so nobody else's files are in it.
            tracing::warn!("what was copied is no backup, and is left in {}: {error}", into.display());
        }
        copied
    }

    /// Stops it, unless somebody still uses it, in which case the last to leave stops it.
    ///
    /// # Errors
    /// If the log could not be written.
    pub fn close(&self) -> Result<()> {
        match self.database.lock().take().map(Arc::try_unwrap) {
            Some(Ok(database)) => database.close(),
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// How it runs now.
    pub fn settings(&self) -> RowSettings {
        self.settings.lock().clone()
    }

    /// Changes how it runs, as far as that can be changed.
    ///
    /// # Errors
    /// A sentence that names what is decided when the database is opened.
    pub fn change(&self, wanted: &RowSettings) -> Result<(), String> {
        let started = self.database.lock();
        let mut settings = self.settings.lock();
        let fixed = RowSettings { memory_bytes_max: wanted.memory_bytes_max, ..settings.clone() };
        if started.is_some() && fixed != *wanted {
            let name = match () {
                () if fixed.partitions != wanted.partitions => "executor_partitions",
                () if fixed.commit_interval_us != wanted.commit_interval_us => "commit_interval",
                () if fixed.commit_bytes != wanted.commit_bytes => "commit_size",
                () if fixed.synchronous_commit != wanted.synchronous_commit => "synchronous_commit",
                () => "idle_transaction_timeout",
            };
            return Err(format!(
                "thermocline.{name} is decided when the database's row tables are opened: give it with --set"
            ));
        }
        if let Some(database) = &*started {
            database.set_memory_bytes_max(wanted.memory_bytes_max);
        }
        *settings = wanted.clone();
        Ok(())
    }
}

/// An error of opening, with the database that it is of.
fn of_database(path: &Path, error: Error) -> Error {
    let path = path.display().to_string();
    match error {
        Error::Corrupt(what) => Error::corrupt(format_args!(
            "cannot open {path}: {what}. 'thermocline check' looks at each of its files; \
             'thermocline restore' makes a backup a new database"
        )),
        Error::CannotOpen(what) if !what.contains(&path) => {
            Error::cannot_open(format_args!("cannot open {path}: {what}"))
        }
        other => other,
    }
}
