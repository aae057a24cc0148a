//! CSV partitions: ranges of an object's text, converted by our own decoder.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::wire::{self, ErrorKind, encode_scalar};
use thermocline_pushdown::{Bitmap, CsvFormat, NodeError, PartitionRange};

use super::partition::wrong_bitmap;
use super::text::text;
use super::{PartitionReader, ReadOptions};
use crate::csv::{CsvDecoder, CsvError, CsvOptions};

/// The decoder's options for a table's dialect.
pub fn csv_options(format: &CsvFormat) -> CsvOptions {
    CsvOptions {
        delimiter: format.delimiter,
        quote: format.quote,
        escape: format.escape,
        has_header: format.has_header,
        null_text: format.null_text.clone(),
        fields: format.fields.clone(),
    }
}

/// Bytes `range` of the object's text, a whole number of records after `first_row` others.
pub(super) fn stream(
    reader: &PartitionReader,
    format: &CsvFormat,
    range: Range<u64>,
    first_row: u64,
    options: &ReadOptions,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, NodeError> {
    let object = reader.source.object().path.clone();
    let batch_rows = context.session_config().batch_size();
    let mut decoder = CsvDecoder::try_new(
        Arc::clone(&reader.table_schema),
        &csv_options(format),
        options.columns.clone(),
        batch_rows,
    )
    .map_err(|error| bad(&object, &error))?
    .with_start(range.start, first_row + 1);
    if options.statistics.is_some() {
        decoder = decoder.with_statistics();
    }
    let schema = decoder.schema();
    let state = Decoding {
        object,
        decoder,
        chunks: text(Arc::clone(&reader.source), range.clone(), context.memory_pool()),
        statistics: options.statistics.clone(),
        range: PartitionRange::Bytes { start: range.start, end: range.end, first_row },
        selecting: options.rows.clone().map(|rows| Selecting {
            rows,
            next_row: 0,
            full: BatchCoalescer::new(Arc::clone(&schema), batch_rows),
        }),
        finished: false,
    };
    let batches = stream::try_unfold(state, |mut state| async move {
        Ok::<_, DataFusionError>(state.next().await?.map(|batch| (batch, state)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
}

struct Decoding {
    object: String,
    decoder: CsvDecoder,
    chunks: BoxStream<'static, Result<bytes::Bytes, NodeError>>,
    statistics: Option<Arc<parking_lot::Mutex<Vec<wire::ColumnStatistics>>>>,
    range: PartitionRange,
    /// Selects the rows to yield; `None` if all are.
    selecting: Option<Selecting>,
    finished: bool,
}

/// Rows that a bitmap selects, gathered into batches of the usual size.
struct Selecting {
    rows: Arc<Bitmap>,
    /// Rows decoded so far.
    next_row: usize,
    full: BatchCoalescer,
}

impl Selecting {
    /// Mask of the selected rows among the next `length`.
    fn mask(&mut self, object: &str, length: usize) -> Result<BooleanArray, NodeError> {
        let first = self.next_row;
        self.next_row += length;
        if self.rows.len() < self.next_row {
            return Err(wrong_bitmap(object, &self.rows, "more"));
        }
        Ok(self.rows.mask(first, length))
    }

    /// Checks that all rows have come.
    fn check_end(&self, object: &str) -> Result<(), NodeError> {
        if self.rows.len() == self.next_row {
            return Ok(());
        }
        Err(wrong_bitmap(object, &self.rows, &self.next_row.to_string()))
    }
}

impl Decoding {
    async fn next(&mut self) -> Result<Option<RecordBatch>, NodeError> {
        loop {
            let mut selecting = self.selecting.take();
            let batch = match &mut selecting {
                None => self.decoder.next_batch(),
                Some(selecting) => self.selected(selecting)?,
            };
            self.selecting = selecting;
            if batch.is_some() {
                return Ok(batch);
            }
            if self.finished {
                self.selecting.as_ref().map_or(Ok(()), |selecting| selecting.check_end(&self.object))?;
                return Ok(None);
            }
            match self.chunks.try_next().await? {
                Some(chunk) => self.decoder.decode(&chunk).map_err(|error| bad(&self.object, &error))?,
                None => {
                    self.finished = true;
                    self.decoder.finish().map_err(|error| bad(&self.object, &error))?;
                    self.publish();
                }
            }
        }
    }

    /// The next batch of selected rows that is full, or the last one once all rows are decoded.
    fn selected(&mut self, selecting: &mut Selecting) -> Result<Option<RecordBatch>, NodeError> {
        while !selecting.full.has_completed_batch()
            && let Some(batch) = self.decoder.next_batch()
        {
            let mask = selecting.mask(&self.object, batch.num_rows())?;
            selecting.full.push_batch_with_filter(batch, &mask).map_err(DataFusionError::from)?;
        }
        if self.finished {
            selecting.full.finish_buffered_batch().map_err(DataFusionError::from)?;
        }
        Ok(selecting.full.next_completed_batch())
    }

    /// Hands over the statistics of the whole partition.
    fn publish(&mut self) {
        let (Some(published), Some(found)) = (&self.statistics, self.decoder.column_statistics()) else {
            return;
        };
        let schema: SchemaRef = self.decoder.schema();
        let columns = schema.fields().iter().zip(found).filter_map(|(field, found)| {
            Some(wire::ColumnStatistics {
                range: self.range.into(),
                column: field.name().clone(),
                min: encoded(found.min)?,
                max: encoded(found.max)?,
                null_count: found.null_count,
            })
        });
        published.lock().extend(columns);
    }
}

fn encoded(value: Option<ArrayRef>) -> Option<Vec<u8>> {
    encode_scalar(&ScalarValue::try_from_array(&value?, 0).ok()?).ok()
}

pub(super) fn bad(object: &str, error: &CsvError) -> NodeError {
    let kind = match error {
        CsvError::InvalidOptions { .. } | CsvError::InvalidProjection { .. } | CsvError::UnsupportedType { .. } => {
            ErrorKind::Refused
        }
        _ => ErrorKind::BadData,
    };
    NodeError::new(kind, format!("{object}: {error}"))
}
