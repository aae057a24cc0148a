//! Functions of dates, timestamps and intervals.

use super::Function;
use crate::calendar::timestamp_out_of_range;
use crate::error::{Class, Error, Result};
use crate::{
    DataType, Decimal, Interval, MICROS_PER_DAY, Value, ValueRef, Zone, from_civil, is_day, out_of_range, to_civil,
};

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident $text:literal $($other:literal)*,)*) => {
        /// A part of a date, a timestamp or an interval. Ranges are those of dates and timestamps: parts of intervals
        /// may be negative, and years and hours are not bounded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Field {
            $($(#[$doc])* $name,)*
        }

        impl Field {
            /// The field with this SQL name.
            ///
            /// # Errors
            /// If there is none: SQLSTATE 22023.
            pub fn named(name: &str) -> Result<Self> {
                match name.to_ascii_lowercase().as_str() {
                    $($text $(| $other)* => Ok(Self::$name),)*
                    _ => Err(Class::InvalidParameter.error(format_args!("unit \"{name}\" not recognized"))),
                }
            }

            /// Name in SQL.
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
    /// Seconds in thousandths, with their fraction.
    Milliseconds "milliseconds" "millisecond" "ms",
    /// Seconds in millionths.
    Microseconds "microseconds" "microsecond" "us",
    /// Sunday is 0.
    DayOfWeek "dow",
    /// Monday is 1, Sunday is 7.
    IsoDayOfWeek "isodow",
    /// From 1 to 366.
    DayOfYear "doy",
    /// Seconds since 1970, or of an interval.
    Epoch "epoch",
    /// Seconds that the zone is ahead of UTC.
    Timezone "timezone",
    /// Hours of that.
    TimezoneHour "timezone_hour",
    /// Minutes of that, beside the hours.
    TimezoneMinute "timezone_minute",
}

impl Field {
    /// Whether dates have no such field.
    pub(super) const fn is_of_time(self) -> bool {
        matches!(self, Self::Hour | Self::Minute | Self::Second | Self::Milliseconds | Self::Microseconds)
    }

    /// Whether only timestamps with a time zone have such a field.
    pub(super) const fn is_of_zone(self) -> bool {
        matches!(self, Self::Timezone | Self::TimezoneHour | Self::TimezoneMinute)
    }

    /// Result of EXTRACT: an integer, or a decimal for fields with fractions.
    pub(super) const fn extracted_type(self) -> DataType {
        match self {
            Self::Second | Self::Milliseconds | Self::Epoch => DataType::Decimal { precision: 18, scale: 6 },
            _ => DataType::Integer,
        }
    }
}

pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    let moment = match arguments {
        [ValueRef::Interval(span)] => Moment::Span(*span),
        [ValueRef::Date(days)] => Moment::Timestamp(i64::from(*days) * MICROS_PER_DAY),
        [ValueRef::Timestamp(micros) | ValueRef::TimestampTz(micros)] => Moment::Timestamp(*micros),
        _ => return Err(function.not_of(arguments)),
    };
    match (function, moment) {
        (Function::Extract(field), moment) => extract(field, moment),
        (Function::Part(field), moment) => Ok(extract(field, moment)?.as_ref().number_as_f64().into()),
        (Function::Truncate(field), Moment::Timestamp(micros)) => {
            let truncated = truncate(field, micros)?;
            Ok(match arguments {
                [ValueRef::Timestamp(_)] => Value::Timestamp(truncated),
                _ => Value::TimestampTz(truncated),
            })
        }
        (Function::Truncate(field), Moment::Span(span)) => truncate_interval(field, span).map(Value::Interval),
        _ => Err(function.not_of(arguments)),
    }
}

/// `timezone(zone, moment)`; `None` for arguments that it does not take.
pub(super) fn at_time_zone(arguments: &[ValueRef<'_>]) -> Option<Result<Value>> {
    let [zone, moment] = arguments else { return None };
    let zone = match zone {
        ValueRef::Text(name) => Zone::named(name),
        ValueRef::Interval(span) => Zone::of_interval(*span),
        _ => return None,
    };
    let of_zone = |zone: Zone| match moment {
        ValueRef::Timestamp(local) => Some(zone.to_utc(*local).map(Value::TimestampTz)),
        ValueRef::TimestampTz(micros) => Some(zone.to_local(*micros).map(Value::Timestamp)),
        ValueRef::Date(days) => Some(zone.to_local(i64::from(*days) * MICROS_PER_DAY).map(Value::Timestamp)),
        _ => None,
    };
    match zone {
        Ok(zone) => of_zone(zone),
        Err(error) => Some(Err(error)),
    }
}

/// A value that has fields.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Microseconds since 1970; a date's are those of its midnight.
    Timestamp(i64),
    Span(Interval),
}

fn extract(field: Field, moment: Moment) -> Result<Value> {
    match moment {
        Moment::Timestamp(micros) => extract_timestamp(field, micros),
        Moment::Span(span) => extract_interval(field, span),
    }
}

/// A field of a timestamp that is an integer.
pub(super) fn extract_whole(field: Field, micros: i64) -> Result<i64> {
    match extract_timestamp(field, micros)? {
        Value::Int(number) => Ok(number),
        _ => Err(out_of_range()),
    }
}

/// A field of the time since midnight, or of an interval's microseconds.
fn extract_time(field: Field, micros: i64) -> Result<Value> {
    let of_minute = micros % 60_000_000;
    match field {
        Field::Hour => Ok(Value::Int(micros / 3_600_000_000)),
        Field::Minute => Ok(Value::Int(micros / 60_000_000 % 60)),
        Field::Second => Ok(Decimal::new(of_minute.into(), 6)?.into()),
        Field::Milliseconds => Ok(Decimal::new(of_minute.into(), 3)?.into()),
        Field::Microseconds => Ok(Value::Int(of_minute)),
        _ => Err(not_of_intervals(field)),
    }
}

fn extract_interval(field: Field, span: Interval) -> Result<Value> {
    let Interval { months, days, micros } = span;
    Ok(Value::Int(i64::from(match field {
        Field::Millennium => months / 12_000,
        Field::Century => months / 1200,
        Field::Decade => months / 120,
        Field::Year => months / 12,
        Field::Quarter => months % 12 / 3 + 1,
        Field::Month => months % 12,
        Field::Day => days,
        // A year is 365.25 days here, and a month 30.
        Field::Epoch => {
            let quarters_of_days =
                i128::from(months / 12) * 1461 + i128::from(months % 12) * 120 + i128::from(days) * 4;
            let units = quarters_of_days * i128::from(MICROS_PER_DAY / 4) + i128::from(micros);
            return Ok(Decimal::new(units, 6)?.into());
        }
        _ => return extract_time(field, micros),
    })))
}

fn not_of_intervals(field: Field) -> Error {
    Class::Unsupported.error(format_args!("unit \"{}\" not supported for type interval", field.name()))
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
        field => Err(not_of_intervals(field)),
    }
}

fn extract_timestamp(field: Field, micros: i64) -> Result<Value> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?;
    let (year, month, day) = to_civil(days);
    let year = i64::from(year);
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
        Field::Epoch => return Ok(Decimal::new(micros.into(), 6)?.into()),
        Field::DayOfWeek => (i64::from(days) + 4).rem_euclid(7),
        Field::IsoDayOfWeek => (i64::from(days) + 3).rem_euclid(7) + 1,
        Field::DayOfYear => day_of_year(days, year),
        // Moments are in UTC here.
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => 0,
        Field::Hour | Field::Minute | Field::Second | Field::Milliseconds | Field::Microseconds => {
            return extract_time(field, micros.rem_euclid(MICROS_PER_DAY));
        }
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
        Field::IsoYear
        | Field::DayOfWeek
        | Field::IsoDayOfWeek
        | Field::DayOfYear
        | Field::Epoch
        | Field::Timezone
        | Field::TimezoneHour
        | Field::TimezoneMinute => {
            return Err(Class::Unsupported.error(format_args!("unit \"{}\" not supported by date_trunc", field.name())));
        }
    };
    day.filter(|day| is_day(*day)).map(|day| i64::from(day) * MICROS_PER_DAY).ok_or_else(timestamp_out_of_range)
}
