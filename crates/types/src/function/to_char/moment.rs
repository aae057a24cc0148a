//! Timestamps and intervals as text.

use std::fmt::Write;

use super::super::moment::{Field, extract_whole};
use super::{Part, ordinal_ending, parts};
use crate::error::{Class, Result};
use crate::{Interval, MICROS_PER_DAY, MONTHS, WEEKDAYS, to_civil};

const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Characters to which names of months and days are padded.
const NAME_WIDTH: usize = 9;
/// The same of Roman months.
const ROMAN_WIDTH: usize = 4;
/// The Julian day of 1970-01-01.
const JULIAN_OF_1970: i64 = 2_440_588;

/// Which letters of a name are capitals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    First,
    Lower,
}

impl Case {
    fn of(self, name: &str) -> String {
        match self {
            Self::Upper => name.to_ascii_uppercase(),
            Self::First => name.to_owned(),
            Self::Lower => name.to_ascii_lowercase(),
        }
    }
}

/// Meaning of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// `FM`: without padding.
    Plain,
    /// `TM`: names without padding. `FX` says nothing about text that is written.
    Local,
    Exact,
    /// `TH` behind a number.
    Ordinal(Case),
    /// `SP`, which says nothing.
    Spelled,
    Hour12,
    Hour24,
    Minute,
    Second,
    /// Digits of a second's fraction.
    Fraction(u32),
    SecondOfDay,
    /// With points or without.
    Noon(Case, bool),
    Era(Case, bool),
    YearWithComma,
    /// The last digits of the year, or of the ISO year.
    Year(u32),
    IsoYear(u32),
    MonthName(Case),
    MonthShort(Case),
    MonthRoman(Case),
    Month,
    DayName(Case),
    DayShort(Case),
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    Century,
    Julian,
    Quarter,
    Zone,
    ZoneOffset,
    ZoneHour,
    ZoneMinute,
}

impl super::Keyword for Keyword {
    const NAMES: &'static [(&'static str, Self)] = {
        use Case::{First, Upper};
        use Keyword as K;
        &[
            ("A.D.", K::Era(Upper, true)),
            ("A.M.", K::Noon(Upper, true)),
            ("AD", K::Era(Upper, false)),
            ("AM", K::Noon(Upper, false)),
            ("B.C.", K::Era(Upper, true)),
            ("BC", K::Era(Upper, false)),
            ("CC", K::Century),
            ("DAY", K::DayName(Upper)),
            ("DDD", K::DayOfYear),
            ("DD", K::Day),
            ("DY", K::DayShort(Upper)),
            ("Day", K::DayName(First)),
            ("Dy", K::DayShort(First)),
            ("D", K::DayOfWeek),
            ("FF1", K::Fraction(1)),
            ("FF2", K::Fraction(2)),
            ("FF3", K::Fraction(3)),
            ("FF4", K::Fraction(4)),
            ("FF5", K::Fraction(5)),
            ("FF6", K::Fraction(6)),
            ("FM", K::Plain),
            ("FX", K::Exact),
            ("HH24", K::Hour24),
            ("HH12", K::Hour12),
            ("HH", K::Hour12),
            ("IDDD", K::IsoDayOfYear),
            ("ID", K::IsoDayOfWeek),
            ("IW", K::IsoWeek),
            ("IYYY", K::IsoYear(4)),
            ("IYY", K::IsoYear(3)),
            ("IY", K::IsoYear(2)),
            ("I", K::IsoYear(1)),
            ("J", K::Julian),
            ("MI", K::Minute),
            ("MM", K::Month),
            ("MONTH", K::MonthName(Upper)),
            ("MON", K::MonthShort(Upper)),
            ("MS", K::Fraction(3)),
            ("Month", K::MonthName(First)),
            ("Mon", K::MonthShort(First)),
            ("OF", K::ZoneOffset),
            ("P.M.", K::Noon(Upper, true)),
            ("PM", K::Noon(Upper, false)),
            ("Q", K::Quarter),
            ("RM", K::MonthRoman(Upper)),
            ("SSSSS", K::SecondOfDay),
            ("SSSS", K::SecondOfDay),
            ("SS", K::Second),
            ("SP", K::Spelled),
            ("TH", K::Ordinal(Upper)),
            ("TM", K::Local),
            ("TZH", K::ZoneHour),
            ("TZM", K::ZoneMinute),
            ("TZ", K::Zone),
            ("US", K::Fraction(6)),
            ("WW", K::WeekOfYear),
            ("W", K::WeekOfMonth),
            ("Y,YYY", K::YearWithComma),
            ("YYYY", K::Year(4)),
            ("YYY", K::Year(3)),
            ("YY", K::Year(2)),
            ("Y", K::Year(1)),
        ]
    };

    fn lowered(self) -> Self {
        match self {
            Self::Ordinal(_) => Self::Ordinal(Case::Lower),
            Self::Noon(_, has_points) => Self::Noon(Case::Lower, has_points),
            Self::Era(_, has_points) => Self::Era(Case::Lower, has_points),
            Self::MonthName(_) => Self::MonthName(Case::Lower),
            Self::MonthShort(_) => Self::MonthShort(Case::Lower),
            Self::MonthRoman(_) => Self::MonthRoman(Case::Lower),
            Self::DayName(_) => Self::DayName(Case::Lower),
            Self::DayShort(_) => Self::DayShort(Case::Lower),
            other => other,
        }
    }
}

/// The numbers that keywords write.
#[derive(Debug, Default)]
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: i64,
    /// Days since 1970; an interval has none.
    days: Option<i32>,
    /// Text of `TZ`.
    zone: &'static str,
}

/// A timestamp has no `zone`.
pub(super) fn format_timestamp(micros: i64, zone: &'static str, template: &str) -> Result<String> {
    let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| crate::out_of_range())?;
    let (year, month, day) = to_civil(days);
    let time = micros.rem_euclid(MICROS_PER_DAY);
    Parts {
        year: year.into(),
        month: month.into(),
        day: day.into(),
        day_of_year: extract_whole(Field::DayOfYear, micros)?,
        days: Some(days),
        zone,
        ..Parts::of_time(time)
    }
    .format(template)
}

pub(super) fn format_interval(span: Interval, template: &str) -> Result<String> {
    let Interval { months, days, micros } = span;
    Parts {
        year: (months / 12).into(),
        month: (months % 12).into(),
        day: days.into(),
        // A year is 360 days here.
        day_of_year: i64::from(months) * 30 + i64::from(days),
        days: None,
        ..Parts::of_time(micros)
    }
    .format(template)
}

impl Parts {
    fn of_time(micros: i64) -> Self {
        Self {
            hour: micros / 3_600_000_000,
            minute: micros / 60_000_000 % 60,
            second: micros / 1_000_000 % 60,
            micros: micros % 1_000_000,
            ..Self::default()
        }
    }

    fn format(&self, template: &str) -> Result<String> {
        let parts = parts(template);
        let mut out = String::new();
        let (mut is_plain, mut is_local) = (false, false);
        for (place, part) in parts.iter().enumerate() {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Keyword(Keyword::Plain) => is_plain = true,
                Part::Keyword(Keyword::Local) => is_local = true,
                Part::Keyword(Keyword::Exact | Keyword::Spelled) => {}
                Part::Keyword(Keyword::Ordinal(case)) => {
                    // Only valid after a number; elsewhere it stands for itself.
                    let is_of_number = place > 0
                        && matches!(parts.get(place - 1), Some(Part::Keyword(keyword)) if keyword.is_number());
                    let ending = if is_of_number { ordinal_ending(&out) } else { "th" };
                    out.push_str(&case.of(ending));
                }
                Part::Keyword(keyword) => {
                    self.write(&mut out, *keyword, is_plain, is_local)?;
                    (is_plain, is_local) = (false, false);
                }
            }
        }
        Ok(out)
    }

    fn write(&self, out: &mut String, keyword: Keyword, is_plain: bool, is_local: bool) -> Result<()> {
        use Keyword as K;
        // A sign is a digit more.
        let mut number = |number: i64, width: usize| {
            let width = if is_plain { 0 } else { width + usize::from(number < 0) };
            // A String takes all that is written.
            let _ = write!(out, "{number:0width$}");
        };
        let field = |field: Field| match self.days {
            Some(days) => extract_whole(field, i64::from(days) * MICROS_PER_DAY),
            None => Err(not_of_intervals()),
        };
        match keyword {
            K::Plain | K::Local | K::Exact | K::Spelled | K::Ordinal(_) => {}
            K::Hour12 => number(if self.hour % 12 == 0 { 12 } else { self.hour % 12 }, 2),
            K::Hour24 => number(self.hour, 2),
            K::Minute => number(self.minute, 2),
            K::Second => number(self.second, 2),
            K::Fraction(digits) => {
                let fraction = self.micros / 10_i64.pow(6 - digits);
                let width = digits as usize + usize::from(fraction < 0);
                let _ = write!(out, "{fraction:0width$}");
            }
            K::SecondOfDay => {
                let _ = write!(out, "{}", self.hour * 3600 + self.minute * 60 + self.second);
            }
            K::Noon(case, has_points) => {
                let is_morning = self.hour.rem_euclid(24) < 12;
                out.push_str(&case.of(match (is_morning, has_points) {
                    (true, false) => "AM",
                    (false, false) => "PM",
                    (true, true) => "A.M.",
                    (false, true) => "P.M.",
                }));
            }
            // All years are of our era.
            K::Era(case, has_points) => {
                field(Field::Year)?;
                out.push_str(&case.of(if has_points { "A.D." } else { "AD" }));
            }
            K::YearWithComma => {
                let _ = write!(out, "{},{:03}", self.year / 1000, self.year % 1000);
            }
            K::Year(digits) => number(last_digits(self.year, digits), digits as usize),
            K::IsoYear(digits) => {
                let year = if self.days.is_some() { field(Field::IsoYear)? } else { self.year };
                number(last_digits(year, digits), digits as usize);
            }
            K::MonthName(case) => {
                let name = case.of(month_name(field(Field::Month)?, &MONTHS));
                let width = if is_plain || is_local { 0 } else { NAME_WIDTH };
                let _ = write!(out, "{name:width$}");
            }
            K::MonthShort(case) => {
                let name = case.of(month_name(field(Field::Month)?, &MONTHS));
                out.push_str(name.get(..3).unwrap_or(&name));
            }
            // Of an interval without months, none.
            K::MonthRoman(case) => {
                if self.month != 0 || self.year != 0 {
                    // Those of negative intervals count from the end of the year.
                    let month = match self.month {
                        0 if self.year < 0 => 1,
                        month @ ..=0 => month + 12 + i64::from(month != 0),
                        month => month,
                    };
                    let name = case.of(month_name(month, &ROMAN_MONTHS));
                    let width = if is_plain { 0 } else { ROMAN_WIDTH };
                    let _ = write!(out, "{name:width$}");
                }
            }
            K::Month => number(self.month, 2),
            K::DayName(case) => {
                let name = case.of(day_name(field(Field::DayOfWeek)?));
                let width = if is_plain || is_local { 0 } else { NAME_WIDTH };
                let _ = write!(out, "{name:width$}");
            }
            K::DayShort(case) => {
                let name = case.of(day_name(field(Field::DayOfWeek)?));
                out.push_str(name.get(..3).unwrap_or(&name));
            }
            K::DayOfYear => number(self.day_of_year, 3),
            K::IsoDayOfYear => {
                let (week, day) = (field(Field::Week)?, field(Field::IsoDayOfWeek)?);
                number((week - 1) * 7 + day, 3);
            }
            K::Day => number(self.day, 2),
            K::DayOfWeek => number(field(Field::DayOfWeek)? + 1, 0),
            K::IsoDayOfWeek => number(field(Field::IsoDayOfWeek)?, 0),
            K::WeekOfMonth => number((self.day - 1) / 7 + 1, 0),
            K::WeekOfYear => number((self.day_of_year - 1) / 7 + 1, 2),
            K::IsoWeek => number(field(Field::Week)?, 2),
            K::Century => {
                let century = if self.days.is_some() { field(Field::Century)? } else { self.year / 100 };
                number(century, 2);
            }
            K::Julian => {
                let days = self.days.map_or_else(
                    || julian_of_interval(self.year, self.month, self.day),
                    |days| i64::from(days) + JULIAN_OF_1970,
                );
                number(days, 0);
            }
            K::Quarter if self.month == 0 => {}
            K::Quarter => number((self.month - 1) / 3 + 1, 0),
            K::Zone => {
                field(Field::Year)?;
                out.push_str(self.zone);
            }
            K::ZoneOffset | K::ZoneHour => {
                field(Field::Year)?;
                out.push_str("+00");
            }
            K::ZoneMinute => {
                field(Field::Year)?;
                out.push_str("00");
            }
        }
        Ok(())
    }
}

impl Keyword {
    /// Whether an ordinal's ending may follow.
    const fn is_number(self) -> bool {
        !matches!(
            self,
            Self::Plain
                | Self::Local
                | Self::Exact
                | Self::Spelled
                | Self::Ordinal(_)
                | Self::Noon(..)
                | Self::Era(..)
                | Self::MonthName(_)
                | Self::MonthShort(_)
                | Self::MonthRoman(_)
                | Self::DayName(_)
                | Self::DayShort(_)
                | Self::Zone
                | Self::ZoneOffset
                | Self::ZoneHour
                | Self::ZoneMinute
        )
    }
}

fn last_digits(year: i64, digits: u32) -> i64 {
    if digits < 4 { year % 10_i64.pow(digits) } else { year }
}

fn month_name(month: i64, names: &[&'static str; 12]) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|place| names.get(place)).copied().unwrap_or_default()
}

fn day_name(day: i64) -> &'static str {
    usize::try_from(day).ok().and_then(|place| WEEKDAYS.get(place)).copied().unwrap_or_default()
}

/// The Julian day of the year, month and day that an interval has, as PostgreSQL computes it.
fn julian_of_interval(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year + 4800, month + 1) } else { (year + 4799, month + 13) };
    let century = year / 100;
    year * 365 - 32167 + year / 4 - century + century / 4 + 7834 * month / 256 + day
}

fn not_of_intervals() -> crate::Error {
    Class::InvalidDatetime.error("invalid format specification for an interval value")
}
