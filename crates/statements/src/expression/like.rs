//! `LIKE`.

use thermocline_types::{Class, Result};

/// A parsed `LIKE` pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// `%`
    Any,
    /// `_`
    One,
    Literal(char),
}

impl Pattern {
    /// Upper bound on bytes of memory while the pattern is parsed, when its list of tokens doubles.
    pub const fn bytes_of(pattern: &str) -> usize {
        pattern.len().saturating_mul(3 * size_of::<Token>())
    }

    /// Bytes of memory on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.tokens.capacity() * size_of::<Token>()
    }

    /// Parses a pattern; `escape` makes the character after it a literal.
    pub fn parse(pattern: &str, escape: Option<char>, ignore_case: bool) -> Result<Self> {
        let mut tokens = Vec::new();
        let mut characters = pattern.chars();
        while let Some(next) = characters.next() {
            match next {
                _ if Some(next) == escape => {
                    let literal = characters
                        .next()
                        .ok_or_else(|| Class::InvalidEscape.error("LIKE pattern must not end with escape character"))?;
                    push_literal(&mut tokens, literal, ignore_case);
                }
                '%' if tokens.last() == Some(&Token::Any) => {}
                '%' => tokens.push(Token::Any),
                '_' => tokens.push(Token::One),
                literal => push_literal(&mut tokens, literal, ignore_case),
            }
        }
        Ok(Self { tokens })
    }

    /// Whether the text matches. If the pattern ignores case, the text must be in lower case.
    pub fn matches(&self, text: &str) -> bool {
        // Where to retry, one character further, if the tokens after the last % do not match.
        let mut retry: Option<(&[Token], std::str::Chars<'_>)> = None;
        let (mut tokens, mut rest) = (self.tokens.as_slice(), text.chars());
        loop {
            match tokens.split_first() {
                Some((Token::Any, after)) => {
                    if after.is_empty() {
                        return true;
                    }
                    tokens = after;
                    retry = Some((after, rest.clone()));
                    continue;
                }
                Some((token, after)) => {
                    let next = rest.next();
                    if next.is_some_and(|next| *token == Token::One || *token == Token::Literal(next)) {
                        tokens = after;
                        continue;
                    }
                    if next.is_none() {
                        return false;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            let Some((after, mut from)) = retry.take() else { return false };
            if from.next().is_none() {
                return false;
            }
            (tokens, rest) = (after, from.clone());
            retry = Some((after, from));
        }
    }
}

fn push_literal(tokens: &mut Vec<Token>, literal: char, ignore_case: bool) {
    if ignore_case {
        tokens.extend(literal.to_lowercase().map(Token::Literal));
    } else {
        tokens.push(Token::Literal(literal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("a_c", "aäc", true),
            ("a_c", "ac", false),
            ("%ab%ab", "abxab", true),
            ("%ab%ab", "ab", false),
            ("_%_", "a", false),
            ("_%_", "ab", true),
            ("50\\%", "50%", true),
            ("50\\%", "505", false),
            ("%a%b%c", "xaxbxcxc", true),
        ] {
            let pattern = Pattern::parse(pattern, Some('\\'), false).unwrap();
            assert_eq!(pattern.matches(text), expected, "{text} like {pattern:?}");
        }
        assert_eq!(Pattern::parse("a\\", Some('\\'), false).unwrap_err().sqlstate(), "22025");
    }

    /// Matching does not take exponential time.
    #[test]
    fn many_wildcards() {
        let pattern = Pattern::parse(&"%a".repeat(50), None, false).unwrap();
        assert!(!pattern.matches(&"a".repeat(49)));
        assert!(pattern.matches(&"a".repeat(5000)));
        let pattern = Pattern::parse(&format!("{}b", "%a".repeat(50)), None, false).unwrap();
        assert!(!pattern.matches(&"a".repeat(5000)));
    }
}
