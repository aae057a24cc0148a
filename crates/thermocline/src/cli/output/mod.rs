//! Output of rows as text: a table for people, CSV and JSON for programs.

pub mod cells;
pub mod csv;
pub mod expanded;
pub mod json;
pub mod markdown;
pub mod table;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::Failure;

/// Output formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// An aligned table, once all rows are there
    Table,
    /// CSV with a header per result, as rows come; NULL is empty, an empty string is ""
    Csv,
    /// One JSON object per line, as rows come
    Json,
    /// A table in Markdown, as rows come
    Markdown,
}

/// Rows formatted at a time.
pub const ROWS_AT_ONCE: usize = 1024;

/// Start of the clock of `WRITING_SINCE`.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Milliseconds on that clock at which the current write began; `NOT_WRITING` without one.
static WRITING_SINCE: AtomicU64 = AtomicU64::new(NOT_WRITING);
const NOT_WRITING: u64 = u64::MAX;

/// Time for which the current write to standard output has been blocked, as by a pager that waits for its user.
pub fn blocked_for() -> Duration {
    let now = STARTED.elapsed().as_millis() as u64;
    match WRITING_SINCE.load(Ordering::Relaxed) {
        NOT_WRITING => Duration::ZERO,
        since => Duration::from_millis(now.saturating_sub(since)),
    }
}

/// Writes to standard output, in a few large pieces. Blocks while the reader does not read.
///
/// # Errors
/// [`Failure::OutputClosed`] if the reader has closed it.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    written(|output| output.write_all(text))
}

/// Flushes standard output.
///
/// # Errors
/// As [`print()`].
pub fn flush() -> Result<(), Failure> {
    written(|output| output.flush())
}

fn written(write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) -> Result<(), Failure> {
    WRITING_SINCE.store(STARTED.elapsed().as_millis() as u64, Ordering::Relaxed);
    let written = write(&mut io::stdout().lock());
    WRITING_SINCE.store(NOT_WRITING, Ordering::Relaxed);
    written.map_err(|error| Failure::output(&error))
}

/// Destination of rows.
#[derive(Debug, Clone, Default)]
pub enum Sink {
    /// Standard output.
    #[default]
    Standard,
    /// A file, as of `\o`.
    File(Arc<File>),
}

impl Sink {
    /// Creates a file, or empties the one that exists.
    ///
    /// # Errors
    /// If it cannot be created; the error names it.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        Ok(Self::File(Arc::new(file)))
    }

    /// Writes a text, as [`print()`].
    ///
    /// # Errors
    /// As [`print()`], or that of the file.
    pub fn print(&self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Standard => print(text),
            Self::File(file) => {
                file.as_ref().write_all(text).map_err(|error| Failure::Failed(format!("the file of \\o: {error}")))
            }
        }
    }

    /// Flushes standard output; files need no flushing.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn flush(&self) -> Result<(), Failure> {
        match self {
            Self::Standard => flush(),
            Self::File(_) => Ok(()),
        }
    }

    /// A writer with the same destination.
    pub fn writer(&self) -> Box<dyn Write + Send> {
        match self {
            Self::Standard => Box::new(io::stdout()),
            Self::File(file) => Box::new(Arc::clone(file)),
        }
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Standard) && io::stdout().is_terminal()
    }
}

#[cfg(test)]
mod samples {
    //! One batch of every kind of value, and its problems.

    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch,
        StringArray, StringViewArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};

    pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let fields: Vec<_> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    pub fn kinds() -> RecordBatch {
        let decimal =
            Decimal128Array::from(vec![Some(-12_345), None, Some(7)]).with_precision_and_scale(38, 2).unwrap();
        batch(vec![
            ("i", Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MIN)])) as _),
            ("f", Arc::new(Float64Array::from(vec![Some(0.1), None, Some(f64::NAN)])) as _),
            ("d", Arc::new(decimal) as _),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])) as _),
            ("s", Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), None, Some("")])) as _),
            ("v", Arc::new(StringViewArray::from(vec![Some("größe"), None, Some("\u{1}")])) as _),
            ("k", Arc::new(vec![Some("x"), None, Some("x")].into_iter().collect::<DictionaryArray<Int32Type>>()) as _),
            ("day", Arc::new(Date32Array::from(vec![Some(0), None, Some(-1)])) as _),
            (
                "at",
                Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500_000), None, Some(0)]).with_timezone("UTC"))
                    as _,
            ),
        ])
    }
}
