//! SQL's operators, casts and functions over columns, by the rules of `thermocline-types`.
//!
//! What Arrow's kernels compute by the same rules is left to them; the functions here are for the rest. They run on
//! either side of the wire.

mod cast;
mod column;
mod function;
mod operator;
mod types;

pub(crate) use cast::SQL_CAST;
pub use cast::{casts_otherwise, sql_cast};
pub(crate) use function::sql_functions;
pub use function::{SQL_EXTRACT, written_functions};
pub use operator::operate;
pub(crate) use operator::operator_functions;
pub use types::sql_type;

use datafusion::common::DataFusionError;
use thermocline_types::Error;

/// An error of the rules, with its SQLSTATE.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
