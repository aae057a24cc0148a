//! `+ - * / % ||` and unary minus.

use super::Operator;
use super::evaluate::Evaluated;
use crate::error::{Class, Error, Result};
use crate::types::{Decimal, Value, ValueRef};

/// The value of `left operator right`; NULL if either is. The kinds were checked when it was bound, up
/// to kinds of numbers.
pub(super) fn arithmetic<'a>(operator: Operator, left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Evaluated<'a>> {
    use ValueRef as V;
    Ok(Evaluated::Ref(match (left, right) {
        (V::Null, _) | (_, V::Null) => V::Null,
        (V::Int(left), V::Int(right)) => V::Int(integers(operator, left, right)?),
        (V::Decimal(left), V::Decimal(right)) => V::Decimal(decimals(operator, left, right)?),
        (V::Decimal(left), V::Int(right)) => V::Decimal(decimals(operator, left, right.into())?),
        (V::Int(left), V::Decimal(right)) => V::Decimal(decimals(operator, left.into(), right)?),
        (V::Float(_), V::Int(_) | V::Decimal(_) | V::Float(_)) | (V::Int(_) | V::Decimal(_), V::Float(_)) => {
            match (left.number_as_f64(), right.number_as_f64()) {
                (Some(left), Some(right)) => V::Float(floats(operator, left, right)?),
                _ => V::Null,
            }
        }
        (V::Date(left), V::Date(right)) if operator == Operator::Subtract => V::Int(i64::from(left) - i64::from(right)),
        (V::Date(days), V::Int(number)) => V::Date(shifted(operator, days, number)?),
        (V::Int(number), V::Date(days)) => V::Date(shifted(operator, days, number)?),
        _ if operator == Operator::Concatenate => return Ok(Evaluated::Owned(format!("{left}{right}").into())),
        _ => return Err(no_operator(operator, left, right)),
    }))
}

pub(super) fn negate<'a>(value: ValueRef<'_>) -> Result<Evaluated<'a>> {
    Ok(Evaluated::Ref(match value {
        ValueRef::Null => ValueRef::Null,
        ValueRef::Int(number) => ValueRef::Int(number.checked_neg().ok_or_else(out_of_range)?),
        ValueRef::Decimal(number) => ValueRef::Decimal(number.negated()),
        ValueRef::Float(number) => ValueRef::Float(-number),
        other => return Err(no_operator(Operator::Subtract, Value::Null.as_ref(), other)),
    }))
}

fn integers(operator: Operator, left: i64, right: i64) -> Result<i64> {
    match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide if right == 0 => return Err(division_by_zero()),
        Operator::Remainder if right == 0 => return Err(division_by_zero()),
        Operator::Divide => left.checked_div(right),
        // The least integer by -1 has no quotient, but a remainder.
        Operator::Remainder => Some(left.wrapping_rem(right)),
        Operator::Concatenate => return Err(no_operator(operator, ValueRef::Int(left), ValueRef::Int(right))),
    }
    .ok_or_else(out_of_range)
}

fn decimals(operator: Operator, left: Decimal, right: Decimal) -> Result<Decimal> {
    match operator {
        Operator::Add => left.plus(right),
        Operator::Subtract => left.minus(right),
        Operator::Multiply => left.times(right),
        Operator::Divide => left.divide(right),
        Operator::Remainder => left.remainder(right),
        Operator::Concatenate => Err(no_operator(operator, ValueRef::Decimal(left), ValueRef::Decimal(right))),
    }
}

fn floats(operator: Operator, left: f64, right: f64) -> Result<f64> {
    let result = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::Remainder if right == 0.0 => return Err(division_by_zero()),
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Concatenate => return Err(no_operator(operator, ValueRef::Float(left), ValueRef::Float(right))),
    };
    // An infinity that was no operand is an overflow.
    if result.is_infinite() && left.is_finite() && right.is_finite() { Err(out_of_range()) } else { Ok(result) }
}

fn shifted(operator: Operator, days: i32, by: i64) -> Result<i32> {
    let shifted = match operator {
        Operator::Add => i64::from(days).checked_add(by),
        Operator::Subtract => i64::from(days).checked_sub(by),
        _ => return Err(no_operator(operator, ValueRef::Date(days), ValueRef::Int(by))),
    };
    shifted
        .and_then(|days| i32::try_from(days).ok())
        .filter(|days| is_day(*days))
        .ok_or_else(|| Class::InvalidDatetime.error("date out of range: years are 1 to 9999"))
}

/// Whether the day is in the years 1 to 9999.
pub(super) fn is_day(days: i32) -> bool {
    (-719_162..=2_932_896).contains(&days)
}

pub(super) fn out_of_range() -> Error {
    Class::OutOfRange.error("number out of range")
}

fn division_by_zero() -> Error {
    Class::DivisionByZero.error("division by zero")
}

fn no_operator(operator: Operator, left: ValueRef<'_>, right: ValueRef<'_>) -> Error {
    let name = |value: ValueRef<'_>| value.data_type().map_or_else(|| "NULL".to_owned(), |kind| kind.to_string());
    let (left, right) = (name(left), name(right));
    Class::UndefinedFunction.error(format_args!("operator does not exist: {left} {} {right}", operator.symbol()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::from_civil;

    #[test]
    fn the_edges_of_integers() {
        assert_eq!(integers(Operator::Remainder, i64::MIN, -1).unwrap(), 0);
        assert_eq!(integers(Operator::Divide, -7, 2).unwrap(), -3);
        assert_eq!(integers(Operator::Remainder, -7, 2).unwrap(), -1);
        for (operator, left, right, state) in [
            (Operator::Add, i64::MAX, 1, "22003"),
            (Operator::Subtract, i64::MIN, 1, "22003"),
            (Operator::Multiply, i64::MAX, 2, "22003"),
            (Operator::Divide, i64::MIN, -1, "22003"),
            (Operator::Divide, 1, 0, "22012"),
            (Operator::Remainder, 1, 0, "22012"),
        ] {
            assert_eq!(integers(operator, left, right).unwrap_err().sqlstate(), state);
        }
        assert!(is_day(from_civil(1, 1, 1).unwrap()) && !is_day(from_civil(1, 1, 1).unwrap() - 1));
        assert!(is_day(from_civil(9999, 12, 31).unwrap()) && !is_day(from_civil(9999, 12, 31).unwrap() + 1));
    }
}
