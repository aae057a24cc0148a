//! The error type of the database: SQLSTATE, message, object, hint, and position in the statement.

use std::fmt;

use datafusion::common::DataFusionError;
use thermocline_types::{Class, Error as SqlError};

use super::translate::{of_syntax, translated};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: SQLSTATE, a message that names object and cause, and optionally the position in the statement, the object,
/// and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub(super) Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inner {
    pub sqlstate: Box<str>,
    pub message: Box<str>,
    /// The table, column, function, setting or node that it concerns.
    pub object: Option<Box<str>>,
    pub hint: Option<Box<str>>,
    pub position: Option<Position>,
}

/// A position in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Line in the script, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// The statement's part of the line, without other statements.
    pub text: Box<str>,
    /// Column in which `text` begins, from 1.
    pub start: u64,
}

/// Reaction of the caller to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Retry the statement or its transaction later.
    Retry,
    /// Change the statement, its data or its time limit.
    Correct,
    /// Report a defect of the database or its system.
    Report,
    /// Stop: the database cannot continue.
    Stop,
}

impl Action {
    /// Reaction to a SQLSTATE.
    fn of(sqlstate: &str) -> Self {
        match sqlstate {
            "53100" | "58030" | "XX001" | "XX002" => Self::Stop,
            "55006" | "55P03" => Self::Retry,
            "58P01" => Self::Correct,
            state => match state.get(..2).unwrap_or_default() {
                "08" | "40" | "53" => Self::Retry,
                "58" | "XX" => Self::Report,
                _ => Self::Correct,
            },
        }
    }
}

impl Error {
    /// An error with a SQLSTATE and a message.
    pub fn new(sqlstate: &str, message: impl Into<Box<str>>) -> Self {
        let (sqlstate, message) = (sqlstate.into(), message.into());
        Self(Box::new(Inner { sqlstate, message, object: None, hint: None, position: None }))
    }

    /// Sets the object.
    #[must_use]
    pub fn about(mut self, object: impl Into<Box<str>>) -> Self {
        self.0.object = Some(object.into());
        self
    }

    /// Sets the hint unless there is one.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Sets the position unless there is one.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// Prepends context to the message.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message).into();
        self
    }

    /// SQLSTATE: five characters.
    pub fn sqlstate(&self) -> &str {
        &self.0.sqlstate
    }

    /// Message: one sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Object that it concerns; `None` if unknown.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Hint: a likely intention, or a remedy.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Position in the statement; `None` if unknown.
    pub fn position(&self) -> Option<&Position> {
        self.0.position.as_ref()
    }

    /// Reaction of the caller.
    pub fn action(&self) -> Action {
        Action::of(&self.0.sqlstate)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(position) = &self.0.position {
            write!(f, " at line {}, column {}", position.line, position.column)?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        translated(&error)
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Self::from(&error)
    }
}

impl From<&SqlError> for Error {
    fn from(error: &SqlError) -> Self {
        let (state, message) = (error.sqlstate(), error.to_string());
        match message.starts_with("Expected") && state == Class::Syntax.sqlstate() {
            true => of_syntax(&message),
            false => Self::new(state, message),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::from(DataFusionError::from(error))
    }
}

/// For code that uses DataFusion's result type; [`Error::from`] returns the original error.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
