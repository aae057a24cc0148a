//! Basic functions that Lua's own would not do for.

use std::cmp::Ordering;

use super::super::machine::L;
use super::super::vm::{Kind, Raised};
use super::Named;
use super::arguments::{expected, integer};
use crate::error::Class;

/// What scripts look for in vain, and why.
const FORBIDDEN: [&str; 13] = [
    "_G",
    "collectgarbage",
    "debug",
    "dofile",
    "io",
    "load",
    "loadfile",
    "loadstring",
    "os",
    "package",
    "print",
    "require",
    "warn",
];

pub const FUNCTIONS: &[Named] = &[
    ("check", check),
    ("getmetatable", getmetatable),
    ("gmatch_from", super::string::gmatch_from),
    ("keys", keys),
    ("metafield", metafield),
    ("missing", missing),
    ("next", next),
    ("random", random),
    ("rawset", rawset),
    ("set_global", set_global),
    ("setmetatable", setmetatable),
    ("tostring", tostring),
];

/// Sees an error on its way out of a procedure.
pub fn handler(stack: &L<'_>) -> Result<i32, Raised> {
    stack.host().note_line(stack);
    stack.set_top(1);
    Ok(1)
}

/// Raises again what has ended the transaction.
fn check(stack: &L<'_>) -> Result<i32, Raised> {
    let machine = stack.host();
    if machine.has_failed() || machine.meter_of().is_exhausted() {
        return Err(machine.stop_again(stack));
    }
    Ok(0)
}

fn getmetatable(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.is_none(1) {
        return Err(expected(stack, 1, "getmetatable", "value"));
    }
    if stack.push_metamethod(1, b"__metatable") {
        return Ok(1);
    }
    if !stack.push_metatable(1) {
        stack.push_nil();
    }
    Ok(1)
}

fn setmetatable(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.kind(1) != Kind::Table {
        return Err(expected(stack, 1, "setmetatable", "table"));
    }
    let of = match stack.kind(2) {
        Kind::Nil if !stack.is_none(2) => Kind::Nil,
        Kind::Table => Kind::Table,
        _ => return Err(expected(stack, 2, "setmetatable", "nil or table")),
    };
    if stack.push_metamethod(1, b"__metatable") {
        return Err(stack.host().raise(stack, Class::Procedure.error("cannot change a protected metatable")));
    }
    if of == Kind::Table {
        for name in ["__gc", "__mode"] {
            stack.raw_get_field(2, name.as_bytes());
            if stack.kind(-1) != Kind::Nil {
                let message = format!("{name} is not for procedures: it depends on when memory is collected");
                return Err(stack.host().abort(stack, Class::ProcedureForbidden.error(message)));
            }
            stack.pop(1);
        }
    }
    stack.push_copy(2);
    stack.set_metatable(1);
    stack.push_copy(1);
    Ok(1)
}

fn rawset(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.kind(1) != Kind::Table {
        return Err(expected(stack, 1, "rawset", "table"));
    }
    // Such as the library's tables, which all calls share.
    if stack.push_metamethod(1, b"__metatable") {
        return Err(stack.host().raise(stack, Class::Procedure.error("rawset of a protected table")));
    }
    match stack.kind(2) {
        Kind::Nil => return Err(expected(stack, 2, "rawset", "key")),
        Kind::Float(value) if value.is_nan() => return Err(expected(stack, 2, "rawset", "number that is one")),
        _ => {}
    }
    stack.set_top(3);
    stack.raw_set(1);
    Ok(1)
}

/// Sets a global variable, until the call ends.
fn set_global(stack: &L<'_>) -> Result<i32, Raised> {
    if let Some(loaded) = stack.host().current() {
        loaded.has_globals.set(true);
    }
    stack.set_top(3);
    stack.raw_set(1);
    Ok(0)
}

/// What a global is that nobody has set.
fn missing(stack: &L<'_>) -> Result<i32, Raised> {
    if let Kind::Text(name) = stack.kind(2)
        && let Some(name) = FORBIDDEN.iter().find(|known| known.as_bytes() == name)
    {
        let message = format!("{name} is not available to procedures, which have to do the same when they run again");
        return Err(stack.host().abort(stack, Class::ProcedureForbidden.error(message)));
    }
    stack.push_nil();
    Ok(1)
}

fn metafield(stack: &L<'_>) -> Result<i32, Raised> {
    let Kind::Text(name) = stack.kind(2) else { return Ok(0) };
    if !stack.push_metamethod(1, name) {
        stack.push_nil();
    }
    Ok(1)
}

/// A key that has a place in an order.
#[derive(Debug, Clone, PartialEq)]
enum Key {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Box<[u8]>),
}

impl Key {
    fn at(stack: &L<'_>, position: i32) -> Result<Self, Raised> {
        Ok(match stack.kind(position) {
            Kind::Boolean(value) => Self::Boolean(value),
            Kind::Integer(value) => Self::Integer(value),
            Kind::Float(value) => Self::Float(value),
            Kind::Text(text) => Self::Text(text.into()),
            other => {
                let message = format!("a table with a {} as a key has no order to go through it by", other.name());
                return Err(stack.host().raise(stack, Class::Procedure.error(message)));
            }
        })
    }

    fn push(&self, stack: &L<'_>) {
        match self {
            Self::Boolean(value) => stack.push_boolean(*value),
            Self::Integer(value) => stack.push_integer(*value),
            Self::Float(value) => stack.push_float(*value),
            Self::Text(text) => stack.push_bytes(text),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(left), Self::Boolean(right)) => left.cmp(right),
            (Self::Integer(left), Self::Integer(right)) => left.cmp(right),
            (Self::Float(left), Self::Float(right)) => left.total_cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Integer(left), Self::Float(right)) => compare_mixed(*left, *right),
            (Self::Float(left), Self::Integer(right)) => compare_mixed(*right, *left).reverse(),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Boolean(_) => 0,
            Self::Integer(_) | Self::Float(_) => 1,
            Self::Text(_) => 2,
        }
    }
}

/// A float that is a key is no integer.
#[expect(clippy::cast_possible_truncation, reason = "within the range of integers")]
fn compare_mixed(integer: i64, float: f64) -> Ordering {
    if float >= 9_223_372_036_854_775_808.0 {
        Ordering::Less
    } else if float < -9_223_372_036_854_775_808.0 {
        Ordering::Greater
    } else {
        integer.cmp(&(float.floor() as i64)).then(Ordering::Less)
    }
}

/// An array of a table's keys in their order.
fn keys(stack: &L<'_>) -> Result<i32, Raised> {
    let mut keys = Vec::new();
    stack.set_top(1);
    stack.push_nil();
    while stack.next(1) {
        stack.pop(1);
        keys.push(Key::at(stack, -1)?);
    }
    // Numbers of comparisons are of the order of n log n.
    let depth = usize::BITS - keys.len().leading_zeros();
    stack.host().spend(stack, keys.len() * (1 + depth as usize / 4))?;
    keys.sort_unstable_by(Key::compare);
    stack.push_table(keys.len(), 0);
    for (index, key) in (1..).zip(&keys) {
        key.push(stack);
        stack.raw_set_index(2, index);
    }
    Ok(1)
}

/// The key after another one, and its value.
fn next(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.kind(1) != Kind::Table {
        return Err(expected(stack, 1, "next", "table"));
    }
    let after = match stack.kind(2) {
        Kind::Nil => None,
        _ => Some(Key::at(stack, 2)?),
    };
    let (mut least, mut seen): (Option<Key>, usize) = (None, 0);
    stack.set_top(2);
    stack.push_nil();
    while stack.next(1) {
        stack.pop(1);
        seen += 1;
        let key = Key::at(stack, -1)?;
        let is_after = after.as_ref().is_none_or(|after| key.compare(after) == Ordering::Greater);
        if is_after && least.as_ref().is_none_or(|least| key.compare(least) == Ordering::Less) {
            least = Some(key);
        }
    }
    stack.host().spend(stack, seen)?;
    match least {
        Some(key) => {
            key.push(stack);
            key.push(stack);
            stack.raw_get(1);
            Ok(2)
        }
        None => {
            stack.push_nil();
            Ok(1)
        }
    }
}

fn tostring(stack: &L<'_>) -> Result<i32, Raised> {
    if stack.is_none(1) {
        return Err(expected(stack, 1, "tostring", "value"));
    }
    push_printed(stack, 1)?;
    Ok(1)
}

/// Pushes a value as text. Addresses are never told.
pub fn push_printed(stack: &L<'_>, position: i32) -> Result<(), Raised> {
    if stack.push_metamethod(position, b"__tostring") {
        stack.push_copy(position);
        stack.call(1, 1, 0)?;
        return match stack.kind(-1) {
            Kind::Text(_) => Ok(()),
            _ => Err(stack.host().raise(stack, Class::Procedure.error("'__tostring' must return a string"))),
        };
    }
    match stack.kind(position) {
        Kind::Text(_) => stack.push_copy(position),
        Kind::Integer(_) | Kind::Float(_) => {
            stack.push_copy(position);
            stack.print_number();
        }
        Kind::Boolean(value) => stack.push_bytes(if value { b"true" } else { b"false" }),
        _ => stack.push_bytes(super::arguments::name_of(stack, position).as_bytes()),
    }
    Ok(())
}

/// A random number of the transaction: a float less than 1, or an integer between two.
fn random(stack: &L<'_>) -> Result<i32, Raised> {
    let machine = stack.host();
    let bits = machine.transact(stack, |context| Ok(context.random()))?;
    let (low, high) = match stack.top() {
        0 => {
            #[expect(clippy::cast_precision_loss, reason = "53 bits fit a float")]
            stack.push_float((bits >> 11) as f64 / (1_u64 << 53) as f64);
            return Ok(1);
        }
        1 => match integer(stack, 1, "random")? {
            0 => {
                stack.push_integer(bits.cast_signed());
                return Ok(1);
            }
            high => (1, high),
        },
        _ => (integer(stack, 1, "random")?, integer(stack, 2, "random")?),
    };
    if low > high {
        return Err(super::arguments::bad(stack, stack.top().min(2), "random", "interval is empty"));
    }
    let span = high.wrapping_sub(low).cast_unsigned();
    // Multiplied rather than divided; the bias is below what 2^-64 times the span could show.
    let offset = u64::try_from((u128::from(bits) * (u128::from(span) + 1)) >> 64).unwrap_or(0);
    stack.push_integer(low.wrapping_add(offset.cast_signed()));
    Ok(1)
}
