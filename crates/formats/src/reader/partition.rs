//! One reader for both formats and both sides.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use thermocline_pushdown::wire::{ColumnStatistics, ErrorKind};
use thermocline_pushdown::{Bitmap, FileFormat, NodeError, PartitionRange};

use super::Footers;
use crate::RangeSource;

/// The error of a bitmap for another number of rows than the partition has.
pub(super) fn wrong_bitmap(object: &str, bitmap: &Bitmap, rows: &str) -> NodeError {
    NodeError::new(
        ErrorKind::Refused,
        format!("{object}: a selection bitmap is of {} rows, the partition has {rows}", bitmap.len()),
    )
}

/// Reads partitions of one object.
#[derive(Debug, Clone)]
pub struct PartitionReader {
    /// Source of the bytes.
    pub source: Arc<dyn RangeSource>,
    /// Their format.
    pub format: FileFormat,
    /// All columns of the table. For CSV, in the order of the file's fields unless `format` says which they are.
    pub table_schema: SchemaRef,
    /// Kept footers of the source's node, for formats that have them.
    pub footers: Footers,
}

/// Columns and rows to read of a partition.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Positions of the needed columns in the table schema, in the order to yield them.
    pub columns: Vec<usize>,
    /// A filter over the needed columns by which row groups and pages may be skipped. The caller
    /// still applies it: rows that do not pass may be among the yielded ones.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The rows to yield, one bit for each of the partition's; `None` for all of them. Pages and row
    /// groups without a selected row are not read.
    pub rows: Option<Arc<Bitmap>>,
    /// Whether to decode the predicate's columns first and the others only for the rows that pass.
    pub late_materialisation: bool,
    /// Receives statistics of the columns that were read completely, if the format stores none.
    pub statistics: Option<Arc<parking_lot::Mutex<Vec<ColumnStatistics>>>>,
}

impl PartitionReader {
    /// A stream of the partition's rows. Nothing is read before it is polled.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the range does not fit the format or a column is not in the schema. The stream's
    /// errors name the object.
    pub fn stream(
        &self,
        range: PartitionRange,
        options: &ReadOptions,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream, NodeError> {
        let object = &self.source.object().path;
        if let Some(column) = options.columns.iter().find(|column| **column >= self.table_schema.fields().len()) {
            return Err(NodeError::new(
                ErrorKind::Refused,
                format!("{object}: column {column} is not among the table's {}", self.table_schema.fields().len()),
            ));
        }
        match (&self.format, range) {
            (FileFormat::Parquet, PartitionRange::RowGroups { start, end }) => {
                super::parquet::stream(self, start..end, options, context)
            }
            (FileFormat::Csv(format), PartitionRange::Bytes { start, end, first_row }) => {
                super::csv::stream(self, format, start..end, first_row, options, context)
            }
            (format, range) => Err(NodeError::new(
                ErrorKind::Refused,
                format!("{object}: {range} is not a partition of a {} object", format.name()),
            )),
        }
    }
}
