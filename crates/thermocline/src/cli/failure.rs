//! How a command ends that did not do what it was told.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The arguments do not fit; exit code 2.
    Usage(String),
    /// Something went wrong; exit code 1.
    Failed(String),
    /// Ctrl-C; exit code 130, as a shell reports SIGINT.
    Interrupted,
    /// Nobody reads the output any more, as in `| head`; exit code 0.
    OutputClosed,
}

impl Failure {
    /// Says what happened on standard error.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                notice(format_args!("error: {message}\n\nFor more information, try '--help'."));
                ExitCode::from(2)
            }
            Self::Failed(message) => {
                notice(format_args!("error: {message}"));
                ExitCode::FAILURE
            }
            Self::Interrupted => ExitCode::from(130),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// The same failure, saying where.
    pub fn context(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(format!("{place}: {message}")),
            other => other,
        }
    }

    /// Standard output failed.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("standard output: {error}")),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(describe(&error))
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Names of error kinds that say nothing to a user.
const KINDS: [&str; 4] =
    ["Error during planning: ", "Execution error: ", "Invalid or Unsupported Configuration: ", "External error: "];

/// What a library says behind an error that it did not expect, of its own code.
const OF_ITS_CODE: &str = "\nThis issue was likely caused by a bug in";

/// Characters of a message, which may have a user's values in it.
const MESSAGE_CHARACTERS_MAX: usize = 4000;

/// The error as a user wants to read it.
fn describe(error: &DataFusionError) -> String {
    if let DataFusionError::SQL(parser, _) = error.find_root() {
        return match parser.as_ref() {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
                format!("syntax error: {}", shortened(message))
            }
            ParserError::RecursionLimitExceeded => "syntax error: the statement is nested too deeply".to_owned(),
        };
    }
    let mut text = error.strip_backtrace();
    while let Some(rest) = KINDS.iter().find_map(|kind| text.strip_prefix(kind)) {
        text = rest.to_owned();
    }
    if let Some((what, _)) = text.split_once(OF_ITS_CODE) {
        text = what.to_owned();
    }
    shortened(text.trim_end())
}

/// A text, without its middle if it is long.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MESSAGE_CHARACTERS_MAX {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - MESSAGE_CHARACTERS_MAX / 4).collect();
    let begin: String = text.chars().take(MESSAGE_CHARACTERS_MAX / 4 * 3).collect();
    format!("{begin} [... {} characters ...] {end}", count - MESSAGE_CHARACTERS_MAX)
}

/// A line on standard error. That it cannot be written is nothing to report anywhere.
pub fn notice(line: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_database::Statement;

    #[test]
    fn syntax_errors_name_the_place() {
        let error = Statement::parse("SELECT 1;\nSELEC 2").unwrap_err();
        let text = describe(&error);
        assert!(text.starts_with("syntax error: ") && text.contains("Line: 2"), "{text}");
    }

    #[test]
    fn kinds_are_left_out() {
        let error = DataFusionError::Plan("there is no table t".to_owned());
        assert_eq!(describe(&error), "there is no table t");
    }

    #[test]
    fn nobody_is_told_of_a_librarys_code() {
        let error = DataFusionError::Internal("no space left".to_owned());
        assert_eq!(describe(&error), "Internal error: no space left.");
    }

    #[test]
    fn long_messages_have_a_beginning_and_an_end() {
        let error = DataFusionError::Plan(format!("value {} does not fit", "ü".repeat(1 << 20)));
        let text = describe(&error);
        assert!(text.starts_with("value ü") && text.ends_with("ü does not fit"), "{text}");
        assert!(text.chars().count() < MESSAGE_CHARACTERS_MAX + 50, "{}", text.len());
    }
}
