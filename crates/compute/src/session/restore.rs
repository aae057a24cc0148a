//! What a database's catalog defines, when it is opened.

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::engine::Absent;
use super::sql_session::Session;
use crate::catalog::TableDefinition;
use crate::index::IndexStatement;
use crate::syntax::folded;

impl Session {
    /// Restores what the catalog defines. One table that cannot be reached does not keep the others, and
    /// another engine's tables, from being used.
    pub(super) async fn restore(&self) -> Result<()> {
        let saved = self.engine().saved_catalog()?;
        for statement in Self::parse(&saved).map_err(|error| error.context("catalog.sql"))? {
            let sql = statement.to_string();
            self.restore_one(statement).await.map_err(|error| error.context(format!("catalog.sql: {sql}")))?;
        }
        Ok(())
    }

    /// Restores one definition of the catalog file, or keeps it as one that cannot be used.
    async fn restore_one(&self, statement: Statement) -> Result<()> {
        if let Some(index) = IndexStatement::of(&statement)? {
            return self.index_statement(index, false, None).await;
        }
        let (sql, view) = (statement.to_string(), view_name(&statement));
        let plan = match (self.plan(statement).await, view) {
            (Ok(plan), _) => plan,
            // What it is a view of is gone.
            (Err(error), Some(view)) => return self.leave_out_view(view, Some(sql), &error),
            (Err(error), None) => return Err(error),
        };
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
                let TableDefinition { name, sql, .. } = TableDefinition::try_from_statement(&statement)?;
                let created = self.create_table(&statement, false).await;
                created.or_else(|error| self.leave_out(name, Some(sql), &error))
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => {
                let (name, sql) = (view.name.table().to_owned(), view.definition.clone());
                let created = self.define(DdlStatement::CreateView(view), false).await;
                created.or_else(|error| self.leave_out_view(name, sql, &error))
            }
            // The time zone of a view's definition.
            plan @ LogicalPlan::Statement(_) => self.context.execute_logical_plan(plan).await.map(drop),
            _ => exec_err!("it defines nothing that a catalog has"),
        }
    }

    fn leave_out_view(&self, name: String, sql: Option<String>, error: &DataFusionError) -> Result<()> {
        self.engine().set_view(&name, sql.map(|sql| self.with_time_zone(&sql)), false)?;
        self.leave_out(name, None, error)
    }

    fn leave_out(&self, name: String, table_sql: Option<String>, error: &DataFusionError) -> Result<()> {
        let error = error.strip_backtrace();
        tracing::warn!("{name} is left out until the database is opened again: {error}");
        self.engine().set_absent(name, Absent { table_sql, error });
        Ok(())
    }
}

/// The view that a statement defines; `None` if it defines something else.
fn view_name(statement: &Statement) -> Option<String> {
    let Statement::Statement(inner) = statement else { return None };
    let ast::Statement::CreateView(view) = inner.as_ref() else { return None };
    let name = view.name.0.last()?.as_ident()?;
    Some(folded(name))
}
