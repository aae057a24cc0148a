//! An aligned table in the style of `psql`.
//!
//! ```text
//!  d_year |  revenue
//! --------+-----------
//!    1993 | 446031203
//! ```
//!
//! Numbers are right-aligned and everything else is left-aligned. A value of several lines takes several lines. Control
//! characters are escaped, so that no value can control the terminal.
//!
//! In a terminal that is too narrow, texts are cut, with the mark `…`, the widest first; numbers never are, because
//! their digits would mislead. If that does not do, the last columns are left out. [`Layout`] counts both.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;

use super::ROWS_AT_ONCE;
use super::cells::{Cells, Columns};
use super::csv::no_text;

/// Column widths and alignments of one result.
#[derive(Debug)]
pub struct Layout {
    /// Names of all columns.
    names: Vec<String>,
    /// Widths of the columns that are shown.
    widths: Vec<usize>,
    right: Vec<bool>,
    /// Number of columns that are shown with texts cut.
    cut: usize,
}

/// Mark of a text that is cut.
const CUT: char = '…';
/// Width to which a text column may be cut.
const CUT_WIDTH_MIN: usize = 8;

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
        let right = schema.fields().iter().map(|field| is_number(field.data_type())).collect();
        Ok(Self { names, widths, right, cut: 0 })
    }

    /// The same in a terminal of so many columns.
    #[must_use]
    pub fn within(mut self, columns: usize) -> Self {
        let whole = self.widths.clone();
        let least = |layout: &Self| {
            let columns = layout.widths.iter().zip(&layout.right);
            columns.map(|(width, right)| if *right { *width } else { (*width).min(CUT_WIDTH_MIN) } + 3).sum::<usize>()
        };
        while self.widths.len() > 1 && least(&self) > columns + 1 {
            self.widths.pop();
            self.right.pop();
        }
        for (width, right) in self.widths.iter_mut().zip(&self.right) {
            *width = if *right { *width } else { (*width).min(columns.max(CUT_WIDTH_MIN)) };
        }
        while self.width() > columns {
            let texts = self.widths.iter_mut().zip(&self.right).filter(|(_, right)| !**right).map(|(width, _)| width);
            let widest = texts.max_by_key(|width| **width).filter(|width| **width > CUT_WIDTH_MIN);
            let Some(width) = widest else { break };
            *width -= 1;
        }
        self.cut = whole.iter().zip(&self.widths).filter(|(whole, width)| whole > width).count();
        self
    }

    /// Width of a row.
    pub fn width(&self) -> usize {
        self.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1)
    }

    /// Number of columns that are left out.
    pub fn hidden(&self) -> usize {
        self.names.len() - self.widths.len()
    }

    /// Number of columns that are shown with texts cut.
    pub const fn cut(&self) -> usize {
        self.cut
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
        let names: Vec<&str> = self.names.iter().take(self.widths.len()).map(String::as_str).collect();
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
            if column >= self.widths.len() {
                return;
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
                let line = cut(line.next().unwrap_or_default(), *width);
                let line: &str = &line;
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
    let columns = Columns::of(batch)?;
    let columns = Cells::new(&columns)?;
    let mut text = String::new();
    for row in rows {
        for column in 0..columns.width() {
            text.clear();
            if !columns.write(row, column, &mut text).map_err(|_| no_text(batch, column))? {
                text.push_str(NULL);
            }
            if text.contains(|c: char| c.is_control() && c != '\n') {
                text = escaped(&text);
            }
            each(row, column, &text);
        }
    }
    Ok(())
}

/// What stands for NULL, which an empty text does not.
const NULL: &str = "NULL";

/// A text without control characters, but for its line ends.
pub fn escaped(text: &str) -> String {
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

/// A text without control characters, in one line.
pub fn in_one_line(text: &str) -> String {
    escaped(text).replace('\n', "\\n")
}

/// A line within a width, with [`CUT`] at the end of one that is longer.
fn cut(line: &str, width: usize) -> Cow<'_, str> {
    if width_of(line) <= width {
        return Cow::Borrowed(line);
    }
    let (mut kept, mut used, mut letter) = (String::new(), 0, [0; 4]);
    for c in line.chars() {
        used += width_of(c.encode_utf8(&mut letter));
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept.push(CUT);
    Cow::Owned(kept)
}

pub fn is_number(kind: &DataType) -> bool {
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
            "      NULL | größe 漢 | 2",
            " -12345678 | NULL     | 3",
            "",
        ];
        assert_eq!(table(&batch), expected.join("\n"));
    }

    #[test]
    fn a_narrow_terminal_cuts_texts_but_no_numbers() {
        let batch = samples::batch(vec![
            ("number", Arc::new(Int64Array::from(vec![123_456_789_012])) as _),
            ("text", Arc::new(StringArray::from(vec!["a rather long text"])) as _),
            ("wide", Arc::new(StringArray::from(vec!["漢漢漢漢漢漢漢漢漢漢"])) as _),
        ]);
        let within = |columns| {
            let layout = Layout::new(&batch.schema(), std::slice::from_ref(&batch)).unwrap().within(columns);
            let mut text = String::new();
            layout.header(&mut text);
            layout.rows(&batch, 0, &mut text).unwrap();
            (layout.hidden(), layout.width(), layout.cut(), text)
        };
        assert_eq!((within(200).0, within(200).1, within(200).2), (0, 58, 0));
        let (hidden, width, cut, text) = within(40);
        assert_eq!((hidden, width, cut), (0, 40, 2));
        assert!(text.ends_with("\n 123456789012 | a rather … | 漢漢漢漢…\n"), "{text}");
        assert!(text.lines().all(|line| width_of(line) <= 40), "{text}");
        let (hidden, width, cut, text) = within(30);
        assert_eq!((hidden, width, cut), (1, 30, 1));
        assert!(text.ends_with("\n 123456789012 | a rather lon…\n"), "{text}");
        let (hidden, _, cut, text) = within(10);
        assert_eq!((hidden, cut), (2, 0));
        assert!(text.ends_with("\n 123456789012\n"), "a number is never cut: {text}");
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
