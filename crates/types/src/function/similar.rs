//! Patterns of SIMILAR TO.

use crate::error::{Class, Result};

/// The regular expression equivalent to `SIMILAR TO pattern`: it matches the whole text, with `%` for any text and `_`
/// for any character.
pub(super) fn similar_pattern(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::from("^(?s:");
    let mut characters = pattern.chars();
    let mut is_in_set = false;
    while let Some(next) = characters.next() {
        match next {
            next if Some(next) == escape => match characters.next() {
                Some('"') => return Err(Class::InvalidEscape.error("SQL regular expression has no separators here")),
                Some(literal) => {
                    if !literal.is_ascii_alphanumeric() && literal.is_ascii() {
                        out.push('\\');
                    }
                    out.push(literal);
                }
                None => out.push_str("\\\\"),
            },
            ']' if is_in_set => {
                out.push(next);
                is_in_set = false;
            }
            '\\' => out.push_str("\\\\"),
            next if is_in_set => out.push(next),
            '[' => {
                out.push(next);
                is_in_set = true;
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => out.extend(['\\', next]),
            next => out.push(next),
        }
    }
    out.push_str(")$");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, expected) in [
            ("a%", "^(?s:a.*)$"),
            ("a_|(b.)*", "^(?s:a.|(?:b\\.)*)$"),
            ("[%_]\\%", "^(?s:[%_]\\%)$"),
            ("a{2}$", "^(?s:a{2}\\$)$"),
        ] {
            assert_eq!(similar_pattern(pattern, Some('\\')).unwrap(), expected);
        }
        assert_eq!(similar_pattern("a!%", Some('!')).unwrap(), "^(?s:a\\%)$");
        assert_eq!(similar_pattern("\\%", None).unwrap(), "^(?s:\\\\.*)$");
    }
}
