//! Functions of text and bytes, and those that take values of any type.

use std::fmt::Write;

use super::Function;
use super::encoding::Encoding;
use super::similar::similar_pattern;
use super::to_char;
use crate::error::{Class, Result};
use crate::{Value, ValueRef};

pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    use Function as F;
    use ValueRef as V;
    Ok(match (function, arguments) {
        (F::Concat, parts) => joined("", parts).into(),
        (F::ConcatWith, [V::Text(separator), parts @ ..]) => joined(separator, parts).into(),
        (F::ConcatWith, [V::Null, ..]) => Value::Null,
        (F::CountValues, values) => count(values.iter().filter(|value| !value.is_null()).count()),
        (F::CountNulls, values) => count(values.iter().filter(|value| value.is_null()).count()),
        (F::Length | F::Characters, [V::Text(text)]) => count(text.chars().count()),
        (F::Length | F::OctetLength, [V::Bytes(bytes)]) => count(bytes.len()),
        (F::OctetLength, [V::Text(text)]) => count(text.len()),
        (F::BitLength, [V::Text(text)]) => count(text.len().saturating_mul(8)),
        (F::BitLength, [V::Bytes(bytes)]) => count(bytes.len().saturating_mul(8)),
        (F::Character, [V::Int(0)]) => return Err(Class::LimitExceeded.error("null character not permitted")),
        (F::Character, [V::Int(code)]) => match u32::try_from(*code).ok().and_then(char::from_u32) {
            Some(character) => character.to_string().into(),
            None if *code < 0 => return Err(Class::InvalidParameter.error("character number must be positive")),
            None => {
                return Err(
                    Class::LimitExceeded.error(format_args!("requested character not valid for encoding: {code}"))
                );
            }
        },
        (F::Hexadecimal, [V::Int(number)]) => format!("{number:x}").into(),
        (F::Hexadecimal4, [V::Int(number)]) => format!("{:x}", number & i64::from(u32::MAX)).into(),
        (F::Encode, [V::Bytes(bytes), V::Text(encoding)]) => Encoding::named(encoding)?.encode(bytes).into(),
        (F::Decode, [V::Text(text), V::Text(encoding)]) => {
            Value::Bytes(Encoding::named(encoding)?.decode(text)?.into())
        }
        (F::SimilarPattern, [V::Text(pattern)]) => similar_pattern(pattern, Some('\\'))?.into(),
        (F::SimilarPattern, [V::Text(pattern), V::Text(escape)]) => {
            let mut characters = escape.chars();
            let escape = match (characters.next(), characters.next()) {
                (escape, None) => escape,
                _ => return Err(Class::InvalidEscape.error("invalid escape string: it must be empty or one character")),
            };
            similar_pattern(pattern, escape)?.into()
        }
        _ => return Err(function.not_of(arguments)),
    })
}

fn count(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Values as they are sent to clients, booleans as `t` and `f`; NULLs are left out.
fn joined(separator: &str, parts: &[ValueRef<'_>]) -> String {
    let mut text = String::with_capacity(joined_bytes_max(separator, parts));
    for (position, part) in parts.iter().filter(|part| !part.is_null()).enumerate() {
        if position > 0 {
            text.push_str(separator);
        }
        // A String takes all that is written.
        let _ = write!(text, "{part}");
    }
    text
}

fn joined_bytes_max(separator: &str, parts: &[ValueRef<'_>]) -> usize {
    parts.iter().fold(0, |bytes: usize, part| bytes.saturating_add(part.text_bytes_max() + separator.len()))
}

/// Maximum bytes of the text made by [`call`]; 0 if it makes none, or a short one.
pub(super) fn bytes_max(function: Function, arguments: &[ValueRef<'_>]) -> usize {
    match (function, arguments) {
        (Function::Concat, parts) => joined_bytes_max("", parts),
        (Function::ConcatWith, [ValueRef::Text(separator), parts @ ..]) => joined_bytes_max(separator, parts),
        (Function::ToChar, [_, ValueRef::Text(template)]) => to_char::bytes_max(template),
        (Function::Encode, [ValueRef::Bytes(bytes), _]) => bytes.len().saturating_mul(4),
        (Function::Decode, [ValueRef::Text(text), _]) => text.len(),
        (Function::SimilarPattern, [ValueRef::Text(pattern), ..]) => pattern.len().saturating_mul(3),
        (function, [ValueRef::Jsonb(document), ..]) if function.gives_null() => document.len(),
        _ => 0,
    }
}
