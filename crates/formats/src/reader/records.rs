//! Records of a CSV object one by one: where they are, and reading some of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use thermocline_pushdown::wire::ErrorKind;
use thermocline_pushdown::{CsvFormat, FileFormat, NodeError, TextCompression};

use super::csv::bad;
use super::text::text;
use super::{PartitionReader, csv_options};
use crate::csv::CsvDecoder;

/// Maximum span of records that are read together, which one read holds in memory.
const READ_SPAN_BYTES: u64 = 8 << 20;

/// A batch, and where each of its rows is in the object.
pub(crate) type Located = (RecordBatch, Vec<Range<u64>>);

impl PartitionReader {
    /// One column of bytes `range` of a CSV object's text, which begin with the record after
    /// `first_row` others.
    ///
    /// # Errors
    /// As [`PartitionReader::stream`].
    pub fn located(
        &self,
        range: Range<u64>,
        first_row: u64,
        column: usize,
        context: &TaskContext,
    ) -> Result<BoxStream<'static, Result<Located, NodeError>>, NodeError> {
        let batch_rows = context.session_config().batch_size();
        let decoder = self.decoder(vec![column], batch_rows)?.with_start(range.start, first_row + 1).with_spans();
        let object = self.source.object().path.clone();
        let chunks = text(Arc::clone(&self.source), range, context.memory_pool());
        let batches = futures::stream::try_unfold((decoder, chunks, false), move |(mut decoder, mut chunks, done)| {
            let object = object.clone();
            async move {
                let mut done = done;
                loop {
                    if let Some(batch) = decoder.next_batch() {
                        let spans = decoder.take_spans(batch.num_rows()).collect();
                        return Ok(Some(((batch, spans), (decoder, chunks, done))));
                    }
                    if done {
                        return Ok(None);
                    }
                    match chunks.try_next().await? {
                        Some(chunk) => decoder.decode(&chunk).map_err(|error| bad(&object, &error))?,
                        None => {
                            done = true;
                            decoder.finish().map_err(|error| bad(&object, &error))?;
                        }
                    }
                }
            }
        });
        Ok(batches.boxed())
    }

    /// Columns of some records of a CSV object, in the order of `records`, which is that of the object. All are read
    /// before any is returned. Row numbers in an error refer to the assembled text, so a caller that gets one reads the
    /// whole partition instead.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] if the ranges are no longer those of the records, or a value does not fit its column.
    pub async fn records(
        &self,
        records: &[Range<u64>],
        columns: &[usize],
        context: &TaskContext,
    ) -> Result<Vec<RecordBatch>, NodeError> {
        // Past the header, if there is one: a record never begins where a header does.
        let start = records.first().map_or(0, |record| record.start);
        let mut decoder = self.decoder(columns.to_vec(), context.session_config().batch_size())?.with_start(start, 1);
        let object = &self.source.object().path;
        if TextCompression::of_path(object) == TextCompression::None {
            self.read_records(records, &mut decoder).await?;
        } else {
            self.pick_records(records, &mut decoder, context).await?;
        }
        decoder.finish().map_err(|error| bad(object, &error))?;
        let batches: Vec<_> = std::iter::from_fn(|| decoder.next_batch()).collect();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows == records.len() {
            return Ok(batches);
        }
        Err(NodeError::new(ErrorKind::BadData, format!("{object}: {} records gave {rows} rows", records.len())))
    }

    /// Reads only the records.
    async fn read_records(&self, records: &[Range<u64>], decoder: &mut CsvDecoder) -> Result<(), NodeError> {
        let object = &self.source.object().path;
        let mut text = vec![];
        let mut rest = records;
        while let Some(first) = rest.first() {
            let together = rest.partition_point(|record| record.end <= first.start + READ_SPAN_BYTES).max(1);
            let (now, later) = rest.split_at_checked(together).unwrap_or((rest, &[]));
            rest = later;
            text.clear();
            for record in self.source.read(now).await? {
                text.extend_from_slice(&record);
                text.push(b'\n');
            }
            decoder.decode(&text).map_err(|error| bad(object, &error))?;
        }
        Ok(())
    }

    /// Picks the records out of a compressed object's text while it is decompressed.
    async fn pick_records(
        &self,
        records: &[Range<u64>],
        decoder: &mut CsvDecoder,
        context: &TaskContext,
    ) -> Result<(), NodeError> {
        let object = &self.source.object().path;
        let mut offset = records.first().map_or(0, |record| record.start);
        let end = records.last().map_or(0, |record| record.end);
        let mut pieces = text(Arc::clone(&self.source), offset..end, context.memory_pool());
        let mut picked = vec![];
        let mut rest = records;
        while let Some(piece) = pieces.try_next().await? {
            let piece_end = offset + piece.len() as u64;
            while let Some((record, later)) = rest.split_first()
                && record.start < piece_end
            {
                let from = record.start.saturating_sub(offset) as usize;
                let to = (record.end.min(piece_end).saturating_sub(offset)) as usize;
                picked.extend_from_slice(piece.get(from..to).unwrap_or_default());
                if record.end > piece_end {
                    break;
                }
                picked.push(b'\n');
                rest = later;
            }
            decoder.decode(&picked).map_err(|error| bad(object, &error))?;
            picked.clear();
            offset = piece_end;
        }
        Ok(())
    }

    fn decoder(&self, columns: Vec<usize>, batch_rows: usize) -> Result<CsvDecoder, NodeError> {
        let object = &self.source.object().path;
        let FileFormat::Csv(format) = &self.format else {
            return Err(DataFusionError::Internal(format!("{object} has no records")).into());
        };
        let options = csv_options(format as &CsvFormat);
        CsvDecoder::try_new(Arc::clone(&self.table_schema), &options, columns, batch_rows)
            .map_err(|error| bad(object, &error))
    }
}
