//! `table`: what the prelude leaves to Rust.

use super::super::machine::L;
use super::super::vm::{Kind, Raised};
use super::Named;
use super::arguments::{bytes, count, expected, integer_or};
use super::buffer::Buffer;
use crate::error::Class;

pub const FUNCTIONS: &[Named] = &[("concat", concat), ("unpack", unpack)];

fn concat(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.kind(1) != Kind::Table {
        return Err(expected(stack, 1, "concat", "table"));
    }
    let first = integer_or(stack, 3, "concat", 1)?;
    let last = integer_or(stack, 4, "concat", count(stack.raw_len(1)))?;
    let between = if stack.kind(2) == Kind::Nil { &[][..] } else { bytes(stack, 2, "concat")? };
    let mut out = Buffer::new(stack);
    for index in first..=last {
        stack.raw_get_index(1, index);
        let kind = stack.kind(-1);
        if !matches!(kind, Kind::Text(_) | Kind::Integer(_) | Kind::Float(_)) {
            let message = format!("invalid value (a {}) at index {index} in table for 'concat'", kind.name());
            return Err(stack.host().raise(stack, Class::Procedure.error(message)));
        }
        if index > first {
            out.push(between)?;
        }
        stack.print_number();
        if let Kind::Text(text) = stack.kind(-1) {
            out.push(text)?;
        }
        stack.pop(1);
    }
    out.finish();
    Ok(1)
}

fn unpack(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.kind(1) != Kind::Table {
        return Err(expected(stack, 1, "unpack", "table"));
    }
    let first = integer_or(stack, 2, "unpack", 1)?;
    let last = integer_or(stack, 3, "unpack", count(stack.raw_len(1)))?;
    if first > last {
        return Ok(0);
    }
    let values = last.checked_sub(first).and_then(|less| i32::try_from(less).ok()).and_then(|less| less.checked_add(1));
    match values {
        Some(values) if stack.has_space(values) => {
            stack.host().spend(stack, values.unsigned_abs() as usize)?;
            for index in first..=last {
                stack.raw_get_index(1, index);
            }
            Ok(values)
        }
        _ => Err(stack.host().raise(stack, Class::LimitExceeded.error("too many results to unpack"))),
    }
}
