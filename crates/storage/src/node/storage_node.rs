//! The node itself: ROOT, limits and counters.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use bytes::Bytes;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message;
use thermocline_pushdown::wire::{ErrorKind, NodeStatus, ObjectEntry, Origin, RangesRequest, Ticket, TicketKind};
use thermocline_pushdown::{Limits, PushbackToken};
use tokio::time::Instant;

use super::arbitrator::{Arbitration, Arbitrator};
use super::contents::Contents;
use super::describe::Descriptions;
use super::reader_wait::attended;
use crate::index::IndexStore;
use crate::source::RootSource;
use crate::{Egress, FooterCache, Footers, NodeError, RangeSource, Root};

/// Limits of a storage node; none is unbounded.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Memory for running fragments, in bytes.
    pub memory_limit: usize,
    /// Fragments that run at once.
    pub pushdown_slots: usize,
    /// Transfers of stored bytes after a pushback that may be under way at once. 0: nothing is
    /// pushed back while the queue has room, every fragment waits for a pushdown slot (eager
    /// pushdown).
    pub pushback_slots: usize,
    /// The order of the queue.
    pub arbitration: Arbitration,
    /// How long a pushback slot is kept for a caller who does not come for the stored bytes.
    pub pushback_wait_max: Duration,
    /// Whether to decide on pushback by load; other values are for tests.
    pub pushback: PushbackPolicy,
    /// Share of a core that one fragment may take, above 0 and at most 1.
    pub compute_power: f64,
    /// Fragments that wait for a slot; more are pushed back, or told to come back.
    pub queue_max: usize,
    /// How long a reader may take nothing of an answer before it is given up; `None` for ever,
    /// which is for readers in the same process: those that are gone have dropped their answer.
    pub reader_wait_max: Option<Duration>,
    /// The longest that a request may take, whatever its own deadline says.
    pub deadline_max: Duration,
    /// Decoded fragments and schemas that are kept, in bytes; at most an eighth of `memory_limit`, which
    /// they count towards.
    pub contents_bytes_max: usize,
    /// Split points of CSV objects that are remembered, in bytes.
    pub descriptions_bytes_max: usize,
    /// Decoded footers that are kept, in bytes; at most a quarter of `memory_limit`, which they count
    /// towards.
    pub footers_bytes_max: usize,
    /// Where decoded footers are kept instead, if nodes of one process share a place for them.
    pub footers: Option<Arc<FooterCache>>,
    /// Bounds on one fragment.
    pub limits: Limits,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Whether filters are evaluated while Parquet is decoded, other columns only for what passes.
    /// Off: over the SSB queries in mode `pushdown` it took 1.3 x as long with it.
    pub late_materialisation: bool,
    /// What leaves the node, in bytes per second; `None` for no limit.
    pub egress: Option<u64>,
    /// What the link carries, in bytes per second, for the arbitrator's estimates; `None` to take
    /// `egress`, or what is measured. Limits nothing.
    pub bandwidth: Option<u64>,
    /// Stored bytes per message: small enough to share a link. A node without a link sends whole
    /// reads, which are then not copied.
    pub message_bytes: usize,
    /// Where index objects are kept; `None` for `.thermocline/index` below a local ROOT.
    pub index_directory: Option<PathBuf>,
}

/// Which requests are pushed back. All but the first ignore the load, for tests and experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PushbackPolicy {
    /// As the arbitrator decides.
    #[default]
    Adaptive,
    /// None.
    Never,
    /// Every second.
    Half,
    /// All.
    Always,
}

impl FromStr for PushbackPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "adaptive" => Ok(Self::Adaptive),
            "none" => Ok(Self::Never),
            "half" => Ok(Self::Half),
            "all" => Ok(Self::Always),
            _ => Err(format!("unknown pushback policy '{text}': expected adaptive, none, half or all")),
        }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            memory_limit: 2 << 30,
            pushdown_slots: 2 * cores,
            pushback_slots: 0,
            arbitration: Arbitration::default(),
            pushback_wait_max: Duration::from_secs(10),
            pushback: PushbackPolicy::default(),
            compute_power: 1.0,
            queue_max: 1024,
            reader_wait_max: None,
            deadline_max: Duration::from_secs(3600),
            contents_bytes_max: 128 << 20,
            descriptions_bytes_max: 64 << 20,
            footers_bytes_max: 256 << 20,
            footers: None,
            limits: Limits::default(),
            batch_rows: 8192,
            late_materialisation: false,
            egress: None,
            bandwidth: None,
            message_bytes: 1 << 20,
            index_directory: None,
        }
    }
}

/// What a node has done; every field only grows.
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
    pub(super) footers: Footers,
    pub(super) contents: Contents,
    pub(super) indexes: IndexStore,
    egress: Option<Egress>,
    counters: NodeCounters,
}

/// The messages of one answer.
pub(crate) type Answer = BoxStream<'static, Result<FlightData, NodeError>>;

/// Longest silence of a node that is working.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// Stored bytes that one request may ask for at once before the next ones are read.
const RAW_READ_BYTES: u64 = 16 << 20;

impl StorageNode {
    /// A node that serves `root` under `config`.
    ///
    /// # Errors
    /// If the limits make no runtime, `compute_power` is no share, or the index directory cannot be made.
    pub fn new(root: Root, config: NodeConfig) -> Result<Arc<Self>, NodeError> {
        if !(config.compute_power > 0.0 && config.compute_power <= 1.0) {
            let why = format!("a compute power of {} is not above 0 and at most 1", config.compute_power);
            return Err(NodeError::new(ErrorKind::Refused, why));
        }
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(config.memory_limit));
        let runtime: Arc<RuntimeEnv> = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let session = SessionConfig::new().with_batch_size(config.batch_rows).with_target_partitions(1);
        let context = SessionContext::new_with_config_rt(session, runtime).task_ctx();
        let footers = config.footers.clone().unwrap_or_else(|| {
            let bytes_max = config.footers_bytes_max.min(config.memory_limit / 4);
            FooterCache::new(bytes_max, Some(Arc::clone(context.memory_pool())))
        });
        let footers = Footers::new(footers, root.label());
        let contents = Contents::new(config.contents_bytes_max.min(config.memory_limit / 8), &context);
        let indexes = IndexStore::new(&root, config.index_directory.as_deref(), config.deadline_max)?;
        Ok(Arc::new(Self {
            root,
            context,
            arbitrator: Arbitrator::new(&config),
            descriptions: Descriptions::new(config.descriptions_bytes_max),
            footers,
            contents,
            indexes,
            egress: config.egress.map(Egress::new),
            counters: NodeCounters::default(),
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

    /// What the node has done so far.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// What the node is doing.
    pub fn status(&self) -> NodeStatus {
        // What is kept for later requests gives way to them.
        let kept = self.footers.bytes_charged() + self.contents.bytes_charged();
        NodeStatus {
            abandoned: self.counters.abandoned.load(Ordering::Relaxed),
            memory_used: self.context.memory_pool().reserved().saturating_sub(kept) as u64,
            memory_limit: self.config.memory_limit as u64,
            ..self.arbitrator.status()
        }
    }

    /// Objects below `prefix`, by path.
    ///
    /// # Errors
    /// See [`Root::list`].
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, NodeError> {
        self.root.list(prefix).await
    }

    /// Answers a `DoGet` ticket: a fragment's batches or stored bytes.
    ///
    /// Dropping the answer cancels the work behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for bytes that are no ticket or a fragment that may not run here.
    pub async fn get(self: &Arc<Self>, ticket: &[u8]) -> Result<Answer, NodeError> {
        let ticket = Ticket::decode(ticket)
            .map_err(|error| NodeError::new(ErrorKind::Refused, format!("a ticket does not decode: {error}")))?;
        let asked = asked(&ticket);
        let answer = match ticket.kind {
            Some(TicketKind::Fragment(request)) => self.execute(request),
            Some(TicketKind::Ranges(request)) => self.raw(request),
            Some(TicketKind::Bitmap(request)) => self.select(request),
            Some(TicketKind::Index(request)) => self.create_index(request),
            None => Err(NodeError::new(ErrorKind::Refused, "a ticket asks for nothing")),
        };
        match answer {
            Ok(answer) => Ok(attended(self, self.metered(answer), asked)),
            Err(error) => {
                self.count_error(&error);
                Err(error)
            }
        }
    }

    /// Stored bytes, a bounded read at a time.
    fn raw(self: &Arc<Self>, request: RangesRequest) -> Result<Answer, NodeError> {
        let object = required(request.object, "object")?;
        if request.starts.len() != request.ends.len() {
            return Err(NodeError::new(
                ErrorKind::Refused,
                format!("{}: a range has a start or an end only", object.path),
            ));
        }
        let deadline = self.deadline(request.origin.as_ref());
        let ranges: Vec<_> = request.starts.into_iter().zip(request.ends).map(|(start, end)| start..end).collect();
        let source = Arc::new(RootSource::new(self.root.clone(), object));
        let node = Arc::clone(self);
        let transfer = self.arbitrator.transfer(PushbackToken::new(request.pushback_token));
        let message_bytes = self.config.message_bytes.max(1);
        let reads = futures::stream::iter(bounded_reads(ranges)).then(move |ranges| {
            let source = Arc::clone(&source);
            async move { before(deadline, source.read(&ranges)).await? }
        });
        let messages = reads.flat_map(move |read| match read {
            Ok(read) => futures::stream::iter(raw_messages(read, message_bytes)).boxed(),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        });
        let sent = futures::stream::unfold(Some((messages.boxed(), transfer, node)), |state| async move {
            let (mut messages, mut transfer, node) = state?;
            match messages.next().await {
                Some(Ok(message)) => {
                    transfer.sent(message.data_body.len());
                    Some((Ok(message), Some((messages, transfer, node))))
                }
                Some(Err(error)) => Some((Err(error), None)),
                None => {
                    transfer.complete();
                    node.counters.range_requests.fetch_add(1, Ordering::Relaxed);
                    None
                }
            }
        });
        Ok(sent.boxed())
    }

    /// When `origin` stops waiting.
    pub(super) fn deadline(&self, origin: Option<&Origin>) -> Instant {
        let asked = origin.map_or(0, |origin| origin.deadline_ms);
        let limit = match asked {
            0 => self.config.deadline_max,
            asked => self.config.deadline_max.min(Duration::from_millis(asked)),
        };
        Instant::now() + limit
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
        if !error.is_advice() {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(kind = ?error.kind, "request failed: {error}");
        }
    }
}

/// Who asks for what, for the log.
fn asked(ticket: &Ticket) -> String {
    let (origin, object) = match &ticket.kind {
        Some(TicketKind::Fragment(request)) => (&request.origin, &request.object),
        Some(TicketKind::Ranges(request)) => (&request.origin, &request.object),
        Some(TicketKind::Bitmap(request)) => (&request.origin, &request.object),
        Some(TicketKind::Index(request)) => (&request.origin, &request.object),
        None => (&None, &None),
    };
    let query = origin.as_ref().map_or("", |origin| origin.query_id.as_str());
    let path = object.as_ref().map_or("", |object| object.path.as_str());
    format!("query '{query}', object '{path}'")
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

/// `work`, unless the deadline passes first.
pub(super) async fn before<T>(deadline: Instant, work: impl Future<Output = T>) -> Result<T, NodeError> {
    tokio::time::timeout_at(deadline, work)
        .await
        .map_err(|_| NodeError::new(ErrorKind::DeadlineExceeded, "the request's deadline passed at the storage node"))
}

pub(super) fn required<T>(field: Option<T>, name: &str) -> Result<T, NodeError> {
    field.ok_or_else(|| NodeError::new(ErrorKind::Refused, format!("a request names no {name}")))
}

/// The ranges in groups of bounded size, long ranges cut: what is held in memory per request.
fn bounded_reads(ranges: Vec<std::ops::Range<u64>>) -> Vec<Vec<std::ops::Range<u64>>> {
    let mut reads = vec![];
    let mut read: Vec<std::ops::Range<u64>> = vec![];
    let mut bytes = 0;
    for range in ranges {
        if range.start > range.end {
            // Kept as it is, for the source to refuse by name.
            read.push(range);
            continue;
        }
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + (RAW_READ_BYTES - bytes));
            bytes += end - start;
            read.push(start..end);
            start = end;
            if bytes >= RAW_READ_BYTES {
                reads.push(std::mem::take(&mut read));
                bytes = 0;
            }
        }
    }
    if !read.is_empty() {
        reads.push(read);
    }
    reads
}

fn raw_messages(read: Vec<Bytes>, message_bytes: usize) -> Vec<Result<FlightData, NodeError>> {
    read.into_iter()
        .flat_map(|bytes| {
            (0..bytes.len())
                .step_by(message_bytes)
                .map(|start| bytes.slice(start..bytes.len().min(start.saturating_add(message_bytes))))
                .collect::<Vec<_>>()
        })
        .map(|body| Ok(FlightData { data_body: body, ..FlightData::default() }))
        .collect()
}
