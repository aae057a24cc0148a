//! Reads the arguments of library functions.

use thermocline_lua::{Kind, Raised};
use thermocline_types::Class;

use super::super::machine::L;
use super::buffer::Buffer;

/// `bad argument #1 to 'rep' (string expected, got nil)`.
pub fn expected(stack: &L<'_>, position: i32, function: &str, what: &str) -> Raised {
    let got = if stack.is_none(position) { "no value" } else { name_of(stack, position) };
    bad(stack, position, function, &format!("{what} expected, got {got}"))
}

/// `bad argument #1 to 'char' (value out of range)`.
pub fn bad(stack: &L<'_>, position: i32, function: &str, why: &str) -> Raised {
    let message = format!("bad argument #{position} to '{function}' ({why})");
    stack.host().raise(stack, Class::Procedure.error(message))
}

/// Type name of a value, as scripts see it.
pub fn name_of(stack: &L<'_>, position: i32) -> &'static str {
    match stack.kind(position) {
        Kind::User => super::value::user_name(stack, position),
        kind => kind.name(),
    }
}

/// A string, or a number converted to one.
pub fn bytes<'a>(stack: &'a L<'_>, position: i32, function: &str) -> Result<&'a [u8], Raised> {
    match stack.kind(position) {
        Kind::Text(text) => Ok(text),
        Kind::Integer(_) | Kind::Float(_) => {
            stack.push_copy(position);
            stack.print_number();
            match stack.kind(-1) {
                Kind::Text(text) => Ok(text),
                _ => Err(expected(stack, position, function, "string")),
            }
        }
        _ => Err(expected(stack, position, function, "string")),
    }
}

/// An integer, or a float that is one.
pub fn integer(stack: &L<'_>, position: i32, function: &str) -> Result<i64, Raised> {
    match stack.kind(position) {
        Kind::Integer(value) => Ok(value),
        Kind::Float(value) => match whole(value) {
            Some(value) => Ok(value),
            None => Err(bad(stack, position, function, "number has no integer representation")),
        },
        _ => Err(expected(stack, position, function, "number")),
    }
}

/// An integer, or the default if the argument is missing or nil.
pub fn integer_or(stack: &L<'_>, position: i32, function: &str, default: i64) -> Result<i64, Raised> {
    match stack.kind(position) {
        Kind::Nil => Ok(default),
        _ => integer(stack, position, function),
    }
}

/// A number as a float.
pub fn float(stack: &L<'_>, position: i32, function: &str) -> Result<f64, Raised> {
    match stack.kind(position) {
        #[expect(clippy::cast_precision_loss, reason = "as Lua converts integers to floats")]
        Kind::Integer(value) => Ok(value as f64),
        Kind::Float(value) => Ok(value),
        _ => Err(expected(stack, position, function, "number")),
    }
}

/// The integer equal to a float, if there is one.
pub fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "within the range of integers")]
    (value.floor() == value && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value))
        .then_some(value as i64)
}

/// A length or position as a Lua integer.
pub fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Appends a value as `tostring` prints it, but never an address.
pub fn print(stack: &L<'_>, position: i32, out: &mut Buffer<'_, '_>) -> Result<(), Raised> {
    stack.scoped(|stack| {
        if stack.push_metamethod(position, b"__tostring") {
            stack.push_copy(position);
            stack.call(1, 1, 0)?;
            return match stack.kind(-1) {
                Kind::Text(text) => out.push(text),
                _ => Err(stack.host().raise(stack, Class::Procedure.error("'__tostring' must return a string"))),
            };
        }
        match stack.kind(position) {
            Kind::Text(text) => out.push(text),
            Kind::Boolean(value) => out.push(if value { b"true" } else { b"false" }),
            Kind::Integer(_) | Kind::Float(_) => {
                stack.push_copy(position);
                stack.print_number();
                match stack.kind(-1) {
                    Kind::Text(text) => out.push(text),
                    _ => Ok(()),
                }
            }
            _ => out.push(name_of(stack, position).as_bytes()),
        }
    })
}
