//! Partitions: the unit of routing.

use std::fmt;

/// The part of an object that a partition covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionRange {
    /// Row groups `start..end` of a Parquet object.
    RowGroups {
        /// First row group.
        start: u32,
        /// One past the last row group.
        end: u32,
    },
    /// Bytes `start..end` of a CSV object's text, cut at record ends; of a compressed object all of it.
    Bytes {
        /// First byte of the first record.
        start: u64,
        /// One past the last byte of the last record.
        end: u64,
        /// Records in the object before `start`; errors name rows of the object by it.
        first_row: u64,
    },
}

impl PartitionRange {
    /// Bytes of a byte range, before compression; 0 for row groups, whose bytes only the footer knows.
    pub fn bytes(&self) -> u64 {
        match self {
            PartitionRange::RowGroups { .. } => 0,
            PartitionRange::Bytes { start, end, .. } => end.saturating_sub(*start),
        }
    }
}

impl fmt::Display for PartitionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionRange::RowGroups { start, end } => write!(f, "row groups {start}..{end}"),
            PartitionRange::Bytes { start, end, .. } => write!(f, "bytes {start}..{end}"),
        }
    }
}
