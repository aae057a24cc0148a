//! Texts of values, for people and in CSV: those of SQL, and JSON for lists, structs and maps.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thermocline_pushdown::{is_jsonb, with_sql_texts};

use super::json::{Values, materialised};

/// Columns of a batch, as arrays that [`Cells`] formats.
#[derive(Debug)]
pub struct Columns(Vec<ArrayRef>);

impl Columns {
    /// The columns of a batch.
    ///
    /// # Errors
    /// If a value has no text.
    pub fn of(batch: &RecordBatch) -> Result<Self, ArrowError> {
        let column = |array: &ArrayRef| match array.data_type() {
            of if of.is_nested() && !is_jsonb(of) => materialised(array),
            _ => Ok(with_sql_texts(array)?),
        };
        Ok(Self(batch.columns().iter().map(column).collect::<Result<_, ArrowError>>()?))
    }
}

/// Formatter of the values of columns.
pub struct Cells<'a>(Vec<(Option<NullBuffer>, Of<'a>)>);

enum Of<'a> {
    Plain(ArrayFormatter<'a>),
    Nested(Values<'a>),
}

impl<'a> Cells<'a> {
    /// A formatter of these columns.
    ///
    /// # Errors
    /// If values of a type have no text.
    pub fn new(columns: &'a Columns) -> Result<Self, ArrowError> {
        let options = FormatOptions::new().with_display_error(false);
        let cell = |array: &'a ArrayRef| {
            let of = match array.data_type() {
                of if of.is_nested() && !is_jsonb(of) => Of::Nested(Values::new(array)?),
                _ => Of::Plain(ArrayFormatter::try_new(array.as_ref(), &options)?),
            };
            Ok::<_, ArrowError>((array.logical_nulls(), of))
        };
        Ok(Self(columns.0.iter().map(cell).collect::<Result<_, _>>()?))
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.0.len()
    }

    /// Appends a value; returns false, without effect, if it is NULL.
    ///
    /// # Errors
    /// If it has no text, such as a date out of the calendar.
    pub fn write(&self, row: usize, column: usize, text: &mut String) -> Result<bool, ArrowError> {
        let Some((nulls, of)) = self.0.get(column) else { return Ok(false) };
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(false);
        }
        match of {
            Of::Plain(values) => write!(text, "{}", values.value(row))
                .map_err(|_| ArrowError::CastError("a value cannot be shown as text".to_owned()))?,
            Of::Nested(values) => values.write(row, text)?,
        }
        Ok(true)
    }
}
