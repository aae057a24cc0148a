//! Functions of text and bytes, and those that take values of any type.

use super::Function;
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
        _ => return Err(function.not_of(arguments)),
    })
}

fn count(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Values as they are sent to clients, booleans as `t` and `f`; NULLs are left out.
fn joined(separator: &str, parts: &[ValueRef<'_>]) -> String {
    let mut text = String::new();
    for (position, part) in parts.iter().filter(|part| !part.is_null()).enumerate() {
        if position > 0 {
            text.push_str(separator);
        }
        text.push_str(&part.to_string());
    }
    text
}
