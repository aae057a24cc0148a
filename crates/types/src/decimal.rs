//! Exact decimals of up to 38 digits.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::{Class, Error, Result};

/// The most digits of a decimal.
pub const PRECISION_MAX: u8 = 38;

/// The first integer with more than [`PRECISION_MAX`] digits.
const LIMIT: u128 = 10_u128.pow(PRECISION_MAX as u32);

/// The powers of ten up to the first with more than [`PRECISION_MAX`] digits.
const POWERS: [i128; PRECISION_MAX as usize + 1] = {
    let mut powers = [1; PRECISION_MAX as usize + 1];
    let mut exponent = 1;
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// A quotient has at least this many significant digits, as in PostgreSQL.
const QUOTIENT_DIGITS_MIN: i32 = 16;

/// An exact decimal number: an integer of at most 38 digits, and its scale, the number of digits after the point.
///
/// Equality, order and hash are those of the number: 1.0 equals 1.00. Results have the scale that PostgreSQL gives
/// them, and a result of more than 38 digits is an error: no digit is lost silently. Only a quotient is rounded.
#[derive(Clone, Copy)]
pub struct Decimal {
    // Bytes rather than i128, whose alignment would make every `Value` half as large again.
    units: [u8; 16],
    scale: u8,
}

impl Decimal {
    /// Zero without digits after the point.
    pub const ZERO: Self = Self { units: [0; 16], scale: 0 };

    /// `units / 10^scale`; an error if that takes more than 38 digits.
    #[inline]
    pub fn new(units: i128, scale: u8) -> Result<Self> {
        if units.unsigned_abs() >= LIMIT || scale > PRECISION_MAX {
            return Err(overflow());
        }
        Ok(Self { units: units.to_ne_bytes(), scale })
    }

    /// [`Decimal::new`] for units that always fit; `None` if the scale does not.
    #[inline]
    pub const fn of_units(units: i64, scale: u8) -> Option<Self> {
        if scale > PRECISION_MAX {
            return None;
        }
        Some(Self { units: (units as i128).to_ne_bytes(), scale })
    }

    /// The number times `10^scale`.
    #[inline]
    pub const fn units(self) -> i128 {
        i128::from_ne_bytes(self.units)
    }

    /// Number of digits after the point.
    #[inline]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Whether it is less than zero.
    pub const fn is_negative(self) -> bool {
        self.units() < 0
    }

    /// Parses a number, with the scale as written; `None` if the text is not a number or has too many digits.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut units: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
            units = units.checked_mul(10)?.checked_add(digit)?;
        }
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let units = if scale < 0 { units.checked_mul(power_of_ten(u32::try_from(-scale).ok()?)?)? } else { units };
        Self::new(if negative { -units } else { units }, u8::try_from(scale.max(0)).ok()?).ok()
    }

    /// The same number, rounded half away from zero where digits are lost.
    pub fn rescale(self, scale: u8) -> Result<Self> {
        let units = self.units();
        if scale >= self.scale {
            if scale == self.scale {
                return Ok(self);
            }
            let factor = power_of_ten(u32::from(scale - self.scale)).ok_or_else(overflow)?;
            return Self::new(units.checked_mul(factor).ok_or_else(overflow)?, scale);
        }
        let Some(divisor) = power_of_ten(u32::from(self.scale - scale)) else { return Self::new(0, scale) };
        let (quotient, rest) = (units / divisor, units % divisor);
        let away = if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() { units.signum() } else { 0 };
        Self::new(quotient + away, scale)
    }

    /// The largest number with this scale that is not larger; an error if it has too many digits.
    pub fn floor_to(self, scale: u8) -> Result<Self> {
        if scale >= self.scale {
            return self.rescale(scale);
        }
        match power_of_ten(u32::from(self.scale - scale)) {
            Some(divisor) => Self::new(self.units().div_euclid(divisor), scale),
            None => Self::new(if self.is_negative() { -1 } else { 0 }, scale),
        }
    }

    /// The number with this scale, if it takes no more than `precision` digits.
    pub fn fit(self, precision: u8, scale: u8) -> Result<Self> {
        let fitted = self.rescale(scale)?;
        if fitted.has_digits_of(precision) {
            return Ok(fitted);
        }
        Err(Class::OutOfRange.error(format_args!("{self} does not fit DECIMAL({precision}, {scale})")))
    }

    /// Whether it has at most this many digits.
    #[inline]
    pub fn has_digits_of(self, precision: u8) -> bool {
        power_of_ten(u32::from(precision)).is_none_or(|limit| self.units().unsigned_abs() < limit.unsigned_abs())
    }

    /// The number as an integer, rounded half away from zero.
    pub fn to_i64(self) -> Result<i64> {
        let whole = self.rescale(0)?.units();
        i64::try_from(whole).map_err(|_| Class::OutOfRange.error(format_args!("{self} does not fit BIGINT")))
    }

    /// The nearest float.
    pub fn to_f64(self) -> f64 {
        // Through text, because two roundings (of the integer and of the quotient) may miss it.
        let units = self.units();
        match i32::try_from(units) {
            Ok(small) if self.scale <= 15 => f64::from(small) / 10_f64.powi(i32::from(self.scale)),
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// The float rounded to 15 significant digits, without zeros at the end of its fraction; `None` if it is not finite
    /// or has too many digits.
    pub fn from_f64(value: f64) -> Option<Self> {
        // PostgreSQL's float8_numeric keeps 15 significant digits.
        value.is_finite().then(|| Self::parse(&format!("{value:.14e}")))?.map(Self::trimmed)
    }

    /// The same number without zeros at the end of its fraction.
    #[must_use]
    pub fn trimmed(self) -> Self {
        let (mut units, mut scale) = (self.units(), self.scale);
        while scale > 0 && units % 10 == 0 {
            units /= 10;
            scale -= 1;
        }
        Self { units: units.to_ne_bytes(), scale }
    }

    /// The sum, with the larger scale.
    #[inline]
    pub fn plus(self, other: Self) -> Result<Self> {
        let sum = |left: Self, right: Self| {
            let units = left.units().checked_add(right.units()).ok_or_else(overflow)?;
            Self::new(units, left.scale)
        };
        if self.scale == other.scale {
            return sum(self, other);
        }
        let scale = self.scale.max(other.scale);
        match (self.rescale(scale), other.rescale(scale)) {
            (Ok(left), Ok(right)) => sum(left, right),
            _ => Err(overflow()),
        }
    }

    /// The difference, with the larger scale.
    pub fn minus(self, other: Self) -> Result<Self> {
        self.plus(other.negated())
    }

    /// The number with the other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { units: (-self.units()).to_ne_bytes(), scale: self.scale }
    }

    /// The product, with the sum of the scales.
    ///
    /// # Errors
    /// If it has more than 38 digits, including zeros at its end: a column of products has one scale.
    #[inline]
    pub fn times(self, other: Self) -> Result<Self> {
        let (left, right) = (self.units(), other.units());
        let units = match (i64::try_from(left), i64::try_from(right)) {
            // Of 64 bits each: nothing can overflow.
            (Ok(left), Ok(right)) => i128::from(left) * i128::from(right),
            _ => left.checked_mul(right).ok_or_else(overflow)?,
        };
        Self::new(units, self.scale + other.scale)
    }

    /// The quotient, with PostgreSQL's scale: at least 16 significant digits, and no less than the operands' scales. It
    /// is rounded to a smaller scale where it would have more than 38 digits.
    pub fn divide(self, other: Self) -> Result<Self> {
        if other.units() == 0 {
            return Err(Class::DivisionByZero.error("division by zero"));
        }
        let wanted = quotient_scale(self, other);
        // A quotient that has more digits before the point has fewer after it.
        for scale in (self.scale.max(other.scale).min(wanted)..=wanted).rev().chain((0..wanted).rev()) {
            if let Some(units) = quotient(self, other, scale) {
                return Self::new(units, scale);
            }
        }
        Err(overflow())
    }

    /// The rest of the division truncated to an integer, with the dividend's sign.
    pub fn remainder(self, other: Self) -> Result<Self> {
        if other.units() == 0 {
            return Err(Class::DivisionByZero.error("division by zero"));
        }
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.rescale(scale)?, other.rescale(scale)?);
        Self::new(left.units() % right.units(), scale)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self { units: i128::from(value).to_ne_bytes(), scale: 0 }
    }
}

fn overflow() -> Error {
    Class::OutOfRange.error("numeric field overflow: more than 38 digits")
}

/// `10^exponent`, if it fits.
#[inline]
fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(exponent as usize).copied()
}

/// PostgreSQL's `select_div_scale`, which counts in digits of base 10 000.
fn quotient_scale(left: Decimal, right: Decimal) -> u8 {
    let (left_weight, left_digit) = weight(left);
    let (right_weight, right_digit) = weight(right);
    let weight = left_weight - right_weight - i32::from(left_digit <= right_digit);
    let scale = (QUOTIENT_DIGITS_MIN - weight * 4).max(i32::from(left.scale)).max(i32::from(right.scale));
    u8::try_from(scale.clamp(0, i32::from(PRECISION_MAX))).unwrap_or(PRECISION_MAX)
}

/// The exponent of the first digit in base 10 000, and that digit.
fn weight(value: Decimal) -> (i32, u128) {
    let mut units = value.units().unsigned_abs();
    if units == 0 {
        return (0, 0);
    }
    // Aligned so that the point stands between two digits.
    let mut below = -i32::from(value.scale.div_ceil(4));
    let shift = (4 - value.scale % 4) % 4;
    let scaled = units.checked_mul(10_u128.pow(u32::from(shift)));
    if let Some(scaled) = scaled {
        units = scaled;
    } else {
        units /= 10_u128.pow(u32::from(4 - shift));
        below += 1;
    }
    while units >= 10_000 {
        units /= 10_000;
        below += 1;
    }
    (below, units)
}

/// The quotient times `10^scale`, rounded half away from zero; `None` if it has too many digits.
fn quotient(left: Decimal, right: Decimal, scale: u8) -> Option<i128> {
    let divisor = right.units().unsigned_abs();
    let dividend = left.units().unsigned_abs();
    // left / right = (units / units) * 10^(right.scale - left.scale)
    let digits = i32::from(scale) + i32::from(right.scale) - i32::from(left.scale);
    let (mut result, mut rest) = (dividend / divisor, dividend % divisor);
    for _ in 0..digits {
        let (digit, next) = times_ten_by(rest, divisor);
        result = result.checked_mul(10)?.checked_add(digit)?;
        rest = next;
        if result >= LIMIT {
            return None;
        }
    }
    let mut up = rest >= divisor - rest;
    if digits < 0 {
        let cut = 10_u128.checked_pow(digits.unsigned_abs())?;
        up = (result % cut) * 2 >= cut;
        result /= cut;
    }
    let units = i128::try_from(result + u128::from(up)).ok()?;
    if units.unsigned_abs() >= LIMIT {
        return None;
    }
    Some(if left.is_negative() == right.is_negative() { units } else { -units })
}

/// `rest * 10` by `divisor`, where `rest < divisor < 10^38`.
fn times_ten_by(rest: u128, divisor: u128) -> (u128, u128) {
    if let Some(ten) = rest.checked_mul(10) {
        return (ten / divisor, ten % divisor);
    }
    let (mut digit, mut sum) = (0, 0);
    for _ in 0..10 {
        sum += rest;
        if sum >= divisor {
            sum -= divisor;
            digit += 1;
        }
    }
    (digit, sum)
}

/// A product of two integers of 128 bits.
struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    fn product(left: u128, right: u128) -> Self {
        const HALF: u128 = u64::MAX as u128;
        let (a, b, c, d) = (left >> 64, left & HALF, right >> 64, right & HALF);
        let (low, middle, other) = (b * d, a * d, b * c);
        let carry = (low >> 64) + (middle & HALF) + (other & HALF);
        Self { high: a * c + (middle >> 64) + (other >> 64) + (carry >> 64), low: (low & HALF) | (carry << 64) }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (self.units(), other.units());
        if self.scale == other.scale {
            return left.cmp(&right);
        }
        let scale = self.scale.max(other.scale);
        let widen = |units: i128, from: u8| {
            let factor = 10_u128.pow(u32::from(scale - from));
            let wide = Wide::product(units.unsigned_abs(), factor);
            (units.signum(), wide.high, wide.low)
        };
        let (left_sign, left_high, left_low) = widen(left, self.scale);
        let (right_sign, right_high, right_low) = widen(right, other.scale);
        left_sign.cmp(&right_sign).then_with(|| {
            let order = (left_high, left_low).cmp(&(right_high, right_low));
            if left_sign < 0 { order.reverse() } else { order }
        })
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let trimmed = self.trimmed();
        (trimmed.units(), trimmed.scale).hash(state);
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All digits of the scale, trailing zeros included.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units();
        let sign = if units < 0 { "-" } else { "" };
        let magnitude = units.unsigned_abs();
        if self.scale == 0 {
            return write!(f, "{sign}{magnitude}");
        }
        let divisor = 10_u128.pow(u32::from(self.scale));
        write!(f, "{sign}{}.{:0width$}", magnitude / divisor, magnitude % divisor, width = usize::from(self.scale))
    }
}

#[cfg(test)]
mod tests;
