//! Columns in memory to batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use thermocline_cache::PinnedSegment;

/// The needed columns of one partition, whole, in memory.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) schema: SchemaRef,
    pub(super) rows: usize,
    pub(super) arrays: Vec<ArrayRef>,
    /// Keeps cached columns from being evicted while their batches are in use.
    pub(super) _pins: Vec<PinnedSegment>,
}

impl Columns {
    /// Batches of `batch_rows` rows that share the columns' memory.
    pub(super) fn batches(self, batch_rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let batch_rows = batch_rows.max(1);
        (0..self.rows).step_by(batch_rows).map(move |start| {
            let length = batch_rows.min(self.rows - start);
            let columns = self.arrays.iter().map(|array| array.slice(start, length)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(length));
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
                .map_err(DataFusionError::from)
        })
    }
}

/// Joins the batches' columns, each into one array.
///
/// # Errors
/// If the batches do not have `columns` columns of equal types.
pub(super) fn joined(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<ArrayRef>> {
    (0..schema.fields().len())
        .map(|column| {
            let pieces: Vec<&dyn arrow::array::Array> =
                batches.iter().filter_map(|batch| batch.columns().get(column)).map(AsRef::as_ref).collect();
            match pieces.as_slice() {
                [] => Ok(arrow::array::new_empty_array(schema.field(column).data_type())),
                pieces => Ok(concat(pieces)?),
            }
        })
        .collect()
}
