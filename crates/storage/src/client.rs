//! How a compute node speaks to a storage node, in-process or over Arrow Flight.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use parking_lot::Mutex;
use prost::Message;
use thermocline_formats::{FooterCache, Footers};
use thermocline_pushdown::wire::{
    DescribeRequest, DescribeResponse, Description, DropIndexRequest, DropIndexResponse, ErrorKind, Handshake,
    IndexReport, IndexRequest, IndexStatus, IndexStatusRequest, IndexStatusResponse, ListRequest, ListResponse,
    NodeStatus, ObjectEntry, Shaped, Ticket, TicketKind, VERSIONS_HEADER,
};
use thermocline_pushdown::{ContentDigest, NodeError};
use tokio::sync::OnceCell;
use tonic::transport::Channel;
use tonic::{Response, Streaming};

use crate::connections::{ConnectionOptions, Connections, StreamPlace};
use crate::describing::Describing;
use crate::listing::{OBJECTS_MAX, SKIPPED_MAX};
use crate::recent::Recent;
use crate::service::MESSAGE_BYTES_MAX;
use crate::{Content, NodeConfig, StorageNode};

/// Contents of which a client remembers that its node has them.
const SENT_MAX: usize = 4096;
/// Bytes of the messages of one listing.
const LISTING_BYTES_MAX: usize = 1 << 30;
/// Checks that a wait for a message is divided into.
const LOOKS: u32 = 30;

/// The longest pause before a busy node is asked again.
pub(crate) const BUSY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Options of a connection to a storage node: waits, attempts, windows.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for the next message of an answer; a node that hangs is given up after it.
    pub request_timeout: Duration,
    /// Attempts of an idempotent request, the first included.
    pub attempts: u32,
    /// Pause before the second attempt; it doubles with each further one.
    pub backoff: Duration,
    /// Where decoded footers are kept, if several nodes share a place for them.
    pub footers: Option<Arc<FooterCache>>,
    /// The longest that a request is repeated because the node is busy with others.
    pub busy_wait_max: Duration,
    /// Bytes of one answer that may wait in this process for whoever reads it: its HTTP/2 window.
    pub stream_window: u32,
    /// Answers that share a connection; more open another one.
    pub streams_per_connection: usize,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            attempts: 3,
            backoff: Duration::from_millis(100),
            footers: None,
            busy_wait_max: Duration::from_secs(600),
            stream_window: 2 << 20,
            streams_per_connection: 100,
        }
    }
}

/// A storage node, as a compute node sees it. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct NodeClient {
    inner: Arc<Inner>,
}

struct Inner {
    /// `host:port`, or the ROOT of an embedded node.
    label: String,
    reach: Reach,
    options: RemoteOptions,
    footers: Footers,
    /// Contents that the node was sent and that requests name by digest. A node that has forgotten one says
    /// so.
    sent: Mutex<Recent<ContentDigest, Arc<OnceCell<()>>>>,
    /// Bytes of answers to list and describe requests, which plan a query rather than feed it.
    planning_bytes: AtomicU64,
    /// Bytes of answers to `DoGet`.
    data_bytes: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
}

enum Reach {
    Embedded(Arc<StorageNode>),
    Remote {
        connections: Box<Connections>,
        /// Set once the node's versions were found to match.
        checked: OnceCell<()>,
    },
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
        write!(f, "NodeClient({})", self.inner.label)
    }
}

impl NodeClient {
    /// A node in this process.
    pub fn embedded(node: Arc<StorageNode>) -> Self {
        let label = node.label().to_owned();
        Self::new(label, Reach::Embedded(node), RemoteOptions { attempts: 1, ..RemoteOptions::default() })
    }

    /// The node at `address` (`host:port`). Connects on first use.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the address is not one.
    pub fn remote(address: &str, options: RemoteOptions) -> Result<Self, NodeError> {
        let connections = Connections::new(
            address,
            &ConnectionOptions {
                connect_timeout: options.connect_timeout,
                keepalive_timeout: options.request_timeout,
                stream_window: options.stream_window,
                streams: options.streams_per_connection,
            },
        )?;
        let reach = Reach::Remote { connections: Box::new(connections), checked: OnceCell::new() };
        Ok(Self::new(address.to_owned(), reach, options))
    }

    fn new(label: String, reach: Reach, options: RemoteOptions) -> Self {
        let footers = match &reach {
            Reach::Embedded(node) => node.footers().clone(),
            Reach::Remote { .. } => {
                let own = || FooterCache::new(NodeConfig::default().footers_bytes_max, None);
                Footers::new(options.footers.clone().unwrap_or_else(own), &label)
            }
        };
        Self {
            inner: Arc::new(Inner {
                label,
                reach,
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

    /// `host:port`, or the ROOT of an embedded node.
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Decoded footers of the node's objects; an embedded node's are the same ones.
    pub fn footers(&self) -> &Footers {
        &self.inner.footers
    }

    /// Whether the node is in this process, so that no link lies in between.
    pub fn is_embedded(&self) -> bool {
        matches!(self.inner.reach, Reach::Embedded(_))
    }

    /// Whether answers cross a link, so that their bytes take time.
    pub fn crosses_link(&self) -> bool {
        match &self.inner.reach {
            Reach::Embedded(node) => node.is_egress_limited(),
            Reach::Remote { .. } => true,
        }
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
    /// [`NodeError`], which names the node.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, NodeError> {
        Ok(self.listing(prefix).await?.objects)
    }

    /// The same with what is there and is no object.
    ///
    /// # Errors
    /// [`NodeError`], which names the node.
    pub async fn listing(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        let request = ListRequest { prefix: prefix.to_owned() };
        self.retried(|| async {
            if let Reach::Embedded(node) = &self.inner.reach {
                return node.list(&request.prefix).await;
            }
            let mut messages = self.actions("list", request.encode_to_vec()).await?;
            let mut found = ListResponse::default();
            let mut bytes = 0;
            while let Some(message) = messages.try_next().await? {
                bytes += message.len();
                let message = decoded::<ListResponse>("list", message)?;
                found.objects.extend(message.objects);
                found.skipped.extend(message.skipped);
                found.skipped_total = found.skipped_total.saturating_add(message.skipped_total);
                // No node of ours sends more.
                let (objects, skipped) = (found.objects.len(), found.skipped.len());
                if objects > OBJECTS_MAX || skipped > SKIPPED_MAX || bytes > LISTING_BYTES_MAX {
                    let why =
                        format!("the listing goes on after {objects} objects and {skipped} others in {bytes} bytes");
                    return Err(NodeError::new(ErrorKind::Refused, why));
                }
                found.missing |= message.missing;
            }
            Ok(found)
        })
        .await
    }

    /// Descriptions of the objects (footers or split points), in the order of the request, as they come. While
    /// one takes long, the node says that it is at work. An object is asked for again as long as that may help.
    ///
    /// The stream's errors name the node and the object.
    pub fn describe(&self, request: DescribeRequest) -> BoxStream<'static, Result<Description, NodeError>> {
        Describing::new(self.clone(), request).stream()
    }

    /// Makes the index object of a column of one object, unless there is a current one. Dropping the
    /// future ends the work at the node.
    ///
    /// # Errors
    /// [`NodeError`], which names the node and the object.
    pub async fn create_index(&self, request: IndexRequest) -> Result<IndexReport, NodeError> {
        let ticket = Ticket { kind: Some(TicketKind::Index(request)) };
        let mut messages = self.get(&ticket).await?;
        let mut report = None;
        while let Some(message) = messages.try_next().await? {
            if !message.app_metadata.is_empty() {
                report = Some(message.app_metadata);
            }
        }
        let cut_short = |why: &str| self.named(NodeError::new(ErrorKind::Unavailable, why));
        let report = report.ok_or_else(|| cut_short("the answer of an index ended early"))?;
        IndexReport::decode(report).map_err(|error| cut_short(&format!("the answer of an index: {error}")))
    }

    /// States of the index objects of a column, in the order of the request.
    ///
    /// # Errors
    /// [`NodeError`], which names the node.
    pub async fn index_status(&self, request: IndexStatusRequest) -> Result<Vec<IndexStatus>, NodeError> {
        let asked = request.objects.len();
        let response: IndexStatusResponse = self
            .retried(|| async {
                match &self.inner.reach {
                    Reach::Embedded(node) => node.index_status(request.clone()).await,
                    Reach::Remote { .. } => self.action("index_status", request.encode_to_vec()).await,
                }
            })
            .await?;
        if response.objects.len() == asked {
            return Ok(response.objects);
        }
        let why = format!("the indexes of {} objects were told where {asked} were asked for", response.objects.len());
        Err(self.named(NodeError::new(ErrorKind::Internal, why)))
    }

    /// Removes the index objects of a column; says how many there were.
    ///
    /// # Errors
    /// [`NodeError`], which names the node.
    pub async fn drop_index(&self, request: DropIndexRequest) -> Result<u64, NodeError> {
        let response: DropIndexResponse = self
            .retried(|| async {
                match &self.inner.reach {
                    Reach::Embedded(node) => node.drop_index(request.clone()).await,
                    Reach::Remote { .. } => self.action("drop_index", request.encode_to_vec()).await,
                }
            })
            .await?;
        Ok(response.removed)
    }

    /// Sees to it that the node has `content`, so that requests can name it; says how many bytes that
    /// took. Of concurrent callers one sends, the others wait.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the node does not accept it; the error names the node.
    pub async fn put(&self, content: &Content) -> Result<usize, NodeError> {
        let Some(digest) = content.digest else { return Ok(0) };
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
            self.retried(|| async {
                match &self.inner.reach {
                    Reach::Embedded(node) => node.put(content.kind, &content.bytes),
                    Reach::Remote { .. } => self.action(content.kind.action(), content.bytes.to_vec()).await,
                }
            })
            .inspect_ok(|()| bytes = content.bytes.len())
        })
        .await?;
        Ok(bytes)
    }

    /// Forgets that the node had `content`: it has it no more.
    pub fn forget(&self, content: &Content) {
        if let Some(digest) = &content.digest {
            self.inner.sent.lock().remove(digest);
        }
    }

    /// Load and counters of the node. Asked once, without retries: a node that does not answer is an answer.
    ///
    /// # Errors
    /// [`NodeError`], which names the node.
    pub async fn status(&self) -> Result<NodeStatus, NodeError> {
        match &self.inner.reach {
            Reach::Embedded(node) => Ok(node.status()),
            Reach::Remote { .. } => self.action("status", vec![]).await.map_err(|error| self.named(error)),
        }
    }

    /// The messages that answer `ticket`. The first message with content is waited for here, with
    /// retries: after it, a failure cannot be repaired by asking again, because part of the answer
    /// may be in use.
    ///
    /// # Errors
    /// [`NodeError`], which names the node; so do the stream's errors. A node that wants the stored
    /// bytes fetched instead ([`NodeError::wants_pullup`]) says so here. No wait is longer than
    /// [`RemoteOptions::request_timeout`].
    pub async fn get(&self, ticket: &Ticket) -> Result<BoxStream<'static, Result<FlightData, NodeError>>, NodeError> {
        let bytes = ticket.encode_to_vec();
        let (first, rest) = self
            .retried(|| async {
                let mut stream = match &self.inner.reach {
                    Reach::Embedded(node) => node.get(&bytes).await?,
                    Reach::Remote { .. } => self.do_get(&bytes).await?,
                };
                // A node that is still waiting or working says so with empty messages.
                let mut first = self.timed(stream.try_next()).await??;
                while let Some(message) = first.as_ref().filter(|message| **message == FlightData::default()) {
                    self.inner.data_bytes.fetch_add(wire_bytes(message), Ordering::Relaxed);
                    first = self.timed(stream.try_next()).await??;
                }
                Ok((first, stream))
            })
            .await?;
        let client = self.clone();
        let messages = futures::stream::iter(first.map(Ok)).chain(rest.fuse());
        let messages = futures::stream::try_unfold((client, messages), |(client, mut messages)| async move {
            let message = client.timed(messages.try_next()).await.and_then(|message| message);
            match message {
                Ok(Some(message)) => {
                    client.inner.data_bytes.fetch_add(wire_bytes(&message), Ordering::Relaxed);
                    Ok(Some((message, (client, messages))))
                }
                Ok(None) => Ok(None),
                Err(error) => {
                    client.inner.failures.fetch_add(1, Ordering::Relaxed);
                    Err(client.named(error))
                }
            }
        });
        Ok(messages.boxed())
    }

    async fn do_get(&self, ticket: &[u8]) -> Result<BoxStream<'static, Result<FlightData, NodeError>>, NodeError> {
        let (mut client, place) = self.checked_client().await?;
        let ticket = arrow_flight::Ticket::new(ticket.to_vec());
        let answer = same_versions(self.timed(client.do_get(ticket)).await??)?;
        // The stream keeps its place in the connection for as long as it is there.
        let messages = answer.inspect(move |_| {
            let _kept = &place;
        });
        Ok(messages.map_err(NodeError::from).boxed())
    }

    async fn action<M: Shaped>(&self, name: &str, body: Vec<u8>) -> Result<M, NodeError> {
        let (mut client, _place) = self.checked_client().await?;
        let answer = same_versions(self.timed(client.do_action(Action::new(name, body))).await??)?;
        self.only_message(name, answer).await
    }

    /// The one message of an answer.
    async fn only_message<M: Shaped>(
        &self,
        name: &str,
        mut answer: Streaming<arrow_flight::Result>,
    ) -> Result<M, NodeError> {
        let result = self.timed(answer.try_next()).await??;
        let body = result.map(|result| result.body).unwrap_or_default();
        self.inner.planning_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        decoded(name, body)
    }

    /// The messages of an action that answers with several; empty ones only say that the node is alive.
    async fn actions(
        &self,
        name: &'static str,
        body: Vec<u8>,
    ) -> Result<BoxStream<'static, Result<Bytes, NodeError>>, NodeError> {
        let (mut client, place) = self.checked_client().await?;
        let answer = same_versions(self.timed(client.do_action(Action::new(name, body))).await??)?;
        let answer = answer.inspect(move |_| {
            let _kept = &place;
        });
        let messages = futures::stream::try_unfold((self.clone(), answer), |(client, mut answer)| async move {
            loop {
                let Some(message) = client.timed(answer.try_next()).await?? else { return Ok(None) };
                client.inner.planning_bytes.fetch_add(message.body.len() as u64, Ordering::Relaxed);
                if !message.body.is_empty() {
                    return Ok(Some((message.body, (client, answer))));
                }
            }
        });
        Ok(messages.boxed())
    }

    /// Asks for descriptions, a message at a time.
    pub(crate) async fn descriptions(
        &self,
        request: DescribeRequest,
    ) -> Result<BoxStream<'static, Result<DescribeResponse, NodeError>>, NodeError> {
        self.inner.requests.fetch_add(1, Ordering::Relaxed);
        match &self.inner.reach {
            Reach::Embedded(node) => node.describe(request),
            Reach::Remote { .. } => {
                let messages = self.actions("describe", request.encode_to_vec()).await?;
                Ok(messages.and_then(|message| async move { decoded("describe", message) }).boxed())
            }
        }
    }

    /// Counts a failure and names the node.
    pub(crate) fn failed(&self, error: NodeError) -> NodeError {
        if !error.is_advice() {
            self.inner.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.named(error)
    }

    pub(crate) fn options(&self) -> &RemoteOptions {
        &self.inner.options
    }

    /// A client of a node whose versions match ours.
    async fn checked_client(&self) -> Result<(FlightServiceClient<Channel>, StreamPlace), NodeError> {
        let Reach::Remote { connections, checked } = &self.inner.reach else {
            return Err(NodeError::new(ErrorKind::Internal, "an embedded node has no connection"));
        };
        let (channel, place) = connections.stream();
        let client = FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        checked
            .get_or_try_init(|| async {
                let mut asked = client.clone();
                let answer = self.timed(asked.do_action(Action::new("handshake", vec![]))).await??;
                let node: Handshake = self.only_message("handshake", answer.into_inner()).await?;
                check_versions(&node)
            })
            .await?;
        Ok((client, place))
    }

    /// Sends an idempotent request again, with growing pauses, while that may help: a few times if it
    /// fails, for as long as [`RemoteOptions::busy_wait_max`] if the node has too much to do.
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
                    tracing::debug!(node = self.inner.label, "waiting: {error}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BUSY_PAUSE_MAX);
                }
                Err(error) if error.is_transient() && attempt < options.attempts => {
                    tracing::debug!(node = self.inner.label, attempt, "retrying: {error}");
                    self.inner.failures.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    attempt += 1;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Waits at most [`RemoteOptions::request_timeout`], of which only time counts in which this process
    /// listened: on a machine with more work than cores an answer may lie in the socket for long.
    async fn timed<T>(&self, wait: impl Future<Output = T>) -> Result<T, NodeError> {
        if self.is_embedded() {
            return Ok(wait.await);
        }
        let mut wait = std::pin::pin!(wait);
        for _ in 0..LOOKS {
            if let Ok(answer) = tokio::time::timeout(self.inner.options.request_timeout / LOOKS, &mut wait).await {
                return Ok(answer);
            }
            // The task that reads the socket gets a turn before the next check.
            tokio::task::yield_now().await;
        }
        Err(NodeError::new(
            ErrorKind::DeadlineExceeded,
            format!("no answer within {:?}", self.inner.options.request_timeout),
        ))
    }

    /// The error with the node's name in front, unless the node is this process.
    fn named(&self, error: NodeError) -> NodeError {
        if self.is_embedded() { error } else { error.context(format!("storage node {}", self.inner.label)) }
    }
}

/// Refuses a node that speaks other versions than this build.
fn check_versions(node: &Handshake) -> Result<(), NodeError> {
    Handshake::of_this_build().check(node).map_err(|why| NodeError::new(ErrorKind::Refused, why))
}

/// What was answered, if the node that answered speaks our versions: connections are opened again without
/// our noticing, and another node may listen there by then.
fn same_versions<T>(answer: Response<T>) -> Result<T, NodeError> {
    let versions = answer.metadata().get(VERSIONS_HEADER).and_then(|value| value.to_str().ok());
    if versions != Some(Handshake::header()) {
        check_versions(&Handshake::of_header(versions))?;
    }
    Ok(answer.into_inner())
}

fn decoded<M: Shaped>(action: &str, body: Bytes) -> Result<M, NodeError> {
    M::decode_bounded(&body).map_err(|why| {
        NodeError::new(ErrorKind::Unavailable, format!("the answer to '{action}' does not decode: {why}"))
    })
}

/// Bytes of a message as gRPC frames it.
pub fn wire_bytes(message: &FlightData) -> u64 {
    /// Compression flag and length in front of every gRPC message.
    const FRAME_BYTES: u64 = 5;
    message.encoded_len() as u64 + FRAME_BYTES
}
