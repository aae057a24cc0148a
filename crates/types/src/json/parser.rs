//! Reading documents.

use std::cmp::Ordering;

use super::text::{put_character, unescaped};
use super::{BYTES_MAX, DEPTH_MAX, number};
use crate::error::{Class, Error, Result};

/// The canonical text of a document.
///
/// # Errors
/// If the text is not JSON (22P02, with the place), has a NUL (22P05), a number with more digits than a NUMERIC
/// (22003), or is nested more than [`DEPTH_MAX`] deep (54001) or longer than [`BYTES_MAX`] (54000).
pub fn normalize(text: &str) -> Result<String> {
    let parser = Parser { text, at: 0, out: String::with_capacity(text.len()), open: vec![], pairs: vec![] };
    parser.document()
}

/// An array or an object that has begun.
enum Open {
    Array,
    Object {
        /// Where its first pair is in the output.
        start: usize,
        /// Number of pairs of outer objects.
        pairs: usize,
        /// Whether each key is behind the one before.
        is_sorted: bool,
    },
}

/// A pair in the output.
#[derive(Clone, Copy)]
struct Pair {
    /// Where its key is, between the quotes.
    key: (usize, usize),
    /// Bytes of the key without escapes.
    key_bytes: usize,
    /// Where its value ends.
    end: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    out: String,
    open: Vec<Open>,
    /// Those of the objects that are open.
    pairs: Vec<Pair>,
}

impl Parser<'_> {
    fn document(mut self) -> Result<String> {
        loop {
            let is_whole = self.value()?;
            if is_whole && self.behind_value()? {
                break;
            }
        }
        match self.peek() {
            None if self.out.len() > BYTES_MAX => Err(too_long()),
            None => Ok(self.out),
            Some(_) => Err(self.unexpected("the end")),
        }
    }

    /// Reads a scalar or an empty array or object (true), or the opening of one up to its first value (false).
    fn value(&mut self) -> Result<bool> {
        if self.out.len() > BYTES_MAX {
            return Err(too_long());
        }
        match self.peek() {
            Some(b'[') => {
                self.begin('[')?;
                if self.peek() == Some(b']') {
                    self.take(']');
                    return Ok(true);
                }
                self.open.push(Open::Array);
                Ok(false)
            }
            Some(b'{') => {
                self.begin('{')?;
                if self.peek() == Some(b'}') {
                    self.take('}');
                    return Ok(true);
                }
                self.open.push(Open::Object { start: self.out.len(), pairs: self.pairs.len(), is_sorted: true });
                self.key()?;
                Ok(false)
            }
            Some(b'"') => self.string().map(|_| true),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| true),
            Some(_) => self.word().map(|()| true),
            None => Err(self.unexpected("a value")),
        }
    }

    /// Reads from the end of a value to the beginning of the next; returns whether the document has ended.
    fn behind_value(&mut self) -> Result<bool> {
        loop {
            let next = self.peek();
            match (self.open.last(), next) {
                (None, _) => return Ok(true),
                (Some(Open::Array), Some(b',')) => {
                    self.take(',');
                    self.out.push(' ');
                    return Ok(false);
                }
                (Some(Open::Array), Some(b']')) => {
                    self.take(']');
                    self.open.pop();
                }
                (Some(Open::Object { .. }), Some(b',')) => {
                    self.end_pair();
                    self.take(',');
                    self.out.push(' ');
                    self.key()?;
                    return Ok(false);
                }
                (Some(Open::Object { .. }), Some(b'}')) => {
                    self.end_pair();
                    self.end_object();
                    self.take('}');
                }
                (Some(Open::Array), _) => return Err(self.unexpected("\",\" or \"]\"")),
                (Some(Open::Object { .. }), _) => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn begin(&mut self, bracket: char) -> Result<()> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Class::TooDeep.error(format_args!(
                "JSON is nested more than {DEPTH_MAX} deep at character {}",
                self.character(self.at)
            )));
        }
        self.take(bracket);
        Ok(())
    }

    /// A key and the colon behind it.
    fn key(&mut self) -> Result<()> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key"));
        }
        let start = self.out.len() + 1;
        let key_bytes = self.string()?;
        let key = (start, self.out.len() - 1);
        if self.peek() != Some(b':') {
            return Err(self.unexpected("\":\""));
        }
        self.take(':');
        self.out.push(' ');
        let pair = Pair { key, key_bytes, end: 0 };
        if let Some(Open::Object { pairs, is_sorted, .. }) = self.open.last_mut()
            && let Some(before) = self.pairs.get(*pairs..).and_then(<[Pair]>::last)
        {
            *is_sorted &= order(&self.out, before, &pair) == Ordering::Less;
        }
        self.pairs.push(pair);
        Ok(())
    }

    fn end_pair(&mut self) {
        let end = self.out.len();
        if let Some(pair) = self.pairs.last_mut() {
            pair.end = end;
        }
    }

    /// Brings the pairs of an object into their order; of pairs with equal keys the last stays.
    fn end_object(&mut self) {
        let Some(Open::Object { start, pairs, is_sorted }) = self.open.pop() else { return };
        if is_sorted {
            self.pairs.truncate(pairs);
            return;
        }
        let mut own = self.pairs.split_off(pairs);
        // Stable: of equal keys the last stays the last.
        own.sort_by(|one, other| order(&self.out, one, other));
        let mut sorted = String::with_capacity(self.out.len() - start);
        for (place, pair) in own.iter().enumerate() {
            if own.get(place + 1).is_some_and(|next| order(&self.out, pair, next) == Ordering::Equal) {
                continue;
            }
            if !sorted.is_empty() {
                sorted.push_str(", ");
            }
            // With the quote in front of the key.
            sorted.push_str(self.out.get(pair.key.0 - 1..pair.end).unwrap_or_default());
        }
        self.out.truncate(start);
        self.out.push_str(&sorted);
    }

    /// A string; gives how many bytes it has without escapes.
    fn string(&mut self) -> Result<usize> {
        self.take('"');
        let start = self.out.len();
        let mut escapes = 0_usize;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | ..b' ')).unwrap_or(rest.len());
            self.out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match rest.as_bytes().get(plain) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let character = self.escape()?;
                    let before = self.out.len();
                    put_character(&mut self.out, character);
                    escapes += self.out.len() - before - character.len_utf8();
                }
                Some(control) => {
                    let message = format_args!("character 0x{control:02x} must be escaped").to_string();
                    return Err(self.invalid(self.at, message));
                }
                None => return Err(self.invalid(self.at, "a string has no end")),
            }
        }
        let bytes = self.out.len() - start - escapes;
        self.take('"');
        Ok(bytes)
    }

    /// The character that an escape stands for.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let letter = self.text.as_bytes().get(start + 1).copied();
        self.at += 2;
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.code(start)?;
                match first {
                    0 => {
                        return Err(Class::UntranslatableCharacter.error(format_args!(
                            "\\u0000 cannot be converted to text, at character {}",
                            self.character(start)
                        )));
                    }
                    0xd800..=0xdbff => {
                        let is_pair = self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u"));
                        let second = match is_pair {
                            true => {
                                self.at += 2;
                                self.code(start)?
                            }
                            false => 0,
                        };
                        let pair = char::decode_utf16([first, second]).next();
                        match pair {
                            Some(Ok(character)) => character,
                            _ => {
                                return Err(self.invalid(start, "a Unicode low surrogate must follow a high surrogate"));
                            }
                        }
                    }
                    code => match char::from_u32(code.into()) {
                        Some(character) => character,
                        None => {
                            return Err(self.invalid(start, "a Unicode low surrogate must follow a high surrogate"));
                        }
                    },
                }
            }
            _ => return Err(self.invalid(start, "an escape that JSON does not have")),
        })
    }

    /// Four hexadecimal digits.
    fn code(&mut self, start: usize) -> Result<u16> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => Err(self.invalid(start, "\"\\u\" must be followed by four hexadecimal digits")),
        }
    }

    fn number(&mut self) -> Result<()> {
        let start = self.at;
        self.at = self.number_end()?;
        let put = number::put(&mut self.out, self.text.get(start..self.at).unwrap_or_default());
        put.or_else(|error| {
            // The text after it is read first: if that is not JSON, it is the error to report.
            match self.peek() {
                Some(b'"') => self.string().map(drop)?,
                Some(b'-' | b'0'..=b'9') => self.number_end().map(drop)?,
                Some(b'[' | b']' | b'{' | b'}' | b',' | b':') | None => {}
                Some(_) => self.word()?,
            }
            Err(error)
        })
    }

    /// Where the number ends that begins here.
    fn number_end(&self) -> Result<usize> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let is = |at: usize, of: &[u8]| bytes.get(at).is_some_and(|byte| of.contains(byte));
        let mut at = start;
        at += usize::from(is(at, b"-"));
        let mut is_number = true;
        if is(at, b"0") {
            at += 1;
        } else {
            let whole = digits(at);
            is_number &= whole > 0;
            at += whole;
        }
        if is(at, b".") {
            let fraction = digits(at + 1);
            is_number &= fraction > 0;
            at += 1 + fraction;
        }
        if is(at, b"eE") {
            at += 1;
            at += usize::from(is(at, b"+-"));
            let exponent = digits(at);
            is_number &= exponent > 0;
            at += exponent;
        }
        // A letter or a digit behind it belongs to it.
        let behind = bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80);
        if !is_number || behind {
            return Err(self.invalid_word());
        }
        Ok(at)
    }

    fn word(&mut self) -> Result<()> {
        let start = self.at;
        let end = self.word_end(start);
        match self.text.get(start..end) {
            Some(word @ ("true" | "false" | "null")) => {
                self.out.push_str(word);
                self.at = end;
                Ok(())
            }
            Some("") | None => Err(self.unexpected("a value")),
            Some(_) => Err(self.invalid_word()),
        }
    }

    /// Where the letters and digits from a place on end.
    fn word_end(&self, start: usize) -> usize {
        let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.' | 0x80..);
        start + self.text.bytes().skip(start).take_while(belongs).count()
    }

    fn invalid_word(&self) -> Error {
        let word = self.text.get(self.at..self.word_end(self.at)).unwrap_or_default();
        self.invalid(self.at, format_args!("\"{word}\" is no value"))
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Goes past a character that was seen, and writes it.
    fn take(&mut self, character: char) {
        self.out.push(character);
        self.at += 1;
    }

    fn unexpected(&self, wanted: &str) -> Error {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => self.invalid(self.at, format_args!("\"{found}\" where {wanted} was expected")),
            None => self.invalid(self.at, format_args!("the text ends where {wanted} was expected")),
        }
    }

    fn invalid(&self, at: usize, what: impl std::fmt::Display) -> Error {
        Class::InvalidText.error(format_args!("invalid JSON at character {}: {what}", self.character(at)))
    }

    /// The number of a character, from 1.
    fn character(&self, at: usize) -> usize {
        self.text.get(..at).map_or(0, |before| before.chars().count()) + 1
    }
}

fn too_long() -> Error {
    Class::LimitExceeded.error(format_args!("a JSON document of more than {BYTES_MAX} bytes"))
}

/// Keys in the order of their lengths, then of their bytes.
fn order(out: &str, one: &Pair, other: &Pair) -> Ordering {
    one.key_bytes.cmp(&other.key_bytes).then_with(|| {
        let key = |pair: &Pair| unescaped(out.get(pair.key.0..pair.key.1).unwrap_or_default());
        key(one).as_bytes().cmp(key(other).as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_written_as_postgresql_does() {
        for (text, canonical) in [
            (" [ 1 , 2.50,\t-0e1 ]\n", "[1, 2.50, 0]"),
            ("{}", "{}"),
            ("[]", "[]"),
            ("{\"b\":1,\"a\":2,\"aa\":3,\"b\":[4]}", "{\"a\": 2, \"b\": [4], \"aa\": 3}"),
            ("{\"x\":{\"b\":{},\"a\":[]},\"w\":null}", "{\"w\": null, \"x\": {\"a\": [], \"b\": {}}}"),
            ("\"\\u00e4\\/\\n\\u0001\\ud83d\\ude00\\\"\\u007f\"", "\"ä/\\n\\u0001😀\\\"\u{7f}\""),
            // Keys are ordered by the length of their content, without escapes.
            ("{\"\\n\":1,\"ab\":2,\"\\u0061\":3}", "{\"\\n\": 1, \"a\": 3, \"ab\": 2}"),
            ("true", "true"),
            ("1e2", "100"),
        ] {
            assert_eq!(normalize(text).unwrap(), canonical, "{text}");
            assert_eq!(normalize(canonical).unwrap(), canonical);
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (text, state, place) in [
            ("", "22P02", "character 1:"),
            ("  ", "22P02", "character 3:"),
            ("[1,]", "22P02", "character 4:"),
            ("[1 2]", "22P02", "character 4:"),
            ("{\"a\" 1}", "22P02", "character 6:"),
            ("{a:1}", "22P02", "character 2:"),
            ("{\"a\":1,}", "22P02", "character 8:"),
            ("{\"a\":1", "22P02", "character 7:"),
            ("\"ä", "22P02", "character 3:"),
            ("\"a\tb\"", "22P02", "character 3:"),
            ("\"\\x\"", "22P02", "character 2:"),
            ("\"\\u12\"", "22P02", "character 2:"),
            ("\"\\ud800\"", "22P02", "character 2:"),
            ("\"\\udc00\"", "22P02", "character 2:"),
            ("\"\\ud800\\u0041\"", "22P02", "character 2:"),
            ("\"\\u0000\"", "22P05", "character 2"),
            ("01", "22P02", "character 1:"),
            ("1.", "22P02", "character 1:"),
            (".5", "22P02", "character 1:"),
            ("+1", "22P02", "character 1:"),
            ("1e", "22P02", "character 1:"),
            ("-", "22P02", "character 1:"),
            ("1a", "22P02", "character 1:"),
            ("truE", "22P02", "character 1:"),
            ("nul", "22P02", "character 1:"),
            ("1 1", "22P02", "character 3:"),
            ("]", "22P02", "character 1:"),
            ("1e200000", "22003", ""),
        ] {
            let error = normalize(text).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{text}");
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
    }

    #[test]
    fn nesting_and_length_are_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(normalize(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(normalize(&nested(DEPTH_MAX + 1)).unwrap_err().sqlstate(), "54001");
        assert_eq!(normalize(&"[".repeat(1 << 20)).unwrap_err().sqlstate(), "54001");
        let large = format!("[{}1]", "1e131071,".repeat(200));
        assert_eq!(normalize(&large).unwrap_err().sqlstate(), "54000");
    }
}
