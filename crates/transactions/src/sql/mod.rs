//! Statements: from text to rows.
//!
//! ```text
//! text -> parse -> bind: names, types -> plan: indexes, joins, partitions -> Prepared
//!                                                    run: Scope, parameters -> Outcome
//! ```
//!
//! Parsed, bound and planned once; what runs resolves no name and chooses nothing. What this planner
//! does not do is [`Error::NotHere`](crate::Error::NotHere), by which the caller knows that the
//! analytic engine may.

mod bind;
mod data_type;
mod dialect;
mod expression;
mod output_name;
mod parse;
mod parse_memory;
mod plan;
mod prepared;
mod rows;
mod select;
mod statement_cache;
mod weigh;
mod write;

pub(crate) use bind::Binder;
pub(crate) use data_type::data_type;
pub use expression::Environment;
pub(crate) use expression::{Expr, Frame};
pub use output_name::output_name;
pub use parse::{CreateProcedure, Parsed, STATEMENT_BYTES_MAX, parse, parse_expression, split};
pub use parse_memory::parse_bytes;
pub use prepared::Prepared;
pub(crate) use prepared::settle;
pub use rows::{Batch, Outcome, OutputColumn, RESULT_BYTES_MAX, Rows};
pub(crate) use statement_cache::{StatementCache, charge_statement, check_statements};
pub(crate) use write::RowMaker;
