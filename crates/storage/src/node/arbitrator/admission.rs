//! The arbitrator as requests meet it: a lock, a clock and wakers around the pure parts.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thermocline_pushdown::PushbackToken;
use thermocline_pushdown::wire::{ErrorKind, NodeStatus};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::estimate::{Knowledge, Shape};
use super::fairness::Flow;
use super::lease::Leases;
use super::schedule::{Path, Request, RequestId, Schedule, Slots};
use crate::NodeError;
use crate::node::{NodeConfig, PushbackPolicy};

/// A waiting request looks again after this time, for leases that ended silently and for slots
/// that are held for longer than was expected.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A caller that uses this much of its cores has none to spare: what it fetches keeps it busier still.
const BUSY_PERMILLE: u32 = 700;

/// What a fragment's request tells the arbitrator.
#[derive(Debug, Clone)]
pub(in crate::node) struct Ask {
    pub(in crate::node) tenant: String,
    pub(in crate::node) query: String,
    pub(in crate::node) shape: Shape,
    /// S_in; 0 if not known.
    pub(in crate::node) bytes_in: u64,
    /// S_out as the caller expects it.
    pub(in crate::node) bytes_out: Option<u64>,
    pub(in crate::node) accepts_pushback: bool,
    /// Share of the caller's cores in use, in thousandths.
    pub(in crate::node) caller_busy_permille: u32,
    pub(in crate::node) to_follow: u32,
}

/// The decision on a request.
#[derive(Debug)]
pub(in crate::node) enum Admission {
    /// Run it; the slot is free when this is dropped.
    Run(PushdownSlot),
    /// Send the caller for the stored bytes.
    PushedBack(Option<Grant>),
}

/// Decides on the fragments of one node.
#[derive(Debug)]
pub(in crate::node) struct Arbitrator {
    slots: Slots,
    queue_max: usize,
    policy: PushbackPolicy,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    knowledge: Knowledge,
    leases: Leases,
    waiting: HashMap<RequestId, Waiter>,
    /// Seconds at which decisions were last made.
    looked_at: f64,
    /// Requests so far that a forced pushback may apply to.
    forced: u64,
}

/// Who waits for a decision, and what to remember of the request until it is done.
#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Admission>,
    shape: Shape,
    bytes_in: u64,
    bytes_out: Option<u64>,
}

impl Arbitrator {
    pub(in crate::node) fn new(config: &NodeConfig) -> Arc<Self> {
        let slots = Slots { pushdown: config.pushdown_slots.max(1), pushback: config.pushback_slots };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let bandwidth = config.egress.or(config.bandwidth);
        let silence_max = config.pushback_wait_max.as_secs_f64();
        Arc::new(Self {
            slots,
            queue_max: config.queue_max,
            policy: config.pushback,
            started: Instant::now(),
            state: Mutex::new(State {
                schedule: Schedule::new(config.arbitration, slots, config.queue_max),
                knowledge: Knowledge::new(slots, config.compute_power, cores, bandwidth),
                leases: Leases::new(silence_max, RandomState::new().hash_one("token")),
                waiting: HashMap::new(),
                looked_at: 0.0,
                forced: 0,
            }),
        })
    }

    /// Waits for a decision on a fragment. Dropping the future gives up the place in the queue. Who
    /// finds the queue full is pushed back, with or without pushback slots: a node that is asked
    /// too much is no reason for a query to fail.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the queue is full and the request cannot be pushed back.
    pub(in crate::node) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Admission, NodeError> {
        if ask.accepts_pushback && self.is_forced_back() {
            return Ok(Admission::PushedBack(None));
        }
        let Some((id, mut decision)) = self.enqueue(&ask) else {
            if ask.accepts_pushback && self.policy != PushbackPolicy::Never {
                self.state.lock().schedule.count_pushback_without_slot();
                return Ok(Admission::PushedBack(None));
            }
            return Err(NodeError::new(
                ErrorKind::Unavailable,
                format!("the storage node's queue of {} fragments is full", self.queue_max),
            ));
        };
        let _place = Place { arbitrator: Arc::clone(self), id };
        self.decide();
        loop {
            match tokio::time::timeout(LOOK_AGAIN, &mut decision).await {
                Ok(Ok(admission)) => return Ok(admission),
                Ok(Err(_)) => return Err(NodeError::new(ErrorKind::Internal, "a waiting fragment was forgotten")),
                Err(_) => self.look_again(),
            }
        }
    }

    /// A place in the queue; `None` if it is full.
    fn enqueue(&self, ask: &Ask) -> Option<(RequestId, oneshot::Receiver<Admission>)> {
        let now = self.now();
        let mut state = self.state.lock();
        let request = Request {
            flow: Flow { tenant: ask.tenant.as_str().into(), query: ask.query.as_str().into() },
            times: state.knowledge.times(ask.shape, ask.bytes_in, ask.bytes_out, now),
            accepts_pushback: ask.accepts_pushback && self.policy == PushbackPolicy::Adaptive,
            caller_is_busy: ask.caller_busy_permille >= BUSY_PERMILLE,
            to_follow: ask.to_follow,
        };
        let id = state.schedule.offer(request).ok()?;
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(id, Waiter { sender, shape: ask.shape, bytes_in: ask.bytes_in, bytes_out: ask.bytes_out });
        Some((id, receiver))
    }

    /// For tests: whether the node was told to push this request back.
    fn is_forced_back(&self) -> bool {
        let nth = match self.policy {
            PushbackPolicy::Adaptive | PushbackPolicy::Never => return false,
            PushbackPolicy::Half => 2,
            PushbackPolicy::Always => 1,
        };
        let mut state = self.state.lock();
        state.forced += 1;
        let forced = state.forced.is_multiple_of(nth);
        if forced {
            state.schedule.count_pushback_without_slot();
        }
        forced
    }

    /// Algorithm 1 is run when a request arrives and when one is done.
    fn decide(self: &Arc<Self>) {
        let now = self.now();
        let mut made = vec![];
        {
            let mut state = self.state.lock();
            let state = &mut *state;
            state.looked_at = now;
            for expired in state.leases.expire(now) {
                tracing::warn!("a pushback slot is free again: nobody came for the stored bytes");
                state.schedule.finish(expired, now);
            }
            let (knowledge, waiting) = (&mut state.knowledge, &state.waiting);
            let corrections = knowledge.corrections(now);
            state.schedule.estimate(corrections, |id| {
                waiting.get(&id).map(|waiter| knowledge.times(waiter.shape, waiter.bytes_in, waiter.bytes_out, now))
            });
            while let Some((id, path)) = state.schedule.decide(now) {
                let Some(waiter) = state.waiting.remove(&id) else {
                    state.schedule.finish(id, now);
                    continue;
                };
                let admission = match path {
                    Path::Pushdown => {
                        let (shape, bytes_in) = (waiter.shape, waiter.bytes_in);
                        Admission::Run(PushdownSlot {
                            arbitrator: Arc::clone(self),
                            id,
                            shape,
                            bytes_in,
                            complete: AtomicBool::new(false),
                        })
                    }
                    Path::Pushback => {
                        let token = state.leases.grant(id, waiter.bytes_in, now);
                        Admission::PushedBack(Some(Grant { arbitrator: Arc::clone(self), token: Some(token) }))
                    }
                };
                made.push((waiter.sender, admission));
            }
        }
        for (sender, admission) in made {
            // Whoever is gone drops the slot, which is free then; the lock is not held here.
            let _unwanted = sender.send(admission);
        }
    }

    fn look_again(self: &Arc<Self>) {
        // One waiting request looks for all of them.
        let due = self.now() - self.state.lock().looked_at >= LOOK_AGAIN.as_secs_f64() / 2.0;
        if due {
            self.decide();
        }
    }

    /// A slot is free. If its work was done (`complete`), the time it took is a lesson.
    fn finish(self: &Arc<Self>, id: RequestId, complete: bool) {
        let now = self.now();
        {
            let mut state = self.state.lock();
            let held = state.schedule.finish(id, now);
            if let Some(held) = held.filter(|_| complete) {
                state.knowledge.held(held, now);
            }
        }
        self.decide();
    }

    /// A transfer of stored bytes begins, under a pushback's token or on its own.
    pub(in crate::node) fn transfer(self: &Arc<Self>, token: Option<PushbackToken>) -> Transfer {
        let token = token.filter(|token| self.state.lock().leases.begin(*token));
        Transfer { arbitrator: Arc::clone(self), token, started: Instant::now(), bytes: 0, complete: false }
    }

    /// Queue, slots and counts as they are now; the rest is the node's to fill in.
    pub(in crate::node) fn status(self: &Arc<Self>) -> NodeStatus {
        self.decide();
        let state = self.state.lock();
        NodeStatus {
            queue_length: state.schedule.queue_length() as u64,
            queue_max: self.queue_max as u64,
            pushdown_slots_used: state.schedule.used(Path::Pushdown) as u64,
            pushdown_slots: self.slots.pushdown as u64,
            pushback_slots_used: state.schedule.used(Path::Pushback) as u64,
            pushback_slots: self.slots.pushback as u64,
            admitted: state.schedule.admitted(),
            pushed_back: state.schedule.pushed_back(),
            ..NodeStatus::default()
        }
    }

    /// Seconds since the node began.
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// A place in the queue; giving it up leaves no trace.
struct Place {
    arbitrator: Arc<Arbitrator>,
    id: RequestId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = {
            let mut state = self.arbitrator.state.lock();
            let left = state.waiting.remove(&self.id).is_some();
            if left {
                state.schedule.withdraw(self.id);
            }
            left
        };
        if left {
            // Others may have waited for this one's turn.
            self.arbitrator.decide();
        }
    }
}

/// The right to run one fragment.
#[derive(Debug)]
pub(in crate::node) struct PushdownSlot {
    arbitrator: Arc<Arbitrator>,
    id: RequestId,
    shape: Shape,
    bytes_in: u64,
    complete: AtomicBool,
}

impl PushdownSlot {
    /// What the execution showed: `bytes_out` bytes of answer, and the time that it computed if it
    /// came to its end.
    pub(in crate::node) fn learn(&self, bytes_out: u64, busy: Option<Duration>) {
        let now = self.arbitrator.now();
        self.complete.store(busy.is_some(), Ordering::Relaxed);
        let busy = busy.map(|busy| busy.as_secs_f64());
        self.arbitrator.state.lock().knowledge.executed(self.shape, self.bytes_in, bytes_out, busy, now);
    }
}

impl Drop for PushdownSlot {
    fn drop(&mut self) {
        self.arbitrator.finish(self.id, self.complete.load(Ordering::Relaxed));
    }
}

/// A pushback slot of which the caller has not been told yet.
#[derive(Debug)]
pub(in crate::node) struct Grant {
    arbitrator: Arc<Arbitrator>,
    token: Option<PushbackToken>,
}

impl Grant {
    /// The token for the caller. From here on the slot is free when the transfer ends, or when
    /// nobody comes for it.
    pub(in crate::node) fn into_token(mut self) -> Option<PushbackToken> {
        self.token.take()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let revoked = self.token.take().and_then(|token| self.arbitrator.state.lock().leases.revoke(token));
        if let Some(id) = revoked {
            self.arbitrator.finish(id, false);
        }
    }
}

/// Stored bytes on their way.
#[derive(Debug)]
pub(in crate::node) struct Transfer {
    arbitrator: Arc<Arbitrator>,
    token: Option<PushbackToken>,
    started: Instant,
    bytes: u64,
    complete: bool,
}

impl Transfer {
    pub(in crate::node) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// All that was asked for was sent.
    pub(in crate::node) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let now = self.arbitrator.now();
        let freed = {
            let mut state = self.arbitrator.state.lock();
            if self.complete {
                state.knowledge.transferred(self.bytes, self.started.elapsed().as_secs_f64(), now);
            }
            self.token.and_then(|token| state.leases.end(token, self.bytes, now))
        };
        if let Some(id) = freed {
            self.arbitrator.finish(id, self.complete);
        }
    }
}
