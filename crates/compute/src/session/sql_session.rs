//! One session: settings, statements, results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::{AggregateUDF, CreateExternalTable, DdlStatement, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_cache::CountedBuffers;
use thermocline_pushdown::{UTC, register_functions, written_functions};
use thermocline_storage::{NodeConfig, NodeError, open_bucket};
use url::Url;

use super::blame::{of_execution, of_statement};
use super::copy_target::{CopyTarget, check_columns};
use super::csv_copy::CsvCopyFactory;
use super::depth::check_depth;
use super::dialect::in_our_dialect;
use super::engine::{Engine, QueryRecord};
use super::interruptible::interruptible;
use super::memory_watch::HeapGauges;
use super::plan_size::{check_plan_size, check_statement_size};
use super::prepared::Prepared;
use super::public_schema::PublicSchema;
use super::query_context::QueryContext;
use super::query_memory::{fair_pool, keep_fair};
use super::result::QueryResult;
use super::sql_dialect::SqlDialect;
use super::timeout::within;
use crate::catalog::{CatalogFile, ExternalTable, TableDefinition, declared_time_zone};
use crate::index::IndexStatement;
use crate::plan::{
    Casts, CheckedIntegers, Coalesce, ColumnsFirst, CorrelatedKeys, Decimals, DocumentOrder, EmptySubqueries,
    FloatOrder, Guards, InLists, InSubqueries, IntegerBounds, IntervalOrder, JsonCopies, MergedColumns, NarrowingCasts,
    NestedSorts, OrderKeys, RandomUuids, Separate, SetComparisonNames, SetCounts, SetTypes, SubqueryValues,
    TemporalLiterals, TypeChecks, TypeNames, Unsupported, WindowOrder, optimizer_rules, physical_rules,
    register_growing_functions, register_operators, register_stand_ins,
};
use crate::settings::Settings;
use crate::system::SystemSchema;

/// Options of opening a database.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The database directory; `None` keeps definitions in memory.
    pub directory: Option<PathBuf>,
    /// Settings to begin with.
    pub settings: Settings,
    /// Memory for running queries, beside the segment cache, in bytes. `SET
    /// datafusion.runtime.memory_limit` changes it.
    pub memory_limit: usize,
    /// Output partitions of plans; `None` for one per core.
    pub threads: Option<usize>,
    /// Limits of storage nodes in this process.
    pub embedded: NodeConfig,
    /// Another engine's tables, which are in schema `public` beside the external ones.
    pub guests: Option<Arc<dyn SchemaProvider>>,
    /// Tables of schema `system` that are about another engine, by name.
    pub system_tables: Vec<(String, Arc<dyn TableProvider>)>,
    /// Where the memory of the process is; `None` if nobody counts it, and queries are held to what they account for.
    pub heap: Option<HeapGauges>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            directory: None,
            settings: Settings::default(),
            memory_limit: 2 << 30,
            threads: None,
            embedded: NodeConfig::default(),
            guests: None,
            system_tables: vec![],
            heap: None,
        }
    }
}

/// A session of a database.
#[derive(Clone)]
pub struct Session {
    pub(super) context: SessionContext,
    engine: Arc<Engine>,
    views: Arc<PublicSchema>,
    /// What PREPARE has named.
    pub(super) prepared: Arc<Prepared>,
    /// Memory for running queries that no statement has changed, in bytes.
    memory_limit: usize,
    /// The query that runs now, for progress.
    current: Arc<Mutex<Option<Arc<QueryContext>>>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.context.session_id()).finish_non_exhaustive()
    }
}

/// Name of the one catalog.
const CATALOG: &str = "thermocline";
/// Schema of users' tables.
const SCHEMA: &str = "public";

impl Session {
    /// A database without a directory, at default settings.
    ///
    /// # Errors
    /// If no runtime can be made.
    pub fn in_memory() -> Result<Self> {
        Self::new(SessionOptions::default(), None)
    }

    /// Opens a database and restores what its catalog defines. A table whose objects cannot be
    /// reached now, or a view of one that is gone, is left out with a warning, not forgotten.
    ///
    /// # Errors
    /// If the catalog cannot be read or does not parse.
    pub async fn open(options: SessionOptions) -> Result<Self> {
        let catalog = options.directory.as_deref().map(CatalogFile::open).transpose()?;
        let session = Self::new(options, catalog)?;
        session.restore().await?;
        Ok(session)
    }

    fn new(options: SessionOptions, catalog: Option<CatalogFile>) -> Result<Self> {
        let engine = Engine::new(&options.settings, catalog, options.embedded.clone(), options.heap);
        let threads =
            options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from)).max(1);
        let mut config = SessionConfig::new()
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_information_schema(true)
            .with_target_partitions(threads);
        config.options_mut().extensions.insert(options.settings);
        // Expressions that an aggregate computes once for two uses are nullable there and not in the
        // logical plan; the check calls this an internal error.
        config.options_mut().execution.skip_physical_aggregate_schema_check = true;
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(fair_pool(options.memory_limit)).build_arc()?;
        // What depends on how a statement is written, literals and decimals before types are coerced, the others on
        // what coercion gave.
        let mut rules = before_coercion();
        rules.extend(Analyzer::new().rules);
        let after: [Rule; 12] = [
            Arc::new(SetComparisonNames),
            Arc::new(InLists),
            Arc::new(InSubqueries),
            Arc::new(SubqueryValues),
            Arc::new(IntegerBounds),
            Arc::new(Casts),
            Arc::new(NarrowingCasts),
            Arc::new(CheckedIntegers),
            Arc::new(IntervalOrder),
            Arc::new(JsonCopies),
            Arc::new(DocumentOrder),
            Arc::new(ColumnsFirst),
        ];
        rules.extend(after);
        if let Some(rule) = FloatOrder::new() {
            rules.push(Arc::new(rule));
        }
        rules.push(Arc::new(CorrelatedKeys));
        let state = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_analyzer_rules(rules)
            .with_type_planner(Arc::new(TypeNames))
            .with_optimizer_rules(optimizer_rules())
            .with_physical_optimizer_rules(physical_rules())
            .with_physical_optimizer_rule(Arc::new(NestedSorts))
            .with_physical_optimizer_rule(Arc::new(Separate::default()))
            .build();
        let context = SessionContext::new_with_state(state);
        context.register_udf(Coalesce::default().into());
        context.register_udf(RandomUuids::default().into());
        context.register_udaf(AggregateUDF::clone(&bool_and_udaf()).with_aliases(["every"]));
        register_operators(&context)?;
        context.state_ref().write().register_relation_planner(Arc::new(MergedColumns))?;
        register_functions(&context);
        written_functions().for_each(|function| context.register_udf(function));
        register_stand_ins(&context)?;
        register_growing_functions(&context)?;
        context.state_ref().write().register_file_format(Arc::new(CsvCopyFactory::default()), true)?;
        let views = Arc::new(PublicSchema::new(Arc::clone(&engine), options.guests));
        let schemas = MemoryCatalogProvider::new();
        schemas.register_schema(SCHEMA, Arc::clone(&views) as _)?;
        let system = SystemSchema::new(Arc::clone(&engine), context.state_weak_ref(), options.system_tables);
        schemas.register_schema("system", Arc::new(system))?;
        context.register_catalog(CATALOG, Arc::new(schemas));
        Ok(Self {
            context,
            engine,
            views,
            prepared: Arc::default(),
            memory_limit: options.memory_limit,
            current: Arc::default(),
        })
    }

    /// The part that this session shares with others of the process.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Settings {
        self.context.state().config_options().extensions.get::<Settings>().cloned().unwrap_or_default()
    }

    /// Changes a setting, as `SET` does. The prefix `thermocline.` may be left out.
    ///
    /// # Errors
    /// If there is no such setting or the value does not fit it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let name = if name.contains('.') { name.to_owned() } else { format!("thermocline.{name}") };
        self.context.state_ref().write().config_mut().options_mut().set(&name, value)?;
        self.apply_settings();
        Ok(())
    }

    /// Passes changed settings on to the shared caches.
    fn apply_settings(&self) {
        let settings = self.settings();
        self.engine.cache.set_policy(Arc::clone(&settings.cache_policy));
        if self.engine.nodes.footers().limit() != settings.footer_cache_size {
            self.engine.nodes.footers().set_limit(settings.footer_cache_size);
        }
        if self.engine.cache.limit() != settings.cache_size {
            self.engine.cache.set_limit(settings.cache_size);
        }
    }

    /// The query that runs now.
    pub fn current(&self) -> Option<Arc<QueryContext>> {
        self.current.lock().clone()
    }

    pub(super) fn set_current(&self, query: &Arc<QueryContext>) {
        *self.current.lock() = Some(Arc::clone(query));
    }

    /// Cuts a script into statements.
    ///
    /// # Errors
    /// If it does not parse; the error names line and column.
    pub fn parse(script: &str) -> Result<Vec<Statement>> {
        check_depth(script)?;
        let statements =
            DFParserBuilder::new(script).with_dialect(&SqlDialect::of(script.len())).build()?.parse_statements()?;
        Ok(statements.into())
    }

    /// Runs one statement and keeps its rows in memory, within the memory limit.
    ///
    /// # Errors
    /// If the statement is wrong or fails. A storage node or object that failed is named.
    pub async fn run(&self, sql: &str) -> Result<QueryResult> {
        let mut statements = Self::parse(sql)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => self.run_statement(statement).await,
            (None, _) => plan_err!("there is no statement"),
            _ => plan_err!("expected one statement"),
        }
    }

    /// Runs a parsed statement and keeps its rows in memory, within the memory limit.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn run_statement(&self, statement: Statement) -> Result<QueryResult> {
        let query = self.stream(statement).await?;
        self.collect(query).await
    }

    /// Keeps the rows of a statement in memory, within the memory limit.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn collect(&self, mut query: QueryStream) -> Result<QueryResult> {
        let memory = MemoryConsumer::new("result rows").register(&self.context.runtime_env().memory_pool);
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
            seconds: query.context.started().elapsed().as_secs_f64(),
            stats: query.context.stats(),
        })
    }

    /// Runs a parsed statement up to its first rows. Dropping the stream cancels the rest, here and
    /// at the storage nodes.
    ///
    /// If an object changed between planning and reading, the query is planned once more.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn stream(&self, statement: Statement) -> Result<QueryStream> {
        self.stream_until(statement, self.settings().statement_deadline()).await
    }

    /// The same for a statement of which a part may have been done before, by another engine: it has until
    /// `deadline`, or any time.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn stream_until(&self, statement: Statement, deadline: Option<Instant>) -> Result<QueryStream> {
        if let Some(statement) = IndexStatement::of(&statement)? {
            self.index_statement(statement, true, deadline).await?;
            return Ok(self.nothing());
        }
        if self.change_prepared(&statement).await? {
            return Ok(self.nothing());
        }
        let sql = statement.to_string();
        let statement = self.executed(statement)?;
        let plan = within(deadline, self.plan(show_tables(statement)?)).await??;
        match plan {
            // Storage nodes are asked for the table's objects.
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
                within(deadline, self.create_table(&statement, true)).await??;
                Ok(self.nothing())
            }
            LogicalPlan::Ddl(ddl) => {
                self.define(ddl, true).await?;
                Ok(self.nothing())
            }
            LogicalPlan::Dml(_) => {
                plan_err!("external tables are read only: write objects to their location instead")
            }
            LogicalPlan::Statement(_) => {
                let memory = Arc::clone(&self.context.runtime_env().memory_pool);
                let frame = self.context.execute_logical_plan(plan).await?;
                self.apply_settings();
                keep_fair(&self.context, &memory, self.memory_limit)?;
                if frame.schema().fields().is_empty() {
                    return Ok(self.nothing());
                }
                self.query(sql, frame.into_unoptimized_plan(), deadline).await
            }
            plan => {
                // Resolves statements that DataFusion answers itself, such as DESCRIBE.
                let frame = self.context.execute_logical_plan(plan).await?;
                self.query(sql, frame.into_unoptimized_plan(), deadline).await
            }
        }
    }

    /// Plans a statement, with the time zone that it says itself, or the session's, or UTC: without any,
    /// TIMESTAMP WITH TIME ZONE would be a type that has none.
    pub(super) async fn plan(&self, statement: Statement) -> Result<LogicalPlan> {
        let mut state = self.context.state();
        let declared = declared_time_zone(&statement);
        let zone = &mut state.config_mut().options_mut().execution.time_zone;
        *zone = declared.or_else(|| zone.take()).or_else(|| Some(UTC.to_owned()));
        // It does not pause, and nobody has to wait for it, as for the physical plan.
        let planning = SpawnedTask::spawn(async move {
            check_statement_size(&statement)?;
            let plan = state.statement_to_plan(in_our_dialect(statement)?).await.map_err(of_statement)?;
            check_plan_size(&plan)?;
            Ok(plan)
        });
        planning.await.map_err(|error| exec_datafusion_err!("planning ended in an error: {error}"))?
    }

    /// A view's definition, with the session's time zone if it has one: it is part of what types mean in
    /// the definition.
    pub(super) fn with_time_zone(&self, definition: &str) -> String {
        match &self.context.state().config_options().execution.time_zone {
            None => definition.to_owned(),
            Some(zone) => {
                let (definition, zone) = (definition.trim_end().trim_end_matches(';'), zone.replace('\'', "''"));
                format!(
                    "SET datafusion.execution.time_zone = '{zone}';\n{definition};\nRESET datafusion.execution.time_zone;"
                )
            }
        }
    }

    async fn query(&self, sql: String, plan: LogicalPlan, deadline: Option<Instant>) -> Result<QueryStream> {
        let has_rows = !matches!(plan, LogicalPlan::Copy(_));
        let mut attempt = 1;
        loop {
            let context = QueryContext::new(Arc::clone(&self.engine), self.settings(), deadline);
            self.set_current(&context);
            // "canceled" stands unless the rows come to an end.
            let record = Recorder {
                sql: sql.clone(),
                rows: 0,
                error: Some("canceled".into()),
                forgotten: false,
                context: Arc::clone(&context),
            };
            match self.begin(&plan, &context).await {
                Ok((schema, rows)) => {
                    let rows = recorded(rows, record);
                    return Ok(QueryStream { schema, rows, has_rows, affected: None, context });
                }
                Err(error) if attempt == 1 && is_stale(&error) => {
                    // The failed attempt is not a query of the user's.
                    record.forget();
                    tracing::info!("planning again: {error}");
                    attempt += 1;
                }
                Err(error) => {
                    let error = if is_stale(&error) {
                        error.context("an object changed again while the query was planned a second time")
                    } else {
                        error
                    };
                    record.failed(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Plans and runs up to the first batch: until then, nothing was handed out and the query can
    /// be planned again.
    async fn begin(
        &self,
        plan: &LogicalPlan,
        context: &Arc<QueryContext>,
    ) -> Result<(arrow::datatypes::SchemaRef, Rows)> {
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::clone(context));
        if let (Some(watch), MemoryLimit::Finite(limit)) =
            (&self.engine.memory, state.runtime_env().memory_pool.memory_limit())
        {
            watch.watch(context, limit);
        }
        // Also below EXPLAIN ANALYZE.
        plan.apply(|node| {
            if let LogicalPlan::Copy(copy) = node {
                self.prepare_copy(&copy.output_url)?;
                check_columns(copy)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let task_context = state.task_ctx();
        // Planning does not pause. In a task of its own it is left behind when the statement's time is over
        // or nobody waits for it any more.
        let mut plan = plan.clone();
        let target = match &mut plan {
            LogicalPlan::Copy(copy) => CopyTarget::of(copy, context.id()),
            _ => None,
        };
        let planning = SpawnedTask::spawn(async move { state.create_physical_plan(&plan).await });
        let planned = context.within_limits(planning).await?;
        let planned = planned.map_err(|error| exec_datafusion_err!("planning ended in an error: {error}"))?;
        let physical = planned.map_err(of_statement)?;
        context.check()?;
        let schema = physical.schema();
        let physical = interruptible(physical, context)?;
        let mut rows = in_tasks(physical, task_context)?;
        let first = context.within_limits(rows.next()).await?.transpose().map_err(of_execution)?;
        if let Some(target) = target {
            target.finish()?;
        }
        let context = Arc::clone(context);
        let rest = futures::stream::unfold((Some(rows), context), |(rows, context)| async move {
            let mut rows = rows?;
            let batch = match context.within_limits(rows.next()).await {
                Ok(batch) => batch?,
                // What it holds is needed now.
                Err(error) => return Some((Err(error), (None, context))),
            };
            let batch = batch.map_err(|error| match is_stale(&error) {
                true => error.context("an object changed while the query was reading it; run the query again"),
                false => of_execution(error),
            });
            Some((batch, (Some(rows), context)))
        });
        Ok((schema, futures::stream::iter(first.map(Ok)).chain(rest).boxed()))
    }

    /// Refuses the target of a COPY if it is not allowed, and makes the bucket known that it is in.
    fn prepare_copy(&self, target: &str) -> Result<()> {
        self.settings().allowed_locations.check(target)?;
        let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| *scheme != "file") else {
            return Ok(());
        };
        let refused = |why: &dyn std::fmt::Display| {
            plan_datafusion_err!("COPY TO '{target}': {why}; expected a path, file:// or s3://bucket/path")
        };
        let url = Url::parse(target).map_err(|error| refused(&error))?;
        if scheme != "s3" {
            return Err(refused(&format!("unknown scheme '{scheme}'")));
        }
        let bucket = open_bucket(&url).map_err(|error| refused(&error))?;
        self.context.register_object_store(&url, bucket);
        Ok(())
    }

    /// The answer of a statement without rows.
    pub fn nothing(&self) -> QueryStream {
        QueryStream { has_rows: false, ..self.answer(Arc::new(arrow::datatypes::Schema::empty()), vec![]) }
    }

    /// The answer of a statement that another engine has run.
    pub fn answer(&self, schema: arrow::datatypes::SchemaRef, rows: Vec<RecordBatch>) -> QueryStream {
        QueryStream {
            schema,
            rows: futures::stream::iter(rows.into_iter().map(Ok)).boxed(),
            has_rows: true,
            affected: None,
            context: QueryContext::new(Arc::clone(&self.engine), self.settings(), None),
        }
    }

    /// Whether an external table or a view has this name.
    pub fn has_relation(&self, name: &str) -> bool {
        self.engine.table(name).is_some() || self.views.has_view(name) || self.engine.absent(name).is_some()
    }

    /// Whether an index of an external table has this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.engine.indexes.get(name).is_some()
    }

    /// Where running queries get their memory.
    pub fn memory_pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.context.runtime_env().memory_pool)
    }

    pub(super) async fn define(&self, ddl: DdlStatement, keep: bool) -> Result<()> {
        match ddl {
            DdlStatement::CreateExternalTable(statement) => self.create_table(&statement, keep).await,
            DdlStatement::DropTable(drop) => {
                let name = drop.name.table();
                let (table, indexes) = (self.engine.table(name), self.engine.indexes.of_table(name));
                if !self.engine.drop_table(name)? && !drop.if_exists {
                    return plan_err!("there is no table {name}");
                }
                if let Some(table) = table {
                    for index in indexes {
                        self.remove_index_objects(&index, &table).await;
                    }
                }
                Ok(())
            }
            DdlStatement::CreateView(mut view) => {
                let name = view.name.table().to_owned();
                let sql = view.definition.as_deref().map(|definition| self.with_time_zone(definition));
                let is_absent = self.engine.absent(&name).is_some_and(|absent| absent.table_sql.is_some());
                if is_absent || self.engine.table(&name).is_some() || self.views.has_guest(&name) {
                    return plan_err!("{name} is a table already");
                }
                // DataFusion coerces its types at once.
                let state = self.context.state();
                let rule = |plan, rule: Rule| rule.analyze(plan, state.config_options());
                let plan = before_coercion().into_iter().try_fold(Arc::unwrap_or_clone(view.input), rule)?;
                view.input = Arc::new(plan);
                self.context.execute_logical_plan(LogicalPlan::Ddl(DdlStatement::CreateView(view))).await?;
                self.engine.set_view(&name, sql, keep)
            }
            DdlStatement::DropView(view) => {
                let name = view.name.table().to_owned();
                if self.engine.absent(&name).is_none_or(|absent| absent.table_sql.is_some()) {
                    self.context.execute_logical_plan(LogicalPlan::Ddl(DdlStatement::DropView(view))).await?;
                }
                self.engine.set_view(&name, None, keep)
            }
            DdlStatement::CreateMemoryTable(table) => plan_err!(
                "table {}: only external tables can be created: CREATE EXTERNAL TABLE ... STORED AS PARQUET|CSV LOCATION '...'",
                table.name
            ),
            other => plan_err!("{} is not supported", other.name()),
        }
    }

    pub(super) async fn create_table(&self, statement: &CreateExternalTable, keep: bool) -> Result<()> {
        let definition = TableDefinition::try_from_statement(statement)?;
        let name = definition.name.clone();
        if statement.name.schema().is_some_and(|schema| schema != SCHEMA) {
            return plan_err!("table {}: tables are created in schema {SCHEMA}", statement.name);
        }
        if self.views.has_view(&name) {
            return plan_err!("{name} is a view already");
        }
        if self.views.has_guest(&name) {
            return plan_err!("table {name} already exists");
        }
        let exists = self.engine.table(&name).is_some() || self.engine.absent(&name).is_some();
        match (exists, statement.if_not_exists, statement.or_replace) {
            (true, true, _) => return Ok(()),
            (true, false, false) => return plan_err!("table {name} already exists"),
            _ => {}
        }
        let settings = self.settings();
        let table = ExternalTable::create(definition, &self.engine.nodes, &settings).await?;
        let unread = table.unread();
        if keep && unread.total > 0 {
            tracing::warn!("table {name}: {unread}; system.unread_objects has all of them");
        }
        self.engine.add_table(Arc::new(table), statement.or_replace, keep)
    }
}

type Rule = Arc<dyn AnalyzerRule + Send + Sync>;

/// The rules that see types before they are coerced.
fn before_coercion() -> Vec<Rule> {
    vec![
        Arc::new(Unsupported),
        Arc::new(EmptySubqueries),
        Arc::new(Guards),
        Arc::new(TypeChecks),
        Arc::new(WindowOrder),
        Arc::new(SetTypes),
        Arc::new(SetCounts),
        Arc::new(OrderKeys),
        Arc::new(TemporalLiterals),
        Arc::new(Decimals),
    ]
}

/// `SHOW TABLES` as users of other databases know it: users' tables, without the catalog's own.
fn show_tables(statement: Statement) -> Result<Statement> {
    use datafusion::sql::sqlparser::ast;
    if let Statement::Statement(inner) = &statement
        && matches!(inner.as_ref(), ast::Statement::ShowTables { .. })
        && statement.to_string().eq_ignore_ascii_case("show tables")
    {
        let sql = "SELECT table_name, table_type FROM information_schema.tables \
                   WHERE table_schema = 'public' ORDER BY table_name";
        return Session::parse(sql)?.pop().ok_or_else(|| exec_datafusion_err!("SHOW TABLES does not parse"));
    }
    Ok(statement)
}

pub(super) fn is_stale(error: &DataFusionError) -> bool {
    NodeError::find(error).is_some_and(NodeError::is_stale)
}

type Rows = futures::stream::BoxStream<'static, Result<RecordBatch>>;

/// A statement under way.
pub struct QueryStream {
    /// Columns of the rows.
    pub schema: arrow::datatypes::SchemaRef,
    /// The rows as they come.
    pub rows: Rows,
    /// Whether the statement is one that yields rows, be they none.
    pub has_rows: bool,
    /// Rows that the statement changed; `None` for one that changes none.
    pub affected: Option<u64>,
    /// Settings and counters of its query.
    pub context: Arc<QueryContext>,
}

impl std::fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The rows of a plan, made in tasks of their own: whoever waits for them can give up meanwhile.
fn in_tasks(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    if plan.output_partitioning().partition_count() != 1 {
        return execute_stream(plan, context);
    }
    let mut builder = RecordBatchReceiverStreamBuilder::new(plan.schema(), 1);
    let sender = builder.tx();
    builder.spawn(async move {
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await {
            let failed = batch.is_err();
            if sender.send(batch).await.is_err() || failed {
                break;
            }
        }
        Ok(())
    });
    Ok(builder.build())
}

/// Puts a query into `system.queries` when it ends, however it ends.
struct Recorder {
    sql: String,
    rows: u64,
    error: Option<String>,
    /// Whether the query is not to be recorded.
    forgotten: bool,
    context: Arc<QueryContext>,
}

impl Recorder {
    fn failed(mut self, error: &DataFusionError) {
        self.error = Some(error.strip_backtrace());
    }

    fn forget(mut self) {
        self.forgotten = true;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.context.end();
        if self.forgotten {
            return;
        }
        let stats = self.context.stats();
        let settings = self.context.settings();
        let seconds = self.context.started().elapsed().as_secs_f64();
        self.context.engine().finished(QueryRecord {
            id: self.context.id().clone(),
            sql: std::mem::take(&mut self.sql),
            mode: settings.mode.name(),
            seconds,
            rows: self.rows,
            stats,
            dollars: settings.dollars(seconds, &stats),
            error: self.error.take(),
        });
    }
}

/// The rows, counted; the recorder goes when they end or are dropped.
fn recorded(rows: Rows, recorder: Recorder) -> Rows {
    futures::stream::unfold(Some((rows, recorder)), |state| async move {
        let (mut rows, mut recorder) = state?;
        match rows.next().await {
            Some(Ok(batch)) => {
                recorder.rows += batch.num_rows() as u64;
                Some((Ok(batch), Some((rows, recorder))))
            }
            Some(Err(error)) => {
                recorder.failed(&error);
                Some((Err(error), None))
            }
            None => {
                recorder.error = None;
                None
            }
        }
    })
    .boxed()
}
