//! Statements: from text to rows.

pub mod parse;

pub use parse::split;
