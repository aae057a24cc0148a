//! Detection of statement ends in incremental text.
//!
//! The rules are those of the parser's tokenizer. The two agree on all texts that parse; should they disagree, a cut
//! would not parse as one statement, which is merely an error.

use datafusion::common::Result;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, TokenizerError};
use thermocline_pushdown::user_err;

use super::token::{Inside, Meaning, tail, token};

/// Limit on bytes of a statement: it is kept in memory until its end, and its tokens are much larger.
pub const STATEMENT_BYTES_MAX: usize = 64 << 20;

/// Completeness of the text read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Only whitespace and comments.
    Blank,
    /// An unfinished statement.
    Open,
    /// Complete statements, each with its `;`, and commands.
    Complete,
}

/// A statement or command cut from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut<'a> {
    /// A statement without its `;`, or a command from its backslash or period to the end of its line.
    pub text: &'a str,
    /// Its beginning.
    pub at: Location,
    /// Whether it is a command.
    pub is_command: bool,
}

/// Cuts a text into statements and commands while it is read. Semicolons in strings, comments and bodies of procedures
/// do not end statements.
///
/// Invariants: `located <= at <= text.len()`; `begun` starts at or behind `located`.
#[derive(Debug)]
pub struct Scanner {
    /// Text that is still needed.
    text: String,
    /// Scanned bytes of the text.
    at: usize,
    /// Token that contains the position `at`.
    inside: Inside,
    /// Statement that continues at `at`; `None` between two statements.
    begun: Option<Begun>,
    /// A byte offset whose line and column are known.
    located: usize,
    location: Location,
    /// Whether the text is complete.
    is_ended: bool,
    /// Whether backslashes, and periods before letters, begin commands between statements.
    has_commands: bool,
    /// Whether a statement has ended, even an empty one.
    has_ends: bool,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Its first byte.
    offset: usize,
    at: Location,
    is_command: bool,
}

impl Scanner {
    /// A scanner without text.
    pub fn new(has_commands: bool) -> Self {
        Self {
            text: String::new(),
            at: 0,
            inside: Inside::Nothing,
            begun: None,
            located: 0,
            location: Location::new(1, 1),
            is_ended: false,
            has_commands,
            has_ends: false,
        }
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) {
        let needed = self.begun.map_or(self.at, |begun| begun.offset);
        self.locate(needed);
        self.text.drain(..needed);
        self.at -= needed;
        self.located = 0;
        if let Some(begun) = &mut self.begun {
            begun.offset = 0;
        }
        self.text.push_str(text);
    }

    /// Marks the end of the text, which ends an unfinished statement.
    pub const fn end(&mut self) {
        self.is_ended = true;
    }

    /// Cuts off the next complete statement or command; `None` if more text is needed.
    ///
    /// # Errors
    /// Unclosed comments, unclosed quotes in commands, and statements that are too long.
    pub fn next_cut(&mut self) -> Result<Option<Cut<'_>>> {
        loop {
            let from = self.at;
            if self.inside != Inside::Nothing {
                let (used, is_over) = self.inside.pass(tail(&self.text, from), self.is_ended);
                self.at += used;
                if let Some(begun) = self.begun.filter(|begun| begun.is_command)
                    && self.inside != Inside::LineComment
                    && self.text.get(from..self.at).is_some_and(|passed| passed.contains('\n'))
                {
                    return unclosed_in_command(begun.at);
                }
                if !is_over {
                    break;
                }
                self.inside = Inside::Nothing;
                continue;
            }
            let Some((used, inside, meaning)) = token(tail(&self.text, from), self.is_ended) else {
                break;
            };
            self.at += used;
            self.inside = inside;
            match (meaning, self.begun) {
                (Meaning::Newline, Some(begun)) if begun.is_command => return Ok(Some(self.take(begun, from))),
                (Meaning::Semicolon, Some(begun)) if !begun.is_command => return Ok(Some(self.take(begun, from))),
                (Meaning::Semicolon, None) => self.has_ends = true,
                (Meaning::Space | Meaning::Newline, _) | (_, Some(_)) => {}
                (Meaning::Command, None) if self.has_commands => self.begin(from, true),
                (Meaning::Command | Meaning::Part, None) => self.begin(from, false),
            }
        }
        if self.is_ended { self.rest() } else { self.check_length() }
    }

    /// Completeness of the text so far. Skips complete statements.
    pub fn completeness(&mut self) -> Completeness {
        loop {
            match self.next_cut() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Running it returns the error.
                Err(_) => return Completeness::Complete,
            }
        }
        match (self.begun.is_some() || matches!(self.inside, Inside::BlockComment { .. }), self.has_ends) {
            (true, _) => Completeness::Open,
            (false, true) => Completeness::Complete,
            (false, false) => Completeness::Blank,
        }
    }

    fn begin(&mut self, offset: usize, is_command: bool) {
        self.locate(offset);
        self.begun = Some(Begun { offset, at: self.location, is_command });
    }

    fn take(&mut self, begun: Begun, end: usize) -> Cut<'_> {
        self.begun = None;
        self.has_ends = true;
        let text = self.text.get(begun.offset..end).unwrap_or_default().trim_end();
        Cut { text, at: begun.at, is_command: begun.is_command }
    }

    /// The statement that ends with the text.
    fn rest(&mut self) -> Result<Option<Cut<'_>>> {
        let is_comment = matches!(self.inside, Inside::BlockComment { .. });
        let is_closed = matches!(self.inside, Inside::Nothing | Inside::LineComment);
        self.at = self.text.len();
        self.inside = Inside::Nothing;
        match self.begun {
            Some(begun) if begun.is_command && !is_closed => unclosed_in_command(begun.at),
            // The parser reports an unclosed quote.
            Some(begun) => Ok(Some(self.take(begun, self.at))),
            None if is_comment => {
                self.locate(self.at);
                let message = "Unexpected EOF while in a multi-line comment".to_owned();
                Err(ParserError::from(TokenizerError { message, location: self.location }).into())
            }
            None => Ok(None),
        }
    }

    fn check_length(&self) -> Result<Option<Cut<'_>>> {
        let begun = self.begun.filter(|begun| self.text.len() - begun.offset > STATEMENT_BYTES_MAX);
        begun.map_or(Ok(None), |begun| {
            let (line, most) = (begun.at.line, STATEMENT_BYTES_MAX >> 20);
            user_err!(
                LimitExceeded,
                "line {line}: a statement has no end within {most} MiB, which is the most that one may have"
            )
        })
    }

    /// Finds line and column of a byte.
    fn locate(&mut self, offset: usize) {
        let passed = self.text.get(self.located..offset).unwrap_or_default();
        let lines = passed.bytes().filter(|byte| *byte == b'\n').count() as u64;
        let last = passed.rsplit_once('\n').map_or(passed, |(_, last)| last).chars().count() as u64;
        let column = if lines > 0 { 1 } else { self.location.column };
        self.location = Location::new(self.location.line + lines, column + last);
        self.located = offset;
    }
}

fn unclosed_in_command<T>(at: Location) -> Result<T> {
    user_err!(Syntax, "line {}: a quote is not closed in the line of its command", at.line)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
    use thermocline_syntax::SqlDialect;

    use super::Completeness::{Blank, Complete, Open};
    use super::*;

    #[test]
    fn statements_end_with_a_semicolon_outside_of_quotes_and_comments() {
        for (text, expected) in [
            ("", Blank),
            (" \n\t", Blank),
            ("-- nothing", Blank),
            ("-- nothing; here\n", Blank),
            ("/* nothing; */ ", Blank),
            ("/* open", Open),
            ("/* a /* b */ c", Open),
            ("/* a /* b */ c */", Blank),
            (";", Complete),
            ("select 1", Open),
            ("select 1;", Complete),
            ("select 1; -- done", Complete),
            ("select 1; /* done */\n", Complete),
            ("select 1; /* not", Open),
            ("select 1; select 2", Open),
            ("select 1; select 2;", Complete),
            ("select ';", Open),
            ("select ';'", Open),
            ("select ';';", Complete),
            ("select 'it''s;", Open),
            ("select 'it''s';", Complete),
            (r"select 'back\';", Complete),
            (r"select E'it\'s;", Open),
            (r"select e'it\'s;';", Complete),
            (r"select fie'\';", Complete),
            (r"select E'a''\'';", Complete),
            ("select \";", Open),
            ("select \"a;b\";", Complete),
            ("select `a;", Open),
            ("select 1 -- it's;", Open),
            ("select 1 -- it's;\n;", Complete),
            ("select 1 - -1;", Complete),
            ("select 4 / 2 * 1;", Complete),
            ("select 4 //* 2;", Open),
            ("select $$a;b", Open),
            ("select $$a;b$$;", Complete),
            ("select $t$a;$$b", Open),
            ("select $t$a;$$b$t$;", Complete),
            ("select $1;", Complete),
            ("select a$b$c;", Complete),
            ("select 'größe;", Open),
            ("select 'größe';", Complete),
            (r"select 1_e'\';", Open),
            ("\\d t", Complete),
            ("\\i it's.sql", Complete),
            ("select 1; \\timing", Complete),
            ("select 1 \\timing", Open),
        ] {
            let mut scanner = Scanner::new(true);
            scanner.push(text);
            scanner.push("\n");
            assert_eq!(scanner.completeness(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_statement_is_cut_off_at_its_semicolon_and_a_command_at_the_end_of_its_line() {
        let mut scanner = Scanner::new(true);
        let mut cuts = |text: &str| {
            scanner.push(text);
            let mut cuts = vec![];
            while let Some(Cut { text, at, .. }) = scanner.next_cut().unwrap() {
                cuts.push((text.to_owned(), at.line, at.column));
            }
            cuts
        };
        assert_eq!(cuts("SELECT"), []);
        assert_eq!(cuts(" 1"), []);
        assert_eq!(cuts(";"), [("SELECT 1".to_owned(), 1, 1)]);
        assert_eq!(cuts(" -- a\n\n  SELECT 'ü"), []);
        let two = [("SELECT 'ü\n'';'".to_owned(), 3, 3), ("SELECT 3".to_owned(), 4, 8)];
        assert_eq!(cuts("\n'';' ; SELECT 3; \\i a"), two);
        assert_eq!(cuts(" b"), []);
        assert_eq!(cuts("\n"), [("\\i a b".to_owned(), 4, 18)]);
    }

    #[test]
    fn a_statement_without_an_end_is_refused_before_memory_is_full() {
        let mut scanner = Scanner::new(true);
        scanner.push("SELECT 1;\nSELECT '");
        let piece = "x".repeat(STATEMENT_BYTES_MAX / 16);
        assert_eq!(scanner.next_cut().unwrap().map(|cut| cut.text.to_owned()), Some("SELECT 1".to_owned()));
        for _ in 0..15 {
            scanner.push(&piece);
            assert_eq!(scanner.next_cut().unwrap(), None);
        }
        scanner.push(&piece);
        let error = scanner.next_cut().unwrap_err().to_string();
        assert!(error.contains("line 2: a statement has no end within 64 MiB"), "{error}");
        // Comments are not kept in memory.
        let mut scanner = Scanner::new(true);
        scanner.push("/*");
        for _ in 0..20 {
            scanner.push(&piece);
            assert_eq!(scanner.next_cut().unwrap(), None);
        }
        assert!(scanner.text.len() <= 2 * piece.len());
    }

    /// Random number generator (SplitMix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ mixed >> 31) % most as u64) as usize
        }
    }

    /// The statements of a text according to the parser's tokenizer, and whether it accepts the whole text.
    fn by_tokenizer(text: &str) -> (Vec<String>, bool) {
        let mut tokens = vec![];
        let is_all = Tokenizer::new(&SqlDialect::of(0), text).tokenize_with_location_into_buf(&mut tokens).is_ok();
        let offset = |at: Location| {
            let before: usize = text.split_inclusive('\n').take(at.line as usize - 1).map(str::len).sum();
            let in_line = text[before..].chars().take(at.column as usize - 1);
            before + in_line.map(char::len_utf8).sum::<usize>()
        };
        let (mut found, mut from) = (vec![], None);
        for token in tokens {
            match token.token {
                Token::Whitespace(_) => {}
                Token::SemiColon => {
                    let end = offset(token.span.start);
                    found.extend(from.take().map(|from: usize| text[from..end].trim_end().to_owned()));
                }
                _ => from = from.or(Some(offset(token.span.start))),
            }
        }
        if is_all {
            found.extend(from.map(|from| text[from..].trim_end().to_owned()));
        }
        (found, is_all)
    }

    #[test]
    fn texts_are_cut_where_the_parsers_tokenizer_would_in_whatever_pieces_they_come() {
        const PARTS: [&str; 47] = [
            "'", "'", "\"", "`", "$", "$$", "$a$", "$1", "a", "E", "e'", "r", "R'", "r\"", "q'[", "]'", "nq'x", "x'",
            "X", "b'", "b\"", "n'", "u&'", "\\", "-", "--", "/", "*", "/*", "*/", "|", ";", ";", ";", "\n", "\r\n",
            " ", "ü", "1", "1.5e3", "0x", "L", ".", "_", "'''", "<", "=",
        ];
        let mut whole = 0;
        for seed in 0..60_000 {
            let mut random = Random(seed);
            let count = 1 + random.below(14);
            let text: String = (0..count).map(|_| PARTS[random.below(PARTS.len())]).collect();
            let mut scanner = Scanner::new(false);
            let (mut cuts, mut rest) = (vec![], text.as_str());
            let error = loop {
                match scanner.next_cut().map(|cut| cut.map(|cut| cut.text.to_owned())) {
                    Ok(Some(cut)) => cuts.push(cut),
                    Ok(None) if scanner.is_ended => break None,
                    Ok(None) if rest.is_empty() => scanner.end(),
                    Ok(None) => {
                        let piece = rest.chars().take(1 + random.below(3)).map(char::len_utf8).sum();
                        scanner.push(&rest[..piece]);
                        rest = &rest[piece..];
                    }
                    Err(error) => break Some(error),
                }
            };
            let (expected, is_all) = by_tokenizer(&text);
            assert!(cuts.starts_with(&expected), "seed {seed}: {text:?}: {cuts:?}, not {expected:?}");
            assert!(
                !is_all || cuts == expected && error.is_none(),
                "seed {seed}: {text:?}: {cuts:?}, not {expected:?}"
            );
            whole += usize::from(is_all);
        }
        assert!(whole > 10_000, "{whole} texts without an error are too few");
    }
}
