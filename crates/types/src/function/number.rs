//! Functions of numbers.

use super::Function;
use crate::error::{Class, Error, Result};
use crate::{Decimal, Operator, Value, ValueRef, division_by_zero, out_of_range};

pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    use Function as F;
    use ValueRef as V;
    Ok(match (function, arguments) {
        (F::Abs, [V::Int(number)]) => Value::Int(number.checked_abs().ok_or_else(out_of_range)?),
        (F::Abs, [V::Decimal(number)]) if number.is_negative() => number.negated().into(),
        (F::Abs, [V::Decimal(number)]) => (*number).into(),
        (F::Abs, [V::Real(number)]) => number.abs().into(),
        (F::Abs, [V::Float(number)]) => number.abs().into(),
        (F::Sign, [V::Decimal(number)]) => Decimal::from(match number.units() {
            0 => 0,
            units if units < 0 => -1,
            _ => 1,
        })
        .into(),
        (F::Floor, [V::Decimal(number)]) => number.floor_to(0)?.into(),
        (F::Ceiling, [V::Decimal(number)]) => number.negated().floor_to(0)?.negated().into(),
        (F::Round | F::Trunc, [V::Decimal(number)]) => rounded(*number, 0, function == F::Trunc)?.into(),
        (F::Round | F::Trunc, [V::Decimal(number), V::Int(digits)]) => {
            rounded(*number, *digits, function == F::Trunc)?.into()
        }
        (F::Round | F::Trunc, [V::Int(number), V::Int(digits)]) => {
            rounded((*number).into(), *digits, function == F::Trunc)?.into()
        }
        (F::Remainder, [left, right]) => Operator::Remainder.apply(*left, *right)?,
        (F::Factorial, [V::Int(number)]) if *number < 0 => {
            return Err(Class::OutOfRange.error("factorial of a negative number is undefined"));
        }
        (F::Factorial, [V::Int(number)]) => {
            (2..=*number).try_fold(Decimal::from(1), |product, factor| product.times(factor.into()))?.into()
        }
        (F::CommonDivisor, [V::Int(left), V::Int(right)]) => {
            Value::Int(in_64_bits(divisor(left.unsigned_abs(), right.unsigned_abs()))?)
        }
        (F::CommonMultiple, [V::Int(left), V::Int(right)]) => {
            let (left, right) = (left.unsigned_abs(), right.unsigned_abs());
            match divisor(left, right) {
                0 => Value::Int(0),
                common => Value::Int(in_64_bits((left / common).checked_mul(right).ok_or_else(out_of_range)?)?),
            }
        }
        (F::CommonDivisor | F::CommonMultiple | F::Quotient, [left, right]) => {
            let decimal = |value: &ValueRef<'_>| match value {
                V::Int(number) => Ok(Decimal::from(*number)),
                V::Decimal(number) => Ok(*number),
                _ => Err(function.not_of(arguments)),
            };
            of_decimals(function, decimal(left)?, decimal(right)?)?.into()
        }
        (_, [one]) => match one.number_as_f64() {
            Some(number) => of_float(function, number)?.into(),
            None => return Err(function.not_of(arguments)),
        },
        (_, [one, other]) => match (one.number_as_f64(), other.number_as_f64()) {
            (Some(one), Some(other)) => of_floats(function, one, other)?.into(),
            _ => return Err(function.not_of(arguments)),
        },
        _ => return Err(function.not_of(arguments)),
    })
}

fn in_64_bits(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| out_of_range())
}

fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn of_decimals(function: Function, left: Decimal, right: Decimal) -> Result<Decimal> {
    let scale = left.scale().max(right.scale());
    let (left, right) = (left.rescale(scale)?.units(), right.rescale(scale)?.units());
    if function == Function::Quotient {
        return match right {
            0 => Err(division_by_zero()),
            right => Decimal::new(left / right, 0),
        };
    }
    let (left, right) = (left.unsigned_abs(), right.unsigned_abs());
    let (mut common, mut rest) = (left, right);
    while rest != 0 {
        (common, rest) = (rest, common % rest);
    }
    let units = match (function, common) {
        (Function::CommonDivisor, common) => Some(common),
        (_, 0) => Some(0),
        (_, common) => (left / common).checked_mul(right),
    };
    let units = units.and_then(|units| i128::try_from(units).ok()).ok_or_else(out_of_range)?;
    Decimal::new(units, scale)
}

fn of_float(function: Function, number: f64) -> Result<f64> {
    use Function as F;
    Ok(match function {
        F::Ceiling => number.ceil(),
        F::Floor => number.floor(),
        F::Round => number.round_ties_even(),
        F::Trunc => number.trunc(),
        F::Sign if number == 0.0 || number.is_nan() => 0.0,
        F::Sign => number.signum(),
        F::SquareRoot if number < 0.0 => {
            return Err(Class::InvalidPower.error("cannot take square root of a negative number"));
        }
        F::SquareRoot => number.sqrt(),
        F::CubeRoot => number.cbrt(),
        F::Exponential => finite(number.exp(), number, true)?,
        F::NaturalLogarithm => logarithm(number)?.ln(),
        F::Logarithm => logarithm(number)?.log10(),
        F::Degrees => finite(number / (std::f64::consts::PI / 180.0), number, false)?,
        F::Radians => number * (std::f64::consts::PI / 180.0),
        F::ArcSine | F::ArcCosine if number.abs() > 1.0 => return Err(outside()),
        F::ArcSine => number.asin(),
        F::ArcCosine => number.acos(),
        F::ArcTangent => number.atan(),
        F::Sine | F::Cosine | F::Tangent if number.is_infinite() => return Err(outside()),
        F::Sine => number.sin(),
        F::Cosine => number.cos(),
        F::Tangent => number.tan(),
        other => return Err(other.not_of(&[ValueRef::Float(number)])),
    })
}

fn of_floats(function: Function, one: f64, other: f64) -> Result<f64> {
    Ok(match function {
        Function::Power => Operator::Power.floats(one, other)?,
        Function::ArcTangent2 => one.atan2(other),
        Function::Logarithm => {
            let base = logarithm(one)?.ln();
            let number = logarithm(other)?.ln();
            Operator::Divide.floats(number, base)?
        }
        function => return Err(function.not_of(&[ValueRef::Float(one), ValueRef::Float(other)])),
    })
}

/// A result that is infinite or, where it is never zero, zero, of a number that is neither, is out of range.
fn finite(result: f64, of: f64, is_never_zero: bool) -> Result<f64> {
    match of.is_finite() && (result.is_infinite() || (is_never_zero && result == 0.0)) {
        true => Err(out_of_range()),
        false => Ok(result),
    }
}

fn logarithm(number: f64) -> Result<f64> {
    if number == 0.0 {
        return Err(Class::InvalidLogarithm.error("cannot take logarithm of zero"));
    }
    if number < 0.0 {
        return Err(Class::InvalidLogarithm.error("cannot take logarithm of a negative number"));
    }
    Ok(number)
}

fn outside() -> Error {
    Class::OutOfRange.error("input is out of range")
}

/// Rounds or truncates to `digits` digits after the point, or before it if negative.
fn rounded(value: Decimal, digits: i64, truncate: bool) -> Result<Decimal> {
    if digits >= 0 {
        return match u8::try_from(digits) {
            Ok(scale) if scale < value.scale() && truncate => cut(value, scale),
            Ok(scale) if scale < value.scale() => value.rescale(scale),
            _ => Ok(value),
        };
    }
    // Rounding before the point is rounding the number divided by a power of ten.
    let shift = u32::try_from(digits.unsigned_abs().min(38)).unwrap_or(38);
    let Some(power) = 10_i128.checked_pow(shift) else { return Ok(Decimal::ZERO) };
    let point = 10_i128.pow(u32::from(value.scale()));
    let Some(unit) = power.checked_mul(point) else { return Ok(Decimal::ZERO) };
    let (quotient, rest) = (value.units() / unit, value.units() % unit);
    let up = !truncate && rest.unsigned_abs() * 2 >= unit.unsigned_abs();
    let away = if up { value.units().signum() } else { 0 };
    Decimal::new((quotient + away).checked_mul(power).ok_or_else(out_of_range)?, 0)
}

/// Towards zero.
fn cut(value: Decimal, scale: u8) -> Result<Decimal> {
    if value.is_negative() { Ok(value.negated().floor_to(scale)?.negated()) } else { value.floor_to(scale) }
}
