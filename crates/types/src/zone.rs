//! Time zones: offsets, abbreviations and the names of the tz database; and moments with a time zone from and to text.
//!
//! A `TIMESTAMP WITH TIME ZONE` is a moment. Without another zone beside it, it is read and written in UTC.

mod abbreviations;

use std::fmt::{self, Write};

use chrono::{DateTime, LocalResult, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::calendar::{in_years, is_day, parse_date_and_time};
use crate::error::{Class, Result};
use crate::{Interval, MICROS_PER_DAY, format_timestamp, from_civil, to_civil};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Hours that an offset has at most, as in PostgreSQL.
const OFFSET_HOURS_MAX: i32 = 15;

/// A time zone: the local time at each moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Seconds east of Greenwich.
    Fixed(i32),
    /// A zone of the tz database.
    Named(Tz),
}

impl Zone {
    /// The zone with this name in AT TIME ZONE: an abbreviation, a name of the tz database, or an offset in POSIX's
    /// form, whose positive numbers are west of Greenwich (`UTC+2`, `-05:30`).
    ///
    /// # Errors
    /// If there is none: SQLSTATE 22023.
    pub fn named(name: &str) -> Result<Self> {
        abbreviation(name)
            .or_else(|| of_database(name))
            .or_else(|| posix(name))
            .ok_or_else(|| Class::InvalidParameter.error(format_args!("time zone \"{name}\" not recognized")))
    }

    /// An offset to the east.
    ///
    /// # Errors
    /// If it has months or days, or its seconds exceed 32 bits: SQLSTATE 22023.
    pub fn of_interval(span: Interval) -> Result<Self> {
        let seconds = i32::try_from(span.micros / MICROS_PER_SECOND);
        seconds.ok().filter(|_| span.months == 0 && span.days == 0).map(Self::Fixed).ok_or_else(|| {
            Class::InvalidParameter.error(format_args!("interval time zone \"{span}\" must not include months or days"))
        })
    }

    /// Seconds that local time is ahead of UTC at a moment.
    pub fn offset_at(self, micros: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => DateTime::from_timestamp_micros(in_table(micros))
                .map_or(0, |moment| zone.offset_from_utc_datetime(&moment.naive_utc()).fix().local_minus_utc()),
        }
    }

    /// The moment of a local time. A local time that the clocks skip uses the offset before; of two moments with one
    /// local time, the later is taken, as in PostgreSQL.
    ///
    /// # Errors
    /// If it is not in the years 1 to 9999: SQLSTATE 22008.
    pub fn to_utc(self, local: i64) -> Result<i64> {
        in_years(local - i64::from(self.offset_of(local)) * MICROS_PER_SECOND)
    }

    /// The local time of a moment.
    ///
    /// # Errors
    /// If it is not in the years 1 to 9999: SQLSTATE 22008.
    pub fn to_local(self, micros: i64) -> Result<i64> {
        in_years(micros + i64::from(self.offset_at(micros)) * MICROS_PER_SECOND)
    }

    fn offset_of(self, local: i64) -> i32 {
        let Self::Named(zone) = self else { return self.offset_at(local) };
        let Some(written) = DateTime::from_timestamp_micros(in_table(local)) else { return 0 };
        match zone.offset_from_local_datetime(&written.naive_utc()) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => offset.fix().local_minus_utc(),
            LocalResult::None => self.offset_at(local - MICROS_PER_DAY),
        }
    }
}

/// The table of the zones' offsets ends with the year before this one.
const TABLE_END: i32 = 2100;
/// Years after which calendars repeat: each occurs as often as the others, except for leap years.
const YEARS_OF_CALENDARS: i32 = 28;

/// Maps a moment after the end of the table to one in the table's last year with the same calendar: the rules of all
/// later years are those of the last ones.
fn in_table(micros: i64) -> i64 {
    let same = || {
        let day = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok()?;
        let (year, ..) = to_civil(day);
        if year < TABLE_END {
            return None;
        }
        // Year length and weekdays, which distinguish calendars.
        let ends = |year: i32| Some((from_civil(year, 1, 1)?, from_civil(year, 12, 31)?));
        let calendar = |(first, last): (i32, i32)| (first.rem_euclid(7), last - first);
        let (first, last) = ends(year)?;
        let alike = (TABLE_END - YEARS_OF_CALENDARS..TABLE_END).filter_map(ends);
        let (other, _) = alike.rev().find(|ends| calendar(*ends) == calendar((first, last)))?;
        Some(micros - i64::from(first - other) * MICROS_PER_DAY)
    };
    same().unwrap_or(micros)
}

fn abbreviation(name: &str) -> Option<Zone> {
    abbreviations::offset(name).map(Zone::Fixed)
}

fn of_database(name: &str) -> Option<Zone> {
    let exact = name.parse::<Tz>().ok();
    exact.or_else(|| TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)).copied()).map(Zone::Named)
}

/// Letters, which may be missing, and an offset to the west.
fn posix(name: &str) -> Option<Zone> {
    let at = name.find(|character: char| !character.is_ascii_alphabetic())?;
    if at != 0 && at < 3 {
        return None;
    }
    let (sign, digits) = match name.get(at..)? {
        digits if digits.starts_with('-') => (1, digits.get(1..)?),
        digits => (-1, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let mut parts = digits.split(':').map(|part| if part.len() <= 3 { part.parse::<u16>().ok() } else { None });
    let hours = parts.next()??;
    let (minutes, seconds) = (parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    // POSIX has room for the days of a week.
    if parts.next().is_some() || hours > 167 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(Zone::Fixed(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60 + i32::from(seconds))))
}

/// The offset that a moment's text says behind its sign, in seconds: `HH`, `HHMM`, `HH:MM` or `HH:MM:SS`.
fn offset(digits: &str) -> Result<Option<i32>> {
    let number = |text: &str| {
        let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<i32>().ok() } else { None }
    };
    let mut parts = digits.split(':');
    let first = parts.next().unwrap_or_default();
    let (second, third) = (parts.next(), parts.next());
    let Some(hours) = number(first) else { return Ok(None) };
    let (hours, minutes) = match second.map(number) {
        Some(Some(minutes)) => (hours, minutes),
        Some(None) => return Ok(None),
        None if first.len() > 2 => (hours / 100, hours % 100),
        None => (hours, 0),
    };
    let seconds = match third.map(number) {
        Some(Some(seconds)) => seconds,
        Some(None) => return Ok(None),
        None => 0,
    };
    if parts.next().is_some() {
        return Ok(None);
    }
    if hours > OFFSET_HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(Class::InvalidOffset.error(format_args!("time zone displacement out of range: \"{digits}\"")));
    }
    Ok(Some(hours * 3600 + minutes * 60 + seconds))
}

/// The microseconds since 1970-01-01 00:00:00 UTC of the moment that text says as
/// `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][ ][zone]`. The zone is an offset to the east, an abbreviation or a name of the tz
/// database, and UTC if there is none.
///
/// # Errors
/// If the text is none: SQLSTATE 22007; an offset is out of range: 22009; there is no such zone: 22023; or the moment
/// is not in the years 1 to 9999: 22008.
pub fn parse_timestamptz(text: &str) -> Result<i64> {
    let invalid = || {
        Class::InvalidDatetime
            .error(format_args!("'{text}' is not a timestamp with time zone (YYYY-MM-DD HH:MM:SS.ffffff+HH:MM)"))
    };
    let (local, zone) = parse_date_and_time(text.trim_ascii()).ok_or_else(invalid)?;
    read_zone(zone)?.ok_or_else(invalid)?.to_utc(local)
}

/// The zone after a date and time; `None` if the text is not a zone.
pub(crate) fn read_zone(text: &str) -> Result<Option<Zone>> {
    let zone = text.trim();
    let signed = zone.strip_prefix('+').map(|digits| (1, digits));
    if let Some((sign, digits)) = signed.or_else(|| zone.strip_prefix('-').map(|digits| (-1, digits))) {
        return Ok(offset(digits)?.map(|seconds| Zone::Fixed(sign * seconds)));
    }
    match zone {
        "" => Ok(Some(Zone::Fixed(0))),
        name => match abbreviation(name).or_else(|| of_database(name)) {
            None if name.contains('/') => {
                Err(Class::InvalidParameter.error(format_args!("time zone \"{name}\" not recognized")))
            }
            zone => Ok(zone),
        },
    }
}

/// Writes a moment as local time `YYYY-MM-DD HH:MM:SS`, with a fraction if there is one, and the offset, `+00` for UTC.
/// A moment whose local time is outside the years 1 to 9999 is written in UTC.
pub fn format_timestamptz(out: &mut impl Write, micros: i64, zone: Zone) -> fmt::Result {
    let offset = zone.offset_at(micros);
    let local = micros.saturating_add(i64::from(offset) * MICROS_PER_SECOND);
    // A moment outside the local years is written in UTC.
    let is_day = i32::try_from(local.div_euclid(MICROS_PER_DAY)).is_ok_and(is_day);
    let (local, offset) = if is_day { (local, offset) } else { (micros, 0) };
    format_timestamp(out, local)?;
    format_offset(out, offset)
}

/// Writes seconds east of Greenwich as `+HH`, with minutes and seconds if there are any.
pub(crate) fn format_offset(out: &mut impl Write, seconds: i32) -> fmt::Result {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    write!(out, "{sign}{:02}", seconds / 3600)?;
    if !seconds.is_multiple_of(3600) {
        write!(out, ":{:02}", seconds / 60 % 60)?;
    }
    if !seconds.is_multiple_of(60) {
        write!(out, ":{:02}", seconds % 60)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_timestamp;

    fn written(micros: i64, zone: Zone) -> String {
        let mut out = String::new();
        format_timestamptz(&mut out, micros, zone).unwrap();
        out
    }

    #[test]
    fn text_to_moments() {
        for (text, utc) in [
            ("2024-02-03 04:05:06+02", "2024-02-03 02:05:06"),
            ("2024-02-03 04:05:06.25 +02:30", "2024-02-03 01:35:06.25"),
            ("2024-02-03T04:05:06Z", "2024-02-03 04:05:06"),
            ("2024-02-03 04:05-0530", "2024-02-03 09:35:00"),
            ("2024-02-03 04:05:06+01:02:03", "2024-02-03 03:03:03"),
            ("2024-02-03 04:05:06 utc", "2024-02-03 04:05:06"),
            ("2024-02-03 04:05:06 PST", "2024-02-03 12:05:06"),
            ("2024-07-03 04:05:06 Europe/Berlin", "2024-07-03 02:05:06"),
            ("2024-01-03 04:05:06 europe/berlin", "2024-01-03 03:05:06"),
            ("2024-02-03", "2024-02-03 00:00:00"),
            ("2024-02-03+02", "2024-02-02 22:00:00"),
            ("2024-02-03 -02", "2024-02-03 02:00:00"),
            // Skipped by the clocks, and shown twice.
            ("2024-03-31 02:30 Europe/Berlin", "2024-03-31 01:30:00"),
            ("2024-10-27 02:30 Europe/Berlin", "2024-10-27 01:30:00"),
            // Behind the end of the table.
            ("2099-07-01 12:00 Europe/Berlin", "2099-07-01 10:00:00"),
            ("2100-07-01 12:00 Europe/Berlin", "2100-07-01 10:00:00"),
            ("2101-03-27 02:00 Europe/Berlin", "2101-03-27 01:00:00"),
            ("9996-03-31 03:00 Europe/Berlin", "9996-03-31 01:00:00"),
            ("9999-12-31 12:00 Australia/Sydney", "9999-12-31 01:00:00"),
        ] {
            assert_eq!(parse_timestamptz(text).unwrap(), parse_timestamp(utc).unwrap(), "{text}");
        }
        for (text, state) in [
            ("", "22007"),
            ("2024-02-03 04:05:06+", "22007"),
            ("2024-02-03 04:05:06 x", "22007"),
            ("2024-02-03 04:05:06+1:2:3:4", "22007"),
            ("2024-02-03-02", "22007"),
            ("2024-02-03T", "22007"),
            ("2024-02-30 00:00+00", "22007"),
            ("2024-02-03 04:05:06+16", "22009"),
            ("2024-02-03 04:05:06+01:60", "22009"),
            ("2024-02-03 04:05:06 Europe/Nowhere", "22023"),
            ("0001-01-01 00:00:00+01", "22008"),
            ("9999-12-31 23:59:59-01", "22008"),
        ] {
            assert_eq!(parse_timestamptz(text).unwrap_err().sqlstate(), state, "{text}");
        }
    }

    #[test]
    fn moments_to_text() {
        let moment = parse_timestamp("2024-07-03 02:05:06.5").unwrap();
        for (zone, text) in [
            ("UTC", "2024-07-03 02:05:06.5+00"),
            ("Europe/Berlin", "2024-07-03 04:05:06.5+02"),
            ("Asia/Kolkata", "2024-07-03 07:35:06.5+05:30"),
            ("America/Los_Angeles", "2024-07-02 19:05:06.5-07"),
            ("+02", "2024-07-03 00:05:06.5-02"),
            ("UTC-02:30", "2024-07-03 04:35:06.5+02:30"),
        ] {
            assert_eq!(written(moment, Zone::named(zone).unwrap()), text, "{zone}");
        }
        for wrong in ["", "Nowhere", "Europe/Nowhere", "+1:2:3:4", "+168", "ab+1", "é"] {
            assert_eq!(Zone::named(wrong).unwrap_err().sqlstate(), "22023", "{wrong}");
        }
    }

    #[test]
    fn names_are_found_at_the_ends_of_the_calendar() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let (first, last) = (parse_timestamp("0001-01-01").unwrap(), parse_timestamp("9999-12-31 23:59:59").unwrap());
        assert_eq!(berlin.to_local(last).unwrap_err().sqlstate(), "22008");
        assert_eq!(berlin.to_utc(first).unwrap_err().sqlstate(), "22008");
        assert_eq!(written(last, berlin), "9999-12-31 23:59:59+00");
        assert_eq!(berlin.to_utc(berlin.to_local(0).unwrap()).unwrap(), 0);
    }
}
