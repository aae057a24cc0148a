//! Conversion between row engine values and Arrow columns.

mod answer;
mod column;
mod types;
mod value;

pub use answer::batches;
pub use column::Column;
pub use types::{column_type, schema_of};
pub use value::{Source, becomes_text, check_assignment};
