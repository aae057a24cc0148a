//! Numbers as text.
//!
//! The steps follow PostgreSQL, whose templates have many corner cases: the output at a digit's place depends on the
//! number of blank digits before it, on whether the sign has been written, and on the significant digits.

use super::{Part, ordinal_ending, parts};
use crate::error::{Class, Error, Result};
use crate::{Decimal, Operator, ValueRef};

/// Digits of a double, and of a REAL, that are written.
const DOUBLE_DIGITS: usize = 15;
const REAL_DIGITS: usize = 6;
/// Characters of a Roman number: 3888 is the longest.
const ROMAN_WIDTH: usize = 15;
const ROMAN_MAX: i64 = 3999;

/// Meaning of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Nine,
    Zero,
    /// `.` and `D`
    Point,
    Comma,
    /// `G`
    Separator,
    /// `L`
    Currency,
    /// `S`
    Sign,
    /// `MI`, `PL`, `SG`
    Minus,
    Plus,
    Both,
    /// `PR`
    Brackets,
    /// `FM`
    Plain,
    Roman {
        is_lower: bool,
    },
    Ordinal {
        is_lower: bool,
    },
    /// `V`: the digits behind it are shifted before the point.
    Shift,
    /// `EEEE`
    Exponent,
    /// `B`, `C` and `SP` say nothing here.
    Nothing,
}

impl super::Keyword for Keyword {
    const NAMES: &'static [(&'static str, Self)] = {
        use Keyword as K;
        &[
            (",", K::Comma),
            (".", K::Point),
            ("0", K::Zero),
            ("9", K::Nine),
            ("B", K::Nothing),
            ("C", K::Nothing),
            ("D", K::Point),
            ("EEEE", K::Exponent),
            ("FM", K::Plain),
            ("G", K::Separator),
            ("L", K::Currency),
            ("MI", K::Minus),
            ("PL", K::Plus),
            ("PR", K::Brackets),
            ("RN", K::Roman { is_lower: false }),
            ("SG", K::Both),
            ("SP", K::Nothing),
            ("S", K::Sign),
            ("TH", K::Ordinal { is_lower: false }),
            ("V", K::Shift),
        ]
    };

    fn lowered(self) -> Self {
        match self {
            Self::Roman { .. } => Self::Roman { is_lower: true },
            Self::Ordinal { .. } => Self::Ordinal { is_lower: true },
            other => other,
        }
    }
}

/// A number that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Digits {
    Exact(Decimal),
    /// A float, and how many of its digits count.
    Float(f64, usize),
}

impl Digits {
    /// The digits of a number; `None` for other values.
    pub(super) fn new(value: ValueRef<'_>) -> Option<Self> {
        Some(match value {
            ValueRef::Int(number) => Self::Exact(number.into()),
            ValueRef::Decimal(number) => Self::Exact(number),
            ValueRef::Real(number) => Self::Float(number.into(), REAL_DIGITS),
            ValueRef::Float(number) => Self::Float(number, DOUBLE_DIGITS),
            _ => return None,
        })
    }

    /// The number with `places` digits after the point, and the number of places for which a float has digits.
    fn with_places(self, places: usize) -> Result<(String, usize)> {
        match self {
            Self::Exact(number) => Ok((fixed(number, places)?, places)),
            Self::Float(number, digits) => {
                // The width of `Infinity` is eight, like that of a number.
                let before = float_text(number.abs(), 0).len();
                let places = if before >= digits { 0 } else { places.min(digits - before) };
                Ok((float_text(number, places), places))
            }
        }
    }

    /// Times a power of ten.
    fn shifted(self, by: usize) -> Result<Self> {
        let power = i32::try_from(by).map_err(|_| crate::out_of_range())?;
        Ok(match self {
            Self::Exact(number) => {
                let power = Decimal::parse(&format!("1e{power}")).ok_or_else(crate::out_of_range)?;
                Self::Exact(number.times(power)?)
            }
            Self::Float(number, digits) => Self::Float(Operator::Multiply.floats(number, 10_f64.powi(power))?, digits),
        })
    }

    fn rounded(self) -> Option<i64> {
        match self {
            Self::Exact(number) => number.to_i64().ok(),
            Self::Float(number, _) => crate::cast(ValueRef::Float(number), crate::DataType::BigInt)
                .ok()
                .and_then(|number| if let crate::Value::Int(number) = number { Some(number) } else { None }),
        }
    }
}

/// A float with `places` digits after the point, or its name if it is not finite.
fn float_text(number: f64, places: usize) -> String {
    if number.is_finite() { format!("{number:.places$}") } else { ValueRef::Float(number).to_string() }
}

/// A decimal with exactly `places` digits after the point.
fn fixed(number: Decimal, places: usize) -> Result<String> {
    let scale = usize::from(number.scale());
    if places <= scale {
        return Ok(number.rescale(u8::try_from(places).unwrap_or(u8::MAX))?.to_string());
    }
    let point = if scale == 0 { "." } else { "" };
    Ok(format!("{number}{point}{:0<zeros$}", "", zeros = places - scale))
}

/// A template as a whole.
#[derive(Debug, Default)]
struct Template {
    /// Digits before the point, and behind it.
    before: usize,
    behind: usize,
    /// Place of the first `0`, if it is before the point.
    first_zero: Option<usize>,
    /// Digits up to the last `0`.
    zeros_end: Option<usize>,
    has_point: bool,
    is_plain: bool,
    sign: Option<SignPlace>,
    has_minus: bool,
    has_plus: bool,
    has_brackets: bool,
    is_roman: bool,
    shift: Option<usize>,
    has_exponent: bool,
}

/// Where `S` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignPlace {
    /// Before the point, after this many digits.
    Before(usize),
    Behind,
}

fn wrong(what: &str) -> Error {
    Class::Syntax.error(what)
}

impl Template {
    fn new(parts: &[Part<'_, Keyword>]) -> Result<Self> {
        let mut all = Self::default();
        for part in parts {
            if let Part::Keyword(keyword) = part {
                all.add(*keyword)?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, keyword: Keyword) -> Result<()> {
        use Keyword as K;
        if self.has_exponent && keyword != K::Exponent {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        match keyword {
            K::Nine | K::Zero if self.has_brackets => {
                let digit = if keyword == K::Nine { "9" } else { "0" };
                return Err(wrong(&format!("\"{digit}\" must be ahead of \"PR\"")));
            }
            K::Nine => match &mut self.shift {
                Some(shift) => *shift += 1,
                None if self.has_point => self.behind += 1,
                None => self.before += 1,
            },
            K::Zero => {
                if self.has_point {
                    self.behind += 1;
                } else {
                    self.first_zero = self.first_zero.or(Some(self.before));
                    self.before += 1;
                }
                self.zeros_end = Some(self.before + self.behind);
            }
            K::Point if self.has_point => return Err(wrong("multiple decimal points")),
            K::Point if self.shift.is_some() => return Err(wrong("cannot use \"V\" and decimal point together")),
            K::Point => self.has_point = true,
            K::Plain => self.is_plain = true,
            K::Sign if self.sign.is_some() => return Err(wrong("cannot use \"S\" twice")),
            K::Sign if self.has_plus || self.has_minus || self.has_brackets => {
                return Err(wrong("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
            }
            K::Sign => {
                self.sign = Some(if self.has_point { SignPlace::Behind } else { SignPlace::Before(self.before) });
            }
            K::Minus | K::Plus | K::Both if self.sign.is_some() => {
                let name = match keyword {
                    K::Minus => "MI",
                    K::Plus => "PL",
                    _ => "SG",
                };
                return Err(wrong(&format!("cannot use \"S\" and \"{name}\" together")));
            }
            K::Minus => self.has_minus = true,
            K::Plus => self.has_plus = true,
            K::Both => (self.has_minus, self.has_plus) = (true, true),
            K::Brackets if self.sign.is_some() || self.has_plus || self.has_minus => {
                return Err(wrong("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
            }
            K::Brackets => self.has_brackets = true,
            K::Roman { .. } => self.is_roman = true,
            K::Shift if self.has_point => return Err(wrong("cannot use \"V\" and decimal point together")),
            K::Shift => self.shift = Some(self.shift.unwrap_or(0)),
            K::Exponent if self.has_exponent => return Err(wrong("cannot use \"EEEE\" twice")),
            K::Exponent
                if self.is_plain
                    || self.sign.is_some()
                    || self.has_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.shift.is_some() =>
            {
                return Err(wrong("\"EEEE\" is incompatible with other formats"));
            }
            K::Exponent => self.has_exponent = true,
            K::Comma | K::Separator | K::Currency | K::Ordinal { .. } | K::Nothing => {}
        }
        Ok(())
    }
}

pub(super) fn format(number: &Digits, template: &str) -> Result<String> {
    let parts = parts(template);
    let mut all = Template::new(&parts)?;
    if all.is_roman {
        let text = roman(number.rounded());
        let text = if all.is_plain { text } else { format!("{text:>ROMAN_WIDTH$}") };
        return Ok(with_roman(&parts, &text));
    }
    if all.has_exponent {
        return Ok(scientific(number, &all));
    }
    let before = all.before + all.shift.unwrap_or(0);
    let (written, places) = match all.shift.map(|shift| number.shifted(shift)) {
        Some(Ok(shifted)) => shifted.with_places(all.behind)?,
        // It has more digits than there are places, whichever they are.
        Some(Err(_)) => ("0".repeat(before + 1), all.behind),
        None => number.with_places(all.behind)?,
    };
    all.behind = places;
    let (is_negative, written) = match written.strip_prefix('-') {
        Some(digits) => (true, digits.to_owned()),
        None => (false, written),
    };
    let length = written.find('.').unwrap_or(written.len());
    let blanks = before.saturating_sub(length);
    let digits = if length > before {
        let mut overflow = "#".repeat(before);
        overflow.push('.');
        overflow.push_str(&"#".repeat(all.behind));
        overflow
    } else {
        written
    };
    Ok(Writer::new(&all, before, digits.as_bytes(), is_negative, blanks).run(&parts))
}

/// The number in the place of its keyword, and all that stands for itself.
fn with_roman(parts: &[Part<'_, Keyword>], text: &str) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => out.push_str(literal),
            Part::Keyword(Keyword::Roman { is_lower: true }) => out.push_str(&text.to_ascii_lowercase()),
            Part::Keyword(Keyword::Roman { is_lower: false }) => out.push_str(text),
            Part::Keyword(_) => {}
        }
    }
    out
}

fn roman(number: Option<i64>) -> String {
    const NUMERALS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let Some(mut rest) = number.filter(|number| (1..=ROMAN_MAX).contains(number)) else {
        return "#".repeat(ROMAN_WIDTH);
    };
    let mut out = String::new();
    for (value, numeral) in NUMERALS {
        while rest >= value {
            out.push_str(numeral);
            rest -= value;
        }
    }
    out
}

/// `d.dde+xx`, with a blank in the place of a minus.
fn scientific(number: &Digits, all: &Template) -> String {
    let places = all.behind;
    let (mantissa, exponent) = match number {
        Digits::Float(number, _) if !number.is_finite() => {
            return format!(" {}.{}", "#".repeat(all.before), "#".repeat(places + 4));
        }
        Digits::Float(number, _) => {
            let text = format!("{number:.places$e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            (mantissa.to_owned(), exponent.parse::<i32>().unwrap_or(0))
        }
        Digits::Exact(number) => mantissa(*number, places),
    };
    let blank = if mantissa.starts_with('-') { "" } else { " " };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{blank}{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A decimal with one digit before its point and `places` after it, rounded half away from zero, and its exponent.
fn mantissa(number: Decimal, places: usize) -> (String, i32) {
    let units = number.units();
    let sign = if units < 0 { "-" } else { "" };
    let mut digits = units.unsigned_abs();
    let mut length = if digits == 0 { 1 } else { digits.ilog10() as usize + 1 };
    let mut exponent = length as i32 - 1 - i32::from(number.scale());
    if digits == 0 {
        exponent = 0;
    }
    if length > places + 1 {
        let power = 10_u128.pow((length - places - 1) as u32);
        digits = digits / power + u128::from(digits % power * 2 >= power);
        length = places + 1;
        if digits >= 10_u128.pow(length as u32) {
            digits /= 10;
            exponent += 1;
        }
    }
    let text = format!("{digits}{:0<zeros$}", "", zeros = places + 1 - length);
    let (first, rest) = text.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    (format!("{sign}{first}{point}{rest}"), exponent)
}

/// Writes digits to their places.
struct Writer<'w> {
    all: &'w Template,
    digits: &'w [u8],
    is_negative: bool,
    /// Places before the first digit.
    blanks: usize,
    /// The next digit.
    next: usize,
    /// The last digit that has to be written, of a template with `FM` and a point.
    last_relevant: Option<usize>,
    has_sign: bool,
    has_brackets: bool,
    sign: Option<SignPlace>,
    /// Place of the digit that a keyword is, from 0, and how many there are.
    place: usize,
    places: usize,
    is_in_number: bool,
    first_zero: Option<usize>,
    /// Where the output ends, because there were more places than digits.
    end: Option<usize>,
    out: String,
}

impl<'w> Writer<'w> {
    fn new(all: &'w Template, before: usize, digits: &'w [u8], is_negative: bool, blanks: usize) -> Self {
        let mut sign = all.sign;
        let mut has_brackets = all.has_brackets;
        let has_sign = if all.has_plus || all.has_minus {
            !all.has_plus || all.has_minus
        } else {
            if !is_negative && all.is_plain {
                has_brackets = false;
            }
            if sign == Some(SignPlace::Before(before)) {
                sign = Some(SignPlace::Behind);
            }
            !is_negative && all.is_plain && sign.is_none()
        };
        let last_relevant = (all.is_plain && all.has_point).then(|| last_relevant(all, digits, blanks)).flatten();
        let places = (all.behind + before).saturating_sub(1) + usize::from(!has_sign && blanks == 0);
        Self {
            all,
            digits,
            is_negative,
            blanks,
            next: 0,
            last_relevant,
            has_sign,
            has_brackets,
            sign,
            place: 0,
            places,
            is_in_number: false,
            first_zero: all.first_zero,
            end: None,
            out: String::new(),
        }
    }

    fn run(mut self, parts: &[Part<'_, Keyword>]) -> String {
        use Keyword as K;
        for part in parts {
            let keyword = match part {
                Part::Literal(text) => {
                    self.out.push_str(text);
                    continue;
                }
                Part::Keyword(keyword) => *keyword,
            };
            let is_plain = self.all.is_plain;
            match keyword {
                K::Nine | K::Zero | K::Point => self.digit(keyword),
                K::Comma | K::Separator if self.is_in_number => self.out.push(','),
                K::Comma | K::Separator | K::Currency if is_plain && keyword != K::Currency => {}
                K::Comma | K::Separator | K::Currency => self.out.push(' '),
                K::Ordinal { is_lower } => {
                    if self.digits.first() != Some(&b'#') && !self.is_negative && !self.all.has_point {
                        let digits = std::str::from_utf8(self.digits).unwrap_or_default();
                        let ending = ordinal_ending(digits);
                        self.out.push_str(&if is_lower { ending.to_owned() } else { ending.to_ascii_uppercase() });
                    }
                }
                K::Minus if self.is_negative => self.out.push('-'),
                K::Plus if !self.is_negative => self.out.push('+'),
                K::Minus | K::Plus if is_plain => {}
                K::Minus | K::Plus => self.out.push(' '),
                K::Both => self.push_sign(),
                K::Sign | K::Brackets | K::Plain | K::Roman { .. } | K::Shift | K::Exponent | K::Nothing => {}
            }
        }
        self.out.truncate(self.end.unwrap_or(usize::MAX));
        self.out
    }

    fn push_sign(&mut self) {
        self.out.push(if self.is_negative { '-' } else { '+' });
    }

    /// Whether the next digit is the zero before the point that the template has no `0` for.
    fn is_blank_zero(&self) -> bool {
        self.first_zero.is_none() && self.next == 0 && self.digits.first() == Some(&b'0') && self.all.behind != 0
    }

    fn is_last_the_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.digits.get(last) == Some(&b'.'))
    }

    fn digit(&mut self, keyword: Keyword) {
        self.is_in_number = false;
        let is_plain = self.all.is_plain;
        let is_at_number = self.place >= self.blanks || self.first_zero == Some(self.place);
        if !self.has_sign && is_at_number && (!self.is_blank_zero() || self.is_last_the_point()) {
            if let Some(place) = self.sign {
                if place != SignPlace::Behind {
                    self.push_sign();
                    self.has_sign = true;
                }
            } else if self.has_brackets {
                self.out.push(if self.is_negative { '<' } else { ' ' });
                self.has_sign = true;
            } else if !self.is_negative {
                if !is_plain {
                    self.out.push(' ');
                }
                self.has_sign = true;
            } else {
                self.out.push('-');
                self.has_sign = true;
            }
        }
        if self.place < self.blanks {
            if self.first_zero.is_some_and(|first| first <= self.place) {
                self.out.push('0');
                self.is_in_number = true;
            } else if !is_plain {
                self.out.push(' ');
            }
        } else {
            self.number(keyword);
        }
        let places = self.places + usize::from(self.blanks > 0) + usize::from(self.all.has_point);
        let end = if self.last_relevant == Some(self.next) { self.place } else { places };
        if self.place + 1 == end {
            if self.has_sign && self.has_brackets {
                self.out.push(if self.is_negative { '>' } else { ' ' });
            } else if self.sign == Some(SignPlace::Behind) {
                self.push_sign();
            }
        }
        self.place += 1;
    }

    /// Writes the next character of the number, a blank in its place, or nothing.
    fn number(&mut self, keyword: Keyword) {
        let digit = self.digits.get(self.next).copied();
        let is_irrelevant = self.last_relevant.is_some_and(|last| self.next > last) && keyword != Keyword::Zero;
        match digit {
            Some(b'.') => self.out.push('.'),
            _ if is_irrelevant => {}
            _ if self.is_blank_zero() && !self.all.is_plain => self.out.push(' '),
            _ if self.is_blank_zero() => {
                if self.is_last_the_point() {
                    self.out.push('0');
                }
            }
            Some(digit) => {
                self.out.push(char::from(digit));
                self.is_in_number = true;
            }
            None => self.end = self.end.or(Some(self.out.len())),
        }
        if digit.is_some() {
            self.next += 1;
        }
    }
}

/// The last digit that is not a zero behind the point, or the point; the template's zeros stay.
fn last_relevant(all: &Template, digits: &[u8], blanks: usize) -> Option<usize> {
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let behind = digits.get(point + 1..)?;
    let last = behind.iter().rposition(|digit| *digit != b'0').map_or(point, |place| point + 1 + place);
    let kept = all.zeros_end.filter(|end| *end > blanks);
    Some(match kept {
        Some(end) => last.max((digits.len() - 1).min(end - blanks)),
        None => last,
    })
}
