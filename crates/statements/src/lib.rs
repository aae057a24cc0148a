//! Statements: from text to rows.
//!
//! ```text
//! text -> parse -> bind: names, types -> plan: indexes, joins, partitions -> Prepared
//!                                                    run: Scope, parameters -> Outcome
//! ```
//!
//! A statement is parsed, bound and planned once; runs resolve no names and make no choices. Statements that this
//! planner does not support return [`Error::Unsupported`](thermocline_types::Error::Unsupported), upon which the caller
//! may try the analytic engine.

mod arguments;
mod bind;
mod data_type;
mod definition;
mod expression;
mod heap_size;
mod names;
mod output_name;
mod parse;
mod parse_memory;
mod plan;
mod prepared;
mod rows;
mod select;
mod statement_cache;
mod statement_result;
mod write;

pub use arguments::CallArguments;
pub(crate) use bind::Binder;
pub(crate) use data_type::data_type;
pub use definition::{define, read_schema};
pub use expression::Environment;
pub(crate) use expression::{Expr, Frame};
pub use names::{fold, object};
pub use output_name::output_name;
pub use parse::{STATEMENT_BYTES_MAX, check_depth, check_length, parse, parse_expression, split};
pub use parse_memory::parse_bytes;
pub use prepared::{Prepared, settle};
pub use rows::{Batch, Outcome, OutputColumn, RESULT_BYTES_MAX, Rows};
pub use statement_cache::{StatementCache, charge_statement, check_statements};
pub use statement_result::StatementResult;
pub use write::RowMaker;
