use std::fmt;

use datafusion::common::DataFusionError;
use thermocline_types::{Class, Error as SqlError};

use super::translate::{of_syntax, translated};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: SQLSTATE, a message that names object and cause, and, where there are any, the place in the
/// statement, the object, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub(super) Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inner {
    pub sqlstate: Box<str>,
    pub message: Box<str>,
    /// The table, column, function, setting or node that it is about.
    pub object: Option<Box<str>>,
    pub hint: Option<Box<str>>,
    pub position: Option<Position>,
}

/// A place in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// In the script that the statement is of, from 1.
    pub line: u64,
    /// Characters, from 1.
    pub column: u64,
    /// The statement's part of the line, without what other statements have there.
    pub text: Box<str>,
    /// The column in which that begins, from 1.
    pub start: u64,
}

/// Reaction of the caller to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The same statement, or its transaction, may work later.
    Retry,
    /// The statement, its data or its time limit has to change.
    Correct,
    /// It is a defect of the database or of the system around it.
    Report,
    /// The database cannot go on as it is.
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

    /// The same with the name of what it is about.
    #[must_use]
    pub fn about(mut self, object: impl Into<Box<str>>) -> Self {
        self.0.object = Some(object.into());
        self
    }

    /// The same with a hint, unless it has one.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// The same with a place, unless it has one.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// The same with what is around it in front of its message.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message).into();
        self
    }

    /// The five characters that clients go by.
    pub fn sqlstate(&self) -> &str {
        &self.0.sqlstate
    }

    /// Message, in one sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Object that it concerns; `None` where the message names none.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Hint: a likely intention, or a way to mend it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in the statement it is.
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

/// For code that computes with DataFusion's results; it comes out of [`Error::from`] as it went in.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
