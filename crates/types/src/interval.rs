//! Spans of time.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::calendar::{format_time, in_years, timestamp_out_of_range};
use crate::error::{Class, Error, Result};
use crate::interval_text::parse;
use crate::{MICROS_PER_DAY, days_in_month, division_by_zero, from_civil, to_civil};

/// Days of a month where months and days are compared or multiplied.
const DAYS_PER_MONTH: i32 = 30;

/// Months, days and microseconds, each with a sign of its own: how long a month or a day is depends on the moment to
/// which it is added.
///
/// Equality, order and hash take a month for 30 days and a day for 24 hours.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interval {
    /// Years are twelve of them.
    pub months: i32,
    /// Weeks are seven of them.
    pub days: i32,
    /// Microseconds: the part that is shorter than a day, or was written in hours.
    pub micros: i64,
}

impl Interval {
    /// The interval that text says: pairs of a number and a unit (`1 year 2 days`), a time (`04:05:06.789`), years and
    /// months (`1-2`), or ISO 8601's form (`P1Y2DT4H`). A number without a unit is of `unit`.
    ///
    /// # Errors
    /// If the text is not an interval: SQLSTATE 22007; if a part of it is out of range: 22008.
    pub fn parse(text: &str, unit: Option<&str>) -> Result<Self> {
        parse(text, unit)
    }

    /// The form in which rows and the log hold it: months, days, microseconds.
    pub fn to_le_bytes(self) -> [u8; 16] {
        let parts = u128::from(self.months.cast_unsigned())
            | u128::from(self.days.cast_unsigned()) << 32
            | u128::from(self.micros.cast_unsigned()) << 64;
        parts.to_le_bytes()
    }

    /// Reads the bytes of [`Interval::to_le_bytes`].
    pub fn from_le_bytes(bytes: [u8; 16]) -> Self {
        let [m0, m1, m2, m3, d0, d1, d2, d3, micros @ ..] = bytes;
        Self {
            months: i32::from_le_bytes([m0, m1, m2, m3]),
            days: i32::from_le_bytes([d0, d1, d2, d3]),
            micros: i64::from_le_bytes(micros),
        }
    }

    /// Microseconds, by which intervals compare.
    pub fn length(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    /// The interval with the opposite sign.
    ///
    /// # Errors
    /// If a part is out of range.
    pub fn negated(self) -> Result<Self> {
        Self::default().minus(self)
    }

    /// The sum.
    ///
    /// # Errors
    /// If a part is out of range.
    pub fn plus(self, other: Self) -> Result<Self> {
        Self::of_parts(
            self.months.checked_add(other.months),
            self.days.checked_add(other.days),
            self.micros.checked_add(other.micros),
        )
    }

    /// The difference.
    ///
    /// # Errors
    /// If a part is out of range.
    pub fn minus(self, other: Self) -> Result<Self> {
        Self::of_parts(
            self.months.checked_sub(other.months),
            self.days.checked_sub(other.days),
            self.micros.checked_sub(other.micros),
        )
    }

    fn of_parts(months: Option<i32>, days: Option<i32>, micros: Option<i64>) -> Result<Self> {
        match (months, days, micros) {
            (Some(months), Some(days), Some(micros)) => Ok(Self { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// The product. Fractions of months become days, and those of days a time.
    ///
    /// # Errors
    /// If a part is out of range.
    pub fn times(self, factor: f64) -> Result<Self> {
        self.scaled(|part| part * factor)
    }

    /// The quotient, as [`Interval::times`].
    ///
    /// # Errors
    /// If the divisor is zero, or a part is out of range.
    pub fn over(self, divisor: f64) -> Result<Self> {
        if divisor == 0.0 {
            return Err(division_by_zero());
        }
        self.scaled(|part| part / divisor)
    }

    /// Scales like PostgreSQL, which rounds the remainders of months and days to microseconds before it goes on.
    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Self> {
        const SECONDS_PER_DAY: f64 = 86_400.0;
        let rounded = |number: f64| (number * 1e6).round_ties_even() / 1e6;
        let (months, days) = (scale(self.months.into()), scale(self.days.into()));
        let (whole_months, mut whole_days) = (whole(months)?, whole(days)?);
        let days_of_months = rounded((months - f64::from(whole_months)) * f64::from(DAYS_PER_MONTH));
        let mut seconds =
            rounded((days - f64::from(whole_days) + days_of_months - days_of_months.trunc()) * SECONDS_PER_DAY);
        if seconds.abs() >= SECONDS_PER_DAY {
            let more = (seconds / SECONDS_PER_DAY).trunc();
            whole_days = whole_days.checked_add(whole(more)?).ok_or_else(out_of_range)?;
            seconds -= more * SECONDS_PER_DAY;
        }
        let days = whole_days.checked_add(whole(days_of_months)?).ok_or_else(out_of_range)?;
        #[expect(clippy::cast_precision_loss, reason = "PostgreSQL multiplies doubles")]
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        // 2^63 is the first float that does not fit; -2^63 does.
        if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&micros) {
            return Err(out_of_range());
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
        Ok(Self { months: whole_months, days, micros: micros as i64 })
    }

    /// From one timestamp to another one: days and a time.
    ///
    /// # Errors
    /// None for timestamps of the years 1 to 9999.
    pub fn between(from: i64, to: i64) -> Result<Self> {
        let micros = to.checked_sub(from).ok_or_else(out_of_range)?;
        let days = i32::try_from(micros / MICROS_PER_DAY).map_err(|_| out_of_range())?;
        Ok(Self { months: 0, days, micros: micros % MICROS_PER_DAY })
    }

    /// A timestamp that is this much later. Months come first, where the day is cut to the month's last; then days;
    /// then the time.
    ///
    /// # Errors
    /// If it is not in the years 1 to 9999: SQLSTATE 22008.
    pub fn after(self, timestamp: i64) -> Result<i64> {
        let day = i32::try_from(timestamp.div_euclid(MICROS_PER_DAY)).map_err(|_| timestamp_out_of_range())?;
        let (year, month, day_of_month) = to_civil(day);
        let total = i64::from(year) * 12 + i64::from(month) - 1 + i64::from(self.months);
        let year = i32::try_from(total.div_euclid(12)).map_err(|_| timestamp_out_of_range())?;
        let month = u32::try_from(total.rem_euclid(12) + 1).map_err(|_| timestamp_out_of_range())?;
        let last = days_in_month(year, month).ok_or_else(timestamp_out_of_range)?;
        let day = i64::from(from_civil(year, month, day_of_month.min(last)).ok_or_else(timestamp_out_of_range)?);
        let moved = (day + i64::from(self.days))
            .checked_mul(MICROS_PER_DAY)
            .and_then(|start| start.checked_add(timestamp.rem_euclid(MICROS_PER_DAY)))
            .and_then(|moved| moved.checked_add(self.micros))
            .ok_or_else(timestamp_out_of_range)?;
        in_years(moved)
    }
}

fn whole(number: f64) -> Result<i32> {
    let number = number.trunc();
    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
        return Err(out_of_range());
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
    Ok(number as i32)
}

pub(crate) fn out_of_range() -> Error {
    Class::DatetimeOverflow.error("interval out of range")
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.length() == other.length()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.length().cmp(&other.length())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.length().hash(state);
    }
}

/// As PostgreSQL by default: `1 year 2 mons -3 days +04:05:06.789`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<i32> = None;
        for (count, unit) in [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")] {
            if count == 0 {
                continue;
            }
            let space = if before.is_some() { " " } else { "" };
            let sign = if count > 0 && before.is_some_and(i32::is_negative) { "+" } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{space}{sign}{count} {unit}{plural}")?;
            before = Some(count);
        }
        if self.micros == 0 && before.is_some() {
            return Ok(());
        }
        let space = if before.is_some() { " " } else { "" };
        let sign = match before {
            _ if self.micros < 0 => "-",
            Some(before) if before < 0 => "+",
            _ => "",
        };
        f.write_str(space)?;
        f.write_str(sign)?;
        format_time(f, self.micros.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Interval {
        Interval::parse(text, None).unwrap()
    }

    #[test]
    fn arithmetic_and_text() {
        for (found, expected) in [
            (of("1 month").times(1.5), "1 mon 15 days"),
            (of("1 month").over(4.0), "7 days 12:00:00"),
            (of("1 day").times(-0.5), "-12:00:00"),
            (of("1 year 2 months 3 days 04:05:06.789").times(1.0), "1 year 2 mons 3 days 04:05:06.789"),
            (of("-1 month 2 hours").plus(of("3 days")), "-1 mons +3 days 02:00:00"),
            (of("0 days").negated(), "00:00:00"),
            (of("-1 day").minus(of("1 second")), "-1 days -00:00:01"),
            (Interval::between(90_000_000_000, 0), "-1 days -01:00:00"),
        ] {
            assert_eq!(found.unwrap().to_string(), expected);
        }
        let parts = of("-1 month 2 days -3 seconds");
        assert_eq!(Interval::from_le_bytes(parts.to_le_bytes()).to_string(), parts.to_string());
        assert_eq!(of("1 month"), of("30 days"));
        assert!(of("1 day") < of("25 hours"));
        for wrong in [of("1 day").over(0.0), of("2000000000 months").times(2.0), of("1 day").times(f64::NAN)] {
            assert!(["22012", "22008"].contains(&wrong.unwrap_err().sqlstate()));
        }
    }
}
