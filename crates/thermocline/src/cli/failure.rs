//! Failures of commands.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use thermocline_database::Error;

use super::termination;

/// Reason why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// Invalid arguments; exit code 2.
    Usage(String),
    /// An error; exit code 1.
    Failed(String),
    /// Ctrl-C or SIGTERM has stopped something; exit code 130 or 143, as a shell reports these signals.
    Interrupted,
    /// SIGTERM came while there was nothing to do; exit code 0.
    Terminated,
    /// The reader closed the output, as in `| head`; exit code 0.
    OutputClosed,
}

impl Failure {
    /// Reports the failure on standard error.
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
            Self::Interrupted if termination::has_come() => ExitCode::from(termination::TERMINATED),
            Self::Interrupted => ExitCode::from(130),
            Self::Terminated | Self::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// Adds a place to the message.
    pub fn context(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(format!("{place}: {message}")),
            other => other,
        }
    }

    /// Failure of standard output.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("standard output: {error}")),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(describe(&error))
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Error::from(error).into()
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Maximum characters shown of a statement's line.
const LINE_CHARACTERS_MAX: usize = 100;

/// The error as users read it: the problem, its place, and a suggestion.
///
/// ```text
/// column "prise" does not exist (42703)
/// LINE 1: SELECT prise FROM t
///                ^
/// HINT: did you mean price?
/// ```
fn describe(error: &Error) -> String {
    let mut text = format!("{} ({})", error.message(), error.sqlstate());
    if let Some(position) = error.position() {
        let column = usize::try_from(position.column.saturating_sub(position.start)).unwrap_or(usize::MAX);
        // For a long line, the part around the place.
        let skipped = column.saturating_sub(LINE_CHARACTERS_MAX / 2);
        let line: String = position.text.chars().skip(skipped).take(LINE_CHARACTERS_MAX).collect();
        let begin = format!("LINE {}: {}", position.line, if skipped > 0 { "..." } else { "" });
        // As wide as the text above.
        let blanks = line.chars().take(column - skipped).map(|c| if c == '\t' { '\t' } else { ' ' });
        let blanks: String = begin.chars().map(|_| ' ').chain(blanks).collect();
        text.push_str(&format!("\n{begin}{}\n{blanks}^", line.trim_end()));
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nHINT: {hint}"));
    }
    text
}

/// Writes a line to standard error. If that fails, there is nowhere to report it.
pub fn notice(line: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_database::Statement;

    #[test]
    fn errors_show_their_place_and_a_hint() {
        let error = Statement::parse("SELECT 1;\n  SELEC 2 AS two").unwrap_err();
        let expected = "\nLINE 2: SELEC 2 AS two\n        ^\nHINT: did you mean SELECT?";
        let text = describe(&error);
        assert!(text.starts_with("syntax error: ") && text.contains("(42601)"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let error = Statement::parse(&format!("SELECT {}1 AS a b FROM t", "1 + ".repeat(500))).unwrap_err();
        let text = describe(&error);
        let lines: Vec<_> = text.lines().collect();
        let [_, shown, mark] = lines.as_slice() else { panic!("{text}") };
        assert!(shown.starts_with("LINE 1: ...") && shown.len() < 120, "{text}");
        assert_eq!(shown.get(mark.len() - 1..).unwrap().split(' ').next(), Some("b"), "{text}");
    }
}
