//! Statements before they are planned: limits on their depth and size, and what they mean where DataFusion's planner
//! takes them for something else.

mod parse;
mod plan_size;
mod rewrite;
mod row_comparisons;
mod trees;
mod using_columns;

pub use parse::{check_depth, parse, parse_tokens};
pub use plan_size::{check_plan_size, check_statement_size};
pub use rewrite::in_our_dialect;
pub use trees::any_expression;
