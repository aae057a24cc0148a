//! Open databases.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use thermocline_compute::{AnalyticEngine, EngineOptions, HeapGauges, NodeConfig, Scheme, default_config};
use thermocline_transactions::recovery::{Progress, ReadOnly};
use thermocline_transactions::schema::Schema;

use super::session::Session;
use crate::bridge::{blocking, external};
use crate::error::Result;
use crate::rows::{DatabaseFiles, RowSchema, RowStore};
use crate::settings::{DatabaseSettings, SettingsFile, Values};
use crate::system;

/// Options for opening a database.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The database directory; `None` keeps everything in memory.
    pub directory: Option<PathBuf>,
    /// Settings by name; they override those kept in the directory.
    pub settings: Vec<(String, String)>,
    /// Output partitions of analytic plans; `None` for one per core.
    pub threads: Option<usize>,
    /// Limits of storage nodes in this process.
    pub embedded: NodeConfig,
    /// Schemes of locations in addition to `file`, `s3` and `thermocline`, or instead of them: storages of the program's
    /// own.
    pub schemes: Vec<Arc<dyn Scheme>>,
    /// Number of bytes allocated in the process, used to end queries that exceed their memory, see [`HeapGauges`];
    /// `None` if not counted.
    pub allocated: Option<fn() -> usize>,
}

impl OpenOptions {
    /// Adds a setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }
}

/// An open database: its engines and the state that its sessions share.
///
/// ```text
/// Database    engines, caches, memory, definitions, settings of all      one for each directory
///   Session   settings, transaction, prepared statements, what runs      as many as there are connections
/// ```
///
/// Clones refer to the same database. It is closed when the last clone and session is dropped, or by
/// [`Database::close`], which reports whether everything is durable.
#[derive(Debug, Clone)]
pub struct Database {
    engine: Arc<AnalyticEngine>,
    rows: Arc<RowStore>,
    settings: Arc<DatabaseSettings>,
}

impl Database {
    /// Opens a database in memory with default settings.
    ///
    /// # Errors
    /// If no runtime can be created.
    pub async fn in_memory() -> Result<Self> {
        Self::open(OpenOptions::default(), |_| {}).await
    }

    /// Opens a database: locks its directory, recovers its row tables, and restores the definitions in its catalog.
    /// `progress` is called during recovery, which continues in the background if it takes long: statements that may
    /// need row tables wait for it, and so does this function if the catalog contains a view of one.
    ///
    /// # Errors
    /// If the directory is unusable, locked by another process, or contains unreadable files, or a setting is invalid.
    pub async fn open(options: OpenOptions, progress: impl FnMut(&Progress) + Send + 'static) -> Result<Self> {
        Self::opened(options, Box::new(progress)).await
    }

    fn opened(options: OpenOptions, progress: Box<dyn FnMut(&Progress) + Send>) -> BoxFuture<'static, Result<Self>> {
        Self::recovered(options, progress).boxed()
    }

    /// [`Database::open`], compiled here alone.
    async fn recovered(options: OpenOptions, progress: Box<dyn FnMut(&Progress) + Send>) -> Result<Self> {
        let files = options.directory.as_deref().map(DatabaseFiles::open).transpose()?;
        let kept = options.directory.as_deref().map(SettingsFile::open).transpose()?;
        let built_in = Values::new(default_config(options.threads));
        let settings = Arc::new(DatabaseSettings::open(built_in, kept, &options.settings)?);
        let values = settings.values();
        let rows = Arc::new(RowStore::new(files, values.rows));
        let recovering = Arc::clone(&rows);
        blocking(move || recovering.recover(progress)).await?.map_err(external)?;
        let gauged = Arc::clone(&rows);
        let guests = move || {
            let used = gauged.started().map_or(0, |database| database.memory().used_bytes());
            usize::try_from(used).unwrap_or(usize::MAX)
        };
        let engine = AnalyticEngine::open(EngineOptions {
            directory: options.directory,
            settings: values.engine,
            config: values.session.config,
            embedded: options.embedded,
            schemes: options.schemes,
            guests: Some(Arc::new(RowSchema::new(Arc::clone(&rows)))),
            system_tables: system::tables(&rows),
            heap: options.allocated.map(|allocated| HeapGauges { allocated, guests: Arc::new(guests) }),
        });
        let engine = Arc::new(engine.await?);
        settings.follow(Arc::clone(&engine), Arc::clone(&rows));
        Ok(Self { engine, rows, settings })
    }

    /// A new session with the database's settings.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Changes a setting for this process, as if the database had been opened with it: shared settings for all
    /// sessions, others for new sessions. The prefix `thermocline.` is optional.
    ///
    /// # Errors
    /// 42704 if there is no such setting, 22023 for an invalid value, 55P02 if it is fixed at opening.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        Ok(self.settings.set(name, value)?)
    }

    /// The shared settings, and the initial settings of new sessions.
    pub fn settings(&self) -> Values {
        self.settings.values()
    }

    /// Closes the row engine: waits for running work and reports whether all of it is durable. No new work begins.
    ///
    /// # Errors
    /// If the log could not be written, and 25001 if sessions are still open.
    pub async fn close(&self) -> Result<()> {
        let rows = Arc::clone(&self.rows);
        Ok(blocking(move || rows.close()).await??)
    }

    /// Why row tables are read-only, what they contain and how to proceed; `None` if they are writable. Writes return
    /// this as an error with SQLSTATE 25006, or 53100 if the disk is full; callers should also tell users who only read.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.rows.read_only()
    }

    /// The analytic engine.
    pub fn engine(&self) -> &Arc<AnalyticEngine> {
        &self.engine
    }

    /// The current definitions of row tables and procedures.
    pub fn row_schema(&self) -> Schema {
        self.rows.schema()
    }

    pub(crate) fn rows(&self) -> &Arc<RowStore> {
        &self.rows
    }

    pub(crate) fn own_settings(&self) -> &Arc<DatabaseSettings> {
        &self.settings
    }
}
