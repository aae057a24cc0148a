//! Start, recovery and end of a database's row engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use thermocline_transactions::database::{Opening, RowEngine, SnapshotStatus};
use thermocline_transactions::interrupt::{Cause, Interrupt, POLL_INTERVAL};
use thermocline_transactions::recovery::{Progress, ReadOnly};
use thermocline_transactions::schema::{Schema, TableDefinition};
use thermocline_transactions::{Error, Result};

use super::copied::CopiedTables;
use super::files::DatabaseFiles;
use super::mark::RowMark;
use super::settings::RowSettings;

/// Limit on bytes to recover before `open` returns: a duration that users do not notice.
const AT_ONCE_BYTES: u64 = 8 << 20;

/// The row engine of a database, started on first use: a database without row tables has neither its threads nor its
/// files.
///
/// ```text
///           recover: few bytes to read
///   Idle ---------------------------------------> Started
///    |  |    recover: many                          ^
///    |  +---------------------> Recovering ---------+    (a thread of its own; what needs rows waits)
///    |                              +-------------> Failed
///    +---- database: new, or in memory ----------> Started
///  any of them ---- close ----> Closed
/// ```
#[derive(Debug)]
pub struct RowStore {
    /// Database files; `None` keeps rows in memory only.
    files: Option<DatabaseFiles>,
    settings: Mutex<RowSettings>,
    state: Mutex<State>,
    /// Signals the end of recovery.
    recovered: Condvar,
    /// Recovery thread; `None` if there is none.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Notices about replicated tables.
    copied: CopiedTables,
}

#[derive(Debug)]
enum State {
    Idle,
    /// With its interrupt.
    Recovering(Arc<Interrupt>),
    Started(Arc<RowEngine>),
    Failed(Error),
    /// Final: remaining sessions get an error.
    Closed,
}

impl RowStore {
    /// The row engine of a directory, or in memory; not started.
    pub fn new(files: Option<DatabaseFiles>, settings: RowSettings) -> Self {
        Self {
            files,
            settings: Mutex::new(settings),
            state: Mutex::new(State::Idle),
            recovered: Condvar::new(),
            thread: Mutex::default(),
            copied: CopiedTables::default(),
        }
    }

    /// The database's directory; `None` if it is in memory.
    pub fn directory(&self) -> Option<&Path> {
        self.files.as_ref().map(DatabaseFiles::path)
    }

    /// Notices about replicated tables.
    pub const fn copied(&self) -> &CopiedTables {
        &self.copied
    }

    /// Starts it if there are row tables. A long recovery continues in the background, and statements that need rows
    /// wait for it.
    ///
    /// # Errors
    /// If the directory cannot be read or written, is damaged, has a newer version, or has lost its row tables. Errors
    /// of background recovery are returned to the statements that wait for it.
    pub fn recover(self: &Arc<Self>, mut progress: impl FnMut(&Progress) + Send + 'static) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        if !files.has_rows() && RowMark::read(files.path())?.is_none() {
            return Ok(());
        }
        let opening = self.opening(files)?;
        if opening.bytes().map_err(|error| of_database(files.path(), error))? <= AT_ONCE_BYTES {
            let database = opened(files.path(), opening, &mut progress)?;
            self.settle(Ok(database));
            return self.recovered(&Interrupt::new(None));
        }
        let interrupt = Arc::new(Interrupt::new(None));
        let opening = opening.with_interrupt(&interrupt);
        *self.state.lock() = State::Recovering(interrupt);
        let (store, path) = (Arc::downgrade(self), files.path().to_owned());
        let work = move || {
            let opened = catch_unwind(AssertUnwindSafe(|| opened(&path, opening, &mut progress)));
            let opened = opened.unwrap_or_else(|_| Err(Error::internal("recovery has panicked")));
            if let Some(store) = store.upgrade() {
                store.settle(opened);
            }
        };
        let thread = std::thread::Builder::new().name("recovery".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::Io(format!("cannot start a thread: {error}").into()));
        *self.thread.lock() = Some(thread.inspect_err(|error| *self.state.lock() = State::Failed(error.clone()))?);
        Ok(())
    }

    /// Sets the state after recovery.
    fn settle(&self, opened: Result<RowEngine>) {
        let mut state = self.state.lock();
        *state = match opened {
            Ok(database) => {
                let mut settings = self.settings.lock();
                settings.partitions = database.identity().partitions;
                // The limit may have changed during recovery.
                database.set_memory_bytes_max(settings.memory_bytes_max);
                State::Started(Arc::new(database))
            }
            Err(error) => {
                if !matches!(error, Error::Cancelled(_)) {
                    tracing::error!("{error}");
                }
                State::Failed(error)
            }
        };
        self.recovered.notify_all();
    }

    /// Whether statements that need rows have to [wait](RowStore::recovered), or get an error.
    pub fn is_unusable(&self) -> bool {
        matches!(*self.state.lock(), State::Recovering(_) | State::Failed(_) | State::Closed)
    }

    /// Waits for the end of recovery.
    ///
    /// # Errors
    /// The error of recovery or of `interrupt`, or that the database has been closed.
    pub fn recovered(&self, interrupt: &Interrupt) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Recovering(_) => interrupt.check()?,
                State::Failed(error) => return Err(error.clone()),
                State::Closed => return Err(closed()),
                State::Idle | State::Started(_) => return Ok(()),
            }
            self.recovered.wait_for(&mut state, POLL_INTERVAL);
        }
    }

    /// The row engine, if it has been started.
    pub fn started(&self) -> Option<Arc<RowEngine>> {
        match &*self.state.lock() {
            State::Started(database) => Some(Arc::clone(database)),
            State::Idle | State::Recovering(_) | State::Failed(_) | State::Closed => None,
        }
    }

    /// The row engine; starts it if necessary, and waits for the end of recovery.
    ///
    /// # Errors
    /// As [`RowStore::recover`] and [`RowStore::recovered`].
    pub fn engine(&self) -> Result<Arc<RowEngine>> {
        self.recovered(&Interrupt::new(None))?;
        let mut state = self.state.lock();
        match &*state {
            State::Started(database) => return Ok(Arc::clone(database)),
            State::Closed => return Err(closed()),
            State::Idle | State::Recovering(_) | State::Failed(_) => {}
        }
        let database = match &self.files {
            Some(files) => opened(files.path(), self.opening(files)?, &mut |_| {})?,
            None => {
                let settings = self.settings.lock().engine();
                RowEngine::in_memory(settings)?
            }
        };
        self.settings.lock().partitions = database.identity().partitions;
        let database = Arc::new(database);
        *state = State::Started(Arc::clone(&database));
        Ok(database)
    }

    /// The current definitions of row tables; empty during [recovery](RowStore::recovered).
    pub fn schema(&self) -> Schema {
        self.started().map(|database| database.schema()).unwrap_or_default()
    }

    /// Number of partitions with distinct rows of a table: 1 for a replicated table.
    pub fn partitions_of(&self, table: &TableDefinition) -> usize {
        match (table.partition_by, self.started()) {
            (Some(_), Some(database)) => database.identity().partitions.into(),
            _ => 1,
        }
    }

    fn opening(&self, files: &DatabaseFiles) -> Result<Opening> {
        if let Some(mark) = RowMark::read(files.path())? {
            mark.check(files.path())?;
        }
        let mut settings = self.settings.lock();
        let opening = Opening::new(files.disk()?, settings.engine());
        let opening = opening.map_err(|error| of_database(files.path(), error))?;
        settings.partitions = opening.partitions();
        Ok(opening)
    }

    /// Why row tables are read-only; `None` if they are writable or do not exist yet.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.started().and_then(|database| database.read_only().cloned())
    }

    /// Status of snapshots; `None` if the row engine has not been started, or has no files.
    pub fn snapshot_status(&self) -> Option<SnapshotStatus> {
        let database = self.started().filter(|_| self.files.is_some())?;
        Some(database.snapshot_status())
    }

    /// The database's files; `None` if rows are in memory only.
    pub const fn files(&self) -> Option<&DatabaseFiles> {
        self.files.as_ref()
    }

    /// Stops the row engine for good; if statements still use it, the last one stops it. No new work begins.
    ///
    /// # Errors
    /// If the log could not be written.
    pub fn close(&self) -> Result<()> {
        self.stop_recovery();
        let state = std::mem::replace(&mut *self.state.lock(), State::Closed);
        match state {
            State::Started(database) => Arc::try_unwrap(database).map_or(Ok(()), RowEngine::close),
            State::Idle | State::Recovering(_) | State::Failed(_) | State::Closed => Ok(()),
        }
    }

    /// Stops recovery; the files are not changed.
    fn stop_recovery(&self) {
        if let State::Recovering(interrupt) = &*self.state.lock() {
            interrupt.stop(Cause::User);
        }
        let thread = self.thread.lock().take();
        // The recovery thread itself may drop the last reference; its panics are reported already.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            drop(thread.join());
        }
    }

    /// The current settings.
    pub fn settings(&self) -> RowSettings {
        self.settings.lock().clone()
    }

    /// Changes settings: any of them until the row tables are opened, then only those that can be changed at run time.
    ///
    /// # Errors
    /// A sentence that names a setting that is fixed when the row tables are opened.
    pub fn change(&self, wanted: &RowSettings) -> Result<(), String> {
        let state = self.state.lock();
        let mut settings = self.settings.lock();
        let fixed = RowSettings {
            memory_bytes_max: wanted.memory_bytes_max,
            partitions_given: wanted.partitions_given,
            ..settings.clone()
        };
        if !matches!(*state, State::Idle) && fixed != *wanted {
            let name = match () {
                () if fixed.partitions != wanted.partitions => "executor_partitions",
                () if fixed.evicts != wanted.evicts => "row_eviction",
                () if fixed.block_bytes != wanted.block_bytes => "row_block_size",
                () if fixed.fill_factor != wanted.fill_factor => "row_fill_factor",
                () if fixed.fetching != wanted.fetching => "row_fetch",
                () if fixed.merge != wanted.merge => "row_merge",
                () if fixed.victims != wanted.victims => "row_victims",
                () if fixed.chain_sampling != wanted.chain_sampling => "row_chain_sampling",
                () if fixed.commit_interval_us != wanted.commit_interval_us => "commit_interval",
                () if fixed.commit_bytes != wanted.commit_bytes => "commit_size",
                () if fixed.synchronous_commit != wanted.synchronous_commit => "synchronous_commit",
                () => "idle_transaction_timeout",
            };
            return Err(format!(
                "{name} is decided when the database's row tables are opened: give it with --set, or ALTER DATABASE SET {name} \
                 for the next time"
            ));
        }
        if let State::Started(database) = &*state {
            database.set_memory_bytes_max(wanted.memory_bytes_max);
        }
        *settings = wanted.clone();
        Ok(())
    }
}

impl Drop for RowStore {
    fn drop(&mut self) {
        self.stop_recovery();
    }
}

fn closed() -> Error {
    Error::cannot_open("the database has been closed")
}

/// Recovers the row tables and starts the row engine.
fn opened(path: &Path, opening: Opening, progress: &mut dyn FnMut(&Progress)) -> Result<RowEngine> {
    let mark = RowMark::read(path)?;
    let database = opening.finish(progress).map_err(|error| of_database(path, error))?;
    if mark.is_none() && database.read_only().is_none() {
        // Before any statement is answered: see `RowMark`.
        RowMark { database: database.identity().database }.write(path)?;
    }
    if let Some(read_only) = database.read_only() {
        // Read-only users need to know, too.
        tracing::error!("{}: {read_only}", path.display());
    }
    Ok(database)
}

/// Adds the path of the database to an error of opening.
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
