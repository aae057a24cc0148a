//! Exact decimals.

use std::cmp::Ordering;

use thermocline_lua::{Kind, Raised};
use thermocline_types::{Class, Decimal, Result as EngineResult};

use super::super::machine::L;
use super::Named;
use super::arguments::{bad, expected, integer_or, name_of};
use super::value::push_decimal;

pub const FUNCTIONS: &[Named] = &[
    ("__add", |stack| calculate(stack, Decimal::plus)),
    ("__concat", concat),
    ("__div", |stack| calculate(stack, Decimal::divide)),
    ("__eq", |stack| compare(stack, Ordering::is_eq)),
    ("__idiv", |stack| calculate(stack, floor_divide)),
    ("__le", |stack| compare(stack, Ordering::is_le)),
    ("__lt", |stack| compare(stack, Ordering::is_lt)),
    ("__mod", |stack| calculate(stack, modulo)),
    ("__mul", |stack| calculate(stack, Decimal::times)),
    ("__sub", |stack| calculate(stack, Decimal::minus)),
    ("__tostring", tostring),
    ("__unm", |stack| calculate(stack, |value, _| Ok(value.negated()))),
    ("abs", |stack| calculate_one(stack, |value| Ok(if value.is_negative() { value.negated() } else { value }))),
    ("compare", order),
    ("equals", |stack| compare(stack, Ordering::is_eq)),
    ("floor", |stack| calculate_one(stack, |value| value.floor_to(0))),
    ("round", round),
    ("scale", scale),
    ("sign", sign),
    ("tofloat", tofloat),
    ("tointeger", tointeger),
];

/// A decimal, or an integer as one.
pub fn operand(stack: &L<'_>, position: i32) -> Result<Decimal, Raised> {
    if let Some(value) = stack.user::<Decimal>(position) {
        return Ok(*value);
    }
    match stack.kind(position) {
        Kind::Integer(value) => Ok(value.into()),
        _ => {
            let message = format!(
                "a decimal goes with decimals and integers, not with a {}; see db.decimal and tofloat",
                match stack.kind(position) {
                    Kind::Float(_) => "float",
                    _ => name_of(stack, position),
                }
            );
            Err(stack.host().raise(stack, Class::TypeMismatch.error(message)))
        }
    }
}

fn pushed(stack: &L<'_>, result: EngineResult<Decimal>) -> Result<i32, Raised> {
    push_decimal(stack, result.map_err(|error| stack.host().raise(stack, error))?);
    Ok(1)
}

fn calculate(stack: &L<'_>, of: impl Fn(Decimal, Decimal) -> EngineResult<Decimal>) -> Result<i32, Raised> {
    pushed(stack, of(operand(stack, 1)?, operand(stack, 2)?))
}

fn calculate_one(stack: &L<'_>, of: impl Fn(Decimal) -> EngineResult<Decimal>) -> Result<i32, Raised> {
    pushed(stack, of(operand(stack, 1)?))
}

fn compare(stack: &L<'_>, is: impl Fn(Ordering) -> bool) -> Result<i32, Raised> {
    // A value that is not a number equals no decimal, and Lua's `==` raises no error.
    stack.push_boolean(is(operand(stack, 1)?.cmp(&operand(stack, 2)?)));
    Ok(1)
}

/// Largest integer not above the quotient, like Lua's `//`.
fn floor_divide(left: Decimal, right: Decimal) -> EngineResult<Decimal> {
    let rest = modulo(left, right)?;
    left.minus(rest)?.divide(right)?.rescale(0)
}

/// Remainder with the divisor's sign, like Lua's `%`.
fn modulo(left: Decimal, right: Decimal) -> EngineResult<Decimal> {
    let rest = left.remainder(right)?;
    if rest.units() != 0 && rest.is_negative() != right.is_negative() { rest.plus(right) } else { Ok(rest) }
}

fn concat(stack: &L<'_>) -> Result<i32, Raised> {
    let mut out = super::buffer::Buffer::new(stack);
    for position in 1..=2 {
        match stack.kind(position) {
            Kind::Text(_) | Kind::Integer(_) | Kind::Float(_) | Kind::User => {
                super::arguments::print(stack, position, &mut out)?;
            }
            other => {
                let message = format!("attempt to concatenate a {} value", other.name());
                return Err(stack.host().raise(stack, Class::Procedure.error(message)));
            }
        }
    }
    out.finish();
    Ok(1)
}

fn tostring(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_bytes(operand(stack, 1)?.to_string().as_bytes());
    Ok(1)
}

fn round(stack: &L<'_>) -> Result<i32, Raised> {
    let value = operand(stack, 1)?;
    match u8::try_from(integer_or(stack, 2, "round", 0)?) {
        Ok(scale) => pushed(stack, value.rescale(scale)),
        Err(_) => Err(bad(stack, 2, "round", "digits after the point, 0 to 38")),
    }
}

fn scale(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_integer(operand(stack, 1)?.scale().into());
    Ok(1)
}

fn order(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_integer(operand(stack, 1)?.cmp(&operand(stack, 2)?) as i64);
    Ok(1)
}

fn sign(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_integer(operand(stack, 1)?.cmp(&Decimal::ZERO) as i64);
    Ok(1)
}

fn tofloat(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_float(operand(stack, 1)?.to_f64());
    Ok(1)
}

fn tointeger(stack: &L<'_>) -> Result<i32, Raised> {
    let value = operand(stack, 1)?.to_i64();
    stack.push_integer(value.map_err(|error| stack.host().raise(stack, error))?);
    Ok(1)
}

/// `db.decimal("1.50")`, `db.decimal(3)`.
pub fn make(stack: &L<'_>) -> Result<i32, Raised> {
    let value = match stack.kind(1) {
        Kind::Text(text) => {
            let parsed = std::str::from_utf8(text).ok().and_then(Decimal::parse);
            parsed.ok_or_else(|| {
                let message = format!("'{}' is no decimal", String::from_utf8_lossy(text));
                stack.host().raise(stack, Class::InvalidText.error(message))
            })?
        }
        Kind::Integer(_) | Kind::User => operand(stack, 1)?,
        Kind::Float(_) => {
            let message = "a float is not exact: write the decimal as a string, db.decimal(\"1.50\")";
            return Err(stack.host().raise(stack, Class::TypeMismatch.error(message)));
        }
        _ => return Err(expected(stack, 1, "decimal", "string or integer")),
    };
    push_decimal(stack, value);
    Ok(1)
}
