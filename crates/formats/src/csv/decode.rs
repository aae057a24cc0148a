//! Bytes of an object, in pieces of any size, to record batches.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::bom::BomFilter;
use super::convert::{Column, ColumnStatistics, Fields, column};
use super::error::{CsvError, excerpt};
use super::field::{BadField, FieldRules};
use super::options::{CsvOptions, MAX_RECORD_BYTES};
use super::records::{Defect, RecordIndex, Records};
use super::scan::{Scanner, Step};

/// Bytes indexed at a time: text and positions of a window stay in the
/// first-level cache while column after column reads them. 64 KiB cost a
/// quarter more time on 17 columns.
const WINDOW_BYTES: usize = 16 << 10;

/// Decodes one byte range of a CSV object into batches of the wanted columns.
///
/// Feed the bytes in order with [`Self::decode`], in pieces of any size, take
/// batches with [`Self::next_batch`] in between, end with [`Self::finish`].
/// Neither batches nor errors depend on how the bytes are cut, except whether
/// something a little above a size limit is still accepted.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// # use thermocline_formats::csv::{CsvDecoder, CsvError, CsvOptions};
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("id", DataType::Int64, false),
///     Field::new("name", DataType::Utf8View, true),
/// ]));
/// let mut decoder = CsvDecoder::try_new(schema, &CsvOptions::default(), vec![1], 8192)?;
/// decoder.decode(b"id,name\n1,\"a, b\"\n")?;
/// decoder.finish()?;
/// assert_eq!(decoder.next_batch().map(|batch| batch.num_rows()), Some(1));
/// # Ok::<(), CsvError>(())
/// ```
#[derive(Debug)]
pub struct CsvDecoder {
    /// Fields of a record.
    field_count: usize,
    /// Schema of the batches.
    schema: SchemaRef,
    has_header: bool,
    columns: Vec<Projected>,
    /// Whether a string column is wanted, so that UTF-8 matters.
    has_text: bool,
    batch_rows: usize,
    with_statistics: bool,
    /// Byte ranges of the rows that are or will be in batches, if requested.
    spans: Option<VecDeque<Range<u64>>>,

    bom: BomFilter,
    /// Whether the header is still to come.
    header_pending: bool,
    index: RecordIndex,
    /// The incomplete record at the end of the bytes received.
    tail: Vec<u8>,
    /// State at the end of `tail`.
    tail_scanner: Scanner,
    /// Offset in the object of `tail`, or of the next byte if that is empty.
    offset: u64,
    /// Number of the next data row; 1 is the first of the object.
    row: u64,
    /// Rows in `columns` that are in no batch yet.
    pending_rows: usize,
    batches: VecDeque<RecordBatch>,
    failed: bool,
}

/// A wanted column.
#[derive(Debug)]
struct Projected {
    /// Index of its field in a record; `None` if it has none and is NULL.
    index: Option<usize>,
    values: Box<dyn Column>,
}

impl CsvDecoder {
    /// A decoder of a whole object.
    ///
    /// `schema` names all columns, in file order unless the options say which
    /// fields they are; `projection` the indices of the wanted ones, in any order. With no wanted columns the
    /// batches have a row count only. Each batch but the last has `batch_rows`
    /// rows (at least 1).
    ///
    /// # Errors
    ///
    /// [`CsvError::InvalidOptions`], [`CsvError::InvalidProjection`], or
    /// [`CsvError::UnsupportedType`] for a wanted column.
    pub fn try_new(
        schema: SchemaRef,
        options: &CsvOptions,
        projection: Vec<usize>,
        batch_rows: usize,
    ) -> Result<Self, CsvError> {
        options.validate()?;
        if schema.fields().is_empty() || batch_rows == 0 {
            return Err(CsvError::InvalidOptions {
                reason: "a CSV table needs a column, a batch needs a row".to_owned(),
            });
        }
        let field_count = match &options.fields {
            None => schema.fields().len(),
            Some(fields) if fields.of_columns.len() != schema.fields().len() => {
                let reason = format!("{} columns have a field, of {}", fields.of_columns.len(), schema.fields().len());
                return Err(CsvError::InvalidOptions { reason });
            }
            Some(fields) => match fields.of_columns.iter().flatten().find(|field| **field >= fields.count) {
                None => fields.count as usize,
                Some(field) => {
                    let reason = format!("field {field} is not among the {} of a record", fields.count);
                    return Err(CsvError::InvalidOptions { reason });
                }
            },
        };
        let mut columns = Vec::with_capacity(projection.len());
        let mut fields = Vec::with_capacity(projection.len());
        for index in projection {
            let field = schema
                .fields()
                .get(index)
                .ok_or_else(|| CsvError::InvalidProjection { index, columns: schema.fields().len() })?;
            let rules = FieldRules::new(options, field.is_nullable());
            let values = column(field.data_type(), rules).ok_or_else(|| CsvError::UnsupportedType {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
            })?;
            let index = match &options.fields {
                None => Some(index),
                Some(fields) => fields.of_columns.get(index).copied().flatten().map(|field| field as usize),
            };
            columns.push(Projected { index, values });
            fields.push(Arc::clone(field));
        }
        let has_text = fields
            .iter()
            .any(|field| matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View));
        let dialect = options.dialect();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
            field_count,
            has_header: options.has_header,
            columns,
            has_text,
            batch_rows,
            with_statistics: false,
            spans: None,
            bom: BomFilter::new(true),
            header_pending: options.has_header,
            index: RecordIndex::new(dialect),
            tail: Vec::new(),
            tail_scanner: Scanner::new(dialect, 0),
            offset: 0,
            row: 1,
            pending_rows: 0,
            batches: VecDeque::new(),
            failed: false,
        })
    }

    /// Makes this a decoder of a range of the object that starts with a record
    /// at byte `base_offset`; `first_row` is the 1-based number of its first
    /// data row. Only a range at offset 0 has a byte order mark or a header.
    #[must_use]
    pub fn with_start(mut self, base_offset: u64, first_row: u64) -> Self {
        let at_object_start = base_offset == 0;
        self.bom = BomFilter::new(at_object_start);
        self.header_pending = self.has_header && at_object_start;
        self.offset = base_offset;
        self.row = first_row;
        self
    }

    /// Makes [`Self::column_statistics`] available.
    #[must_use]
    pub fn with_statistics(mut self) -> Self {
        self.with_statistics = true;
        self
    }

    /// Makes [`Self::take_spans`] available.
    #[must_use]
    pub fn with_spans(mut self) -> Self {
        self.spans = Some(VecDeque::new());
        self
    }

    /// The bytes of the object that hold the records of the next `rows` rows, without their
    /// newlines: one range per row of the batches taken, in the same order. None unless asked for
    /// with [`Self::with_spans`].
    pub fn take_spans(&mut self, rows: usize) -> impl Iterator<Item = Range<u64>> {
        self.spans.iter_mut().flat_map(move |spans| spans.drain(..rows.min(spans.len())))
    }

    /// Schema of the batches: the wanted columns in projection order.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes the next bytes of the range.
    ///
    /// All complete batches in them are decoded at once, so a caller that wants
    /// to hold little memory feeds pieces of a few MiB.
    ///
    /// # Errors
    ///
    /// Every [`CsvError`] that names a row: the one of the first bad record.
    /// Batches complete before it can still be taken; every later call fails
    /// with [`CsvError::Failed`].
    pub fn decode(&mut self, chunk: &[u8]) -> Result<(), CsvError> {
        self.guarded(|decoder| {
            let (held, rest, found) = decoder.bom.push(chunk);
            if found {
                decoder.offset += BomFilter::LEN;
            }
            decoder.take_bytes(held)?;
            decoder.take_bytes(rest)
        })
    }

    /// Ends the range: decodes a last record without newline, and makes the
    /// last batch available.
    ///
    /// # Errors
    ///
    /// As [`Self::decode`], and [`CsvError::UnclosedQuote`].
    pub fn finish(&mut self) -> Result<(), CsvError> {
        self.guarded(|decoder| {
            let held = decoder.bom.finish();
            decoder.take_bytes(held)?;
            if let Some(opened) = decoder.tail_scanner.unclosed() {
                return Err(CsvError::UnclosedQuote { row: decoder.current_row(), offset: decoder.offset + opened });
            }
            if !decoder.tail.is_empty() {
                decoder.extend_tail(b"\n")?;
                decoder.decode_tail()?;
            }
            decoder.flush()
        })
    }

    /// The next complete batch.
    pub fn next_batch(&mut self) -> Option<RecordBatch> {
        self.batches.pop_front()
    }

    /// Statistics of each wanted column over all batches so far, in projection
    /// order; `None` unless asked for with [`Self::with_statistics`].
    pub fn column_statistics(&self) -> Option<Vec<ColumnStatistics>> {
        let statistics = self.columns.iter().map(|column| column.values.statistics());
        self.with_statistics.then(|| statistics.collect())
    }

    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<(), CsvError>) -> Result<(), CsvError> {
        if self.failed {
            return Err(CsvError::Failed);
        }
        let result = work(self);
        self.failed = result.is_err();
        result
    }

    fn take_bytes(&mut self, mut data: &[u8]) -> Result<(), CsvError> {
        while !data.is_empty() && (self.header_pending || !self.tail.is_empty()) {
            data = self.extend_tail(data)?;
        }
        let mut window_bytes = WINDOW_BYTES;
        while !data.is_empty() {
            let window = data.get(..window_bytes).unwrap_or(data);
            let consumed = self.decode_records(window)?;
            if consumed > 0 {
                data = data.get(consumed..).unwrap_or_default();
                window_bytes = WINDOW_BYTES;
            } else if window.len() == data.len() {
                self.extend_tail(data)?;
                return Ok(());
            } else if window_bytes > MAX_RECORD_BYTES {
                return Err(self.record_too_long());
            } else {
                // A record longer than the window.
                window_bytes *= 2;
            }
        }
        Ok(())
    }

    /// Moves bytes to `tail` up to the end of its record, which is then
    /// decoded. Returns the bytes behind it.
    fn extend_tail<'a>(&mut self, data: &'a [u8]) -> Result<&'a [u8], CsvError> {
        let end = data.iter().position(|&byte| self.tail_scanner.step(byte) == Step::Newline);
        let (record, rest) = data.split_at(end.map_or(data.len(), |at| at + 1));
        if let Some(at) = self.tail_scanner.broken() {
            return Err(CsvError::TextAfterQuote { row: self.current_row(), offset: self.offset + at });
        }
        if self.tail.len() + record.len() > MAX_RECORD_BYTES {
            return Err(self.record_too_long());
        }
        self.tail.extend_from_slice(record);
        if end.is_some() {
            self.decode_tail()?;
        }
        Ok(rest)
    }

    /// Decodes the complete record in `tail`.
    fn decode_tail(&mut self) -> Result<(), CsvError> {
        let mut record = mem::take(&mut self.tail);
        self.tail_scanner.restart();
        if self.header_pending {
            self.skip_header(&record)?;
        } else {
            self.decode_records(&record)?;
        }
        record.clear();
        self.tail = record;
        Ok(())
    }

    /// Takes the line before the first data row.
    fn skip_header(&mut self, record: &[u8]) -> Result<(), CsvError> {
        if !matches!(record, b"\n" | b"\r\n") {
            let expected = self.field_count;
            let found = self.index.count_fields(record);
            if found != expected {
                return Err(CsvError::FieldCount {
                    row: 0,
                    offset: self.offset,
                    found,
                    expected,
                    text: excerpt(record.trim_ascii_end()),
                });
            }
            self.header_pending = false;
        }
        self.offset += record.len() as u64;
        Ok(())
    }

    /// Decodes the complete records at the start of `data`, which starts with
    /// a record, and returns their length in bytes.
    fn decode_records(&mut self, data: &[u8]) -> Result<usize, CsvError> {
        let columns = self.field_count;
        // Taken out because the records borrow it while the columns change.
        let mut index = self.index.take();
        let records = index.records(data, columns);
        let result = self.convert(&records);
        let consumed = records.consumed;
        self.index = index;
        result?;
        self.offset += consumed as u64;
        Ok(consumed)
    }

    /// Appends all records to the columns, and reports what follows them.
    fn convert(&mut self, records: &Records<'_>) -> Result<(), CsvError> {
        let text = if self.has_text {
            let complete = records.data().get(..records.consumed);
            complete.and_then(|data| simdutf8::basic::from_utf8(data).ok())
        } else {
            None
        };
        let mut rows = 0..records.rows;
        while !rows.is_empty() {
            let space = self.batch_rows - self.pending_rows;
            let piece = rows.start..rows.end.min(rows.start.saturating_add(space));
            self.append(records, text, piece.clone())?;
            self.pending_rows += piece.len();
            self.row += piece.len() as u64;
            rows.start = piece.end;
            if self.pending_rows == self.batch_rows {
                self.flush()?;
            }
        }
        match records.defect {
            None => Ok(()),
            Some(Defect::TextAfterQuote { at }) => {
                Err(CsvError::TextAfterQuote { row: self.row, offset: self.offset + at as u64 })
            }
            Some(Defect::FieldCount { start, end, found }) => Err(CsvError::FieldCount {
                row: self.row,
                offset: self.offset + start as u64,
                found,
                expected: self.field_count,
                text: excerpt(records.data().get(start..end).unwrap_or_default().trim_ascii_end()),
            }),
        }
    }

    fn append(&mut self, records: &Records<'_>, text: Option<&str>, rows: Range<usize>) -> Result<(), CsvError> {
        let mut fields = Fields { records: *records, text, column: 0, rows };
        let first = fields.rows.start;
        let mut error = None;
        for (position, column) in self.columns.iter_mut().enumerate() {
            let Some(index) = column.index else { continue };
            fields.column = index;
            if let Err((row, bad)) = column.values.append(&fields) {
                // Later columns matter only if they fail in an earlier row.
                fields.rows.end = row;
                error = Some((position, row, bad));
            }
        }
        if let Some(spans) = &mut self.spans {
            let offset = self.offset;
            spans.extend(fields.rows.clone().map(|row| {
                let (start, end) = records.record(row);
                offset + start as u64..offset + end as u64
            }));
        }
        match error {
            None => Ok(()),
            Some((position, row, bad)) => {
                let number = self.row + (row - first) as u64;
                Err(self.field_error(records, position, row, number, bad))
            }
        }
    }

    fn field_error(&self, records: &Records<'_>, position: usize, record: usize, row: u64, bad: BadField) -> CsvError {
        let field = self.schema.field(position);
        let column = field.name().clone();
        let file_column = self.columns.get(position).and_then(|column| column.index).unwrap_or_default();
        let (start, end) = records.field(record, file_column);
        let offset = self.offset + start as u64;
        let text = || excerpt(records.data().get(start..end).unwrap_or_default());
        match bad {
            BadField::Value => {
                CsvError::InvalidValue { row, offset, column, text: text(), data_type: field.data_type().clone() }
            }
            BadField::Utf8 => CsvError::InvalidUtf8 { row, offset, column, text: text() },
            BadField::Null => CsvError::UnexpectedNull { row, offset, column },
            BadField::TooLarge => CsvError::ColumnTooLarge { row, column },
        }
    }

    /// Makes a batch of the pending rows, if any.
    fn flush(&mut self) -> Result<(), CsvError> {
        if self.pending_rows == 0 {
            return Ok(());
        }
        let with_statistics = self.with_statistics;
        let arrays = self.columns.iter_mut().zip(self.schema.fields()).map(|(column, field)| match column.index {
            None => new_null_array(field.data_type(), self.pending_rows),
            Some(_) => column.values.finish(with_statistics),
        });
        let arrays = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.pending_rows));
        let batch = RecordBatch::try_new_with_options(self.schema(), arrays, &options)?;
        self.pending_rows = 0;
        self.batches.push_back(batch);
        Ok(())
    }

    /// Number of the record in `tail`.
    fn current_row(&self) -> u64 {
        if self.header_pending { 0 } else { self.row }
    }

    fn record_too_long(&self) -> CsvError {
        CsvError::RecordTooLong { row: self.current_row(), offset: self.offset, limit: MAX_RECORD_BYTES }
    }
}
