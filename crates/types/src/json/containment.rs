//! `@>` and `?`.

use std::collections::HashSet;

use super::navigation::field;
use super::order::{are_equal_scalars, order_key};
use super::text::{Kind, elements, escaped, pairs};

/// More scalars than this are looked up in a table.
const SCALARS_COMPARED: usize = 8;

/// Whether a document contains another: each pair, and each element at whatever place.
pub(crate) fn contains(document: &str, part: &str) -> bool {
    match (Kind::of(document), Kind::of(part)) {
        (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array) => contains_all(document, part),
        // As an exception, an array contains a scalar.
        (Kind::Array, of) if of.is_scalar() => elements(document).any(|element| are_equal_scalars(element, part)),
        (one, other) if one.is_scalar() && other.is_scalar() => are_equal_scalars(document, part),
        _ => false,
    }
}

/// Of two arrays or two objects. It goes as deep as the documents do, of which no one is deeper than
/// [`DEPTH_MAX`](super::DEPTH_MAX).
fn contains_all(document: &str, part: &str) -> bool {
    if Kind::of(document) == Kind::Object {
        return pairs(part).all(|(key, wanted)| {
            let found = pairs(document).find(|(known, _)| *known == key);
            found.is_some_and(|(_, found)| contains_one(found, wanted))
        });
    }
    let scalars = |of: &'_ str| elements(of).filter(|element| Kind::of(element).is_scalar()).count();
    let known: Option<HashSet<Vec<u8>>> = (scalars(part) > SCALARS_COMPARED)
        .then(|| elements(document).filter(|element| Kind::of(element).is_scalar()).map(order_key).collect());
    elements(part).all(|wanted| match &known {
        Some(known) if Kind::of(wanted).is_scalar() => known.contains(&order_key(wanted)),
        _ => elements(document).any(|found| contains_one(found, wanted)),
    })
}

/// Of two values within documents, where an array contains no scalar.
fn contains_one(found: &str, wanted: &str) -> bool {
    match (Kind::of(found), Kind::of(wanted)) {
        (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array) => contains_all(found, wanted),
        (one, other) if one.is_scalar() && other.is_scalar() => are_equal_scalars(found, wanted),
        _ => false,
    }
}

/// Whether a text is a key of an object, or a string that an array has, or that the document is.
pub(crate) fn has_key(document: &str, key: &str) -> bool {
    let is_string = |value: &str| {
        let said = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        said.is_some_and(|said| said == escaped(key))
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
            assert_eq!(contains(document, part), expected, "{document} {part}");
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

    /// On a thread with the stack that threads have.
    #[test]
    fn the_deepest_documents_contain_themselves() {
        let nested = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        let nested = normalize(&nested).unwrap();
        assert!(contains(&nested, &nested));
    }
}
