use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use thermocline_transactions::database::{Database, Opening, SnapshotStatus};
use thermocline_transactions::interrupt::{Cause, Interrupt, POLL_INTERVAL};
use thermocline_transactions::recovery::{Progress, ReadOnly};
use thermocline_transactions::schema::{Schema, TableDefinition};
use thermocline_transactions::{Error, Result};

use super::copied::CopiedTables;
use super::files::DatabaseFiles;
use super::mark::RowMark;
use super::settings::RowSettings;

/// Bytes of files that are read before the database counts as open: what takes no longer than a person notices.
const AT_ONCE_BYTES: u64 = 8 << 20;

/// The row engine of a database, started when it is first needed: a database without row tables has
/// neither its threads nor its files.
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
    /// Where rows are kept; `None` keeps them in memory only.
    files: Option<DatabaseFiles>,
    settings: Mutex<RowSettings>,
    state: Mutex<State>,
    /// It is not recovering any more.
    recovered: Condvar,
    /// The thread that recovers it; `None` if none does, or has.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Notices given about tables that every partition has.
    copied: CopiedTables,
}

#[derive(Debug)]
enum State {
    Idle,
    /// With what stops it.
    Recovering(Arc<Interrupt>),
    Started(Arc<Database>),
    Failed(Error),
    /// For good: sessions that are left get an error.
    Closed,
}

impl RowStore {
    /// The row engine of a directory, or one in memory; not started.
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

    /// Notices about tables that every partition has.
    pub const fn copied(&self) -> &CopiedTables {
        &self.copied
    }

    /// Starts it if there are row tables; where there is much to read for that, behind this, with what needs rows
    /// waiting for it.
    ///
    /// # Errors
    /// If the directory cannot be read or written, is damaged, of a newer version, or has no row tables any
    /// more; what is seen only when all of it is read, is the error of who waits for it.
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

    /// Result of recovery.
    fn settle(&self, opened: Result<Database>) {
        let mut state = self.state.lock();
        *state = match opened {
            Ok(database) => {
                let mut settings = self.settings.lock();
                settings.partitions = database.identity().partitions;
                // It may have been changed meanwhile.
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

    /// Whether what needs rows has to [wait](RowStore::recovered), or gets an error.
    pub fn is_unusable(&self) -> bool {
        matches!(*self.state.lock(), State::Recovering(_) | State::Failed(_) | State::Closed)
    }

    /// Waits until it is not being recovered any more.
    ///
    /// # Errors
    /// Why it could not be, or that `interrupt` has stopped the wait.
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
    pub fn started(&self) -> Option<Arc<Database>> {
        match &*self.state.lock() {
            State::Started(database) => Some(Arc::clone(database)),
            State::Idle | State::Recovering(_) | State::Failed(_) | State::Closed => None,
        }
    }

    /// The row engine, started if it is not; waits while it is being recovered.
    ///
    /// # Errors
    /// As [`RowStore::recover`].
    pub fn database(&self) -> Result<Arc<Database>> {
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
                Database::in_memory(settings)?
            }
        };
        self.settings.lock().partitions = database.identity().partitions;
        let database = Arc::new(database);
        *state = State::Started(Arc::clone(&database));
        Ok(database)
    }

    /// All definitions of row tables as they are now; none while they are being [recovered](RowStore::recovered).
    pub fn schema(&self) -> Schema {
        self.started().map(|database| database.schema()).unwrap_or_default()
    }

    /// How many partitions have rows of a table that no other one has.
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

    /// Why nothing can be written to row tables; `None` if it can, or if there are none yet.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.started().and_then(|database| database.read_only().cloned())
    }

    /// Status of snapshots; `None` if the row engine has not been started, or has no files.
    pub fn snapshot_status(&self) -> Option<SnapshotStatus> {
        let database = self.started().filter(|_| self.files.is_some())?;
        Some(database.snapshot_status())
    }

    /// The database's directory; `None` if rows are in memory only.
    pub const fn files(&self) -> Option<&DatabaseFiles> {
        self.files.as_ref()
    }

    /// Stops it for good, unless somebody still uses it, in which case the last to leave stops it. Nothing begins any
    /// more.
    ///
    /// # Errors
    /// If the log could not be written.
    pub fn close(&self) -> Result<()> {
        self.stop_recovery();
        let state = std::mem::replace(&mut *self.state.lock(), State::Closed);
        match state {
            State::Started(database) => Arc::try_unwrap(database).map_or(Ok(()), Database::close),
            State::Idle | State::Recovering(_) | State::Failed(_) | State::Closed => Ok(()),
        }
    }

    /// Closes the store while it recovers; its files are as they were.
    fn stop_recovery(&self) {
        if let State::Recovering(interrupt) = &*self.state.lock() {
            interrupt.stop(Cause::User);
        }
        let thread = self.thread.lock().take();
        // It may be the one that has the last of this, and a panic has been told.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            drop(thread.join());
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

/// Reads the state of a database's row tables and starts their engine.
fn opened(path: &Path, opening: Opening, progress: &mut dyn FnMut(&Progress)) -> Result<Database> {
    let mark = RowMark::read(path)?;
    let database = opening.finish(progress).map_err(|error| of_database(path, error))?;
    if mark.is_none() && database.read_only().is_none() {
        // Before anything is answered: see `RowMark`.
        RowMark { database: database.identity().database }.write(path)?;
    }
    if let Some(read_only) = database.read_only() {
        // Whoever only reads has to know as well.
        tracing::error!("{}: {read_only}", path.display());
    }
    Ok(database)
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
