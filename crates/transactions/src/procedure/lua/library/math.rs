//! `math`: what is exact, or rounded as IEEE 754 says. Sines and logarithms differ from one C library to
//! the next.

use super::super::machine::L;
use super::super::vm::{Kind, Raised};
use super::Named;
use super::arguments::{bad, expected, float, integer, whole};

pub const FUNCTIONS: &[Named] = &[
    ("abs", abs),
    ("ceil", ceil),
    ("floor", floor),
    ("fmod", fmod),
    ("modf", modf),
    ("sqrt", sqrt),
    ("tointeger", tointeger),
    ("type", type_of),
    ("ult", ult),
];

fn abs(stack: &L<'_>) -> Result<i32, Raised> {
    match stack.kind(1) {
        Kind::Integer(value) => stack.push_integer(value.wrapping_abs()),
        _ => stack.push_float(float(stack, 1, "abs")?.abs()),
    }
    Ok(1)
}

fn ceil(stack: &L<'_>) -> Result<i32, Raised> {
    rounded(stack, "ceil", f64::ceil)
}

fn floor(stack: &L<'_>) -> Result<i32, Raised> {
    rounded(stack, "floor", f64::floor)
}

fn rounded(stack: &L<'_>, name: &str, round: impl Fn(f64) -> f64) -> Result<i32, Raised> {
    if let Kind::Integer(value) = stack.kind(1) {
        stack.push_integer(value);
    } else {
        push_whole(stack, round(float(stack, 1, name)?));
    }
    Ok(1)
}

/// Pushes a float as an integer if it is one.
fn push_whole(stack: &L<'_>, value: f64) {
    match whole(value) {
        Some(value) => stack.push_integer(value),
        None => stack.push_float(value),
    }
}

fn fmod(stack: &L<'_>) -> Result<i32, Raised> {
    match (stack.kind(1), stack.kind(2)) {
        (Kind::Integer(_), Kind::Integer(0)) => return Err(bad(stack, 2, "fmod", "zero")),
        (Kind::Integer(left), Kind::Integer(right)) => stack.push_integer(left.wrapping_rem(right)),
        _ => stack.push_float(float(stack, 1, "fmod")? % float(stack, 2, "fmod")?),
    }
    Ok(1)
}

fn modf(stack: &L<'_>) -> Result<i32, Raised> {
    let value = float(stack, 1, "modf")?;
    stack.push_float(value.trunc());
    stack.push_float(if value.is_infinite() { 0.0 } else { value - value.trunc() });
    Ok(2)
}

fn sqrt(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_float(float(stack, 1, "sqrt")?.sqrt());
    Ok(1)
}

fn tointeger(stack: &L<'_>) -> Result<i32, Raised> {
    match stack.to_integer(1) {
        Some(value) => stack.push_integer(value),
        None if stack.is_none(1) => return Err(expected(stack, 1, "tointeger", "value")),
        None => stack.push_nil(),
    }
    Ok(1)
}

fn type_of(stack: &L<'_>) -> Result<i32, Raised> {
    match stack.kind(1) {
        Kind::Integer(_) => stack.push_bytes(b"integer"),
        Kind::Float(_) => stack.push_bytes(b"float"),
        _ if stack.is_none(1) => return Err(expected(stack, 1, "type", "value")),
        _ => stack.push_nil(),
    }
    Ok(1)
}

fn ult(stack: &L<'_>) -> Result<i32, Raised> {
    let (left, right) = (integer(stack, 1, "ult")?, integer(stack, 2, "ult")?);
    stack.push_boolean(left.cast_unsigned() < right.cast_unsigned());
    Ok(1)
}
