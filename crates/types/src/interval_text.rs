//! Intervals from text.

use crate::MICROS_PER_DAY;
use crate::error::{Class, Result};
use crate::interval::{Interval, out_of_range};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;

/// What a number in front of a unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Years(i32),
    Months,
    Weeks,
    Days,
    Micros(i64),
}

impl Unit {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Micros(1),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Micros(1_000),
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Micros(MICROS_PER_SECOND),
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Micros(MICROS_PER_MINUTE),
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Micros(MICROS_PER_HOUR),
            "day" | "days" | "d" => Self::Days,
            "week" | "weeks" | "w" => Self::Weeks,
            "month" | "months" | "mon" | "mons" => Self::Months,
            "year" | "years" | "yr" | "yrs" | "y" => Self::Years(1),
            "decade" | "decades" | "dec" | "decs" => Self::Years(10),
            "century" | "centuries" | "cent" | "c" => Self::Years(100),
            "millennium" | "millennia" | "mil" | "mils" => Self::Years(1000),
            _ => return None,
        })
    }

    /// A letter of ISO 8601's form, before and behind the `T`.
    fn designated(letter: char, is_time: bool) -> Option<Self> {
        Some(match (letter, is_time) {
            ('Y', false) => Self::Years(1),
            ('M', false) => Self::Months,
            ('W', false) => Self::Weeks,
            ('D', false) => Self::Days,
            ('H', true) => Self::Micros(MICROS_PER_HOUR),
            ('M', true) => Self::Micros(MICROS_PER_MINUTE),
            ('S', true) => Self::Micros(MICROS_PER_SECOND),
            _ => return None,
        })
    }
}

/// As [`Interval::parse`].
pub(crate) fn parse(text: &str, unit: Option<&str>) -> Result<Interval> {
    let invalid = || Class::InvalidDatetime.error(format_args!("invalid input syntax for type interval: \"{text}\""));
    let mut sum = Sum::default();
    let lower = text.trim().to_ascii_lowercase();
    let read = match text.trim().strip_prefix('P') {
        Some(designators) => iso(designators, &mut sum),
        None => {
            let unit = match unit {
                Some(unit) => Some(Unit::named(unit).ok_or_else(invalid)?),
                None => None,
            };
            words(&lower, unit, &mut sum)
        }
    };
    match read {
        Some(Ok(())) => Interval::try_from(sum),
        Some(Err(error)) => Err(error),
        None => Err(invalid()),
    }
}

/// Parts as they are added, with room for all that text may say before it is seen whether they fit.
#[derive(Debug, Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
    /// Those that have been named, each of which may be so once.
    units: Vec<Unit>,
}

impl TryFrom<Sum> for Interval {
    type Error = crate::Error;

    fn try_from(sum: Sum) -> Result<Self> {
        match (sum.months.try_into(), sum.days.try_into(), sum.micros.try_into()) {
            (Ok(months), Ok(days), Ok(micros)) => Ok(Self { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }
}

impl Sum {
    /// Adds a number of a unit; `None` if there has been one of it. A fraction goes on to shorter units, as in
    /// PostgreSQL: that of years to whole months, that of months and weeks to days and a time.
    fn add(&mut self, number: Number, unit: Unit) -> Option<Result<()>> {
        if self.units.contains(&unit) {
            return None;
        }
        self.units.push(unit);
        let Number { whole, fraction } = number;
        let Some(()) = (match unit {
            Unit::Years(count) => {
                let months = (fraction * f64::from(count) * 12.0).round_ties_even();
                self.months += integer(months);
                whole.checked_mul(12 * i128::from(count)).map(|months| self.months += months)
            }
            Unit::Months => {
                self.add_days(fraction * 30.0);
                self.months += whole;
                Some(())
            }
            Unit::Weeks => {
                self.add_days(fraction * 7.0);
                whole.checked_mul(7).map(|days| self.days += days)
            }
            Unit::Days => {
                self.add_micros(fraction, MICROS_PER_DAY);
                self.days += whole;
                Some(())
            }
            Unit::Micros(micros) => {
                self.add_micros(fraction, micros);
                whole.checked_mul(micros.into()).map(|micros| self.micros += micros)
            }
        }) else {
            return Some(Err(out_of_range()));
        };
        Some(Ok(()))
    }

    fn add_days(&mut self, days: f64) {
        self.days += integer(days.trunc());
        self.add_micros(days.fract(), MICROS_PER_DAY);
    }

    fn add_micros(&mut self, fraction: f64, unit: i64) {
        #[expect(clippy::cast_precision_loss, reason = "no unit has more than 53 bits")]
        let micros = fraction * unit as f64;
        self.micros += integer(micros.trunc());
        // A half is not rounded up.
        self.micros += i128::from(micros.fract() > 0.5) - i128::from(micros.fract() < -0.5);
    }

    fn negate(&mut self) {
        (self.months, self.days, self.micros) = (-self.months, -self.days, -self.micros);
    }
}

/// The integer that a double without a fraction is.
fn integer(number: f64) -> i128 {
    #[expect(clippy::cast_possible_truncation, reason = "fractions of a unit have few digits")]
    let integer = number as i128;
    integer
}

/// A number with its sign in both parts.
#[derive(Debug, Clone, Copy)]
struct Number {
    whole: i128,
    fraction: f64,
}

impl Number {
    /// The number at the start of a text, and what is behind it.
    fn leading(text: &str) -> Option<(Self, &str)> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(end);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(behind) => {
                behind.split_at(behind.find(|character: char| !character.is_ascii_digit()).unwrap_or(behind.len()))
            }
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        // More digits than fit anywhere are refused when they are added.
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_or(i128::from(u64::MAX), i128::from) };
        let fraction = format!("0.{fraction}").parse::<f64>().ok()?;
        Some((Self { whole: sign * whole, fraction: if sign < 0 { -fraction } else { fraction } }, rest))
    }
}

/// Numbers with units, from the right to the left: a number without one counts what its place says.
fn words(text: &str, unit: Option<Unit>, sum: &mut Sum) -> Option<Result<()>> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_ago = words.last() == Some(&"ago");
    if is_ago {
        words.pop();
    }
    if words.first() == Some(&"@") {
        words.remove(0);
    }
    if words.is_empty() {
        return None;
    }
    let mut beside: Option<Unit> = unit.or(Some(Unit::Micros(MICROS_PER_SECOND)));
    let mut is_named = false;
    for word in words.into_iter().rev() {
        if let Some(named) = Unit::named(word) {
            if is_named {
                return None;
            }
            (beside, is_named) = (Some(named), true);
            continue;
        }
        let added = if word.contains(':') {
            let added = time(word, sum);
            beside = Some(Unit::Days);
            added
        } else if let Some((years, months)) = years_and_months(word) {
            sum.add(years, Unit::Years(1)).and_then(|_| sum.add(months, Unit::Months))
        } else {
            let (number, behind) = Number::leading(word)?;
            let of = match behind {
                "" => beside.take()?,
                attached if !is_named => Unit::named(attached)?,
                _ => return None,
            };
            sum.add(number, of)
        };
        is_named = false;
        match added {
            Some(Ok(())) => {}
            refused => return refused,
        }
    }
    if is_named {
        return None;
    }
    if is_ago {
        sum.negate();
    }
    Some(Ok(()))
}

/// `1-2`: years and months.
fn years_and_months(word: &str) -> Option<(Number, Number)> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let (years, months) = digits.split_once('-')?;
    let number = |digits: &str| -> Option<Number> {
        let whole = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())??;
        Some(Number { whole: sign * i128::from(whole), fraction: 0.0 })
    };
    Some((number(years)?, number(months).filter(|months| months.whole.abs() < 12)?))
}

/// `[-]hours:minutes[:seconds[.fraction]]`.
fn time(word: &str, sum: &mut Sum) -> Option<Result<()>> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let count = |digits: &str| -> Option<i128> {
        let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_count.then(|| digits.parse::<i64>().ok().map(i128::from))?
    };
    let (hours, minutes) = (count(hours)?, count(minutes)?);
    let (Number { whole, fraction }, "") = Number::leading(seconds)? else { return None };
    if minutes > 59 || !(0..=60).contains(&whole) || seconds.starts_with(['-', '+']) {
        return None;
    }
    for (place, number) in [hours, minutes, whole].into_iter().enumerate() {
        let fraction = if place == 2 { fraction } else { 0.0 };
        let of = [MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND].get(place).copied().unwrap_or(1);
        let number = Number { whole: sign * number, fraction: if sign < 0 { -fraction } else { fraction } };
        match sum.add(number, Unit::Micros(of)) {
            Some(Ok(())) => {}
            refused => return refused,
        }
    }
    Some(Ok(()))
}

/// ISO 8601's form with designators, behind its `P`.
fn iso(text: &str, sum: &mut Sum) -> Option<Result<()>> {
    let mut rest = text;
    let mut is_time = false;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T')
            && !is_time
            && !time.is_empty()
        {
            (rest, is_time) = (time, true);
            continue;
        }
        let (number, behind) = Number::leading(rest)?;
        let letter = behind.chars().next()?;
        match sum.add(number, Unit::designated(letter, is_time)?) {
            Some(Ok(())) => {}
            refused => return refused,
        }
        rest = behind.get(letter.len_utf8()..)?;
    }
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_postgres() {
        for (text, expected) in [
            ("1 year 2 months 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("1.5 hours", "01:30:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.7 years", "1 year 8 mons"),
            ("0.5 day", "12:00:00"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("@ 1 day ago", "-1 days"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("1-2", "1 year 2 mons"),
            ("-1-2 3 -4:05:06", "-1 years -2 mons +3 days -04:05:06"),
            ("5", "00:00:05"),
            ("2h 30m", "02:30:00"),
            ("1day", "1 day"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("P1W", "7 days"),
            ("100:00", "100:00:00"),
            ("1 decade 250 milliseconds", "10 years 00:00:00.25"),
        ] {
            assert_eq!(parse(text, None).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(parse("7", Some("day")).unwrap().to_string(), "7 days");
        assert_eq!(parse("1.5", Some("hour")).unwrap().to_string(), "01:30:00");
    }

    #[test]
    fn no_intervals() {
        for (text, state) in [
            ("", "22007"),
            ("day", "22007"),
            ("1 day 2 days", "22007"),
            ("1 dog", "22007"),
            ("1:60", "22007"),
            ("1:2:3:4", "22007"),
            ("P", "22007"),
            ("P1", "22007"),
            ("PT", "22007"),
            (".", "22007"),
            ("- 1 day", "22007"),
            ("99999999999999999999 years", "22008"),
            ("9999999999 days", "22008"),
            ("3000000000 months", "22008"),
        ] {
            assert_eq!(parse(text, None).unwrap_err().sqlstate(), state, "{text}");
        }
    }
}
