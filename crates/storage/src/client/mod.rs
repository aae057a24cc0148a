//! How a compute node speaks to a storage, whichever it is.

mod describing;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_flight::FlightData;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use parking_lot::Mutex;
use prost::Message;
use thermocline_formats::{FooterCache, Footers};
use thermocline_pushdown::wire::{
    DescribeRequest, Description, DropIndexRequest, ErrorKind, IndexReport, IndexRequest, IndexStatus,
    IndexStatusRequest, ListResponse, NodeStatus, ObjectEntry, Ticket, TicketKind,
};
use thermocline_pushdown::{ContentDigest, NodeError};
use tokio::sync::OnceCell;

use crate::recent::Recent;
use crate::{
    Capabilities, Content, Descriptions, EmbeddedNode, Messages, NodeConfig, RemoteNode, RemoteOptions, Storage,
    StorageNode,
};
use describing::Describing;

/// Contents of which a client remembers that its storage has them.
const SENT_MAX: usize = 4096;

/// The longest pause before a busy node is asked again.
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Options of a client: how often it asks again, and where it keeps footers.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Attempts of an idempotent request, the first included, unless the storage
    /// [repeats](Capabilities::retries) requests itself.
    pub attempts: u32,
    /// Pause before the second attempt; it doubles with each further one.
    pub backoff: Duration,
    /// The longest that a request is repeated because the storage is busy with others.
    pub busy_wait_max: Duration,
    /// Where decoded footers are kept, if several storages share a place for them.
    pub footers: Option<Arc<FooterCache>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Duration::from_millis(100),
            busy_wait_max: Duration::from_secs(600),
            footers: None,
        }
    }
}

/// A storage, as a compute node sees it: requests are repeated where that may help, counted, and shortened by what the
/// storage was sent before. Cheap to clone; clones share all of it.
#[derive(Clone)]
pub struct NodeClient {
    inner: Arc<Inner>,
}

struct Inner {
    storage: Arc<dyn Storage>,
    options: ClientOptions,
    footers: Footers,
    /// Contents that the storage was sent and that requests name by digest. One that has forgotten them says
    /// so.
    sent: Mutex<Recent<ContentDigest, Arc<OnceCell<()>>>>,
    /// Bytes of answers to list and describe requests, which plan a query rather than feed it.
    planning_bytes: AtomicU64,
    /// Bytes of fragments' answers and stored bytes.
    data_bytes: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
}

/// Traffic of a client so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCounters {
    /// Bytes of object lists and descriptions.
    pub planning_bytes: u64,
    /// Bytes of fragments' answers and stored bytes.
    pub data_bytes: u64,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
}

impl fmt::Debug for NodeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClient({})", self.label())
    }
}

impl NodeClient {
    /// A client of `storage`.
    pub fn new(storage: Arc<dyn Storage>, options: ClientOptions) -> Self {
        let options = match storage.capabilities().retries {
            true => ClientOptions { attempts: 1, ..options },
            false => options,
        };
        let own = || {
            let cache = options
                .footers
                .clone()
                .unwrap_or_else(|| FooterCache::new(NodeConfig::default().footers_bytes_max, None));
            Footers::new(cache, storage.label())
        };
        let footers = storage.footers().cloned().unwrap_or_else(own);
        Self {
            inner: Arc::new(Inner {
                storage,
                options,
                footers,
                sent: Mutex::new(Recent::new(SENT_MAX)),
                planning_bytes: AtomicU64::new(0),
                data_bytes: AtomicU64::new(0),
                requests: AtomicU64::new(0),
                failures: AtomicU64::new(0),
            }),
        }
    }

    /// A client of a node in this process.
    pub fn embedded(node: Arc<StorageNode>) -> Self {
        Self::new(Arc::new(EmbeddedNode::new(node)), ClientOptions::default())
    }

    /// A client of the node at `address` (`host:port`). Connects on first use.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the address is not one.
    pub fn remote(address: &str, options: &RemoteOptions) -> Result<Self, NodeError> {
        Ok(Self::new(Arc::new(RemoteNode::new(address, options)?), ClientOptions::default()))
    }

    /// The storage's name: `host:port` of a node, the ROOT of an embedded one, the URL of a bucket.
    pub fn label(&self) -> &str {
        self.inner.storage.label()
    }

    /// What the storage does beside sending bytes.
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.storage.capabilities()
    }

    /// Decoded footers of the storage's objects.
    pub fn footers(&self) -> &Footers {
        &self.inner.footers
    }

    /// The traffic so far.
    pub fn counters(&self) -> ClientCounters {
        ClientCounters {
            planning_bytes: self.inner.planning_bytes.load(Ordering::Relaxed),
            data_bytes: self.inner.data_bytes.load(Ordering::Relaxed),
            requests: self.inner.requests.load(Ordering::Relaxed),
            failures: self.inner.failures.load(Ordering::Relaxed),
        }
    }

    /// Objects below `prefix`, by path.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, NodeError> {
        Ok(self.listing(prefix).await?.objects)
    }

    /// The same with what is there and is no object.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn listing(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        let found = self.retried(|| self.inner.storage.list(prefix)).await?;
        self.count_planning(&found);
        Ok(found)
    }

    /// The same, of which objects more than `levels` folders below `prefix` may be left out.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn listing_of_levels(&self, prefix: &str, levels: usize) -> Result<ListResponse, NodeError> {
        let found = self.retried(|| self.inner.storage.list_levels(prefix, levels)).await?;
        self.count_planning(&found);
        Ok(found)
    }

    /// Whether others have this client too, beside the caller.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }

    /// Descriptions of the objects (footers or split points), in the order of the request, as they come. While
    /// one takes long, the storage says that it is at work. An object is asked for again as long as that may help.
    ///
    /// The stream's errors name the storage and the object.
    pub fn describe(&self, request: DescribeRequest) -> BoxStream<'static, Result<Description, NodeError>> {
        Describing::new(self.clone(), request).stream()
    }

    /// Makes the index object of a column of one object, unless there is a current one. Dropping the
    /// future ends the work at the storage.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage and the object.
    pub async fn create_index(&self, request: IndexRequest) -> Result<IndexReport, NodeError> {
        let ticket = Ticket { kind: Some(TicketKind::Index(request)) };
        let mut messages = self.get(&ticket).await?;
        let mut report = None;
        while let Some(message) = messages.try_next().await? {
            if !message.app_metadata.is_empty() {
                report = Some(message.app_metadata);
            }
        }
        let cut_short = |why: &str| {
            NodeError::new(
                ErrorKind::Unavailable,
                format!("storage node {}: the answer of an index {why}", self.label()),
            )
        };
        let report = report.ok_or_else(|| cut_short("ended early"))?;
        IndexReport::decode(report).map_err(|error| cut_short(&format!("does not decode: {error}")))
    }

    /// States of the index objects of a column, in the order of the request.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn index_status(&self, request: IndexStatusRequest) -> Result<Vec<IndexStatus>, NodeError> {
        let asked = request.objects.len();
        let response = self.retried(|| self.inner.storage.index_status(&request)).await?;
        if response.objects.len() == asked {
            return Ok(response.objects);
        }
        let told = response.objects.len();
        let why = format!(
            "storage node {}: the indexes of {told} objects were told where {asked} were asked for",
            self.label()
        );
        Err(NodeError::new(ErrorKind::Internal, why))
    }

    /// Removes the index objects of a column; says how many there were.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn drop_index(&self, request: DropIndexRequest) -> Result<u64, NodeError> {
        Ok(self.retried(|| self.inner.storage.drop_index(&request)).await?.removed)
    }

    /// Sees to it that the storage has `content`, so that requests can name it; says how many bytes that
    /// took. Of concurrent callers one sends, the others wait. Sends nothing if the storage keeps no
    /// contents, or `content` has no digest.
    ///
    /// # Errors
    /// If the storage cannot be reached, or does not accept it ([`ErrorKind::Refused`]); the error names
    /// the storage.
    pub async fn put(&self, content: &Content) -> Result<usize, NodeError> {
        let Some(digest) = content.digest.filter(|_| self.capabilities().contents) else { return Ok(0) };
        let sent = {
            let mut known = self.inner.sent.lock();
            match known.get(&digest) {
                Some(sent) => Arc::clone(sent),
                None => {
                    let sent = Arc::new(OnceCell::new());
                    known.put(digest, Arc::clone(&sent), 1);
                    sent
                }
            }
        };
        let mut bytes = 0;
        sent.get_or_try_init(|| {
            self.retried(|| self.inner.storage.put(content.kind, &content.bytes))
                .inspect_ok(|()| bytes = content.bytes.len())
        })
        .await?;
        Ok(bytes)
    }

    /// Forgets that the storage had `content`: it has it no more.
    pub fn forget(&self, content: &Content) {
        if let Some(digest) = &content.digest {
            self.inner.sent.lock().remove(digest);
        }
    }

    /// Load and counters of the storage; `None` if it has none. Asked once, without retries: a node that does not
    /// answer is an answer.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage.
    pub async fn status(&self) -> Result<Option<NodeStatus>, NodeError> {
        self.inner.storage.status().await
    }

    /// The messages that answer `ticket`. The first message with content is waited for here, with
    /// retries: after it, a failure cannot be repaired by asking again, because part of the answer
    /// may be in use.
    ///
    /// # Errors
    /// [`NodeError`], which names the storage; so do the stream's errors. A storage that wants the stored
    /// bytes fetched instead ([`NodeError::wants_pullup`]) says so here.
    pub async fn get(&self, ticket: &Ticket) -> Result<Messages, NodeError> {
        let (first, rest) = self
            .retried(|| async {
                let mut stream = self.asked(ticket).await?;
                // A storage that is still waiting or working says so with empty messages.
                let mut first = stream.try_next().await?;
                while let Some(message) = first.as_ref().filter(|message| **message == FlightData::default()) {
                    self.inner.data_bytes.fetch_add(wire_bytes(message), Ordering::Relaxed);
                    first = stream.try_next().await?;
                }
                Ok((first, stream))
            })
            .await?;
        let client = self.clone();
        let messages = futures::stream::iter(first.map(Ok)).chain(rest.fuse());
        let messages = messages.inspect(move |message| {
            match message {
                Ok(message) => client.inner.data_bytes.fetch_add(wire_bytes(message), Ordering::Relaxed),
                Err(_) => client.inner.failures.fetch_add(1, Ordering::Relaxed),
            };
        });
        Ok(messages.boxed())
    }

    /// Asks the storage once.
    async fn asked(&self, ticket: &Ticket) -> Result<Messages, NodeError> {
        let storage = &self.inner.storage;
        match &ticket.kind {
            Some(TicketKind::Fragment(request)) => storage.execute(request).await,
            Some(TicketKind::Ranges(request)) => storage.ranges(request).await,
            Some(TicketKind::Bitmap(request)) => storage.select(request).await,
            Some(TicketKind::Index(request)) => storage.create_index(request).await,
            None => Err(NodeError::new(ErrorKind::Refused, "a ticket asks for nothing")),
        }
    }

    /// Asks for descriptions, a message at a time.
    pub(crate) async fn descriptions(&self, request: DescribeRequest) -> Result<Descriptions, NodeError> {
        self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let client = self.clone();
        let messages = self.inner.storage.describe(request).await?;
        Ok(messages.inspect_ok(move |message| client.count_planning(message)).boxed())
    }

    fn count_planning(&self, message: &impl Message) {
        self.inner.planning_bytes.fetch_add(message.encoded_len() as u64, Ordering::Relaxed);
    }

    /// Counts a failure, if it is one.
    pub(crate) fn failed(&self, error: NodeError) -> NodeError {
        if !error.is_advice() {
            self.inner.failures.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    /// Sends an idempotent request again, with growing pauses, while that may help: a few times if it
    /// fails, for as long as [`ClientOptions::busy_wait_max`] if the storage has too much to do.
    async fn retried<T, F: Future<Output = Result<T, NodeError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, NodeError> {
        let options = &self.inner.options;
        let mut pause = options.backoff;
        let mut attempt = 1;
        let mut busy_until = None;
        loop {
            self.inner.requests.fetch_add(1, Ordering::Relaxed);
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(error)
                    if error.is_busy()
                        && Instant::now()
                            < *busy_until.get_or_insert_with(|| Instant::now() + options.busy_wait_max) =>
                {
                    tracing::debug!(node = self.label(), "waiting: {error}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BUSY_PAUSE_MAX);
                }
                Err(error) if error.is_transient() && attempt < options.attempts => {
                    tracing::debug!(node = self.label(), attempt, "retrying: {error}");
                    self.inner.failures.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    attempt += 1;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }
}

/// Bytes of a message as gRPC frames it.
pub fn wire_bytes(message: &FlightData) -> u64 {
    /// Compression flag and length in front of every gRPC message.
    const FRAME_BYTES: u64 = 5;
    message.encoded_len() as u64 + FRAME_BYTES
}
