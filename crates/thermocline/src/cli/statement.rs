//! Where a statement ends, while it is being typed.
//!
//! ```text
//!            ' " ` $tag$          the same again
//!   plain ----------------> quoted ------------> plain
//!         ---------------> comment ------------> plain
//!            -- /*           newline, */
//! ```
//!
//! Follows the tokenizer of `sqlparser`'s generic dialect, for what matters to finding a `;`.

/// What a text holds so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Nothing but space and comments.
    Blank,
    /// A statement without its end.
    Open,
    /// Whole statements, each with its `;`.
    Complete,
}

/// Whether `text` can be run, or more must be typed.
pub fn completeness(text: &str) -> Completeness {
    let mut found = Completeness::Blank;
    let mut rest = text;
    // The character before, to tell `E'` from `fie'` and `a$b` from `$b$`.
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let (next, closed) = if rest.starts_with("--") {
            // A comment may stay open: the next line is not part of it.
            (rest.find('\n').map_or("", |at| rest.get(at..).unwrap_or_default()), true)
        } else if rest.starts_with("/*") {
            match block_comment(rest) {
                Some(next) => (next, true),
                None => return Completeness::Open,
            }
        } else if c.is_whitespace() {
            (after, true)
        } else if c == ';' {
            // An empty statement runs as nothing, but it is one.
            found = Completeness::Complete;
            (after, true)
        } else {
            found = Completeness::Open;
            match c {
                '\'' if matches!(before, 'e' | 'E') && escapes(text, rest) => closing(after, c, true),
                '\'' | '"' | '`' => closing(after, c, false),
                '$' if !is_word(before) => dollar_quoted(rest).unwrap_or((after, true)),
                _ => (after, true),
            }
        };
        if !closed {
            return Completeness::Open;
        }
        before = c;
        rest = next;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the `e` right before `rest` is a word of its own, as in `E'\n'`.
fn escapes(text: &str, rest: &str) -> bool {
    let before = text.get(..text.len() - rest.len()).unwrap_or_default();
    !before.chars().rev().nth(1).is_some_and(is_word)
}

/// What follows the closing `quote`, and whether there is one. A doubled quote closes and opens
/// again, which comes to the same.
fn closing(text: &str, quote: char, backslash_escapes: bool) -> (&str, bool) {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslash_escapes {
            chars.next();
        } else if c == quote {
            let after = text.get(at + c.len_utf8()..).unwrap_or_default();
            // A doubled quote in an escaping string must not lose the escaping.
            if backslash_escapes && after.starts_with(quote) {
                chars.next();
                continue;
            }
            return (after, true);
        }
    }
    ("", false)
}

/// What follows a comment that may hold comments; `None` if it does not end.
fn block_comment(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut rest = text;
    loop {
        if let Some(next) = rest.strip_prefix("/*") {
            depth += 1;
            rest = next;
        } else if let Some(next) = rest.strip_prefix("*/") {
            depth -= 1;
            rest = next;
            if depth == 0 {
                return Some(rest);
            }
        } else {
            let c = rest.chars().next()?;
            rest = rest.get(c.len_utf8()..)?;
        }
    }
}

/// What follows a string like `$tag$ ... $tag$`; `None` if `text` does not begin with one.
fn dollar_quoted(text: &str) -> Option<(&str, bool)> {
    let tag_end = text.get(1..)?.find(|c| !is_word(c))? + 1;
    if !text.get(tag_end..)?.starts_with('$') {
        return None;
    }
    let (tag, body) = text.split_at_checked(tag_end + 1)?;
    if tag.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    Some(body.find(tag).map_or(("", false), |at| (body.get(at + tag.len()..).unwrap_or_default(), true)))
}

#[cfg(test)]
mod tests {
    use super::Completeness::{Blank, Complete, Open};
    use super::completeness;

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
            ("select $$a;b", Open),
            ("select $$a;b$$;", Complete),
            ("select $t$a;$$b", Open),
            ("select $t$a;$$b$t$;", Complete),
            ("select $1;", Complete),
            ("select a$b$c;", Complete),
            ("select 'größe;", Open),
            ("select 'größe';", Complete),
        ] {
            assert_eq!(completeness(text), expected, "{text:?}");
        }
    }
}
