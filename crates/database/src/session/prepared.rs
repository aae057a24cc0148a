//! PREPARE, EXECUTE and DEALLOCATE: types of parameters from the engines, and column names of results.

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement as AnalyticStatement;
use datafusion::sql::sqlparser::ast::{DataType, Statement as Ast};
use thermocline_compute::EngineStream;
use thermocline_transactions::sql::Prepared;
use thermocline_transactions::types::DataType as RowType;

use super::dispatch::Dispatch;
use super::insert;
use super::prepared_statements::{PARAMETERS_MAX, check_preparable};
use super::session::{Session, is_beyond_rows, is_not_here, is_undefined_table};
use super::write_query;
use crate::bridge::external;
use crate::statement::{Headings, Statement};

/// PREPARE and EXECUTE:
///
/// ```text
/// PREPARE -----> the engine that would run the statement derives the types of its parameters
/// EXECUTE -----> the statement with its parameters filled in, which then runs like any statement
/// DEALLOCATE --> removed
/// ```
impl Session {
    /// Headings of a statement's rows; EXECUTE has those of the statement that it executes.
    pub fn headings(&self, statement: &Statement) -> Headings {
        if let Some(Ast::Execute { name: Some(name), .. }) = statement.ast()
            && let Some(prepared) = self.prepared().statement(name)
        {
            return Headings::of(&prepared);
        }
        statement.headings()
    }

    /// Replaces EXECUTE, also below EXPLAIN, by the prepared statement; returns other statements unchanged.
    pub(super) fn executed(&self, statement: Statement) -> Result<Statement> {
        statement.executing(|execute| self.prepared().executed(execute))
    }

    pub(super) async fn prepare(&self, statement: &Statement) -> Result<EngineStream> {
        let Some(Ast::Prepare { name, data_types, statement: inner }) = statement.ast() else {
            return plan_err!("expected PREPARE");
        };
        check_preparable(inner)?;
        let places = self.places(data_types, &statement.part(inner.as_ref().clone())?).await?;
        self.prepared().prepare(name, data_types, &places, inner)?;
        Ok(self.engine().nothing())
    }

    pub(super) fn deallocate(&self, statement: &Statement) -> Result<EngineStream> {
        if let Some(Ast::Deallocate { name, .. }) = statement.ast() {
            self.prepared().remove(name)?;
        }
        Ok(self.engine().nothing())
    }

    async fn parameter_types(&self, declared: &[DataType], statement: Statement) -> Result<Vec<Option<RowType>>> {
        let Some(AnalyticStatement::Statement(ast)) = statement.into_analytic()? else {
            return plan_err!("expected a statement with parameters");
        };
        let deadline = self.own().lock().deadline();
        let options = self.options(deadline);
        self.engine().parameter_types(declared, &ast, PARAMETERS_MAX, &options).await
    }

    /// The types of a statement's parameters, by position; `None` if unknown.
    async fn places(&self, declared: &[DataType], statement: &Statement) -> Result<Vec<Option<RowType>>> {
        let dispatch = self.dispatch(statement)?;
        if !matches!(dispatch, Dispatch::Rows | Dispatch::RowsFirst | Dispatch::Insert | Dispatch::Write) {
            return self.parameter_types(declared, statement.clone()).await;
        }
        let asked = statement.clone();
        match self.rows.run(move |session| session.prepare(asked.source())).await {
            Ok(()) => {
                let Some(tree) = statement.parsed.of_rows() else { return plan_err!("expected PREPARE") };
                let prepared = Prepared::bind(&self.rows.schema(), tree, &[]).map_err(external)?;
                Ok(prepared.parameters().iter().copied().map(Some).collect())
            }
            Err(error) if dispatch == Dispatch::RowsFirst && is_beyond_rows(&error) => {
                self.parameter_types(declared, statement.clone()).await
            }
            Err(error) if dispatch == Dispatch::Insert && (is_not_here(&error) || is_undefined_table(&error)) => {
                let Some(plan) = insert::Plan::of(statement, &self.rows.schema())? else { return Err(error) };
                self.parameter_types(declared, plan.query).await
            }
            Err(error) if dispatch == Dispatch::Write && (is_not_here(&error) || is_undefined_table(&error)) => {
                let Some(plan) = write_query::Plan::of(statement, &self.rows.schema())? else { return Err(error) };
                self.parameter_types(declared, plan.query).await
            }
            Err(error) => Err(error),
        }
    }
}
