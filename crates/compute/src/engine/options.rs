//! Options of the engine, and of each statement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use thermocline_storage::{NodeConfig, Scheme};

use crate::query::{HeapGauges, QueryContext};
use crate::settings::{EngineSettings, QuerySettings};

/// How to open an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The database directory; `None` keeps definitions in memory.
    pub directory: Option<PathBuf>,
    /// Limits of what queries share.
    pub settings: EngineSettings,
    /// Settings of sessions that have changed none; tables are restored with them. See
    /// [`default_config`](crate::default_config).
    pub config: SessionConfig,
    /// Limits of storage nodes in this process.
    pub embedded: NodeConfig,
    /// Schemes of locations beside `file`, `s3` and `thermocline`, or in the place of these: storages of one's own.
    pub schemes: Vec<Arc<dyn Scheme>>,
    /// Another engine's tables, which are in schema `public` beside the external ones.
    pub guests: Option<Arc<dyn SchemaProvider>>,
    /// Further tables of schema `system`, by name.
    pub system_tables: Vec<(String, Arc<dyn TableProvider>)>,
    /// Where the memory of the process is; `None` if nobody counts it, and queries are held to what they account for.
    pub heap: Option<HeapGauges>,
}

/// The query that a session runs now, for progress.
#[derive(Debug, Clone, Default)]
pub struct CurrentQuery(Arc<Mutex<Option<Arc<QueryContext>>>>);

impl CurrentQuery {
    /// The query; `None` if none has run.
    pub fn get(&self) -> Option<Arc<QueryContext>> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, query: &Arc<QueryContext>) {
        *self.0.lock() = Some(Arc::clone(query));
    }
}

/// Adds to the configuration of a query what the scans of another engine's tables share in it.
pub type Begin = Arc<dyn Fn(&mut SessionConfig) + Send + Sync>;

/// The most rows of a batch of a planned query.
pub type BatchRows = Arc<dyn Fn(&SessionConfig) -> Option<usize> + Send + Sync>;

/// Options that a statement brings from its session.
#[derive(Clone)]
pub struct StatementOptions {
    /// The session's settings: [`QuerySettings`], and DataFusion's options.
    pub config: SessionConfig,
    /// When the statement's time is over; `None` if it has any.
    pub deadline: Option<Instant>,
    /// Observer of which query runs.
    pub current: CurrentQuery,
    /// Called for each attempt to run a query.
    pub begin: Option<Begin>,
    /// Called with the configuration of a planned query; the most rows of a batch, if its rows are long. `None` for what
    /// the configuration says.
    pub batch_rows: Option<BatchRows>,
    /// Whether the rows go into a row table, one by one: then batches of long texts are computed some rows at a time.
    pub is_load: bool,
    /// Whether a query runs at once, however many do: its session's transaction holds what those that have their turn
    /// may wait for.
    pub runs_at_once: bool,
}

impl std::fmt::Debug for StatementOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl StatementOptions {
    /// Of nobody's session, with any time.
    pub fn new(config: SessionConfig) -> Self {
        let current = CurrentQuery::default();
        Self { config, deadline: None, current, begin: None, batch_rows: None, is_load: false, runs_at_once: false }
    }

    /// The session's settings of queries.
    pub fn settings(&self) -> QuerySettings {
        self.config.options().extensions.get::<QuerySettings>().cloned().unwrap_or_default()
    }
}
