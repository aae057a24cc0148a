//! Bytes as text: `encode` and `decode`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Class, Error, Result};

/// Bytes of a line of base64, which has 76 characters.
const BASE64_LINE_BYTES: usize = 57;

/// How bytes are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Hex,
    Base64,
    /// Bytes that are no ASCII as octal numbers.
    Escape,
}

impl Encoding {
    pub fn named(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            "escape" => Ok(Self::Escape),
            _ => Err(invalid(format_args!("unrecognized encoding: \"{name}\""))),
        }
    }

    pub fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect(),
            Self::Base64 => base64(bytes),
            Self::Escape => {
                let mut text = String::with_capacity(bytes.len());
                for byte in bytes {
                    match byte {
                        b'\\' => text.push_str("\\\\"),
                        0 | 128.. => {
                            text.push('\\');
                            text.extend([byte >> 6, byte >> 3 & 7, byte & 7].map(hex_digit));
                        }
                        ascii => text.push(char::from(*ascii)),
                    }
                }
                text
            }
        }
    }

    pub fn decode(self, text: &str) -> Result<Vec<u8>> {
        match self {
            Self::Hex => of_hex(text),
            Self::Base64 => of_base64(text),
            Self::Escape => of_escapes(text.as_bytes()),
        }
    }
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Class::InvalidParameter.error(what)
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).unwrap_or('0')
}

/// White space between the digits of bytes is passed over.
fn of_hex(text: &str) -> Result<Vec<u8>> {
    let mut digits = text.chars().filter(|next| !matches!(next, ' ' | '\n' | '\t' | '\r')).map(|next| {
        let digit = next.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digit.ok_or_else(|| invalid(format_args!("invalid hexadecimal digit: \"{next}\"")))
    });
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        let high = high?;
        match digits.next() {
            Some(low) => bytes.push(high << 4 | low?),
            None => return Err(invalid("invalid hexadecimal data: odd number of digits")),
        }
    }
    Ok(bytes)
}

/// In lines, as MIME has them.
fn base64(bytes: &[u8]) -> String {
    let lines: Vec<String> = bytes.chunks(BASE64_LINE_BYTES).map(|line| STANDARD.encode(line)).collect();
    lines.join("\n")
}

fn of_base64(text: &str) -> Result<Vec<u8>> {
    let digits: String = text.chars().filter(|next| !matches!(next, ' ' | '\n' | '\t' | '\r')).collect();
    STANDARD.decode(digits).map_err(|error| invalid(format_args!("invalid base64: {error}")))
}

fn of_escapes(text: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match (first, behind) {
            (b'\\', [b'\\', others @ ..]) => {
                rest = others;
                b'\\'
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', others @ ..]) => {
                rest = others;
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            (b'\\', _) => return Err(Class::InvalidText.error("invalid input syntax for type bytea")),
            (byte, _) => *byte,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_there_and_back() {
        let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
        for encoding in [Encoding::Hex, Encoding::Base64, Encoding::Escape] {
            for length in [0, 1, 2, 3, 4, 57, 58, 512] {
                let text = encoding.encode(&bytes[..length]);
                assert_eq!(encoding.decode(&text).unwrap(), &bytes[..length], "{encoding:?} {text}");
            }
        }
        assert_eq!(Encoding::Base64.encode(b"ab"), "YWI=");
        assert_eq!(Encoding::Escape.encode(b"a\\\xff\0"), "a\\\\\\377\\000");
    }

    #[test]
    fn what_is_none() {
        for (encoding, text, state) in [
            (Encoding::Hex, "abc", "22023"),
            (Encoding::Hex, "xy", "22023"),
            (Encoding::Base64, "a", "22023"),
            (Encoding::Base64, "=abc", "22023"),
            (Encoding::Base64, "YW=I", "22023"),
            (Encoding::Base64, "YW!=", "22023"),
            (Encoding::Escape, "\\9", "22P02"),
        ] {
            assert_eq!(encoding.decode(text).unwrap_err().sqlstate(), state, "{text}");
        }
    }
}
