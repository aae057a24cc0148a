//! Functions of dates, timestamps and intervals.

use super::Function;
use crate::error::{Class, Error, Result};
use crate::{DataType, Decimal, Interval, MICROS_PER_DAY, Value, ValueRef, from_civil, is_day, out_of_range, to_civil};

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident $text:literal $($other:literal)*,)*) => {
        /// A part of a date, a timestamp or an interval.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Field {
            $($(#[$doc])* $name,)*
        }

        impl Field {
            /// The field that SQL calls so.
            ///
            /// # Errors
            /// If there is none: SQLSTATE 22023.
            pub fn named(name: &str) -> Result<Self> {
                match name.to_ascii_lowercase().as_str() {
                    $($text $(| $other)* => Ok(Self::$name),)*
                    _ => Err(Class::InvalidParameter.error(format_args!("unit \"{name}\" not recognized"))),
                }
            }

            /// What SQL calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

fields! {
    /// From 1 to 10.
    Millennium "millennium" "millennia" "millenniums",
    /// From 1 to 100.
    Century "century" "centuries",
    /// The year divided by ten.
    Decade "decade" "decades",
    /// From 1 to 9999.
    Year "year" "years" "y",
    /// The year of the week.
    IsoYear "isoyear",
    /// From 1 to 4.
    Quarter "quarter",
    /// From 1 to 12.
    Month "month" "months" "mon",
    /// The first one has the year's first Thursday.
    Week "week" "weeks" "w",
    /// Of the month.
    Day "day" "days" "d",
    /// From 0 to 23.
    Hour "hour" "hours" "h",
    /// From 0 to 59.
    Minute "minute" "minutes" "min" "m",
    /// With its fraction.
    Second "second" "seconds" "sec" "s",
    /// Seconds in thousandths, with what is finer.
    Milliseconds "milliseconds" "millisecond" "ms",
    /// Seconds in millionths.
    Microseconds "microseconds" "microsecond" "us",
    /// Sunday is 0.
    DayOfWeek "dow",
    /// Monday is 1, Sunday is 7.
    IsoDayOfWeek "isodow",
    /// From 1 to 366.
    DayOfYear "doy",
    /// Seconds since 1970.
    Epoch "epoch",
}

impl Field {
    /// Whether dates have no such field.
    pub(super) const fn is_of_time(self) -> bool {
        matches!(self, Self::Hour | Self::Minute | Self::Second | Self::Milliseconds | Self::Microseconds)
    }

    /// What EXTRACT gives: integers, and decimals of what has fractions.
    pub(super) const fn extracted_type(self) -> DataType {
        match self {
            Self::Second | Self::Milliseconds | Self::Epoch => DataType::Decimal { precision: 18, scale: 6 },
            _ => DataType::Integer,
        }
    }
}

pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    let [moment, rest @ ..] = arguments else { return Err(function.not_of(arguments)) };
    let micros = match moment {
        ValueRef::Interval(span) => return of_interval(function, *span),
        ValueRef::Date(days) => i64::from(*days) * MICROS_PER_DAY,
        ValueRef::Timestamp(micros) => *micros,
        _ => return Err(function.not_of(arguments)),
    };
    match (function, rest) {
        (Function::Extract(field), []) => extract(field, micros),
        (Function::Part(field), []) => Ok(extract(field, micros)?.as_ref().number_as_f64().into()),
        (Function::Truncate(field), []) => truncate(field, micros).map(Value::Timestamp),
        _ => Err(function.not_of(arguments)),
    }
}

fn of_interval(function: Function, span: Interval) -> Result<Value> {
    match function {
        Function::Extract(field) => extract_interval(field, span),
        Function::Part(field) => Ok(extract_interval(field, span)?.as_ref().number_as_f64().into()),
        Function::Truncate(field) => truncate_interval(field, span).map(Value::Interval),
        _ => Err(function.not_of(&[ValueRef::Interval(span)])),
    }
}

fn extract_interval(field: Field, span: Interval) -> Result<Value> {
    let Interval { months, days, micros } = span;
    let of_minute = micros % 60_000_000;
    Ok(Value::Int(match field {
        Field::Millennium => i64::from(months / 12_000),
        Field::Century => i64::from(months / 1200),
        Field::Decade => i64::from(months / 120),
        Field::Year => i64::from(months / 12),
        Field::Quarter => i64::from(months % 12 / 3 + 1),
        Field::Month => i64::from(months % 12),
        Field::Day => i64::from(days),
        Field::Hour => micros / 3_600_000_000,
        Field::Minute => micros / 60_000_000 % 60,
        Field::Microseconds => of_minute,
        Field::Second => return Ok(Decimal::new(of_minute.into(), 6)?.into()),
        Field::Milliseconds => return Ok(Decimal::new(of_minute.into(), 3)?.into()),
        // A year is 365.25 days here, and a month 30.
        Field::Epoch => {
            let quarters_of_days =
                i128::from(months / 12) * 1461 + i128::from(months % 12) * 120 + i128::from(days) * 4;
            let units = quarters_of_days * i128::from(MICROS_PER_DAY / 4) + i128::from(micros);
            return Ok(Decimal::new(units, 6)?.into());
        }
        Field::IsoYear | Field::Week | Field::DayOfWeek | Field::IsoDayOfWeek | Field::DayOfYear => {
            return Err(
                Class::Unsupported.error(format_args!("unit \"{}\" not supported for type interval", field.name()))
            );
        }
    }))
}

fn truncate_interval(field: Field, span: Interval) -> Result<Interval> {
    let whole = |unit: i64| Ok(Interval { micros: span.micros - span.micros % unit, ..span });
    let of_months = |unit: i32| Ok(Interval { months: span.months - span.months % unit, days: 0, micros: 0 });
    match field {
        Field::Millennium => of_months(12_000),
        Field::Century => of_months(1200),
        Field::Decade => of_months(120),
        Field::Year => of_months(12),
        Field::Quarter => of_months(3),
        Field::Month => of_months(1),
        Field::Day => Ok(Interval { micros: 0, ..span }),
        Field::Hour => whole(3_600_000_000),
        Field::Minute => whole(60_000_000),
        Field::Second => whole(1_000_000),
        Field::Milliseconds => whole(1_000),
        Field::Microseconds => Ok(span),
        _ => Err(Class::Unsupported.error(format_args!("unit \"{}\" not supported for type interval", field.name()))),
    }
}

fn extract(field: Field, micros: i64) -> Result<Value> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?;
    let rest = micros.rem_euclid(MICROS_PER_DAY);
    let (year, month, day) = to_civil(days);
    let year = i64::from(year);
    let of_minute = rest % 60_000_000;
    Ok(Value::Int(match field {
        Field::Millennium => (year + 999) / 1000,
        Field::Century => (year + 99) / 100,
        Field::Decade => year / 10,
        Field::Year => year,
        Field::IsoYear => iso_week(days).0,
        Field::Quarter => i64::from(month.div_ceil(3)),
        Field::Month => i64::from(month),
        Field::Week => iso_week(days).1,
        Field::Day => i64::from(day),
        Field::Hour => rest / 3_600_000_000,
        Field::Minute => rest / 60_000_000 % 60,
        Field::Microseconds => of_minute,
        Field::Second => return Ok(Decimal::new(of_minute.into(), 6)?.into()),
        Field::Milliseconds => return Ok(Decimal::new(of_minute.into(), 3)?.into()),
        Field::Epoch => return Ok(Decimal::new(micros.into(), 6)?.into()),
        Field::DayOfWeek => (i64::from(days) + 4).rem_euclid(7),
        Field::IsoDayOfWeek => (i64::from(days) + 3).rem_euclid(7) + 1,
        Field::DayOfYear => day_of_year(days, year),
    }))
}

fn day_of_year(days: i32, year: i64) -> i64 {
    let first = i32::try_from(year).ok().and_then(|year| from_civil(year, 1, 1));
    first.map_or(0, |first| i64::from(days - first) + 1)
}

/// Year and number of the week of a day: those of its Thursday.
fn iso_week(days: i32) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, _, _) = to_civil(thursday);
    let year = i64::from(year);
    (year, (day_of_year(thursday, year) - 1) / 7 + 1)
}

fn truncate(field: Field, micros: i64) -> Result<i64> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?;
    let (year, month, _) = to_civil(days);
    let whole = |unit: i64| Ok(micros - micros.rem_euclid(unit));
    let day = match field {
        Field::Hour => return whole(3_600_000_000),
        Field::Minute => return whole(60_000_000),
        Field::Second => return whole(1_000_000),
        Field::Milliseconds => return whole(1_000),
        Field::Microseconds => return Ok(micros),
        Field::Day => Some(days),
        // Weeks begin on Monday, and 1970 did on a Thursday.
        Field::Week => Some(days - (days + 3).rem_euclid(7)),
        Field::Month => from_civil(year, month, 1),
        Field::Quarter => from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Field::Year => from_civil(year, 1, 1),
        Field::Decade => from_civil(year / 10 * 10, 1, 1),
        Field::Century => from_civil((year - 1) / 100 * 100 + 1, 1, 1),
        Field::Millennium => from_civil((year - 1) / 1000 * 1000 + 1, 1, 1),
        Field::IsoYear | Field::DayOfWeek | Field::IsoDayOfWeek | Field::DayOfYear | Field::Epoch => {
            return Err(Class::Unsupported.error(format_args!("unit \"{}\" not supported by date_trunc", field.name())));
        }
    };
    day.filter(|day| is_day(*day)).map(|day| i64::from(day) * MICROS_PER_DAY).ok_or_else(beyond)
}

fn beyond() -> Error {
    Class::DatetimeOverflow.error("timestamp out of range: years are 1 to 9999")
}
