//! Values, owned and borrowed.

use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};

use crate::uuid::{UUID_BYTES, format_uuid};
use crate::{DataType, Decimal, Interval, Zone, format_date, format_timestamp, format_timestamptz, json};

/// A value of any type, or NULL.
///
/// Equality and order are for tests, groups and sorting: NULL equals NULL and comes last, NaN equals
/// NaN and is the largest float, integers, decimals and floats compare as numbers. SQL's `=`, for
/// which NULL is unknown, is [`ValueRef::compare`].
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// `BOOLEAN`.
    Boolean(bool),
    /// `SMALLINT`, `INTEGER`, `BIGINT`.
    Int(i64),
    /// `REAL`.
    Real(f32),
    /// `DOUBLE PRECISION`.
    Float(f64),
    /// `DECIMAL`, with its own scale.
    Decimal(Decimal),
    /// `TEXT`, `VARCHAR`.
    Text(Box<str>),
    /// `BYTEA`.
    Bytes(Box<[u8]>),
    /// `DATE`: days since 1970-01-01.
    Date(i32),
    /// `TIMESTAMP`: microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// `TIMESTAMP WITH TIME ZONE`: microseconds since 1970-01-01 00:00:00 UTC.
    TimestampTz(i64),
    /// `INTERVAL`.
    Interval(Interval),
    /// `UUID`.
    Uuid([u8; UUID_BYTES]),
    /// `JSONB`: canonical text, as [`json::normalize`] gives it.
    Jsonb(Box<str>),
}

/// A [`Value`] that borrows its text or bytes, mostly from a row.
#[derive(Debug, Clone, Copy, Default)]
pub enum ValueRef<'a> {
    /// No value.
    #[default]
    Null,
    /// `BOOLEAN`.
    Boolean(bool),
    /// `SMALLINT`, `INTEGER`, `BIGINT`.
    Int(i64),
    /// `REAL`.
    Real(f32),
    /// `DOUBLE PRECISION`.
    Float(f64),
    /// `DECIMAL`, with its own scale.
    Decimal(Decimal),
    /// `TEXT`, `VARCHAR`.
    Text(&'a str),
    /// `BYTEA`.
    Bytes(&'a [u8]),
    /// `DATE`: days since 1970-01-01.
    Date(i32),
    /// `TIMESTAMP`: microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// `TIMESTAMP WITH TIME ZONE`: microseconds since 1970-01-01 00:00:00 UTC.
    TimestampTz(i64),
    /// `INTERVAL`.
    Interval(Interval),
    /// `UUID`.
    Uuid([u8; UUID_BYTES]),
    /// `JSONB`: canonical text, as [`json::normalize`] gives it.
    Jsonb(&'a str),
}

/// Values are moved about by the million.
const _: () = assert!(size_of::<Value>() == 24 && size_of::<ValueRef<'static>>() == 24);

impl Value {
    /// Bytes of memory that it points to.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Jsonb(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// A bit for each kind of value.
    #[inline]
    pub const fn kind_bit(&self) -> u16 {
        1 << match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Decimal(_) => 4,
            Self::Text(_) => 5,
            Self::Bytes(_) => 6,
            Self::Date(_) => 7,
            Self::Timestamp(_) => 8,
            Self::Interval(_) => 9,
            Self::Real(_) => 10,
            Self::Uuid(_) => 11,
            Self::TimestampTz(_) => 13,
            Self::Jsonb(_) => 12,
        }
    }

    /// The same value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Boolean(value) => ValueRef::Boolean(*value),
            Self::Int(value) => ValueRef::Int(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Decimal(value) => ValueRef::Decimal(*value),
            Self::Text(value) => ValueRef::Text(value),
            Self::Bytes(value) => ValueRef::Bytes(value),
            Self::Date(value) => ValueRef::Date(*value),
            Self::Timestamp(value) => ValueRef::Timestamp(*value),
            Self::TimestampTz(value) => ValueRef::TimestampTz(*value),
            Self::Interval(value) => ValueRef::Interval(*value),
            Self::Uuid(value) => ValueRef::Uuid(*value),
            Self::Jsonb(value) => ValueRef::Jsonb(value),
        }
    }

    /// Whether it is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl<'a> ValueRef<'a> {
    /// The bit of [`Value::kind_bit`].
    #[inline]
    pub const fn kind_bit(self) -> u16 {
        1 << match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Decimal(_) => 4,
            Self::Text(_) => 5,
            Self::Bytes(_) => 6,
            Self::Date(_) => 7,
            Self::Timestamp(_) => 8,
            Self::Interval(_) => 9,
            Self::Real(_) => 10,
            Self::Uuid(_) => 11,
            Self::TimestampTz(_) => 13,
            Self::Jsonb(_) => 12,
        }
    }

    /// The same value, owned.
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(value),
            Self::Int(value) => Value::Int(value),
            Self::Real(value) => Value::Real(value),
            Self::Float(value) => Value::Float(value),
            Self::Decimal(value) => Value::Decimal(value),
            Self::Text(value) => Value::Text(value.into()),
            Self::Bytes(value) => Value::Bytes(value.into()),
            Self::Date(value) => Value::Date(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::TimestampTz(value) => Value::TimestampTz(value),
            Self::Interval(value) => Value::Interval(value),
            Self::Uuid(value) => Value::Uuid(value),
            Self::Jsonb(value) => Value::Jsonb(value.into()),
        }
    }

    /// Bytes of memory that it borrows.
    pub const fn heap_bytes(self) -> usize {
        match self {
            Self::Text(text) | Self::Jsonb(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Maximum bytes of its text.
    pub const fn text_bytes_max(self) -> usize {
        /// More than any number or time needs.
        const NUMBER_BYTES: usize = 64;
        match self {
            Self::Text(text) | Self::Jsonb(text) => text.len(),
            Self::Bytes(bytes) => 2 + 2 * bytes.len(),
            Self::Null => 0,
            _ => NUMBER_BYTES,
        }
    }

    /// Whether it is NULL.
    pub const fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// The type that a value of this kind has by itself; `None` for NULL.
    pub fn data_type(self) -> Option<DataType> {
        Some(match self {
            Self::Null => return None,
            Self::Boolean(_) => DataType::Boolean,
            Self::Int(_) => DataType::BigInt,
            Self::Real(_) => DataType::Real,
            Self::Float(_) => DataType::Double,
            Self::Decimal(_) => DataType::Numeric,
            Self::Text(_) => DataType::Text,
            Self::Bytes(_) => DataType::Bytea,
            Self::Date(_) => DataType::Date,
            Self::Timestamp(_) => DataType::Timestamp,
            Self::TimestampTz(_) => DataType::TimestampTz,
            Self::Interval(_) => DataType::Interval,
            Self::Uuid(_) => DataType::Uuid,
            Self::Jsonb(_) => DataType::Jsonb,
        })
    }

    /// The order of two values as SQL compares them; `None` if either is NULL or if values of these
    /// kinds do not compare, which binding has excluded.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Decimal(left), Self::Decimal(right)) => left.cmp(&right),
            (Self::Date(left), Self::Date(right)) => left.cmp(&right),
            // The zone between the two is UTC.
            (Self::Timestamp(left) | Self::TimestampTz(left), Self::Timestamp(right) | Self::TimestampTz(right)) => {
                left.cmp(&right)
            }
            (Self::Interval(left), Self::Interval(right)) => left.cmp(&right),
            (Self::Uuid(left), Self::Uuid(right)) => left.cmp(&right),
            (Self::Jsonb(left), Self::Jsonb(right)) => json::compare(left, right),
            (Self::Boolean(left), Self::Boolean(right)) => left.cmp(&right),
            (Self::Bytes(left), Self::Bytes(right)) => left.cmp(right),
            (Self::Float(left), Self::Float(right)) => compare_floats(left, right),
            (Self::Int(left), Self::Decimal(right)) => Decimal::from(left).cmp(&right),
            (Self::Decimal(left), Self::Int(right)) => left.cmp(&Decimal::from(right)),
            (Self::Date(left), Self::Timestamp(right) | Self::TimestampTz(right)) => midnight(left).cmp(&right),
            (Self::Timestamp(left) | Self::TimestampTz(left), Self::Date(right)) => left.cmp(&midnight(right)),
            (Self::Float(_) | Self::Real(_), _) | (_, Self::Float(_) | Self::Real(_)) => {
                compare_floats(self.number_as_f64()?, other.number_as_f64()?)
            }
            _ => return None,
        })
    }

    /// The order for sorting and grouping: NULL equals NULL and is last.
    pub fn total_cmp(self, other: Self) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.compare(other).unwrap_or_else(|| self.kind().cmp(&other.kind())),
        }
    }

    /// A number as a float.
    pub fn number_as_f64(self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "floats are compared as PostgreSQL does, after rounding")]
            Self::Int(value) => Some(value as f64),
            Self::Real(value) => Some(value.into()),
            Self::Float(value) => Some(value),
            Self::Decimal(value) => Some(value.to_f64()),
            _ => None,
        }
    }

    /// A number for each kind that does not compare with others.
    const fn kind(self) -> u8 {
        match self {
            Self::Boolean(_) => 0,
            Self::Int(_) | Self::Real(_) | Self::Float(_) | Self::Decimal(_) => 1,
            Self::Text(_) => 2,
            Self::Bytes(_) => 3,
            Self::Date(_) | Self::Timestamp(_) | Self::TimestampTz(_) => 4,
            Self::Interval(_) => 5,
            Self::Uuid(_) => 6,
            Self::Jsonb(_) => 7,
            // Last.
            Self::Null => u8::MAX,
        }
    }
}

fn midnight(days: i32) -> i64 {
    i64::from(days) * crate::MICROS_PER_DAY
}

/// -0 equals 0, NaN equals NaN and is the largest.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

fn hash_float(value: f64, state: &mut impl Hasher) {
    crate::canonical_f64(value).to_bits().hash(state);
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.total_cmp(*other) == Ordering::Equal
    }
}

impl Eq for ValueRef<'_> {}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.total_cmp(*other)
    }
}

/// Equal values of one kind hash alike; a column holds one kind.
impl Hash for ValueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null => state.write_u8(0),
            Self::Boolean(value) => value.hash(state),
            Self::Int(value) | Self::Timestamp(value) | Self::TimestampTz(value) => value.hash(state),
            Self::Real(value) => hash_float(f64::from(*value), state),
            Self::Float(value) => hash_float(*value, state),
            Self::Decimal(value) => value.hash(state),
            Self::Text(value) => value.hash(state),
            Self::Bytes(value) => value.hash(state),
            Self::Date(value) => value.hash(state),
            Self::Interval(value) => value.hash(state),
            Self::Uuid(value) => value.hash(state),
            Self::Jsonb(value) => json::hash(value, state),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

/// As PostgreSQL sends it in text; NULL as `NULL`.
impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => f.write_str(if *value { "t" } else { "f" }),
            Self::Int(value) => write!(f, "{value}"),
            Self::Real(value) => write_float(f, *value, REAL_PLAIN_BELOW),
            Self::Float(value) => write_float(f, *value, DOUBLE_PLAIN_BELOW),
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Text(value) | Self::Jsonb(value) => f.write_str(value),
            Self::Bytes(value) => {
                f.write_str("\\x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Date(value) => format_date(f, *value),
            Self::Timestamp(value) => format_timestamp(f, *value),
            Self::TimestampTz(value) => format_timestamptz(f, *value, Zone::Fixed(0)),
            Self::Interval(value) => value.fmt(f),
            Self::Uuid(value) => format_uuid(f, *value),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// From here on PostgreSQL writes a REAL with an exponent.
const REAL_PLAIN_BELOW: f64 = 1e6;
/// The same of a DOUBLE PRECISION.
const DOUBLE_PLAIN_BELOW: f64 = 1e15;

/// The shortest text that reads back as this float.
fn write_float(
    f: &mut impl Write,
    value: impl Copy + Into<f64> + fmt::Display + fmt::LowerExp,
    plain_below: f64,
) -> fmt::Result {
    let number: f64 = value.into();
    if number.is_nan() {
        f.write_str("NaN")
    } else if number.is_infinite() {
        f.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else if number != 0.0 && !(1e-4..plain_below).contains(&number.abs()) {
        // As PostgreSQL: 1e+20, 1.5e-07.
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
        write!(f, "{mantissa}e{sign}{digits:0>2}")
    } else {
        write!(f, "{value}")
    }
}

/// Text that has, for each byte, the character of that number, so that functions of characters work on bytes.
pub fn characters_of_bytes(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The bytes of [`characters_of_bytes`]; `None` if a character is not a byte.
pub fn bytes_of_characters(text: &str) -> Option<Box<[u8]>> {
    text.chars().map(|character| u8::try_from(character).ok()).collect()
}

/// Writes the value as a SQL literal that is read back as the same value of the same type.
pub fn write_literal(out: &mut impl Write, value: ValueRef<'_>) -> fmt::Result {
    match value {
        ValueRef::Null => out.write_str("NULL"),
        ValueRef::Boolean(value) => out.write_str(if value { "TRUE" } else { "FALSE" }),
        ValueRef::Int(_) | ValueRef::Decimal(_) => write!(out, "{value}"),
        ValueRef::Real(_) => write!(out, "CAST('{value}' AS REAL)"),
        ValueRef::Float(_) => write!(out, "CAST('{value}' AS DOUBLE PRECISION)"),
        ValueRef::Text(text) => write_quoted(out, text),
        ValueRef::Jsonb(text) => {
            out.write_str("CAST(")?;
            write_quoted(out, text)?;
            out.write_str(" AS JSONB)")
        }
        ValueRef::Bytes(_) => write!(out, "CAST('{value}' AS BYTEA)"),
        ValueRef::Date(_) => write!(out, "DATE '{value}'"),
        ValueRef::Timestamp(_) => write!(out, "TIMESTAMP '{value}'"),
        ValueRef::TimestampTz(_) => write!(out, "TIMESTAMP WITH TIME ZONE '{value}'"),
        ValueRef::Interval(_) => write!(out, "INTERVAL '{value}'"),
        ValueRef::Uuid(_) => write!(out, "UUID '{value}'"),
    }
}

fn write_quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('\'')?;
    for part in text.chars() {
        if part == '\'' {
            out.write_char('\'')?;
        }
        out.write_char(part)?;
    }
    out.write_char('\'')
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::Real(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Decimal(value)
    }
}

impl From<Interval> for Value {
    fn from(value: Interval) -> Self {
        Self::Interval(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.into())
    }
}

/// `None` is NULL.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        value.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_reference_are_of_one_kind() {
        let values = [
            Value::Null,
            Value::Boolean(true),
            Value::Int(1),
            Value::Real(1.0),
            Value::Float(1.0),
            Value::Decimal(Decimal::ZERO),
            Value::Text("a".into()),
            Value::Bytes([1].into()),
            Value::Date(1),
            Value::Timestamp(1),
            Value::TimestampTz(1),
            Value::Interval(Interval::default()),
            Value::Uuid([1; UUID_BYTES]),
            Value::Jsonb("1".into()),
        ];
        let kinds = values.each_ref().map(Value::kind_bit);
        assert_eq!(values.each_ref().map(|value| value.as_ref().kind_bit()), kinds);
        assert_eq!(kinds.iter().fold(0, |all, kind| all | kind).count_ones() as usize, kinds.len());
    }

    #[test]
    fn numbers_of_different_kinds_compare() {
        let decimal = |text| ValueRef::Decimal(Decimal::parse(text).unwrap());
        assert_eq!(ValueRef::Int(1).compare(decimal("1.00")), Some(Ordering::Equal));
        assert_eq!(ValueRef::Float(1.5).compare(decimal("1.4")), Some(Ordering::Greater));
        assert_eq!(ValueRef::Int(2).compare(ValueRef::Float(2.5)), Some(Ordering::Less));
        assert_eq!(ValueRef::Date(1).compare(ValueRef::Timestamp(86_400_000_000)), Some(Ordering::Equal));
        assert_eq!(ValueRef::Null.compare(ValueRef::Null), None);
        assert_eq!(ValueRef::Float(f64::NAN).compare(ValueRef::Float(f64::INFINITY)), Some(Ordering::Greater));
        assert_eq!(ValueRef::Float(-0.0).compare(ValueRef::Float(0.0)), Some(Ordering::Equal));
    }

    #[test]
    fn text_is_postgres() {
        for (value, text) in [
            (Value::from(1.0), "1"),
            (Value::from(0.1), "0.1"),
            (Value::from(1e20), "1e+20"),
            (Value::from(1.5e-7), "1.5e-07"),
            (Value::from(123_456_789_012_345.0), "123456789012345"),
            (Value::from(true), "t"),
            (Value::from(&[0xab, 1][..]), "\\xab01"),
            (Value::Null, "NULL"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn literals() {
        let literal = |value: Value| {
            let mut out = String::new();
            write_literal(&mut out, value.as_ref()).unwrap();
            out
        };
        assert_eq!(literal("it's".into()), "'it''s'");
        assert_eq!(literal(Value::Date(0)), "DATE '1970-01-01'");
        assert_eq!(literal(Value::Float(0.5)), "CAST('0.5' AS DOUBLE PRECISION)");
    }
}
