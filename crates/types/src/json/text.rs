//! The pieces of canonical text.
//!
//! The functions read text written by [`normalize`](super::normalize). They read any other text as something, without a
//! panic.

use std::borrow::Cow;
use std::fmt::Write;

/// Kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    String,
    Number,
    Boolean,
    Array,
    Object,
}

impl Kind {
    pub(super) fn of(document: &str) -> Self {
        match document.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    pub(super) const fn is_scalar(self) -> bool {
        !matches!(self, Self::Array | Self::Object)
    }
}

/// Elements of an array; none for any other document.
pub(super) fn elements(document: &str) -> impl Iterator<Item = &str> {
    let mut rest = inner(document, '[', ']');
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (element, behind) = rest.split_at(value_end(rest));
        rest = behind.strip_prefix(", ").unwrap_or_default();
        Some(element)
    })
}

/// Keys, as written between their quotes, and values of an object; none for any other document.
pub(super) fn pairs(document: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = inner(document, '{', '}');
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (key, behind) = rest.split_at(value_end(rest));
        let behind = behind.strip_prefix(": ").unwrap_or_default();
        let (value, behind) = behind.split_at(value_end(behind));
        rest = behind.strip_prefix(", ").unwrap_or_default();
        Some((inner(key, '"', '"'), value))
    })
}

fn inner(document: &str, open: char, close: char) -> &str {
    document.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).unwrap_or_default()
}

/// Where the value at the start of a text ends.
fn value_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Where the string ends that begins at a place.
pub(super) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Characters of a string without its quotes; of another scalar, its text.
pub(super) fn unquoted(string: &str) -> Cow<'_, str> {
    match Kind::of(string) {
        Kind::String => unescaped(inner(string, '"', '"')),
        _ => string.into(),
    }
}

/// Characters between quotes, escapes resolved.
pub(super) fn unescaped(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return written.into();
    }
    let mut said = String::with_capacity(written.len());
    let mut rest = written.chars();
    while let Some(next) = rest.next() {
        said.push(match next {
            '\\' => match rest.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => {
                    let digits =
                        rest.by_ref().take(4).fold(0, |code, digit| code << 4 | digit.to_digit(16).unwrap_or(0));
                    char::from_u32(digits).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        });
    }
    said.into()
}

/// Appends characters as a string has them between its quotes.
pub(super) fn put_escaped(out: &mut String, said: &str) {
    for character in said.chars() {
        put_character(out, character);
    }
}

pub(super) fn put_character(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // A String takes all that is written.
        control if control < ' ' => _ = write!(out, "\\u{:04x}", u32::from(control)),
        other => out.push(other),
    }
}

/// As [`put_escaped`], without a copy where that changes nothing.
pub(super) fn escaped(said: &str) -> Cow<'_, str> {
    if said.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        return said.into();
    }
    let mut out = String::with_capacity(said.len() + 2);
    put_escaped(&mut out, said);
    out.into()
}
