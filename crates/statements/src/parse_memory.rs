//! Estimate of parser memory, made before parsing.

use memchr::memmem;

/// Bytes of a token in the list of tokens, which grows by doubling.
const TOKEN_BYTES: usize = 88;
/// Bytes of a word, a number or a quoted text in the syntax tree and the plan.
const WORD_BYTES: usize = 480;
/// Bytes of a sign that may be an operator, likewise.
const SIGN_BYTES: usize = 380;
/// Bytes of a call, or of any other word followed by a parenthesis, likewise.
const CALL_BYTES: usize = 3000;
/// Bytes of an element of a list; a list has room for at least four.
const PLACE_BYTES: usize = 328;
const PLACES_MIN: u8 = 4;
/// Levels of parentheses that are distinguished; the parser rejects as many.
const DEPTH_MAX: usize = 64;
/// Simultaneous copies of a quoted text: in the token, whose buffer doubles while it is read, in the parser, in the
/// syntax tree, and in the plan and its copies.
const COPIES: usize = 6;

/// Upper bound on bytes of memory while a text is parsed and bound, not counting what the schema adds, such as the
/// columns of a star.
///
/// Counts the tokens, because the length of a text says little: a byte of a list of numbers takes hundreds of bytes, a
/// byte of a literal only a few.
pub fn parse_bytes(sql: &str) -> usize {
    let TokenCounts { words, signs, calls, others, places, quoted_bytes } = TokenCounts::of(sql.as_bytes());
    let list = (words + signs + calls + others).next_power_of_two().saturating_mul(TOKEN_BYTES);
    let tree = words * WORD_BYTES + signs * SIGN_BYTES + calls * CALL_BYTES + places * PLACE_BYTES;
    list.saturating_add(tree).saturating_add(quoted_bytes * COPIES + sql.len())
}

/// Tokens of a text, by memory class.
#[derive(Debug, Default, PartialEq, Eq)]
struct TokenCounts {
    /// Words, numbers and quoted texts.
    words: usize,
    /// Signs that may be operators.
    signs: usize,
    /// Opening parentheses behind words.
    calls: usize,
    /// Whitespace (each character is a token), comments, commas, and other parentheses.
    others: usize,
    /// Unused elements of lists in parentheses.
    places: usize,
    /// Bytes of quoted texts and comments.
    quoted_bytes: usize,
}

impl TokenCounts {
    fn of(text: &[u8]) -> Self {
        let mut tokens = Self::default();
        let (mut rest, mut behind_word) = (text, false);
        // Unused elements of each open list.
        let (mut lists, mut depth) = ([0_u8; DEPTH_MAX], 0_usize);
        while let Some((first, behind)) = rest.split_first() {
            let mut is_word = false;
            let length = match first {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    // Space may separate a word from its parenthesis.
                    is_word = behind_word;
                    tokens.others += 1;
                    1
                }
                b'-' if behind.starts_with(b"-") => tokens.comment(memchr::memchr(b'\n', rest).unwrap_or(rest.len())),
                b'/' if behind.starts_with(b"*") => tokens.comment(comment(rest)),
                b'E' | b'e' if behind.starts_with(b"'") => tokens.quoted(1 + quoted(behind, b'\'', true)),
                b'\'' | b'"' | b'`' => tokens.quoted(quoted(rest, *first, false)),
                b'$' => tokens.quoted(dollar_quoted(rest)),
                b'(' => {
                    if let Some(places) = lists.get_mut(depth) {
                        *places = if behind_word { 0 } else { PLACES_MIN - 1 };
                    }
                    depth += 1;
                    *(if behind_word { &mut tokens.calls } else { &mut tokens.others }) += 1;
                    1
                }
                b',' | b')' => {
                    let list = depth.checked_sub(1).and_then(|last| lists.get_mut(last));
                    match list {
                        Some(places) if *first == b',' => *places = places.saturating_sub(1),
                        Some(places) => tokens.places += usize::from(*places),
                        None => {}
                    }
                    depth -= usize::from(*first == b')' && depth > 0);
                    tokens.others += 1;
                    1
                }
                b';' => {
                    tokens.others += 1;
                    1
                }
                first if is_word_byte(*first) => {
                    is_word = true;
                    tokens.words += 1;
                    let is_number = first.is_ascii_digit();
                    rest.iter().take_while(|byte| is_word_byte(**byte) || is_number && **byte == b'.').count()
                }
                _ => {
                    tokens.signs += 1;
                    1
                }
            };
            behind_word = is_word;
            rest = rest.get(length.max(1)..).unwrap_or_default();
        }
        tokens
    }

    fn comment(&mut self, length: usize) -> usize {
        self.others += 1;
        self.quoted_bytes += length;
        length
    }

    fn quoted(&mut self, length: usize) -> usize {
        self.words += 1;
        self.quoted_bytes += length;
        length
    }
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The length of a quoted text including the quotes; up to the end if the closing quote is missing.
fn quoted(text: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let found = if escapes { memchr::memchr2(quote, b'\\', rest) } else { memchr::memchr(quote, rest) };
        let Some(found) = found else { return text.len() };
        // A doubled or escaped quote does not end the text.
        if rest.get(found) == Some(&quote) && rest.get(found + 1) != Some(&quote) {
            return at + found + 1;
        }
        at += found + 2;
    }
}

/// The length of `$tag$ text $tag$`; 1 if the text does not begin with a tag.
fn dollar_quoted(text: &[u8]) -> usize {
    let tag = text.iter().skip(1).take_while(|byte| is_word_byte(**byte)).count() + 1;
    let Some((opening, behind)) = text.split_at_checked(tag + 1).filter(|(opening, _)| opening.ends_with(b"$")) else {
        return 1;
    };
    memmem::find(behind, opening).map_or(text.len(), |at| opening.len() + at + opening.len())
}

/// The length of a comment; comments nest.
fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1_usize);
    while depth > 0 {
        let rest = text.get(at..).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'*', b'/', rest) else { return text.len() };
        match rest.get(found..found + 2) {
            Some(b"*/") => (depth, at) = (depth - 1, at + found + 2),
            Some(b"/*") => (depth, at) = (depth + 1, at + found + 2),
            Some(_) => at += found + 1,
            None => return text.len(),
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_they_are_read() {
        for (text, words, signs, calls, others, places, quoted_bytes) in [
            ("", 0, 0, 0, 0, 0, 0),
            ("SELECT 1.5", 2, 0, 0, 1, 0, 0),
            ("a + b, c.d", 4, 2, 0, 4, 0, 0),
            ("abs (a), ((b))", 3, 0, 1, 8, 6, 0),
            ("(1), (1, 2, 3), (1, f(2, 3), 4, 5, 6)", 11, 0, 1, 25, 4, 0),
            (")),(", 0, 0, 0, 4, 0, 0),
            ("'a, b'", 1, 0, 0, 0, 0, 6),
            ("'it''s' ''''", 2, 0, 0, 1, 0, 11),
            ("E'it\\'s' x", 2, 0, 0, 1, 0, 8),
            ("'a\\' x", 2, 0, 0, 1, 0, 4),
            ("\"a b\" 'open, 1, 2", 2, 0, 0, 1, 0, 16),
            ("$$ a, b $$ $x$ $$ $x$ $1", 4, 0, 0, 2, 0, 21),
            ("-- a, b\nc", 1, 0, 0, 2, 0, 7),
            ("/* a /* b */ c */ d", 1, 0, 0, 2, 0, 17),
            ("/* open", 0, 0, 0, 1, 0, 7),
        ] {
            let tokens = TokenCounts { words, signs, calls, others, places, quoted_bytes };
            assert_eq!(TokenCounts::of(text.as_bytes()), tokens, "{text}");
        }
    }
}
