//! The session: its statements, their engines, and rows on their way from one engine to the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_compute::{
    AnalyticEngine, CurrentQuery, EngineStream, QueryContext, QueryResult, QuerySettings, StatementOptions,
};
use thermocline_pushdown::user_err;
use thermocline_transactions::database::{RowSession, StatementResult};
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::schema::Schema;
use thermocline_types::{Class, Error as SqlError};
use tokio::sync::mpsc::{Receiver, channel};

use super::database::Database;
use super::describe::{describe, describe_schema};
use super::dispatch::{Dispatch, Names, needs_no_rows};
use super::insert;
use super::prepared_statements::PreparedStatements;
use super::stream::QueryStream;
use super::streams::Streams;
use super::write_query;
use crate::arrow::batches;
use crate::bridge::{blocking, external, row_error};
use crate::error::{Error, Known};
use crate::maintenance;
use crate::rows::{AsyncRowSession, RowQuery};
use crate::settings::{SessionSettings, SettingsInUse};
use crate::statement::{SettingStatement, Statement, Written};

/// Batches of a query that are buffered for a load.
const BATCHES_AHEAD: usize = 1;

/// A session of a database.
///
/// ```text
///  Statement --Names::dispatch--> Rows -----------> row engine
///                              RowsFirst ------> row engine --not here--> analytic engine
///                              Insert ---------> row engine --not here--> analytic engine --rows--> row engine
///                                                                         its query                 all or none
///                              Write ----------> row engine --not here--> analytic engine --keys--> row engine
///                                                                         its query                 all or none
///                              Analytic -------> analytic engine
///                              Copy -----------> a file's rows --> row engine, or a query's rows --> a file
///                              CreateTableAs --> analytic engine --rows--> row engine: table and rows, or none
/// ```
///
/// Not drawn: settings, BACKUP, EXPLAIN, DESCRIBE, PREPARE and DEALLOCATE.
///
/// A statement moves to the analytic engine only before any of it has run, or if it is a query. The row engine also
/// answers "not here" to a query outside a transaction that reads many rows
/// (`thermocline_transactions::database::Settings::query_rows_max`), because it would hold its partitions meanwhile,
/// which a snapshot does not. If the analytic engine cannot plan such a query, the row engine runs it without that
/// limit.
///
/// Clones refer to the same session, which runs one statement at a time. It is closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) rows: AsyncRowSession,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    /// Settings of the session.
    settings: Arc<Mutex<SessionSettings>>,
    /// Prepared statements of the session.
    prepared: PreparedStatements,
    /// The running query of the analytic engine.
    current: CurrentQuery,
}

impl Session {
    /// A session of this database, with its settings.
    pub(crate) fn new(database: Database) -> Self {
        let rows = AsyncRowSession::new(Arc::clone(database.rows()));
        let settings = Arc::new(Mutex::new(database.own_settings().session()));
        let shared =
            Shared { database, settings, prepared: PreparedStatements::default(), current: CurrentQuery::default() };
        Self { rows, shared: Arc::new(shared) }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.shared.database
    }

    /// Ends the session and rolls back its transaction. The database stays open.
    ///
    /// # Errors
    /// If the rollback panics, which is a bug.
    pub async fn close(&self) -> Result<(), Error> {
        Ok(self.rows.close().await?)
    }

    /// The analytic engine.
    pub fn engine(&self) -> &Arc<AnalyticEngine> {
        self.database().engine()
    }

    /// The current definitions of row tables and procedures.
    pub fn row_schema(&self) -> Schema {
        self.rows.schema()
    }

    /// The session's current query settings.
    pub fn settings(&self) -> QuerySettings {
        self.own().lock().query()
    }

    pub(super) fn own(&self) -> &Mutex<SessionSettings> {
        &self.shared.settings
    }

    pub(super) fn prepared(&self) -> &PreparedStatements {
        &self.shared.prepared
    }

    pub(super) fn settings_in_use(&self) -> SettingsInUse {
        SettingsInUse {
            database: Arc::clone(self.database().own_settings()),
            session: Arc::clone(&self.shared.settings),
        }
    }

    /// Options of a statement for the analytic engine.
    pub(super) fn options(&self, deadline: Option<Instant>) -> StatementOptions {
        let (rows, in_use) = (self.rows.clone(), Arc::new(self.settings_in_use()));
        let begin = move |config: &mut SessionConfig| {
            config.set_extension(Arc::new(RowQuery::new(rows.clone())));
            config.set_extension(Arc::clone(&in_use));
        };
        let batch_rows = |config: &SessionConfig| RowQuery::of(config).ok()?.snapshot.batch_rows();
        StatementOptions {
            config: self.own().lock().config.clone(),
            deadline,
            current: self.shared.current.clone(),
            begin: Some(Arc::new(begin)),
            batch_rows: Some(Arc::new(batch_rows)),
            is_load: false,
            runs_at_once: self.in_transaction(),
        }
    }

    /// The running query of the analytic engine; `None` if there is none.
    pub fn current(&self) -> Option<Arc<QueryContext>> {
        self.shared.current.get()
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.rows.in_transaction()
    }

    /// Stops the statement that runs in the row engine; false if none does. The statement returns its outcome as usual:
    /// it may have ended before.
    pub fn cancel(&self) -> bool {
        self.rows.cancel()
    }

    /// Runs one statement and collects its rows in memory, within the memory limit.
    ///
    /// # Errors
    /// Errors of the statement.
    pub async fn run(&self, sql: &str) -> Result<QueryResult, Error> {
        let mut statements = Statement::parse(sql)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => self.run_statement(statement).await,
            (None, _) => Err(Class::Syntax.error("there is no statement").into()),
            _ => Err(Class::Syntax.error("expected one statement").into()),
        }
    }

    /// [`Session::run`] for a parsed statement.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn run_statement(&self, statement: Statement) -> Result<QueryResult, Error> {
        self.run_with(statement, Streams::default()).await
    }

    /// [`Session::run_statement`] with streams for COPY.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn run_with(&self, statement: Statement, streams: Streams) -> Result<QueryResult, Error> {
        let written = statement.written();
        let collected = async {
            let rows = self.begin(statement, streams).await?;
            let collected = self.engine().collect(rows).await;
            self.transaction_of(collected).await
        };
        collected.await.map_err(|error| self.explained(error.into(), &written))
    }

    /// Starts a parsed statement and streams its rows. Dropping the stream cancels the rest.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn stream(&self, statement: Statement) -> Result<QueryStream, Error> {
        self.stream_with(statement, Streams::default()).await
    }

    /// [`Session::stream`] with streams for COPY; a COPY is complete when this returns.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn stream_with(&self, statement: Statement, streams: Streams) -> Result<QueryStream, Error> {
        let written = statement.written();
        match self.begin(statement, streams).await {
            Ok(EngineStream { schema, rows, has_rows, affected, .. }) => {
                let session = self.clone();
                let rows = rows.then(move |batch| {
                    let (session, written) = (session.clone(), written.clone());
                    async move {
                        let batch = session.transaction_of(batch).await;
                        batch.map_err(|error| session.explained(error.into(), &written))
                    }
                });
                Ok(QueryStream { schema, rows: rows.boxed(), has_rows, affected })
            }
            Err(error) => Err(self.explained(error.into(), &written)),
        }
    }

    /// Adds position and hint to an error of a statement.
    fn explained(&self, error: Error, statement: &Written) -> Error {
        error.explained(&statement.text, statement.at, self)
    }

    /// Starts a statement.
    fn begin(&self, statement: Statement, streams: Streams) -> BoxFuture<'_, Result<EngineStream>> {
        self.begun(statement, streams).boxed()
    }

    /// [`Session::begin`], compiled here alone.
    async fn begun(&self, statement: Statement, streams: Streams) -> Result<EngineStream> {
        // One interrupt for both engines; the timeout starts now.
        let interrupt = Arc::new(Interrupt::new(self.own().lock().statement_timeout));
        let statement = match self.executed(statement) {
            Ok(statement) => statement,
            Err(error) => return self.transaction_of(Err(error)).await,
        };
        if self.rows.has_failed() && !statement.ends_transaction() {
            return Err(external(SqlError::failed_transaction()));
        }
        if let Some(setting) = SettingStatement::of(&statement)? {
            let changed = self.setting(&setting);
            return self.transaction_of(changed).await;
        }
        if self.rows.store().is_unusable() && !needs_no_rows(&statement, |name| self.engine().has_relation(name)) {
            self.rows.recovered(&interrupt).await?;
        }
        if let Some(into) = statement.backup_to() {
            return self.backup(into).await;
        }
        let dispatch = self.dispatch(&statement);
        // A table that exists already is not created, with IF NOT EXISTS.
        let target = statement.row_target();
        let target = target.filter(|(name, is_new)| !is_new || self.rows.schema().table(name).is_err());
        let result = match dispatch {
            Ok(Dispatch::Rows) => self.rows(statement, &interrupt).await,
            Ok(Dispatch::RowsFirst) => self.rows_first(statement, &interrupt).await,
            Ok(Dispatch::Insert) => self.insert(statement, &interrupt).await,
            Ok(Dispatch::Write) => self.write(statement, &interrupt).await,
            Ok(Dispatch::Explain) => self.explain(statement, &interrupt).await,
            Ok(Dispatch::Describe(name)) => self.describe(&name),
            Ok(Dispatch::DescribeRelation(name)) => match self.engine().schema_of(&name) {
                Some(schema) => self.described_schema(&schema),
                // The analytic engine knows why it has none.
                None => self.analytic(statement, &interrupt).await,
            },
            Ok(Dispatch::Copy) => self.copy(&statement, streams, &interrupt).await,
            Ok(Dispatch::Prepare) => self.prepare(&statement).await,
            Ok(Dispatch::Deallocate) => self.deallocate(&statement),
            Ok(Dispatch::CreateTableAs) => self.create_table_as(statement, &interrupt).await,
            Ok(Dispatch::Nothing) => Ok(self.engine().nothing()),
            Ok(Dispatch::Analytic) => self.analytic(statement, &interrupt).await,
            Err(error) => Err(error),
        };
        if result.is_ok()
            && let Some(target) = target
        {
            self.tell_of_copies(&target);
        }
        self.transaction_of(result).await
    }

    /// Gives notices about the cost of a replicated table that was created or written.
    fn tell_of_copies(&self, (name, is_new): &(String, bool)) {
        let partitions = self.rows.store().settings().partitions;
        if let Ok(table) = self.rows.schema().table(name) {
            let copied = self.rows.store().copied();
            if *is_new { copied.created(table, partitions) } else { copied.written(table, partitions) }
        }
    }

    pub(super) fn dispatch(&self, statement: &Statement) -> Result<Dispatch> {
        let schema = self.rows.schema();
        let names = Names {
            rows: &schema,
            has_relation: &|name| self.engine().has_relation(name),
            has_index: &|name| self.engine().has_index(name),
        };
        names.dispatch(statement)
    }

    /// An error in one engine ends a transaction in the other.
    async fn transaction_of<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.rows.fail().await;
        }
        result
    }

    pub(super) async fn rows(&self, statement: Statement, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        // Statements dispatched here have no alternative in the analytic engine.
        let run = move |session: &mut RowSession| session.execute_unbounded(statement.source(), &[]);
        let result = self.rows.statement(interrupt, run).await?;
        self.streamed(&result)
    }

    /// Writes a backup into a new directory.
    async fn backup(&self, into: &Path) -> Result<EngineStream> {
        if self.in_transaction() {
            return user_err!(ActiveTransaction, "BACKUP is not possible inside a transaction");
        }
        // Always a path, even if it looks like a URL.
        let path = std::path::absolute(into)?;
        self.settings().allowed_locations.check(&path.to_string_lossy())?;
        let (rows, into) = (Arc::clone(self.rows.store()), into.to_owned());
        blocking(move || maintenance::backup(&rows, &into)).await??;
        Ok(self.engine().nothing())
    }

    pub(super) async fn rows_first(&self, statement: Statement, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let asked = statement.clone();
        let result = self.rows.statement(interrupt, move |session| {
            session.prepare(asked.source())?;
            session.execute_source(asked.source(), &[])
        });
        match result.await {
            Ok(result) => self.streamed(&result),
            // The analytic engine reads evicted rows without bringing them back, and its results need not fit in memory.
            Err(full) if is_out_of_memory(&full) => match self.analytic(statement, interrupt).await {
                Err(error) if is_of_planning(&error) => Err(full),
                stream => stream,
            },
            Err(error) if is_beyond_rows(&error) => {
                match self.analytic(statement.clone(), interrupt).await {
                    // Too large for the row engine, but the analytic engine cannot plan it.
                    Err(error) if is_of_planning(&error) => self.unbounded(statement, interrupt, error).await,
                    stream => stream,
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a query in the row engine without a limit on rows, because the analytic engine cannot plan it; returns the
    /// error `why` if the row engine cannot run it either.
    pub(super) async fn unbounded(
        &self,
        statement: Statement,
        interrupt: &Arc<Interrupt>,
        why: DataFusionError,
    ) -> Result<EngineStream> {
        let result = self.rows.statement(interrupt, move |session| {
            session.prepare(statement.source())?;
            session.execute_unbounded(statement.source(), &[])
        });
        match result.await {
            Ok(result) => self.streamed(&result),
            Err(error) if is_beyond_rows(&error) => Err(why),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, statement: Statement, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let asked = statement.clone();
        let prepared = self.rows.run(move |session| session.prepare(asked.source())).await;
        match prepared {
            Ok(()) => self.rows(statement, interrupt).await,
            // It may have further tables, also external ones.
            Err(error) if is_not_here(&error) || is_undefined_table(&error) => {
                let schema = self.rows.schema();
                match (write_query::Plan::of(&statement, &schema)?, statement.row_target()) {
                    (Some(plan), _) => self.write_query(plan, interrupt).await,
                    (None, Some((table, _))) => Err(schema.table(&table).err().map_or(error, external)),
                    (None, None) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Runs the query of an UPDATE, a DELETE or a MERGE in the analytic engine, and changes the rows that it finds, in
    /// one transaction.
    async fn write_query(&self, plan: write_query::Plan, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        if self.in_transaction() {
            return self.write_found(plan, interrupt).await;
        }
        // Its transaction is undone when it is dropped.
        let inner = Self { rows: self.rows.beside(), shared: Arc::clone(&self.shared) };
        inner.rows.statement(interrupt, |session| session.execute("BEGIN", &[])).await?;
        let written = inner.write_found(plan, interrupt).await;
        if written.is_ok() {
            inner.rows.statement(interrupt, |session| session.execute("COMMIT", &[])).await?;
        }
        inner.rows.close().await?;
        written
    }

    async fn write_found(&self, plan: write_query::Plan, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let plan = Arc::new(plan);
        let asked = Arc::clone(&plan);
        self.rows.statement(interrupt, move |session| asked.prepare(session)).await?;
        let mut rows = self.analytic(plan.query.clone(), interrupt).await?;
        if let Some(texts) = plan.query_of_texts(&rows.schema)? {
            rows = self.analytic(texts, interrupt).await?;
        }
        let found = self.engine().collect(rows).await?;
        let returned = plan.returned(&found.schema)?;
        let run = move |session: &mut RowSession| plan.run(session, &found.batches);
        let (result, batches) = self.rows.statement(interrupt, run).await?;
        match returned {
            Some(schema) => {
                let named = |batch: RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
                let batches = batches.into_iter().map(named).collect::<Result<_, _>>()?;
                Ok(self.engine().rows_of(schema, batches))
            }
            None => self.streamed(&result),
        }
    }

    async fn insert(&self, statement: Statement, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let asked = statement.clone();
        let prepared = self.rows.run(move |session| session.prepare(asked.source())).await;
        match prepared {
            // Its query may read external tables.
            Err(error) if is_not_here(&error) || is_undefined_table(&error) => {
                let Some(plan) = insert::Plan::of(&statement, &self.rows.schema())? else { return Err(error) };
                self.insert_query(plan, interrupt).await
            }
            Err(error) => Err(error),
            Ok(()) => match self.rows(statement.clone(), interrupt).await {
                Err(full) if is_out_of_memory(&full) => self.insert_by_load(statement, interrupt, full).await,
                done => done,
            },
        }
    }

    /// Runs an INSERT whose rows exceed the memory of one transaction as a load, which needs that of a batch; returns
    /// the error `full` if it cannot be one.
    async fn insert_by_load(
        &self,
        statement: Statement,
        interrupt: &Arc<Interrupt>,
        full: DataFusionError,
    ) -> Result<EngineStream> {
        if self.in_transaction() {
            return Err(full);
        }
        match insert::Plan::of(&statement, &self.rows.schema())?.filter(insert::Plan::is_load) {
            None => Err(full),
            Some(plan) => match self.insert_query(plan, interrupt).await {
                Err(error) if is_of_planning(&error) => Err(full),
                done => done,
            },
        }
    }

    /// Runs the query of an INSERT in the analytic engine.
    async fn insert_query(&self, plan: insert::Plan, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let mut rows = self.analytic_load(plan.query.clone(), interrupt).await?;
        if let Some(texts) = plan.query_of_texts(&rows.schema)? {
            rows = self.analytic_load(texts, interrupt).await?;
        }
        let one = plan.with_parameters(&rows.schema)?;
        let batches = if self.in_transaction() || !plan.is_load() {
            self.engine().collect(rows).await?.batches
        } else {
            let mut first = vec![];
            loop {
                match rows.rows.try_next().await? {
                    Some(batch) => first.push(batch),
                    None => break first,
                }
                if !insert::are_few(&first) {
                    return self.load(plan, one, (first, rows), interrupt).await;
                }
            }
        };
        let run = move |session: &mut RowSession| plan.run(session, &one, &batches);
        self.streamed(&self.rows.statement(interrupt, run).await?)
    }

    /// Loads the rows of a query, whose first batches have arrived, while it runs.
    async fn load(
        &self,
        plan: insert::Plan,
        one: Statement,
        (first, rows): (Vec<RecordBatch>, EngineStream),
        interrupt: &Arc<Interrupt>,
    ) -> Result<EngineStream> {
        let schema = Arc::clone(&rows.schema);
        let begin = move |session: &mut RowSession| plan.load(session, &one, &schema);
        let load = self.rows.statement(interrupt, begin).await?;
        let affected = self.feed((first, rows), interrupt, move |batches| insert::load_all(load, batches)).await?;
        self.streamed(&StatementResult { affected, ..StatementResult::default() })
    }

    /// Passes the rows of a query, whose first batches have arrived, to `load`, which runs on its own thread while the
    /// query continues. Returns the number of rows that `load` returns.
    pub(super) async fn feed(
        &self,
        (first, mut rows): (Vec<RecordBatch>, EngineStream),
        interrupt: &Arc<Interrupt>,
        load: impl FnOnce(Receiver<Option<RecordBatch>>) -> thermocline_transactions::Result<u64> + Send + 'static,
    ) -> Result<u64> {
        let (sender, receiver) = channel(BATCHES_AHEAD);
        let loaded = self.rows.without_session(interrupt, move || load(receiver));
        let given = async move {
            for batch in first {
                // The channel is closed if the load has failed; the load returns the error.
                let _ = sender.send(Some(batch)).await;
            }
            while let Some(batch) = rows.rows.try_next().await? {
                if sender.send(Some(batch)).await.is_err() {
                    return Ok(());
                }
            }
            let _ = sender.send(None).await;
            Ok::<_, DataFusionError>(())
        };
        let (given, loaded) = tokio::join!(given, loaded);
        given?;
        loaded
    }

    fn describe(&self, name: &str) -> Result<EngineStream> {
        let schema = self.rows.schema();
        let columns = describe(schema.table(name).map_err(external)?)?;
        Ok(self.engine().rows_of(columns.schema(), vec![columns]))
    }

    fn described_schema(&self, schema: &SchemaRef) -> Result<EngineStream> {
        let columns = describe_schema(schema)?;
        Ok(self.engine().rows_of(columns.schema(), vec![columns]))
    }

    pub(super) async fn analytic(&self, statement: Statement, interrupt: &Interrupt) -> Result<EngineStream> {
        self.analytic_with(statement, interrupt, false).await
    }

    /// [`Session::analytic`] for rows that go into a row table.
    pub(super) async fn analytic_load(&self, statement: Statement, interrupt: &Interrupt) -> Result<EngineStream> {
        self.analytic_with(statement, interrupt, true).await
    }

    async fn analytic_with(&self, statement: Statement, interrupt: &Interrupt, is_load: bool) -> Result<EngineStream> {
        // The statement may have been stopped in the row engine.
        interrupt.check().map_err(external)?;
        let text = Arc::clone(&statement.text);
        let Some(statement) = statement.into_analytic()? else { return user_err!(Syntax, "{text} is not a query") };
        let options = StatementOptions { is_load, ..self.options(interrupt.deadline()) };
        self.engine().stream(statement, &options).await
    }

    pub(super) fn streamed(&self, result: &StatementResult) -> Result<EngineStream> {
        let mut stream = match batches(result)? {
            Some((schema, batches)) => self.engine().rows_of(schema, batches),
            None => self.engine().nothing(),
        };
        stream.affected = (!stream.has_rows).then_some(result.affected);
        Ok(stream)
    }
}

impl Known for Session {
    fn tables(&self) -> Vec<String> {
        let rows = self.row_schema();
        let rows = rows.tables().map(|table| table.name.to_string());
        rows.chain(self.engine().relations()).collect()
    }

    fn columns(&self, table: &str) -> Vec<String> {
        match self.row_schema().table(table) {
            Ok(table) => table.listed_columns().map(|(_, column)| column.name.to_string()).collect(),
            Err(_) => self.engine().columns(table),
        }
    }

    fn functions(&self) -> Vec<String> {
        let rows = self.row_schema();
        let procedures = rows.procedures().map(|procedure| procedure.name.to_string());
        procedures.chain(self.engine().functions()).collect()
    }
}

pub(super) fn is_not_here(error: &DataFusionError) -> bool {
    matches!(row_error(error), Some(SqlError::Unsupported(_) | SqlError::User(Class::Unsupported, _)))
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(row_error(error), Some(SqlError::OutOfMemory(_)))
}

pub(super) fn is_undefined_table(error: &DataFusionError) -> bool {
    matches!(row_error(error), Some(SqlError::User(Class::UndefinedTable, _)))
}

/// Whether the error is one of planning in the analytic engine, so that nothing has run.
pub(super) fn is_of_planning(error: &DataFusionError) -> bool {
    use DataFusionError::{NotImplemented, Plan, SchemaError};
    let is_user_error = || match row_error(error) {
        Some(SqlError::User(class, _)) => class.sqlstate().starts_with("42") || *class == Class::Unsupported,
        _ => false,
    };
    matches!(error.find_root(), Plan(_) | SchemaError(..) | NotImplemented(_)) || is_user_error()
}

/// Whether the analytic engine may run a read-only query after this error of the row engine: the query is unsupported,
/// has syntax or a function that the row engine does not know, reads too many rows, or has too large a result.
pub(super) fn is_beyond_rows(error: &DataFusionError) -> bool {
    is_not_here(error)
        || matches!(
            row_error(error),
            Some(SqlError::User(Class::LimitExceeded | Class::Syntax | Class::UndefinedFunction, _))
        )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use thermocline_transactions::interrupt::Cause;

    use super::*;

    /// A session, and another one that holds all partitions, with a table of one row.
    async fn held() -> (Session, RowSession) {
        let session = Database::in_memory().await.unwrap().session();
        session.run("CREATE TABLE t (k BIGINT PRIMARY KEY)").await.unwrap();
        session.run("INSERT INTO t VALUES (1)").await.unwrap();
        let mut holder = session.rows.store().engine().unwrap().session();
        for sql in ["BEGIN", "DELETE FROM t"] {
            holder.execute(sql, &[]).unwrap();
        }
        (session, holder)
    }

    /// A query of the analytic engine.
    const WINDOW: &str = "SELECT k, count(*) OVER () FROM t";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_query_that_waits_for_partitions_leaves_the_session_when_it_is_dropped() {
        let (session, mut holder) = held().await;
        for query in [WINDOW, "SELECT sum(bytes) FROM system.memory", "EXPLAIN SELECT k FROM t"] {
            let dropped = tokio::time::timeout(Duration::from_millis(100), session.run(query)).await;
            assert!(dropped.is_err(), "{query} waits");
            session.set("statement_timeout", "200ms").unwrap();
            let after = tokio::time::timeout(Duration::from_secs(30), session.run("SELECT k FROM t")).await;
            let error = after.unwrap_or_else(|_| panic!("{query} is still there")).unwrap_err();
            assert_eq!(error.sqlstate(), "57014", "{query}: {error}");
            session.set("statement_timeout", "0").unwrap();
        }
        assert!(!session.cancel(), "nothing runs");
        holder.execute("ROLLBACK", &[]).unwrap();
        assert_eq!(session.run(WINDOW).await.unwrap().rows(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_insert_has_one_deadline_for_its_query_and_its_rows() {
        let (session, mut holder) = held().await;
        let query = "SELECT sum(a.value * b.value) FROM generate_series(1, 20000) a, generate_series(1, 20000) b";
        let started = Instant::now();
        session.run(query).await.unwrap();
        let alone = started.elapsed();
        assert!(alone > Duration::from_millis(200), "{alone:?}: too little to be seen");
        let timeout = Duration::from_millis(1000 + alone.as_millis() as u64 * 2);
        session.set("statement_timeout", &format!("{}ms", timeout.as_millis())).unwrap();
        let started = Instant::now();
        let error = session.run(&format!("INSERT INTO t {query}")).await.unwrap_err();
        let took = started.elapsed();
        assert_eq!(error.sqlstate(), "57014", "{error}");
        assert!(took >= timeout && took < timeout + alone / 2, "{took:?} of {timeout:?}, {alone:?} for the query");
        holder.execute("ROLLBACK", &[]).unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_query_that_changes_engines_has_one_deadline() {
        let (session, mut holder) = held().await;
        let timeout = Duration::from_millis(2000);
        for query in [WINDOW, "EXPLAIN ANALYZE SELECT k, count(*) OVER () FROM t"] {
            session.set("statement_timeout", "1500ms").unwrap();
            // The row engine rejects the query only after the work before it.
            let before = session.run("SELECT k FROM t");
            let after = async {
                session.set("statement_timeout", "2000ms").unwrap();
                let started = Instant::now();
                (session.run(query).await.unwrap_err(), started.elapsed())
            };
            let (before, (error, took)) = tokio::join!(before, after);
            assert_eq!(before.unwrap_err().sqlstate(), "57014");
            assert_eq!(error.sqlstate(), "57014", "{query}: {error}");
            assert!(error.to_string().contains("timeout"), "{query}: {error}");
            assert!(took >= timeout && took < timeout + Duration::from_millis(700), "{query}: {took:?} of {timeout:?}");
        }
        // A stopped statement is not passed on.
        let stopped = Interrupt::new(None);
        stopped.stop(Cause::User);
        let error = session.analytic(Statement::parse(WINDOW).unwrap().remove(0), &stopped).await.err().unwrap();
        let error = Error::from(error);
        assert_eq!(error.sqlstate(), "57014", "{error}");
        holder.execute("ROLLBACK", &[]).unwrap();
    }
}
