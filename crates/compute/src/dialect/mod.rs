//! SQL as it is written here: its syntax, limits on its depth and size, and what a statement means that DataFusion's
//! planner takes for something else.

mod depth;
mod plan_size;
mod rewrite;
mod row_comparisons;
mod sql_dialect;
mod using_columns;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};

pub use depth::check_depth;
pub(crate) use plan_size::{check_plan_size, check_statement_size};
pub(crate) use rewrite::in_our_dialect;
pub use sql_dialect::SqlDialect;

/// Cuts a script into statements.
///
/// # Errors
/// If it does not parse; the error names line and column.
pub(crate) fn parse(script: &str) -> Result<Vec<Statement>> {
    check_depth(script)?;
    let dialect = SqlDialect::of(script.len());
    let statements = DFParserBuilder::new(script).with_dialect(&dialect).build()?.parse_statements()?;
    Ok(statements.into())
}
