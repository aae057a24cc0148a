//! `to_char`: numbers and moments as text by a template of PostgreSQL's.

mod moment;
mod number;

use super::Function;
use crate::error::Result;
use crate::{MICROS_PER_DAY, Value, ValueRef};

/// `to_char(value, template)`.
pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    let [value, ValueRef::Text(template)] = arguments else { return Err(function.not_of(arguments)) };
    let text = match value {
        ValueRef::Interval(_) | ValueRef::Timestamp(_) | ValueRef::TimestampTz(_) | ValueRef::Date(_)
            if template.is_empty() =>
        {
            return Ok(Value::Null);
        }
        ValueRef::Interval(span) => moment::format_interval(*span, template)?,
        ValueRef::Timestamp(micros) => moment::format_timestamp(*micros, "", template)?,
        ValueRef::TimestampTz(micros) => moment::format_timestamp(*micros, "UTC", template)?,
        // As a timestamp with time zone.
        ValueRef::Date(days) => moment::format_timestamp(i64::from(*days) * MICROS_PER_DAY, "UTC", template)?,
        number => match number::Digits::new(*number) {
            Some(digits) => number::format(&digits, template)?,
            None => return Err(function.not_of(arguments)),
        },
    };
    Ok(text.into())
}

/// Maximum bytes for a character of a template: a month's name, or a Roman number.
const BYTES_OF_CHARACTER: usize = 16;

/// Maximum bytes of the text made by [`call`].
pub(super) fn bytes_max(template: &str) -> usize {
    template.len().saturating_mul(BYTES_OF_CHARACTER).saturating_add(64)
}

/// Keywords of templates. Their names are in capitals, or begin with one.
trait Keyword: Copy + 'static {
    /// Longer names before their prefixes.
    const NAMES: &'static [(&'static str, Self)];

    /// Meaning of the name in small letters.
    fn lowered(self) -> Self;

    /// The first one of the list with which a template begins, and how many bytes of it.
    fn at_start(template: &str) -> Option<(Self, usize)> {
        Self::NAMES.iter().find_map(|(name, keyword)| {
            let written = template.get(..name.len())?;
            let keyword = match () {
                () if written == *name => *keyword,
                () if written.bytes().eq(name.bytes().map(|letter| letter.to_ascii_lowercase())) => keyword.lowered(),
                () => return None,
            };
            Some((keyword, name.len()))
        })
    }
}

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'t, K> {
    Keyword(K),
    Literal(&'t str),
}

/// Splits a template: keywords, text in double quotes, and characters that stand for themselves. A backslash takes its
/// meaning from a quote, and within quotes from any character.
fn parts<K: Keyword>(template: &str) -> Vec<Part<'_, K>> {
    let mut parts = vec![];
    let mut rest = template;
    let mut is_quoted = false;
    while let Some(first) = rest.chars().next() {
        let keyword = if is_quoted { None } else { K::at_start(rest) };
        let (part, length) = match (keyword, first) {
            (Some((keyword, length)), _) => (Some(Part::Keyword(keyword)), length),
            (None, '"') => {
                is_quoted = !is_quoted;
                (None, 1)
            }
            (None, '\\') if is_quoted || rest.starts_with("\\\"") => {
                let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                (rest.get(1..1 + escaped).map(Part::Literal), 1 + escaped)
            }
            (None, first) => (rest.get(..first.len_utf8()).map(Part::Literal), first.len_utf8()),
        };
        parts.extend(part);
        rest = rest.get(length..).unwrap_or_default();
    }
    parts
}

/// The ending of an ordinal number, by its digits.
fn ordinal_ending(digits: &str) -> &'static str {
    let mut last = digits.bytes().rev();
    match (last.next(), last.next()) {
        (_, Some(b'1')) => "th",
        (Some(b'1'), _) => "st",
        (Some(b'2'), _) => "nd",
        (Some(b'3'), _) => "rd",
        _ => "th",
    }
}
