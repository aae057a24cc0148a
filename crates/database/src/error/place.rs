//! Positions and hints of errors.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};
use thermocline_syntax::{Tokens, folded_word, nearest};

use super::error::{Error, Position};
use super::translate::{END, meant};

/// Names in a database, for hints.
pub trait Known {
    /// Names of tables and views.
    fn tables(&self) -> Vec<String>;
    /// Names of the columns of a table or view.
    fn columns(&self, table: &str) -> Vec<String>;
    /// Names of functions.
    fn functions(&self) -> Vec<String>;
}

/// First words of statements.
const BEGINNINGS: [&str; 32] = [
    "ALTER",
    "ANALYZE",
    "BACKUP",
    "BEGIN",
    "CALL",
    "COMMIT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "INSERT",
    "MERGE",
    "PREPARE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SELECT",
    "SET",
    "SHOW",
    "START",
    "TABLE",
    "TRUNCATE",
    "UPDATE",
    "USE",
    "VALUES",
    "VACUUM",
    "WITH",
];

impl Error {
    /// Adds a position and a hint. `text` is the statement, which begins at `at` in its script.
    #[must_use]
    pub(crate) fn explained(self, text: &str, at: Location, known: &dyn Known) -> Self {
        // Errors of data, limits and the system have no position; the text may be long.
        if !matches!(self.sqlstate().get(..2), Some("42" | "26")) {
            return self;
        }
        let tokens = Tokens::of(text).map(|tokens| tokens.into_parts().0).unwrap_or_default();
        let error = self.placed(text, at, &tokens);
        error.hinted(&tokens, known)
    }

    fn placed(mut self, text: &str, at: Location, tokens: &[TokenWithSpan]) -> Self {
        let place = |line: u64, column: u64| {
            let number = usize::try_from(line.saturating_sub(at.line)).unwrap_or(usize::MAX);
            let text = text.lines().nth(number).unwrap_or_default().into();
            Position { line, column, text, start: if line == at.line { at.column } else { 1 } }
        };
        // Converts a location in the statement to a position in the script.
        let place_of = |token: &TokenWithSpan| {
            let Location { line, column } = token.span.start;
            place(line + at.line - 1, if line == 1 { column + at.column - 1 } else { column })
        };
        if self.message().ends_with(END) {
            let (last, line) = text.lines().enumerate().last().unwrap_or((0, ""));
            let before = if last == 0 { at.column } else { 1 };
            self.0.position = Some(place(at.line + last as u64, before + line.chars().count() as u64));
            return self;
        }
        if let Some(position) = &mut self.0.position {
            // The parser's position refers to the script already; it may be that of the token behind the one it names.
            let (line, column) = (position.line, position.column);
            *position = place(line, column);
            let column = if line == at.line { (column + 1).saturating_sub(at.column) } else { column };
            let here = ((line + 1).saturating_sub(at.line), column);
            let before = |token: &&TokenWithSpan| (token.span.start.line, token.span.start.column) < here;
            let found = self.0.message.rsplit_once("found: ").map(|(_, found)| found);
            let is_found = |token: &&TokenWithSpan| Some(token.token.to_string().as_str()) == found;
            let is_at = |token: &TokenWithSpan| (token.span.start.line, token.span.start.column) == here;
            if !tokens.iter().filter(|token| is_at(token)).any(|token| is_found(&token))
                && let Some(token) = tokens.iter().filter(before).rfind(is_found)
            {
                *position = place_of(token);
            }
            return self;
        }
        let is_in_text = matches!(
            self.sqlstate(),
            "42P01" | "42703" | "42702" | "42701" | "42883" | "42704" | "42803" | "42809" | "42P02" | "26000"
        );
        let Some(name) = self.named().filter(|_| is_in_text) else { return self };
        let find =
            |name: &str| tokens.iter().find(|token| matches!(&token.token, Token::Word(word) if is_named(word, name)));
        // For `t.c`, `c`.
        let found = find(&name).or_else(|| name.rsplit_once('.').and_then(|(_, last)| find(last)));
        let Some(token) = found else { return self };
        self.0.object.get_or_insert_with(|| name.into());
        self.at(place_of(token))
    }

    /// The name that the error concerns.
    fn named(&self) -> Option<String> {
        if let Some(object) = self.object() {
            return Some(object.to_owned());
        }
        let message = self.message();
        if let Some((_, rest)) = message.split_once('"') {
            return rest.split('"').next().map(str::to_owned);
        }
        let rest = message.strip_prefix("column ").or_else(|| message.strip_prefix("function "))?;
        let name = rest.split([' ', '(']).next()?;
        Some(name.rsplit('.').next().unwrap_or(name).to_owned())
    }

    fn hinted(self, tokens: &[TokenWithSpan], known: &dyn Known) -> Self {
        if self.hint().is_some() {
            return self;
        }
        let words = || {
            tokens.iter().filter_map(|token| match &token.token {
                Token::Word(word) => Some(word),
                _ => None,
            })
        };
        let near = match (self.sqlstate(), self.named()) {
            ("42601", _) => {
                let first =
                    words().next().filter(|word| word.keyword == Keyword::NoKeyword && word.quote_style.is_none());
                let near = first.and_then(|word| nearest(&word.value, BEGINNINGS));
                return match near {
                    Some(near) => self.with_hint(format!("did you mean {near}?")),
                    None => self,
                };
            }
            ("42P01", Some(name)) => nearest(&name, known.tables().iter().map(String::as_str)).map(meant),
            ("42703", Some(name)) => {
                let mentioned = words().map(folded_word);
                let columns: Vec<String> = mentioned.flat_map(|table| known.columns(&table)).collect();
                nearest(&name, columns.iter().map(String::as_str)).map(meant)
            }
            ("42883", Some(name)) => {
                let functions = known.functions();
                let others = functions.iter().map(String::as_str).filter(|known| *known != name);
                nearest(&name, others).map(meant)
            }
            _ => None,
        };
        match near {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }
}

fn is_named(word: &Word, name: &str) -> bool {
    folded_word(word) == name || word.value.eq_ignore_ascii_case(name)
}
