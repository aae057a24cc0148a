//! Functions of one row.

use super::evaluate::{Evaluated, Frame};
use super::{Comparison, Expr};
use crate::error::{Class, Result};
use crate::types::{
    DataType, Decimal, MICROS_PER_DAY, Operator, Value, ValueRef, days_in_month, from_civil, is_day, out_of_range,
    to_civil,
};

/// The longest text that a function makes.
const TEXT_BYTES_MAX: usize = 16 << 20;

macro_rules! functions {
    ($($name:ident $($text:literal)|+ $least:literal .. $most:literal,)*) => {
        /// A function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Function {
            $($name,)*
            /// A date or timestamp, months, days, microseconds: what `INTERVAL` adds.
            AddInterval,
            /// As `Round`, of the first argument's type.
            Extract(Field),
            /// Cut to the field.
            Truncate(Field),
        }

        impl Function {
            /// The function of this name that takes so many arguments.
            pub fn named(name: &str, arguments: usize) -> Option<Self> {
                match name {
                    $($($text)|+ if ($least..=$most).contains(&arguments) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Abs "abs" 1..1,
    Ceiling "ceil" | "ceiling" 1..1,
    Coalesce "coalesce" 1..100,
    Concat "concat" 1..100,
    CurrentDate "current_date" 0..0,
    Floor "floor" 1..1,
    Greatest "greatest" 1..100,
    Least "least" 1..100,
    Left "left" 2..2,
    Length "length" | "char_length" | "character_length" 1..1,
    Lower "lower" 1..1,
    Now "now" | "current_timestamp" | "transaction_timestamp" | "localtimestamp" 0..0,
    NullIf "nullif" 2..2,
    OctetLength "octet_length" 1..1,
    PadLeft "lpad" 2..3,
    PadRight "rpad" 2..3,
    Position "strpos" 2..2,
    Random "random" 0..0,
    Remainder "mod" 2..2,
    Repeat "repeat" 2..2,
    Replace "replace" 3..3,
    Right "right" 2..2,
    Round "round" 1..2,
    Sign "sign" 1..1,
    SquareRoot "sqrt" 1..1,
    StartsWith "starts_with" 2..2,
    Substring "substring" | "substr" 2..3,
    Trim "btrim" | "trim" 1..2,
    TrimLeft "ltrim" 1..2,
    TrimRight "rtrim" 1..2,
    Trunc "trunc" 1..2,
    Upper "upper" 1..1,
    Uuid "gen_random_uuid" | "uuid" 0..0,
}

/// A part of a date or timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    /// Sunday is 0.
    DayOfWeek,
    DayOfYear,
    /// Seconds since 1970.
    Epoch,
}

impl Field {
    /// The field that SQL calls so.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "dow" => Self::DayOfWeek,
            "doy" => Self::DayOfYear,
            "epoch" => Self::Epoch,
            _ => return None,
        })
    }
}

/// What a function takes and gives, for binding.
pub(crate) enum Signature {
    /// Arguments of these types; the last one repeats.
    Fixed(&'static [DataType], DataType),
    /// Numbers, and a result of the first one's type.
    Numbers,
    /// All arguments of one type, which is the result's.
    Alike,
    /// Text for any arguments.
    Any(DataType),
}

impl Function {
    pub const fn signature(self) -> Signature {
        use DataType::{BigInt, Boolean, Bytea, Date, Double, Text, Timestamp};
        match self {
            Self::Abs | Self::Ceiling | Self::Floor | Self::Round | Self::Trunc | Self::Sign | Self::Remainder => {
                Signature::Numbers
            }
            Self::Coalesce | Self::Greatest | Self::Least | Self::NullIf => Signature::Alike,
            Self::Concat => Signature::Any(Text),
            Self::CurrentDate => Signature::Fixed(&[], Date),
            Self::Now => Signature::Fixed(&[], Timestamp),
            Self::Random => Signature::Fixed(&[], Double),
            Self::Uuid => Signature::Fixed(&[], Text),
            Self::SquareRoot => Signature::Fixed(&[Double], Double),
            Self::Left | Self::Right | Self::Repeat => Signature::Fixed(&[Text, BigInt], Text),
            Self::PadLeft | Self::PadRight => Signature::Fixed(&[Text, BigInt, Text], Text),
            Self::Substring => Signature::Fixed(&[Text, BigInt, BigInt], Text),
            Self::Lower | Self::Upper | Self::Replace | Self::Trim | Self::TrimLeft | Self::TrimRight => {
                Signature::Fixed(&[Text], Text)
            }
            Self::Length | Self::Position => Signature::Fixed(&[Text], BigInt),
            Self::OctetLength => Signature::Fixed(&[Bytea], BigInt),
            Self::StartsWith => Signature::Fixed(&[Text], Boolean),
            Self::AddInterval | Self::Truncate(_) => Signature::Fixed(&[Timestamp, BigInt], Timestamp),
            Self::Extract(_) => Signature::Fixed(&[Timestamp], DataType::Numeric),
        }
    }

    /// Whether it gives another value at each call.
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::Random | Self::Uuid)
    }

    /// Whether it gives the transaction's time.
    pub const fn is_of_time(self) -> bool {
        matches!(self, Self::Now | Self::CurrentDate)
    }

    pub(super) fn call<'a>(self, arguments: &'a [Expr], frame: &Frame<'a>) -> Result<Evaluated<'a>> {
        match self {
            Self::Coalesce => {
                for argument in arguments {
                    let value = argument.evaluate(frame)?;
                    if !value.get().is_null() {
                        return Ok(value);
                    }
                }
                return Ok(Evaluated::Ref(ValueRef::Null));
            }
            Self::Greatest => return extreme(arguments, frame, Comparison::Greater),
            Self::Least => return extreme(arguments, frame, Comparison::Less),
            Self::Concat => return concat(arguments, frame),
            Self::Now => return Ok(Evaluated::Ref(ValueRef::Timestamp(frame.environment.timestamp()))),
            Self::Random => return Ok(Evaluated::Ref(ValueRef::Float(frame.environment.random_float()))),
            Self::Uuid => return Ok(Evaluated::Owned(frame.environment.random_uuid().into())),
            Self::CurrentDate => {
                let days = frame.environment.timestamp().div_euclid(MICROS_PER_DAY);
                return Ok(Evaluated::Ref(i32::try_from(days).map_or(ValueRef::Null, ValueRef::Date)));
            }
            _ => {}
        }
        let mut values = arguments.iter().map(|argument| argument.evaluate(frame));
        let mut next = || values.next().unwrap_or(Ok(Evaluated::Ref(ValueRef::Null)));
        let (first, second, third, fourth) = (next()?, next()?, next()?, next()?);
        let given = arguments.len();
        if self == Self::NullIf {
            let equal = first.get().compare(second.get()) == Some(std::cmp::Ordering::Equal);
            return Ok(if equal { Evaluated::Ref(ValueRef::Null) } else { first });
        }
        if (given > 0 && first.get().is_null())
            || (given > 1 && second.get().is_null())
            || (given > 2 && third.get().is_null())
        {
            return Ok(Evaluated::Ref(ValueRef::Null));
        }
        let value = match (first.get(), second.get(), third.get()) {
            (ValueRef::Text(text), second, third) => self.of_text(text, second, third)?,
            (ValueRef::Bytes(bytes), ..) if self == Self::OctetLength => integer(bytes.len()),
            (ValueRef::Timestamp(micros), second, third) => self.of_timestamp(micros, [second, third, fourth.get()])?,
            (ValueRef::Date(days), second, third) => {
                self.of_timestamp(i64::from(days) * MICROS_PER_DAY, [second, third, fourth.get()])?
            }
            (number, second, _) => self.of_number(number, second)?,
        };
        Ok(Evaluated::Owned(value))
    }

    fn of_text(self, text: &str, second: ValueRef<'_>, third: ValueRef<'_>) -> Result<Value> {
        let other = if let ValueRef::Text(other) = second { other } else { "" };
        let count = if let ValueRef::Int(count) = second { count } else { 0 };
        Ok(match self {
            Self::Lower => text.to_lowercase().into(),
            Self::Upper => text.to_uppercase().into(),
            Self::Length => integer(text.chars().count()),
            Self::OctetLength => integer(text.len()),
            Self::Position => integer(text.find(other).map_or(0, |at| characters_before(text, at) + 1)),
            Self::StartsWith => text.starts_with(other).into(),
            Self::Left => characters(text, 0, from_end(text, count)).into(),
            Self::Right => {
                let length = text.chars().count();
                let keep = from_end(text, count);
                characters(text, length.saturating_sub(keep), keep).into()
            }
            Self::Substring => substring(text, count, third)?.into(),
            Self::Repeat => {
                let times = usize::try_from(count).unwrap_or(0);
                within(text.len().saturating_mul(times))?;
                text.repeat(times).into()
            }
            Self::Replace => {
                let with = if let ValueRef::Text(with) = third { with } else { "" };
                if other.is_empty() {
                    return Ok(text.into());
                }
                let times = text.matches(other).count();
                within(text.len().saturating_add(times.saturating_mul(with.len())))?;
                text.replace(other, with).into()
            }
            Self::PadLeft | Self::PadRight => {
                let fill = if let ValueRef::Text(fill) = third { fill } else { " " };
                pad(text, count, fill, self == Self::PadLeft)?.into()
            }
            Self::Trim | Self::TrimLeft | Self::TrimRight => {
                let set = if second.is_null() { " " } else { other };
                let mut rest = text;
                if self != Self::TrimRight {
                    rest = rest.trim_start_matches(|next| set.contains(next));
                }
                if self != Self::TrimLeft {
                    rest = rest.trim_end_matches(|next| set.contains(next));
                }
                rest.into()
            }
            _ => return Err(self.not_of(ValueRef::Text(text))),
        })
    }

    fn of_number(self, number: ValueRef<'_>, second: ValueRef<'_>) -> Result<Value> {
        let digits = if let ValueRef::Int(digits) = second { digits } else { 0 };
        Ok(match (self, number) {
            (Self::Abs, ValueRef::Int(value)) => Value::Int(value.checked_abs().ok_or_else(out_of_range)?),
            (Self::Sign, ValueRef::Int(value)) => Value::Int(value.signum()),
            (Self::Ceiling | Self::Floor | Self::Round | Self::Trunc, ValueRef::Int(value)) if digits >= 0 => {
                Value::Int(value)
            }
            (Self::Round | Self::Trunc, ValueRef::Int(value)) => {
                Value::Int(round(Decimal::from(value), digits, self == Self::Trunc)?.to_i64()?)
            }
            (Self::Abs, ValueRef::Decimal(value)) if value.is_negative() => value.negated().into(),
            (Self::Abs, ValueRef::Decimal(value)) => value.into(),
            (Self::Sign, ValueRef::Decimal(value)) => Decimal::from(value.units().signum() as i64).into(),
            (Self::Floor, ValueRef::Decimal(value)) => value.floor_to(0)?.into(),
            (Self::Ceiling, ValueRef::Decimal(value)) => value.negated().floor_to(0)?.negated().into(),
            (Self::Round | Self::Trunc, ValueRef::Decimal(value)) => round(value, digits, self == Self::Trunc)?.into(),
            (Self::Abs, ValueRef::Float(value)) => value.abs().into(),
            (Self::Sign, ValueRef::Float(value)) => {
                if value == 0.0 || value.is_nan() {
                    value.into()
                } else {
                    value.signum().into()
                }
            }
            (Self::Floor, ValueRef::Float(value)) => value.floor().into(),
            (Self::Ceiling, ValueRef::Float(value)) => value.ceil().into(),
            (Self::Trunc, ValueRef::Float(value)) if digits == 0 => value.trunc().into(),
            (Self::Round, ValueRef::Float(value)) if digits == 0 => value.round_ties_even().into(),
            (Self::Remainder, _) => Operator::Remainder.apply(number, second)?,
            (Self::SquareRoot, _) => match number.number_as_f64() {
                Some(value) if value >= 0.0 => value.sqrt().into(),
                Some(value) if value.is_nan() => value.into(),
                _ => return Err(Class::InvalidParameter.error("cannot take square root of a negative number")),
            },
            _ => return Err(self.not_of(number)),
        })
    }

    fn of_timestamp(self, micros: i64, arguments: [ValueRef<'_>; 3]) -> Result<Value> {
        let number = |value| if let ValueRef::Int(number) = value { number } else { 0 };
        match self {
            Self::Extract(field) => extract(field, micros),
            Self::Truncate(field) => truncate(field, micros).map(Value::Timestamp),
            Self::AddInterval => {
                let [months, days, rest] = arguments.map(number);
                add_interval(micros, months, days, rest).map(Value::Timestamp)
            }
            _ => Err(self.not_of(ValueRef::Timestamp(micros))),
        }
    }

    fn not_of(self, value: ValueRef<'_>) -> crate::Error {
        let kind = value.data_type().map_or_else(|| "NULL".to_owned(), |kind| kind.to_string());
        Class::UndefinedFunction.error(format_args!("no function {self:?} takes {kind}"))
    }
}

fn integer(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn within(bytes: usize) -> Result<()> {
    if bytes > TEXT_BYTES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a text of more than {TEXT_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn extreme<'a>(arguments: &'a [Expr], frame: &Frame<'a>, keep: Comparison) -> Result<Evaluated<'a>> {
    let mut best = Evaluated::Ref(ValueRef::Null);
    for argument in arguments {
        let value = argument.evaluate(frame)?;
        let better = match value.get().compare(best.get()) {
            Some(order) => (keep == Comparison::Greater) == order.is_gt() && order.is_ne(),
            None => best.get().is_null(),
        };
        if better {
            best = value;
        }
    }
    Ok(best)
}

fn concat<'a>(arguments: &'a [Expr], frame: &Frame<'a>) -> Result<Evaluated<'a>> {
    let mut text = String::new();
    for argument in arguments {
        let value = argument.evaluate(frame)?;
        if !value.get().is_null() {
            text.push_str(&value.get().to_string());
        }
        within(text.len())?;
    }
    Ok(Evaluated::Owned(text.into()))
}

fn characters_before(text: &str, at: usize) -> usize {
    text.get(..at).map_or(0, |before| before.chars().count())
}

/// `count` characters from the position `from`.
fn characters(text: &str, from: usize, count: usize) -> &str {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let Some(start) = starts.by_ref().nth(from) else { return "" };
    let end = if count == 0 { start } else { starts.nth(count - 1).unwrap_or(text.len()) };
    text.get(start..end).unwrap_or_default()
}

/// How many characters `left` and `right` keep: all but so many if the count is negative.
fn from_end(text: &str, count: i64) -> usize {
    match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => {
            let cut = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            text.chars().count().saturating_sub(cut)
        }
    }
}

/// Positions count from 1; what lies before 1 counts against the length.
fn substring<'t>(text: &'t str, from: i64, length: ValueRef<'_>) -> Result<&'t str> {
    let start = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    let count = match length {
        ValueRef::Int(length) if length < 0 => {
            return Err(Class::InvalidParameter.error("negative substring length not allowed"));
        }
        ValueRef::Int(length) => {
            let end = from.saturating_add(length);
            usize::try_from(end.saturating_sub(from.max(1))).unwrap_or(0)
        }
        _ => usize::MAX,
    };
    Ok(characters(text, start, count))
}

fn pad(text: &str, length: i64, fill: &str, left: bool) -> Result<String> {
    let length = usize::try_from(length).unwrap_or(0);
    within(length)?;
    let present = text.chars().count();
    if present >= length || fill.is_empty() {
        return Ok(characters(text, 0, length).to_owned());
    }
    let padding: String = fill.chars().cycle().take(length - present).collect();
    Ok(if left { padding + text } else { text.to_owned() + &padding })
}

/// To so many digits after the point, or before it if negative.
fn round(value: Decimal, digits: i64, truncate: bool) -> Result<Decimal> {
    let scale = u8::try_from(digits.clamp(0, i64::from(crate::types::PRECISION_MAX))).unwrap_or(0);
    let shift = u32::try_from(digits.min(0).unsigned_abs().min(38)).unwrap_or(38);
    if shift == 0 {
        return if truncate { cut(value, scale) } else { value.rescale(scale) };
    }
    // Rounding before the point is rounding the number divided by a power of ten.
    let Some(power) = 10_i128.checked_pow(shift) else { return Ok(Decimal::ZERO) };
    let whole = value.units() / 10_i128.pow(u32::from(value.scale()));
    let (quotient, rest) = (whole / power, whole % power);
    let up = !truncate && rest.unsigned_abs() * 2 >= power.unsigned_abs();
    let units = (quotient + if up { whole.signum() } else { 0 }).checked_mul(power).ok_or_else(out_of_range)?;
    Decimal::new(units, 0)
}

/// Towards zero.
fn cut(value: Decimal, scale: u8) -> Result<Decimal> {
    if value.is_negative() { Ok(value.negated().floor_to(scale)?.negated()) } else { value.floor_to(scale) }
}

fn extract(field: Field, micros: i64) -> Result<Value> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?;
    let rest = micros.rem_euclid(MICROS_PER_DAY);
    let (year, month, day) = to_civil(days);
    let whole = match field {
        Field::Year => i64::from(year),
        Field::Quarter => i64::from(month.div_ceil(3)),
        Field::Month => i64::from(month),
        Field::Day => i64::from(day),
        Field::Hour => rest / 3_600_000_000,
        Field::Minute => rest / 60_000_000 % 60,
        Field::Second => return Ok(Decimal::new(i128::from(rest % 60_000_000), 6)?.into()),
        Field::Epoch => return Ok(Decimal::new(i128::from(micros), 6)?.into()),
        Field::DayOfWeek => (i64::from(days) + 4).rem_euclid(7),
        Field::DayOfYear => from_civil(year, 1, 1).map_or(0, |first| i64::from(days - first) + 1),
        Field::Week => return Err(crate::Error::not_here("EXTRACT(week)")),
    };
    Ok(Decimal::from(whole).into())
}

fn truncate(field: Field, micros: i64) -> Result<i64> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?;
    let (year, month, _) = to_civil(days);
    let day = match field {
        Field::Hour => return Ok(micros - micros.rem_euclid(3_600_000_000)),
        Field::Minute => return Ok(micros - micros.rem_euclid(60_000_000)),
        Field::Second => return Ok(micros - micros.rem_euclid(1_000_000)),
        Field::Day => Some(days),
        // Weeks begin on Monday, and 1970 did on a Thursday.
        Field::Week => Some(days - (days + 3).rem_euclid(7)),
        Field::Month => from_civil(year, month, 1),
        Field::Quarter => from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Field::Year => from_civil(year, 1, 1),
        Field::DayOfWeek | Field::DayOfYear | Field::Epoch => {
            return Err(Class::InvalidParameter
                .error("date_trunc takes year, quarter, month, week, day, hour, minute or second"));
        }
    };
    day.map(|day| i64::from(day) * MICROS_PER_DAY).ok_or_else(out_of_range)
}

/// Months first, where the day is cut to the month's last; then days; then the rest.
fn add_interval(micros: i64, months: i64, days: i64, rest: i64) -> Result<i64> {
    let beyond = || Class::DatetimeOverflow.error("timestamp out of range: years are 1 to 9999");
    let day = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| beyond())?;
    let (year, month, day_of_month) = to_civil(day);
    let total = i64::from(year) * 12 + i64::from(month) - 1;
    let total = total.checked_add(months).ok_or_else(beyond)?;
    let year = i32::try_from(total.div_euclid(12)).map_err(|_| beyond())?;
    let month = u32::try_from(total.rem_euclid(12) + 1).map_err(|_| beyond())?;
    let last = days_in_month(year, month).ok_or_else(beyond)?;
    let day = i64::from(from_civil(year, month, day_of_month.min(last)).ok_or_else(beyond)?);
    let day = day.checked_add(days).ok_or_else(beyond)?;
    let moved = day
        .checked_mul(MICROS_PER_DAY)
        .and_then(|start| start.checked_add(micros.rem_euclid(MICROS_PER_DAY)))
        .and_then(|moved| moved.checked_add(rest))
        .ok_or_else(beyond)?;
    let in_range = i32::try_from(moved.div_euclid(MICROS_PER_DAY)).is_ok_and(is_day);
    if in_range { Ok(moved) } else { Err(beyond()) }
}
