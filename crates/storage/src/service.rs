//! The node behind Arrow Flight: a thin translation, with nothing to decide.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryFutureExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{
    DescribeRequest, DropIndexRequest, ErrorKind, Handshake, IndexStatusRequest, ListRequest, ListResponse,
    ObjectEntry, Shaped, VERSIONS_HEADER,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use crate::budget::Account;
use crate::clients::{Admitted, Connection, Guarded, Limit, Places};
use crate::listing::entry_bytes;
use crate::node::HEARTBEAT;
use crate::peer::Peer;
use crate::{ClientLimits, ContentKind, StorageNode};

/// Largest request: a fragment and a table schema.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Largest message of an answer.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Objects in one message of a listing.
const LISTED_PER_MESSAGE: usize = 512;
/// Bytes of a message that an answer in messages can have whatever others hold.
const MESSAGE_BYTES_GUARANTEED: usize = 64 << 10;
/// Bytes of split points that wait to be sent that a request can have whatever others hold.
const DESCRIBED_BYTES_GUARANTEED: usize = 64 << 10;
/// Larger messages wait for so much of their memory, and are refused if there is none for the rest.
const MESSAGE_BYTES_AWAITED: usize = 1 << 20;
/// Times [`NodeConfig::keepalive`](crate::NodeConfig::keepalive) in which a request must have come whole.
const BODY_KEEPALIVES: u32 = 2;
/// Answers that one connection carries at once.
pub(crate) const STREAMS_PER_CONNECTION_MAX: u32 = 128;

/// A listening storage node. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Where it listens; the true port if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets answers under way finish, then stops.
    pub async fn shutdown(mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _already_stopped = shutdown.send(());
        }
        let _stopped = (&mut self.task).await;
    }

    /// Waits until the server stops by itself, which is an error.
    ///
    /// # Errors
    /// The error that stopped it.
    pub async fn stopped(&mut self) -> std::io::Result<()> {
        match (&mut self.task).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(std::io::Error::other(error)),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `node` on `address`.
///
/// # Errors
/// If the address cannot be bound.
pub fn serve(node: Arc<StorageNode>, address: SocketAddr) -> BoxFuture<'static, std::io::Result<Server>> {
    served(node, address).boxed()
}

/// [`serve`], compiled here alone.
async fn served(node: Arc<StorageNode>, address: SocketAddr) -> std::io::Result<Server> {
    let listener = TcpListener::bind(address).await?;
    let ClientLimits { connections_max, connections_per_client_max, requests_max, requests_per_client_max } =
        *node.client_limits();
    let connections =
        Places::new(Limit { what: "connections", all: connections_max, of_peer: connections_per_client_max });
    let requests = Places::new(Limit { what: "requests", all: requests_max, of_peer: requests_per_client_max });
    let address = listener.local_addr()?;
    let (shutdown, stopped) = oneshot::channel::<()>();
    let keepalive = node.keepalive();
    let budget = Arc::clone(node.budget());
    let body_time_max = keepalive.saturating_mul(BODY_KEEPALIVES);
    let service = FlightServiceServer::new(NodeService { node })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let service = Guarded::new(service, requests, budget, body_time_max);
    let incoming = TcpListenerStream::new(listener).try_filter_map(move |stream| {
        // Answers are written in whole messages: waiting for more to send only adds delay.
        let _best_effort = stream.set_nodelay(true);
        let peer = stream.peer_addr().map_or_else(|_| Peer::unknown(), Peer::at);
        let place = connections.take(&peer).inspect_err(|error| tracing::warn!("a connection was closed: {error}"));
        std::future::ready(Ok(place.ok().map(|place| Connection::new(stream, place, keepalive))))
    });
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(keepalive))
        .http2_keepalive_timeout(Some(keepalive))
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(32 << 20)
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, async {
            let _closed_too = stopped.await;
        });
    Ok(Server { address, shutdown: Some(shutdown), task: tokio::spawn(server) })
}

struct NodeService {
    node: Arc<StorageNode>,
}

/// An answer that says which versions gave it.
fn answered<T>(answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.metadata_mut().insert(VERSIONS_HEADER, MetadataValue::from_static(Handshake::header()));
    response
}

impl NodeService {
    fn put(&self, kind: ContentKind, action: &Action) -> Result<Vec<u8>, NodeError> {
        self.node.put(kind, &action.body).map(|()| vec![])
    }
}

#[async_trait]
impl FlightService for NodeService {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<ActionResult, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let admitted = admitted(&request)?;
        let answer = self.node.get_for(&request.into_inner().ticket, admitted.peer().clone()).await?;
        let answer = answer.map_err(Status::from).inspect(move |_| {
            let _until_the_end = &admitted;
        });
        Ok(answered(answer.boxed()))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let admitted = admitted(&request)?;
        let action = request.into_inner();
        let body = match action.r#type.as_str() {
            "handshake" => Handshake::of_this_build().encode_to_vec(),
            "list" => {
                let request: ListRequest = decoded(&action)?;
                let (node, admitted_too) = (Arc::clone(&self.node), admitted.clone());
                let listed = async move {
                    let account = admitted_too.account.clone();
                    let (found, account) = node.list_for(&request.prefix, &account, admitted_too).await?;
                    Ok::<_, NodeError>(futures::stream::iter(listed(found, account)).map(Ok))
                };
                return Ok(self.streamed(admitted, listed.try_flatten_stream()));
            }
            "describe" => {
                let request: DescribeRequest = decoded(&action)?;
                charge_objects(&admitted, &request.objects)?;
                let account = self.node.budget().account(admitted.peer().clone(), "", DESCRIBED_BYTES_GUARANTEED);
                let described = self.node.describe_for(request, account)?;
                return Ok(self.streamed(admitted, described));
            }
            "put_fragment" => self.put(ContentKind::Fragment, &action)?,
            "put_schema" => self.put(ContentKind::Schema, &action)?,
            "status" => {
                // The request for the status does not count, so that a node at rest holds nothing.
                admitted.account.give_back(usize::MAX);
                self.node.status().encode_to_vec()
            }
            "index_status" => {
                let request: IndexStatusRequest = decoded(&action)?;
                charge_objects(&admitted, &request.objects)?;
                let status = self.node.index_status_for(request, admitted.peer(), admitted.clone());
                status.await?.encode_to_vec()
            }
            "drop_index" => {
                let request: DropIndexRequest = decoded(&action)?;
                charge_objects(&admitted, &request.objects)?;
                self.node.drop_index_for(request, admitted.peer(), admitted.clone()).await?.encode_to_vec()
            }
            other => return Err(Status::unimplemented(format!("unknown action '{other}'"))),
        };
        admitted.account.settle(0, body.len());
        let answer = futures::stream::iter([Ok(ActionResult { body: body.into() })]).inspect(move |_| {
            let _until_the_end = &admitted;
        });
        Ok(answered(answer.boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = [
            ("handshake", "Versions of this node"),
            ("list", "Objects below a prefix"),
            ("describe", "Partitions and statistics of objects"),
            ("put_fragment", "Decodes a fragment that requests then name by its digest"),
            ("put_schema", "Decodes a schema that requests then name by its digest"),
            ("status", "Queue, slots and counts of fragments"),
            ("index_status", "Which index objects there are of a column"),
            ("drop_index", "Removes index objects of a column"),
        ];
        let actions = actions
            .map(|(name, description)| Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() }));
        Ok(Response::new(futures::stream::iter(actions).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(unused("Handshake", "DoAction(\"handshake\")"))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(unused("ListFlights", "DoAction(\"list\")"))
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(unused("GetFlightInfo", "DoAction(\"describe\")"))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(unused("PollFlightInfo", "DoGet"))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(unused("GetSchema", "DoAction(\"describe\")"))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(Status::unimplemented("a storage node's objects are read only"))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(unused("DoExchange", "DoGet"))
    }
}

/// Charges the objects of a decoded request; the bytes of their names are those of the request's body.
fn charge_objects(admitted: &Admitted, objects: &[ObjectEntry]) -> Result<(), NodeError> {
    if admitted.account.try_take(size_of_val(objects)) {
        return Ok(());
    }
    Err(NodeError::new(ErrorKind::Busy, "the storage node has no memory for so many objects now"))
}

/// Messages on their way to a reader, each charged while it is here.
struct Sending<M> {
    node: Arc<StorageNode>,
    messages: BoxStream<'static, Result<M, NodeError>>,
    /// A message that waits for memory.
    next: Option<M>,
    account: Account,
    /// What is charged for the messages that were handed over: hyper asks for one before it has sent the
    /// one before that.
    handed_over: VecDeque<(usize, Option<MemoryReservation>)>,
}

impl<M: Message> Sending<M> {
    /// The next message, once there is memory for it.
    async fn encoded(&mut self) -> Option<Result<ActionResult, NodeError>> {
        while self.handed_over.len() > 1 {
            self.account.give_back(self.handed_over.pop_front().map_or(0, |(bytes, _)| bytes));
        }
        let message = match self.next.take() {
            Some(message) => message,
            None => match self.messages.next().await? {
                Ok(message) => message,
                Err(error) => return Some(Err(error)),
            },
        };
        let bytes = message.encoded_len();
        let awaited = bytes.min(MESSAGE_BYTES_AWAITED);
        // If the wait is broken off, the message is still there.
        let message = self.next.insert(message);
        self.account.take(awaited).await;
        let rest = match bytes - awaited {
            0 => None,
            rest => match self.node.reserve(rest) {
                Ok(reserved) => Some(reserved),
                Err(error) => return Some(Err(error)),
            },
        };
        let body = message.encode_to_vec().into();
        self.next = None;
        self.handed_over.push_back((awaited, rest));
        Some(Ok(ActionResult { body }))
    }
}

impl NodeService {
    /// Messages as they are made, an empty one whenever none came for a while, so that the caller can tell
    /// a long scan from a node that hangs.
    fn streamed<M: Message + 'static>(
        &self,
        admitted: Admitted,
        messages: impl Stream<Item = Result<M, NodeError>> + Send + 'static,
    ) -> Response<BoxStream<'static, Result<ActionResult, Status>>> {
        // Three: two that are handed over, and the next one.
        let account = self.node.budget().account(admitted.peer().clone(), "", 3 * MESSAGE_BYTES_GUARANTEED);
        let (node, messages) = (Arc::clone(&self.node), messages.boxed());
        let sending = Sending { node, messages, next: None, account, handed_over: VecDeque::new() };
        let results = futures::stream::unfold(Some(sending), |sending| async move {
            let mut sending = sending?;
            match tokio::time::timeout(HEARTBEAT, sending.encoded()).await {
                Ok(Some(Ok(message))) => Some((Ok(message), Some(sending))),
                Ok(Some(Err(error))) => Some((Err(error.into()), None)),
                Ok(None) => None,
                Err(_) => Some((Ok(ActionResult::default()), Some(sending))),
            }
        });
        let results = results.inspect(move |_| {
            let _until_the_end = &admitted;
        });
        answered(results.boxed())
    }
}

/// A listing in messages of bounded size, with the skipped entries in the first one. What its objects take
/// is given back to `account` as they leave.
fn listed(found: ListResponse, account: Account) -> impl Iterator<Item = ListResponse> {
    let mut found = found;
    let mut objects = std::mem::take(&mut found.objects).into_iter();
    let messages = std::iter::from_fn(move || {
        let next: Vec<_> = objects.by_ref().take(LISTED_PER_MESSAGE).collect();
        account.give_back(next.iter().map(entry_bytes).sum());
        (!next.is_empty()).then(|| ListResponse { objects: next, ..ListResponse::default() })
    });
    std::iter::once(found).chain(messages)
}

/// The place of a request.
fn admitted<T>(request: &Request<T>) -> Result<Admitted, Status> {
    request.extensions().get().cloned().ok_or_else(|| Status::internal("a request has no place"))
}

fn unused(call: &str, instead: &str) -> Status {
    Status::unimplemented(format!("a storage node does not answer {call}; use {instead}"))
}

fn decoded<M: Shaped>(action: &Action) -> Result<M, Status> {
    M::decode_bounded(&action.body).map_err(|why| {
        let why = format!("the body of action '{}' does not decode: {why}", action.r#type);
        NodeError::new(ErrorKind::Refused, why).into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thermocline_pushdown::wire::{ObjectEntry, SkippedEntry};

    use super::*;
    use crate::budget::Budget;
    use crate::{NodeConfig, Root};

    fn service() -> (tempfile::TempDir, NodeService) {
        let root = tempfile::tempdir().unwrap();
        let node = StorageNode::new(Root::open(root.path().to_str().unwrap()).unwrap(), NodeConfig::default()).unwrap();
        (root, NodeService { node })
    }

    fn anybody() -> Admitted {
        let places = Places::new(Limit { what: "requests", all: 1, of_peer: 1 });
        Admitted::new(places.take(&Peer::unknown()).unwrap(), &Budget::new(0))
    }

    #[tokio::test]
    async fn a_long_scan_is_heard_of_while_it_lasts() {
        let slow = futures::stream::once(async {
            tokio::time::sleep(HEARTBEAT + Duration::from_millis(500)).await;
            let objects = vec![ObjectEntry { path: "t".into(), ..ObjectEntry::default() }];
            Ok(ListResponse { objects, ..ListResponse::default() })
        });
        let (_root, service) = service();
        let messages: Vec<_> = service.streamed(anybody(), slow).into_inner().map(Result::unwrap).collect().await;
        let [alive, answer] = &messages[..] else { panic!("{messages:?}") };
        assert!(alive.body.is_empty() && ListResponse::decode(answer.body.clone()).is_ok());

        let failing =
            futures::stream::iter([Ok(ListResponse::default()), Err(NodeError::new(ErrorKind::NotFound, "t"))]);
        let messages: Vec<_> = service.streamed(anybody(), failing).into_inner().collect().await;
        assert!(messages.len() == 2 && messages[1].is_err());
    }

    #[test]
    fn long_lists_come_in_messages_of_bounded_size() {
        let entry = |number: usize| ObjectEntry { path: number.to_string(), ..ObjectEntry::default() };
        let objects: Vec<_> = (0..2 * LISTED_PER_MESSAGE + 1).map(entry).collect();
        let skipped = vec![SkippedEntry { path: "x".into(), size: 1, reason: "why".into() }];
        let found = ListResponse { objects: objects.clone(), skipped, skipped_total: 7, missing: true };
        let budget = Budget::new(1 << 30);
        let account = budget.account(Peer::local(), "", 0);
        assert!(account.try_take(found.objects.iter().map(entry_bytes).sum()));
        let messages: Vec<_> = listed(found.clone(), account).collect();
        assert_eq!(budget.used(), 0);
        assert_eq!(messages.iter().map(|message| message.objects.len()).max(), Some(LISTED_PER_MESSAGE));
        assert_eq!(messages[0], ListResponse { objects: vec![], ..found });
        assert_eq!(messages.into_iter().flat_map(|message| message.objects).collect::<Vec<_>>(), objects);
    }
}
