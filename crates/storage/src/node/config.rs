//! Limits of a storage node.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use thermocline_formats::FooterCache;
use thermocline_pushdown::Limits;

use super::arbitrator::Arbitration;
use crate::index::IndexLimits;

/// The least memory for requests and answers: with less, nothing could be answered.
const BUDGET_BYTES_MIN: usize = 16 << 20;
/// The least memory for what fragments read.
const READING_BYTES_MIN: usize = 64 << 20;

/// Limits of a storage node; none is unbounded.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Memory of the node, in bytes: half for the operators of fragments
    /// ([`NodeConfig::fragment_bytes`]), a quarter for what fragments read
    /// ([`NodeConfig::reading_bytes`]), an eighth for what is on its way
    /// ([`NodeConfig::budget_bytes`]). The rest is for split points and what else there is.
    pub memory_limit: usize,
    /// Fragments that run at once.
    pub pushdown_slots: usize,
    /// Threads that make answers; 0 for those of the runtime that asks for them.
    pub fragment_threads: usize,
    /// Transfers of stored bytes after a pushback that may be under way at once. 0: while the queue has
    /// room, load pushes nothing back and every fragment waits for a pushdown slot (eager pushdown).
    pub pushback_slots: usize,
    /// The order of the queue.
    pub arbitration: Arbitration,
    /// Time for which a pushback slot is kept for a caller that does not come for the stored bytes.
    pub pushback_wait_max: Duration,
    /// Whether to decide on pushback by load; other values are for tests.
    pub pushback: PushbackPolicy,
    /// Share of a core that one fragment may take, above 0 and at most 1.
    pub compute_power: f64,
    /// Fragments that wait for a slot; more are pushed back, or told to come back.
    pub queue_max: usize,
    /// Time in which a reader may take nothing of an answer before that is given up; `None` for as long as
    /// it answers pings, or has not dropped its answer if it is in the same process.
    pub reader_wait_max: Option<Duration>,
    /// Time after which a silent connection is pinged, and the longest that the answer to a ping may
    /// take: a peer that is silent for longer is gone, and its work is stopped.
    pub keepalive: Duration,
    /// Time for which an answer keeps its slot while its reader takes nothing. It is given another one when
    /// the reader is back and there is more to do.
    pub slot_wait_max: Duration,
    /// The longest that a request may take, whatever its own deadline says, not counting the time in
    /// which its reader takes nothing.
    pub deadline_max: Duration,
    /// Decoded fragments and schemas that are kept, in bytes; at most an eighth of the memory for fragments,
    /// which they count towards.
    pub contents_bytes_max: usize,
    /// Split points of CSV objects that are remembered, in bytes.
    pub descriptions_bytes_max: usize,
    /// Decoded footers that are kept, in bytes; at most a quarter of the memory for fragments, which they
    /// count towards.
    pub footers_bytes_max: usize,
    /// Where decoded footers are kept instead, if nodes of one process share a place for them.
    pub footers: Option<Arc<FooterCache>>,
    /// Bytes of an answer that is held back until it is complete, whatever the client allows.
    pub held_answer_bytes_max: u64,
    /// Limits on what clients have open at once.
    pub clients: ClientLimits,
    /// Bounds on one fragment.
    pub limits: Limits,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Whether filters are evaluated while Parquet is decoded, other columns only for what passes.
    /// Off: over the SSB queries in mode `pushdown` it took 1.3 x as long with it.
    pub late_materialisation: bool,
    /// Limit on what leaves the node, in bytes per second; `None` for none.
    pub egress: Option<u64>,
    /// Rate of the link, in bytes per second, for the arbitrator's estimates; `None` to take
    /// `egress`, or what is measured. Limits nothing.
    pub bandwidth: Option<u64>,
    /// Stored bytes per message: small enough to share a link. A node without a link sends whole
    /// reads, which are then not copied.
    pub message_bytes: usize,
    /// Where index objects are kept; `None` for `.thermocline/index` below a local ROOT.
    pub index_directory: Option<PathBuf>,
    /// Bytes of disk that index objects may take.
    pub index_bytes_max: u64,
    /// Bytes of disk that index objects may take that one client had made, by its address and the tenant
    /// that it names.
    pub index_bytes_per_client_max: u64,
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
            fragment_threads: 0,
            pushback_slots: 0,
            arbitration: Arbitration::default(),
            pushback_wait_max: Duration::from_secs(10),
            pushback: PushbackPolicy::default(),
            compute_power: 1.0,
            queue_max: 1024,
            reader_wait_max: None,
            keepalive: Duration::from_secs(30),
            slot_wait_max: Duration::from_millis(250),
            deadline_max: Duration::from_secs(3600),
            contents_bytes_max: 128 << 20,
            descriptions_bytes_max: 64 << 20,
            footers_bytes_max: 256 << 20,
            footers: None,
            held_answer_bytes_max: 64 << 20,
            clients: ClientLimits::default(),
            limits: Limits::default(),
            batch_rows: 8192,
            late_materialisation: false,
            egress: None,
            bandwidth: None,
            message_bytes: 256 << 10,
            index_directory: None,
            index_bytes_max: 64 << 30,
            index_bytes_per_client_max: 32 << 30,
        }
    }
}

impl NodeConfig {
    /// Memory for the operators of fragments, and for reads of more than 8 MiB.
    pub fn fragment_bytes(&self) -> usize {
        self.memory_limit / 2
    }

    /// Memory for what fragments have read and not decoded, at most 16 MiB each. It bounds how many
    /// fragments may be under way, those included that wait for their readers without a slot.
    pub fn reading_bytes(&self) -> usize {
        (self.memory_limit / 4).max(READING_BYTES_MIN)
    }

    /// Memory for requests, for answers that are held back or wait for their readers, and for stored
    /// bytes on their way.
    pub fn budget_bytes(&self) -> usize {
        (self.memory_limit / 8).max(BUDGET_BYTES_MIN)
    }

    /// Place and limits of index objects.
    pub(super) fn index_limits(&self) -> IndexLimits {
        IndexLimits {
            directory: self.index_directory.clone(),
            build_time_max: self.deadline_max,
            bytes_max: self.index_bytes_max,
            bytes_per_client_max: self.index_bytes_per_client_max,
        }
    }
}

/// Limits on what clients of a listening node have open at once, in all and each: a client is a machine, by
/// its address.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// Connections; further ones are closed.
    pub connections_max: usize,
    /// Connections of one client.
    pub connections_per_client_max: usize,
    /// Requests; further ones are answered with
    /// [`ErrorKind::Busy`](thermocline_pushdown::wire::ErrorKind::Busy).
    pub requests_max: usize,
    /// Requests of one client.
    pub requests_per_client_max: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_client_max: 256,
            requests_max: 4096,
            requests_per_client_max: 1024,
        }
    }
}
