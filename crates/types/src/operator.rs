//! `+ - * / % ^ ||`: their operand types, result types and implementation.

use crate::error::{Class, Error, Result};
use crate::{DataType, Decimal, Interval, MICROS_PER_DAY, Value, ValueRef, is_day, json};

/// A binary operator that is neither a comparison nor logic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `^`
    Power,
    /// `||`
    Concatenate,
}

/// The types with which an operator is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// Type of an operand of unknown type, and for `||` of any that is not text.
    pub left: DataType,
    /// The same on the right.
    pub right: DataType,
    /// The type of the result.
    pub result: DataType,
}

impl Operator {
    /// As SQL writes it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Power => "^",
            Self::Concatenate => "||",
        }
    }

    /// The operator over operands of these types; `None` is that of a string literal, a parameter and NULL.
    ///
    /// Integers give the wider of their types, except that powers are doubles. Decimals, also with integers, give
    /// decimals, except that quotients and powers are doubles, because no single scale would suit all rows. Sums,
    /// differences, products and quotients of REALs are REAL; other results with a float are doubles.
    ///
    /// # Errors
    /// If there is no such operator: SQLSTATE 42883; or if several match: 42725.
    pub fn resolve(self, left: Option<DataType>, right: Option<DataType>) -> Result<Resolved> {
        let none = || Err(self.undefined(left, right));
        if self == Self::Concatenate {
            let of = match (left, right) {
                (Some(DataType::Jsonb), Some(DataType::Jsonb) | None) | (None, Some(DataType::Jsonb)) => {
                    DataType::Jsonb
                }
                (Some(DataType::Bytea), Some(DataType::Bytea) | None) | (None, Some(DataType::Bytea)) => {
                    DataType::Bytea
                }
                (Some(one), Some(other)) if !one.is_text() && !other.is_text() => return none(),
                _ => DataType::Text,
            };
            return Ok(Resolved { left: of, right: of, result: of });
        }
        let (left, right) = match (left, right) {
            (None, None) => (DataType::BigInt, DataType::BigInt),
            // No other operator takes a text from it.
            (Some(DataType::Jsonb), None) if self == Self::Subtract => (DataType::Jsonb, DataType::Text),
            (None, Some(text)) if self == Self::Subtract && text.is_text() => (DataType::Jsonb, DataType::Text),
            (Some(DataType::Date), None) | (None, Some(DataType::Date)) if self != Self::Subtract => {
                let message = format_args!("operator is not unique: {}", self.written(left, right)).to_string();
                return Err(Class::AmbiguousFunction.error(message));
            }
            // The unknown operand is an interval if it is added to a timestamp, and a number if it is multiplied with
            // an interval.
            (Some(moment @ (DataType::Timestamp | DataType::TimestampTz)), None) if self == Self::Add => {
                (moment, DataType::Interval)
            }
            (None, Some(moment @ (DataType::Timestamp | DataType::TimestampTz))) if self == Self::Add => {
                (DataType::Interval, moment)
            }
            (Some(DataType::Interval), None) if self.is_of_number() => (DataType::Interval, DataType::Double),
            (None, Some(DataType::Interval)) if self.is_of_number() => (DataType::Double, DataType::Interval),
            (left, right) => {
                let of = |own: Option<DataType>, beside: Option<DataType>| own.or(beside).unwrap_or(DataType::BigInt);
                (of(left, right), of(right, left))
            }
        };
        let result = match (self, left, right) {
            (_, one, other) if one.is_number() && other.is_number() => self.of_numbers(one, other),
            (Self::Subtract, DataType::Date, DataType::Date) => DataType::Integer,
            (Self::Subtract, DataType::Jsonb, DataType::SmallInt | DataType::Integer) => DataType::Jsonb,
            (Self::Subtract, DataType::Jsonb, other) if other.is_text() => DataType::Jsonb,
            (Self::Add | Self::Subtract, DataType::Interval, DataType::Interval) => DataType::Interval,
            (Self::Subtract, one, other) if one.is_moment() && other.is_moment() => DataType::Interval,
            (Self::Add | Self::Subtract, DataType::TimestampTz, DataType::Interval)
            | (Self::Add, DataType::Interval, DataType::TimestampTz) => DataType::TimestampTz,
            (Self::Add | Self::Subtract, DataType::Date | DataType::Timestamp, DataType::Interval)
            | (Self::Add, DataType::Interval, DataType::Date | DataType::Timestamp) => DataType::Timestamp,
            (Self::Multiply | Self::Divide, DataType::Interval, other) if other.is_number() => DataType::Interval,
            (Self::Multiply, one, DataType::Interval) if one.is_number() => DataType::Interval,
            (Self::Add | Self::Subtract, DataType::Date, DataType::SmallInt | DataType::Integer)
            | (Self::Add, DataType::SmallInt | DataType::Integer, DataType::Date) => DataType::Date,
            _ => return none(),
        };
        Ok(Resolved { left: left.unbounded(), right: right.unbounded(), result })
    }

    fn of_numbers(self, one: DataType, other: DataType) -> DataType {
        let is_float = one.is_float() || other.is_float();
        if one == DataType::Real && other == DataType::Real && self.keeps_reals() {
            DataType::Real
        } else if self == Self::Power || is_float {
            DataType::Double
        } else if one.is_integer() && other.is_integer() {
            wider_integer(one, other)
        } else if self == Self::Divide {
            DataType::Double
        } else {
            DataType::Numeric
        }
    }

    /// Value of `left self right`; NULL if either is. Integers are computed in 64 bits: [`DataType::holds`] checks
    /// whether the result fits its type.
    ///
    /// # Errors
    /// If the result does not exist or is out of range, or the kinds of values do not go together.
    pub fn apply(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Value> {
        use ValueRef as V;
        Ok(match (left, right) {
            (V::Null, _) | (_, V::Null) => Value::Null,
            (V::Text(left), V::Text(right)) if self == Self::Concatenate => Value::Text([left, right].concat().into()),
            (V::Bytes(left), V::Bytes(right)) if self == Self::Concatenate => {
                Value::Bytes([left, right].concat().into())
            }
            (V::Jsonb(left), V::Jsonb(right)) if self == Self::Concatenate => {
                Value::Jsonb(json::concatenate(left, right)?.into())
            }
            (V::Jsonb(left), V::Text(key)) if self == Self::Subtract => {
                Value::Jsonb(json::delete_key(left, key)?.into())
            }
            (V::Jsonb(left), V::Int(place)) if self == Self::Subtract => {
                Value::Jsonb(json::delete_element(left, place)?.into())
            }
            (V::Int(left), V::Int(right)) if self != Self::Power => Value::Int(self.integers(left, right)?),
            (V::Decimal(left), V::Decimal(right)) if self.keeps_decimals() => self.decimals(left, right)?.into(),
            (V::Decimal(left), V::Int(right)) if self.keeps_decimals() => self.decimals(left, right.into())?.into(),
            (V::Int(left), V::Decimal(right)) if self.keeps_decimals() => self.decimals(left.into(), right)?.into(),
            (V::Real(left), V::Real(right)) if self.keeps_reals() => Value::Real(self.reals(left, right)?),
            (
                V::Int(_) | V::Decimal(_) | V::Real(_) | V::Float(_),
                V::Int(_) | V::Decimal(_) | V::Real(_) | V::Float(_),
            ) => match (left.number_as_f64(), right.number_as_f64()) {
                (Some(one), Some(other)) => Value::Float(self.floats(one, other)?),
                _ => return Err(self.undefined(left.data_type(), right.data_type())),
            },
            (V::Date(left), V::Date(right)) if self == Self::Subtract => Value::Int(i64::from(left) - i64::from(right)),
            (V::Interval(_) | V::Timestamp(_) | V::TimestampTz(_), _)
            | (_, V::Interval(_) | V::Timestamp(_) | V::TimestampTz(_)) => self.of_time(left, right)?,
            (V::Date(days), V::Int(number)) => Value::Date(self.shifted(days, number)?),
            (V::Int(number), V::Date(days)) if self == Self::Add => Value::Date(self.shifted(days, number)?),
            _ => return Err(self.undefined(left.data_type(), right.data_type())),
        })
    }

    const fn is_of_number(self) -> bool {
        matches!(self, Self::Multiply | Self::Divide)
    }

    const fn keeps_decimals(self) -> bool {
        !matches!(self, Self::Divide | Self::Power)
    }

    /// The value over integers, as that of [`Operator::apply`].
    ///
    /// # Errors
    /// If the result does not exist or is out of range, or integers have no such operator.
    #[inline]
    pub fn integers(self, left: i64, right: i64) -> Result<i64> {
        self.checked_integers(left, right).ok_or_else(|| self.without_integer(right))
    }

    /// [`Operator::integers`], with `None` for its errors.
    #[inline]
    pub const fn checked_integers(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            Self::Remainder if right == 0 => None,
            // The least integer divided by -1 has no quotient, but a remainder.
            Self::Remainder => Some(left.wrapping_rem(right)),
            Self::Power | Self::Concatenate => None,
        }
    }

    #[cold]
    fn without_integer(self, right: i64) -> Error {
        match self {
            Self::Divide | Self::Remainder if right == 0 => division_by_zero(),
            Self::Power | Self::Concatenate => self.undefined(Some(DataType::BigInt), Some(DataType::BigInt)),
            _ => out_of_range(),
        }
    }

    fn decimals(self, left: Decimal, right: Decimal) -> Result<Decimal> {
        match self {
            Self::Add => left.plus(right),
            Self::Subtract => left.minus(right),
            Self::Multiply => left.times(right),
            Self::Remainder => left.remainder(right),
            _ => Err(self.undefined(Some(DataType::Numeric), Some(DataType::Numeric))),
        }
    }

    /// Whether the result of two REALs is one.
    const fn keeps_reals(self) -> bool {
        matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide)
    }

    /// The result in 32 bits: that of doubles, rounded, is the nearest one.
    fn reals(self, left: f32, right: f32) -> Result<f32> {
        narrowed(self.floats(left.into(), right.into())?).ok_or_else(out_of_range)
    }

    /// The result in doubles. One that is infinite or zero though it should be neither is an error.
    ///
    /// # Errors
    /// If it is out of range, a division by zero, or a power that is no real number.
    pub fn floats(self, left: f64, right: f64) -> Result<f64> {
        let (result, overflows, underflows) = match self {
            Self::Add => (left + right, left.is_finite() && right.is_finite(), false),
            Self::Subtract => (left - right, left.is_finite() && right.is_finite(), false),
            Self::Multiply => (left * right, left.is_finite() && right.is_finite(), left != 0.0 && right != 0.0),
            Self::Divide | Self::Remainder if right == 0.0 && !left.is_nan() => return Err(division_by_zero()),
            Self::Divide => (left / right, left.is_finite(), left != 0.0 && right.is_finite()),
            Self::Remainder => (left % right, false, false),
            Self::Power => return power(left, right),
            Self::Concatenate => return Err(self.undefined(Some(DataType::Double), Some(DataType::Double))),
        };
        if (result.is_infinite() && overflows) || (result == 0.0 && underflows) {
            Err(out_of_range())
        } else {
            Ok(result)
        }
    }

    /// Intervals with intervals, moments and numbers, and timestamps less moments.
    fn of_time(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Value> {
        let number =
            |of: ValueRef<'_>| of.number_as_f64().ok_or_else(|| self.undefined(left.data_type(), right.data_type()));
        Ok(match (self, left, right) {
            (Self::Add, ValueRef::Interval(one), ValueRef::Interval(other)) => one.plus(other)?.into(),
            (Self::Subtract, ValueRef::Interval(one), ValueRef::Interval(other)) => one.minus(other)?.into(),
            (Self::Multiply, ValueRef::Interval(one), other) => one.times(number(other)?)?.into(),
            (Self::Multiply, other, ValueRef::Interval(one)) => one.times(number(other)?)?.into(),
            (Self::Divide, ValueRef::Interval(one), other) => one.over(number(other)?)?.into(),
            _ => match (self, timestamp_of(left), timestamp_of(right), left, right) {
                (Self::Subtract, Some(to), Some(from), ..) => Interval::between(from, to)?.into(),
                (Self::Add, Some(moment), None, of, ValueRef::Interval(span))
                | (Self::Add, None, Some(moment), ValueRef::Interval(span), of) => {
                    timestamp_like(of, span.after(moment)?)
                }
                (Self::Subtract, Some(moment), None, of, ValueRef::Interval(span)) => {
                    timestamp_like(of, span.negated()?.after(moment)?)
                }
                _ => return Err(self.undefined(left.data_type(), right.data_type())),
            },
        })
    }

    fn shifted(self, days: i32, by: i64) -> Result<i32> {
        let shifted = match self {
            Self::Add => i64::from(days).checked_add(by),
            Self::Subtract => i64::from(days).checked_sub(by),
            _ => return Err(self.undefined(Some(DataType::Date), Some(DataType::Integer))),
        };
        shifted
            .and_then(|days| i32::try_from(days).ok())
            .filter(|days| is_day(*days))
            .ok_or_else(|| Class::DatetimeOverflow.error("date out of range: years are 1 to 9999"))
    }

    fn undefined(self, left: Option<DataType>, right: Option<DataType>) -> Error {
        Class::UndefinedFunction.error(format_args!("operator does not exist: {}", self.written(left, right)))
    }

    fn written(self, left: Option<DataType>, right: Option<DataType>) -> String {
        let name = |of: Option<DataType>| of.map_or_else(|| "unknown".to_owned(), |of| of.to_string());
        format!("{} {} {}", name(left), self.symbol(), name(right))
    }
}

/// A date's midnight, or a timestamp.
fn timestamp_of(moment: ValueRef<'_>) -> Option<i64> {
    match moment {
        ValueRef::Date(days) => Some(i64::from(days) * MICROS_PER_DAY),
        ValueRef::Timestamp(micros) | ValueRef::TimestampTz(micros) => Some(micros),
        _ => None,
    }
}

/// A timestamp, with a time zone if `of` has one.
const fn timestamp_like(of: ValueRef<'_>, micros: i64) -> Value {
    match of {
        ValueRef::TimestampTz(_) => Value::TimestampTz(micros),
        _ => Value::Timestamp(micros),
    }
}

/// `-value`; NULL of NULL.
///
/// # Errors
/// If it is no number and no interval, or the least integer.
pub fn negate(value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Int(number) => Value::Int(number.checked_neg().ok_or_else(out_of_range)?),
        ValueRef::Decimal(number) => Value::Decimal(number.negated()),
        ValueRef::Real(number) => Value::Real(-number),
        ValueRef::Float(number) => Value::Float(-number),
        ValueRef::Interval(span) => span.negated()?.into(),
        other => {
            let of = other.data_type().unwrap_or(DataType::Text);
            return Err(Class::UndefinedFunction.error(format_args!("operator does not exist: - {of}")));
        }
    })
}

/// The nearest float of 32 bits; `None` if it is infinite or zero and the number is not.
pub(crate) fn narrowed(number: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked afterwards")]
    let narrow = number as f32;
    let is_lost = (narrow.is_infinite() && number.is_finite()) || (narrow == 0.0 && number != 0.0);
    (!is_lost).then_some(narrow)
}

/// The wider of two types of integers.
pub const fn wider_integer(one: DataType, other: DataType) -> DataType {
    match (one, other) {
        (DataType::BigInt, _) | (_, DataType::BigInt) => DataType::BigInt,
        (DataType::Integer, _) | (_, DataType::Integer) => DataType::Integer,
        _ => DataType::SmallInt,
    }
}

/// Type in which `nullif` compares its arguments, and its result type, which is that of its first argument unless that
/// is compared as a double; `None` if both arguments are converted to a common type.
pub const fn null_if(first: DataType, second: DataType) -> Option<(DataType, DataType)> {
    use DataType::{Date, Double, Real, Timestamp, TimestampTz};
    match (first, second) {
        (Real, Real) | (Double, Double) => None,
        (Real, other) if other.is_number() => Some((Double, Real)),
        (one, other) if one.is_number() && other.is_number() && (one.is_float() || other.is_float()) => {
            Some((Double, Double))
        }
        (one, other) if one.is_integer() && other.is_integer() => Some((wider_integer(one, other), one)),
        (Date, Timestamp) => Some((Timestamp, Date)),
        (Date | Timestamp, TimestampTz) => Some((TimestampTz, first)),
        _ => None,
    }
}

/// `base` raised to `exponent`, with PostgreSQL's errors for results that are not real numbers.
fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 1.0 || exponent == 0.0 {
        return Ok(1.0);
    }
    if base.is_nan() || exponent.is_nan() {
        return Ok(f64::NAN);
    }
    if base == 0.0 && exponent < 0.0 {
        return Err(Class::InvalidPower.error("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(
            Class::InvalidPower.error("a negative number raised to a non-integer power yields a complex result")
        );
    }
    let result = base.powf(exponent);
    let is_finite = base.is_finite() && exponent.is_finite();
    match is_finite && (result.is_infinite() || (result == 0.0 && base != 0.0)) {
        true => Err(out_of_range()),
        false => Ok(result),
    }
}

/// [`Class::OutOfRange`].
pub fn out_of_range() -> Error {
    Class::OutOfRange.error("number out of range")
}

/// [`Class::DivisionByZero`].
pub fn division_by_zero() -> Error {
    Class::DivisionByZero.error("division by zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_integers() {
        assert_eq!(Operator::Remainder.integers(i64::MIN, -1).unwrap(), 0);
        assert_eq!(Operator::Divide.integers(-7, 2).unwrap(), -3);
        assert_eq!(Operator::Remainder.integers(-7, 2).unwrap(), -1);
        for (operator, left, right, state) in [
            (Operator::Add, i64::MAX, 1, "22003"),
            (Operator::Subtract, i64::MIN, 1, "22003"),
            (Operator::Multiply, i64::MAX, 2, "22003"),
            (Operator::Divide, i64::MIN, -1, "22003"),
            (Operator::Divide, 1, 0, "22012"),
            (Operator::Remainder, 1, 0, "22012"),
        ] {
            assert_eq!(operator.integers(left, right).unwrap_err().sqlstate(), state);
        }
    }

    #[test]
    fn the_edges_of_floats() {
        for (operator, left, right, state) in [
            (Operator::Multiply, 1e300, 1e300, "22003"),
            (Operator::Multiply, 1e-300, 1e-300, "22003"),
            (Operator::Divide, 1e-300, 1e300, "22003"),
            (Operator::Divide, f64::INFINITY, 0.0, "22012"),
            (Operator::Power, 0.0, -1.0, "2201F"),
            (Operator::Power, -8.0, 0.5, "2201F"),
            (Operator::Power, 1e300, 2.0, "22003"),
        ] {
            assert_eq!(operator.floats(left, right).unwrap_err().sqlstate(), state, "{left} {operator:?} {right}");
        }
        assert!(Operator::Divide.floats(f64::NAN, 0.0).unwrap().is_nan());
        assert_eq!(Operator::Divide.floats(1.0, f64::INFINITY).unwrap(), 0.0);
        assert_eq!(Operator::Power.floats(f64::NAN, 0.0).unwrap(), 1.0);
        assert_eq!(Operator::Add.floats(f64::INFINITY, 1.0).unwrap(), f64::INFINITY);
    }

    #[test]
    fn types_of_operands_decide() {
        use DataType::{
            BigInt, Bytea, Date, Double, Integer, Interval, Numeric, SmallInt, Text, Timestamp, TimestampTz, Varchar,
        };
        let money = DataType::Decimal { precision: 6, scale: 2 };
        for (left, operator, right, result) in [
            (Some(SmallInt), Operator::Add, Some(SmallInt), Ok(SmallInt)),
            (Some(SmallInt), Operator::Add, Some(Integer), Ok(Integer)),
            (Some(Integer), Operator::Multiply, None, Ok(Integer)),
            (Some(BigInt), Operator::Divide, Some(SmallInt), Ok(BigInt)),
            (Some(money), Operator::Add, Some(Integer), Ok(Numeric)),
            (Some(money), Operator::Divide, Some(Integer), Ok(Double)),
            (Some(money), Operator::Multiply, Some(Double), Ok(Double)),
            (Some(DataType::Real), Operator::Divide, Some(DataType::Real), Ok(DataType::Real)),
            (Some(DataType::Real), Operator::Add, None, Ok(DataType::Real)),
            (Some(DataType::Real), Operator::Add, Some(SmallInt), Ok(Double)),
            (Some(DataType::Real), Operator::Power, Some(DataType::Real), Ok(Double)),
            (Some(Integer), Operator::Power, Some(Integer), Ok(Double)),
            (Some(Date), Operator::Subtract, Some(Date), Ok(Integer)),
            (Some(Date), Operator::Subtract, None, Ok(Integer)),
            (Some(Date), Operator::Add, Some(Integer), Ok(Date)),
            (Some(Date), Operator::Add, Some(BigInt), Err("42883")),
            (Some(Date), Operator::Subtract, Some(Interval), Ok(Timestamp)),
            (Some(Timestamp), Operator::Subtract, None, Ok(Interval)),
            (Some(Timestamp), Operator::Add, None, Ok(Timestamp)),
            (Some(Timestamp), Operator::Add, Some(Timestamp), Err("42883")),
            (Some(TimestampTz), Operator::Add, None, Ok(TimestampTz)),
            (Some(TimestampTz), Operator::Subtract, None, Ok(Interval)),
            (Some(Interval), Operator::Add, Some(TimestampTz), Ok(TimestampTz)),
            (Some(Date), Operator::Subtract, Some(TimestampTz), Ok(Interval)),
            (Some(TimestampTz), Operator::Add, Some(Integer), Err("42883")),
            (Some(money), Operator::Multiply, Some(Interval), Ok(Interval)),
            (None, Operator::Divide, Some(Interval), Err("42883")),
            (Some(Date), Operator::Add, None, Err("42725")),
            (Some(Text), Operator::Add, Some(Integer), Err("42883")),
            (Some(Integer), Operator::Concatenate, Some(Varchar(3)), Ok(Text)),
            (Some(Integer), Operator::Concatenate, Some(Integer), Err("42883")),
            (Some(Bytea), Operator::Concatenate, None, Ok(Bytea)),
            (Some(DataType::Jsonb), Operator::Concatenate, None, Ok(DataType::Jsonb)),
            (Some(DataType::Jsonb), Operator::Concatenate, Some(Text), Ok(Text)),
            (Some(DataType::Jsonb), Operator::Concatenate, Some(Integer), Err("42883")),
            (Some(DataType::Jsonb), Operator::Subtract, None, Ok(DataType::Jsonb)),
            (Some(DataType::Jsonb), Operator::Subtract, Some(SmallInt), Ok(DataType::Jsonb)),
            (Some(DataType::Jsonb), Operator::Subtract, Some(BigInt), Err("42883")),
            (None, Operator::Subtract, Some(Text), Ok(DataType::Jsonb)),
            (None, Operator::Subtract, Some(DataType::Jsonb), Err("42883")),
        ] {
            let found = operator.resolve(left, right).map(|resolved| resolved.result);
            assert_eq!(found.map_err(|error| error.sqlstate().to_owned()), result.map_err(str::to_owned));
        }
    }
}
