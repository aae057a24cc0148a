//! Why the calibrations of a file are not known.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a database's calibrations are not known. Whether a new calibration may replace the file depends on it.
#[derive(Debug)]
pub struct CalibrationFileError {
    path: PathBuf,
    cause: Cause,
}

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum Cause {
    /// It is not what was written: how it shows.
    Damaged(String),
    /// A newer version of Thermocline wrote it, in a format of this version.
    Newer {
        /// The format of the file.
        found: u32,
        /// The format that is known.
        known: u32,
    },
    /// The system does not let it be read.
    Unreadable(io::Error),
}

impl CalibrationFileError {
    pub(super) fn new(path: &Path, cause: Cause) -> Self {
        Self { path: path.to_owned(), cause }
    }

    /// Whether nothing is lost with the file, so that a new calibration replaces it.
    pub fn is_replaceable(&self) -> bool {
        matches!(self.cause, Cause::Damaged(_))
    }

    /// How to go on.
    pub fn remedy(&self) -> &'static str {
        match self.cause {
            Cause::Damaged(_) => "remove the file, or run thermocline calibrate again",
            Cause::Newer { .. } => "use that version, or move the file away and run thermocline calibrate again",
            Cause::Unreadable(_) => "make it readable, or move it away and run thermocline calibrate again",
        }
    }
}

impl fmt::Display for CalibrationFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.cause {
            Cause::Damaged(how) => write!(f, "it is damaged: {how}"),
            Cause::Newer { found, known } => write!(
                f,
                "it was written by a newer version of Thermocline, in version {found} of its format; this one reads \
                 version {known}"
            ),
            Cause::Unreadable(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl std::error::Error for CalibrationFileError {}
