//! Statements: from text to rows.

#[expect(dead_code, unused_imports, reason = "statements are bound next")]
mod bind;
mod data_type;
#[expect(dead_code, unused_imports, reason = "statements are bound next")]
mod expression;
mod parse;
mod rows;

pub(crate) use bind::Binder;
pub(crate) use data_type::data_type;
pub use expression::Environment;
pub(crate) use expression::{Expr, Frame};
pub use parse::{CreateProcedure, Parsed, STATEMENT_BYTES_MAX, parse, parse_expression, split};
pub use rows::{Outcome, OutputColumn, RESULT_BYTES_MAX, Rows};
