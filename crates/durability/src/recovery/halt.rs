use thermocline_types::Error;

use super::ReadOnly;

/// Reason why a replay ended without a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// A record did not do what it did in its first run. The state includes its changes, so the state before it needs
    /// another replay that ends there.
    Differs(Box<ReadOnly>),
    /// Nothing can be shown: unreadable files, files of a newer version, a damaged snapshot, or a procedure that the
    /// program has not registered.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Halt {
    /// The error, for callers that need the state of the last record.
    pub fn into_error(self) -> Error {
        match self {
            Self::Differs(read_only) => read_only.cause,
            Self::Failed(error) => error,
        }
    }
}
