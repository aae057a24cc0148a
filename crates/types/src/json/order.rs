//! Equality and order of documents.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::number;
use super::text::{Kind, elements, pairs, string_end, unescaped};

/// Terminator of a string, which has no NUL.
const STRING_END: u8 = 0;

/// Bytes that compare like the documents.
///
/// ```text
/// key     := 01                   an empty array
///          | 02 scalar            a scalar by itself
///          | 03 array             an array
///          | 04 object
/// array   := count value*
/// object  := count (string value)*
/// scalar  := 01 | 02 string | 03 number | 04 (00 | 01)      null, strings, numbers, booleans
/// value   := scalar | 05 array | 06 object
/// string  := bytes 00
/// count   := four bytes
/// ```
///
/// This is PostgreSQL's order: a document with fewer elements or pairs is less; a scalar is less than an array of one
/// element and greater than an empty one.
pub fn order_key(document: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(document.len() + 16);
    match Kind::of(document) {
        Kind::Array if elements(document).next().is_none() => {
            out.push(1);
            return out;
        }
        Kind::Array => out.push(3),
        Kind::Object => out.push(4),
        _ => out.push(2),
    }
    put_values(&mut out, document);
    out
}

/// An open array or object whose number of elements or pairs is not known yet.
struct Open {
    /// Offset at which the number is to be stored.
    at: usize,
    count: u32,
    is_object: bool,
}

/// Appends a document's values in the order of its text.
fn put_values(out: &mut Vec<u8>, document: &str) {
    let bytes = document.as_bytes();
    let mut open: Vec<Open> = vec![];
    let mut is_key = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b',' | b' ' | b':' => {
                is_key = *byte == b',' && open.last().is_some_and(|open| open.is_object) || is_key && *byte == b' ';
                at += 1;
                continue;
            }
            b']' | b'}' => {
                if let Some(ended) = open.pop()
                    && let Some(count) = out.get_mut(ended.at..ended.at + 4)
                {
                    count.copy_from_slice(&ended.count.to_be_bytes());
                }
                is_key = false;
                at += 1;
                continue;
            }
            _ => {}
        }
        if let Some(within) = open.last_mut()
            && (is_key || !within.is_object)
        {
            within.count += 1;
        }
        match byte {
            b'[' | b'{' => {
                // The outermost has its own byte.
                if !open.is_empty() || at > 0 {
                    out.push(if *byte == b'[' { 5 } else { 6 });
                }
                open.push(Open { at: out.len(), count: 0, is_object: *byte == b'{' });
                out.extend_from_slice(&[0; 4]);
                is_key = *byte == b'{';
                at += 1;
            }
            b'"' => {
                let end = string_end(bytes, at);
                if !is_key {
                    out.push(2);
                }
                let written = document.get(at + 1..end - 1).unwrap_or_default();
                out.extend_from_slice(unescaped(written).as_bytes());
                out.push(STRING_END);
                is_key = false;
                at = end;
            }
            _ => {
                let rest = document.get(at..).unwrap_or_default();
                let length = rest.bytes().position(|byte| matches!(byte, b',' | b']' | b'}')).unwrap_or(rest.len());
                match byte {
                    b'n' => out.push(1),
                    b't' | b'f' => out.extend_from_slice(&[4, u8::from(*byte == b't')]),
                    _ => {
                        out.push(3);
                        number::put_key(out, rest.get(..length).unwrap_or_default());
                    }
                }
                at += length.max(1);
            }
        }
    }
}

/// The order of two documents.
pub fn compare(one: &str, other: &str) -> Ordering {
    if one == other { Ordering::Equal } else { order_key(one).cmp(&order_key(other)) }
}

/// Equal documents hash alike.
pub(crate) fn hash(document: &str, state: &mut impl Hasher) {
    order_key(document).hash(state);
}

/// Whether two scalars are equal.
pub(super) fn are_equal_scalars(one: &str, other: &str) -> bool {
    one == other || (Kind::of(one) == Kind::Number && Kind::of(other) == Kind::Number && compare(one, other).is_eq())
}

/// Number of elements or pairs of a document.
pub(super) fn count(document: &str) -> usize {
    match Kind::of(document) {
        Kind::Object => pairs(document).count(),
        _ => elements(document).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_postgresqls_order() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-1",
            "0",
            "1.5",
            "10",
            "false",
            "true",
            "[null]",
            "[\"a\"]",
            "[1]",
            "[true]",
            "[[]]",
            "[[1]]",
            "[{}]",
            "[1, 1]",
            "[1, 2]",
            "[1, [2]]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"a\": [1]}",
            "{\"b\": 0}",
            "{\"a\": 0, \"b\": 0}",
        ];
        for (place, one) in ascending.iter().enumerate() {
            for (at, other) in ascending.iter().enumerate() {
                assert_eq!(compare(one, other), place.cmp(&at), "{one} {other}");
            }
        }
        assert_eq!(compare("[1.0, {\"a\": 2.50}]", "[1, {\"a\": 2.5}]"), Ordering::Equal);
    }

    #[test]
    fn counts() {
        assert_eq!([count("[]"), count("[1, [2, 3]]"), count("{\"a\": [1, 2]}"), count("1")], [0, 2, 1, 0]);
    }
}
