//! Tokens of an incomplete text, as far as they determine where statements end.
//!
//! ```text
//!            ' " ` $tag$          the same again
//!   plain ----------------> quoted ------------> plain
//!         ---------------> comment ------------> plain
//!            -- /*           newline, */
//! ```
//!
//! Follows the tokenizer of `sqlparser` in the dialect of `thermocline-syntax`, which accepts complete texts only and
//! would read all text again for each new piece.

/// Token in which characters have no separate meaning.
#[derive(Debug, PartialEq, Eq)]
pub enum Inside {
    /// No such token.
    Nothing,
    /// Ends with the line.
    LineComment,
    /// Comments nest.
    BlockComment {
        /// Number of open comments.
        depth: usize,
    },
    /// A quoted text or name, which a doubled quote does not end.
    Quoted {
        /// The quote character.
        quote: char,
        /// Whether a backslash escapes a quote.
        backslash_escapes: bool,
    },
    /// A dollar-quoted text, up to this tag.
    Until(String),
}

/// Role of a token at the end of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// No role.
    Space,
    /// Ends a command.
    Newline,
    /// Ends a statement.
    Semicolon,
    /// Begins a command, between two statements: a backslash, or a period before a letter.
    Command,
    /// Belongs to a statement, or begins one.
    Part,
}

impl Inside {
    /// Number of bytes at the start of `rest` that belong to the token, and whether it ends there.
    pub fn pass(&mut self, rest: &str, is_ended: bool) -> (usize, bool) {
        match self {
            Self::Nothing => (0, true),
            // The newline may end a command, too.
            Self::LineComment => rest.find('\n').map_or((rest.len(), is_ended), |at| (at, true)),
            Self::BlockComment { depth } => pass_comment(rest, depth),
            Self::Quoted { quote, backslash_escapes } => pass_quoted(rest, *quote, *backslash_escapes, is_ended),
            Self::Until(end) => match rest.find(end.as_str()) {
                Some(at) => (at + end.len(), true),
                // The text may end within the tag.
                None => (rest.floor_char_boundary(rest.len().saturating_sub(end.len() - 1)), false),
            },
        }
    }
}

/// Rest of a text.
pub fn tail(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

fn pass_comment(rest: &str, depth: &mut usize) -> (usize, bool) {
    let mut at = 0;
    while let Some(next) = tail(rest, at).find(['/', '*']) {
        let found = tail(rest, at + next);
        if found.len() < 2 {
            return (at + next, false);
        }
        at += next;
        if found.starts_with("/*") {
            *depth += 1;
            at += 2;
        } else if found.starts_with("*/") {
            *depth -= 1;
            at += 2;
            if *depth == 0 {
                return (at, true);
            }
        } else {
            at += 1;
        }
    }
    (rest.len(), false)
}

fn pass_quoted(rest: &str, quote: char, backslash_escapes: bool, is_ended: bool) -> (usize, bool) {
    let mut at = 0;
    while let Some(next) = tail(rest, at).find(|c| c == quote || c == '\\' && backslash_escapes) {
        let found = at + next;
        let mut after = tail(rest, found).chars();
        let is_quote = after.next() == Some(quote);
        match after.next() {
            None => return if is_quote && is_ended { (found + 1, true) } else { (found, false) },
            Some(doubled) if is_quote && doubled != quote => return (found + 1, true),
            Some(second) => at = found + 1 + second.len_utf8(),
        }
    }
    (rest.len(), false)
}

/// The token at the start of `rest`: its length in bytes, or that of its opening; the state behind it; its meaning.
/// `None` if there is no token, or more text is needed.
pub fn token(rest: &str, is_ended: bool) -> Option<(usize, Inside, Meaning)> {
    use Inside::{BlockComment, LineComment, Nothing, Until};
    use Meaning::{Command, Newline, Part, Semicolon, Space};
    let quoted = |quote| Inside::Quoted { quote, backslash_escapes: false };
    let first = rest.chars().next()?;
    let second = rest.chars().nth(1);
    let may_go_on = second.is_none() && !is_ended;
    Some(match first {
        '\n' => (1, Nothing, Newline),
        ';' => (1, Nothing, Semicolon),
        '\\' => (1, Nothing, Command),
        '.' if second.is_some_and(|c| c.is_ascii_alphabetic()) => (1, Nothing, Command),
        '\'' | '"' | '`' => (1, quoted(first), Part),
        '-' | '/' | '|' if may_go_on => return None,
        '-' if second == Some('-') => (2, LineComment, Space),
        '/' if second == Some('*') => (2, BlockComment { depth: 1 }, Space),
        '|' if second == Some('/') => (2, Nothing, Part),
        '$' => {
            let tag = tail(rest, 1).find(|c: char| !c.is_alphanumeric() && c != '_').map(|at| at + 1);
            match tag {
                None if !is_ended => return None,
                Some(end) if tail(rest, end).starts_with('$') => {
                    (end + 1, Until(rest.get(..=end).unwrap_or_default().to_owned()), Part)
                }
                end => (end.unwrap_or(rest.len()), Nothing, Part),
            }
        }
        _ if first.is_alphabetic() || first == '_' || is_beyond_ascii(first) => {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            return word(rest, end, is_ended).map(|(used, inside)| (used, inside, Part));
        }
        '0'..='9' | '.' => {
            let end = number(rest);
            // More digits, or an exponent, may follow.
            let unfinished = ["", "_", "e", "E", "e+", "e-", "E+", "E-"];
            if !is_ended && unfinished.contains(&tail(rest, end)) {
                return None;
            }
            (end, Nothing, Part)
        }
        _ if first.is_whitespace() => (first.len_utf8(), Nothing, Space),
        _ => (first.len_utf8(), Nothing, Part),
    })
}

fn is_word(c: char) -> bool {
    c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '$') || is_beyond_ascii(c)
}

/// Whether a non-ASCII character may be part of a name. PostgreSQL allows all, even spaces.
fn is_beyond_ascii(c: char) -> bool {
    !c.is_ascii() && !c.is_whitespace()
}

/// Length of a number, or of a period. A letter directly behind it begins a word.
fn number(rest: &str) -> usize {
    let digits = |from: usize| from + digits(tail(rest, from), u8::is_ascii_digit);
    if let Some(hex) = rest.strip_prefix("0x") {
        return 2 + self::digits(hex, u8::is_ascii_hexdigit);
    }
    let mut end = digits(0);
    if tail(rest, end).starts_with('.') {
        end = digits(end + 1);
        if end == 1 {
            return end;
        }
    }
    if tail(rest, end).starts_with(['e', 'E']) {
        let from = end + 1 + usize::from(tail(rest, end + 1).starts_with(['+', '-']));
        end = Some(digits(from)).filter(|last| *last > from).unwrap_or(end);
    }
    end + usize::from(tail(rest, end).starts_with('L'))
}

/// Length of digits with underscores between them. Like the tokenizer, accepts a hexadecimal digit behind an underscore
/// in any number.
fn digits(rest: &str, is_digit: impl Fn(&u8) -> bool) -> usize {
    let bytes = rest.as_bytes();
    let is_separator = |at: usize, byte: &u8| *byte == b'_' && bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().take_while(|(at, byte)| is_digit(byte) || is_separator(*at, byte)).count()
}

/// A word that ends at `end`, which may be the prefix of a string directly behind it.
fn word(rest: &str, end: usize, is_ended: bool) -> Option<(usize, Inside)> {
    let behind = tail(rest, end);
    let Some(quote) = behind.chars().next() else { return is_ended.then_some((end, Inside::Nothing)) };
    let word = rest.get(..end).unwrap_or_default();
    let is = |kinds: &[&str]| kinds.iter().any(|kind| word.eq_ignore_ascii_case(kind));
    Some(match quote {
        '\'' if is(&["e", "x"]) => (end + 1, Inside::Quoted { quote, backslash_escapes: true }),
        _ => (end, Inside::Nothing),
    })
}
