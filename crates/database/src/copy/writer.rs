//! Rows into a stream in PostgreSQL's CSV and text formats.

use std::io::{self, Write};

use thermocline_transactions::Result as RowResult;
use thermocline_transactions::types::{DataType, Value, ValueRef, cast};

use super::format::CopyFormat;

/// Write size, in bytes.
const WRITE_BYTES: usize = 64 << 10;

/// Writer of rows in PostgreSQL's COPY formats.
pub struct RowWriter<W> {
    output: W,
    format: CopyFormat,
    lines: Vec<u8>,
}

impl<W: Write> RowWriter<W> {
    /// Begins with a header if the format has one.
    pub fn new<'n>(output: W, format: CopyFormat, names: impl Iterator<Item = &'n str>) -> Self {
        let mut writer = Self { output, format, lines: Vec::with_capacity(WRITE_BYTES) };
        if writer.format.has_header {
            let names: Vec<_> = names.collect();
            for (position, name) in names.iter().enumerate() {
                writer.begin_field(position);
                writer.push(name, names.len() == 1);
            }
            writer.lines.push(b'\n');
        }
        writer
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a value has no text form, or on I/O errors.
    pub fn push_row(&mut self, values: &[ValueRef<'_>]) -> RowResult<io::Result<()>> {
        for (position, value) in values.iter().enumerate() {
            self.begin_field(position);
            match *value {
                ValueRef::Null => self.lines.extend_from_slice(self.format.null.as_bytes()),
                ValueRef::Text(text) => self.push(text, values.len() == 1),
                ValueRef::Boolean(value) => self.push(if value { "t" } else { "f" }, false),
                other => match cast(other, DataType::Text)? {
                    Value::Text(text) => self.push(&text, false),
                    _ => self.lines.extend_from_slice(self.format.null.as_bytes()),
                },
            }
        }
        self.lines.push(b'\n');
        Ok(if self.lines.len() >= WRITE_BYTES { self.write() } else { Ok(()) })
    }

    /// Writes the rest of the buffer, flushes, and returns the stream.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish(mut self) -> io::Result<W> {
        self.write()?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write(&mut self) -> io::Result<()> {
        self.output.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }

    fn begin_field(&mut self, position: usize) {
        if position > 0 {
            self.lines.push(self.format.delimiter);
        }
    }

    fn push(&mut self, text: &str, is_alone: bool) {
        if self.format.is_csv { self.push_csv(text, is_alone) } else { self.push_escaped(text) }
    }

    fn push_csv(&mut self, text: &str, is_alone: bool) {
        let CopyFormat { quote, escape, delimiter, .. } = self.format;
        let splits = |byte: u8| byte == quote || byte == delimiter || matches!(byte, b'\n' | b'\r');
        // Alone on a line, it would be the end mark.
        let is_quoted = text == self.format.null || text.bytes().any(splits) || is_alone && text == "\\.";
        if !is_quoted {
            self.lines.extend_from_slice(text.as_bytes());
            return;
        }
        self.lines.push(quote);
        for byte in text.bytes() {
            if byte == quote || byte == escape {
                self.lines.push(escape);
            }
            self.lines.push(byte);
        }
        self.lines.push(quote);
    }

    fn push_escaped(&mut self, text: &str) {
        for byte in text.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.format.delimiter => byte,
                byte => {
                    self.lines.push(byte);
                    continue;
                }
            };
            self.lines.extend_from_slice(&[b'\\', letter]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RowReader;
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let texts = ["", "a", "\\N", "\\.", "a,b;c\td", "\"q\" 'r'", "two\nlines\r\n", "\\back\\", "-", "\u{8}\u{b}ü"];
        let csv = CopyFormat {
            is_csv: true,
            has_header: false,
            may_have_header: false,
            delimiter: b',',
            null: String::new(),
            quote: b'"',
            escape: b'"',
        };
        let other = CopyFormat { delimiter: b';', null: "-".to_owned(), quote: b'\'', escape: b'\\', ..csv.clone() };
        let text = CopyFormat { is_csv: false, delimiter: b'\t', null: "\\N".to_owned(), ..csv.clone() };
        let piped = CopyFormat { delimiter: b'|', ..text.clone() };
        for format in [csv, other, text, piped] {
            for width in [1, 2] {
                let mut bytes = Vec::new();
                let mut writer = RowWriter::new(&mut bytes, format.clone(), [].into_iter());
                for text in texts {
                    writer.push_row(&vec![ValueRef::Text(text); width]).unwrap().unwrap();
                    writer.push_row(&vec![ValueRef::Null; width]).unwrap().unwrap();
                }
                writer.finish().unwrap();
                let mut reader = RowReader::new(&bytes[..], format.clone()).unwrap();
                for text in texts {
                    for expected in [Some(text), None] {
                        assert!(reader.next_row().unwrap(), "{format:?}: {text}");
                        assert_eq!(reader.len(), width);
                        assert_eq!(reader.field(width - 1).unwrap(), expected, "{format:?}");
                    }
                }
                assert!(!reader.next_row().unwrap());
            }
        }
    }
}
