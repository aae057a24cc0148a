//! Why a CSV object could not be read.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Longest piece of the file that an error quotes, in characters.
const TEXT_CHARS_MAX: usize = 40;

/// Why a CSV object could not be read.
///
/// `row` is the 1-based number of the data row (the header is row 0), `offset`
/// the byte offset in the object, `text` the offending text, lossily decoded
/// and cut at 40 characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The options contradict each other.
    #[error("invalid CSV options: {reason}")]
    InvalidOptions {
        /// The rule that they break.
        reason: String,
    },
    /// The projection names a column that the schema does not have.
    #[error("projection names column {index}, but the schema has {columns} columns")]
    InvalidProjection {
        /// The index asked for.
        index: usize,
        /// Number of columns of the schema.
        columns: usize,
    },
    /// The reader has no parser for the type of a column.
    #[error("column '{column}': cannot read {data_type} from CSV")]
    UnsupportedType {
        /// Name of the column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A field is not a valid value of its column's type.
    #[error(
        "row {row}, byte {offset}: column '{column}': '{text}' is not a valid {data_type}; \
         declare the column as VARCHAR to read it as text, or as null_value the text that stands for NULL"
    )]
    InvalidValue {
        /// 1-based data row.
        row: u64,
        /// Where the field starts.
        offset: u64,
        /// Name of the column.
        column: String,
        /// The field as written.
        text: String,
        /// Type of the column.
        data_type: DataType,
    },
    /// A field of a string column is not UTF-8, or a header name is not
    /// (`column` is then its 1-based position).
    #[error("row {row}, byte {offset}: column '{column}': '{text}' is not UTF-8")]
    InvalidUtf8 {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// Where the field starts.
        offset: u64,
        /// Name of the column.
        column: String,
        /// The field as written.
        text: String,
    },
    /// A NULL in a column that must not have any.
    #[error("row {row}, byte {offset}: column '{column}' is NULL but declared NOT NULL")]
    UnexpectedNull {
        /// 1-based data row.
        row: u64,
        /// Where the field starts.
        offset: u64,
        /// Name of the column.
        column: String,
    },
    /// A record with too few or too many fields.
    #[error("row {row}, byte {offset}: found {found} fields, expected {expected}: '{text}'")]
    FieldCount {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// Where the record starts.
        offset: u64,
        /// Fields in the record.
        found: usize,
        /// Columns of the schema.
        expected: usize,
        /// The record as written.
        text: String,
    },
    /// Text between a closing quote and the end of the field.
    #[error("row {row}, byte {offset}: text after a closing quote")]
    TextAfterQuote {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// The first byte after the closing quote.
        offset: u64,
    },
    /// A carriage return in the first record, outside of quotes, that no line feed follows.
    #[error(
        "row {row}, byte {offset}: a carriage return without a line feed, which ends no line here; write the object \
         with line feeds"
    )]
    LoneCarriageReturn {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// Where it is.
        offset: u64,
    },
    /// The object ends inside a quoted field.
    #[error("row {row}: the quote opened at byte {offset} is never closed")]
    UnclosedQuote {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// The opening quote.
        offset: u64,
    },
    /// A record longer than the reader holds; an unclosed quote is the usual
    /// cause.
    #[error("row {row}, byte {offset}: record longer than {limit} bytes")]
    RecordTooLong {
        /// 1-based data row, 0 for the header.
        row: u64,
        /// Where the record starts.
        offset: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The strings of one batch exceed what the offsets of the column can
    /// address; `LargeUtf8`, `Utf8View` or smaller batches can.
    #[error("row {row}: column '{column}': more than 2 GiB of text in one batch")]
    ColumnTooLarge {
        /// First data row that does not fit.
        row: u64,
        /// Name of the column.
        column: String,
    },
    /// The reader failed before; the text after the failure cannot be read.
    #[error("the CSV reader has failed before")]
    Failed,
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// `bytes` as an error quotes them.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    // A character has at most four bytes, so this prefix holds enough of them.
    let prefix = bytes.get(..TEXT_CHARS_MAX * 4).unwrap_or(bytes);
    String::from_utf8_lossy(prefix).chars().take(TEXT_CHARS_MAX).collect()
}
