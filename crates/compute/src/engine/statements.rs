//! Statements: definitions are made, everything else is planned and run.

use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::FutureExt;
use futures::future::BoxFuture;
use thermocline_catalog::{ExternalTable, TableDefinition, declared_time_zone};
use thermocline_dialect::{check_plan_size, check_statement_size, in_our_dialect, parse};
use thermocline_pushdown::user_err;
use thermocline_storage::RemoteOptions;

use super::blame::of_statement;
use super::engine::AnalyticEngine;
use super::execution::{EngineStream, Found};
use super::options::StatementOptions;
use super::planning::on_a_thread;
use super::state::{Rule, SCHEMA, before_coercion};
use crate::index::IndexStatement;
use crate::query::within;

impl AnalyticEngine {
    /// Runs a parsed statement up to its first rows. Dropping the stream cancels the rest, here and
    /// at the storage nodes.
    ///
    /// If an object changed between planning and reading, the query is planned once more.
    ///
    /// # Errors
    /// If the statement is wrong or fails. A storage node or object that failed is named.
    pub fn stream<'a>(
        &'a self,
        statement: Statement,
        options: &'a StatementOptions,
    ) -> BoxFuture<'a, Result<EngineStream>> {
        self.started(statement, options).boxed()
    }

    /// [`AnalyticEngine::stream`], compiled here alone.
    async fn started(&self, statement: Statement, options: &StatementOptions) -> Result<EngineStream> {
        if let Some(statement) = IndexStatement::of(&statement)? {
            self.index_statement(statement, true, options).await?;
            return Ok(self.nothing());
        }
        let sql = statement.to_string();
        // Storage nodes are asked for the files that it names.
        let planned = within(options.deadline, self.plan_with_files(show_tables(statement)?, options));
        let (plan, files) = planned.await??;
        match plan {
            // Storage nodes are asked for the table's objects.
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
                within(options.deadline, self.create_table(&statement, true, options)).await??;
                Ok(self.nothing())
            }
            LogicalPlan::Ddl(ddl) => {
                self.define(ddl, true, options).await?;
                Ok(self.nothing())
            }
            LogicalPlan::Dml(_) => {
                user_err!(WrongObject, "external tables are read only: write objects to their location instead")
            }
            LogicalPlan::Statement(statement) => user_err!(Unsupported, "{} is not supported", statement.name()),
            plan => {
                // Resolves statements that DataFusion answers itself, such as DESCRIBE.
                let frame = self.context(&options.config).execute_logical_plan(plan).await?;
                self.query(sql, frame.into_unoptimized_plan(), files, options).await
            }
        }
    }

    /// The plan of a query with the files that it names as they are now, and the tables of these.
    pub(super) async fn planned_again(
        &self,
        statement: Statement,
        options: &StatementOptions,
    ) -> Result<(LogicalPlan, Vec<Found>)> {
        let planned = within(options.deadline, self.plan_with_files(statement, options));
        let (plan, files) = planned.await??;
        let frame = self.context(&options.config).execute_logical_plan(plan).await?;
        Ok((frame.into_unoptimized_plan(), files.map(|(_, found)| found).unwrap_or_default()))
    }

    /// Plans a statement, with the time zone that it says itself, or the session's.
    pub(super) async fn plan(&self, statement: Statement, options: &StatementOptions) -> Result<LogicalPlan> {
        self.plan_with_files(statement, options).await.map(|(plan, _)| plan)
    }

    /// The same; if it names files in the place of tables, with these, and the statement to be planned again when they
    /// have changed.
    async fn plan_with_files(
        &self,
        mut statement: Statement,
        options: &StatementOptions,
    ) -> Result<(LogicalPlan, Option<(Statement, Vec<Found>)>)> {
        check_statement_size(&statement)?;
        let files = self.files_of(&mut statement, options).await?;
        if let Some(described) = files.described(&statement)? {
            return Ok((described, None));
        }
        let mut state = self.state(&options.config);
        if let Some(declared) = declared_time_zone(&statement) {
            state.config_mut().options_mut().execution.time_zone = Some(declared);
        }
        let again = (!files.is_empty()).then(|| (statement.clone(), files.found()));
        if again.is_some() {
            state.register_relation_planner(Arc::new(files))?;
        }
        let planning = async move {
            let plan = state.statement_to_plan(in_our_dialect(statement)?).await.map_err(of_statement)?;
            check_plan_size(&plan)?;
            Ok(plan)
        };
        Ok((on_a_thread(planning).await?, again))
    }

    /// Makes or drops what a statement defines; with `keep`, in the catalog too.
    pub(super) async fn define(&self, ddl: DdlStatement, keep: bool, options: &StatementOptions) -> Result<()> {
        match ddl {
            DdlStatement::CreateExternalTable(statement) => self.create_table(&statement, keep, options).await,
            DdlStatement::DropTable(drop) => {
                let name = drop.name.table();
                let (table, indexes) = (self.resources.table(name), self.resources.indexes.of_table(name));
                if !self.resources.drop_table(name)? && !drop.if_exists {
                    return user_err!(UndefinedTable, "table \"{name}\" does not exist");
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
                let sql = view.definition.as_deref().map(|definition| with_time_zone(definition, options));
                let absent = self.resources.absent(&name);
                let is_table = absent.as_ref().is_some_and(|absent| absent.table_sql.is_some());
                if is_table || self.resources.table(&name).is_some() || self.public.has_guest(&name) {
                    return user_err!(DuplicateTable, "{name} is a table already");
                }
                // A view that could not be restored is none to DataFusion.
                if absent.is_some() && !view.or_replace {
                    return user_err!(DuplicateTable, "view {name} already exists");
                }
                // DataFusion coerces its types at once.
                let rule = |plan, rule: Rule| rule.analyze(plan, options.config.options());
                let plan = before_coercion().into_iter().try_fold(Arc::unwrap_or_clone(view.input), rule)?;
                view.input = Arc::new(plan);
                let view = LogicalPlan::Ddl(DdlStatement::CreateView(view));
                self.context(&options.config).execute_logical_plan(view).await?;
                self.resources.set_view(&name, sql, keep)
            }
            DdlStatement::DropView(view) => {
                let name = view.name.table().to_owned();
                if self.resources.absent(&name).is_none_or(|absent| absent.table_sql.is_some()) {
                    let view = LogicalPlan::Ddl(DdlStatement::DropView(view));
                    self.context(&options.config).execute_logical_plan(view).await?;
                }
                self.resources.set_view(&name, None, keep)
            }
            DdlStatement::CreateMemoryTable(table) => user_err!(
                Syntax,
                "table {}: only external tables can be created: CREATE EXTERNAL TABLE ... STORED AS PARQUET|CSV LOCATION '...'",
                table.name
            ),
            other => user_err!(Unsupported, "{} is not supported", other.name()),
        }
    }

    pub(super) async fn create_table(
        &self,
        statement: &CreateExternalTable,
        keep: bool,
        options: &StatementOptions,
    ) -> Result<()> {
        let definition = TableDefinition::try_from_statement(statement)?;
        let name = definition.name.clone();
        if statement.name.schema().is_some_and(|schema| schema != SCHEMA) {
            return user_err!(Syntax, "table {}: tables are created in schema {SCHEMA}", statement.name);
        }
        if self.public.has_view(&name) {
            return user_err!(DuplicateTable, "{name} is a view already");
        }
        if self.public.has_guest(&name) {
            return user_err!(DuplicateTable, "table {name} already exists");
        }
        let exists = self.resources.table(&name).is_some() || self.resources.absent(&name).is_some();
        match (exists, statement.if_not_exists, statement.or_replace) {
            (true, true, _) => return Ok(()),
            (true, false, false) => return user_err!(DuplicateTable, "table {name} already exists"),
            _ => {}
        }
        let partition_size = self.resources.settings().partition_size;
        let nodes = &self.resources.nodes;
        let settings = options.settings();
        let remote = RemoteOptions { request_timeout: settings.request_timeout, ..RemoteOptions::default() };
        let allowed = &settings.allowed_locations;
        let table = ExternalTable::create(definition, nodes, allowed, &remote, partition_size).await?;
        let unread = table.unread();
        if keep && unread.total > 0 {
            tracing::warn!("table {name}: {unread}; system.unread_objects has all of them");
        }
        self.resources.add_table(Arc::new(table), statement.or_replace, keep)
    }
}

/// A view's definition, with the session's time zone: it is part of what types mean in the definition.
pub(super) fn with_time_zone(definition: &str, options: &StatementOptions) -> String {
    match &options.config.options().execution.time_zone {
        Some(zone) if zone != thermocline_pushdown::UTC => {
            let (definition, zone) = (definition.trim_end().trim_end_matches(';'), zone.replace('\'', "''"));
            format!(
                "SET datafusion.execution.time_zone = '{zone}';\n{definition};\nRESET datafusion.execution.time_zone;"
            )
        }
        _ => definition.to_owned(),
    }
}

/// `SHOW TABLES` as users of other databases know it: users' tables, without the catalog's own.
fn show_tables(statement: Statement) -> Result<Statement> {
    if let Statement::Statement(inner) = &statement
        && matches!(inner.as_ref(), ast::Statement::ShowTables { .. })
        && statement.to_string().eq_ignore_ascii_case("show tables")
    {
        let sql = "SELECT table_name, table_type FROM information_schema.tables \
                   WHERE table_schema = 'public' ORDER BY table_name";
        return parse(sql)?.pop().ok_or_else(|| exec_datafusion_err!("SHOW TABLES does not parse"));
    }
    Ok(statement)
}
