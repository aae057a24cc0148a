//! An aligned table in the style of `psql`.
//!
//! ```text
//!  d_year |  revenue
//! --------+-----------
//!    1993 | 446031203
//! ```
//!
//! Numbers are right-aligned, everything else left-aligned, and NULL is empty. A value of several lines takes several
//! lines. Control characters are escaped, so that no value can control the terminal.

use std::fmt::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use thermocline_pushdown::with_sql_texts;

use super::ROWS_AT_ONCE;
use super::csv::no_text;

/// Column widths and alignments of one result.
#[derive(Debug)]
pub struct Layout {
    names: Vec<String>,
    widths: Vec<usize>,
    right: Vec<bool>,
}

impl Layout {
    /// The layout that fits all of `batches`.
    ///
    /// # Errors
    /// If a value has no text.
    pub fn new(schema: &Schema, batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let names: Vec<String> = schema.fields().iter().map(|field| escaped(field.name())).collect();
        let mut widths: Vec<usize> = names.iter().map(|name| width_of(name)).collect();
        for batch in batches {
            cells(batch, 0..batch.num_rows(), |_, column, cell| {
                if let Some(width) = widths.get_mut(column) {
                    *width = cell.split('\n').map(width_of).fold(*width, usize::max);
                }
            })?;
        }
        Ok(Self { names, widths, right: schema.fields().iter().map(|field| is_number(field.data_type())).collect() })
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Widths of the columns.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Appends the header and the line below it.
    pub fn header(&self, text: &mut String) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        self.row(&names, text);
        for (i, width) in self.widths.iter().enumerate() {
            text.push_str(if i > 0 { "+-" } else { "-" });
            text.extend(std::iter::repeat_n('-', width + 1));
        }
        text.push('\n');
    }

    /// Appends rows of `batch`, at most [`ROWS_AT_ONCE`] from `start` on.
    ///
    /// # Errors
    /// If a value has no text.
    pub fn rows(&self, batch: &RecordBatch, start: usize, text: &mut String) -> Result<(), ArrowError> {
        let end = batch.num_rows().min(start.saturating_add(ROWS_AT_ONCE));
        let mut row: Vec<String> = vec![];
        cells(batch, start..end, |_, column, cell| {
            if column == 0 {
                row.clear();
            }
            row.push(cell.to_owned());
            if row.len() == self.widths.len() {
                let cells: Vec<&str> = row.iter().map(String::as_str).collect();
                self.row(&cells, text);
            }
        })
    }

    fn row(&self, cells: &[&str], text: &mut String) {
        let mut lines: Vec<_> = cells.iter().map(|cell| cell.split('\n')).collect();
        let height = cells.iter().map(|cell| cell.split('\n').count()).max().unwrap_or(0);
        for _ in 0..height {
            for (i, ((line, width), right)) in lines.iter_mut().zip(&self.widths).zip(&self.right).enumerate() {
                let line = line.next().unwrap_or_default();
                let space = std::iter::repeat_n(' ', width.saturating_sub(width_of(line)));
                text.push_str(if i > 0 { "| " } else { " " });
                if *right {
                    text.extend(space);
                    text.push_str(line);
                } else {
                    text.push_str(line);
                    text.extend(space);
                }
                text.push(' ');
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
}

/// Calls `each` with row, column and text of every cell, row by row.
pub fn cells(
    batch: &RecordBatch,
    rows: std::ops::Range<usize>,
    mut each: impl FnMut(usize, usize, &str),
) -> Result<(), ArrowError> {
    let arrays = batch.columns().iter().map(with_sql_texts).collect::<Result<Vec<_>, DataFusionError>>()?;
    let options = FormatOptions::new().with_display_error(false);
    let columns =
        arrays.iter().map(|array| ArrayFormatter::try_new(array.as_ref(), &options)).collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for row in rows {
        for (i, column) in columns.iter().enumerate() {
            text.clear();
            write!(text, "{}", column.value(row)).map_err(|_| no_text(batch, i))?;
            if text.contains(|c: char| c.is_control() && c != '\n') {
                text = escaped(&text);
            }
            each(row, i, &text);
        }
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => result.push(c),
            '\t' => result.push_str("    "),
            c if c.is_control() => result.extend(c.escape_default()),
            c => result.push(c),
        }
    }
    result
}

fn is_number(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_number(values),
        kind => kind.is_numeric(),
    }
}

/// Width of `text` in terminal columns: two for East Asian wide characters and emoji, none for combining marks.
pub fn width_of(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
            0x1100..=0x115f
            | 0x2e80..=0xa4cf
            | 0xac00..=0xd7a3
            | 0xf900..=0xfaff
            | 0xfe30..=0xfe6f
            | 0xff00..=0xff60
            | 0xffe0..=0xffe6
            | 0x1f300..=0x1f64f
            | 0x1f680..=0x1f6ff
            | 0x1f900..=0x1f9ff
            | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::super::samples;
    use super::*;

    fn table(batch: &RecordBatch) -> String {
        let layout = Layout::new(&batch.schema(), std::slice::from_ref(batch)).unwrap();
        let mut text = String::new();
        layout.header(&mut text);
        layout.rows(batch, 0, &mut text).unwrap();
        text
    }

    #[test]
    fn columns_are_aligned() {
        let batch = samples::batch(vec![
            ("number", Arc::new(Int64Array::from(vec![Some(1), None, Some(-12_345_678)])) as _),
            ("text", Arc::new(StringArray::from(vec![Some("a\nlonger b"), Some("größe 漢"), None])) as _),
            ("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as _),
        ]);
        let expected = [
            "    number | text     | n",
            "-----------+----------+---",
            "         1 | a        | 1",
            "           | longer b |",
            "           | größe 漢 | 2",
            " -12345678 |          | 3",
            "",
        ];
        assert_eq!(table(&batch), expected.join("\n"));
    }

    #[test]
    fn control_characters_are_escaped() {
        let batch = samples::batch(vec![("t", Arc::new(StringArray::from(vec!["\u{1b}[2J\r"])) as _)]);
        assert_eq!(table(&batch), " t\n-------------\n \\u{1b}[2J\\r\n");
    }

    #[test]
    fn a_result_without_rows_has_a_header() {
        let batch = samples::batch(vec![("a", Arc::new(Int64Array::from(Vec::<i64>::new())) as _)]);
        assert_eq!(table(&batch), " a\n---\n");
    }
}
