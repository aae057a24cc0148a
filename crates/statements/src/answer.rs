use std::sync::Arc;

use thermocline_tables::table::HeapSize;

use crate::rows::{Outcome, OutputColumn, Rows};

/// What a statement or a procedure gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The columns of its rows; none if it gives no rows, or if a procedure in Rust does not name them.
    pub columns: Arc<[OutputColumn]>,
    /// The rows.
    pub rows: Rows,
    /// How many rows were inserted, updated or deleted, or are in the result.
    pub affected: u64,
}

impl HeapSize for Answer {
    fn heap_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }

    fn charged_bytes(&self) -> usize {
        self.rows.charged_bytes()
    }
}

impl From<Outcome> for Answer {
    fn from(Outcome { rows, affected }: Outcome) -> Self {
        Self { columns: Arc::default(), rows, affected }
    }
}
