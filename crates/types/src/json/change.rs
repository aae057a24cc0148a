//! `||` and `-`.

use std::cmp::Ordering;

use super::order::count;
use super::text::{Kind, elements, escaped, pairs, string_end, unescaped};
use super::{BYTES_MAX, DEPTH_MAX};
use crate::error::{Class, Result};

/// Pairs of both objects, with those of the second replacing the first's; otherwise elements of both arrays, where a
/// scalar, or an object beside something else, counts as an array of itself.
///
/// # Errors
/// If the result is too long or too deep.
pub(crate) fn concatenate(one: &str, other: &str) -> Result<String> {
    let out = match (Kind::of(one), Kind::of(other)) {
        (Kind::Object, Kind::Object) => merged(one, other),
        (first, second) => {
            let of = |document: &str, kind: Kind| match kind {
                Kind::Array => elements(document).collect::<Vec<_>>().join(", "),
                _ => document.to_owned(),
            };
            let parts = [of(one, first), of(other, second)];
            let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
            format!("[{}]", parts.join(", "))
        }
    };
    if out.len() > BYTES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a JSON document of more than {BYTES_MAX} bytes")));
    }
    // An array around an object is one deeper.
    if depth(&out) > DEPTH_MAX {
        return Err(Class::TooDeep.error(format_args!("JSON is nested more than {DEPTH_MAX} deep")));
    }
    Ok(out)
}

fn depth(document: &str) -> usize {
    let bytes = document.as_bytes();
    let (mut deepest, mut depth, mut at) = (0_usize, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        at += 1;
    }
    deepest
}

/// The pairs of two objects, in the order of keys.
fn merged(one: &str, other: &str) -> String {
    let order = |one: &str, other: &str| {
        let (one, other) = (unescaped(one), unescaped(other));
        one.len().cmp(&other.len()).then_with(|| one.as_bytes().cmp(other.as_bytes()))
    };
    let (mut ones, mut others) = (pairs(one).peekable(), pairs(other).peekable());
    let mut out = Writer::new('{');
    loop {
        let next = match (ones.peek(), others.peek()) {
            (Some((first, _)), Some((second, _))) => match order(first, second) {
                Ordering::Less => ones.next(),
                Ordering::Equal => {
                    ones.next();
                    others.next()
                }
                Ordering::Greater => others.next(),
            },
            (Some(_), None) => ones.next(),
            (None, _) => others.next(),
        };
        let Some((key, value)) = next else { return out.end('}') };
        out.pair(key, value);
    }
}

/// A document without a key, or an array without the strings equal to it.
///
/// # Errors
/// If it is a scalar.
pub(crate) fn delete_key(document: &str, key: &str) -> Result<String> {
    let key = escaped(key);
    match Kind::of(document) {
        Kind::Object => {
            let mut out = Writer::new('{');
            pairs(document).filter(|(known, _)| *known != key).for_each(|(key, value)| out.pair(key, value));
            Ok(out.end('}'))
        }
        Kind::Array => {
            let said = |element: &str| {
                element.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).is_some_and(|said| said == key)
            };
            let mut out = Writer::new('[');
            elements(document).filter(|element| !said(element)).for_each(|element| out.element(element));
            Ok(out.end(']'))
        }
        _ => Err(Class::InvalidParameter.error("cannot delete from scalar")),
    }
}

/// An array without the element at a place, from 0, or from the end if that is negative.
///
/// # Errors
/// If it is not an array.
pub(crate) fn delete_element(document: &str, place: i64) -> Result<String> {
    match Kind::of(document) {
        Kind::Array => {}
        Kind::Object => {
            return Err(Class::InvalidParameter.error("cannot delete from object using integer index"));
        }
        _ => return Err(Class::InvalidParameter.error("cannot delete from scalar")),
    }
    let place = match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => usize::try_from(place.unsigned_abs()).ok().and_then(|back| count(document).checked_sub(back)),
    };
    let mut out = Writer::new('[');
    let kept = elements(document).enumerate().filter(|(at, _)| Some(*at) != place);
    kept.for_each(|(_, element)| out.element(element));
    Ok(out.end(']'))
}

/// An array or an object that is written.
struct Writer {
    out: String,
}

impl Writer {
    fn new(open: char) -> Self {
        Self { out: open.into() }
    }

    fn element(&mut self, element: &str) {
        if self.out.len() > 1 {
            self.out.push_str(", ");
        }
        self.out.push_str(element);
    }

    fn pair(&mut self, key: &str, value: &str) {
        self.element("\"");
        self.out.push_str(key);
        self.out.push_str("\": ");
        self.out.push_str(value);
    }

    fn end(mut self, close: char) -> String {
        self.out.push(close);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenation() {
        for (one, other, result) in [
            ("{\"a\": 1, \"c\": 2}", "{\"b\": 3, \"c\": 4}", Some("{\"a\": 1, \"b\": 3, \"c\": 4}")),
            ("[1]", "[2, 3]", Some("[1, 2, 3]")),
            ("[]", "[]", Some("[]")),
            ("1", "[2]", Some("[1, 2]")),
            ("1", "\"a\"", Some("[1, \"a\"]")),
            ("[1]", "{\"a\": 1}", Some("[1, {\"a\": 1}]")),
            ("{}", "[]", Some("[{}]")),
            ("{}", "1", Some("[{}, 1]")),
            ("1", "{\"a\": 1}", Some("[1, {\"a\": 1}]")),
        ] {
            assert_eq!(concatenate(one, other).ok().as_deref(), result, "{one} {other}");
        }
        let nested = format!("{{\"a\": {}{}}}", "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
        assert_eq!(concatenate("[]", &nested).unwrap_err().sqlstate(), "54001");
    }

    #[test]
    fn deletion() {
        assert_eq!(delete_key("{\"a\": 1, \"b\": 2}", "a").unwrap(), "{\"b\": 2}");
        assert_eq!(delete_key("[\"a\", 1, \"a\"]", "a").unwrap(), "[1]");
        assert_eq!(delete_key("1", "a").unwrap_err().sqlstate(), "22023");
        assert_eq!(delete_element("[1, 2, 3]", -1).unwrap(), "[1, 2]");
        assert_eq!(delete_element("[1, 2, 3]", 0).unwrap(), "[2, 3]");
        assert_eq!(delete_element("[1, 2, 3]", 3).unwrap(), "[1, 2, 3]");
        assert_eq!(delete_element("[1, 2, 3]", -4).unwrap(), "[1, 2, 3]");
        assert_eq!(delete_element("{}", 0).unwrap_err().sqlstate(), "22023");
    }
}
