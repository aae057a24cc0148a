//! Conversion of values between types.

use std::cmp::Ordering;
use std::str::FromStr;

use crate::error::{Class, Error, Result};
use crate::function::Encoding;
use crate::operator::narrowed;
use crate::{
    DataType, Decimal, Interval, MICROS_PER_DAY, Value, ValueRef, json, parse_date, parse_timestamp, parse_timestamptz,
    parse_uuid,
};

/// Converts a value to a column's type without allocating, as INSERT and UPDATE do for each value. Numbers are rounded
/// to the column's scale; a value that does not fit is an error, and so is text for a type that is not text (see
/// [`cast`]).
#[inline]
pub fn assign(value: ValueRef<'_>, to: DataType) -> Result<ValueRef<'_>> {
    if is_of(value, to) { Ok(value) } else { assign_other(value, to) }
}

/// Whether [`assign`] would leave the value unchanged; false also if that is expensive to find out.
#[inline]
fn is_of(value: ValueRef<'_>, to: DataType) -> bool {
    match (value, to) {
        (ValueRef::Null, _)
        | (ValueRef::Int(_), DataType::BigInt)
        | (ValueRef::Text(_), DataType::Text)
        | (ValueRef::Boolean(_), DataType::Boolean)
        | (ValueRef::Real(_), DataType::Real)
        | (ValueRef::Float(_), DataType::Double)
        | (ValueRef::Date(_), DataType::Date)
        | (ValueRef::Timestamp(_), DataType::Timestamp)
        | (ValueRef::TimestampTz(_), DataType::TimestampTz)
        | (ValueRef::Interval(_), DataType::Interval)
        | (ValueRef::Uuid(_), DataType::Uuid)
        | (ValueRef::Jsonb(_), DataType::Jsonb)
        | (ValueRef::Bytes(_), DataType::Bytea) => true,
        (ValueRef::Int(number), DataType::Integer) => i32::try_from(number).is_ok(),
        // The number of characters is at most the number of bytes.
        (ValueRef::Text(text), DataType::Varchar(limit)) => text.len() <= limit as usize,
        (ValueRef::Text(text), DataType::Char(limit)) => text.len() <= limit as usize && !text.ends_with(' '),
        (ValueRef::Decimal(number), DataType::Decimal { precision, scale }) => {
            number.scale() == scale && number.has_digits_of(precision)
        }
        _ => false,
    }
}

/// Assignments that round, convert or count.
#[inline(never)]
fn assign_other(value: ValueRef<'_>, to: DataType) -> Result<ValueRef<'_>> {
    Ok(match (value, to) {
        (ValueRef::Decimal(_), DataType::Numeric) => value,
        (ValueRef::Int(number), DataType::SmallInt | DataType::Integer) => ValueRef::Int(in_range(number, to)?),
        (ValueRef::Text(text), DataType::Varchar(_) | DataType::Char(_)) => ValueRef::Text(within(text, to)?),
        (ValueRef::Decimal(number), DataType::Decimal { precision, scale }) => {
            ValueRef::Decimal(number.fit(precision, scale)?)
        }
        (ValueRef::Int(number), DataType::Decimal { precision, scale }) => {
            ValueRef::Decimal(Decimal::from(number).fit(precision, scale)?)
        }
        (ValueRef::Int(number), DataType::Numeric) => ValueRef::Decimal(Decimal::from(number)),
        (ValueRef::Int(_) | ValueRef::Decimal(_) | ValueRef::Real(_), DataType::Double) => {
            value.number_as_f64().map_or(ValueRef::Null, ValueRef::Float)
        }
        (ValueRef::Int(_) | ValueRef::Decimal(_) | ValueRef::Float(_), DataType::Real) => {
            ValueRef::Real(number_to_real(value)?)
        }
        (ValueRef::Real(number), _) if to.is_integer() => ValueRef::Int(in_range(float_to_i64(number.into())?, to)?),
        (ValueRef::Real(number), DataType::Decimal { precision, scale }) => {
            ValueRef::Decimal(real_to_decimal(number)?.fit(precision, scale)?)
        }
        (ValueRef::Real(number), DataType::Numeric) => ValueRef::Decimal(real_to_decimal(number)?),
        (ValueRef::Decimal(number), _) if to.is_integer() => ValueRef::Int(in_range(number.to_i64()?, to)?),
        (ValueRef::Float(number), _) if to.is_integer() => ValueRef::Int(in_range(float_to_i64(number)?, to)?),
        (ValueRef::Float(number), DataType::Decimal { precision, scale }) => {
            ValueRef::Decimal(float_to_decimal(number)?.fit(precision, scale)?)
        }
        (ValueRef::Float(number), DataType::Numeric) => ValueRef::Decimal(float_to_decimal(number)?),
        (ValueRef::Date(days), DataType::Timestamp) => ValueRef::Timestamp(i64::from(days) * MICROS_PER_DAY),
        (ValueRef::Date(days), DataType::TimestampTz) => ValueRef::TimestampTz(i64::from(days) * MICROS_PER_DAY),
        // The zone between the two is UTC.
        (ValueRef::Timestamp(micros), DataType::TimestampTz) => ValueRef::TimestampTz(micros),
        (ValueRef::TimestampTz(micros), DataType::Timestamp) => ValueRef::Timestamp(micros),
        (ValueRef::Timestamp(micros) | ValueRef::TimestampTz(micros), DataType::Date) => {
            ValueRef::Date(i32::try_from(micros.div_euclid(MICROS_PER_DAY)).unwrap_or(i32::MAX))
        }
        _ => return Err(mismatch(value, to)),
    })
}

/// `CAST(value AS to)`: like [`assign`], and also converts to and from text, booleans and integers.
pub fn cast(value: ValueRef<'_>, to: DataType) -> Result<Value> {
    match (value, to) {
        (ValueRef::Text(text), DataType::Varchar(limit) | DataType::Char(limit)) => {
            // An explicit cast truncates, as the standard says.
            let end = text.char_indices().nth(limit as usize).map_or(text.len(), |(at, _)| at);
            let cut = text.get(..end).unwrap_or(text);
            Ok(if matches!(to, DataType::Char(_)) { without_blanks(cut) } else { cut }.into())
        }
        (ValueRef::Text(_), DataType::Text) => Ok(value.to_value()),
        (ValueRef::Text(text), _) => parse_text(text, to),
        (ValueRef::Null, _) => Ok(Value::Null),
        (ValueRef::Boolean(value), DataType::Text) => Ok(Value::from(if value { "true" } else { "false" })),
        (_, DataType::Text) => Ok(value.to_string().into()),
        (_, DataType::Varchar(_) | DataType::Char(_)) => cast(cast(value, DataType::Text)?.as_ref(), to),
        (ValueRef::Jsonb(document), _) if to != DataType::Jsonb => json::scalar_to(document, to),
        (ValueRef::Boolean(value), _) if to.is_integer() => Ok(Value::Int(value.into())),
        (ValueRef::Int(number), DataType::Boolean) => Ok(Value::Boolean(number != 0)),
        _ => assign(value, to).map(ValueRef::to_value),
    }
}

/// Parses a text as a value of a type.
pub fn parse_text(text: &str, to: DataType) -> Result<Value> {
    let invalid = || Class::InvalidText.error(format_args!("'{text}' is not a value of type {to}"));
    Ok(match to {
        DataType::Text => text.into(),
        DataType::Varchar(_) | DataType::Char(_) => within(text, to)?.into(),
        DataType::SmallInt | DataType::Integer | DataType::BigInt => {
            let number = text.trim_ascii().parse::<i128>().map_err(|_| invalid())?;
            Value::Int(in_range(i64::try_from(number).map_err(|_| out_of_range(&text, to))?, to)?)
        }
        DataType::Real => Value::Real(parse_float(text.trim_ascii(), to)?.ok_or_else(invalid)?),
        DataType::Double => Value::Float(parse_float(text.trim_ascii(), to)?.ok_or_else(invalid)?),
        DataType::Numeric => Value::Decimal(Decimal::parse(text).ok_or_else(invalid)?),
        DataType::Decimal { precision, scale } => {
            Value::Decimal(Decimal::parse(text).ok_or_else(invalid)?.fit(precision, scale)?)
        }
        DataType::Boolean => Value::Boolean(parse_boolean(text.trim_ascii()).ok_or_else(invalid)?),
        DataType::Date => Value::Date(parse_date(text)?),
        DataType::Timestamp => Value::Timestamp(parse_timestamp(text)?),
        DataType::TimestampTz => Value::TimestampTz(parse_timestamptz(text)?),
        DataType::Interval => Value::Interval(Interval::parse(text, None)?),
        DataType::Jsonb => Value::Jsonb(json::normalize(text)?.into()),
        DataType::Bytea => Value::Bytes(parse_bytes(text).ok_or_else(invalid)?),
        DataType::Uuid => Value::Uuid(parse_uuid(text).ok_or_else(invalid)?),
    })
}

/// A float, or `None` if the text is not one. A result that is infinite or zero although it was not written so is an
/// error.
fn parse_float<F: FromStr + Copy + Into<f64>>(text: &str, to: DataType) -> Result<Option<F>> {
    let Ok(value) = text.parse::<F>() else { return Ok(None) };
    let number: f64 = value.into();
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let is_lost = match text.bytes().any(|byte| byte.is_ascii_digit()) {
        true => number.is_infinite() || (number == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))),
        false => false,
    };
    if is_lost { Err(out_of_range(&text, to)) } else { Ok(Some(value)) }
}

fn parse_boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    // Unambiguous prefixes of the words are accepted.
    let is = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if is("true") || is("yes") => Some(true),
        _ if is("false") || is("no") => Some(false),
        _ => None,
    }
}

/// PostgreSQL's hexadecimal form, or the text's own bytes if there is no backslash in it.
fn parse_bytes(text: &str) -> Option<Box<[u8]>> {
    let Some(digits) = text.strip_prefix("\\x") else {
        return Encoding::Escape.decode(text).ok().map(Vec::into_boxed_slice);
    };
    let nibble = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

fn in_range(number: i64, to: DataType) -> Result<i64> {
    match to.integer_bounds() {
        Some((least, largest)) if number < least || number > largest => Err(out_of_range(&number, to)),
        _ => Ok(number),
    }
}

fn out_of_range(value: &impl std::fmt::Display, to: DataType) -> Error {
    Class::OutOfRange.error(format_args!("{value} does not fit {to}"))
}

/// A text as `CHAR` has it.
fn without_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// A text for `VARCHAR(limit)` or `CHAR(limit)`, without excess blanks at its end.
fn within(text: &str, to: DataType) -> Result<&str> {
    let (text, limit) = match to {
        DataType::Varchar(limit) => (text, limit),
        DataType::Char(limit) => (without_blanks(text), limit),
        _ => return Ok(text),
    };
    // Characters are counted only if bytes alone do not tell.
    if text.len() <= limit as usize {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(limit as usize) else { return Ok(text) };
    match text.split_at(end) {
        (kept, rest) if rest.bytes().all(|byte| byte == b' ') => Ok(kept),
        _ => Err(Class::TooLong.error(format_args!("value too long for {to}"))),
    }
}

/// Rounded half to even, as PostgreSQL does.
fn float_to_i64(number: f64) -> Result<i64> {
    let rounded = number.round_ties_even();
    // 2^63 is the first float that does not fit; -2^63 does.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
        return Ok(rounded as i64);
    }
    Err(out_of_range(&number, DataType::BigInt))
}

/// The nearest REAL, rounded once.
fn number_to_real(value: ValueRef<'_>) -> Result<f32> {
    #[expect(clippy::cast_precision_loss, reason = "rounding is what this does")]
    let narrow = match value {
        ValueRef::Int(number) => Some(number as f32),
        ValueRef::Decimal(number) => number.to_string().parse().ok(),
        value => value.number_as_f64().and_then(narrowed),
    };
    narrow.ok_or_else(|| out_of_range(&value, DataType::Real))
}

/// PostgreSQL keeps six significant digits.
fn real_to_decimal(number: f32) -> Result<Decimal> {
    let digits = number.is_finite().then(|| Decimal::parse(&format!("{number:.5e}"))).flatten();
    digits.map(Decimal::trimmed).ok_or_else(|| out_of_range(&number, DataType::Numeric))
}

fn float_to_decimal(number: f64) -> Result<Decimal> {
    Decimal::from_f64(number).ok_or_else(|| out_of_range(&number, DataType::Numeric))
}

fn mismatch(value: ValueRef<'_>, to: DataType) -> Error {
    let from = value.data_type().map_or_else(|| "NULL".to_owned(), |from| from.to_string());
    Class::TypeMismatch.error(format_args!("a value of type {from} cannot become {to}"))
}

/// A bound of a search, converted to the type of the searched column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rounded<'a> {
    /// The column can hold it.
    Exact(ValueRef<'a>),
    /// The column cannot hold it; this is the largest value below it that the column can hold.
    Below(ValueRef<'a>),
    /// It is above every value that the column can hold (except NULL).
    AboveAll,
    /// It is below every value that the column can hold.
    BelowAll,
    /// Comparing with it is never true: NULL.
    Never,
}

/// Converts a value that is compared with a column to the column's type, or finds the values of the column between
/// which it lies. An error means that the two do not compare.
#[inline]
pub fn round_into(value: ValueRef<'_>, to: DataType) -> Result<Rounded<'_>> {
    match value {
        ValueRef::Int(number) if to.is_integer() => Ok(integer_into(number, to)),
        _ => round_other(value, to),
    }
}

/// 2^53: smaller integers are represented exactly.
const FLOATS_EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// [`round_into`] for the less common cases: other than an integer for an integer column.
#[inline(never)]
fn round_other(value: ValueRef<'_>, to: DataType) -> Result<Rounded<'_>> {
    match (value, to) {
        (ValueRef::Null, _) => return Ok(Rounded::Never),
        (ValueRef::Text(_), to) if to.is_text() => return Ok(Rounded::Exact(value)),
        (
            ValueRef::Date(_) | ValueRef::Timestamp(_) | ValueRef::TimestampTz(_),
            DataType::Timestamp | DataType::TimestampTz,
        ) => {
            return assign(value, to).map(Rounded::Exact);
        }
        (ValueRef::Timestamp(_) | ValueRef::TimestampTz(_), DataType::Date) => {
            let day = assign(value, to)?;
            let exact = day.compare(value) == Some(Ordering::Equal);
            return Ok(if exact { Rounded::Exact(day) } else { Rounded::Below(day) });
        }
        _ => {}
    }
    // A column of floats compares as floats.
    if to == DataType::Real
        && let Some(number) = value.number_as_f64()
    {
        return Ok(real_into(number));
    }
    if to == DataType::Double
        && let Some(number) = value.number_as_f64()
    {
        return Ok(Rounded::Exact(ValueRef::Float(number)));
    }
    let number = match value {
        ValueRef::Int(number) if to.is_decimal() => Decimal::from(number),
        ValueRef::Decimal(number) if to.is_integer() || to.is_decimal() => number,
        // Binding makes both sides floats if one is, because the two orders differ. This is a parameter whose value is
        // not of its type; while floats are exact, both orders agree.
        ValueRef::Real(_) | ValueRef::Float(_)
            if to.is_integer()
                && let Some(number) = value.number_as_f64()
                && number.abs() < FLOATS_EXACT_BELOW =>
        {
            return Ok(match integer_into(float_to_i64(number.floor())?, to) {
                Rounded::Exact(floor) if floor.compare(value) != Some(Ordering::Equal) => Rounded::Below(floor),
                rounded => rounded,
            });
        }
        _ if value.data_type().is_some_and(|from| from.is_like(to)) => return Ok(Rounded::Exact(value)),
        _ => return Err(mismatch(value, to)),
    };
    let beyond = if number.is_negative() { Rounded::BelowAll } else { Rounded::AboveAll };
    let scale = match to {
        DataType::Decimal { scale, .. } => scale,
        DataType::Numeric => return Ok(Rounded::Exact(ValueRef::Decimal(number))),
        _ => 0,
    };
    let Ok(floor) = number.floor_to(scale) else { return Ok(beyond) };
    let exact = floor == number;
    let floor = match to {
        DataType::Decimal { precision, scale } => match floor.fit(precision, scale) {
            Ok(floor) => ValueRef::Decimal(floor),
            Err(_) => return Ok(beyond),
        },
        _ => match i64::try_from(floor.units()) {
            Ok(whole) => match integer_into(whole, to) {
                Rounded::Exact(whole) => whole,
                beyond => return Ok(beyond),
            },
            Err(_) => return Ok(beyond),
        },
    };
    Ok(if exact { Rounded::Exact(floor) } else { Rounded::Below(floor) })
}

/// Position of a double among the values of REAL.
fn real_into<'a>(number: f64) -> Rounded<'a> {
    #[expect(clippy::cast_possible_truncation, reason = "the rounding is checked afterwards")]
    let nearest = number as f32;
    if number.is_nan() || f64::from(nearest) == number {
        Rounded::Exact(ValueRef::Real(nearest))
    } else if f64::from(nearest) < number {
        Rounded::Below(ValueRef::Real(nearest))
    } else {
        Rounded::Below(ValueRef::Real(nearest.next_down()))
    }
}

#[inline]
fn integer_into<'a>(number: i64, to: DataType) -> Rounded<'a> {
    match to.integer_bounds() {
        Some((least, _)) if number < least => Rounded::BelowAll,
        Some((_, largest)) if number > largest => Rounded::AboveAll,
        _ => Rounded::Exact(ValueRef::Int(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> ValueRef<'static> {
        ValueRef::Decimal(Decimal::parse(text).unwrap())
    }

    const MONEY: DataType = DataType::Decimal { precision: 6, scale: 2 };

    #[test]
    fn assignment_rounds_and_refuses() {
        assert_eq!(assign(ValueRef::Int(7), MONEY).unwrap(), decimal("7.00"));
        assert_eq!(assign(decimal("7.005"), MONEY).unwrap().to_string(), "7.01");
        assert_eq!(assign(ValueRef::Float(2.5), DataType::Integer).unwrap(), ValueRef::Int(2));
        assert_eq!(assign(decimal("2.5"), DataType::Integer).unwrap(), ValueRef::Int(3));
        assert_eq!(assign(ValueRef::Date(1), DataType::Timestamp).unwrap(), ValueRef::Timestamp(MICROS_PER_DAY));
        for (value, to, state) in [
            (ValueRef::Int(40_000), DataType::SmallInt, "22003"),
            (ValueRef::Int(10_000), MONEY, "22003"),
            (ValueRef::Float(f64::NAN), DataType::BigInt, "22003"),
            (ValueRef::Float(9.3e18), DataType::BigInt, "22003"),
            (ValueRef::Text("äöü"), DataType::Varchar(2), "22001"),
            (ValueRef::Text("1"), DataType::BigInt, "42804"),
            (ValueRef::Boolean(true), DataType::Double, "42804"),
        ] {
            assert_eq!(assign(value, to).unwrap_err().sqlstate(), state, "{value} to {to}");
        }
        assert_eq!(assign(ValueRef::Text("äö"), DataType::Varchar(2)).unwrap(), ValueRef::Text("äö"));
        assert_eq!(assign(ValueRef::Text("äö  "), DataType::Varchar(2)).unwrap(), ValueRef::Text("äö"));
        assert_eq!(assign(ValueRef::Text("ä    "), DataType::Varchar(2)).unwrap(), ValueRef::Text("ä "));
        for (value, to, as_is) in [
            (decimal("9999.99"), MONEY, true),
            (decimal("10000.00"), MONEY, false),
            (decimal("-9999.99"), MONEY, true),
            (decimal("1.5"), MONEY, false),
            (ValueRef::Int(1 << 31), DataType::Integer, false),
            (ValueRef::Int(-1 << 31), DataType::Integer, true),
            (ValueRef::Text("abc"), DataType::Varchar(2), false),
            (ValueRef::Text("äö"), DataType::Varchar(4), true),
            (ValueRef::Date(1), DataType::Timestamp, false),
        ] {
            assert_eq!(is_of(value, to), as_is, "{value} as {to}");
        }
    }

    #[test]
    fn text_becomes_each_type_and_back() {
        for (text, to) in [
            ("-32768", DataType::SmallInt),
            ("1.50", MONEY),
            ("0.1", DataType::Double),
            ("0.1", DataType::Real),
            ("1e+06", DataType::Real),
            ("NaN", DataType::Real),
            ("-Infinity", DataType::Real),
            ("0", DataType::Real),
            ("t", DataType::Boolean),
            ("2024-02-29", DataType::Date),
            ("2024-02-29 01:02:03.5", DataType::Timestamp),
            ("2024-02-29 01:02:03.5+00", DataType::TimestampTz),
            ("\\x00ff", DataType::Bytea),
            ("é", DataType::Varchar(1)),
        ] {
            assert_eq!(parse_text(text, to).unwrap().to_string(), text, "{to}");
        }
        assert_eq!(parse_text("a\\000\\\\", DataType::Bytea).unwrap(), Value::Bytes(Box::new(*b"a\0\\")));
        for (text, to, state) in [
            ("x", DataType::Integer, "22P02"),
            ("99999999999999999999", DataType::BigInt, "22003"),
            ("1e999", DataType::Double, "22003"),
            ("1e39", DataType::Real, "22003"),
            ("-1e-50", DataType::Real, "22003"),
            ("maybe", DataType::Boolean, "22P02"),
            ("\\x0", DataType::Bytea, "22P02"),
            ("a\\", DataType::Bytea, "22P02"),
            ("a\\400", DataType::Bytea, "22P02"),
            ("12345.67", MONEY, "22003"),
        ] {
            assert_eq!(parse_text(text, to).unwrap_err().sqlstate(), state, "{text} to {to}");
        }
        let real = parse_text("1.1", DataType::Real).unwrap();
        assert_eq!(cast(real.as_ref(), DataType::Numeric).unwrap().to_string(), "1.1");
        assert_eq!(cast(real.as_ref(), DataType::Double).unwrap().to_string(), "1.100000023841858");
        assert_eq!(cast(ValueRef::Float(1e300), DataType::Real).unwrap_err().sqlstate(), "22003");
        assert_eq!(cast(ValueRef::Text("abc"), DataType::Varchar(2)).unwrap(), "ab".into());
        assert_eq!(cast(ValueRef::Boolean(true), DataType::Text).unwrap(), "true".into());
    }

    #[test]
    fn bounds_of_a_search_keep_their_place() {
        assert_eq!(round_into(decimal("2.5"), DataType::Integer).unwrap(), Rounded::Below(ValueRef::Int(2)));
        assert_eq!(round_into(decimal("-2.5"), DataType::Integer).unwrap(), Rounded::Below(ValueRef::Int(-3)));
        assert_eq!(round_into(decimal("2.0"), DataType::Integer).unwrap(), Rounded::Exact(ValueRef::Int(2)));
        assert_eq!(round_into(ValueRef::Int(1 << 40), DataType::Integer).unwrap(), Rounded::AboveAll);
        assert_eq!(round_into(decimal("-10000.001"), MONEY).unwrap(), Rounded::BelowAll);
        assert_eq!(round_into(decimal("1.239"), MONEY).unwrap(), Rounded::Below(decimal("1.23")));
        assert_eq!(round_into(ValueRef::Timestamp(-1), DataType::Date).unwrap(), Rounded::Below(ValueRef::Date(-1)));
        assert_eq!(round_into(ValueRef::Null, DataType::Date).unwrap(), Rounded::Never);
        assert_eq!(round_into(ValueRef::Float(-2.5), DataType::BigInt).unwrap(), Rounded::Below(ValueRef::Int(-3)));
        assert_eq!(round_into(ValueRef::Float(4e4), DataType::SmallInt).unwrap(), Rounded::AboveAll);
        let tenth = 0.1_f32;
        let between = [(0.1, tenth.next_down()), (-0.1, (-tenth)), (1e-60, 0.0), (-1e-60, (-0.0_f32).next_down())];
        for (number, below) in between {
            let rounded = round_into(ValueRef::Float(number), DataType::Real).unwrap();
            assert_eq!(rounded, Rounded::Below(ValueRef::Real(below)), "{number}");
        }
        assert_eq!(
            round_into(ValueRef::Float(1e60), DataType::Real).unwrap(),
            Rounded::Below(ValueRef::Real(f32::MAX))
        );
        assert_eq!(round_into(ValueRef::Int(3), DataType::Real).unwrap(), Rounded::Exact(ValueRef::Real(3.0)));
        for (float, to) in [(9_007_199_254_740_992.0, DataType::BigInt), (0.5, MONEY), (f64::NAN, DataType::Integer)] {
            assert_eq!(round_into(ValueRef::Float(float), to).unwrap_err().sqlstate(), "42804", "{float}");
        }
    }
}
