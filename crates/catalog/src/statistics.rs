//! Statistics of a snapshot's partitions, as arrays with one value a partition.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array, new_null_array};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use parking_lot::RwLock;

use super::column_range::ColumnRange;
use super::partition::Partition;

/// Ranges of columns over the partitions of a snapshot, made when a query first needs a column and
/// kept for as long as the snapshot is.
#[derive(Debug)]
pub(super) struct SnapshotStatistics {
    partitions: Vec<Arc<Partition>>,
    /// Rows of each partition.
    pub(super) rows: ArrayRef,
    /// Per column of the table; `None` until it was asked for.
    columns: Vec<RwLock<Option<Arc<ColumnArrays>>>>,
}

/// The range of one column in each partition; NULL where it is not known.
#[derive(Debug)]
pub(super) struct ColumnArrays {
    /// Ranges that the partitions had learnt when the arrays were made.
    learnt: u64,
    pub(super) min: ArrayRef,
    pub(super) max: ArrayRef,
    pub(super) null_counts: ArrayRef,
}

impl SnapshotStatistics {
    /// Of these partitions, which have `columns` columns.
    pub(super) fn new(partitions: Vec<Arc<Partition>>, columns: usize) -> Self {
        let rows: UInt64Array = partitions.iter().map(|partition| Some(partition.rows)).collect();
        Self { partitions, rows: Arc::new(rows), columns: (0..columns).map(|_| RwLock::default()).collect() }
    }

    /// Number of partitions.
    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// The arrays of a column; `None` if it is not one, or its type has no arrays of values.
    pub(super) fn column(&self, column: usize, schema: &SchemaRef) -> Option<Arc<ColumnArrays>> {
        let slot = self.columns.get(column)?;
        // A pass over counters; the arrays are made anew only after a read has found out more.
        let learnt = self.partitions.iter().map(|partition| partition.learnt()).sum();
        if let Some(known) = slot.read().as_ref().filter(|known| known.learnt == learnt) {
            return Some(Arc::clone(known));
        }
        let data_type = schema.field(column).data_type();
        let ranges: Vec<Option<ColumnRange>> =
            self.partitions.iter().map(|partition| partition.range_of(column)).collect();
        let values = |pick: fn(&ColumnRange) -> &ScalarValue| {
            if ranges.iter().all(Option::is_none) {
                return Some(new_null_array(data_type, ranges.len()));
            }
            let null = ScalarValue::try_from(data_type).ok()?;
            let values =
                ranges.iter().map(|range| range.as_ref().map_or_else(|| null.clone(), |range| pick(range).clone()));
            ScalarValue::iter_to_array(values).ok()
        };
        let null_counts: UInt64Array = ranges.iter().map(|range| range.as_ref()?.null_count).collect();
        let arrays = Arc::new(ColumnArrays {
            learnt,
            min: values(|range| &range.min)?,
            max: values(|range| &range.max)?,
            null_counts: Arc::new(null_counts),
        });
        *slot.write() = Some(Arc::clone(&arrays));
        Some(arrays)
    }
}
