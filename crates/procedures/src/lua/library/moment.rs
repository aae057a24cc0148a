//! Dates and timestamps.

use std::cmp::Ordering;

use thermocline_lua::{Kind, Raised};
use thermocline_types::{Class, Error, MICROS_PER_DAY, ValueRef, from_civil, parse_date, parse_timestamp, to_civil};

use super::super::machine::L;
use super::Named;
use super::arguments::{bytes, expected, integer, name_of};
use super::value::{push_date, push_timestamp};

/// Days since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Date(pub i32);

/// Microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp(pub i64);

pub const DATE_FUNCTIONS: &[Named] = &[
    ("__add", |stack| shifted(stack, 1)),
    ("__concat", concat),
    ("__eq", |stack| compare(stack, Ordering::is_eq)),
    ("__index", field),
    ("__le", |stack| compare(stack, Ordering::is_le)),
    ("__lt", |stack| compare(stack, Ordering::is_lt)),
    ("__sub", difference),
    ("__tostring", tostring),
];

pub const TIMESTAMP_FUNCTIONS: &[Named] = DATE_FUNCTIONS;

/// A date or a timestamp in microseconds, and whether it is a date.
fn moment(stack: &L<'_>, position: i32) -> Option<(i64, bool)> {
    if let Some(Date(days)) = stack.user::<Date>(position) {
        return Some((i64::from(*days) * MICROS_PER_DAY, true));
    }
    stack.user::<Timestamp>(position).map(|Timestamp(micros)| (*micros, false))
}

fn wanted(stack: &L<'_>, position: i32) -> Raised {
    let message = format!("a date or a timestamp does not go with a {}", name_of(stack, position));
    stack.host().raise(stack, Class::TypeMismatch.error(message))
}

fn out_of_range(stack: &L<'_>) -> Raised {
    stack.host().raise(stack, Class::InvalidDatetime.error("a date outside of the years 1 to 9999"))
}

/// Pushes a date or timestamp; an error outside the years 1 to 9999.
fn push(stack: &L<'_>, micros: i64, is_date: bool) -> Result<i32, Raised> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range(stack))?;
    let bounds = (from_civil(1, 1, 1), from_civil(9999, 12, 31));
    if bounds.0.is_some_and(|first| days < first) || bounds.1.is_some_and(|last| days > last) {
        return Err(out_of_range(stack));
    }
    if is_date {
        push_date(stack, days)
    } else {
        push_timestamp(stack, micros)
    }
    Ok(1)
}

/// A date plus days, or a timestamp plus microseconds.
fn shifted(stack: &L<'_>, sign: i64) -> Result<i32, Raised> {
    let (position, other) = if moment(stack, 1).is_some() { (1, 2) } else { (2, 1) };
    let Some((micros, is_date)) = moment(stack, position) else { return Err(wanted(stack, position)) };
    let Kind::Integer(by) = stack.kind(other) else { return Err(wanted(stack, other)) };
    let unit = if is_date { MICROS_PER_DAY } else { 1 };
    let sum = by.checked_mul(unit * sign).and_then(|by| micros.checked_add(by));
    push(stack, sum.ok_or_else(|| out_of_range(stack))?, is_date)
}

/// Days between two dates, microseconds between two timestamps, or an earlier date or timestamp.
fn difference(stack: &L<'_>) -> Result<i32, Raised> {
    match (moment(stack, 1), moment(stack, 2)) {
        (Some((left, true)), Some((right, true))) => stack.push_integer((left - right) / MICROS_PER_DAY),
        (Some((left, _)), Some((right, _))) => stack.push_integer(left - right),
        (Some(_), None) => return shifted(stack, -1),
        _ => return Err(wanted(stack, 1)),
    }
    Ok(1)
}

fn compare(stack: &L<'_>, is: impl Fn(Ordering) -> bool) -> Result<i32, Raised> {
    let Some((left, _)) = moment(stack, 1) else { return Err(wanted(stack, 1)) };
    let Some((right, _)) = moment(stack, 2) else { return Err(wanted(stack, 2)) };
    stack.push_boolean(is(left.cmp(&right)));
    Ok(1)
}

fn text(stack: &L<'_>, position: i32) -> Option<String> {
    let (micros, is_date) = moment(stack, position)?;
    Some(match stack.user::<Date>(position) {
        Some(Date(days)) if is_date => ValueRef::Date(*days).to_string(),
        _ => ValueRef::Timestamp(micros).to_string(),
    })
}

fn tostring(stack: &L<'_>) -> Result<i32, Raised> {
    let text = text(stack, 1).ok_or_else(|| wanted(stack, 1))?;
    stack.push_bytes(text.as_bytes());
    Ok(1)
}

fn concat(stack: &L<'_>) -> Result<i32, Raised> {
    let mut out = super::buffer::Buffer::new(stack);
    for position in 1..=2 {
        match text(stack, position) {
            Some(text) => out.push(text.as_bytes())?,
            None => out.push(bytes(stack, position, "..")?)?,
        }
    }
    out.finish();
    Ok(1)
}

/// `.year`, `.month`, `.day`, `.weekday` (Monday is 1); of timestamps also `.hour`, `.minute`, `.second`,
/// `.microsecond`, `.date`; of dates `.timestamp`, its midnight.
fn field(stack: &L<'_>) -> Result<i32, Raised> {
    let Some((micros, is_date)) = moment(stack, 1) else { return Err(wanted(stack, 1)) };
    let days = micros.div_euclid(MICROS_PER_DAY);
    let (year, month, day) = to_civil(i32::try_from(days).unwrap_or(i32::MAX));
    let within = micros.rem_euclid(MICROS_PER_DAY);
    let second = 1_000_000;
    let value = match (stack.kind(2), is_date) {
        (Kind::Text(b"year"), _) => i64::from(year),
        (Kind::Text(b"month"), _) => i64::from(month),
        (Kind::Text(b"day"), _) => i64::from(day),
        // 1970-01-01 was a Thursday.
        (Kind::Text(b"weekday"), _) => (days + 3).rem_euclid(7) + 1,
        (Kind::Text(b"hour"), false) => within / (3600 * second),
        (Kind::Text(b"minute"), false) => within / (60 * second) % 60,
        (Kind::Text(b"second"), false) => within / second % 60,
        (Kind::Text(b"microsecond"), false) => within % second,
        (Kind::Text(b"date"), false) => {
            push_date(stack, i32::try_from(days).unwrap_or(i32::MAX));
            return Ok(1);
        }
        (Kind::Text(b"timestamp"), true) => {
            push_timestamp(stack, micros);
            return Ok(1);
        }
        _ => {
            let message = format!("a {} has no such field", if is_date { "date" } else { "timestamp" });
            return Err(stack.host().raise(stack, Class::Procedure.error(message)));
        }
    };
    stack.push_integer(value);
    Ok(1)
}

/// `db.date("2024-02-29")`, `db.date(2024, 2, 29)`.
pub fn make_date(stack: &L<'_>) -> Result<i32, Raised> {
    let days = match stack.kind(1) {
        Kind::Text(text) => parsed(stack, text, parse_date)?,
        Kind::Integer(_) => {
            let part = |position| integer(stack, position, "date");
            let (year, month, day) = (part(1)?, part(2)?, part(3)?);
            let days = match (i32::try_from(year), u32::try_from(month), u32::try_from(day)) {
                (Ok(year), Ok(month), Ok(day)) => from_civil(year, month, day),
                _ => None,
            };
            days.ok_or_else(|| {
                let message = format!("{year}-{month}-{day} is no date");
                stack.host().raise(stack, Class::InvalidDatetime.error(message))
            })?
        }
        _ => return Err(expected(stack, 1, "date", "string or integer")),
    };
    push_date(stack, days);
    Ok(1)
}

/// `db.timestamp("2024-02-29 12:00:00")`.
pub fn make_timestamp(stack: &L<'_>) -> Result<i32, Raised> {
    let Kind::Text(text) = stack.kind(1) else { return Err(expected(stack, 1, "timestamp", "string")) };
    let micros = parsed(stack, text, parse_timestamp)?;
    push_timestamp(stack, micros);
    Ok(1)
}

fn parsed<T>(stack: &L<'_>, text: &[u8], parse: impl Fn(&str) -> Result<T, Error>) -> Result<T, Raised> {
    super::value::utf8(text).and_then(parse).map_err(|error| stack.host().raise(stack, error))
}
