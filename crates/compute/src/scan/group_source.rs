//! Stored bytes of several partitions of one object, fetched by one request.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parquet::file::metadata::ParquetMetaData;
use thermocline_formats::RangeSource;
use thermocline_pushdown::wire::ObjectEntry;
use thermocline_pushdown::{NodeError, PartitionRange};
use tokio::sync::OnceCell;

/// Byte ranges of an object that are fetched piece by piece, several with one request: the first read of one of them fetches
/// all of its piece. Readers of the partitions that they belong to follow one another; other ranges are fetched on their
/// own.
#[derive(Debug)]
pub(super) struct GroupSource {
    source: Arc<dyn RangeSource>,
    /// Sorted by their ends.
    ranges: Vec<Range<u64>>,
    pieces: Vec<Piece>,
}

/// Neighbours among the ranges.
#[derive(Debug)]
struct Piece {
    /// One past the position of its last range.
    end: usize,
    fetched: OnceCell<Vec<Bytes>>,
}

impl GroupSource {
    /// Reads `ranges` from `source`, as many at once as have `piece_bytes`, or one.
    pub(super) fn new(source: Arc<dyn RangeSource>, mut ranges: Vec<Range<u64>>, piece_bytes: u64) -> Self {
        ranges.sort_by_key(|range| range.end);
        let mut pieces: Vec<Piece> = vec![];
        let mut bytes = 0;
        for (position, range) in ranges.iter().enumerate() {
            let more = range.end.saturating_sub(range.start);
            match pieces.last_mut() {
                Some(piece) if bytes + more <= piece_bytes => {
                    piece.end = position + 1;
                    bytes += more;
                }
                _ => {
                    pieces.push(Piece { end: position + 1, fetched: OnceCell::new() });
                    bytes = more;
                }
            }
        }
        Self { source, ranges, pieces }
    }

    /// The bytes of the range at a position, which are fetched with the rest of its piece.
    async fn fetched(&self, position: usize) -> Result<Bytes, NodeError> {
        let number = self.pieces.partition_point(|piece| piece.end <= position);
        let begin = number.checked_sub(1).and_then(|before| self.pieces.get(before)).map_or(0, |piece| piece.end);
        let Some(piece) = self.pieces.get(number) else { return Ok(Bytes::new()) };
        let ranges = self.ranges.get(begin..piece.end).unwrap_or_default();
        let fetched = piece.fetched.get_or_try_init(|| self.source.read(ranges)).await?;
        Ok(fetched.get(position - begin).cloned().unwrap_or_default())
    }
}

#[async_trait]
impl RangeSource for GroupSource {
    fn object(&self) -> &ObjectEntry {
        self.source.object()
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let within = |range: &Range<u64>| {
            let position = self.ranges.partition_point(|fetched| fetched.end < range.end);
            let fetched = self.ranges.get(position).filter(|fetched| fetched.start <= range.start)?;
            Some((position, (range.start - fetched.start) as usize..range.end.checked_sub(fetched.start)? as usize))
        };
        let Some(places) = ranges.iter().map(within).collect::<Option<Vec<_>>>() else {
            return self.source.read(ranges).await;
        };
        let mut read = Vec::with_capacity(places.len());
        for (position, part) in places {
            let bytes = self.fetched(position).await?;
            read.push(if part.end <= bytes.len() { bytes.slice(part) } else { Bytes::new() });
        }
        Ok(read)
    }
}

/// Where the column chunks of the columns `names` are in these partitions of a Parquet object.
pub(super) fn chunk_ranges(
    footer: &ParquetMetaData,
    partitions: impl IntoIterator<Item = PartitionRange>,
    names: &HashSet<&str>,
) -> Vec<Range<u64>> {
    let row_groups = partitions.into_iter().flat_map(|range| match range {
        PartitionRange::RowGroups { start, end } => start as usize..end as usize,
        PartitionRange::Bytes { .. } => 0..0,
    });
    let groups = row_groups.filter_map(|group| footer.row_groups().get(group));
    let columns = groups.flat_map(|group| group.columns());
    // A nested column has several chunks; all of them begin with its name.
    let needed =
        columns.filter(|column| column.column_path().parts().first().is_some_and(|name| names.contains(name.as_str())));
    needed
        .map(|column| {
            let (start, length) = column.byte_range();
            start..start.saturating_add(length)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use parking_lot::Mutex;

    use super::*;

    /// Bytes by position, and the requests for them.
    #[derive(Debug)]
    struct Counted {
        object: ObjectEntry,
        requests: Mutex<Vec<usize>>,
    }

    #[async_trait]
    impl RangeSource for Counted {
        fn object(&self) -> &ObjectEntry {
            &self.object
        }

        async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
            self.requests.lock().push(ranges.len());
            Ok(ranges.iter().map(|range| range.clone().map(|at| at as u8).collect()).collect())
        }
    }

    #[tokio::test]
    async fn small_ranges_are_fetched_piece_by_piece() {
        let counted = Arc::new(Counted { object: ObjectEntry::default(), requests: Mutex::default() });
        let ranges: Vec<Range<u64>> = (0..10).map(|number| number * 20..number * 20 + 10).collect();
        let source = GroupSource::new(Arc::clone(&counted) as Arc<dyn RangeSource>, ranges.clone(), 40);
        for range in &ranges {
            let read = source.read(&[Range { start: range.start + 2, end: range.end }]).await.unwrap();
            let expected: Vec<u8> = (range.start + 2..range.end).map(|at| at as u8).collect();
            assert_eq!(read[0], expected);
        }
        assert_eq!(*counted.requests.lock(), [4, 4, 2]);
        // Several at once, of different pieces, are there already; others are not in any.
        assert_eq!(source.read(&[ranges[0].clone(), ranges[9].clone()]).await.unwrap().len(), 2);
        assert_eq!(source.read(&[Range { start: 5, end: 25 }]).await.unwrap()[0].len(), 20);
        assert_eq!(*counted.requests.lock(), [4, 4, 2, 1]);
        // A piece has at least one range, and without a limit there is one piece.
        let requests = |piece_bytes| {
            let source = GroupSource::new(Arc::clone(&counted) as Arc<dyn RangeSource>, ranges.clone(), piece_bytes);
            source.pieces.len()
        };
        assert_eq!([0, 9, 10, 20, u64::MAX].map(requests), [10, 10, 10, 5, 1]);
    }
}
