//! Byte ranges of one object in one version, wherever they come from.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};

use crate::{NodeError, Root};

/// Reads byte ranges of one object. At a storage node that is the object store; at a compute node
/// it is a request to a storage node, which carries all ranges at once.
#[async_trait]
pub trait RangeSource: Debug + Send + Sync {
    /// The object, in the version that every read must find.
    fn object(&self) -> &ObjectEntry;

    /// The bytes of each range, in the order given; each is as long as its range.
    ///
    /// # Errors
    /// [`NodeError`], which names the object.
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError>;
}

/// Ranges closer than this are read as one: a seek costs about as much.
const GAP_BYTES: u64 = 256 << 10;
/// Longer reads are cut, so that a large object is read by several requests side by side.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Reads of one request in flight at once.
const READS_IN_FLIGHT: usize = 8;

/// Reads from ROOT.
#[derive(Debug)]
pub(crate) struct RootSource {
    root: Root,
    object: ObjectEntry,
}

impl RootSource {
    pub(crate) fn new(root: Root, object: ObjectEntry) -> Self {
        Self { root, object }
    }
}

#[async_trait]
impl RangeSource for RootSource {
    fn object(&self) -> &ObjectEntry {
        &self.object
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        check_ranges(&self.object, ranges)?;
        let reads = coalesce(ranges);
        let fetched: Vec<Bytes> = stream::iter(reads.clone())
            .map(|read| async move {
                let wanted = read.end - read.start;
                let result = self.root.get(&self.object, read).await?;
                let bytes = result.bytes().await.map_err(|error| NodeError::from(error).context(&self.object.path))?;
                if bytes.len() as u64 == wanted {
                    Ok(bytes)
                } else {
                    // The object shrank under the same version: the store does not keep its word.
                    Err(NodeError::new(
                        ErrorKind::VersionChanged,
                        format!("{}: {} bytes came where {wanted} were asked for", self.object.path, bytes.len()),
                    ))
                }
            })
            .buffered(READS_IN_FLIGHT)
            .try_collect()
            .await?;
        Ok(ranges.iter().map(|range| cut(range, &reads, &fetched)).collect())
    }
}

fn check_ranges(object: &ObjectEntry, ranges: &[Range<u64>]) -> Result<(), NodeError> {
    for range in ranges {
        if range.start > range.end || range.end > object.size {
            return Err(NodeError::new(
                ErrorKind::Refused,
                format!(
                    "{}: bytes {}..{} are not in an object of {} bytes",
                    object.path, range.start, range.end, object.size
                ),
            ));
        }
    }
    Ok(())
}

/// Sorted, disjoint reads that cover the ranges: close ones merged, long ones cut.
fn coalesce(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = vec![];
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
        .into_iter()
        .flat_map(|range| {
            let pieces = (range.end - range.start).div_ceil(READ_BYTES_MAX).max(1);
            (0..pieces).map(move |piece| {
                let start = range.start + piece * READ_BYTES_MAX;
                start..range.end.min(start + READ_BYTES_MAX)
            })
        })
        .collect()
}

/// `range` out of the fetched reads that cover it, without copying if one read does.
fn cut(range: &Range<u64>, reads: &[Range<u64>], fetched: &[Bytes]) -> Bytes {
    let first = reads.partition_point(|read| read.end <= range.start);
    let mut pieces = reads
        .iter()
        .zip(fetched)
        .skip(first)
        .take_while(|(read, _)| read.start < range.end)
        .filter(|_| !range.is_empty())
        .map(|(read, bytes)| {
            let from = range.start.max(read.start) - read.start;
            let to = range.end.min(read.end) - read.start;
            bytes.slice(from as usize..to as usize)
        });
    let Some(first) = pieces.next() else {
        return Bytes::new();
    };
    let mut rest = pieces.peekable();
    if rest.peek().is_none() {
        return first;
    }
    let mut whole = Vec::with_capacity((range.end - range.start) as usize);
    whole.extend_from_slice(&first);
    rest.for_each(|piece| whole.extend_from_slice(&piece));
    whole.into()
}

/// Counts the bytes read through it.
#[derive(Debug)]
pub struct CountingSource {
    inner: Arc<dyn RangeSource>,
    bytes: Arc<AtomicU64>,
}

impl CountingSource {
    /// Adds every read byte of `inner` to `bytes`.
    pub fn new(inner: Arc<dyn RangeSource>, bytes: Arc<AtomicU64>) -> Self {
        Self { inner, bytes }
    }
}

#[async_trait]
impl RangeSource for CountingSource {
    fn object(&self) -> &ObjectEntry {
        self.inner.object()
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let read = self.inner.read(ranges).await?;
        let total: usize = read.iter().map(Bytes::len).sum();
        self.bytes.fetch_add(total as u64, Ordering::Relaxed);
        Ok(read)
    }
}
