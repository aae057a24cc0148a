//! Byte ranges of one object in one version, wherever they come from.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::{StreamExt, TryStreamExt, stream};
use thermocline_formats::RangeSource;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};

use crate::Root;

/// Longer reads are cut, so that a large object is read by several requests side by side.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Reads of one request in flight at once.
const READS_IN_FLIGHT: usize = 8;

/// Bytes of a read that is not charged by itself: a fragment was charged for a few of them when it began.
const SMALL_READ_BYTES: u64 = READ_BYTES_MAX;

/// Bytes of a read that is never charged: an object is described also where memory is short, and only so
/// many are at once.
const FOOTER_BYTES: u64 = 512 << 10;

/// Reads from ROOT.
#[derive(Debug)]
pub(crate) struct RootSource {
    root: Root,
    object: ObjectEntry,
    /// Where what is read is charged, for as long as it is in memory; `None` if the caller does it.
    memory: Option<Arc<dyn MemoryPool>>,
    /// Bytes of a read that is not charged.
    uncharged_bytes: u64,
    /// Bytes read through it, gaps between coalesced ranges included.
    bytes_read: Arc<AtomicU64>,
}

/// Bytes that are charged until they are dropped.
struct Charged {
    bytes: Bytes,
    _memory: MemoryReservation,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl RootSource {
    pub(crate) fn new(root: Root, object: ObjectEntry) -> Self {
        Self { root, object, memory: None, uncharged_bytes: SMALL_READ_BYTES, bytes_read: Arc::default() }
    }

    /// The same, with large reads charged to `pool` for as long as they are in memory. One for which there
    /// is no memory fails.
    pub(crate) fn charged(self, pool: &Arc<dyn MemoryPool>) -> Self {
        Self { memory: Some(Arc::clone(pool)), ..self }
    }

    /// The same, with all but the smallest reads charged: nobody was charged for them before.
    pub(crate) fn charged_throughout(self, pool: &Arc<dyn MemoryPool>) -> Self {
        Self { uncharged_bytes: FOOTER_BYTES, ..self.charged(pool) }
    }

    /// The same, adding what it reads to `bytes_read`.
    pub(crate) fn counted(self, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { bytes_read: Arc::clone(bytes_read), ..self }
    }

    /// See [`Root::gap_bytes`].
    pub(crate) fn gap_bytes(&self) -> u64 {
        self.root.gap_bytes()
    }

    /// Reads one range, whole.
    async fn fetch(&self, read: Range<u64>) -> Result<Bytes, NodeError> {
        let wanted = read.end - read.start;
        let result = self.root.get(&self.object, read).await?;
        let bytes = result.bytes().await.map_err(|error| NodeError::from(error).context(&self.object.path))?;
        self.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if bytes.len() as u64 == wanted {
            return Ok(bytes);
        }
        // The object shrank under the same version: the store does not keep its word.
        Err(NodeError::new(
            ErrorKind::VersionChanged,
            format!("{}: {} bytes came where {wanted} were asked for", self.object.path, bytes.len()),
        ))
    }
}

#[async_trait]
impl RangeSource for RootSource {
    fn object(&self) -> &ObjectEntry {
        &self.object
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        check_ranges(&self.object, ranges.iter())?;
        let reads = coalesce(ranges, self.root.gap_bytes());
        let mut memory = None;
        if let Some(pool) = &self.memory {
            // What is put together of several reads is there twice for a moment.
            let copied: u64 =
                ranges.iter().map(|range| range.end - range.start).filter(|bytes| *bytes > READ_BYTES_MAX).sum();
            let bytes = reads.iter().map(|read| read.end - read.start).sum::<u64>().saturating_add(copied);
            if bytes > self.uncharged_bytes {
                let reserved = MemoryConsumer::new("stored bytes").register(pool);
                reserved
                    .try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))
                    .map_err(|error| NodeError::from(error).context(&self.object.path))?;
                memory = Some(reserved);
            }
        }
        let fetched: Vec<Bytes> = stream::iter(reads.clone())
            .map(|read| async {
                let bytes = self.fetch(read).await?;
                Ok::<_, NodeError>(charged(bytes, memory.as_ref()))
            })
            .buffered(READS_IN_FLIGHT)
            .try_collect()
            .await?;
        Ok(ranges.iter().map(|range| cut(range, &reads, &fetched, memory.as_ref())).collect())
    }
}

/// `bytes` with their part of what is reserved.
fn charged(bytes: Bytes, memory: Option<&MemoryReservation>) -> Bytes {
    match memory {
        Some(memory) => {
            let _memory = memory.split(bytes.len().min(memory.size()));
            Bytes::from_owner(Charged { bytes, _memory })
        }
        None => bytes,
    }
}

/// Refuses ranges that are not in the object.
pub(crate) fn check_ranges<'a>(
    object: &ObjectEntry,
    ranges: impl Iterator<Item = &'a Range<u64>>,
) -> Result<(), NodeError> {
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

/// Bytes that are read for the ranges, those between ranges closer than `gap` included.
pub(crate) fn coalesced_bytes(ranges: &[Range<u64>], gap: u64) -> u64 {
    coalesce(ranges, gap).iter().map(|read| read.end - read.start).sum()
}

/// Sorted, disjoint reads that cover the ranges: those closer than `gap` merged, long ones cut.
fn coalesce(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = vec![];
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
        .into_iter()
        .flat_map(|range| {
            let pieces = (range.end - range.start).div_ceil(READ_BYTES_MAX).max(1);
            (0..pieces).map(move |piece| {
                let start = range.start + piece * READ_BYTES_MAX;
                start..range.end.min(start.saturating_add(READ_BYTES_MAX))
            })
        })
        .collect()
}

/// `range` out of the fetched reads that cover it, without copying if one read does.
fn cut(range: &Range<u64>, reads: &[Range<u64>], fetched: &[Bytes], memory: Option<&MemoryReservation>) -> Bytes {
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
    charged(whole.into(), memory)
}
