//! How objects are cut into partitions: footers of Parquet, split points of CSV.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use futures::future::{BoxFuture, Shared, WeakShared};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use prost::Message;
use thermocline_formats::csv::SplitScanner;
use thermocline_formats::{RangeSource, csv_options, fetch_footer, text};
use thermocline_pushdown::wire::{DescribeRequest, DescribeResponse, Description, ErrorKind, ObjectEntry, Split};
use thermocline_pushdown::{CsvFormat, FileFormat, NodeError, TextCompression};

use super::StorageNode;
use super::checked::check_objects;
use super::storage_node::required;
use super::turns::Turns;
use crate::budget::Account;
use crate::peer::Peer;
use crate::recent::Recent;
use crate::source::RootSource;

/// Objects described at once for one request.
const DESCRIBED_AT_ONCE: usize = 16;
/// Objects described at once at a node, and for one peer. Each has three reads of 4 MiB under way if it is
/// CSV, and is charged for them.
const DESCRIBED_AT_ONCE_MAX: usize = 32;
const DESCRIBED_FOR_PEER_MAX: usize = 24;
/// The longest wait for the memory of a scan.
const SCAN_WAIT_MAX: Duration = Duration::from_secs(30);
/// Bytes of descriptions in one message, unless a single one has more. A reader is guaranteed as many.
const RESPONSE_BYTES: usize = 64 << 10;
/// Descriptions in one message.
const RESPONSE_OBJECTS_MAX: usize = 1024;
/// CSV partitions are at least this large, whatever is asked for.
const PARTITION_BYTES_MIN: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DescriptionKey {
    object: ObjectEntry,
    format: Arc<FileFormat>,
    partition_bytes: u64,
}

type Outcome = Result<Arc<Description>, NodeError>;

/// A scan that all who ask for it wait for; it ends when none of them does any more.
type Scan = Shared<BoxFuture<'static, Outcome>>;

/// Split points of CSV objects, for which a whole object is read once, by object version, within a
/// number of bytes, the least recently used forgotten. Footers are where they are and need no scan.
#[derive(Debug)]
pub(super) struct Descriptions {
    known: Mutex<Recent<DescriptionKey, Arc<Description>>>,
    under_way: Mutex<HashMap<DescriptionKey, WeakShared<BoxFuture<'static, Outcome>>>>,
    turns: Turns,
}

impl Descriptions {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            known: Mutex::new(Recent::new(bytes_max)),
            under_way: Mutex::default(),
            turns: Turns::new(DESCRIBED_AT_ONCE_MAX, DESCRIBED_FOR_PEER_MAX),
        }
    }

    /// The scan of an object version, which may be under way already.
    fn scan(&self, key: &DescriptionKey, begin: impl FnOnce() -> Scan) -> Scan {
        let mut under_way = self.under_way.lock();
        if let Some(scan) = under_way.get(key).and_then(WeakShared::upgrade)
            && scan.peek().is_none()
        {
            return scan;
        }
        under_way.retain(|_, scan| scan.upgrade().is_some_and(|scan| scan.peek().is_none()));
        let scan = begin();
        if let Some(weak) = scan.downgrade() {
            under_way.insert(key.clone(), weak);
        }
        scan
    }
}

/// Bytes of what is remembered. A format may be that of other objects, too; it counts for each.
fn bytes_of(key: &DescriptionKey, description: &Description) -> usize {
    let format = match key.format.as_ref() {
        FileFormat::Parquet => 0,
        FileFormat::Csv(csv) => {
            let columns = csv.fields.as_ref().map_or(0, |fields| fields.of_columns.len());
            csv.null_text.len() + columns * size_of::<Option<u32>>()
        }
    };
    let names = key.object.path.len() + key.object.version.len();
    size_of::<(DescriptionKey, Description, FileFormat)>() + names + format + bytes_held(description)
}

/// Bytes of a description that nothing else counts; a footer is charged where it was read.
fn bytes_held(description: &Description) -> usize {
    let header: usize = description.header.iter().map(|name| size_of::<String>() + name.len()).sum();
    description.splits.len() * size_of::<Split>() + header
}

/// Whether a scan is to be charged for what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is.
    Charge,
    /// The caller holds memory for reading already.
    Held,
}

impl StorageNode {
    /// Describes the requested objects for this process, in order, several in a message of bounded size.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a request without a format. In the stream, [`ErrorKind::BadData`] for
    /// an object that is not of the format, [`ErrorKind::VersionChanged`] or [`ErrorKind::NotFound`] for
    /// one that is not there in its version.
    pub fn describe(
        self: &Arc<Self>,
        request: DescribeRequest,
    ) -> Result<BoxStream<'static, Result<DescribeResponse, NodeError>>, NodeError> {
        self.describe_for(request, self.budget().account(Peer::local(), "", 0))
    }

    /// The same for whoever has `account`, which is charged for what waits to be sent.
    ///
    /// # Errors
    /// As [`StorageNode::describe`].
    pub(crate) fn describe_for(
        self: &Arc<Self>,
        request: DescribeRequest,
        account: Account,
    ) -> Result<BoxStream<'static, Result<DescribeResponse, NodeError>>, NodeError> {
        let format = Arc::new(FileFormat::try_from(&required(request.format, "format")?)?);
        check_objects(&request.objects)?;
        let partition_bytes = request.partition_bytes;
        let node = Arc::clone(self);
        let described = stream::iter(request.objects)
            .map(move |object| {
                let (node, format, account) = (Arc::clone(&node), Arc::clone(&format), account.clone());
                async move {
                    let described = node.described(object, &format, partition_bytes, &account, Reading::Charge).await?;
                    let bytes = bytes_held(&described);
                    if !account.peer().is_local() && !account.try_take(bytes) {
                        let why = "the storage node has no memory for more descriptions now";
                        return Err(NodeError::new(ErrorKind::Busy, why));
                    }
                    Ok((described, account, bytes))
                }
            })
            .buffered(DESCRIBED_AT_ONCE)
            .map_ok(|(described, account, bytes)| {
                account.give_back(bytes);
                Arc::unwrap_or_clone(described)
            });
        Ok(described.ready_chunks(RESPONSE_OBJECTS_MAX).flat_map(|ready| stream::iter(responses(ready))).boxed())
    }

    /// Describes one object.
    ///
    /// # Errors
    /// See [`StorageNode::describe`].
    pub(super) async fn described(
        self: &Arc<Self>,
        object: ObjectEntry,
        format: &Arc<FileFormat>,
        partition_bytes: u64,
        account: &Account,
        reading: Reading,
    ) -> Result<Arc<Description>, NodeError> {
        let key = DescriptionKey {
            object,
            format: Arc::clone(format),
            partition_bytes: partition_bytes.max(PARTITION_BYTES_MIN),
        };
        let FileFormat::Csv(_) = format.as_ref() else {
            return self.spawned(key, account, reading).await;
        };
        let known = self.descriptions.known.lock().get(&key).map(Arc::clone);
        if let Some(known) = known {
            return Ok(known);
        }
        self.descriptions.scan(&key, || self.spawned(key.clone(), account, reading).boxed().shared()).await
    }

    /// A description in a task of its own: one that only its reader drives has its turn for as long as the
    /// reader pleases.
    fn spawned(
        self: &Arc<Self>,
        key: DescriptionKey,
        account: &Account,
        reading: Reading,
    ) -> impl Future<Output = Result<Arc<Description>, NodeError>> + Send + 'static {
        let (node, account) = (Arc::clone(self), account.clone());
        let task = SpawnedTask::spawn(async move {
            let _turn = node.descriptions.turns.take(account.peer()).await;
            let source = RootSource::new(node.root.clone(), key.object.clone());
            let source = source.charged_throughout(node.context.memory_pool());
            let FileFormat::Csv(csv) = key.format.as_ref() else {
                let footer = fetch_footer(&source).await.map_err(later)?;
                return Ok(Arc::new(Description { footer, ..Description::default() }));
            };
            let _read = match reading {
                Reading::Charge => {
                    Some(node.reading_within(&key.object, &account, SCAN_WAIT_MAX).await.map_err(later)?)
                }
                Reading::Held => None,
            };
            let memory = node.context.memory_pool();
            let source = Arc::new(RootSource::new(node.root.clone(), key.object.clone()));
            let description = split_csv(source, csv, key.partition_bytes, memory).await.map_err(later)?;
            let description = Arc::new(description);
            let bytes = bytes_of(&key, &description);
            node.descriptions.known.lock().put(key, Arc::clone(&description), bytes);
            Ok(description)
        });
        async move {
            let failed = |error| NodeError::new(ErrorKind::Internal, format!("a description failed: {error}"));
            task.join().await.map_err(failed)?
        }
    }
}

/// Turns a lack of memory into [`ErrorKind::Busy`], on which the caller tries again: no other way leads to a
/// description.
fn later(error: NodeError) -> NodeError {
    match error.kind {
        ErrorKind::ResourcesExhausted => NodeError { kind: ErrorKind::Busy, ..error },
        _ => error,
    }
}

/// Messages of what is ready, in order, up to the first error.
fn responses(ready: Vec<Result<Description, NodeError>>) -> Vec<Result<DescribeResponse, NodeError>> {
    let mut responses = vec![];
    let mut response = DescribeResponse::default();
    let mut bytes = 0;
    for description in ready {
        match description {
            Ok(description) => {
                let more = description.encoded_len();
                if bytes + more > RESPONSE_BYTES && !response.objects.is_empty() {
                    responses.push(Ok(std::mem::take(&mut response)));
                    bytes = 0;
                }
                bytes += more;
                response.objects.push(description);
            }
            Err(error) => {
                responses.extend((!response.objects.is_empty()).then(|| Ok(std::mem::take(&mut response))));
                responses.push(Err(error));
                return responses;
            }
        }
    }
    responses.extend((!response.objects.is_empty()).then_some(Ok(response)));
    responses
}

/// Bytes of split points that are not charged, because the memory that a scan has taken for reading covers them:
/// so a table can be created where there is no other memory.
const SPLITS_UNCHARGED_BYTES: usize = 64 << 10;

/// Scans the text of a whole CSV object once, reading ahead of the scan. A compressed object is not
/// cut: every piece of it would decompress all that is before it again.
async fn split_csv(
    source: Arc<RootSource>,
    format: &CsvFormat,
    partition_bytes: u64,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Description, NodeError> {
    let object = source.object().clone();
    let bad = |error: thermocline_formats::csv::CsvError| {
        NodeError::new(ErrorKind::BadData, format!("{}: {error}", object.path))
    };
    let (partition_bytes, end) = match TextCompression::of_path(&object.path) {
        TextCompression::None => (partition_bytes, object.size),
        _ => (u64::MAX, u64::MAX),
    };
    let mut scanner = SplitScanner::try_new(&csv_options(format), partition_bytes).map_err(bad)?;
    let held = MemoryConsumer::new("split points").register(memory);
    let mut pieces = text(source, 0..end, memory);
    while let Some(piece) = pieces.try_next().await? {
        scanner.push(&piece).map_err(bad)?;
        let more = scanner.memory_bytes().saturating_sub(SPLITS_UNCHARGED_BYTES);
        held.try_resize(more).map_err(|error| NodeError::from(error).context(&object.path))?;
        // The scan of a piece takes a millisecond or two; let others have the thread in between.
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
