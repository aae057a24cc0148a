//! Execution of a plan: its turn, its rows as they come, a second attempt when objects have changed, and what is
//! remembered of it.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use thermocline_catalog::{ExternalTable, Snapshot};
use thermocline_pushdown::{NodeError, user_error};
use thermocline_storage::open_bucket;
use url::Url;

use super::batches::in_batches_of;
use super::blame::{of_execution, of_statement};
use super::copy_file::{check_columns, copy_file};
use super::engine::AnalyticEngine;
use super::interruptible::interruptible;
use super::options::StatementOptions;
use super::planning::on_a_thread;
use super::slices::in_slices;
use super::state::SYSTEM;
use crate::query::{QueryContext, QueryRecord, QueryStats, Turn};

type Rows = BoxStream<'static, Result<RecordBatch>>;

/// A table, and its objects as they were found a moment ago.
pub(super) type Found = (Arc<ExternalTable>, Arc<Snapshot>);

/// A statement under way.
pub struct EngineStream {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// The rows as they come.
    pub rows: Rows,
    /// Whether the statement is one that yields rows, be they none.
    pub has_rows: bool,
    /// Rows that the statement changed; `None` for one that changes none.
    pub affected: Option<u64>,
    /// Since when it runs.
    pub started: Instant,
    /// Its query; `None` if this engine ran none.
    query: Option<Arc<QueryContext>>,
}

impl std::fmt::Debug for EngineStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl EngineStream {
    pub(super) fn new(schema: SchemaRef, rows: Rows, query: Option<Arc<QueryContext>>) -> Self {
        let started = query.as_ref().map_or_else(Instant::now, |query| query.started());
        Self { schema, rows, has_rows: true, affected: None, started, query }
    }

    /// The counters of its scans so far.
    pub fn stats(&self) -> QueryStats {
        self.query.as_ref().map(|query| query.stats()).unwrap_or_default()
    }
}

impl AnalyticEngine {
    /// Runs a plan up to its first batch, when it is its turn. If an object changes meanwhile, it is planned once more,
    /// from the statement if that names `files`: their columns may be others now.
    pub(super) async fn query(
        &self,
        sql: String,
        mut plan: LogicalPlan,
        files: Option<(Statement, Vec<Found>)>,
        options: &StatementOptions,
    ) -> Result<EngineStream> {
        let has_rows = !matches!(plan, LogicalPlan::Copy(_));
        let (mut statement, found) = files.unzip();
        let mut found = found.unwrap_or_default();
        let mut attempt = 1;
        let mut turn = None;
        loop {
            let context = QueryContext::new(Arc::clone(&self.resources), options.settings(), options.deadline);
            options.current.set(&context);
            for (table, snapshot) in &found {
                context.sees(table, snapshot).await;
            }
            // "canceled" stands unless the rows come to an end.
            let mut record = Recorder {
                sql: sql.clone(),
                rows: 0,
                error: Some("canceled".into()),
                forgotten: false,
                context: Arc::clone(&context),
                turn: turn.take(),
            };
            if record.turn.is_none() && !options.runs_at_once && !is_of_system(&plan) {
                match context.within_limits(self.resources.admission.turn()).await {
                    Ok(own) => record.turn = Some(own),
                    Err(error) => {
                        record.failed(&error);
                        return Err(error);
                    }
                }
            }
            match self.begin(&plan, &context, options).await {
                Ok((schema, rows)) => {
                    let rows = recorded(rows, record);
                    return Ok(EngineStream { has_rows, ..EngineStream::new(schema, rows, Some(context)) });
                }
                Err(error) if attempt == 1 && is_stale(&error) => {
                    // The failed attempt is not a query of the user's.
                    turn = record.forget();
                    tracing::info!("planning again: {error}");
                    attempt += 1;
                    if let Some(statement) = statement.take() {
                        (plan, found) = self.planned_again(statement, options).await?;
                    }
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
        options: &StatementOptions,
    ) -> Result<(SchemaRef, Rows)> {
        let mut state = self.state(&options.config);
        state.config_mut().set_extension(Arc::clone(context));
        if let Some(begin) = &options.begin {
            begin(state.config_mut());
        }
        if let (Some(watch), MemoryLimit::Finite(limit)) =
            (&self.resources.memory, state.runtime_env().memory_pool.memory_limit())
        {
            watch.watch(context, limit);
        }
        // Also below EXPLAIN ANALYZE.
        plan.apply(|node| {
            if let LogicalPlan::Copy(copy) = node {
                prepare_copy(&copy.output_url, &state, options)?;
                check_columns(copy)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut task_context = state.task_ctx();
        let mut plan = plan.clone();
        let target = match &mut plan {
            LogicalPlan::Copy(copy) => copy_file(copy, context.id()),
            _ => None,
        };
        let planning = on_a_thread(async move { state.create_physical_plan(&plan).await });
        let mut physical = context.within_limits(planning).await?.map_err(of_statement)?;
        let rows_max = options.batch_rows.as_ref().and_then(|rows| rows(task_context.session_config()));
        if let Some(rows) = rows_max.filter(|rows| *rows < task_context.session_config().batch_size()) {
            (physical, task_context) = in_batches_of(rows.max(1), physical, &task_context)?;
        }
        if options.is_load {
            physical = in_slices(physical)?;
        }
        context.check()?;
        let schema = physical.schema();
        let physical = interruptible(physical, context)?;
        let mut rows = in_tasks(physical, task_context)?;
        let first = context.within_limits(rows.next()).await?.transpose().map_err(of_execution)?;
        if let Some(target) = target {
            target.finish()?;
        }
        let context = Arc::clone(context);
        let rest = stream::unfold((Some(rows), context), |(rows, context)| async move {
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
        Ok((schema, stream::iter(first.map(Ok)).chain(rest).boxed()))
    }
}

/// Whether a query only asks the database about itself: whoever wants to know why nothing goes on needs no turn.
fn is_of_system(plan: &LogicalPlan) -> bool {
    let (mut some, mut all) = (false, true);
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            some = true;
            all &= matches!(scan.table_name.schema(), Some(SYSTEM | "information_schema"));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && some && all
}

/// Refuses the target of a COPY if it is not allowed, and makes the bucket known that it is in.
fn prepare_copy(target: &str, state: &SessionState, options: &StatementOptions) -> Result<()> {
    options.settings().allowed_locations.check(target)?;
    let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| *scheme != "file") else {
        return Ok(());
    };
    let refused = |why: &dyn std::fmt::Display| {
        user_error!(InvalidParameter, "COPY TO '{target}': {why}; expected a path, file:// or s3://bucket/path")
    };
    let url = Url::parse(target).map_err(|error| refused(&error))?;
    if target.contains(['%', '?', '#']) {
        return Err(refused(&"%, ? and # cannot be in an object's name"));
    }
    if scheme != "s3" {
        return Err(refused(&format!("unknown scheme '{scheme}'")));
    }
    let bucket = open_bucket(&url).map_err(|error| refused(&error))?;
    state.runtime_env().register_object_store(&url, bucket);
    Ok(())
}

/// Whether an object is not any more what it was when the query was planned.
pub(super) fn is_stale(error: &DataFusionError) -> bool {
    NodeError::find(error).is_some_and(NodeError::is_stale)
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

/// Puts a query into `system.queries` when it ends, however it ends, and has its turn until then.
struct Recorder {
    sql: String,
    rows: u64,
    error: Option<String>,
    /// Whether the query is not to be recorded.
    forgotten: bool,
    context: Arc<QueryContext>,
    turn: Option<Turn>,
}

impl Recorder {
    fn failed(mut self, error: &DataFusionError) {
        self.error = Some(error.strip_backtrace());
    }

    /// Gives the turn back to whoever tries again.
    fn forget(mut self) -> Option<Turn> {
        self.forgotten = true;
        self.turn.take()
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
        self.context.resources().finished(QueryRecord {
            id: self.context.id().clone(),
            sql: std::mem::take(&mut self.sql),
            mode: settings.mode.name(),
            seconds,
            rows: self.rows,
            stats,
            dollars: stats.dollars(settings, seconds),
            error: self.error.take(),
        });
    }
}

/// The rows, counted; the recorder goes when they end or are dropped.
fn recorded(rows: Rows, recorder: Recorder) -> Rows {
    stream::unfold(Some((rows, recorder)), |state| async move {
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
