//! How objects are cut into partitions: footers of Parquet, split points of CSV.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use thermocline_pushdown::wire::{DescribeRequest, DescribeResponse, Description, ErrorKind, ObjectEntry, Split};
use thermocline_pushdown::{CsvFormat, FileFormat};

use super::StorageNode;
use super::storage_node::required;
use crate::csv::SplitScanner;
use crate::reader::{csv_options, fetch_footer};
use crate::source::RootSource;
use crate::{NodeError, RangeSource};

/// Objects described at once for one request.
const DESCRIBED_AT_ONCE: usize = 16;
/// Bytes of a CSV object scanned per read.
const SCAN_BYTES: u64 = 8 << 20;
/// CSV partitions are at least this large, whatever is asked for.
const PARTITION_BYTES_MIN: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DescriptionKey {
    object: ObjectEntry,
    format: FileFormat,
    partition_bytes: u64,
}

/// Descriptions remembered by object version, the least recently used forgotten.
#[derive(Debug)]
pub(super) struct Descriptions {
    limit: usize,
    known: Mutex<HashMap<DescriptionKey, (u64, Description)>>,
    tick: AtomicU64,
}

impl Descriptions {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), known: Mutex::default(), tick: AtomicU64::new(0) }
    }

    fn get(&self, key: &DescriptionKey) -> Option<Description> {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.lock();
        let (used, description) = known.get_mut(key)?;
        *used = tick;
        Some(description.clone())
    }

    fn put(&self, key: DescriptionKey, description: Description) {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.lock();
        if known.len() >= self.limit {
            let mut ticks: Vec<u64> = known.values().map(|(used, _)| *used).collect();
            let middle = ticks.len() / 2;
            let (_, median, _) = ticks.select_nth_unstable(middle);
            let median = *median;
            known.retain(|_, (used, _)| *used > median);
        }
        known.insert(key, (tick, description));
    }
}

impl StorageNode {
    /// Describes the requested objects, in order.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] for an object that is not of the format, [`ErrorKind::VersionChanged`]
    /// or [`ErrorKind::NotFound`] for one that is not there in its version.
    pub async fn describe(self: &Arc<Self>, request: DescribeRequest) -> Result<DescribeResponse, NodeError> {
        let format = FileFormat::try_from(&required(request.format, "format")?)?;
        let partition_bytes = match format {
            FileFormat::Parquet => 0,
            FileFormat::Csv(_) => request.partition_bytes.max(PARTITION_BYTES_MIN),
        };
        let objects = stream::iter(request.objects)
            .map(|object| {
                let key = DescriptionKey { object, format: format.clone(), partition_bytes };
                let node = Arc::clone(self);
                async move {
                    if let Some(known) = node.descriptions.get(&key) {
                        return Ok(known);
                    }
                    let source = RootSource::new(node.root.clone(), key.object.clone());
                    let description = match &key.format {
                        FileFormat::Parquet => {
                            Description { footer: fetch_footer(&source).await?, ..Description::default() }
                        }
                        FileFormat::Csv(csv) => split_csv(Arc::new(source), csv, partition_bytes).await?,
                    };
                    node.descriptions.put(key, description.clone());
                    Ok::<_, NodeError>(description)
                }
            })
            .buffered(DESCRIBED_AT_ONCE)
            .try_collect()
            .await?;
        Ok(DescribeResponse { objects })
    }
}

/// Scans a whole CSV object once, reading ahead of the scan.
async fn split_csv(
    source: Arc<RootSource>,
    format: &CsvFormat,
    partition_bytes: u64,
) -> Result<Description, NodeError> {
    let object = source.object().clone();
    let bad = |error: crate::csv::CsvError| NodeError::new(ErrorKind::BadData, format!("{}: {error}", object.path));
    let mut scanner = SplitScanner::try_new(&csv_options(format), partition_bytes).map_err(bad)?;
    let chunks = (0..object.size.div_ceil(SCAN_BYTES)).map(|chunk| {
        let source = Arc::clone(&source);
        let range = chunk * SCAN_BYTES..object.size.min((chunk + 1) * SCAN_BYTES);
        async move { source.read(std::slice::from_ref(&range)).await }
    });
    let mut chunks = stream::iter(chunks).buffered(2);
    while let Some(chunk) = chunks.try_next().await? {
        for bytes in chunk {
            scanner.push(&bytes).map_err(bad)?;
        }
        // The scan of a chunk takes a millisecond or two; let others have the thread in between.
        tokio::task::yield_now().await;
    }
    let splits = scanner.finish().map_err(bad)?;
    Ok(Description {
        splits: splits
            .splits
            .iter()
            .map(|split| Split { start: split.start, end: split.end, rows: split.rows })
            .collect(),
        header: splits.header.unwrap_or_default(),
        ..Description::default()
    })
}
