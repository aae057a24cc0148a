//! Intervals from text.

use crate::error::Class;
use crate::interval::{Interval, out_of_range};
use crate::{Error, MICROS_PER_DAY};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;

/// Unit of an interval's number.
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

/// Why a text is not an interval.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Syntax,
    OutOfRange,
}

type Result<T> = std::result::Result<T, Fault>;

/// As [`Interval::parse`].
pub(crate) fn parse(text: &str, unit: Option<&str>) -> crate::Result<Interval> {
    read(text.trim(), unit).map_err(|fault| match fault {
        Fault::Syntax => syntax_error(text),
        Fault::OutOfRange => out_of_range(),
    })
}

fn syntax_error(text: &str) -> Error {
    Class::InvalidDatetime.error(format_args!("invalid input syntax for type interval: \"{text}\""))
}

fn read(text: &str, unit: Option<&str>) -> Result<Interval> {
    let mut sum = Sum::default();
    match text.strip_prefix('P') {
        Some(designators) => iso(designators, &mut sum)?,
        None => {
            let unit = unit.map(|unit| Unit::named(unit).ok_or(Fault::Syntax)).transpose()?;
            words(&text.to_ascii_lowercase().replace(parts_words, " "), unit, &mut sum)?;
        }
    }
    sum.interval()
}

/// Whether a character separates words like a blank: punctuation that no word contains.
fn parts_words(character: char) -> bool {
    character.is_ascii_punctuation() && !matches!(character, '.' | ':' | '+' | '-' | '/')
}

/// Sum of the parts, with room for everything that a text may contain before the range is checked.
#[derive(Debug, Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
    /// Those that have been named, each of which may be so once.
    units: Vec<Unit>,
}

impl Sum {
    fn interval(&self) -> Result<Interval> {
        match (self.months.try_into(), self.days.try_into(), self.micros.try_into()) {
            (Ok(months), Ok(days), Ok(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(Fault::OutOfRange),
        }
    }

    /// Adds a number of a unit that there has been none of. A fraction goes on to shorter units, as in PostgreSQL:
    /// that of years to whole months, that of months and weeks to days and a time.
    fn add(&mut self, number: Number, unit: Unit) -> Result<()> {
        if self.units.contains(&unit) {
            return Err(Fault::Syntax);
        }
        self.units.push(unit);
        let Number { whole, fraction } = number;
        let times = |count: i128| whole.checked_mul(count).ok_or(Fault::OutOfRange);
        match unit {
            Unit::Years(count) => {
                self.months += integer((fraction * f64::from(count) * 12.0).round_ties_even());
                self.months += times(12 * i128::from(count))?;
            }
            Unit::Months => {
                self.add_days(fraction * 30.0);
                self.months += whole;
            }
            Unit::Weeks => {
                self.add_days(fraction * 7.0);
                self.days += times(7)?;
            }
            Unit::Days => {
                self.add_micros(fraction, MICROS_PER_DAY);
                self.days += whole;
            }
            Unit::Micros(micros) => {
                self.add_micros(fraction, micros);
                self.micros += times(micros.into())?;
            }
        }
        Ok(())
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
    /// The number at the start of a text, and the text after it.
    fn leading(text: &str) -> Result<(Self, &str)> {
        let (is_negative, digits) = signed(text);
        let (whole, rest) = leading_digits(digits);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(Fault::Syntax);
        }
        // More digits than fit anywhere are refused when they are added.
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_or(i128::from(u64::MAX), i128::from) };
        let fraction = format!("0.{fraction}").parse::<f64>().map_err(|_| Fault::Syntax)?;
        Ok((Self { whole, fraction }.negated_if(is_negative), rest))
    }

    /// A number that is written as digits alone.
    fn count(digits: &str) -> Result<Self> {
        let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let whole = is_count.then(|| digits.parse::<i64>().ok()).flatten().ok_or(Fault::Syntax)?;
        Ok(Self { whole: whole.into(), fraction: 0.0 })
    }

    fn negated_if(self, is_negative: bool) -> Self {
        if is_negative { Self { whole: -self.whole, fraction: -self.fraction } } else { self }
    }
}

/// Whether a text begins with a minus, and the text after its sign.
fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(behind) => (true, behind),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()))
}

/// Reads numbers with units, from right to left. A number without a unit is of `unit`, or else of seconds, at the end,
/// and of days in front of a time.
fn words(text: &str, unit: Option<Unit>, sum: &mut Sum) -> Result<()> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_ago = words.pop_if(|last| *last == "ago").is_some();
    if words.is_empty() {
        return Err(Fault::Syntax);
    }
    let mut beside = unit.or(Some(Unit::Micros(MICROS_PER_SECOND)));
    let mut is_named = false;
    for word in words.into_iter().rev() {
        if let Some(named) = Unit::named(word) {
            if is_named {
                return Err(Fault::Syntax);
            }
            (beside, is_named) = (Some(named), true);
            continue;
        }
        if word.contains(':') {
            time(word, sum)?;
            beside = Some(Unit::Days);
        } else if let Ok((years, months)) = years_and_months(word) {
            sum.add(years, Unit::Years(1))?;
            sum.add(months, Unit::Months)?;
        } else {
            let (number, behind) = Number::leading(word)?;
            let unit = match behind {
                "" => beside.take(),
                attached if !is_named => Unit::named(attached),
                _ => None,
            };
            sum.add(number, unit.ok_or(Fault::Syntax)?)?;
        }
        is_named = false;
    }
    if is_named {
        return Err(Fault::Syntax);
    }
    if is_ago {
        sum.negate();
    }
    Ok(())
}

/// `[-]years-months`.
fn years_and_months(word: &str) -> Result<(Number, Number)> {
    let (is_negative, digits) = signed(word);
    let (years, months) = digits.split_once('-').ok_or(Fault::Syntax)?;
    let (years, months) = (Number::count(years)?, Number::count(months)?);
    if months.whole > 11 {
        return Err(Fault::Syntax);
    }
    Ok((years.negated_if(is_negative), months.negated_if(is_negative)))
}

/// `[-]hours:minutes[:seconds[.fraction]]`.
fn time(word: &str, sum: &mut Sum) -> Result<()> {
    let (is_negative, digits) = signed(word);
    let parts: Vec<&str> = digits.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] if !seconds.starts_with(['-', '+']) => (*hours, *minutes, *seconds),
        _ => return Err(Fault::Syntax),
    };
    let (hours, minutes) = (Number::count(hours)?, Number::count(minutes)?);
    let (seconds, behind) = Number::leading(seconds)?;
    if minutes.whole > 59 || seconds.whole > 60 || !behind.is_empty() {
        return Err(Fault::Syntax);
    }
    sum.add(hours.negated_if(is_negative), Unit::Micros(MICROS_PER_HOUR))?;
    sum.add(minutes.negated_if(is_negative), Unit::Micros(MICROS_PER_MINUTE))?;
    sum.add(seconds.negated_if(is_negative), Unit::Micros(MICROS_PER_SECOND))
}

/// ISO 8601's form with designators, behind its `P`.
fn iso(text: &str, sum: &mut Sum) -> Result<()> {
    let mut rest = text;
    let mut is_time = false;
    if rest.is_empty() {
        return Err(Fault::Syntax);
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
        let mut behind = behind.chars();
        let unit = behind.next().and_then(|letter| Unit::designated(letter, is_time));
        sum.add(number, unit.ok_or(Fault::Syntax)?)?;
        rest = behind.as_str();
    }
    Ok(())
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
