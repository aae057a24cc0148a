//! JSON documents: PostgreSQL's `jsonb`.
//!
//! A document is held as its canonical text, as PostgreSQL writes a `jsonb`: a blank behind each `:` and `,`, keys in
//! the order of their lengths and then of their bytes, of equal keys the last, numbers as decimals without an exponent.
//! So a part of a document is a slice of its text, canonical as well, and documents need no separate form in rows, logs
//! and columns. Equal documents may have different texts: 1.0 and 1.00 are equal ([`order_key`]).

mod cast;
mod change;
mod containment;
mod navigation;
mod number;
mod order;
mod parser;
mod path;
mod text;

pub(crate) use cast::scalar_to;
pub(crate) use change::{concatenate, delete_element, delete_key};
pub(crate) use containment::{contains, has_key};
pub(crate) use navigation::{array_length, at_path, element, field, kind_name, text_of};
pub(crate) use order::hash;
pub use order::{compare, order_key};
pub use parser::normalize;
pub(crate) use path::steps_of;

/// Maximum nesting of arrays and objects. PostgreSQL's limit is its stack.
pub const DEPTH_MAX: usize = 1000;
/// Maximum bytes of a document's canonical text: numbers with exponents become longer there.
pub const BYTES_MAX: usize = 16 << 20;
