//! A line for each value, in the style of `psql`'s `\x`.
//!
//! ```text
//! -[ RECORD 1 ]----
//! d_year  | 1993
//! revenue | 446031203
//! ```

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::ROWS_AT_ONCE;
use super::table::{Layout, cells, width_of};

/// Appends rows of `batch`, at most [`ROWS_AT_ONCE`] from `start` on, the first of which has the number `number`.
///
/// # Errors
/// If a value has no text.
pub fn records(
    layout: &Layout,
    batch: &RecordBatch,
    start: usize,
    number: u64,
    text: &mut String,
) -> Result<(), ArrowError> {
    let names: Vec<_> = layout.names().iter().map(|name| name.replace('\n', " ")).collect();
    let name_width = names.iter().map(|name| width_of(name)).max().unwrap_or(0);
    let value_width = layout.widths().iter().copied().max().unwrap_or(0);
    let end = batch.num_rows().min(start.saturating_add(ROWS_AT_ONCE));
    cells(batch, start..end, |row, column, cell| {
        if column == 0 {
            heading(number + (row - start) as u64, name_width, value_width, text);
        }
        let name = names.get(column).map_or("", String::as_str);
        for (at, line) in cell.split('\n').enumerate() {
            let name = if at == 0 { name } else { "" };
            text.push_str(name);
            text.extend(std::iter::repeat_n(' ', name_width - width_of(name)));
            text.push_str(" | ");
            text.push_str(line);
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    })
}

fn heading(number: u64, name_width: usize, value_width: usize, text: &mut String) {
    let mut line = format!("-[ RECORD {number} ]");
    // As wide as the longest value, within a line's width.
    let width = (name_width + 3 + value_width).clamp(line.len(), HEADING_WIDTH_MAX.max(line.len()));
    let rest = width - line.len();
    line.extend(std::iter::repeat_n('-', rest));
    text.push_str(&line);
    text.push('\n');
}

/// Maximum width of a record's heading.
const HEADING_WIDTH_MAX: usize = 79;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::super::samples;
    use super::*;

    #[test]
    fn each_value_has_a_line() {
        let batch = samples::batch(vec![
            ("number", Arc::new(Int64Array::from(vec![1, -12])) as _),
            ("n", Arc::new(StringArray::from(vec!["a\nlonger text", "größe"])) as _),
        ]);
        let layout = Layout::new(&batch.schema(), std::slice::from_ref(&batch)).unwrap();
        let mut text = String::new();
        records(&layout, &batch, 0, 1, &mut text).unwrap();
        let expected = [
            "-[ RECORD 1 ]-------",
            "number | 1",
            "n      | a",
            "       | longer text",
            "-[ RECORD 2 ]-------",
            "number | -12",
            "n      | größe",
            "",
        ];
        assert_eq!(text, expected.join("\n"));
    }
}
