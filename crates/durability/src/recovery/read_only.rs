//! Reason and extent of a read-only database, and the error for its writers.

use std::fmt;

use thermocline_machine::ids::Sequence;
use thermocline_types::{Class, Error};

use crate::Semantics;

/// Reason why a database is read-only, and the state that it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnly {
    /// Last record of the state shown.
    pub until: Sequence,
    /// The problem and its place.
    pub cause: Error,
    /// Semantics that the records after it ran with, if older than this program's.
    pub older: Option<Semantics>,
}

impl ReadOnly {
    /// Error for writers: 53100 on a full disk, 25006 otherwise.
    pub fn refusal(&self) -> Error {
        match self.cause {
            Error::DiskFull(_) => Error::DiskFull(self.to_string().into()),
            _ => Class::ReadOnly.error(self),
        }
    }
}

/// The problem, the state shown, and how to go on.
impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { until, cause, older } = self;
        if matches!(cause, Error::DiskFull(_)) {
            return write!(
                f,
                "the database is read-only: {cause}. It shows all that was committed; with room on the disk, the next \
                 start can write again"
            );
        }
        write!(
            f,
            "the database is read-only: {cause}. It shows the state of log record {until}; what was committed after \
             that is not in it, and stays in its files as it is. 'thermocline restore DB NEWDB --until {until}' makes \
             a database of this state that can be written"
        )?;
        if let Some(older) = older {
            write!(
                f,
                ". The records behind it were written with version {older} of the engine's semantics, and this \
                 program has version {}: a program of that version may still open the database whole",
                Semantics::CURRENT
            )?;
        }
        Ok(())
    }
}
