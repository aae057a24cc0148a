//! UUIDs as text.

use std::fmt;

/// Bytes of a UUID.
pub const UUID_BYTES: usize = 16;

/// The bytes behind which the canonical form has a hyphen.
const HYPHENS_BEHIND: [usize; 4] = [3, 5, 7, 9];

/// The bytes of a UUID in one of PostgreSQL's forms: 32 hexadecimal digits, perhaps with hyphens behind groups of four
/// and perhaps in braces; `None` for other text.
pub fn parse_uuid(text: &str) -> Option<[u8; UUID_BYTES]> {
    let mut rest = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?.as_bytes(),
        None => text.as_bytes(),
    };
    let mut uuid = [0; UUID_BYTES];
    for (place, byte) in uuid.iter_mut().enumerate() {
        let ([high, low], behind) = rest.split_first_chunk()?;
        *byte = nibble(*high)? << 4 | nibble(*low)?;
        rest = match behind.strip_prefix(b"-") {
            Some(behind) if place % 2 == 1 && place + 1 < UUID_BYTES => behind,
            _ => behind,
        };
    }
    rest.is_empty().then_some(uuid)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Writes a UUID in the canonical form: lower case, with hyphens behind 8, 12, 16 and 20 digits.
pub fn format_uuid(out: &mut impl fmt::Write, uuid: [u8; UUID_BYTES]) -> fmt::Result {
    for (place, byte) in uuid.into_iter().enumerate() {
        write!(out, "{byte:02x}")?;
        if HYPHENS_BEHIND.contains(&place) {
            out.write_char('-')?;
        }
    }
    Ok(())
}

/// The UUID of version 4 with these random bits.
pub const fn random_uuid(bits: u128) -> [u8; UUID_BYTES] {
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    bits.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(uuid: [u8; UUID_BYTES]) -> String {
        let mut out = String::new();
        format_uuid(&mut out, uuid).unwrap();
        out
    }

    /// Those of PostgreSQL's documentation, and others that it takes.
    #[test]
    fn forms() {
        for written in [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd38-0a11",
        ] {
            let uuid = parse_uuid(written).unwrap_or_else(|| panic!("{written}"));
            assert_eq!(text(uuid), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        }
    }

    #[test]
    fn what_is_none() {
        for written in [
            "",
            "{}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "-a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0e-ebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ",
            "ä0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert_eq!(parse_uuid(written), None, "{written}");
        }
    }

    #[test]
    fn random_ones_say_so() {
        assert_eq!(text(random_uuid(0)), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(random_uuid(u128::MAX)), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
