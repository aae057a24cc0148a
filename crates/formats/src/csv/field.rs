//! One field: from its bytes in the file to its content.

use super::options::{CsvOptions, Dialect};

/// Rules that decide whether a field is NULL.
#[derive(Debug, Clone)]
pub(super) struct FieldRules {
    pub(super) dialect: Dialect,
    pub(super) null_text: Box<[u8]>,
    /// Whether the column may hold NULL.
    pub(super) nullable: bool,
}

impl FieldRules {
    pub(super) fn new(options: &CsvOptions, nullable: bool) -> Self {
        Self { dialect: options.dialect(), null_text: options.null_text.as_bytes().into(), nullable }
    }
}

/// Why a field was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadField {
    Value,
    Utf8,
    Null,
    /// Not the field but the column: its offsets are exhausted.
    TooLarge,
}

/// Content of a quoted field, `None` for an unquoted one.
///
/// The scanner lets a field that starts with a quote pass only if it ends with
/// the closing one. `scratch` holds the content when it is not a part of `raw`.
#[inline]
pub(super) fn unquote<'a>(raw: &'a [u8], dialect: Dialect, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let quote = dialect.quote?;
    let [first, content @ .., _] = raw else {
        return None;
    };
    if *first != quote {
        return None;
    }
    // A doubled quote and an escaped byte have the same shape: drop the first byte and keep the second.
    let marker = dialect.escape.unwrap_or(quote);
    let Some(mut at) = memchr::memchr(marker, content) else {
        return Some(content);
    };
    scratch.clear();
    let mut rest = content;
    loop {
        let (before, from) = rest.split_at(at);
        scratch.extend_from_slice(before);
        let [_, kept, after @ ..] = from else {
            return Some(scratch);
        };
        scratch.push(*kept);
        rest = after;
        match memchr::memchr(marker, rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    scratch.extend_from_slice(rest);
    Some(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(raw: &str, escape: Option<u8>) -> Option<String> {
        let dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape };
        let mut scratch = Vec::new();
        unquote(raw.as_bytes(), dialect, &mut scratch).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    #[test]
    fn doubled_quotes() {
        assert_eq!(content("ab", None), None);
        assert_eq!(content("", None), None);
        assert_eq!(content(r#""""#, None).as_deref(), Some(""));
        assert_eq!(content(r#""a""b""""c""#, None).as_deref(), Some(r#"a"b""c"#));
        assert_eq!(content(r#""""""#, None).as_deref(), Some(r#"""#));
    }

    #[test]
    fn escaped_bytes() {
        let escape = Some(b'\\');
        assert_eq!(content(r#""a\"b\\c\d""#, escape).as_deref(), Some(r#"a"b\cd"#));
    }
}
