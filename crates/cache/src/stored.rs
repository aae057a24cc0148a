//! Stored bytes of columns.

use std::mem::size_of;

use bytes::Bytes;

/// The stored bytes of a column of a partition: ranges of its object, as they are there. A nested column has several in
/// each row group.
#[derive(Debug, Clone)]
pub struct StoredColumn {
    rows: usize,
    /// Offsets in the object, ascending, and the bytes there.
    ranges: Box<[(u64, Bytes)]>,
}

impl StoredColumn {
    /// A column of `rows` rows. Copies the bytes, so that it keeps no more memory alive: what came over a link is part of
    /// a larger buffer.
    pub fn new<'a>(rows: usize, ranges: impl IntoIterator<Item = (u64, &'a [u8])>) -> Self {
        let copied = |(offset, bytes)| (offset, Bytes::from(Box::<[u8]>::from(bytes)));
        let mut ranges: Vec<(u64, Bytes)> = ranges.into_iter().map(copied).collect();
        ranges.sort_by_key(|(offset, _)| *offset);
        Self { rows, ranges: ranges.into_boxed_slice() }
    }

    /// Rows of the partition.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Offsets in the object, ascending, and the bytes there.
    pub fn ranges(&self) -> &[(u64, Bytes)] {
        &self.ranges
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        Self::bytes_of(self.ranges.iter().map(|(_, bytes)| bytes.len()).sum(), self.ranges.len())
    }

    /// Bytes of memory that so many stored bytes take in so many ranges.
    pub fn bytes_of(stored_bytes: usize, ranges: usize) -> usize {
        stored_bytes + ranges * size_of::<(u64, Bytes)>() + size_of::<Self>()
    }
}
