//! SQL syntax: one dialect, one parser, and one statement tree for both engines.
//!
//! ```text
//! text -> Tokens -> Statement -> row engine, or analytic engine
//!           |
//!           depth: each engine has its own limit
//! ```
//!
//! A text is tokenized once and parsed once. Semantics, such as tables and types, belong to the engines.

mod depth;
mod dialect;
mod names;
mod nearest;
mod order_by_all;
mod parse;
mod printable;
mod split;
mod statement;
mod tokens;

pub use dialect::SqlDialect;
pub use names::{folded, folded_word};
pub use nearest::nearest;
pub use order_by_all::order_by_positions;
pub use parse::{parse, parse_expression, parse_type};
pub use printable::make_printable;
pub use split::{offset_of, split};
pub use sqlparser::parser::ParserError;
pub use statement::{CreateProcedure, Statement};
pub use tokens::Tokens;
