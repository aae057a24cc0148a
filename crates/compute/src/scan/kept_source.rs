//! Stored bytes of which some are in memory.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use thermocline_cache::PinnedSegment;
use thermocline_formats::RangeSource;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ObjectEntry;

/// An object of which some byte ranges are in memory; others come from its storage.
#[derive(Debug)]
pub(super) struct KeptSource {
    source: Arc<dyn RangeSource>,
    /// Offsets, ascending, and the bytes there.
    kept: Vec<(u64, Bytes)>,
    /// The cached columns that they are of.
    _pinned: Vec<PinnedSegment>,
}

impl KeptSource {
    /// The object of `source`, with the stored bytes of columns in the cache and other `fetched` ones.
    pub(super) fn new(
        source: Arc<dyn RangeSource>,
        pinned: &[PinnedSegment],
        fetched: impl IntoIterator<Item = (u64, Bytes)>,
    ) -> Self {
        let columns = pinned.iter().filter_map(PinnedSegment::stored);
        let mut kept: Vec<(u64, Bytes)> = columns.flat_map(|column| column.ranges().iter().cloned()).collect();
        kept.extend(fetched);
        kept.sort_by_key(|(offset, _)| *offset);
        Self { source, kept, _pinned: pinned.to_vec() }
    }

    /// The bytes of `range`, if they are in memory.
    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let after = self.kept.partition_point(|(offset, _)| *offset <= range.start);
        let (offset, bytes) = self.kept.get(after.checked_sub(1)?)?;
        let within = (range.start - offset) as usize..range.end.checked_sub(*offset)? as usize;
        (within.start <= within.end && within.end <= bytes.len()).then(|| bytes.slice(within))
    }
}

#[async_trait]
impl RangeSource for KeptSource {
    fn object(&self) -> &ObjectEntry {
        self.source.object()
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let found: Vec<Option<Bytes>> = ranges.iter().map(|range| self.find(range)).collect();
        let missing: Vec<Range<u64>> =
            ranges.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(range, _)| range.clone()).collect();
        let mut fetched = match missing.is_empty() {
            true => vec![],
            false => self.source.read(&missing).await?,
        }
        .into_iter();
        Ok(found.into_iter().map(|found| found.unwrap_or_else(|| fetched.next().unwrap_or_default())).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use parking_lot::Mutex;

    use super::*;

    /// An object of bytes 0, 1, 2, ..., which notes what is read of it.
    #[derive(Debug, Default)]
    struct Counting {
        object: ObjectEntry,
        read: Mutex<Vec<Range<u64>>>,
    }

    #[async_trait]
    impl RangeSource for Counting {
        fn object(&self) -> &ObjectEntry {
            &self.object
        }

        async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
            self.read.lock().extend_from_slice(ranges);
            Ok(ranges.iter().map(bytes).collect())
        }
    }

    fn bytes(range: &Range<u64>) -> Bytes {
        range.clone().map(|at| at as u8).collect::<Vec<_>>().into()
    }

    #[tokio::test]
    async fn only_what_is_not_kept_is_read_and_all_of_it_at_once() {
        let source = Arc::new(Counting::default());
        let fetched = [50..60, 10..20, 20..30].map(|range: Range<u64>| (range.start, bytes(&range)));
        let kept = KeptSource::new(Arc::clone(&source) as _, &[], fetched);
        let ranges = [12..18, 0..5, 50..60, 20..20, 25..31, 15..25, 59..60, 9..11, 60..61, 19..20];
        let read = kept.read(&ranges).await.unwrap();
        assert!(ranges.iter().map(bytes).eq(read));
        assert_eq!(*source.read.lock(), [0..5, 25..31, 15..25, 9..11, 60..61], "a range that spans two is not found");
    }
}
