use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{DataType, Statement as Ast};
use thermocline_compute::{QueryStream, check_depth, check_preparable};
use thermocline_transactions::sql::Prepared;
use thermocline_transactions::types::DataType as RowType;

use super::headings::Headings;
use super::insert;
use super::route::Route;
use super::session::{Session, is_beyond_rows, is_not_here, is_undefined_table};
use super::statement::Statement;
use crate::bridge::external;

/// PREPARE and EXECUTE:
///
/// ```text
/// PREPARE -----> the engine that would run the statement says the types of its parameters' places
/// EXECUTE -----> the statement with its parameters, which goes the way of any statement
/// DEALLOCATE --> analytic engine, which keeps them
/// ```
impl Session {
    /// What people see above the columns of a statement's rows; EXECUTE has the headings of what it executes.
    pub fn headings(&self, statement: &Statement) -> Headings {
        if let Some(Parsed::Statement(ast)) = &statement.parsed
            && let Ast::Execute { name: Some(name), .. } = ast.as_ref()
            && let Some(prepared) = self.analytic.prepared(name)
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
        let Some(parsed) = statement.parsed else { return Ok(statement) };
        let parsed = self.analytic.executed(parsed)?;
        let text = parsed.to_string();
        check_depth(&text)?;
        Ok(Statement { text: text.into(), line: statement.line, parsed: Some(parsed) })
    }

    pub(super) async fn prepare(&self, statement: &Statement) -> Result<QueryStream> {
        let Some(Parsed::Statement(ast)) = &statement.parsed else { return plan_err!("expected PREPARE") };
        let Ast::Prepare { name, data_types, statement: inner } = ast.as_ref() else {
            return plan_err!("expected PREPARE");
        };
        check_preparable(inner)?;
        let text = inner.to_string().into();
        let prepared = Statement { text, line: statement.line, parsed: Some(Parsed::Statement(inner.clone())) };
        let places = self.places(data_types, inner, &prepared).await?;
        self.analytic.prepare(name, data_types, &places, inner)?;
        Ok(self.analytic.nothing())
    }

    /// The types of the places of a statement's parameters, by position; `None` where nothing says one.
    async fn places(&self, declared: &[DataType], ast: &Ast, statement: &Statement) -> Result<Vec<Option<RowType>>> {
        let route = self.route(statement)?;
        if !matches!(route, Route::Rows | Route::RowsFirst | Route::Insert) {
            return self.analytic.parameter_types(declared, ast).await;
        }
        let text = Arc::clone(&statement.text);
        match self.rows.run(move |session| session.prepare(&text)).await {
            Ok(()) => {
                let prepared = Prepared::new(&self.rows.schema(), &statement.text).map_err(external)?;
                Ok(prepared.parameters().iter().copied().map(Some).collect())
            }
            Err(error) if route == Route::RowsFirst && is_beyond_rows(&error) => {
                self.analytic.parameter_types(declared, ast).await
            }
            Err(error) if route == Route::Insert && (is_not_here(&error) || is_undefined_table(&error)) => {
                let Ast::Insert(insert) = ast else { return Err(error) };
                let Some(plan) = insert::Plan::of(insert, &self.rows.schema())? else { return Err(error) };
                match Statement::analytic(&plan.query)? {
                    Parsed::Statement(query) => self.analytic.parameter_types(declared, &query).await,
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}
