//! Options of a CSV file.

use thermocline_pushdown::CsvFields;

use super::error::CsvError;

/// Longest record accepted, in bytes. It bounds what an unclosed quote can
/// make a reader hold in memory.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;

/// Dialect of a CSV file, and where the columns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// Byte between two fields.
    pub delimiter: u8,
    /// Byte around a quoted field; `None`: the file has no quoted fields.
    pub quote: Option<u8>,
    /// Byte that makes the next byte of a quoted field data; `None` (or equal
    /// to `quote`): a quote in a quoted field is doubled.
    pub escape: Option<u8>,
    /// Whether the first record of the object names the columns.
    pub has_header: bool,
    /// An unquoted field with exactly this text is NULL.
    pub null_text: String,
    /// Which field of a record each column of the schema is; `None`: they are the schema's columns in
    /// its order.
    pub fields: Option<CsvFields>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            has_header: true,
            null_text: String::new(),
            fields: None,
        }
    }
}

impl CsvOptions {
    /// Checks that the options describe one grammar.
    ///
    /// # Errors
    ///
    /// [`CsvError::InvalidOptions`] when a special byte is not ASCII, is NUL or
    /// a line end, when two special bytes are equal, when there is an escape
    /// without a quote, or when `null_text` contains the delimiter, the quote
    /// or a line end.
    pub fn validate(&self) -> Result<(), CsvError> {
        let invalid = |reason: &str| Err(CsvError::InvalidOptions { reason: reason.to_owned() });
        let special = [Some(self.delimiter), self.quote, self.escape];
        if special.iter().flatten().any(|&byte| !byte.is_ascii() || matches!(byte, 0 | b'\n' | b'\r')) {
            return invalid("delimiter, quote and escape must be ASCII and no line end or NUL");
        }
        if self.quote == Some(self.delimiter) || self.escape == Some(self.delimiter) {
            return invalid("the delimiter must differ from quote and escape");
        }
        if self.escape.is_some() && self.quote.is_none() {
            return invalid("an escape needs a quote");
        }
        let null_text = self.null_text.as_bytes();
        if null_text
            .iter()
            .any(|&byte| byte == self.delimiter || Some(byte) == self.quote || matches!(byte, b'\n' | b'\r'))
        {
            return invalid("null_text must not contain the delimiter, the quote or a line end");
        }
        Ok(())
    }

    /// The special bytes alone.
    pub(super) fn dialect(&self) -> Dialect {
        Dialect {
            delimiter: self.delimiter,
            quote: self.quote,
            escape: self.escape.filter(|_| self.escape != self.quote),
        }
    }
}

/// The special bytes of a validated [`CsvOptions`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quote: Option<u8>,
    /// Differs from `quote`; `None`: quotes are doubled.
    pub(super) escape: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_valid() {
        assert!(CsvOptions::default().validate().is_ok());
    }

    #[test]
    fn ambiguous_options_are_refused() {
        let base = CsvOptions::default;
        for options in [
            CsvOptions { delimiter: b'"', ..base() },
            CsvOptions { delimiter: b'\n', ..base() },
            CsvOptions { delimiter: 0, ..base() },
            CsvOptions { delimiter: 0xE9, ..base() },
            CsvOptions { quote: Some(b'\r'), ..base() },
            CsvOptions { quote: None, escape: Some(b'\\'), ..base() },
            CsvOptions { escape: Some(b','), ..base() },
            CsvOptions { null_text: "a,b".into(), ..base() },
            CsvOptions { null_text: "\"\"".into(), ..base() },
        ] {
            assert!(matches!(options.validate(), Err(CsvError::InvalidOptions { .. })), "{options:?}");
        }
    }
}
