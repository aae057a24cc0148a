use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;

use crate::error::Result;

/// A running statement. Dropping it cancels the rest.
pub struct QueryStream {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Stream of rows.
    pub rows: BoxStream<'static, Result<RecordBatch>>,
    /// Whether the statement returns rows, even if there are none.
    pub has_rows: bool,
    /// Number of changed rows; `None` for statements that do not change rows.
    pub affected: Option<u64>,
}

impl fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}
