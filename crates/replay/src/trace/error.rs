//! Errors of reading a trace.

use std::io;

/// Reason to refuse a trace. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read or written.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// Its format is of another version.
    #[error("the trace has format version {found}; this program reads version {expected}: record it again")]
    Version {
        /// Version of the trace.
        found: u64,
        /// Version of this program.
        expected: u32,
    },
    /// A line is cut off or is not what the format says.
    #[error("line {line} of the trace is damaged: {reason}")]
    Damaged {
        /// Number of the line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A segment is used before it is defined.
    #[error("line {line} of the trace uses segment {id}, which no line up to it defines")]
    Undefined {
        /// Number of the line.
        line: usize,
        /// The id.
        id: u32,
    },
    /// Nothing was recorded after the header.
    #[error("the trace has no lookups: nothing was looked up in the cache while it was recorded")]
    Empty,
    /// The trace is one of something else.
    #[error("the trace was recorded with {what} {found}, not {asked}")]
    Differs {
        /// Which part of the header.
        what: &'static str,
        /// Its value.
        found: String,
        /// The value that was asked for.
        asked: String,
    },
}
