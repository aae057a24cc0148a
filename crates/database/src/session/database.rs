//! A database: what a process has of one.

use std::path::PathBuf;
use std::sync::Arc;

use thermocline_compute::{AnalyticEngine, EngineOptions, HeapGauges, NodeConfig, Scheme, default_config};
use thermocline_transactions::recovery::{Progress, ReadOnly};
use thermocline_transactions::schema::Schema;

use super::session::Session;
use crate::bridge::{blocking, external};
use crate::error::Result;
use crate::rows::{DatabaseFiles, RowSchema, RowStore};
use crate::settings::{DatabaseSettings, SettingsFile, Values};
use crate::system;

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The database directory; `None` keeps everything in memory.
    pub directory: Option<PathBuf>,
    /// Settings by name, in the place of what the directory keeps.
    pub settings: Vec<(String, String)>,
    /// Output partitions of analytic plans; `None` for one per core.
    pub threads: Option<usize>,
    /// Limits of storage nodes in this process.
    pub embedded: NodeConfig,
    /// Schemes of locations beside `file`, `s3` and `thermocline`, or in the place of these: storages of one's own.
    pub schemes: Vec<Arc<dyn Scheme>>,
    /// How many bytes are allocated in the process; queries that take more than they may are ended by that, see
    /// [`HeapGauges`]. `None` if nobody counts.
    pub allocated: Option<fn() -> usize>,
}

impl OpenOptions {
    /// The same with a setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }
}

/// An open database: its engines, and what its sessions share.
///
/// ```text
/// Database    engines, caches, memory, definitions, settings of all      one for each directory
///   Session   settings, transaction, prepared statements, what runs      as many as there are connections
/// ```
///
/// Clones are the same database. It is closed when the last of them and of its sessions is gone, or by
/// [`Database::close`], which says whether everything is durable.
#[derive(Debug, Clone)]
pub struct Database {
    engine: Arc<AnalyticEngine>,
    rows: Arc<RowStore>,
    settings: Arc<DatabaseSettings>,
}

impl Database {
    /// A database without a directory, at default settings.
    ///
    /// # Errors
    /// If no runtime can be made.
    pub async fn in_memory() -> Result<Self> {
        Self::open(OpenOptions::default(), |_| {}).await
    }

    /// Opens a database: takes its directory, recovers its row tables, restores what its catalog defines.
    /// `progress` hears how far recovery is, which goes on behind this if it takes long: statements that may need row
    /// tables wait for it, and so does this if the catalog has a view of one.
    ///
    /// # Errors
    /// If the directory cannot be used, is another process's, or holds what cannot be read, or a setting does not fit.
    pub async fn open(options: OpenOptions, progress: impl FnMut(&Progress) + Send + 'static) -> Result<Self> {
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

    /// A new session, at the database's settings.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Changes a setting for this process, as if the database had been opened with it: one that sessions share for all
    /// of them, any other for those that begin from now on. The prefix `thermocline.` may be left out.
    ///
    /// # Errors
    /// 42704 if there is no such setting, 22023 if the value does not fit, 55P02 if it is decided at opening.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        Ok(self.settings.set(name, value)?)
    }

    /// The settings of all sessions, and those that new ones begin with.
    pub fn settings(&self) -> Values {
        self.settings.values()
    }

    /// Waits for what still runs in the row engine, and says whether all of it is durable. Nothing begins there any more.
    ///
    /// # Errors
    /// If the log could not be written, and 25001 if sessions have not been closed.
    pub async fn close(&self) -> Result<()> {
        let rows = Arc::clone(&self.rows);
        Ok(blocking(move || rows.close()).await??)
    }

    /// Why nothing can be written to row tables, what they show and how to go on; `None` if they can be written.
    /// Whoever tries gets that as an error with SQLSTATE 25006, but whoever only reads has to be told, too.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.rows.read_only()
    }

    /// The analytic engine: its cache, its tables, what has run.
    pub fn engine(&self) -> &Arc<AnalyticEngine> {
        &self.engine
    }

    /// All definitions of row tables and procedures as they are now.
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
