//! `@>` and `?`.

use std::collections::HashSet;

use super::navigation::field;
use super::order::{are_equal_scalars, order_key};
use super::text::{Kind, elements, escaped, pairs};
use crate::error::{Class, Result};

/// More scalars than this are looked up in a table.
const SCALARS_COMPARED: usize = 8;

/// Maximum bytes that one containment test reads: arrays within arrays are compared pairwise.
const BYTES_READ_MAX: usize = 1 << 30;

/// Whether a document contains another: every pair, and every element at any position.
///
/// # Errors
/// 54001 if that takes too long.
pub(crate) fn contains(document: &str, part: &str) -> Result<bool> {
    let mut left = BYTES_READ_MAX;
    match (Kind::of(document), Kind::of(part)) {
        (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array) => contains_all(document, part, &mut left),
        // As an exception, an array contains a scalar.
        (Kind::Array, of) if of.is_scalar() => Ok(elements(document).any(|element| are_equal_scalars(element, part))),
        (one, other) if one.is_scalar() && other.is_scalar() => Ok(are_equal_scalars(document, part)),
        _ => Ok(false),
    }
}

/// Containment of two arrays or two objects. Recursion is as deep as the documents, at most
/// [`DEPTH_MAX`](super::DEPTH_MAX).
fn contains_all(document: &str, part: &str, left: &mut usize) -> Result<bool> {
    if Kind::of(document) == Kind::Object {
        return contains_pairs(document, part, left);
    }
    let scalars = |of: &'_ str| elements(of).filter(|element| Kind::of(element).is_scalar()).count();
    let known: Option<HashSet<Vec<u8>>> = (scalars(part) > SCALARS_COMPARED)
        .then(|| elements(document).filter(|element| Kind::of(element).is_scalar()).map(order_key).collect());
    for wanted in elements(part) {
        let is_there = match &known {
            Some(known) if Kind::of(wanted).is_scalar() => known.contains(&order_key(wanted)),
            _ => {
                let more = left.checked_sub(document.len());
                *left = more.ok_or_else(|| Class::TooDeep.error("@> of arrays that are too long"))?;
                has_element(document, wanted, left)?
            }
        };
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_element(document: &str, wanted: &str, left: &mut usize) -> Result<bool> {
    for found in elements(document) {
        if contains_one(found, wanted, left)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of two objects, whose keys are in the same order.
fn contains_pairs(document: &str, part: &str, left: &mut usize) -> Result<bool> {
    let mut known = pairs(document);
    for (key, wanted) in pairs(part) {
        let Some((_, found)) = known.find(|(known, _)| *known == key) else { return Ok(false) };
        if !contains_one(found, wanted, left)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Of two values within documents, where an array contains no scalar.
fn contains_one(found: &str, wanted: &str, left: &mut usize) -> Result<bool> {
    match (Kind::of(found), Kind::of(wanted)) {
        (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array) => contains_all(found, wanted, left),
        (one, other) if one.is_scalar() && other.is_scalar() => Ok(are_equal_scalars(found, wanted)),
        _ => Ok(false),
    }
}

/// Whether a text is a key of an object, a string in an array, or the document itself.
pub(crate) fn has_key(document: &str, key: &str) -> bool {
    let written = escaped(key);
    let is_string = |value: &str| {
        let said = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        said.is_some_and(|said| said == written)
    };
    match Kind::of(document) {
        Kind::Object => field(document, key).is_some(),
        Kind::Array => elements(document).any(is_string),
        _ => is_string(document),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DEPTH_MAX, normalize};
    use super::*;

    #[test]
    fn containment() {
        for (document, part, expected) in [
            ("{\"a\": 1, \"b\": [1, 2]}", "{\"b\": [2]}", true),
            ("{\"a\": 1}", "{\"a\": 1.0}", true),
            ("{\"a\": 1}", "{}", true),
            ("{\"a\": 1}", "[]", false),
            ("[1, 2, 3]", "[3, 3, 1]", true),
            ("[1, [2, 3]]", "[[3]]", true),
            ("[1, [2, 3]]", "[3]", false),
            ("[1, 2]", "1", true),
            ("1", "[1]", false),
            ("1", "1.0", true),
            ("{\"a\": [1]}", "{\"a\": 1}", false),
            ("[{\"a\": 1, \"b\": 2}]", "[{\"b\": 2}]", true),
            ("[1, 2, 3, 4, 5, 6, 7, 8, 9]", "[9.0, 8, 7, 6, 5, 4, 3, 2, 1]", true),
            ("[1, 2, 3, 4, 5, 6, 7, 8, 9]", "[9, 8, 7, 6, 5, 4, 3, 2, 10]", false),
        ] {
            assert_eq!(contains(document, part), Ok(expected), "{document} {part}");
        }
    }

    #[test]
    fn keys() {
        for (document, key, expected) in [
            ("{\"a\": 1}", "a", true),
            ("[\"a\", \"b\"]", "b", true),
            ("\"a\"", "a", true),
            ("[1]", "1", false),
            ("{\"a\": \"b\"}", "b", false),
            ("{\"a\\nb\": 1}", "a\nb", true),
        ] {
            assert_eq!(has_key(document, key), expected, "{document} {key}");
        }
    }

    /// Objects take one pass; pairwise comparison of nested arrays is aborted.
    #[test]
    fn large_documents_take_no_longer_than_they_may() {
        let object = |keys: usize| {
            let pairs: Vec<String> = (0..keys).map(|key| format!("\"{key:06}\": {key}")).collect();
            format!("{{{}}}", pairs.join(", "))
        };
        let large = object(150_000);
        assert_eq!(contains(&large, &large), Ok(true));
        assert_eq!(contains(&large, &object(150_001)), Ok(false));
        let nested = |elements: usize| {
            let elements: Vec<String> = (0..elements).map(|element| format!("[{element}]")).collect();
            format!("[{}]", elements.join(", "))
        };
        assert_eq!(contains(&nested(1000), &nested(1000)), Ok(true));
        let large = nested(100_000);
        assert_eq!(contains(&large, &large).unwrap_err().sqlstate(), "54001");
    }

    /// On a thread with the stack that threads have.
    #[test]
    fn the_deepest_documents_contain_themselves() {
        let nested = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        let nested = normalize(&nested).unwrap();
        assert_eq!(contains(&nested, &nested), Ok(true));
    }
}
