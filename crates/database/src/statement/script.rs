//! Scripts cut into statements and commands while they are read.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Location;

use super::scanner::{Cut, Scanner};
use super::statement::Statement;
use super::variables::Variables;
use crate::error::Error;

/// A script that can be run while it is read: each part is available once its end has been read, and parts before an
/// error can be run.
#[derive(Debug)]
pub struct Script {
    scanner: Scanner,
}

/// A part of a script.
#[derive(Debug, Clone)]
pub enum Part {
    /// A statement.
    Statement(Box<Statement>),
    /// A command to the client: a backslash where a statement could begin, or a period and a letter, and the rest of
    /// its line.
    Command(String),
}

impl Default for Script {
    fn default() -> Self {
        Self { scanner: Scanner::new(true) }
    }
}

impl Script {
    /// A complete script.
    pub fn whole(text: &str) -> Self {
        let mut script = Self::default();
        script.push(text);
        script.end();
        script
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) {
        self.scanner.push(text);
    }

    /// Marks the end of the text, which ends an unfinished part.
    pub const fn end(&mut self) {
        self.scanner.end();
    }

    /// The next complete part; `None` if more text is needed, or at the end. Semicolons in strings, comments and bodies
    /// of procedures do not end parts.
    ///
    /// # Errors
    /// Syntax errors, with line and column; they end the script.
    pub fn part(&mut self) -> Result<Option<Part>, Error> {
        self.part_with(&Variables::default())
    }

    /// [`Self::part`] of a client with variables, by whose values references to them are replaced.
    ///
    /// # Errors
    /// As [`Self::part`].
    pub fn part_with(&mut self, variables: &Variables) -> Result<Option<Part>, Error> {
        match self.scanner.next_cut()? {
            None => Ok(None),
            Some(Cut { text, is_command: true, .. }) => {
                Ok(Some(Part::Command(variables.substituted(text).into_owned())))
            }
            Some(Cut { text, at, .. }) => {
                let statement = Statement::cut(&variables.substituted(text), at)?;
                Ok(Some(Part::Statement(Box::new(statement))))
            }
        }
    }

    /// The statements of a complete text without commands.
    ///
    /// # Errors
    /// Syntax errors, with line and column.
    pub(super) fn statements(text: &str) -> Result<Vec<Statement>, Error> {
        let mut scanner = Scanner::new(false);
        scanner.push(text);
        scanner.end();
        let mut statements = vec![];
        while let Some(Cut { text, at, .. }) = scanner.next_cut()? {
            statements.push(Statement::cut(text, at)?);
        }
        Ok(statements)
    }
}

/// Converts the position in an error of a statement, which begins at `start`, to one in the script.
pub fn in_script(error: DataFusionError, start: Location) -> DataFusionError {
    match error {
        // The diagnostic's position would be wrong.
        DataFusionError::Diagnostic(_, error) => in_script(*error, start),
        DataFusionError::SQL(error, backtrace) => {
            let error = match *error {
                ParserError::TokenizerError(message) => ParserError::TokenizerError(moved(message, start)),
                ParserError::ParserError(message) => ParserError::ParserError(moved(message, start)),
                other @ ParserError::RecursionLimitExceeded => other,
            };
            DataFusionError::SQL(Box::new(error), backtrace)
        }
        other => other,
    }
}

/// Converts the position at the end of a parser message; a message without one gets the position of the statement.
fn moved(message: String, start: Location) -> String {
    let found = message.rsplit_once(" at Line: ").and_then(|(before, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((before, line.parse::<u64>().ok()?, column.parse::<u64>().ok()?))
    });
    let Some((before, line, column)) = found else { return format!("{message} in the statement{start}") };
    let column = if line == 1 { column + start.column - 1 } else { column };
    format!("{before}{}", Location::new(line + start.line - 1, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> (Vec<String>, Option<String>) {
        let (mut script, mut texts) = (Script::whole(script), vec![]);
        loop {
            match script.part() {
                Ok(Some(Part::Statement(statement))) => texts.push(statement.text.to_string()),
                Ok(Some(Part::Command(command))) => texts.push(command),
                Ok(None) => return (texts, None),
                Err(error) => return (texts, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn what_stands_before_an_error_can_be_run() {
        for (script, parts, said) in [
            ("SELECT 1;\nSELECT 2; SELEC 3; SELECT 4", 2, "line 2, column 11"),
            ("SELECT 1;\n SELECT 2\n  WHERE 1 2;", 1, "line 3, column 11"),
            ("SELECT 1;\nSELECT 2 FROM (\n; SELECT 3", 1, "found: the end at line 2, column 16"),
            ("SELECT 1; SELECT 'two", 1, "unterminated string literal at line 1, column 18"),
            ("SELECT 1; SELECT 2 /* two", 1, "unexpected EOF while in a multi-line comment at line 1, column 26"),
            ("SELECT 1;\n/* two", 1, "unexpected EOF while in a multi-line comment at line 2, column 7"),
            ("SELEC 1; SELECT 'two", 0, "line 1, column 1"),
            ("SELECT 1; /*! SELECT 2; SELECT 3 */; SELEC 4", 1, "line 1, column 38"),
        ] {
            let (texts, error) = texts(script);
            assert_eq!(texts.len(), parts, "{script}");
            assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{script}: {error:?}");
        }
        assert_eq!(texts("SELECT 1; -- end"), (vec!["SELECT 1".to_owned()], None));
        assert_eq!(texts("").0.len(), 0);
    }

    #[test]
    fn a_part_is_there_once_its_end_is() {
        let mut script = Script::default();
        let mut part = |text: &str| {
            script.push(text);
            script.part().unwrap().map(|part| match part {
                Part::Statement(statement) => format!("{} in line {}", statement.text, statement.line()),
                Part::Command(command) => command,
            })
        };
        assert_eq!(part("\nSELECT 1"), None);
        assert_eq!(part("; SELECT"), Some("SELECT 1 in line 2".to_owned()));
        assert_eq!(part(" 2;\\q"), Some("SELECT 2 in line 2".to_owned()));
        assert_eq!(part(""), None);
        assert_eq!(part("\n"), Some("\\q".to_owned()));
        assert_eq!(part("SELECT 3"), None);
        script.end();
        assert!(matches!(script.part(), Ok(Some(Part::Statement(_)))));
        assert!(matches!(script.part(), Ok(None)));
    }

    #[test]
    fn commands_are_the_rest_of_their_line() {
        let script = "-- first\n\\i a b.sql; x \nSELECT 1\n, 2; \\d 'k;1'\n\\q\nSELECT '\n\\i no\n'; \\timing";
        let expected = ["\\i a b.sql; x", "SELECT 1\n, 2", "\\d 'k;1'", "\\q", "SELECT '\n\\i no\n'", "\\timing"];
        assert_eq!(texts(script), (expected.map(str::to_owned).to_vec(), None));
        let script = ".tables\nSELECT .5, t.a FROM t; .read a b.sql\n.5";
        let (parts, error) = texts(script);
        assert_eq!(parts, [".tables", "SELECT .5, t.a FROM t", ".read a b.sql"]);
        assert!(error.is_some(), "a number is no command");
        let mut variables = Variables::default();
        variables.set("file", "a b");
        let mut script = Script::whole("\\i :'file'\n\\o ':file'");
        for expected in ["\\i 'a b'", "\\o ':file'"] {
            let Ok(Some(Part::Command(command))) = script.part_with(&variables) else { panic!("no command") };
            assert_eq!(command, expected);
        }
        // Inside a statement, a backslash is not a command.
        assert!(texts("SELECT 1 \\g\n;").1.is_some());
        for script in ["SELECT 1; \\i 'a\nb'\n; SELECT 2", "SELECT 1; \\i it's.sql\nSELECT 2", "SELECT 1; \\i it's"] {
            let (parts, error) = texts(script);
            assert_eq!((parts.len(), error.unwrap().contains("line 1: a quote is not closed")), (1, true), "{script}");
        }
        let error = Statement::parse("SELECT 1; \\q").unwrap_err().to_string();
        assert!(error.contains("line 1, column 11"), "{error}");
    }
}
