//! The arbitrator as requests meet it: a lock, a clock and wakers around the pure parts.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thermocline_pushdown::wire::{ErrorKind, NodeStatus};
use thermocline_pushdown::{NodeError, PushbackToken};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::estimate::{Knowledge, Shape};
use super::fairness::Flow;
use super::lease::Leases;
use super::schedule::{Path, Request, RequestId, Schedule, Slots};
use crate::node::{NodeConfig, PushbackPolicy};
use crate::peer::Peer;

/// A waiting request looks again after this time, for leases that ended silently and for slots
/// that are held for longer than was expected.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A caller that uses this much of its cores has none to spare: what it fetches keeps it busier still.
const BUSY_PERMILLE: u32 = 700;

/// A fragment's request as the arbitrator sees it.
#[derive(Debug, Clone)]
pub(in crate::node) struct Ask {
    pub(in crate::node) peer: Peer,
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
    /// Whether it had a slot before.
    pub(in crate::node) resumes: bool,
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

/// A caller that waits for a decision, and its request until that is done.
#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Admission>,
    ask: Ask,
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
                leases: Leases::new(
                    silence_max,
                    config.slot_wait_max.as_secs_f64(),
                    RandomState::new().hash_one("token"),
                ),
                waiting: HashMap::new(),
                looked_at: 0.0,
                forced: 0,
            }),
        })
    }

    /// Waits for a decision on a fragment. Dropping the future gives up the place in the queue. A request
    /// that finds the queue full is pushed back, with or without pushback slots: an overloaded node is no
    /// reason for a query to fail.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the queue is full and the request cannot be pushed back; [`ErrorKind::Internal`] if the
    /// arbitrator lost it.
    pub(in crate::node) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Admission, NodeError> {
        if ask.accepts_pushback && self.is_forced_back() {
            return Ok(Admission::PushedBack(None));
        }
        let Some((id, decision)) = self.enqueue(&ask) else {
            if ask.accepts_pushback && self.policy != PushbackPolicy::Never {
                self.state.lock().schedule.count_pushback_without_slot();
                return Ok(Admission::PushedBack(None));
            }
            return Err(NodeError::new(
                ErrorKind::Busy,
                format!("the storage node's queue of {} fragments is full", self.queue_max),
            ));
        };
        self.decided(id, decision).await
    }

    /// Waits in the queue for the decision on `id`.
    async fn decided(
        self: &Arc<Self>,
        id: RequestId,
        mut decision: oneshot::Receiver<Admission>,
    ) -> Result<Admission, NodeError> {
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

    /// A place in the queue; `None` if it is full. A request that had a slot before always finds one.
    fn enqueue(&self, ask: &Ask) -> Option<(RequestId, oneshot::Receiver<Admission>)> {
        let now = self.now();
        let mut state = self.state.lock();
        let request = Request {
            flow: Flow {
                peer: Arc::clone(ask.peer.name()),
                tenant: ask.tenant.as_str().into(),
                query: ask.query.as_str().into(),
            },
            times: state.knowledge.times(ask.shape, ask.bytes_in, ask.bytes_out, now),
            accepts_pushback: ask.accepts_pushback && self.policy == PushbackPolicy::Adaptive,
            caller_is_busy: ask.caller_busy_permille >= BUSY_PERMILLE,
            to_follow: ask.to_follow,
        };
        let id = match ask.resumes {
            true => state.schedule.offer_again(request),
            false => state.schedule.offer(request).ok()?,
        };
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(id, Waiter { sender, ask: ask.clone() });
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

    /// Runs Algorithm 1: when a request arrives, leaves or is done, when a waiting one looks again, and for
    /// [`Arbitrator::status`].
    fn decide(self: &Arc<Self>) {
        let now = self.now();
        let mut made = vec![];
        {
            let mut state = self.state.lock();
            let state = &mut *state;
            state.looked_at = now;
            for expired in state.leases.expire(now) {
                tracing::debug!("a pushback slot is free again: nobody comes for the stored bytes");
                state.schedule.finish(expired, now);
            }
            let (knowledge, waiting) = (&mut state.knowledge, &state.waiting);
            let corrections = knowledge.corrections(now);
            state.schedule.estimate(corrections, |id| {
                let ask = &waiting.get(&id)?.ask;
                Some(knowledge.times(ask.shape, ask.bytes_in, ask.bytes_out, now))
            });
            while let Some((id, path)) = state.schedule.decide(now) {
                let Some(waiter) = state.waiting.remove(&id) else {
                    state.schedule.finish(id, now);
                    continue;
                };
                let admission = match path {
                    Path::Pushdown => Admission::Run(PushdownSlot {
                        arbitrator: Arc::clone(self),
                        id: Some(id),
                        ask: waiter.ask,
                        complete: false,
                    }),
                    Path::Pushback => {
                        let token = state.leases.grant(id, waiter.ask.bytes_in, now);
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
        let now = self.now();
        let token = token.filter(|token| self.state.lock().leases.begin(*token, now));
        Transfer {
            arbitrator: Arc::clone(self),
            token,
            started: Instant::now(),
            bytes: 0,
            complete: false,
            at_work: false,
        }
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
    /// `None` while it is suspended.
    id: Option<RequestId>,
    ask: Ask,
    /// Whether the time that the slot was held is that of the whole execution.
    complete: bool,
}

impl PushdownSlot {
    /// Learns from the execution: `bytes_out` bytes of answer, and the time that it computed if it came to
    /// its end.
    pub(in crate::node) fn learn(&mut self, bytes_out: u64, busy: Option<Duration>) {
        let now = self.arbitrator.now();
        self.complete = busy.is_some() && !self.ask.resumes;
        let busy = busy.map(|busy| busy.as_secs_f64());
        let out = (self.ask.bytes_out, bytes_out);
        self.arbitrator.state.lock().knowledge.executed(self.ask.shape, self.ask.bytes_in, out, busy, now);
    }

    /// Gives the slot to others until [`PushdownSlot::resume`]. The fragment must not be worked on
    /// meanwhile.
    pub(in crate::node) fn suspend(&mut self) {
        // How long it was held says little of how long fragments take.
        self.complete = false;
        self.ask.resumes = true;
        if let Some(id) = self.id.take() {
            self.arbitrator.finish(id, false);
        }
    }

    /// Waits for a slot if this one was suspended. The queue always has a place for a request that once had
    /// a slot.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the arbitrator lost the request.
    pub(in crate::node) async fn resume(&mut self) -> Result<(), NodeError> {
        if self.id.is_some() {
            return Ok(());
        }
        let lost = || NodeError::new(ErrorKind::Internal, "a suspended fragment has no place in the queue");
        let ask = Ask { accepts_pushback: false, to_follow: 0, ..self.ask.clone() };
        let (id, decision) = self.arbitrator.enqueue(&ask).ok_or_else(lost)?;
        match self.arbitrator.decided(id, decision).await? {
            Admission::Run(mut slot) => {
                self.id = slot.id.take();
                Ok(())
            }
            Admission::PushedBack(_) => Err(lost()),
        }
    }
}

impl Drop for PushdownSlot {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.arbitrator.finish(id, self.complete);
        }
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
    /// Whether its reader waits for bytes.
    at_work: bool,
}

impl Transfer {
    /// The next bytes are wanted.
    pub(in crate::node) fn works(&mut self) {
        self.set_at_work(true);
    }

    /// Bytes were handed over. Until more are wanted, the reader is what is waited for.
    pub(in crate::node) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.set_at_work(false);
    }

    fn set_at_work(&mut self, at_work: bool) {
        if let Some(token) = self.token.filter(|_| self.at_work != at_work) {
            self.at_work = at_work;
            let now = self.arbitrator.now();
            self.arbitrator.state.lock().leases.set_at_work(token, at_work, now);
        }
    }

    /// All that was asked for was sent.
    pub(in crate::node) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.set_at_work(false);
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
