//! `string.format`, implemented here because C's prints addresses and differs in details between libraries.

use thermocline_lua::{Kind, Raised};
use thermocline_types::Decimal;

use super::super::machine::L;
use super::arguments::{bad, bytes, expected, float, integer, print};
use super::buffer::Buffer;

/// Flags, width and precision between `%` and the letter.
#[derive(Debug, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
}

/// `string.format(format, ...)`.
pub fn format(stack: &L<'_>) -> Result<i32, Raised> {
    let mut rest = bytes(stack, 1, "format")?;
    let mut out = Buffer::new(stack);
    let mut position = 1;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (before, after) = rest.split_at(at);
        out.push(before)?;
        rest = after.get(1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix(b"%") {
            out.push(b"%")?;
            rest = after;
            continue;
        }
        let Some((spec, letter, after)) = parse(rest) else {
            return Err(bad(stack, 1, "format", "invalid conversion to 'format'"));
        };
        rest = after;
        position += 1;
        one(stack, position, &spec, letter, &mut out)?;
    }
    out.push(rest)?;
    out.finish();
    Ok(1)
}

fn parse(mut rest: &[u8]) -> Option<(Spec, u8, &[u8])> {
    let mut spec = Spec::default();
    while let Some((flag, after)) = rest.split_first() {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternative = true,
            b'0' => spec.zeros = true,
            _ => break,
        }
        rest = after;
    }
    let number = |rest: &mut &[u8]| {
        let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        let value = rest.iter().take(digits).fold(0, |value, byte| value * 10 + usize::from(byte - b'0'));
        *rest = rest.get(digits..)?;
        (digits <= 2).then_some(value)
    };
    spec.width = number(&mut rest)?;
    if let Some(after) = rest.strip_prefix(b".") {
        rest = after;
        spec.precision = Some(number(&mut rest)?);
    }
    let (letter, after) = rest.split_first()?;
    Some((spec, *letter, after))
}

fn one(stack: &L<'_>, position: i32, spec: &Spec, letter: u8, out: &mut Buffer<'_, '_>) -> Result<(), Raised> {
    if stack.is_none(position) {
        return Err(expected(stack, position, "format", "value"));
    }
    match letter {
        b'd' | b'i' => {
            let value = integer(stack, position, "format")?;
            spec.number(
                out,
                value < 0,
                "",
                &digits(value.unsigned_abs().to_string(), spec.precision),
                spec.precision.is_none(),
            )
        }
        b'x' | b'X' | b'o' | b'u' => {
            let value = integer(stack, position, "format")?.cast_unsigned();
            let (prefix, text) = match letter {
                b'x' => ("0x", format!("{value:x}")),
                b'X' => ("0X", format!("{value:X}")),
                b'o' => ("0", format!("{value:o}")),
                _ => ("", value.to_string()),
            };
            let prefix = if spec.alternative && value != 0 { prefix } else { "" };
            let plain = Spec { plus: false, space: false, precision: None, ..*spec };
            plain.number(out, false, prefix, &digits(text, spec.precision), spec.precision.is_none())
        }
        b'c' => match u8::try_from(integer(stack, position, "format")?) {
            Ok(byte) => spec.padded(out, &[byte]),
            Err(_) => Err(bad(stack, position, "format", "value out of range")),
        },
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => {
            if let (Some(decimal), b'f' | b'F') = (stack.user::<Decimal>(position), letter) {
                let scale = u8::try_from(spec.precision.unwrap_or(6)).unwrap_or(u8::MAX);
                let rounded = decimal.rescale(scale).map_err(|error| stack.host().raise(stack, error))?;
                let text = rounded.to_string();
                let (negative, text) = text.strip_prefix('-').map_or((false, &*text), |text| (true, text));
                return spec.number(out, negative, "", text, true);
            }
            let value = float(stack, position, "format")?;
            let precision = spec.precision.unwrap_or(6);
            let mut text = match letter.to_ascii_lowercase() {
                _ if !value.is_finite() => if value.is_nan() { "nan" } else { "inf" }.to_owned(),
                b'e' => exponential(value.abs(), precision),
                b'f' => format!("{:.precision$}", value.abs()),
                _ => general(value.abs(), precision, spec.alternative),
            };
            if letter.is_ascii_uppercase() {
                text.make_ascii_uppercase();
            }
            spec.number(out, value.is_sign_negative() && !value.is_nan(), "", &text, value.is_finite())
        }
        b's' => {
            let mut text = Buffer::new(stack);
            print(stack, position, &mut text)?;
            let text = text.into_bytes();
            let length = spec.precision.map_or(text.len(), |precision| precision.min(text.len()));
            spec.padded(out, text.get(..length).unwrap_or_default())
        }
        b'q' => quoted(stack, position, out),
        b'p' | b'a' | b'A' => Err(bad(stack, 1, "format", &format!("'%{}' is not for procedures", char::from(letter)))),
        _ => Err(bad(stack, 1, "format", &format!("invalid conversion '%{}' to 'format'", letter.escape_ascii()))),
    }
}

/// Pads to at least as many digits as the precision.
fn digits(text: String, precision: Option<usize>) -> String {
    match precision {
        Some(precision) if precision > text.len() => "0".repeat(precision - text.len()) + &text,
        Some(0) if text == "0" => String::new(),
        _ => text,
    }
}

impl Spec {
    fn padded(&self, out: &mut Buffer<'_, '_>, text: &[u8]) -> Result<(), Raised> {
        let padding = vec![b' '; self.width.saturating_sub(text.len())];
        if self.left {
            out.push(text)?;
            return out.push(&padding);
        }
        out.push(&padding)?;
        out.push(text)
    }

    /// A number with its sign, padded with zeros if requested and `may_fill`.
    fn number(
        &self,
        out: &mut Buffer<'_, '_>,
        negative: bool,
        prefix: &str,
        digits: &str,
        may_fill: bool,
    ) -> Result<(), Raised> {
        // Formatting long numbers takes long sums.
        out.spend(digits.len() / 4)?;
        let sign = match negative {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        };
        let length = sign.len() + prefix.len() + digits.len();
        let zeros = if self.zeros && !self.left && may_fill { self.width.saturating_sub(length) } else { 0 };
        self.padded(out, format!("{sign}{prefix}{}{digits}", "0".repeat(zeros)).as_bytes())
    }
}

/// `1.500000e+00`.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// The shorter of `%e` and `%f`, as in C.
fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let precision = precision.max(1);
    let text = exponential(value, precision - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i64 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match i64::try_from(precision).unwrap_or(i64::MAX) - 1 - power {
        after if power >= -4 && after >= 0 => {
            let after = usize::try_from(after).unwrap_or(0);
            trimmed(&format!("{value:.after$}"))
        }
        _ => format!("{}e{exponent}", trimmed(mantissa)),
    }
}

/// `%q`: as Lua would read it.
fn quoted(stack: &L<'_>, position: i32, out: &mut Buffer<'_, '_>) -> Result<(), Raised> {
    let Kind::Text(text) = stack.kind(position) else {
        return match stack.kind(position) {
            Kind::Nil | Kind::Boolean(_) | Kind::Integer(_) => print(stack, position, out),
            Kind::Float(value) if value.is_nan() => out.push(b"(0/0)"),
            Kind::Float(value) if value.is_infinite() => {
                out.push(if value > 0.0 { b"1e9999" } else { &b"-1e9999"[..] })
            }
            Kind::Float(value) => out.push(format!("{value:?}").as_bytes()),
            _ => Err(bad(stack, position, "format", "value has no literal form")),
        };
    };
    out.push(b"\"")?;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'"' | b'\\' | b'\n' => out.push(&[b'\\', *byte])?,
            byte if byte.is_ascii_control() => {
                let is_before_digit = text.get(index + 1).is_some_and(u8::is_ascii_digit);
                out.push(if is_before_digit { format!("\\{byte:03}") } else { format!("\\{byte}") }.as_bytes())?;
            }
            byte => out.push(std::slice::from_ref(byte))?,
        }
    }
    out.push(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_c_prints_them() {
        for (value, precision, text) in [
            (0.0, 6, "0"),
            (1.0, 6, "1"),
            (0.1, 6, "0.1"),
            (100_000.0, 6, "100000"),
            (1_000_000.0, 6, "1e+06"),
            (0.0001, 6, "0.0001"),
            (0.000_01, 6, "1e-05"),
            (123_456_789.0, 3, "1.23e+08"),
            (9.999_999_9, 6, "10"),
        ] {
            assert_eq!(general(value, precision, false), text);
        }
        assert_eq!(general(1.0, 3, true), "1.00");
        assert_eq!(exponential(1.5, 2), "1.50e+00");
        assert_eq!(exponential(1e100, 0), "1e+100");
    }
}
