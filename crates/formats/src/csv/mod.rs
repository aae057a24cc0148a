//! CSV text to Arrow record batches: an exact reader that works at a good
//! share of memory bandwidth.
//!
//! ```text
//! object bytes ──► SplitScanner ──► CsvSplits (header, byte ranges, row counts)
//!                                        │ one range per worker
//!                                        ▼
//! range bytes ──► CsvDecoder: scan ──► records ──► convert ──► RecordBatch
//!                 (quote, delimiter,   (field      (column by
//!                  newline bitmaps)     ends)       column)
//! ```
//!
//! What is not known of a file before its first byte, [`detect`] and [`infer_schema`] find out from a sample: the
//! delimiter and whether there is a header, then the columns.
//!
//! # What a file may look like
//!
//! * A record ends at `\n`, `\r\n` or the end of the object. A `\r` directly
//!   before one of these belongs to the record end; any other `\r` is data.
//!   `\n` and `\r\n` may be mixed.
//! * A field is quoted when its first byte is the quote. Delimiters, newlines
//!   and doubled quotes inside are data; after the closing quote only a
//!   delimiter or a record end may follow. A quote anywhere else in a field
//!   (`ab"c`, ` "ab"`) is data.
//! * An escape byte other than the quote works inside quoted fields only: the
//!   byte after it is data. Quotes are then not doubled.
//! * An empty line is skipped in a table of several columns. In a table of one
//!   column it is a record whose field is empty. Empty lines before the header
//!   are skipped in either.
//! * Every other record must have exactly as many fields as the schema, or as
//!   [`CsvOptions::fields`] says, also where columns are not wanted.
//! * A UTF-8 byte order mark at the start of the object is skipped.
//!
//! # What a field may look like
//!
//! * An unquoted field equal to [`CsvOptions::null_text`] is NULL. A quoted one
//!   is an empty or equal string in a string column, and NULL in any other
//!   column, as in DuckDB.
//! * Numbers, dates and times may be surrounded by ASCII white space; strings
//!   keep theirs, Booleans may not have any.
//! * Integers: digits with an optional sign (`+` as well). No fraction, no
//!   exponent, no `_`: DuckDB rounds `1.5` to `2` here, this reader refuses it.
//! * Decimals: sign, digits, point, exponent; surplus digits are rounded half
//!   away from zero, as in DuckDB.
//! * Floats: as [`f64::from_str`]; out of range is infinite, as in DuckDB.
//! * Booleans: `true t yes y 1`, `false f no n 0`, in any case.
//! * Dates: `YYYY-MM-DD`. Times: `HH:MM[:SS[.fraction]]`. Timestamps: a date,
//!   or a date and a time with a space or `T` between, then optionally `Z` or,
//!   where the type has a zone, an offset `±HH[:MM]`. Surplus digits of the
//!   fraction (at most 9 in all) are cut off.
//! * Strings must be UTF-8. Columns that are not wanted are not checked.
//!
//! [`f64::from_str`]: std::str::FromStr

mod avx2;
mod bom;
mod convert;
mod decode;
mod detect;
mod error;
mod field;
mod infer;
mod mask;
mod number;
mod options;
mod records;
mod scan;
mod split;
mod temporal;
mod text;

pub use convert::ColumnStatistics;
pub use decode::CsvDecoder;
pub use detect::{Unknown, detect};
pub use error::CsvError;
pub use infer::infer_schema;
pub use options::CsvOptions;
pub use split::{CsvSplit, CsvSplits, SplitScanner};
