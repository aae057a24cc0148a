//! The engine: what it consists of, and what there is to know about it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::SchemaProvider;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Documentation;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::RwLock;
use thermocline_cache::{CountedBuffers, SegmentCache};
use thermocline_catalog::{ExternalTable, Nodes, SqlFile};
use thermocline_dialect::rules::is_stand_in;

use super::execution::EngineStream;
use super::options::{EngineOptions, StatementOptions};
use super::public_schema::PublicSchema;
use super::result::QueryResult;
use super::state::{base_state, runtime};
use crate::index::IndexDefinition;
use crate::model::Calibrations;
use crate::query::{QueryRecord, Resources};
use crate::settings::EngineSettings;
use crate::system::SystemSchema;

/// The analytic engine of a database.
pub struct AnalyticEngine {
    pub(super) resources: Arc<Resources>,
    /// Views, external tables and guests.
    pub(super) public: Arc<PublicSchema>,
    system: Arc<SystemSchema>,
    /// State that every statement starts from; replaced when limits of memory change.
    base: RwLock<SessionState>,
}

/// A function that statements may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Its name, or an alias.
    pub name: String,
    /// `scalar`, `aggregate`, `window` or `table`.
    pub kind: &'static str,
    /// A call with its arguments' names; `None` if it has no documentation.
    pub usage: Option<String>,
}

impl fmt::Debug for AnalyticEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnalyticEngine").field("resources", &self.resources).finish_non_exhaustive()
    }
}

impl AnalyticEngine {
    /// Opens a database's external tables and views: restores what its catalog defines. A table whose objects cannot
    /// be reached now, or a view of one that is gone, is left out with a warning, not forgotten.
    ///
    /// # Errors
    /// If the catalog cannot be read or does not parse.
    pub fn open(options: EngineOptions) -> BoxFuture<'static, Result<Self>> {
        Self::opened(options).boxed()
    }

    /// [`AnalyticEngine::open`], compiled here alone.
    async fn opened(options: EngineOptions) -> Result<Self> {
        let catalog = options.directory.as_deref().map(SqlFile::catalog).transpose()?;
        let runtime = runtime(&options.settings, None)?;
        let nodes = Nodes::new(options.embedded, options.settings.footer_cache_size, options.schemes);
        let calibrations = Calibrations::open(options.directory.as_deref());
        let resources = Resources::new(options.settings, catalog, nodes, calibrations, options.heap);
        let public = Arc::new(PublicSchema::new(Arc::clone(&resources), options.guests));
        let system = Arc::new(SystemSchema::new(Arc::clone(&resources), options.system_tables));
        let base = base_state(options.config.clone(), runtime, Arc::clone(&public) as _, Arc::clone(&system) as _)?;
        let engine = Self { resources, public, system, base: RwLock::new(base) };
        engine.restore(StatementOptions::new(options.config)).await?;
        Ok(engine)
    }

    /// Resources that all queries share.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// Cached segments.
    pub fn cache(&self) -> &SegmentCache {
        &self.resources.cache
    }

    /// All external tables, by name.
    pub fn tables(&self) -> Vec<Arc<ExternalTable>> {
        self.resources.tables()
    }

    /// Finished queries, oldest first.
    pub fn queries(&self) -> Vec<QueryRecord> {
        self.resources.queries()
    }

    /// Changes the limits of what queries share. Those that run keep the memory that they have.
    ///
    /// # Errors
    /// If a limit cannot be had; nothing has changed then.
    pub fn apply(&self, settings: EngineSettings) -> Result<()> {
        let before = self.resources.settings();
        if before.query_memory_limit != settings.query_memory_limit
            || before.temporary_files_limit != settings.temporary_files_limit
        {
            let mut base = self.base.write();
            let runtime = runtime(&settings, Some(base.runtime_env()))?;
            *base = SessionStateBuilder::from(base.clone()).with_runtime_env(runtime).build();
        }
        self.resources.apply(settings);
        Ok(())
    }

    /// Names of external tables, views and tables of schema `system`.
    pub fn relations(&self) -> Vec<String> {
        let own = self.public.own_names().into_iter();
        own.chain(self.system.table_names().into_iter().map(|name| format!("system.{name}"))).collect()
    }

    /// Columns of an external table or a view; none if there is none of this name.
    pub fn columns(&self, relation: &str) -> Vec<String> {
        let schema = self.public.schema_of(relation);
        let names = |schema: SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect();
        schema.map(names).unwrap_or_default()
    }

    /// Names of functions.
    pub fn functions(&self) -> Vec<String> {
        let base = self.base.read();
        let names = base.scalar_functions().keys().chain(base.aggregate_functions().keys());
        names.chain(base.window_functions().keys()).filter(|name| !is_stand_in(name)).cloned().collect()
    }

    /// All functions, by name.
    pub fn function_entries(&self) -> Vec<FunctionEntry> {
        let base = self.base.read();
        let entry = |name: &String, kind, documentation: Option<&Documentation>| FunctionEntry {
            name: name.clone(),
            kind,
            usage: documentation.map(|documentation| documentation.syntax_example.clone()),
        };
        let scalar = base.scalar_functions().iter();
        let scalar = scalar.map(|(name, function)| entry(name, "scalar", function.documentation()));
        let aggregate = base.aggregate_functions().iter();
        let aggregate = aggregate.map(|(name, function)| entry(name, "aggregate", function.documentation()));
        let window = base.window_functions().iter();
        let window = window.map(|(name, function)| entry(name, "window", function.documentation()));
        let table = base.table_functions().keys().map(|name| entry(name, "table", None));
        let all = scalar.chain(aggregate).chain(window).chain(table);
        let mut all: Vec<_> = all.filter(|function| !is_stand_in(&function.name)).collect();
        all.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        all
    }

    /// Names and definitions of all views, in the order in which they were created.
    pub fn views(&self) -> Vec<(String, String)> {
        self.resources.views()
    }

    /// All indexes of external tables, by name.
    pub fn indexes(&self) -> Vec<IndexDefinition> {
        self.resources.indexes.all()
    }

    /// Tables and views of the catalog that could not be restored when the database was opened, each with the reason.
    pub fn absent(&self) -> Vec<(String, String)> {
        self.resources.absents()
    }

    /// The definition of an external table that could not be restored; `None` if there is none of this name.
    pub fn absent_table(&self, name: &str) -> Option<String> {
        self.resources.absent(name).and_then(|absent| absent.table_sql)
    }

    /// Names of the tables of schema `system`.
    pub fn system_tables(&self) -> Vec<String> {
        self.system.table_names()
    }

    /// Columns of a table of schema `system`; `None` if there is none of this name.
    ///
    /// # Errors
    /// If the table cannot be had.
    pub async fn system_columns(&self, name: &str) -> Result<Option<SchemaRef>> {
        Ok(self.system.table(name).await?.map(|table| table.schema()))
    }

    /// Columns of an external table or a view; `None` if there is none of this name.
    pub fn schema_of(&self, relation: &str) -> Option<SchemaRef> {
        self.public.schema_of(relation)
    }

    /// Whether an external table or a view has this name.
    pub fn has_relation(&self, name: &str) -> bool {
        self.resources.table(name).is_some() || self.public.has_view(name) || self.resources.absent(name).is_some()
    }

    /// Whether an index of an external table has this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.resources.indexes.get(name).is_some()
    }

    /// Where running queries get their memory.
    pub fn memory_pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.base.read().runtime_env().memory_pool)
    }

    /// The planner's state for one statement.
    pub(super) fn state(&self, config: &SessionConfig) -> SessionState {
        let mut state = self.base.read().clone();
        *state.config_mut() = config.clone();
        // The time of now().
        state.mark_start_execution();
        state
    }

    /// The same, as DataFusion's door.
    pub(super) fn context(&self, config: &SessionConfig) -> SessionContext {
        SessionContext::new_with_state(self.state(config))
    }

    /// The result of a statement without rows.
    pub fn nothing(&self) -> EngineStream {
        let mut nothing = self.rows_of(Arc::new(Schema::empty()), vec![]);
        nothing.has_rows = false;
        nothing
    }

    /// The rows of a statement that has run elsewhere.
    pub fn rows_of(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> EngineStream {
        let rows = futures::stream::iter(rows.into_iter().map(Ok)).boxed();
        EngineStream::new(schema, rows, None)
    }

    /// Keeps the rows of a statement in memory, within the memory limit.
    ///
    /// # Errors
    /// Those of the statement, and if there is not enough memory.
    pub async fn collect(&self, mut query: EngineStream) -> Result<QueryResult> {
        let memory = MemoryConsumer::new("result rows").register(&self.memory_pool());
        let mut batches = vec![];
        // An operator may hand on many slices of one array; they hold its memory once.
        let mut counted = CountedBuffers::default();
        while let Some(batch) = query.rows.try_next().await? {
            let bytes = batch.columns().iter().map(|column| counted.add(column.as_ref())).sum();
            memory.try_grow(bytes).map_err(|error| {
                exec_datafusion_err!(
                    "the result is too large to be held in memory; stream it with --format csv ({error})"
                )
            })?;
            batches.push(batch);
        }
        Ok(QueryResult {
            schema: Arc::clone(&query.schema),
            batches,
            has_rows: query.has_rows,
            affected: query.affected,
            seconds: query.started.elapsed().as_secs_f64(),
            stats: query.stats(),
        })
    }
}
