//! SQL's operators, casts and functions over columns, by the rules of `thermocline-types`.
//!
//! What Arrow's kernels compute by the same rules is left to them; the functions here are for the rest. They run on
//! either side of the wire.

mod cast;
mod characters;
mod column;
mod error;
mod function;
mod interval;
mod json;
mod operator;
mod type_name;
mod types;

pub(crate) use cast::SQL_CAST;
pub use cast::{casts_otherwise, sql_cast};
pub use characters::{bytes_of_characters, characters_of_bytes};
pub use column::{Column, arrow_span, with_sql_texts};
pub use error::external;
pub(crate) use function::sql_functions;
pub use function::{SQL_EXTRACT, call_function, written_functions};
pub use interval::interval_length;
pub use json::{JsonbChoice, is_jsonb, jsonb_array, jsonb_choice, jsonb_key, jsonb_scalar};
pub use operator::operate;
pub(crate) use operator::operator_functions;
pub use type_name::sql_type_name;
pub use types::{UTC, UUID_WIDTH, arrow_type, sql_type};
