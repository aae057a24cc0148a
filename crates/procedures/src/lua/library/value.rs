//! Conversion between values of SQL and of Lua.

use thermocline_lua::Kind;
use thermocline_statements::Rows;
use thermocline_types::{Class, DataType, Decimal, Result, Value, ValueRef};

use super::super::loaded::StatementHandle;
use super::super::machine::L;
use super::moment::{Date, Timestamp};
use super::result::ResultSet;

/// Pushes a value. Text and bytes are both strings.
pub fn push_value(stack: &L<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => stack.push_nil(),
        ValueRef::Boolean(value) => stack.push_boolean(value),
        ValueRef::Int(value) => stack.push_integer(value),
        ValueRef::Real(value) => stack.push_float(value.into()),
        ValueRef::Float(value) => stack.push_float(value),
        ValueRef::Text(text) => stack.push_bytes(text.as_bytes()),
        ValueRef::Bytes(bytes) => stack.push_bytes(bytes),
        ValueRef::Decimal(value) => push_decimal(stack, value),
        ValueRef::Date(days) => push_date(stack, days),
        // A timestamp with time zone becomes a timestamp in UTC.
        ValueRef::Timestamp(micros) | ValueRef::TimestampTz(micros) => push_timestamp(stack, micros),
        // As text, which parameters of these types accept.
        ValueRef::Interval(_) | ValueRef::Uuid(_) => stack.push_bytes(value.to_string().as_bytes()),
        ValueRef::Jsonb(document) => stack.push_bytes(document.as_bytes()),
    }
}

/// Pushes a decimal.
pub fn push_decimal(stack: &L<'_>, value: Decimal) {
    match stack.host().kept() {
        Ok(kept) => stack.push_user(value, &kept.decimal),
        Err(_) => stack.push_nil(),
    }
}

/// Pushes a date: days since 1970.
pub fn push_date(stack: &L<'_>, days: i32) {
    match stack.host().kept() {
        Ok(kept) => stack.push_user(Date(days), &kept.date),
        Err(_) => stack.push_nil(),
    }
}

/// Pushes a timestamp: microseconds since 1970.
pub fn push_timestamp(stack: &L<'_>, micros: i64) {
    match stack.host().kept() {
        Ok(kept) => stack.push_user(Timestamp(micros), &kept.timestamp),
        Err(_) => stack.push_nil(),
    }
}

/// Pushes a cell of a result. Texts become their bytes.
#[inline]
pub fn push_cell(stack: &L<'_>, rows: &Rows, row: usize, column: usize) {
    match rows.text_bytes(row, column) {
        Some(text) => stack.push_bytes(text),
        None => push_value(stack, rows.value(row, column)),
    }
}

/// The value at a position, for a parameter of the wanted type if that is known.
#[inline]
pub fn value_at(stack: &L<'_>, position: i32, wanted: Option<DataType>) -> Result<Value> {
    match stack.kind(position) {
        // The common case.
        Kind::Integer(value) => Ok(Value::Int(value)),
        kind => value_of(stack, position, kind, wanted).map(ValueRef::to_value),
    }
}

/// The value at a position, borrowing its text or bytes from Lua.
#[inline]
pub fn value_of<'a>(stack: &L<'_>, position: i32, kind: Kind<'a>, wanted: Option<DataType>) -> Result<ValueRef<'a>> {
    Ok(match kind {
        Kind::Nil => ValueRef::Null,
        Kind::Boolean(value) => ValueRef::Boolean(value),
        Kind::Integer(value) => ValueRef::Int(value),
        Kind::Float(value) => ValueRef::Float(value),
        Kind::Text(bytes) if wanted == Some(DataType::Bytea) => ValueRef::Bytes(bytes),
        Kind::Text(text) => ValueRef::Text(utf8(text)?),
        Kind::User => match user_value(stack, position) {
            Some(value) => value,
            None => return Err(no_value(user_name(stack, position))),
        },
        kind => return Err(no_value(kind.name())),
    })
}

fn user_value(stack: &L<'_>, position: i32) -> Option<ValueRef<'static>> {
    if let Some(value) = stack.user::<Decimal>(position) {
        return Some(ValueRef::Decimal(*value));
    }
    if let Some(Date(days)) = stack.user::<Date>(position) {
        return Some(ValueRef::Date(*days));
    }
    stack.user::<Timestamp>(position).map(|Timestamp(micros)| ValueRef::Timestamp(*micros))
}

/// Type name of a value of Rust, as scripts see it.
pub fn user_name(stack: &L<'_>, position: i32) -> &'static str {
    if stack.is_user::<Decimal>(position) {
        "decimal"
    } else if stack.is_user::<Date>(position) {
        "date"
    } else if stack.is_user::<Timestamp>(position) {
        "timestamp"
    } else if stack.is_user::<ResultSet>(position) {
        "result"
    } else if stack.is_user::<StatementHandle>(position) {
        "statement"
    } else {
        "userdata"
    }
}

fn no_value(name: &str) -> thermocline_types::Error {
    Class::TypeMismatch.error(format_args!("a {name} is no value of SQL"))
}

/// A string as text.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Class::InvalidText.error(format_args!("a string is not UTF-8 from its byte {} on", error.valid_up_to() + 1))
    })
}
