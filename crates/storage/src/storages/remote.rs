//! A storage node behind Arrow Flight.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{
    BitmapRequest, DescribeRequest, DropIndexRequest, DropIndexResponse, ErrorKind, FragmentRequest, Handshake,
    IndexRequest, IndexStatusRequest, IndexStatusResponse, ListRequest, ListResponse, NodeStatus, RangesRequest,
    Shaped, Ticket, TicketKind, VERSIONS_HEADER,
};
use tokio::sync::OnceCell;
use tonic::transport::Channel;
use tonic::{Response, Streaming};

use super::connections::{ConnectionOptions, Connections, StreamPlace};
use super::cores;
use crate::listing::{OBJECTS_MAX, SKIPPED_MAX};
use crate::service::MESSAGE_BYTES_MAX;
use crate::{Capabilities, ContentKind, Descriptions, Messages, Storage};

/// Bytes of the messages of one listing.
const LISTING_BYTES_MAX: usize = 1 << 30;
/// Checks that a wait for a message is divided into.
const LOOKS: u32 = 30;

/// Options of connections to a storage node: waits and windows.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for the next message of an answer; a node that hangs is given up after it.
    pub request_timeout: Duration,
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
            stream_window: 2 << 20,
            streams_per_connection: 100,
        }
    }
}

/// A storage node at an address. It is this build's code, which the first exchange makes sure of, so that it has all
/// capabilities.
#[derive(Clone)]
pub struct RemoteNode {
    inner: Arc<Inner>,
}

struct Inner {
    /// `host:port`.
    address: String,
    capabilities: Capabilities,
    connections: Connections,
    request_timeout: Duration,
    /// Set once the node's versions were found to match.
    checked: OnceCell<()>,
}

impl fmt::Debug for RemoteNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteNode({})", self.inner.address)
    }
}

impl RemoteNode {
    /// The node at `address` (`host:port`). Connects on first use.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the address is not one.
    pub fn new(address: &str, options: &RemoteOptions) -> Result<Self, NodeError> {
        let connections = Connections::new(
            address,
            &ConnectionOptions {
                connect_timeout: options.connect_timeout,
                keepalive_timeout: options.request_timeout,
                stream_window: options.stream_window,
                streams: options.streams_per_connection,
            },
        )?;
        let inner = Inner {
            address: address.to_owned(),
            capabilities: Capabilities {
                crosses_link: true,
                shares_cores: cores::shared_with(address),
                ..Capabilities::all()
            },
            connections,
            request_timeout: options.request_timeout,
            checked: OnceCell::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The answer to a `DoGet`.
    async fn get(&self, kind: TicketKind) -> Result<Messages, NodeError> {
        let ticket = arrow_flight::Ticket::new(Ticket { kind: Some(kind) }.encode_to_vec());
        let asked = async {
            let (mut client, place) = self.checked_client().await?;
            let answer = same_versions(self.timed(client.do_get(ticket)).await??)?;
            Ok((answer, place))
        };
        let answer = asked.await.map_err(|error| self.named(error))?;
        let state = (self.clone(), answer);
        let messages = futures::stream::try_unfold(state, |(node, (mut answer, place))| async move {
            let message: Option<FlightData> = node.timed(answer.try_next()).await?.map_err(NodeError::from)?;
            // The stream keeps its place in the connection for as long as it is there.
            Ok(message.map(|message| (message, (node, (answer, place)))))
        });
        Ok(self.all_named(messages.boxed()))
    }

    /// The answer to an action that answers with one message.
    async fn action<M: Shaped>(&self, name: &str, body: Vec<u8>) -> Result<M, NodeError> {
        let asked = async {
            let (mut client, _place) = self.checked_client().await?;
            let answer = same_versions(self.timed(client.do_action(Action::new(name, body))).await??)?;
            self.only_message(name, answer).await
        };
        asked.await.map_err(|error| self.named(error))
    }

    /// The one message of an answer.
    async fn only_message<M: Shaped>(
        &self,
        name: &str,
        mut answer: Streaming<arrow_flight::Result>,
    ) -> Result<M, NodeError> {
        let result = self.timed(answer.try_next()).await??;
        decoded(name, result.map(|result| result.body).unwrap_or_default())
    }

    /// The messages of an action that answers with several; empty ones only say that the node is alive.
    async fn actions<M: Shaped + Send + 'static>(
        &self,
        name: &'static str,
        body: Vec<u8>,
    ) -> Result<BoxStream<'static, Result<M, NodeError>>, NodeError> {
        let asked = async {
            let (mut client, place) = self.checked_client().await?;
            let answer = same_versions(self.timed(client.do_action(Action::new(name, body))).await??)?;
            Ok((answer, place))
        };
        let answer = asked.await.map_err(|error| self.named(error))?;
        let state = (self.clone(), answer);
        let messages = futures::stream::try_unfold(state, move |(node, (mut answer, place))| async move {
            loop {
                let Some(message) = node.timed(answer.try_next()).await?? else { return Ok(None) };
                if !message.body.is_empty() {
                    return Ok(Some((decoded(name, message.body)?, (node, (answer, place)))));
                }
            }
        });
        Ok(self.all_named(messages.boxed()))
    }

    /// A client of a node whose versions match ours.
    async fn checked_client(&self) -> Result<(FlightServiceClient<Channel>, StreamPlace), NodeError> {
        let (channel, place) = self.inner.connections.stream();
        let client = FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let checked = self.inner.checked.get_or_try_init(|| async {
            let mut asked = client.clone();
            let answer = self.timed(asked.do_action(Action::new("handshake", vec![]))).await??;
            let node: Handshake = self.only_message("handshake", answer.into_inner()).await?;
            check_versions(&node)
        });
        checked.await?;
        Ok((client, place))
    }

    /// Waits at most [`RemoteOptions::request_timeout`], of which only time counts in which this process
    /// listened: on a machine with more work than cores an answer may lie in the socket for long.
    async fn timed<T>(&self, wait: impl Future<Output = T>) -> Result<T, NodeError> {
        let mut wait = std::pin::pin!(wait);
        for _ in 0..LOOKS {
            if let Ok(answer) = tokio::time::timeout(self.inner.request_timeout / LOOKS, &mut wait).await {
                return Ok(answer);
            }
            // The task that reads the socket gets a turn before the next check.
            tokio::task::yield_now().await;
        }
        let why = format!("no answer within {:?}", self.inner.request_timeout);
        // It is not the statement's deadline that has passed.
        Err(NodeError { sqlstate: Some("08006".to_owned()), ..NodeError::new(ErrorKind::DeadlineExceeded, why) })
    }

    /// The error with the node's name in front.
    fn named(&self, error: NodeError) -> NodeError {
        error.context(format!("storage node {}", self.inner.address))
    }

    fn all_named<T: 'static>(
        &self,
        messages: BoxStream<'static, Result<T, NodeError>>,
    ) -> BoxStream<'static, Result<T, NodeError>> {
        let node = self.clone();
        messages.map_err(move |error| node.named(error)).boxed()
    }
}

#[async_trait]
impl Storage for RemoteNode {
    fn label(&self) -> &str {
        &self.inner.address
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn list(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        let request = ListRequest { prefix: prefix.to_owned() };
        let mut messages = self.actions::<ListResponse>("list", request.encode_to_vec()).await?;
        let mut found = ListResponse::default();
        let mut bytes = 0;
        while let Some(message) = messages.try_next().await? {
            bytes += message.encoded_len();
            found.objects.extend(message.objects);
            found.skipped.extend(message.skipped);
            found.skipped_total = found.skipped_total.saturating_add(message.skipped_total);
            // No node of ours sends more.
            let (objects, skipped) = (found.objects.len(), found.skipped.len());
            if objects > OBJECTS_MAX || skipped > SKIPPED_MAX || bytes > LISTING_BYTES_MAX {
                let why = format!("the listing goes on after {objects} objects and {skipped} others in {bytes} bytes");
                return Err(self.named(NodeError::new(ErrorKind::Refused, why)));
            }
            found.missing |= message.missing;
        }
        Ok(found)
    }

    async fn describe(&self, request: DescribeRequest) -> Result<Descriptions, NodeError> {
        self.actions("describe", request.encode_to_vec()).await
    }

    async fn ranges(&self, request: &RangesRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Ranges(request.clone())).await
    }

    async fn execute(&self, request: &FragmentRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Fragment(request.clone())).await
    }

    async fn select(&self, request: &BitmapRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Bitmap(request.clone())).await
    }

    async fn put(&self, kind: ContentKind, bytes: &[u8]) -> Result<(), NodeError> {
        self.action(kind.action(), bytes.to_vec()).await
    }

    async fn create_index(&self, request: &IndexRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Index(request.clone())).await
    }

    async fn index_status(&self, request: &IndexStatusRequest) -> Result<IndexStatusResponse, NodeError> {
        self.action("index_status", request.encode_to_vec()).await
    }

    async fn drop_index(&self, request: &DropIndexRequest) -> Result<DropIndexResponse, NodeError> {
        self.action("drop_index", request.encode_to_vec()).await
    }

    async fn status(&self) -> Result<Option<NodeStatus>, NodeError> {
        self.action("status", vec![]).await.map(Some)
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
