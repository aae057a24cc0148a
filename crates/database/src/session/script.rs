use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use super::statement::{KEYWORDS, Statement, keyword};

/// A text of statements, cut where each ends, up to its first error: what stands before that can be run.
#[derive(Debug, Default)]
pub struct Script {
    /// What there is to do, in order.
    pub parts: Vec<Part>,
    /// What does not parse, and where; `None` if all of it does.
    pub error: Option<DataFusionError>,
}

/// A part of a script.
#[derive(Debug, Clone)]
pub enum Part {
    /// A statement.
    Statement(Statement),
    /// A backslash where a statement could begin, and what stands behind it in its line: a command to whoever runs
    /// the script.
    Command(String),
}

impl Script {
    /// Cuts a text. Semicolons in strings, comments and bodies of procedures do not count.
    pub fn read(text: &str) -> Self {
        let mut script = Self::default();
        script.error = script.cut(text, true).err();
        script
    }

    /// The statements of a text without commands.
    ///
    /// # Errors
    /// If it does not parse; the error names line and column.
    pub(super) fn statements(text: &str) -> Result<Vec<Statement>> {
        let mut script = Self::default();
        script.cut(text, false)?;
        let statement = |part| match part {
            Part::Statement(statement) => Some(statement),
            Part::Command(_) => None,
        };
        Ok(script.parts.into_iter().filter_map(statement).collect())
    }

    fn cut(&mut self, text: &str, commands: bool) -> Result<()> {
        let mut tokens = vec![];
        let tokenized = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
        let mut place = Place { at: Location::new(1, 1), offset: 0 };
        // Where the statement begins that goes on; `None` between two of them.
        let mut first: Option<Place> = None;
        let mut words = vec![];
        // The line of a command, which its tokens are passed over in.
        let mut command = None;
        for token in &tokens {
            if matches!(token.token, Token::Whitespace(_) | Token::EOF) {
                continue;
            }
            if command == Some(token.span.start.line) {
                if token.span.end.line != token.span.start.line {
                    self.parts.pop();
                    return plan_err!(
                        "line {}: a quote is not closed in the line of its command",
                        token.span.start.line
                    );
                }
                continue;
            }
            place.advance(text, token.span.start);
            match (&token.token, first) {
                (Token::SemiColon, Some(from)) => {
                    self.parts.push(Part::Statement(Statement::cut(text, from, place.offset, &words)?));
                    first = None;
                }
                (Token::SemiColon, None) => {}
                (Token::Backslash, None) if commands => {
                    let line = text.get(place.offset..).and_then(|rest| rest.lines().next()).unwrap_or_default();
                    self.parts.push(Part::Command(line.trim_end().to_owned()));
                    command = Some(token.span.start.line);
                }
                (_, from) => {
                    if from.is_none() {
                        first = Some(place);
                        words.clear();
                    }
                    words.extend((words.len() < KEYWORDS).then(|| keyword(token)));
                }
            }
        }
        if let Err(error) = tokenized {
            // It has cut off the last statement, or command.
            self.parts.pop_if(|_| command == Some(error.location.line));
            return Err(ParserError::from(error).into());
        }
        if let Some(from) = first {
            self.parts.push(Part::Statement(Statement::cut(text, from, text.len(), &words)?));
        }
        Ok(())
    }
}

/// A place in a script.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    at: Location,
    /// In bytes.
    pub offset: usize,
}

impl Place {
    /// Goes on to a later place.
    fn advance(&mut self, script: &str, to: Location) {
        for next in script.get(self.offset..).unwrap_or_default().chars() {
            if (self.at.line, self.at.column) >= (to.line, to.column) {
                break;
            }
            self.offset += next.len_utf8();
            self.at = match next {
                '\n' => Location::new(self.at.line + 1, 1),
                _ => Location::new(self.at.line, self.at.column + 1),
            };
        }
    }

    /// The text at this place of a script that is blank otherwise.
    pub fn pad(self, text: &str) -> String {
        let before = |count: u64| usize::try_from(count.saturating_sub(1)).unwrap_or(0);
        format!("{}{}{text}", "\n".repeat(before(self.at.line)), " ".repeat(before(self.at.column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> (Vec<String>, Option<String>) {
        let script = Script::read(script);
        let text = |part: &Part| match part {
            Part::Statement(statement) => statement.text.to_string(),
            Part::Command(command) => command.clone(),
        };
        (script.parts.iter().map(text).collect(), script.error.map(|error| error.to_string()))
    }

    #[test]
    fn what_stands_before_an_error_can_be_run() {
        for (script, parts, said) in [
            ("SELECT 1;\nSELECT 2; SELEC 3; SELECT 4", 2, "Line: 2, Column: 11"),
            ("SELECT 1; SELECT 'two", 1, "Unterminated string literal at Line: 1, Column: 18"),
            ("SELECT 1; SELECT 2 /* two", 1, "Unexpected EOF while in a multi-line comment"),
            ("SELEC 1; SELECT 'two", 0, "Line: 1, Column: 1"),
        ] {
            let (texts, error) = texts(script);
            assert_eq!(texts.len(), parts, "{script}");
            assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{script}: {error:?}");
        }
        assert_eq!(texts("SELECT 1; -- end"), (vec!["SELECT 1".to_owned()], None));
        assert_eq!(texts("").0.len(), 0);
    }

    #[test]
    fn commands_are_the_rest_of_their_line() {
        let script = "-- first\n\\i a b.sql; x \nSELECT 1\n, 2; \\d 'k;1'\n\\q\nSELECT '\n\\i no\n'; \\timing";
        let expected = ["\\i a b.sql; x", "SELECT 1\n, 2", "\\d 'k;1'", "\\q", "SELECT '\n\\i no\n'", "\\timing"];
        assert_eq!(texts(script), (expected.map(str::to_owned).to_vec(), None));
        // Inside a statement it is none.
        assert!(texts("SELECT 1 \\g\n;").1.is_some());
        let (parts, error) = texts("SELECT 1; \\i 'a\nb'\n; SELECT 2");
        assert_eq!((parts.len(), error.unwrap().contains("line 1: a quote is not closed")), (1, true));
        assert_eq!(texts("SELECT 1; \\i it's.sql\nSELECT 2").0, ["SELECT 1"]);
        let error = Statement::parse("SELECT 1; \\q").unwrap_err().to_string();
        assert!(error.contains("Line: 1, Column: 11"), "{error}");
    }
}
