//! Statements before planning: limits on depth and size, and rewrites of syntax that DataFusion's planner understands
//! differently.

mod calls;
mod other_names;
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
