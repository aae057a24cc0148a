//! Rows from a stream in PostgreSQL's CSV and text formats, with limits on rows and fields.

use std::io::{ErrorKind, Read};

use thermocline_types::{Class, Error, Result};

use super::format::CopyFormat;

/// Read size, in bytes.
const READ_BYTES: usize = 64 << 10;
/// Limit on bytes of a row.
const ROW_BYTES_MAX: usize = 16 << 20;
/// Limit on fields of a row, larger than the limit on columns of a table.
const FIELDS_MAX: usize = 1 << 16;
/// End mark, alone on a line.
const END_MARK: &[u8] = b"\\.";

/// Reader of rows in PostgreSQL's COPY formats.
///
/// ```text
/// CSV   a,"b ""c"", d",,""        NULL is without quotes: [a] [b "c", d] [NULL] []
/// text  a \t b\tc \t \N           NULL is without an escape of its own: [a] [b(tab)c] [NULL]
/// ```
pub struct RowReader<R> {
    input: R,
    format: CopyFormat,
    buffer: Box<[u8]>,
    /// Unread part of the buffer: from `at` to `filled`.
    at: usize,
    filled: usize,
    /// Line in which the row begins, from 1.
    line: u64,
    /// Line of the next byte.
    line_next: u64,
    /// Bytes of the row's fields, without quotes and escapes.
    bytes: Vec<u8>,
    /// End of each field in `bytes`, and whether it is NULL.
    fields: Vec<(usize, bool)>,
    /// Current field with its escapes, in the text format.
    raw: Vec<u8>,
    is_over: bool,
}

impl<R: Read> RowReader<R> {
    /// Reads from the start of `input`, and skips a byte order mark and, if the format has one, the header.
    ///
    /// # Errors
    /// As [`RowReader::next_row`].
    pub fn new(input: R, format: CopyFormat) -> Result<Self> {
        let has_header = format.has_header;
        let mut reader = Self {
            input,
            format,
            buffer: vec![0; READ_BYTES].into(),
            at: 0,
            filled: 0,
            line: 1,
            line_next: 1,
            bytes: Vec::new(),
            fields: Vec::new(),
            raw: Vec::new(),
            is_over: false,
        };
        reader.fill()?;
        if reader.buffer.get(..reader.filled).is_some_and(|bytes| bytes.starts_with("\u{feff}".as_bytes())) {
            reader.at = "\u{feff}".len();
        }
        if has_header {
            reader.next_row()?;
        }
        Ok(reader)
    }

    /// Advances to the next row; false at the end of the input or at an end mark.
    ///
    /// # Errors
    /// Invalid or too long rows, and I/O errors.
    pub fn next_row(&mut self) -> Result<bool> {
        self.bytes.clear();
        self.fields.clear();
        self.line = self.line_next;
        if self.is_over || self.peek()?.is_none() {
            self.is_over = true;
            return Ok(false);
        }
        let is_marked = if self.format.is_csv { self.csv_row()? } else { self.text_row()? };
        self.is_over = is_marked;
        Ok(!is_marked)
    }

    /// Line in which the row begins, from 1.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Number of fields of the row.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field of the row; `None` if it is NULL or missing.
    ///
    /// # Errors
    /// Invalid UTF-8.
    pub fn field(&self, position: usize) -> Result<Option<&str>> {
        let Some((end, false)) = self.fields.get(position).copied() else { return Ok(None) };
        let start = position.checked_sub(1).and_then(|before| self.fields.get(before)).map_or(0, |(end, _)| *end);
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
                Err(Class::BadCopyFormat.error(format_args!("it is not UTF-8 text: byte 0x{byte:02x}")))
            }
        }
    }

    /// Reads a CSV row; true if it is the end mark.
    fn csv_row(&mut self) -> Result<bool> {
        let (quote, escape, delimiter) = (self.format.quote, self.format.escape, self.format.delimiter);
        let (mut is_quoted, mut was_quoted) = (false, false);
        loop {
            let Some(byte) = self.take()? else {
                if is_quoted {
                    return Err(Class::BadCopyFormat.error("a quote is not closed"));
                }
                self.end_field(was_quoted)?;
                return Ok(self.is_end_mark(was_quoted));
            };
            if is_quoted {
                match self.peek()? {
                    Some(next) if byte == escape && (next == quote || next == escape) => {
                        self.at += 1;
                        self.push(next)?;
                    }
                    _ if byte == quote => is_quoted = false,
                    _ => self.push(byte)?,
                }
                if byte == b'\n' {
                    self.line_next += 1;
                }
            } else if byte == quote {
                (is_quoted, was_quoted) = (true, true);
            } else if byte == delimiter {
                self.end_field(was_quoted)?;
                was_quoted = false;
            } else if self.ends_line(byte)? {
                self.end_field(was_quoted)?;
                return Ok(self.is_end_mark(was_quoted));
            } else {
                self.push(byte)?;
            }
        }
    }

    fn is_end_mark(&self, was_quoted: bool) -> bool {
        !was_quoted && self.fields.len() == 1 && self.bytes == END_MARK
    }

    /// Reads a row of the text format; true if it is the end mark.
    fn text_row(&mut self) -> Result<bool> {
        self.raw.clear();
        loop {
            let Some(byte) = self.take()? else {
                let is_marked = self.fields.is_empty() && self.raw == END_MARK;
                self.end_raw_field()?;
                return Ok(is_marked);
            };
            if byte == b'\\' {
                self.escaped()?;
            } else if byte == self.format.delimiter {
                self.end_raw_field()?;
            } else if self.ends_line(byte)? {
                let is_marked = self.fields.is_empty() && self.raw == END_MARK;
                self.end_raw_field()?;
                return Ok(is_marked);
            } else {
                self.raw.push(byte);
                self.push(byte)?;
            }
        }
    }

    /// Reads the rest of a backslash sequence and appends its character.
    fn escaped(&mut self) -> Result<()> {
        self.raw.push(b'\\');
        let Some(byte) = self.take()? else { return self.push(b'\\') };
        self.raw.push(byte);
        if byte == b'\n' {
            self.line_next += 1;
        }
        let meant = match byte {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => self.digits(byte - b'0', 8, 2)?,
            b'x' => match self.peek()?.and_then(|next| digit(next, 16)) {
                Some(first) => {
                    self.raw.extend(self.buffer.get(self.at));
                    self.at += 1;
                    self.digits(first, 16, 1)?
                }
                None => byte,
            },
            other => other,
        };
        self.push(meant)
    }

    /// Reads up to `more` digits behind the first one and returns the number.
    fn digits(&mut self, first: u8, base: u8, more: usize) -> Result<u8> {
        let mut number = first;
        for _ in 0..more {
            let Some(byte) = self.peek()? else { break };
            let Some(next) = digit(byte, base) else { break };
            self.raw.push(byte);
            self.at += 1;
            number = number.wrapping_mul(base).wrapping_add(next);
        }
        Ok(number)
    }

    fn end_raw_field(&mut self) -> Result<()> {
        let is_null = self.raw == self.format.null.as_bytes();
        self.raw.clear();
        self.push_field(is_null)
    }

    fn end_field(&mut self, was_quoted: bool) -> Result<()> {
        let start = self.fields.last().map_or(0, |(end, _)| *end);
        let is_null = !was_quoted && self.bytes.get(start..) == Some(self.format.null.as_bytes());
        self.push_field(is_null)
    }

    fn push_field(&mut self, is_null: bool) -> Result<()> {
        if self.fields.len() >= FIELDS_MAX {
            return Err(Class::LimitExceeded.error(format_args!("a row of more than {FIELDS_MAX} fields")));
        }
        self.fields.push((self.bytes.len(), is_null));
        Ok(())
    }

    fn push(&mut self, byte: u8) -> Result<()> {
        if self.bytes.len() >= ROW_BYTES_MAX {
            return Err(Class::LimitExceeded.error(format_args!("a row longer than {ROW_BYTES_MAX} bytes")));
        }
        self.bytes.push(byte);
        Ok(())
    }

    /// Whether the byte just taken ends the line; takes the second byte of CR LF.
    fn ends_line(&mut self, byte: u8) -> Result<bool> {
        match byte {
            b'\n' => {}
            b'\r' => match self.peek()? {
                Some(b'\n') => self.at += 1,
                None => {}
                Some(_) => {
                    let hint = if self.format.is_csv { "put it into quotes" } else { "write \\r" };
                    return Err(
                        Class::BadCopyFormat.error(format_args!("a carriage return that does not end a line: {hint}"))
                    );
                }
            },
            _ => return Ok(false),
        }
        self.line_next += 1;
        Ok(true)
    }

    #[inline]
    fn take(&mut self) -> Result<Option<u8>> {
        let byte = self.peek()?;
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<u8>> {
        if self.at == self.filled {
            self.fill()?;
        }
        Ok(self.buffer.get(self.at).copied().filter(|_| self.at < self.filled))
    }

    #[cold]
    fn fill(&mut self) -> Result<()> {
        (self.at, self.filled) = (0, 0);
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(count) => {
                    self.filled = count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io(error.to_string().into())),
            }
        }
    }
}

fn digit(byte: u8, base: u8) -> Option<u8> {
    char::from(byte).to_digit(base.into()).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(is_csv: bool) -> CopyFormat {
        let (delimiter, null) = if is_csv { (b',', String::new()) } else { (b'\t', "\\N".to_owned()) };
        CopyFormat { is_csv, has_header: false, may_have_header: false, delimiter, null, quote: b'"', escape: b'"' }
    }

    /// The rows, each with its line, and the error that ends them.
    fn rows(text: &[u8], format: CopyFormat) -> (Vec<String>, Option<String>) {
        let mut rows = vec![];
        let mut reader = match RowReader::new(text, format) {
            Ok(reader) => reader,
            Err(error) => return (rows, Some(error.to_string())),
        };
        loop {
            match reader.next_row() {
                Ok(true) => {
                    let fields = (0..reader.len()).map(|field| match reader.field(field) {
                        Ok(Some(text)) => format!("[{text}]"),
                        Ok(None) => "NULL".to_owned(),
                        Err(error) => error.to_string(),
                    });
                    rows.push(format!("{}: {}", reader.line(), fields.collect::<Vec<_>>().join(" ")));
                }
                Ok(false) => return (rows, None),
                Err(error) => return (rows, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn rows_of_too_many_fields_are_refused() {
        for (is_csv, delimiter) in [(true, ","), (false, "\t")] {
            let fields = |count: usize| delimiter.repeat(count - 1).into_bytes();
            assert_eq!(rows(&fields(FIELDS_MAX), format(is_csv)).1, None);
            let error = rows(&fields(FIELDS_MAX + 1), format(is_csv)).1;
            assert!(error.is_some_and(|error| error.contains("more than 65536 fields")));
        }
    }

    #[test]
    fn csv_is_read_as_postgresql_does() {
        let text = b"a,\"b \"\"c\"\", d\",,\"\"\r\n\"two\nlines\",x\"y,z\"w\n\n\\.x\nlast";
        let (found, error) = rows(text, format(true));
        let expected = ["1: [a] [b \"c\", d] NULL []", "2: [two\nlines] [xy,zw]", "4: NULL", "5: [\\.x]", "6: [last]"];
        assert_eq!((found, error), (expected.map(str::to_owned).to_vec(), None));
        assert_eq!(rows(b"1\n\\.\n2\n", format(true)).0, ["1: [1]"]);
        let (found, error) = rows(b"1\n\"2\n3", format(true));
        assert_eq!((found.len(), error.is_some_and(|error| error.contains("not closed"))), (1, true));
        assert!(rows(b"a\rb\n", format(true)).1.is_some());
        let other = CopyFormat { delimiter: b';', null: "-".to_owned(), quote: b'\'', escape: b'\\', ..format(true) };
        assert_eq!(rows(b"-;'-';'a\\'b\\\\c\\d';\n", other).0, ["1: NULL [-] [a'b\\c\\d] []"]);
        let headed = CopyFormat { has_header: true, ..format(true) };
        assert_eq!(rows(b"\xef\xbb\xbfa,\"b\n\"\n1,2\n", headed).0, ["3: [1] [2]"]);
        assert_eq!(rows(b"", format(true)), (vec![], None));
        assert!(rows(b"\xff\n", format(true)).0[0].contains("0xff"));
    }

    #[test]
    fn text_is_read_as_postgresql_does() {
        let text = b"a\\tb\tc\\\\d\t\\N\t\t\\\\N\n\\x41\\x4a1\\101\\7z\\q\\\n!\r\nend\\";
        let (found, error) = rows(text, format(false));
        let expected = ["1: [a\tb] [c\\d] NULL [] [\\N]", "2: [AJ1A\u{7}zq\n!]", "4: [end\\]"];
        assert_eq!((found, error), (expected.map(str::to_owned).to_vec(), None));
        assert_eq!(rows(b"1\n\\.\n2\n", format(false)).0, ["1: [1]"]);
    }

    #[test]
    fn fields_do_not_depend_on_pieces_of_reading() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(&mut buffer[..1])
            }
        }
        for is_csv in [true, false] {
            let text = b"a,\"b \"\"c\"\"\",\\x41\\t\tx\r\n1\t2,3\\\\\r\n";
            let (mut slow, mut fast) = (
                RowReader::new(Slow(text), format(is_csv)).unwrap(),
                RowReader::new(&text[..], format(is_csv)).unwrap(),
            );
            while fast.next_row().unwrap() {
                assert!(slow.next_row().unwrap());
                assert_eq!((&slow.fields, &slow.bytes, slow.line), (&fast.fields, &fast.bytes, fast.line));
            }
            assert!(!slow.next_row().unwrap());
        }
    }
}
