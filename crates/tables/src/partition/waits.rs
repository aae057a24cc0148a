//! Statistics of transactions that needed evicted rows.

/// Transactions that needed evicted rows, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitStatistics {
    /// Times that one was undone to wait for rows while others ran.
    pub waits_total: u64,
    /// Rows that were read for them.
    pub rows_total: u64,
    /// Of the waits, those that are over.
    pub waited_total: u64,
    /// Times that rows were read while the partition ran nothing else.
    pub blocking_total: u64,
}
