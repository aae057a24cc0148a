use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;

use crate::error::Result;

/// A statement under way. Dropping it cancels what is left of it.
pub struct QueryStream {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// The rows as they come.
    pub rows: BoxStream<'static, Result<RecordBatch>>,
    /// Whether the statement is one that yields rows, be they none.
    pub has_rows: bool,
    /// Rows that the statement changed; `None` for one that changes none.
    pub affected: Option<u64>,
}

impl fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}
