use thermocline_types::Error;

use super::ReadOnly;

/// Why a replay has no state to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// A record did something else than it did when it ran first. What it did is in the state, so the state of the
    /// record before it needs another replay, which ends there.
    Differs(Box<ReadOnly>),
    /// Nothing can be shown: files that cannot be read, or of a newer version, a damaged snapshot, a procedure that
    /// the program has not registered.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Halt {
    /// The error, for those who need the state of the last record.
    pub fn into_error(self) -> Error {
        match self {
            Self::Differs(read_only) => read_only.cause,
            Self::Failed(error) => error,
        }
    }
}
