//! The rows of a statement, and what it took to get them.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::query::QueryStats;

/// A finished statement.
#[derive(Debug, Clone)]
pub struct QueryResult {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// The rows; none for a statement that yields none.
    pub batches: Vec<RecordBatch>,
    /// Whether the statement is one that yields rows, be they none.
    pub has_rows: bool,
    /// Rows that the statement changed; `None` for one that changes none.
    pub affected: Option<u64>,
    /// Time from the start of planning to the last row.
    pub seconds: f64,
    /// Counters of its scans.
    pub stats: QueryStats,
}

impl QueryResult {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
