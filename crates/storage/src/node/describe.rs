//! How objects are cut into partitions: footers of Parquet, split points of CSV.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryPool;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use prost::Message;
use thermocline_pushdown::wire::{DescribeRequest, DescribeResponse, Description, ErrorKind, ObjectEntry, Split};
use thermocline_pushdown::{CsvFormat, FileFormat, TextCompression};

use super::StorageNode;
use super::storage_node::required;
use crate::csv::SplitScanner;
use crate::reader::{csv_options, fetch_footer, text};
use crate::recent::Recent;
use crate::source::RootSource;
use crate::{NodeError, RangeSource};

/// Objects described at once for one request.
const DESCRIBED_AT_ONCE: usize = 16;
/// Bytes of descriptions in one message, unless a single one has more.
const RESPONSE_BYTES: usize = 1 << 20;
/// Descriptions in one message.
const RESPONSE_OBJECTS_MAX: usize = 1024;
/// CSV partitions are at least this large, whatever is asked for.
const PARTITION_BYTES_MIN: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DescriptionKey {
    object: ObjectEntry,
    format: FileFormat,
    partition_bytes: u64,
}

/// Split points of CSV objects, for which a whole object is read once, by object version, within a
/// number of bytes, the least recently used forgotten. Footers are where they are and need no scan.
#[derive(Debug)]
pub(super) struct Descriptions(Mutex<Recent<DescriptionKey, Description>>);

impl Descriptions {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self(Mutex::new(Recent::new(bytes_max)))
    }
}

fn bytes_of(key: &DescriptionKey, description: &Description) -> usize {
    let header: usize = description.header.iter().map(|name| size_of::<String>() + name.len()).sum();
    let splits = description.splits.len() * size_of::<Split>();
    size_of::<(DescriptionKey, Description)>() + key.object.path.len() + key.object.version.len() + splits + header
}

impl StorageNode {
    /// Describes the requested objects, in order, several in a message of bounded size.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a request without a format. In the stream, [`ErrorKind::BadData`] for
    /// an object that is not of the format, [`ErrorKind::VersionChanged`] or [`ErrorKind::NotFound`] for
    /// one that is not there in its version.
    pub fn describe(
        self: &Arc<Self>,
        request: DescribeRequest,
    ) -> Result<BoxStream<'static, Result<DescribeResponse, NodeError>>, NodeError> {
        let format = FileFormat::try_from(&required(request.format, "format")?)?;
        let partition_bytes = request.partition_bytes;
        let node = Arc::clone(self);
        let described = stream::iter(request.objects)
            .map(move |object| {
                let (node, format) = (Arc::clone(&node), format.clone());
                async move { node.described(object, &format, partition_bytes).await }
            })
            .buffered(DESCRIBED_AT_ONCE);
        Ok(described.ready_chunks(RESPONSE_OBJECTS_MAX).flat_map(|ready| stream::iter(responses(ready))).boxed())
    }

    /// Describes one object.
    ///
    /// # Errors
    /// See [`StorageNode::describe`].
    pub(super) async fn described(
        &self,
        object: ObjectEntry,
        format: &FileFormat,
        partition_bytes: u64,
    ) -> Result<Description, NodeError> {
        let source = RootSource::new(self.root.clone(), object.clone()).charged(self.context.memory_pool());
        let FileFormat::Csv(csv) = format else {
            return Ok(Description { footer: fetch_footer(&source).await.map_err(later)?, ..Description::default() });
        };
        let partition_bytes = partition_bytes.max(PARTITION_BYTES_MIN);
        let key = DescriptionKey { object, format: format.clone(), partition_bytes };
        if let Some(known) = self.descriptions.0.lock().get(&key) {
            return Ok(known.clone());
        }
        let description = split_csv(Arc::new(source), csv, partition_bytes, self.context.memory_pool()).await?;
        let bytes = bytes_of(&key, &description);
        self.descriptions.0.lock().put(key, description.clone(), bytes);
        Ok(description)
    }
}

/// A description cannot be had in another way, so that who finds no memory for it is to wait.
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

/// Scans the text of a whole CSV object once, reading ahead of the scan. A compressed object is not
/// cut: every piece of it would decompress all that is before it again.
async fn split_csv(
    source: Arc<RootSource>,
    format: &CsvFormat,
    partition_bytes: u64,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Description, NodeError> {
    let object = source.object().clone();
    let bad = |error: crate::csv::CsvError| NodeError::new(ErrorKind::BadData, format!("{}: {error}", object.path));
    let (partition_bytes, end) = match TextCompression::of_path(&object.path) {
        TextCompression::None => (partition_bytes, object.size),
        _ => (u64::MAX, u64::MAX),
    };
    let mut scanner = SplitScanner::try_new(&csv_options(format), partition_bytes).map_err(bad)?;
    let mut pieces = text(source, 0..end, memory);
    while let Some(piece) = pieces.try_next().await? {
        scanner.push(&piece).map_err(bad)?;
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
