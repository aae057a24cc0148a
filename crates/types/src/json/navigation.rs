//! Parts of documents.

use std::borrow::Cow;

use super::order::count;
use super::text::{Kind, elements, escaped, pairs, unquoted};
use crate::error::{Class, Result};

/// Name of the document's kind, as `jsonb_typeof` gives it.
pub(crate) fn kind_name(document: &str) -> &'static str {
    match Kind::of(document) {
        Kind::Null => "null",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Array => "array",
        Kind::Object => "object",
    }
}

/// Number of elements of an array.
///
/// # Errors
/// If the document is not an array.
pub(crate) fn array_length(document: &str) -> Result<usize> {
    match Kind::of(document) {
        Kind::Array => Ok(count(document)),
        Kind::Object => Err(Class::InvalidParameter.error("cannot get array length of a non-array")),
        _ => Err(Class::InvalidParameter.error("cannot get array length of a scalar")),
    }
}

/// The value of a key of an object.
pub(crate) fn field<'a>(document: &'a str, key: &str) -> Option<&'a str> {
    let key = escaped(key);
    pairs(document).find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// The element of an array at a place, from 0, or from the end if that is negative. A scalar is an array of itself, as
/// in PostgreSQL.
pub(crate) fn element(document: &str, place: i64) -> Option<&str> {
    let kind = Kind::of(document);
    if kind.is_scalar() {
        return matches!(place, 0 | -1).then_some(document);
    }
    let place = match usize::try_from(place) {
        Ok(place) => place,
        Err(_) => count(document).checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
    };
    elements(document).nth(place)
}

/// Part of a document at the end of a path of keys and positions.
pub(crate) fn at_path<S: AsRef<str>>(document: &str, steps: impl IntoIterator<Item = S>) -> Option<&str> {
    let mut here = document;
    for step in steps {
        let step = step.as_ref();
        here = match Kind::of(here) {
            Kind::Object => field(here, step)?,
            Kind::Array => element(here, place_of(step)?.into())?,
            _ => return None,
        };
    }
    Some(here)
}

/// The place that a step of a path is.
pub(super) fn place_of(step: &str) -> Option<i32> {
    step.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']).parse().ok()
}

/// A part as text: a string's content; `None` for JSON's null.
pub(crate) fn text_of(document: &str) -> Option<Cow<'_, str>> {
    (Kind::of(document) != Kind::Null).then(|| unquoted(document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let document = "{\"a\": [10, {\"b\\n\": \"x\\\"y\"}, []], \"bb\": null}";
        assert_eq!(field(document, "bb"), Some("null"));
        assert_eq!(field(document, "b"), None);
        assert_eq!(at_path(document, ["a", "1", "b\n"]).and_then(text_of).as_deref(), Some("x\"y"));
        assert_eq!(at_path(document, ["a", "-1"]), Some("[]"));
        assert_eq!(at_path(document, ["a", "-4"]), None);
        assert_eq!(at_path(document, ["a", "x"]), None);
        assert_eq!(at_path(document, ["a", "0", "0"]), None);
        assert_eq!(at_path(document, [""; 0]), Some(document));
        assert_eq!(element("[1, 2, 3]", -3), Some("1"));
        assert_eq!(element("5", 0), Some("5"));
        assert_eq!(element("{}", 0), None);
        assert_eq!(array_length("[[1, 2], \"a,b]\", {\"c\": [1]}]").unwrap(), 3);
        assert_eq!(array_length("{}").unwrap_err().sqlstate(), "22023");
    }
}
