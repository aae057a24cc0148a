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

/// Byte ranges of an object that the first read of one of them fetches together. Readers of the
/// partitions that they belong to follow one another; other ranges are fetched on their own.
#[derive(Debug)]
pub(super) struct GroupSource {
    source: Arc<dyn RangeSource>,
    /// Sorted by their ends.
    ranges: Vec<Range<u64>>,
    fetched: OnceCell<Vec<Bytes>>,
}

impl GroupSource {
    /// Reads `ranges` from `source`, all at once.
    pub(super) fn new(source: Arc<dyn RangeSource>, mut ranges: Vec<Range<u64>>) -> Self {
        ranges.sort_by_key(|range| range.end);
        Self { source, ranges, fetched: OnceCell::new() }
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
        let fetched = self.fetched.get_or_try_init(|| self.source.read(&self.ranges)).await?;
        let cut = |(position, part): (usize, Range<usize>)| {
            let bytes = fetched.get(position).filter(|bytes| part.end <= bytes.len());
            bytes.map_or_else(Bytes::new, |bytes| bytes.slice(part))
        };
        Ok(places.into_iter().map(cut).collect())
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
