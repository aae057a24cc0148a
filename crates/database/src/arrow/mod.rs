//! Conversion between row engine values and Arrow columns.

mod column;
mod statement_result;
mod types;
mod value;

pub use column::Column;
pub use statement_result::batches;
pub use types::{column_type, schema_of};
pub use value::{Source, becomes_text, check_assignment};
