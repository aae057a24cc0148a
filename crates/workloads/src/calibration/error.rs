//! Why a table cannot be calibrated.

use datafusion::common::DataFusionError;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::format_size;

/// Why a table cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// There is no external table of that name.
    #[error(
        "there is no external table \"{0}\": calibrate takes one that CREATE EXTERNAL TABLE has made in this database"
    )]
    UnknownTable(String),
    /// The table has no rows.
    #[error("table {0} has no partitions: there is nothing to measure")]
    NoPartitions(String),
    /// No storage of the table has this name.
    #[error("table {table} has nothing at \"{node}\": it is at {nodes}")]
    UnknownNode {
        /// The table.
        table: String,
        /// The name.
        node: String,
        /// Names of its storages.
        nodes: String,
    },
    /// The table is so small that overheads would hide everything else.
    #[error(
        "table {table} is too small to be calibrated: {node} has {partitions} partitions of it with {rows} rows, and at \
         least {partitions_min} partitions and {rows_min} rows are needed; smaller partitions come with ALTER \
         DATABASE SET partition_size, more rows with a larger table"
    )]
    TooSmall {
        /// The table.
        table: String,
        /// The storage.
        node: String,
        /// Partitions there.
        partitions: usize,
        /// Their rows.
        rows: u64,
        /// Partitions needed.
        partitions_min: usize,
        /// Rows needed.
        rows_min: u64,
    },
    /// The decoded columns would take too much memory.
    #[error(
        "table {table} cannot be calibrated with {stored} of it: the columns of these {partitions} partitions at {node} take \
         about {needed} in memory, and the cache may take {allowed} here; choose a smaller --size, or smaller partitions \
         with ALTER DATABASE SET partition_size"
    )]
    TooLarge {
        /// The table.
        table: String,
        /// The storage.
        node: String,
        /// Partitions that would be measured.
        partitions: usize,
        /// Their stored bytes.
        stored: Size,
        /// Bytes of their columns in memory.
        needed: Size,
        /// Bytes that may be cached.
        allowed: Size,
    },
    /// No column is suitable to filter by.
    #[error(
        "table {0} cannot be calibrated: it needs a column of integers, decimals or finite floats with several values in \
         every partition, to filter by, and another one to select"
    )]
    NoFilter(String),
    /// Too few queries took the routes of a mode.
    #[error(
        "mode {mode} cannot be fitted: only {queries} queries took its routes over {bytes} of table {table}; calibrate a \
         larger part of it (--size), or a larger table"
    )]
    TooFew {
        /// The mode.
        mode: Mode,
        /// Queries that did.
        queries: usize,
        /// Stored bytes measured.
        bytes: Size,
        /// The table.
        table: String,
    },
    /// A query failed.
    #[error(transparent)]
    Query(#[from] DataFusionError),
}

/// A number of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Size(pub u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format_size(self.0))
    }
}
