//! Cached columns of a partition as batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat, filter, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use thermocline_cache::PinnedSegment;

/// The needed columns of one partition, whole, in memory.
///
/// Batches are the columns' chunks, shared: an operator that buffers batches is charged for the
/// buffers behind them, whole, and a slice would cost it as much as what it is cut from. Only a
/// session that wants smaller batches gets copies of parts. These are also the batches that a reader
/// of the stored bytes yields.
#[derive(Debug)]
pub(super) struct Columns {
    schema: SchemaRef,
    rows: usize,
    columns: Vec<CachedColumn>,
}

/// A column of a partition, pinned, by row.
#[derive(Debug, Clone)]
pub(super) struct CachedColumn {
    segment: PinnedSegment,
    /// Per chunk, one past its last row.
    ends: Vec<usize>,
}

impl CachedColumn {
    pub(super) fn new(segment: PinnedSegment) -> Self {
        let ends = segment.chunks().iter().scan(0, |end, chunk| {
            *end += chunk.len();
            Some(*end)
        });
        Self { ends: ends.collect(), segment }
    }

    /// One past the last row of the chunk that `row` is in.
    fn chunk_end(&self, row: usize) -> usize {
        self.ends.get(self.chunk_of(row)).copied().unwrap_or(usize::MAX)
    }

    fn chunk_of(&self, row: usize) -> usize {
        self.ends.partition_point(|end| *end <= row)
    }

    /// The values of `rows`, chunk by chunk.
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = ArrayRef> {
        let first = self.chunk_of(rows.start);
        let chunks = self.segment.chunks().iter().zip(&self.ends).skip(first);
        chunks.take_while(move |(chunk, end)| *end - chunk.len() < rows.end).map(move |(chunk, end)| {
            let chunk_start = end - chunk.len();
            let start = rows.start.max(chunk_start);
            chunk.slice(start - chunk_start, rows.end.min(*end) - start)
        })
    }

    /// The values of `rows`, all of one chunk: the chunk itself, or, so that nobody is charged for more
    /// of it than these rows, a copy.
    fn within_chunk(&self, rows: Range<usize>) -> Result<ArrayRef> {
        let position = self.chunk_of(rows.start);
        let (Some(chunk), Some(end)) = (self.segment.chunks().get(position), self.ends.get(position)) else {
            return internal_err!("rows {rows:?} are not cached");
        };
        let chunk_start = end - chunk.len();
        if rows == (chunk_start..*end) {
            return Ok(ArrayRef::clone(chunk));
        }
        let positions = rows.map(|row| (row - chunk_start) as u64);
        let copy = take(chunk, &UInt64Array::from_iter_values(positions), None)?;
        Ok(match copy.data_type() {
            DataType::Utf8View => Arc::new(copy.as_string_view().gc()),
            DataType::BinaryView => Arc::new(copy.as_binary_view().gc()),
            _ => copy,
        })
    }

    /// The values of `rows` for which `mask` (one bit for each of them) is set, in one array.
    pub(super) fn selected(&self, rows: Range<usize>, mask: &BooleanArray) -> Result<ArrayRef> {
        let mut at = 0;
        let mut pieces = vec![];
        for piece in self.pieces(rows) {
            pieces.push(filter(&piece, &mask.slice(at, piece.len()))?);
            at += piece.len();
        }
        match pieces.as_slice() {
            [only] => Ok(ArrayRef::clone(only)),
            pieces => Ok(concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        }
    }
}

impl Columns {
    /// `schema` is of `segments`, each of which has `rows` rows.
    pub(super) fn new(schema: SchemaRef, rows: usize, segments: impl IntoIterator<Item = PinnedSegment>) -> Self {
        Self { schema, rows, columns: segments.into_iter().map(CachedColumn::new).collect() }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// All rows in batches of at most `batch_rows` rows.
    pub(super) fn batches(self, batch_rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let mut start = 0;
        std::iter::from_fn(move || {
            let rows = start..self.batch_end(start, batch_rows);
            start = rows.end;
            (!rows.is_empty()).then(|| self.batch(rows))
        })
    }

    /// Where a batch that begins at row `start` ends: after at most `batch_rows` rows, and where a
    /// column's chunk ends.
    pub(super) fn batch_end(&self, start: usize, batch_rows: usize) -> usize {
        let end = self.rows.min(start.saturating_add(batch_rows.max(1)));
        self.columns.iter().map(|column| column.chunk_end(start)).fold(end, usize::min)
    }

    /// The batch of `rows`, which are of one chunk of each column.
    pub(super) fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|column| column.within_chunk(rows.clone())).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
            .map_err(DataFusionError::from)
    }
}
