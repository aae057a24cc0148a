//! Numbers of documents, as PostgreSQL's NUMERIC writes them: without an exponent, with up to 131 072 digits before the
//! point and 16 383 behind it.

use crate::error::{Class, Error, Result};

/// Maximum digits of a NUMERIC before the point.
const WHOLE_DIGITS_MAX: i64 = 131_072;
/// Digits behind it.
const SCALE_MAX: i64 = 16_383;
/// No exponent is larger.
const EXPONENT_MAX: i64 = i32::MAX as i64 / 2;

/// Appends a number of JSON's grammar as PostgreSQL writes it.
///
/// # Errors
/// If it has more digits than a NUMERIC: SQLSTATE 22003.
pub(super) fn put(out: &mut String, number: &str) -> Result<()> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        // An exponent beyond 64 bits is too large in any case.
        Some((mantissa, exponent)) => {
            let is_negative = exponent.starts_with('-');
            (mantissa, exponent.parse().unwrap_or(if is_negative { i64::MIN } else { i64::MAX }))
        }
        None => (number, 0),
    };
    if !(1 - EXPONENT_MAX..EXPONENT_MAX).contains(&exponent) {
        return Err(overflow());
    }
    let (is_negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let length = |digits: &str| i64::try_from(digits.len()).unwrap_or(i64::MAX);
    // Places of the digits of both, of which the point is in front of one.
    let point = length(whole).saturating_add(exponent);
    let scale = length(fraction).saturating_sub(exponent).max(0);
    let digit = |place: i64| -> char {
        let place = usize::try_from(place).ok();
        let found = place.and_then(|place| match place.checked_sub(whole.len()) {
            None => whole.as_bytes().get(place),
            Some(place) => fraction.as_bytes().get(place),
        });
        found.map_or('0', |digit| char::from(*digit))
    };
    let first = whole.bytes().chain(fraction.bytes()).position(|digit| digit != b'0');
    let first = first.map_or(point, |first| i64::try_from(first).unwrap_or(i64::MAX));
    if scale > SCALE_MAX || point.saturating_sub(first) > WHOLE_DIGITS_MAX {
        return Err(overflow());
    }
    let is_zero = first == point && digit(point) == '0';
    if is_negative && !is_zero {
        out.push('-');
    }
    if first < point {
        out.extend((first..point).map(digit));
    } else {
        out.push('0');
    }
    if scale > 0 {
        out.push('.');
        out.extend((point..point + scale).map(digit));
    }
    Ok(())
}

#[cold]
fn overflow() -> Error {
    Class::OutOfRange.error("value overflows numeric format")
}

/// Appends bytes that compare like the numbers and are not a prefix of another number's.
///
/// ```text
/// 02                                  0
/// 03 exponent digits 00               positive: places in front of the point, and digits up to the last that is not 0
/// 01 (exponent digits 00) inverted    negative
/// ```
pub(super) fn put_key(out: &mut Vec<u8>, number: &str) {
    let (is_negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_not_zero = |digit: &u8| *digit != b'0';
    let mut significant = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0').peekable();
    if significant.peek().is_none() {
        out.push(2);
        return;
    }
    let places = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let exponent = match whole.bytes().position(|digit| is_not_zero(&digit)) {
        Some(zeros) => places(whole.len() - zeros),
        None => -places(fraction.bytes().take_while(|digit| *digit == b'0').count()),
    };
    out.push(if is_negative { 1 } else { 3 });
    let start = out.len();
    out.extend_from_slice(&(exponent ^ i32::MIN).to_be_bytes());
    let digits = out.len();
    out.extend(significant);
    while out.len() > digits && out.last() == Some(&b'0') {
        out.pop();
    }
    out.push(0);
    if is_negative {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: &str) -> String {
        let mut out = String::new();
        put(&mut out, number).unwrap();
        out
    }

    #[test]
    fn numbers_are_written_as_numerics() {
        for (number, text) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("1.50", "1.50"),
            ("1e5", "100000"),
            ("1.5e1", "15"),
            ("1.25e1", "12.5"),
            ("-1E-5", "-0.00001"),
            ("0e5", "0"),
            ("0e-3", "0.000"),
            ("10.0e-1", "1.00"),
            ("0.001e2", "0.1"),
            ("0.001e3", "1"),
            ("120e+3", "120000"),
            ("0e1000000", "0"),
        ] {
            assert_eq!(written(number), text, "{number}");
        }
        assert_eq!(written("1e131071").len(), 131_072);
        assert_eq!(written("1e-16383").len(), 16_385);
        for number in ["1e131072", "1e-16384", "0e-16384", "1e9999999999999999999999", "0e1073741824", "-1e-9999999999"]
        {
            assert_eq!(put(&mut String::new(), number).unwrap_err().sqlstate(), "22003", "{number}");
        }
    }

    #[test]
    fn keys_compare_as_numbers() {
        let key = |number: &str| {
            let mut out = vec![];
            put_key(&mut out, number);
            out
        };
        let ascending = [
            "-100", "-10.1", "-10", "-9.99", "-1", "-0.1", "-0.01", "0", "0.001", "0.0011", "0.1", "0.11", "1", "1.5",
            "10", "99", "100",
        ];
        let keys: Vec<_> = ascending.map(key).into();
        assert!(keys.is_sorted_by(|one, other| one < other));
        for (one, other) in [("1", "1.00"), ("10", "10.0"), ("0", "0.00"), ("-2.5", "-2.500")] {
            assert_eq!(key(one), key(other));
        }
    }
}
