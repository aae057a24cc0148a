//! A table in Markdown, without aligned columns, so that rows are written as they come. NULL is an empty cell.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;

use super::cells::{Cells, Columns};
use super::csv::no_text;
use super::table::is_number;

/// Appends the header and the line below it, which aligns numbers to the right.
pub fn header(schema: &Schema, text: &mut String) {
    for field in schema.fields() {
        text.push_str("| ");
        let start = text.len();
        text.push_str(field.name());
        escape_from(start, text);
        text.push(' ');
    }
    text.push_str("|\n");
    for field in schema.fields() {
        text.push_str(if is_number(field.data_type()) { "|---:" } else { "|---" });
    }
    text.push_str("|\n");
}

/// Appends a line per row.
///
/// # Errors
/// If a value has no text.
pub fn rows(batch: &RecordBatch, text: &mut String) -> Result<(), ArrowError> {
    let columns = Columns::of(batch)?;
    let cells = Cells::new(&columns)?;
    for row in 0..batch.num_rows() {
        for column in 0..cells.width() {
            text.push_str("| ");
            let start = text.len();
            if cells.write(row, column, text).map_err(|_| no_text(batch, column))? {
                escape_from(start, text);
            }
            text.push(' ');
        }
        text.push_str("|\n");
    }
    Ok(())
}

/// Escapes what would end a cell in the text appended since `start`.
fn escape_from(start: usize, text: &mut String) {
    let value = text.get(start..).unwrap_or_default();
    if value.contains(['|', '\n', '\r']) {
        let escaped = value.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>");
        text.truncate(start);
        text.push_str(&escaped);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn cells_hold_what_would_end_them() {
        let batch = samples::kinds();
        let mut text = String::new();
        header(&batch.schema(), &mut text);
        rows(&batch, &mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| i | f | d | b | s | v | k | day | at |");
        assert_eq!(lines[1], "|---:|---:|---:|---|---|---|---|---|---|");
        assert!(lines[2].contains("| a,\"b\"<br>c |"), "{text}");
        assert_eq!(lines[3], "|  |  |  |  |  |  |  |  |  |");
        assert_eq!(lines.len(), 5);
        let mut text = "x|y\r\nz".to_owned();
        escape_from(1, &mut text);
        assert_eq!(text, "x\\|y<br>z");
    }
}
