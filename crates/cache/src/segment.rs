//! Segments in memory, and the pins of their readers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};

use crate::slots::SlotId;
use crate::stored::StoredColumn;
use crate::{SegmentCache, column_bytes};

/// What a segment holds.
#[derive(Debug)]
pub(crate) enum Contents {
    /// A column or an answer in the chunks in which it was decoded.
    ///
    /// It stays in chunks because operators that buffer batches (a sort, a join's build side) are charged for every
    /// buffer that a batch refers to, whole: batches cut from one large array would each cost as much as the column.
    Decoded(Box<[ArrayRef]>),
    /// A column as it is stored.
    Stored(StoredColumn),
}

impl Contents {
    fn rows(&self) -> usize {
        match self {
            Self::Decoded(chunks) => chunks.iter().map(|chunk| chunk.len()).sum(),
            Self::Stored(column) => column.rows(),
        }
    }

    /// Memory that is kept alive.
    fn bytes(&self) -> usize {
        match self {
            Self::Decoded(chunks) => column_bytes(chunks),
            Self::Stored(column) => column.bytes(),
        }
    }
}

/// A segment in memory.
#[derive(Debug)]
pub(crate) struct Segment {
    contents: Contents,
    pub(crate) rows: usize,
    /// Memory that the contents keep alive, or the least that the segment counts as.
    pub(crate) bytes: usize,
    /// Twice the number of readers, plus one if the last of them must report its end to the cache.
    readers: AtomicUsize,
    cache: Weak<SegmentCache>,
    pub(crate) slot: SlotId,
}

/// In [`Segment::readers`]: one reader.
const READER: usize = 2;
/// In [`Segment::readers`]: whether the last reader reports.
const REPORTS: usize = 1;

impl Segment {
    pub(crate) fn new(contents: Contents, bytes_min: usize, cache: Weak<SegmentCache>, slot: SlotId) -> Self {
        let bytes = contents.bytes().max(bytes_min);
        Self { rows: contents.rows(), bytes, contents, readers: AtomicUsize::new(0), cache, slot }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.readers.load(Ordering::Acquire) >= READER
    }

    /// Makes the last reader report its end to [`SegmentCache::unpinned`]; `false` if there is no reader. Called under
    /// the cache's lock, without which no first reader can begin.
    pub(crate) fn report_unpinned(&self) -> bool {
        if self.readers.fetch_or(REPORTS, Ordering::AcqRel) >= READER {
            return true;
        }
        self.readers.fetch_and(!REPORTS, Ordering::AcqRel);
        false
    }

    /// Ends [`Segment::report_unpinned`].
    pub(crate) fn stop_reporting(&self) {
        self.readers.fetch_and(!REPORTS, Ordering::AcqRel);
    }
}

/// A segment that a query is reading. If it is cached, it is not evicted before this is dropped.
#[derive(Debug)]
pub struct PinnedSegment {
    segment: Arc<Segment>,
}

impl PinnedSegment {
    /// Pins a segment; if it is cached, under the cache's lock.
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        segment.readers.fetch_add(READER, Ordering::AcqRel);
        Self { segment }
    }

    /// Its values: arrays for consecutive rows of the partition, none of them empty. There are none if it holds
    /// [stored bytes](PinnedSegment::stored).
    pub fn chunks(&self) -> &[ArrayRef] {
        match &self.segment.contents {
            Contents::Decoded(chunks) => chunks,
            Contents::Stored(_) => &[],
        }
    }

    /// Its stored bytes; `None` if it is decoded.
    pub fn stored(&self) -> Option<&StoredColumn> {
        match &self.segment.contents {
            Contents::Decoded(_) => None,
            Contents::Stored(column) => Some(column),
        }
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.segment.rows
    }
}

impl Clone for PinnedSegment {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.segment))
    }
}

impl Drop for PinnedSegment {
    fn drop(&mut self) {
        let before = self.segment.readers.fetch_sub(READER, Ordering::AcqRel);
        if before == READER | REPORTS
            && let Some(cache) = self.segment.cache.upgrade()
        {
            cache.unpinned(&self.segment);
        }
    }
}
