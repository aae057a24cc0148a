//! Numbers from text, without allocation.
//!
//! Every parser has a fast path for what nearly all fields are (a few digits, perhaps a sign and a point), done on
//! whole words, and an exact path for all the rest. A fast path returns `None` for everything that it does not handle.

use arrow::array::ArrowNativeTypeOp;

const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// `text` without ASCII white space around it, as DuckDB reads numbers.
pub fn trim(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !is_space(b)).map_or(start, |at| at + 1);
    text.get(start..end).unwrap_or_default()
}

/// Eight bytes from `start` on, the first in the lowest byte.
#[inline(always)]
fn load8(data: &[u8], start: usize) -> Option<u64> {
    data.get(start..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The number whose eight decimal digits are the bytes of `text`, the first
/// digit in the lowest byte; `None` unless all are digits. `text` has been
/// XORed with [`ASCII_ZEROS`], so that shifted-in zero bytes are leading zeros.
#[inline(always)]
fn eight_digits(text: u64) -> Option<u64> {
    // A byte above 9 reaches 0x80 after adding 0x76; carries only follow such.
    if (text.wrapping_add(0x7676_7676_7676_7676) | text) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Pairs of digits, pairs of pairs, and the two halves.
    let pairs = text.wrapping_mul(10).wrapping_add(text >> 8) & 0x00FF_00FF_00FF_00FF;
    let quads = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    Some(quads.wrapping_mul(10_000).wrapping_add(quads >> 32) & 0xFFFF_FFFF)
}

/// The first `len` <= 8 bytes from `start` on, which must be digits.
#[inline(always)]
fn up_to_eight_digits(data: &[u8], start: usize, len: usize) -> Option<u64> {
    let text = load8(data, start)? ^ ASCII_ZEROS;
    if len.wrapping_sub(1) >= 8 {
        return None;
    }
    eight_digits(text << (64 - 8 * len))
}

/// Fast path: an optional minus, then 1 to 16 digits.
#[inline(always)]
pub(super) fn fast_integer(data: &[u8], start: usize, len: usize) -> Option<i64> {
    match up_to_eight_digits(data, start, len) {
        Some(value) => Some(value.cast_signed()),
        None => fast_long_integer(data, start, len),
    }
}

/// The rest of [`fast_integer`], apart to keep the loops around that short.
#[inline(never)]
fn fast_long_integer(data: &[u8], start: usize, len: usize) -> Option<i64> {
    let negative = data.get(start) == Some(&b'-');
    let start = start + usize::from(negative);
    let len = len.wrapping_sub(usize::from(negative));
    let value = if len <= 8 {
        up_to_eight_digits(data, start, len)?
    } else {
        let head = up_to_eight_digits(data, start, len - 8)?;
        let tail = up_to_eight_digits(data, start + len - 8, 8)?;
        head * 100_000_000 + tail
    };
    let value = value.cast_signed();
    Some(if negative { -value } else { value })
}

/// An integer that fits 64 bits, signed or unsigned, white space around it
/// allowed.
pub fn integer(text: &[u8]) -> Option<i128> {
    let (negative, digits) = split_sign(trim(text));
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    let value = i128::from(value);
    Some(if negative { -value } else { value })
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// A number as written: `digits` without the point, `fraction` of them behind
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) negative: bool,
    pub(super) digits: u64,
    pub(super) fraction: u32,
}

/// Fast path: an optional minus, then 1 to 16 characters of digits with at
/// most one point.
#[inline(always)]
pub(super) fn fast_written(data: &[u8], start: usize, len: usize) -> Option<Written> {
    let negative = data.get(start) == Some(&b'-');
    let start = start + usize::from(negative);
    let len = len.wrapping_sub(usize::from(negative));
    let (digits, fraction) = if len <= 8 { short_written(data, start, len)? } else { long_written(data, start, len)? };
    Some(Written { negative, digits, fraction })
}

/// Where the first point of `text` is, as a shift in bits; 64 or more if there
/// is none.
#[inline(always)]
fn point_shift(text: u64) -> u32 {
    let differing = text ^ 0x2E2E_2E2E_2E2E_2E2E;
    let zero = differing.wrapping_sub(0x0101_0101_0101_0101) & !differing & 0x8080_8080_8080_8080;
    zero.trailing_zeros() & !7
}

/// Up to 8 characters: closes the gap that the point leaves, then reads digits.
#[inline(always)]
fn short_written(data: &[u8], start: usize, len: usize) -> Option<(u64, u32)> {
    if len.wrapping_sub(1) >= 8 {
        return None;
    }
    let unused = 64 - 8 * len as u32;
    // Drops what follows the field, so that no point there is found.
    let text = (load8(data, start)? << unused) >> unused;
    let point = point_shift(text);
    if point >= 64 {
        return Some((eight_digits((text ^ ASCII_ZEROS) << unused)?, 0));
    }
    if len == 1 {
        return None;
    }
    let before = text & ((1 << point) - 1);
    let after = (text >> 8 >> point) << point;
    let digits = eight_digits(((before | after) ^ ASCII_ZEROS) << (unused + 8))?;
    Some((digits, len as u32 - 1 - point / 8))
}

/// 9 to 16 characters, as two overlapping words.
#[inline(always)]
fn long_written(data: &[u8], start: usize, len: usize) -> Option<(u64, u32)> {
    if len > 16 {
        return None;
    }
    let low = load8(data, start)?;
    let high = load8(data, start + len - 8)?;
    let head_len = len - 8;
    let head_unused = 64 - 8 * head_len as u32;
    // All 16 characters, right-aligned: `head` ends where `high` begins.
    let head = (low << head_unused) >> head_unused;
    let in_head = point_shift(head);
    let in_high = point_shift(high);
    let (head, tail, fraction) = if in_head < 64 {
        let before = head & ((1 << in_head) - 1);
        let after = (head >> 8 >> in_head) << in_head;
        // One character fewer in the head.
        let closed = (before | after) ^ ASCII_ZEROS;
        let head = if head_len == 1 { 0 } else { closed << (head_unused + 8) };
        (head, high ^ ASCII_ZEROS, len as u32 - 1 - in_head / 8)
    } else if in_high < 64 {
        // The characters before the point move up over it; the last one of
        // the head moves in behind them.
        let before = (high & ((1 << in_high) - 1)) << 8;
        let after = (high >> 8 >> in_high) << 8 << in_high;
        let moved = head >> (8 * (head_len - 1));
        let head = ((head ^ ASCII_ZEROS) << head_unused) << 8;
        (head, (before | after | moved) ^ ASCII_ZEROS, 7 - in_high / 8)
    } else {
        ((head ^ ASCII_ZEROS) << head_unused, high ^ ASCII_ZEROS, 0)
    };
    Some((eight_digits(head)? * 100_000_000 + eight_digits(tail)?, fraction))
}

/// Powers of ten that a double holds exactly.
const POWERS_F64: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Powers of ten that a float holds exactly.
const POWERS_F32: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// Fast path, exactly rounded: digits and power of ten are both exact, so the
/// one division rounds once.
#[inline(always)]
pub(super) fn fast_f64(data: &[u8], start: usize, len: usize) -> Option<f64> {
    let written = fast_written(data, start, len)?;
    if written.digits > 1 << f64::MANTISSA_DIGITS {
        return None;
    }
    let value = written.digits as f64 / POWERS_F64.get(written.fraction as usize)?;
    Some(if written.negative { -value } else { value })
}

/// [`fast_f64`] in single precision.
#[inline(always)]
pub(super) fn fast_f32(data: &[u8], start: usize, len: usize) -> Option<f32> {
    let written = fast_written(data, start, len)?;
    if written.digits > 1 << f32::MANTISSA_DIGITS {
        return None;
    }
    let value = written.digits as f32 / POWERS_F32.get(written.fraction as usize)?;
    Some(if written.negative { -value } else { value })
}

/// A float as the standard library reads it, white space around it allowed.
pub fn float<F: std::str::FromStr>(text: &[u8]) -> Option<F> {
    std::str::from_utf8(trim(text)).ok()?.parse().ok()
}

/// Powers of ten below 2^64.
#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const POWERS_I128: [i128; 20] = {
    let mut powers = [1; 20];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Fast path of a decimal with `scale` digits behind the point, which need no
/// rounding; `limit` is ten to the precision, or the greatest integer if that
/// is less.
#[inline(always)]
pub(super) fn fast_decimal(data: &[u8], start: usize, len: usize, scale: i8, limit: i128) -> Option<i128> {
    let written = fast_written(data, start, len)?;
    let zeros = u32::try_from(scale).ok()?.checked_sub(written.fraction)?;
    // At most 10^16 * 10^19: no overflow.
    let value = i128::from(written.digits) * POWERS_I128.get(zeros as usize)?;
    if value >= limit {
        return None;
    }
    Some(if written.negative { -value } else { value })
}

/// A decimal of at most `precision` digits, `scale` of them behind the point;
/// surplus digits are rounded half away from zero.
pub fn decimal<N: ArrowNativeTypeOp>(text: &[u8], precision: u8, scale: i8) -> Option<N> {
    let (negative, text) = split_sign(trim(text));
    let exponent_at = text.iter().position(|b| matches!(b, b'e' | b'E'));
    let (text, exponent) = match exponent_at {
        None => (text, 0),
        Some(at) => {
            let (text, exponent) = text.split_at(at);
            let exponent = exponent.get(1..)?;
            // White space was trimmed off outside; inside it is an error.
            if trim(exponent).len() != exponent.len() {
                return None;
            }
            // Beyond any digit count that fits into a record.
            (text, integer(exponent)?.clamp(-1 << 40, 1 << 40) as i64)
        }
    };
    let point = text.iter().position(|&b| b == b'.').unwrap_or(text.len());
    let digit_count = text.len() - usize::from(point < text.len());
    if digit_count == 0 {
        return None;
    }
    // How many of the digits belong to the unscaled value; negative or past
    // the last digit, zeros stand in.
    let kept = i64::try_from(point).ok()? + exponent + i64::from(scale);

    let ten = N::usize_as(10);
    let mut value = N::ZERO;
    let mut significant = 0_u32;
    let mut round_up = false;
    let mut seen = 0_i64;
    for (i, &byte) in text.iter().enumerate() {
        if i == point {
            continue;
        }
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if seen < kept {
            if significant > 0 || digit > 0 {
                significant += 1;
                // Ends the work at once on absurdly long fields.
                if significant > u32::from(precision) {
                    return None;
                }
                value = value.mul_checked(ten).ok()?.add_checked(N::usize_as(usize::from(digit))).ok()?;
            }
        } else if seen == kept {
            round_up = digit >= 5;
        }
        seen += 1;
    }
    if significant > 0 {
        for _ in seen..kept {
            significant += 1;
            if significant > u32::from(precision) {
                return None;
            }
            value = value.mul_checked(ten).ok()?;
        }
    }
    if round_up {
        value = value.add_checked(N::ONE).ok()?;
        // 9.99 became 10.0: one digit more.
        if value.is_ge(ten.pow_checked(u32::from(precision)).unwrap_or(N::MAX_TOTAL_ORDER)) {
            return None;
        }
    }
    Some(if negative { value.neg_checked().ok()? } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::i256;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// Runs a fast path on `text` with digits behind it, as in a file.
    fn within<T>(text: &str, fast: impl Fn(&[u8], usize, usize) -> Option<T>) -> Option<T> {
        let data = format!("77{text}.99999999999999999");
        fast(data.as_bytes(), 2, text.len())
    }

    #[test]
    fn fast_paths_agree_with_the_standard_library() {
        const SEED: u64 = 11;
        println!("seed {SEED}");
        let mut rng = StdRng::seed_from_u64(SEED);
        let alphabet = b"0123456789012345678901234567890123456789.-+/: ";
        for _ in 0..300_000 {
            let len = rng.random_range(0..19);
            let text: String = (0..len).map(|_| char::from(alphabet[rng.random_range(0..alphabet.len())])).collect();
            if let Some(value) = within(&text, fast_integer) {
                assert_eq!(Some(value), text.parse().ok(), "{text}");
                assert_eq!(Some(i128::from(value)), integer(text.as_bytes()), "{text}");
            } else if text.len() <= 16 && !text.starts_with('+') {
                assert_eq!(text.parse::<i64>().ok(), None, "{text}");
            }
            if let Some(value) = within(&text, fast_f64) {
                assert_eq!(Some(value.to_bits()), text.parse().ok().map(f64::to_bits), "{text}");
            }
            if let Some(value) = within(&text, fast_f32) {
                assert_eq!(Some(value.to_bits()), text.parse().ok().map(f32::to_bits), "{text}");
            }
            let exact = decimal::<i128>(text.as_bytes(), 30, 12);
            if let Some(value) = within(&text, |d, s, l| fast_decimal(d, s, l, 12, 10_i128.pow(30))) {
                assert_eq!(Some(value), exact, "{text}");
            }
            assert_eq!(decimal::<i256>(text.as_bytes(), 30, 12), exact.map(i256::from_i128), "{text}");
            // The standard library accepts what this reader accepts.
            assert_eq!(exact.is_some(), float::<f64>(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn fast_paths_take_what_files_hold() {
        for text in ["0", "-1", "12345678", "1234567812345678", "-1234567812345678"] {
            assert!(within(text, fast_integer).is_some(), "{text}");
        }
        for text in [
            "0.5",
            ".5",
            "5.",
            "1234.567",
            "12345.678",
            "1.2345678",
            "12345678.",
            "123456789.12",
            "-1234567.12345678",
            "123456781234567.",
        ] {
            assert!(within(text, fast_written).is_some(), "{text}");
        }
    }

    #[test]
    fn integers() {
        let read = |text: &str| integer(text.as_bytes());
        assert_eq!(read(" +0042\t"), Some(42));
        assert_eq!(read("18446744073709551615"), Some(i128::from(u64::MAX)));
        assert_eq!(read("-9223372036854775808"), Some(i128::from(i64::MIN)));
        for text in ["", " ", "-", "+-1", "1 2", "1.0", "1e2", "1_0", "0x1", "18446744073709551616"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn decimals_as_duckdb_reads_them() {
        let read = |text: &str| decimal::<i128>(text.as_bytes(), 10, 2);
        for (text, value) in [
            ("1", 100),
            ("1.5", 150),
            ("1.555", 156),
            ("1.545", 155),
            ("-1.555", -156),
            ("1e2", 10_000),
            (" +1.5 ", 150),
            (".5", 50),
            ("5.", 500),
            ("-0", 0),
            ("99999999.99", 9_999_999_999),
            ("1e-2", 1),
            ("1.5E+1", 1_500),
            ("0.005", 1),
            ("0.0049999", 0),
            ("1e-99999999999999", 0),
            ("0e9999999999", 0),
            ("5e-3", 1),
            ("0.000000000000000000000000000000000000000000001", 0),
            ("0000000000000000000000000000000000000000000001", 100),
        ] {
            assert_eq!(read(text), Some(value), "{text}");
        }
        for text in [
            "",
            ".",
            "-",
            "e5",
            "1e",
            "1e+",
            "1e 5",
            "1.2.3",
            "1-",
            "100000000",
            "99999999.995",
            "1e9",
            "1e99999999999",
            "1_0",
            "0x1",
            "nan",
            "inf",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(decimal::<i128>(b"12345", 5, -2), Some(123));
        assert_eq!(decimal::<i128>(b"4", 1, -1), Some(0));
        assert_eq!(decimal::<i128>(b"9", 1, -1), Some(1));
        let widest = "9".repeat(38);
        assert_eq!(decimal::<i128>(widest.as_bytes(), 38, 0), widest.parse().ok());
        assert_eq!(decimal::<i128>("9".repeat(39).as_bytes(), 38, 0), None);
        assert_eq!(decimal::<i256>("9".repeat(77).as_bytes(), 76, 0), None);
        assert!(decimal::<i256>("9".repeat(76).as_bytes(), 76, 0).is_some());
    }
}
