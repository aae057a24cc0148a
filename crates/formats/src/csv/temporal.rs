//! Dates, times and timestamps from text, without allocation.

use super::number::trim;

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Days since 1970-01-01 of `YYYY-MM-DD` (proleptic Gregorian calendar).
#[inline]
pub fn date(text: &[u8; 10]) -> Option<i32> {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else {
        return None;
    };
    let year = two_digits(y0, y1)? * 100 + two_digits(y2, y3)?;
    days_since_epoch(year, two_digits(m0, m1)?, two_digits(d0, d1)?)
}

/// [`date`] with white space around it allowed.
pub fn trimmed_date(text: &[u8]) -> Option<i32> {
    date(trim(text).try_into().ok()?)
}

#[inline(always)]
fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    let tens = tens.wrapping_sub(b'0');
    let ones = ones.wrapping_sub(b'0');
    (tens <= 9 && ones <= 9).then(|| u32::from(tens) * 10 + u32::from(ones))
}

/// Counts from March on, so that the leap day is the last one of its year.
#[inline]
fn days_since_epoch(year: u32, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    // One era of 400 years earlier, so that no operand is negative.
    let year = year + 400 - u32::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    // 1970-01-01 counted the same way.
    const EPOCH: i32 = 719_468 + 146_097;
    Some(days.cast_signed() - EPOCH)
}

#[inline]
fn days_in_month(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A time of day at full resolution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TimeOfDay {
    pub(super) seconds: u32,
    pub(super) nanos: u32,
}

impl TimeOfDay {
    /// Units since midnight, cut off.
    pub(super) fn in_units(self, units_per_second: u32) -> i64 {
        i64::from(self.seconds) * i64::from(units_per_second)
            + i64::from(self.nanos / (NANOS_PER_SECOND / units_per_second))
    }
}

/// `HH:MM[:SS[.fraction]]` with white space around it allowed.
pub fn trimmed_time(text: &[u8]) -> Option<TimeOfDay> {
    match split_time(trim(text))? {
        (time, []) => Some(time),
        _ => None,
    }
}

/// The time at the start of `text`, and what follows it.
fn split_time(text: &[u8]) -> Option<(TimeOfDay, &[u8])> {
    let [h0, h1, b':', m0, m1, rest @ ..] = text else {
        return None;
    };
    let hours = two_digits(*h0, *h1)?;
    let minutes = two_digits(*m0, *m1)?;
    let (seconds, nanos, rest) = match rest {
        [b':', s0, s1, b'.', rest @ ..] => {
            let seconds = two_digits(*s0, *s1)?;
            let (nanos, rest) = split_fraction(rest)?;
            (seconds, nanos, rest)
        }
        [b':', s0, s1, rest @ ..] => (two_digits(*s0, *s1)?, 0, rest),
        rest => (0, 0, rest),
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = (hours * 60 + minutes) * 60 + seconds;
    Some((TimeOfDay { seconds, nanos }, rest))
}

/// At most nine digits as nanoseconds, and what follows them.
fn split_fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if count > 9 {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanos = padded.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
    Some((nanos, rest))
}

/// How the text of a timestamp column relates to UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// The type has no zone: `Z` may be written and changes nothing.
    None,
    /// The type has a zone this many seconds east of UTC: text without a zone
    /// is local time there.
    Offset(i32),
}

impl Zone {
    /// The zone of a timestamp type; `None` for named zones other than UTC,
    /// whose rules this reader does not know.
    pub(super) fn of_type(name: Option<&str>) -> Option<Self> {
        match name {
            None => Some(Self::None),
            Some("UTC" | "Etc/UTC" | "utc" | "Z") => Some(Self::Offset(0)),
            Some(offset) => match split_zone(offset.as_bytes())? {
                (seconds, []) => Some(Self::Offset(seconds)),
                _ => None,
            },
        }
    }
}

/// Units since the epoch of a timestamp.
#[inline]
pub fn timestamp(text: &[u8], units_per_second: u32, zone: Zone) -> Option<i64> {
    let (day, rest) = text.split_first_chunk::<10>()?;
    let day = date(day)?;
    let (time, rest) = match rest {
        [] => (TimeOfDay::default(), rest),
        [b' ' | b'T', rest @ ..] => split_time(rest)?,
        _ => return None,
    };
    let east = match (zone, rest) {
        (Zone::None, [] | [b'Z']) => 0,
        (Zone::None, _) => return None,
        (Zone::Offset(east), []) => east,
        (Zone::Offset(_), [b'Z']) => 0,
        (Zone::Offset(_), rest) => match split_zone(rest)? {
            (east, []) => east,
            _ => return None,
        },
    };
    let seconds = i64::from(day) * SECONDS_PER_DAY - i64::from(east);
    seconds.checked_mul(i64::from(units_per_second))?.checked_add(time.in_units(units_per_second))
}

/// [`timestamp`] with white space around it allowed.
pub fn trimmed_timestamp(text: &[u8], units_per_second: u32, zone: Zone) -> Option<i64> {
    timestamp(trim(text), units_per_second, zone)
}

/// Seconds east of UTC of `±HH`, `±HHMM` or `±HH:MM`, and what follows.
fn split_zone(text: &[u8]) -> Option<(i32, &[u8])> {
    let [sign @ (b'+' | b'-'), h0, h1, rest @ ..] = text else {
        return None;
    };
    let hours = two_digits(*h0, *h1)?;
    let (minutes, rest) = match rest {
        [b':', m0, m1, rest @ ..] | [m0, m1, rest @ ..] => (two_digits(*m0, *m1)?, rest),
        rest => (0, rest),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = ((hours * 60 + minutes) * 60).cast_signed();
    Some((if *sign == b'-' { -seconds } else { seconds }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::temporal_conversions::date32_to_datetime;

    #[test]
    fn every_day_of_ten_thousand_years() {
        let days = trimmed_date(b"0000-01-01").unwrap()..=trimmed_date(b"9999-12-31").unwrap();
        for day in days {
            let text = date32_to_datetime(day).unwrap().format("%Y-%m-%d").to_string();
            assert_eq!(trimmed_date(text.as_bytes()), Some(day), "{text}");
        }
    }

    #[test]
    fn impossible_dates() {
        for text in [
            "2020-02-30",
            "2021-02-29",
            "1900-02-29",
            "2020-13-01",
            "2020-00-01",
            "2020-01-00",
            "2020/01/02",
            "2020-1-2",
            "20200102",
            "12020-01-02",
            "2020-01-02x",
            "",
            "-020-01-02",
        ] {
            assert_eq!(trimmed_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn times() {
        let read = |text: &str| trimmed_time(text.as_bytes()).map(|t| t.in_units(1_000_000));
        assert_eq!(read("03:04"), Some(11_040_000_000));
        assert_eq!(read(" 03:04:05 "), Some(11_045_000_000));
        assert_eq!(read("03:04:05."), Some(11_045_000_000));
        assert_eq!(read("03:04:05.1234567"), Some(11_045_123_456));
        for text in ["3:04", "03", "24:00:00", "23:60:00", "23:59:60", "03:04:05.1234567890", "03:04Z"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_and_zones() {
        let utc = Zone::of_type(Some("UTC")).unwrap();
        let east = Zone::of_type(Some("+02:00")).unwrap();
        let read = |text: &str, zone| trimmed_timestamp(text.as_bytes(), 1, zone);
        for text in ["2020-01-02 03:04:05", "2020-01-02T03:04:05Z", " 2020-01-02 03:04:05.9 "] {
            assert_eq!(read(text, Zone::None), Some(1_577_934_245), "{text}");
            assert_eq!(read(text, utc), Some(1_577_934_245), "{text}");
        }
        assert_eq!(read("2020-01-02 03:04:05", east), Some(1_577_927_045));
        assert_eq!(read("2020-01-02 03:04:05Z", east), Some(1_577_934_245));
        assert_eq!(read("2020-01-02 03:04:05-0130", utc), Some(1_577_939_645));
        assert_eq!(read("2020-01-02", utc), Some(1_577_923_200));
        for text in ["2020-01-02 03:04:05+02", "2020-01-02 ", "2020-01-02x03:04", "2020-01-02T"] {
            assert_eq!(read(text, Zone::None).is_some(), text.ends_with(' '), "{text}");
        }
        assert_eq!(Zone::of_type(Some("Europe/Berlin")), None);
    }

    #[test]
    fn nanoseconds_end_in_2262() {
        let read = |text: &str| trimmed_timestamp(text.as_bytes(), NANOS_PER_SECOND, Zone::None);
        assert_eq!(read("1969-12-31 23:59:59.999999999"), Some(-1));
        assert_eq!(read("2262-04-11 23:47:16.854775807"), Some(i64::MAX));
        assert_eq!(read("2262-04-11 23:47:16.854775808"), None);
        assert_eq!(read("9999-01-01"), None);
    }
}
