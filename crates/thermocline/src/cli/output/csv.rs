//! CSV as in RFC 4180, with `\n` line ends. NULL is an empty field, an empty string is `""`: unlike with Arrow's
//! writer, a reader can distinguish them. Lists, structs and maps are JSON.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;

use super::cells::{Cells, Columns};

/// Appends the header line.
pub fn header(schema: &Schema, text: &mut String) {
    for (i, field) in schema.fields().iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        let start = text.len();
        text.push_str(field.name());
        quote_from(start, text);
    }
    text.push('\n');
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
            if column > 0 {
                text.push(',');
            }
            let start = text.len();
            if cells.write(row, column, text).map_err(|_| no_text(batch, column))? {
                quote_from(start, text);
            }
        }
        text.push('\n');
    }
    Ok(())
}

/// The error for a value that cannot be shown, such as a date out of the calendar.
pub fn no_text(batch: &RecordBatch, column: usize) -> ArrowError {
    let schema = batch.schema();
    let name = schema.fields().get(column).map_or("", |field| field.name().as_str());
    ArrowError::CastError(format!("column {name}: a value cannot be shown as text"))
}

/// Quotes the text appended since `start`, if necessary.
fn quote_from(start: usize, text: &mut String) {
    let value = text.get(start..).unwrap_or_default();
    if !value.is_empty() && !value.contains([',', '"', '\n', '\r']) {
        return;
    }
    let quoted = format!("\"{}\"", value.replace('"', "\"\""));
    text.truncate(start);
    text.push_str(&quoted);
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn quotes_what_must_be_quoted() {
        let batch = samples::kinds();
        let mut text = String::new();
        header(&batch.schema(), &mut text);
        rows(&batch, &mut text).unwrap();
        assert_eq!(
            text,
            "i,f,d,b,s,v,k,day,at\n\
             9223372036854775807,0.1,-123.45,true,\"a,\"\"b\"\"\nc\",größe,x,1970-01-01,1970-01-01T00:00:01.500Z\n\
             ,,,,,,,,\n\
             -9223372036854775808,NaN,0.07,false,\"\",\u{1},x,1969-12-31,1970-01-01T00:00:00Z\n"
        );
    }
}
