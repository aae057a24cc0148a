//! Statements before they are planned: their syntax, limits on their depth and size, and what they mean where
//! DataFusion's planner takes them for something else.

mod depth;
mod plan_size;
mod rewrite;
mod row_comparisons;
mod sql_dialect;
mod trees;
mod using_columns;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};

pub use depth::check_depth;
pub use plan_size::{check_plan_size, check_statement_size};
pub use rewrite::in_our_dialect;
pub use sql_dialect::SqlDialect;
pub use trees::{any_expression, folded, folded_word};

/// Cuts a script into statements.
///
/// # Errors
/// If it does not parse; the error names line and column.
pub fn parse(script: &str) -> Result<Vec<Statement>> {
    check_depth(script)?;
    let dialect = SqlDialect::of(script.len());
    let statements = DFParserBuilder::new(script).with_dialect(&dialect).build()?.parse_statements()?;
    Ok(statements.into())
}
