//! Scalars as values of other types.

use super::text::Kind;
use crate::error::{Class, Error, Result};
use crate::{DataType, Decimal, Value, ValueRef, assign};

/// A document's number or boolean.
///
/// # Errors
/// If it is of another kind (22023), or the number does not fit (22003).
pub(crate) fn scalar_to(document: &str, to: DataType) -> Result<Value> {
    match (Kind::of(document), to) {
        (Kind::Boolean, DataType::Boolean) => Ok(Value::Boolean(document == "true")),
        (Kind::Number, DataType::Real) => {
            let number: Option<f32> = document.parse().ok().filter(|number: &f32| number.is_finite());
            number
                .filter(|number| *number != 0.0 || is_zero(document))
                .map(Value::Real)
                .ok_or_else(|| does_not_fit(document, to))
        }
        (Kind::Number, DataType::Double) => {
            let number: Option<f64> = document.parse().ok().filter(|number: &f64| number.is_finite());
            number
                .filter(|number| *number != 0.0 || is_zero(document))
                .map(Value::Float)
                .ok_or_else(|| does_not_fit(document, to))
        }
        (Kind::Number, _) if to.is_integer() => {
            let number = Decimal::parse(document).or_else(|| rounded(document));
            let number = number.ok_or_else(|| does_not_fit(document, to))?;
            assign(ValueRef::Decimal(number), to).map(ValueRef::to_value)
        }
        (Kind::Number, _) if to.is_decimal() => {
            let number = Decimal::parse(document).ok_or_else(|| does_not_fit(document, to))?;
            assign(ValueRef::Decimal(number), to).map(ValueRef::to_value)
        }
        (kind, _) => {
            let kind = match kind {
                Kind::Null => "null",
                Kind::String => "string",
                Kind::Number => "numeric",
                Kind::Boolean => "boolean",
                Kind::Array | Kind::Object => "array or object",
            };
            Err(Class::InvalidParameter.error(format_args!("cannot cast jsonb {kind} to type {to}")))
        }
    }
}

fn is_zero(number: &str) -> bool {
    !number.bytes().any(|digit| matches!(digit, b'1'..=b'9'))
}

/// A number of many digits behind the point: the first of them says how it is rounded.
fn rounded(number: &str) -> Option<Decimal> {
    let point = number.find('.')?;
    Decimal::parse(number.get(..point + 2)?)
}

fn does_not_fit(document: &str, to: DataType) -> Error {
    Class::OutOfRange.error(format_args!("{document} does not fit {to}"))
}
