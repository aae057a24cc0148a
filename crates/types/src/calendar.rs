//! Dates and timestamps of the proleptic Gregorian calendar, years 1 to 9999, to and from text.

use std::fmt::{self, Write};

use crate::error::{Class, Error, Result};
use crate::zone::read_zone;

/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Names of months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Names of days of the week.
pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const DAYS_PER_ERA: i64 = 146_097;

/// 0001-01-01.
const FIRST_DAY: i32 = -719_162;

/// 9999-12-31.
const LAST_DAY: i32 = 2_932_896;

/// 0000-03-01 is this many days before 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;

/// Days since 1970-01-01 of a date; `None` if the date does not exist.
pub fn from_civil(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(1..=9999).contains(&year) || day == 0 || day > days_in_month(year, month)? {
        return None;
    }
    // Howard Hinnant's days_from_civil: years begin in March, so that the leap day is the last.
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH).ok()
}

/// Year, month and day of the days since 1970-01-01.
pub fn to_civil(days: i32) -> (i32, u32, u32) {
    let days = i64::from(days) + DAYS_TO_EPOCH;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (i32::try_from(year).unwrap_or(i32::MAX), u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

/// 1970-01-01 00:00:00.
const EPOCH: &str = "epoch";

/// Whether a day is in the years 1 to 9999.
pub fn is_day(days: i32) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days)
}

/// Number of days of a month; `None` if there is no such month.
pub fn days_in_month(year: i32, month: u32) -> Option<u32> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        _ => None,
    }
}

/// Parses a date as `YYYY-MM-DD`, `YYYYMMDD` or `epoch`. A time and a zone after it are read and ignored: the end of a
/// day belongs to that day.
pub fn parse_date(text: &str) -> Result<i32> {
    let trimmed = text.trim_ascii();
    let with_time = || {
        timestamp(trimmed).or_else(|| local_time(trimmed))?;
        date(trimmed.get(..trimmed.find(|next: char| !next.is_ascii_digit() && next != '-')?)?)
    };
    date(trimmed)
        .or_else(with_time)
        .ok_or_else(|| Class::InvalidDatetime.error(format_args!("'{text}' is not a date (YYYY-MM-DD)")))
}

fn date(text: &str) -> Option<i32> {
    if let (8, Some(number)) = (text.len(), digits(text)) {
        return from_civil(i32::try_from(number / 10_000).ok()?, number / 100 % 100, number % 100);
    }
    if text.eq_ignore_ascii_case(EPOCH) {
        return Some(0);
    }
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 || month.len() > 2 || day.len() > 2 {
        return None;
    }
    from_civil(i32::try_from(digits(year)?).ok()?, digits(month)?, digits(day)?)
}

/// One to nine digits and nothing else.
fn digits(text: &str) -> Option<u32> {
    (text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Parses `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]]` or `epoch` as microseconds since 1970; the separator may be a `T`, and a
/// time zone is ignored. Further digits of a second are rounded.
pub fn parse_timestamp(text: &str) -> Result<i64> {
    let text = text.trim_ascii();
    let invalid =
        || Class::InvalidDatetime.error(format_args!("'{text}' is not a timestamp (YYYY-MM-DD HH:MM:SS.ffffff)"));
    timestamp(text).or_else(|| local_time(text)).ok_or_else(invalid).and_then(in_years)
}

/// Local time of a text with a zone, which a type without a zone ignores, as in PostgreSQL.
fn local_time(text: &str) -> Option<i64> {
    let (micros, zone) = parse_date_and_time(text)?;
    read_zone(zone).ok().flatten().map(|_| micros)
}

fn timestamp(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let Some((day, time)) = text.split_once([' ', 'T']) else {
        return Some(i64::from(date(text)?) * MICROS_PER_DAY);
    };
    Some(i64::from(date(day)?) * MICROS_PER_DAY + time_of_day(time)?)
}

/// Microseconds since midnight of `HH:MM[:SS[.ffffff]]`.
fn time_of_day(time: &str) -> Option<i64> {
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let (second, micros) = match parts.next() {
        None => (0, 0),
        Some(second) => match second.split_once('.') {
            None => (digits(second)?, 0),
            Some((second, fraction)) => (digits(second)?, micros_of(fraction)?),
        },
    };
    // The end of the day, and a leap second, belong to the next day and minute.
    let is_end = matches!((hour, minute, second, micros), (24, 0, 0, 0) | (0..=23, 0..=59, 60, 0));
    if parts.next().is_some() || !is_end && (hour > 23 || minute > 59 || second > 59) {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000 + i64::from(micros))
}

/// Microseconds since 1970 of a date and time, and the text after them.
pub(crate) fn parse_date_and_time(text: &str) -> Option<(i64, &str)> {
    if text.eq_ignore_ascii_case(EPOCH) {
        return Some((0, ""));
    }
    let end = |text: &str, of: fn(char) -> bool| text.find(|next| !of(next)).unwrap_or(text.len());
    let (day, rest) = text.split_at(end(text, |next| next.is_ascii_digit() || next == '-'));
    let midnight = i64::from(date(day)?) * MICROS_PER_DAY;
    let time = rest.strip_prefix(['T', 't']);
    let Some(time) =
        time.or_else(|| Some(rest.trim_start()).filter(|time| time.starts_with(|next: char| next.is_ascii_digit())))
    else {
        return Some((midnight, rest));
    };
    let (time, rest) = time.split_at(end(time, |next| next.is_ascii_digit() || next == ':' || next == '.'));
    Some((midnight + time_of_day(time)?, rest))
}

/// Microseconds from the digits after the point, rounded like PostgreSQL's: half a microsecond to the even one.
fn micros_of(fraction: &str) -> Option<u32> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if fraction.len() <= 6 {
        return Some(digits(fraction)? * 10_u32.pow(6 - u32::try_from(fraction.len()).ok()?));
    }
    let seconds: f64 = format!("0.{fraction}").parse().ok()?;
    // At most a million.
    Some((seconds * 1e6).round_ties_even() as u32)
}

/// Writes `YYYY-MM-DD`.
pub fn format_date(out: &mut impl Write, days: i32) -> fmt::Result {
    let (year, month, day) = to_civil(days);
    write!(out, "{year:04}-{month:02}-{day:02}")
}

/// Writes `YYYY-MM-DD HH:MM:SS`, and a fraction if there is one, without trailing zeros.
pub fn format_timestamp(out: &mut impl Write, micros: i64) -> fmt::Result {
    let days = micros.div_euclid(MICROS_PER_DAY);
    let rest = micros.rem_euclid(MICROS_PER_DAY);
    format_date(out, i32::try_from(days).unwrap_or(i32::MAX))?;
    out.write_char(' ')?;
    format_time(out, rest.unsigned_abs())
}

/// Writes microseconds as `HH:MM:SS`, and a fraction if there is one, without trailing zeros.
pub(crate) fn format_time(out: &mut impl Write, micros: u64) -> fmt::Result {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction != 0 {
        let text = format!("{fraction:06}");
        write!(out, ".{}", text.trim_end_matches('0'))?;
    }
    Ok(())
}

/// Checks that a timestamp is in the years 1 to 9999.
///
/// # Errors
/// SQLSTATE 22008 if it is not.
pub(crate) fn in_years(micros: i64) -> Result<i64> {
    let is_in_range = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).is_ok_and(is_day);
    if is_in_range { Ok(micros) } else { Err(timestamp_out_of_range()) }
}

/// Error of a timestamp outside the years 1 to 9999.
pub(crate) fn timestamp_out_of_range() -> Error {
    Class::DatetimeOverflow.error("timestamp out of range: years are 1 to 9999")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_there_and_back() {
        let first = from_civil(1, 1, 1).unwrap();
        let last = from_civil(9999, 12, 31).unwrap();
        assert_eq!(from_civil(1970, 1, 1), Some(0));
        assert_eq!(from_civil(2000, 3, 1), Some(11_017));
        let mut yesterday = (0, 12, 31);
        for days in first..=last {
            let (year, month, day) = to_civil(days);
            assert_eq!(from_civil(year, month, day), Some(days));
            assert!((year, month, day) > yesterday);
            yesterday = (year, month, day);
        }
    }

    #[test]
    fn text_there_and_back() {
        for text in ["0001-01-01", "1969-12-31", "1992-02-29", "9999-12-31"] {
            let mut out = String::new();
            format_date(&mut out, parse_date(text).unwrap()).unwrap();
            assert_eq!(out, text);
        }
        for text in ["0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-01-02 03:04:05.06"] {
            let mut out = String::new();
            format_timestamp(&mut out, parse_timestamp(text).unwrap()).unwrap();
            assert_eq!(out, text);
        }
        assert_eq!(parse_timestamp("1970-01-02").unwrap(), MICROS_PER_DAY);
        // A zone is read and ignored.
        for text in ["1970-01-01T00:01Z", "1970-01-01 00:01+02", "1970-01-01 00:01:00 Europe/Berlin"] {
            assert_eq!(parse_timestamp(text).unwrap(), 60_000_000, "{text}");
        }
    }

    #[test]
    fn other_forms() {
        for (text, days) in [
            ("19700102", 1),
            ("epoch", 0),
            ("1970-01-01 24:00:00", 0),
            ("1970-1-1 23:59:60+02", 0),
            ("9999-12-31 23:59:59.9999999", LAST_DAY),
            ("19700103 12:30 Europe/Berlin", 2),
        ] {
            assert_eq!(parse_date(text).unwrap(), days, "{text}");
        }
        for (text, micros) in [
            ("epoch", 0),
            ("1970-01-01 24:00:00", MICROS_PER_DAY),
            ("1970-01-01 00:00:60", 60_000_000),
            ("1970-01-01 00:00:00.0000015", 2),
            ("1970-01-01 00:00:00.9999999", 1_000_000),
            ("1970-01-01 00:00:00.000000123456789", 0),
        ] {
            assert_eq!(parse_timestamp(text).unwrap(), micros, "{text}");
        }
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "1993-02-29",
            "1993-13-01",
            "93-01-01",
            "1993-1",
            "1993-01-01-01",
            "1993-001-01",
            "1993-+1-01",
            "ä",
            "0000-01-01",
        ] {
            assert_eq!(parse_date(text).unwrap_err().sqlstate(), "22007", "{text}");
        }
        for text in ["1993-01-01 24:00:01", "1993-01-01 1", "1993-01-01 10:00:00.", "1993-01-01 10:00 nowhere"] {
            assert_eq!(parse_timestamp(text).unwrap_err().sqlstate(), "22007", "{text}");
        }
        assert_eq!(parse_timestamp("9999-12-31 24:00:00").unwrap_err().sqlstate(), "22008");
    }
}
