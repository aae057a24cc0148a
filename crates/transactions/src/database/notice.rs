use std::fmt;

use thermocline_types::Error;

/// A background failure that no statement reports, for the program's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A snapshot was not taken. The earlier one and the log stay unchanged, and another attempt follows automatically;
    /// until one succeeds, the log and the time of the next start grow.
    SnapshotFailed(Error),
    /// Segments of the log that a snapshot covers could not be removed; the next snapshot tries again.
    LogNotRemoved(Error),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnapshotFailed(error) => {
                write!(
                    f,
                    "a snapshot of the row tables failed, and is tried again; until then their log grows: {error}"
                )
            }
            Self::LogNotRemoved(error) => {
                write!(
                    f,
                    "a part of the log of the row tables that is not needed any more could not be removed: {error}"
                )
            }
        }
    }
}

/// Receiver of notices, called from a thread of the engine: it must return quickly.
pub type Notices = dyn Fn(&Notice) + Send + Sync;
