use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{DataType, Statement as Ast};
use thermocline_compute::QueryStream;
use thermocline_dialect::check_depth;
use thermocline_transactions::sql::Prepared;
use thermocline_transactions::types::DataType as RowType;

use super::insert;
use super::prepared_statements::{PARAMETERS_MAX, check_preparable};
use super::route::Route;
use super::session::{Session, is_beyond_rows, is_not_here, is_undefined_table};
use crate::bridge::external;
use crate::statement::{Headings, Statement};

/// PREPARE and EXECUTE:
///
/// ```text
/// PREPARE -----> the engine that would run the statement says the types of its parameters' places
/// EXECUTE -----> the statement with its parameters, which goes the way of any statement
/// DEALLOCATE --> forgotten
/// ```
impl Session {
    /// Headings of a statement's rows; EXECUTE has those of the statement that it executes.
    pub fn headings(&self, statement: &Statement) -> Headings {
        if let Some(Parsed::Statement(ast)) = &statement.parsed
            && let Ast::Execute { name: Some(name), .. } = ast.as_ref()
            && let Some(prepared) = self.prepared().statement(name)
        {
            return Headings::of(Some(&Parsed::Statement(Box::new(prepared))));
        }
        statement.headings()
    }

    /// The statement that EXECUTE stands for, also below EXPLAIN; any other statement as it is.
    pub(super) fn executed(&self, statement: Statement) -> Result<Statement> {
        if !statement.executes() {
            return Ok(statement);
        }
        let Some(parsed) = statement.parsed.clone() else { return Ok(statement) };
        let statement = statement.reworded(self.prepared().executed(parsed)?);
        check_depth(&statement.text)?;
        Ok(statement)
    }

    pub(super) async fn prepare(&self, statement: &Statement) -> Result<QueryStream> {
        let Some(Parsed::Statement(ast)) = &statement.parsed else { return plan_err!("expected PREPARE") };
        let Ast::Prepare { name, data_types, statement: inner } = ast.as_ref() else {
            return plan_err!("expected PREPARE");
        };
        check_preparable(inner)?;
        let prepared = statement.clone().reworded(Parsed::Statement(inner.clone()));
        let places = self.places(data_types, inner, &prepared).await?;
        self.prepared().prepare(name, data_types, &places, inner)?;
        Ok(self.engine().nothing())
    }

    pub(super) fn deallocate(&self, statement: &Statement) -> Result<QueryStream> {
        if let Some(Parsed::Statement(ast)) = &statement.parsed
            && let Ast::Deallocate { name, .. } = ast.as_ref()
        {
            self.prepared().remove(name)?;
        }
        Ok(self.engine().nothing())
    }

    async fn parameter_types(&self, declared: &[DataType], ast: &Ast) -> Result<Vec<Option<RowType>>> {
        let deadline = self.own().lock().deadline();
        let options = self.options(deadline);
        self.engine().parameter_types(declared, ast, PARAMETERS_MAX, &options).await
    }

    /// The types of the places of a statement's parameters, by position; `None` where nothing says one.
    async fn places(&self, declared: &[DataType], ast: &Ast, statement: &Statement) -> Result<Vec<Option<RowType>>> {
        let route = self.route(statement)?;
        if !matches!(route, Route::Rows | Route::RowsFirst | Route::Insert) {
            return self.parameter_types(declared, ast).await;
        }
        let text = Arc::clone(&statement.text);
        match self.rows.run(move |session| session.prepare(&text)).await {
            Ok(()) => {
                let prepared = Prepared::new(&self.rows.schema(), &statement.text).map_err(external)?;
                Ok(prepared.parameters().iter().copied().map(Some).collect())
            }
            Err(error) if route == Route::RowsFirst && is_beyond_rows(&error) => {
                self.parameter_types(declared, ast).await
            }
            Err(error) if route == Route::Insert && (is_not_here(&error) || is_undefined_table(&error)) => {
                let Ast::Insert(insert) = ast else { return Err(error) };
                let Some(plan) = insert::Plan::of(insert, &self.rows.schema())? else { return Err(error) };
                match Statement::analytic(&plan.query)? {
                    Parsed::Statement(query) => self.parameter_types(declared, &query).await,
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}
