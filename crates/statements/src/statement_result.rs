use std::sync::Arc;

use thermocline_tables::table::HeapSize;

use crate::rows::{Outcome, OutputColumn, Rows};

/// Result of a statement or of a procedure call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementResult {
    /// Columns of the rows; empty if there are no rows, or if a procedure in Rust does not name them.
    pub columns: Arc<[OutputColumn]>,
    /// The rows.
    pub rows: Rows,
    /// Number of rows inserted, updated or deleted, or in the result.
    pub affected: u64,
}

impl HeapSize for StatementResult {
    fn heap_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }

    fn charged_bytes(&self) -> usize {
        self.rows.charged_bytes()
    }
}

impl From<Outcome> for StatementResult {
    fn from(Outcome { rows, affected }: Outcome) -> Self {
        Self { columns: Arc::default(), rows, affected }
    }
}
