//! Segments: one column of one partition.

use std::sync::Arc;

use arrow::array::ArrayRef;
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};

/// Which column of which partition of which version of which object.
///
/// The version is part of the key, so an overwritten object never serves stale data; the range is,
/// so a changed partition size never mixes rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentKey {
    /// Catalog name of the table, or whatever distinguishes two readings of one object.
    pub table: Arc<str>,
    /// The object.
    pub object: ObjectPath,
    /// Its version.
    pub version: ObjectVersion,
    /// The partition's rows.
    pub partition: PartitionRange,
    /// Name of the column.
    pub column: Arc<str>,
}

/// A cached segment that a query is reading: it is not evicted before this is dropped.
#[derive(Debug, Clone)]
pub struct PinnedSegment {
    pub(crate) array: ArrayRef,
    /// Shared with the cache's entry; more than one owner means pinned.
    pub(crate) _pin: Arc<()>,
}

impl PinnedSegment {
    /// The column's values, one array for the whole partition.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }
}
