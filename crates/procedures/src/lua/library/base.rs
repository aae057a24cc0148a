//! Basic functions that replace Lua's own.

use std::cmp::Ordering;

use thermocline_lua::{Kind, Raised};
use thermocline_types::{Class, Error};

use super::super::machine::L;
use super::Named;
use super::arguments::{expected, integer};

/// Functions that scripts do not have, and why.
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
    ("format", super::format::format),
    ("handler", handler),
    ("keys", keys),
    ("metafield", metafield),
    ("missing", missing),
    ("next", next),
    ("random", random),
    ("rawset", rawset),
    ("setmetatable", setmetatable),
];

/// Message handler for errors on their way out of a procedure.
fn handler(stack: &L<'_>) -> Result<i32, Raised> {
    stack.host().note_line(stack);
    stack.set_top(1);
    Ok(1)
}

/// Raises again the error that has ended the transaction.
fn check(stack: &L<'_>) -> Result<i32, Raised> {
    let machine = stack.host();
    if machine.has_failed() || machine.meter_of().is_exhausted() {
        return Err(machine.stop_again(stack));
    }
    Ok(0)
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
    // For example the library's tables, which all calls share.
    if stack.push_metamethod(1, b"__metatable") {
        return Err(stack.host().raise(stack, Class::Procedure.error("rawset of a protected table")));
    }
    if stack.is_nil(2) {
        return Err(expected(stack, 2, "rawset", "key"));
    }
    if stack.float(2).is_some_and(f64::is_nan) {
        return Err(expected(stack, 2, "rawset", "number that is one"));
    }
    stack.set_top(3);
    stack.raw_set(1);
    Ok(1)
}

/// `__index` of the globals, for names that are not set.
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

/// A key of a type that has an order.
#[derive(Debug, Clone, PartialEq)]
enum Key {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Box<[u8]>),
}

impl Key {
    /// The key at a position; the name of its type if it has no order.
    fn at(stack: &L<'_>, position: i32) -> Result<Result<Self, &'static str>, Raised> {
        stack.scoped(|stack| {
            Ok(match stack.kind(position) {
                Kind::Boolean(value) => Ok(Self::Boolean(value)),
                Kind::Integer(value) => Ok(Self::Integer(value)),
                Kind::Float(value) => Ok(Self::Float(value)),
                Kind::Text(text) => Ok(Self::Text(text.into())),
                other => Err(other.name()),
            })
        })
    }

    /// Bytes that it holds on the heap.
    fn byte_size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
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

/// A float used as a key never equals an integer.
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

/// Visits the keys of the table at 1, in the order of Lua's memory. Visits all of them before it reports one without an
/// order, so that the error is always the same.
fn for_each_key(stack: &L<'_>, mut with: impl FnMut(Key) -> usize) -> Result<(), Raised> {
    let (mut disordered, mut seen, mut bytes): (Option<&str>, usize, usize) = (None, 0, 0);
    stack.push_nil();
    while stack.next(1) {
        stack.pop(1);
        seen += 1;
        match Key::at(stack, stack.top())? {
            Ok(key) => {
                let held = with(key);
                bytes += held;
                if held > 0 && !stack.may_hold(bytes) {
                    let message = "no memory for the keys of a table";
                    return Err(stack.host().abort(stack, Error::OutOfMemory(message.into())));
                }
            }
            Err(name) => disordered = Some(disordered.map_or(name, |other| other.min(name))),
        }
    }
    stack.host().spend(stack, seen)?;
    match disordered {
        None => Ok(()),
        Some(name) => {
            let message = format!("a table with a {name} as a key has no order to go through it by");
            Err(stack.host().raise(stack, Class::Procedure.error(message)))
        }
    }
}

/// Sorted array of a table's keys.
fn keys(stack: &L<'_>) -> Result<i32, Raised> {
    stack.set_top(1);
    let mut keys = Vec::new();
    for_each_key(stack, |key| {
        let bytes = size_of::<Key>() + key.byte_size();
        keys.push(key);
        bytes
    })?;
    // Sorting takes about n log n comparisons.
    let depth = usize::BITS - keys.len().leading_zeros();
    stack.host().spend(stack, keys.len() * (depth as usize / 4))?;
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
    if !stack.is_table(1) {
        return Err(expected(stack, 1, "next", "table"));
    }
    stack.set_top(2);
    let after = match stack.is_nil(2) {
        true => None,
        false => Some(Key::at(stack, 2)?.map_err(|name| {
            let message = format!("a table with a {name} as a key has no order to go through it by");
            stack.host().raise(stack, Class::Procedure.error(message))
        })?),
    };
    let mut least: Option<Key> = None;
    for_each_key(stack, |key| {
        let is_after = after.as_ref().is_none_or(|after| key.compare(after) == Ordering::Greater);
        if is_after && least.as_ref().is_none_or(|least| key.compare(least) == Ordering::Less) {
            least = Some(key);
        }
        0
    })?;
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

/// Random number of the transaction: a float in [0, 1), or an integer between two bounds.
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
    // Multiplies instead of dividing; the bias is below 2^-64 times the span.
    let offset = u64::try_from((u128::from(bits) * (u128::from(span) + 1)) >> 64).unwrap_or(0);
    stack.push_integer(low.wrapping_add(offset.cast_signed()));
    Ok(1)
}
