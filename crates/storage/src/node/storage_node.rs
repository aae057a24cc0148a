//! The node itself: ROOT, limits and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message;
use thermocline_formats::{FooterCache, Footers};
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ListResponse, NodeStatus, ObjectEntry, Origin, Ticket, TicketKind};

use super::arbitrator::Arbitrator;
use super::checked::checked_ticket;
use super::config::{ClientLimits, NodeConfig};
use super::contents::Contents;
use super::describe::Descriptions;
use super::raw::READ_BYTES_MIN;
use super::reader::{Deadline, Reader, attended};
use super::resources::{Resources, memory_used};
use super::turns::{Turn, Turns};
use super::workers::Workers;
use crate::budget::{Account, Budget};
use crate::index::IndexStore;
use crate::messages::MESSAGE_BYTES;
use crate::peer::Peer;
use crate::{Egress, Machine, Root};

/// Counters of a node; every field only grows.
#[derive(Debug, Default)]
pub struct NodeCounters {
    /// Fragments answered in full.
    pub fragments: AtomicU64,
    /// Requests for stored bytes answered in full.
    pub range_requests: AtomicU64,
    /// Requests that ended in an error other than a stale version.
    pub errors: AtomicU64,
    /// Bytes sent in answers, as Flight messages.
    pub bytes_sent: AtomicU64,
    /// Answers that were given up because nobody read them.
    pub abandoned: AtomicU64,
}

/// A storage node over one ROOT.
#[derive(Debug)]
pub struct StorageNode {
    pub(super) root: Root,
    pub(super) config: NodeConfig,
    pub(super) context: Arc<TaskContext>,
    pub(super) arbitrator: Arc<Arbitrator>,
    pub(super) descriptions: Descriptions,
    /// Walks of directories, and checks of many index objects.
    walks: Turns,
    pub(super) footers: Footers,
    pub(super) contents: Contents,
    budget: Arc<Budget>,
    /// See [`NodeConfig::reading_bytes`].
    reading: Arc<Budget>,
    pub(super) indexes: IndexStore,
    pub(super) workers: Arc<Workers>,
    egress: Option<Egress>,
    counters: NodeCounters,
    /// One reference here and one for each answer that was not dropped.
    answers: Arc<()>,
}

/// The messages of one answer.
pub(crate) type Answer = BoxStream<'static, Result<FlightData, NodeError>>;

/// Bytes that a fragment has read and not decoded: of CSV three reads of 4 MiB, of Parquet one of 8 MiB and what
/// is decoded of it. Larger reads are charged by themselves.
const READING_BYTES: u64 = 16 << 20;
/// Added to twice the size of a small object, which together bound what a fragment over it has read.
const READING_BYTES_LEAST: u64 = 1 << 20;

/// Walks at once, and for one peer.
const WALKS_MAX: usize = 8;
const WALKS_FOR_PEER_MAX: usize = 4;

/// Longest silence of a node that is working.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

impl StorageNode {
    /// A node that serves `root` under `config`.
    ///
    /// # Errors
    /// If the limits make no runtime, `compute_power` is no share, or the index directory cannot be made.
    pub fn new(root: Root, config: NodeConfig) -> Result<Arc<Self>, NodeError> {
        let resources = Resources::new(&config)?;
        Self::sharing(root, config, &resources)
    }

    /// The same of a node that shares memory and slots with others.
    ///
    /// # Errors
    /// As [`StorageNode::new`].
    pub fn sharing(root: Root, config: NodeConfig, resources: &Resources) -> Result<Arc<Self>, NodeError> {
        if !(config.compute_power > 0.0 && config.compute_power <= 1.0) {
            let why = format!("a compute power of {} is not above 0 and at most 1", config.compute_power);
            return Err(NodeError::new(ErrorKind::Refused, why));
        }
        let context = Arc::clone(&resources.context);
        let footers = config.footers.clone().unwrap_or_else(|| {
            let bytes_max = config.footers_bytes_max.min(config.fragment_bytes() / 4);
            FooterCache::new(bytes_max, Some(Arc::clone(context.memory_pool())))
        });
        let footers = Footers::new(footers, root.label());
        let contents = Contents::new(config.contents_bytes_max.min(config.fragment_bytes() / 8), &context);
        let indexes = IndexStore::new(&root, &config.index_limits())?;
        Ok(Arc::new(Self {
            root,
            context,
            arbitrator: Arc::clone(&resources.arbitrator),
            descriptions: Descriptions::new(config.descriptions_bytes_max),
            walks: Turns::new(WALKS_MAX, WALKS_FOR_PEER_MAX),
            footers,
            contents,
            budget: Arc::clone(&resources.budget),
            reading: Arc::clone(&resources.reading),
            indexes,
            workers: Arc::clone(&resources.workers),
            egress: config.egress.map(Egress::new),
            counters: NodeCounters::default(),
            answers: Arc::new(()),
            config,
        }))
    }

    /// ROOT as people name it.
    pub fn label(&self) -> &str {
        self.root.label()
    }

    /// Whether what leaves the node is held to a rate.
    pub fn is_egress_limited(&self) -> bool {
        self.egress.is_some()
    }

    /// Decoded footers of its objects.
    pub fn footers(&self) -> &Footers {
        &self.footers
    }

    /// Counters of the node so far.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Load of the node, its counters, and what it runs on.
    pub fn status(&self) -> NodeStatus {
        let machine = Machine::current();
        // What is kept for later requests gives way to them.
        let kept = self.footers.bytes_charged() + self.contents.bytes_charged();
        NodeStatus {
            abandoned: self.counters.abandoned.load(Ordering::Relaxed),
            answers: Arc::strong_count(&self.answers) as u64 - 1,
            memory_used: (self.memory_used().saturating_sub(kept)) as u64,
            memory_limit: self.config.memory_limit as u64,
            bytes_read: self.root.bytes_read(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine.model.clone(),
            cores: machine.cores,
            egress_bytes_per_s: self.config.egress.unwrap_or(0),
            compute_permille: (self.config.compute_power * 1000.0).round() as u64,
            ..self.arbitrator.status()
        }
    }

    fn memory_used(&self) -> usize {
        memory_used(&self.context, &self.budget, &self.reading)
    }

    /// Memory for what a fragment over `object` has read and not decoded.
    ///
    /// # Errors
    /// [`ErrorKind::ResourcesExhausted`] if others have it: readers who are away may keep it for long.
    pub(super) async fn reading(&self, object: &ObjectEntry, reader: &Reader) -> Result<Account, NodeError> {
        self.reading_within(object, reader.account(), self.config.slot_wait_max).await
    }

    /// The same for whoever has `account`, waiting at most `wait_max`.
    ///
    /// # Errors
    /// As [`StorageNode::reading`].
    pub(super) async fn reading_within(
        &self,
        object: &ObjectEntry,
        account: &Account,
        wait_max: Duration,
    ) -> Result<Account, NodeError> {
        let account = self.reading.account_like(account);
        // No more is read than there is, once as stored and once on its way into the decoder.
        let bytes = object.size.saturating_mul(2).saturating_add(READING_BYTES_LEAST).min(READING_BYTES) as usize;
        match tokio::time::timeout(wait_max, account.take(bytes)).await {
            Ok(()) => Ok(account),
            Err(_) => Err(NodeError::new(
                ErrorKind::ResourcesExhausted,
                format!("{}: the storage node has no memory for another fragment", object.path),
            )),
        }
    }

    /// Objects and skipped entries below `prefix`, by path.
    ///
    /// # Errors
    /// See [`Root::list`].
    pub async fn list(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        self.root.list(prefix).await
    }

    /// The same without objects more than `levels` folders below `prefix`, which a bucket may list all the same.
    ///
    /// # Errors
    /// See [`Root::list`].
    pub(crate) async fn list_levels(&self, prefix: &str, levels: usize) -> Result<ListResponse, NodeError> {
        self.root.list_charged(prefix, Some(levels), None, ()).await
    }

    /// The same for whoever has `account`, with the account that its bytes are charged to. `held` is kept
    /// for as long as there is work.
    ///
    /// # Errors
    /// As [`StorageNode::list`], and [`ErrorKind::Busy`] or [`ErrorKind::ResourcesExhausted`] if there is no
    /// memory for so many objects.
    pub(crate) async fn list_for(
        &self,
        prefix: &str,
        account: &Account,
        held: impl Send + 'static,
    ) -> Result<(ListResponse, Account), NodeError> {
        let turn = self.walk(account.peer()).await;
        let account = self.reading.account_like(account);
        let found = self.root.list_charged(prefix, None, Some(account.clone()), (turn, held)).await?;
        Ok((found, account))
    }

    /// A turn at work on many files.
    pub(super) async fn walk(&self, peer: &Peer) -> Turn {
        self.walks.take(peer).await
    }

    /// Memory for a message that is larger than what its account is guaranteed.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if others have it.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<MemoryReservation, NodeError> {
        let reserved = MemoryConsumer::new("message").register(self.context.memory_pool());
        let error = reserved.try_grow(bytes).err();
        error.map_or(Ok(reserved), |error| Err(NodeError { kind: ErrorKind::Busy, ..error.into() }))
    }

    /// Answers a `DoGet` ticket of this process: a fragment's batches or stored bytes.
    ///
    /// Dropping the answer cancels the work behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for bytes that are no ticket or a fragment that may not run here.
    pub async fn get(self: &Arc<Self>, ticket: &[u8]) -> Result<Answer, NodeError> {
        self.get_for(ticket, Peer::local()).await
    }

    /// The same for `peer`.
    ///
    /// # Errors
    /// As [`StorageNode::get`].
    pub(crate) async fn get_for(self: &Arc<Self>, ticket: &[u8], peer: Peer) -> Result<Answer, NodeError> {
        let ticket = checked_ticket(ticket)?;
        let asked = asked(&ticket);
        let guaranteed = match ticket.kind {
            Some(TicketKind::Ranges(_)) => READ_BYTES_MIN as usize,
            _ => MESSAGE_BYTES,
        };
        let reader = Reader::new(self.budget.account(peer, query_of(&ticket), 2 * guaranteed));
        let answer = match ticket.kind {
            Some(TicketKind::Fragment(request)) => self.execute(request, &reader),
            Some(TicketKind::Ranges(request)) => self.raw(request, &reader),
            Some(TicketKind::Bitmap(request)) => self.select(request, &reader),
            Some(TicketKind::Index(request)) => self.create_index(request, &reader),
            None => Err(NodeError::new(ErrorKind::Refused, "a ticket asks for nothing")),
        };
        match answer {
            Ok(answer) => {
                let counted = Arc::clone(&self.answers);
                let answer = attended(self, self.metered(answer), asked).inspect(move |_| {
                    let _until_dropped = &counted;
                });
                Ok(reader.reading(answer.boxed()))
            }
            Err(error) => {
                self.count_error(&error);
                Err(error)
            }
        }
    }

    /// When `origin` stops waiting, or the node does.
    pub(super) fn deadline(&self, origin: Option<&Origin>, reader: &Reader) -> Deadline {
        Deadline::of(origin, self.config.deadline_max, reader)
    }

    /// See [`NodeConfig::clients`].
    pub(crate) fn client_limits(&self) -> &ClientLimits {
        &self.config.clients
    }

    /// Memory of requests and answers.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// See [`NodeConfig::keepalive`].
    pub(crate) fn keepalive(&self) -> Duration {
        self.config.keepalive
    }

    /// Counts what is sent and holds it to the egress limit.
    fn metered(self: &Arc<Self>, answer: Answer) -> Answer {
        let link = self.egress.as_ref().map(Egress::stream);
        let state = (kept_alive(answer), link, Arc::clone(self));
        futures::stream::unfold(state, |(mut answer, mut link, node)| async move {
            let Some(message) = answer.next().await else {
                if let Some(link) = &mut link {
                    link.finish().await;
                }
                return None;
            };
            match &message {
                Ok(message) => {
                    let bytes = message.encoded_len();
                    if let Some(link) = &mut link {
                        link.pass(bytes).await;
                    }
                    node.counters.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(error) => node.count_error(error),
            }
            Some((message, (answer, link, node)))
        })
        .boxed()
    }

    fn count_error(&self, error: &NodeError) {
        if error.kind == ErrorKind::ResourcesExhausted {
            // The caller fetches the stored bytes.
            tracing::debug!("no memory: {error}");
        } else if !error.is_advice() {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(kind = ?error.kind, "request failed: {error}");
        }
    }
}

/// The origin that the request names.
fn origin_of(ticket: &Ticket) -> Option<&Origin> {
    match ticket.kind.as_ref()? {
        TicketKind::Fragment(request) => request.origin.as_ref(),
        TicketKind::Ranges(request) => request.origin.as_ref(),
        TicketKind::Bitmap(request) => request.origin.as_ref(),
        TicketKind::Index(request) => request.origin.as_ref(),
    }
}

fn query_of(ticket: &Ticket) -> &str {
    origin_of(ticket).map_or("", |origin| &origin.query_id)
}

/// Query and object of a request, for the log.
fn asked(ticket: &Ticket) -> String {
    let object = match &ticket.kind {
        Some(TicketKind::Fragment(request)) => &request.object,
        Some(TicketKind::Ranges(request)) => &request.object,
        Some(TicketKind::Bitmap(request)) => &request.object,
        Some(TicketKind::Index(request)) => &request.object,
        None => &None,
    };
    let path = object.as_ref().map_or("", |object| object.path.as_str());
    format!("query '{}', object '{path}'", query_of(ticket))
}

/// The answer with an empty message whenever nothing came for a while, so that a reader can tell a
/// long aggregation from a node that hangs.
fn kept_alive(answer: Answer) -> Answer {
    futures::stream::unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        match tokio::time::timeout(HEARTBEAT, answer.next()).await {
            Ok(Some(message)) => Some((message, Some(answer))),
            Ok(None) => None,
            Err(_) => Some((Ok(FlightData::default()), Some(answer))),
        }
    })
    .boxed()
}

pub(super) fn required<T>(field: Option<T>, name: &str) -> Result<T, NodeError> {
    field.ok_or_else(|| NodeError::new(ErrorKind::Refused, format!("a request names no {name}")))
}
