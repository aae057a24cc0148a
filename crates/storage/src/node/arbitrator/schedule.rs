//! Algorithm 1 of Enhancing Computation Pushdown as a state machine: no clock, no lock and no task of its own.

use std::collections::HashMap;
use std::str::FromStr;

use super::fairness::{Fairness, Flow};

/// The order in which waiting requests are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arbitration {
    /// By pushdown amenability, PA = t_pb - t_pd: pushdown takes the highest, pushback the lowest
    /// (Enhancing Computation Pushdown section 3.4).
    #[default]
    PaAware,
    /// By arrival (Algorithm 1 as it stands).
    Fifo,
}

impl FromStr for Arbitration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "pa-aware" => Ok(Self::PaAware),
            "fifo" => Ok(Self::Fifo),
            _ => Err(format!("unknown arbitration '{text}': expected pa-aware or fifo")),
        }
    }
}

/// The ways to serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Path {
    /// Run the fragment here.
    Pushdown,
    /// Have the caller fetch the stored bytes.
    Pushback,
}

/// Seconds that a request is expected to hold a slot, or factors of such.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    /// t_pd.
    pub(crate) pushdown: f64,
    /// t_pb.
    pub(crate) pushback: f64,
    /// What the caller takes after a pushback to do the fragment's work itself. It holds no slot, but
    /// is done no sooner.
    pub(crate) caller: f64,
}

impl Times {
    pub(super) fn on(self, path: Path) -> f64 {
        match path {
            Path::Pushdown => self.pushdown,
            Path::Pushback => self.pushback,
        }
    }
}

/// A request in the queue.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) flow: Flow,
    /// As the model says, without corrections.
    pub(crate) times: Times,
    pub(crate) accepts_pushback: bool,
    /// Whether the caller has no idle core.
    pub(crate) caller_is_busy: bool,
    /// Requests of the same scan that are still to come.
    pub(crate) to_follow: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequestId(u64);

/// The queue is as long as it may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// Execution slots; without pushback slots every request waits for a pushdown slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) pushdown: usize,
    pub(crate) pushback: usize,
}

impl Slots {
    fn of(self, path: Path) -> usize {
        match path {
            Path::Pushdown => self.pushdown,
            Path::Pushback => self.pushback,
        }
    }
}

/// How far a query may be ahead of the last one: this many times the largest charge in the queue.
/// Enough for amenability to pair queries with paths, little enough that nobody starves.
const LAG_CHARGES: f64 = 8.0;
/// The slower path is taken if it is expected to take at most this share of what waiting for the
/// faster one would: an estimate that is a quarter too low then costs nothing.
const SLOWER_PAYS: f64 = 0.8;
/// A busy caller is given work back only if it would take this many times as long here: what it does
/// for this it does not do for the rest of its query.
const BUSY_CALLER_PAYS: f64 = 1.25;

#[derive(Debug)]
struct Running {
    flow: Flow,
    path: Path,
    /// On the caller's clock.
    began_at: f64,
    /// Seconds that it was expected to take.
    expected: f64,
    /// The same before correction.
    modelled: f64,
}

/// Outcome of an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Held {
    pub(crate) path: Path,
    /// Seconds that the slot was expected to be held, by the model alone.
    pub(crate) modelled: f64,
    /// Seconds that it was.
    pub(crate) actual: f64,
}

/// The wait queue and the slots.
///
/// Invariants:
/// - waiting <= queue_max, and those who were running before
/// - running on a path <= slots of that path
/// - admitted and pushed_back only grow
#[derive(Debug)]
pub(crate) struct Schedule {
    order: Arbitration,
    slots: Slots,
    queue_max: usize,
    /// How much longer than the model says a slot of each path is held now. One factor for the
    /// whole queue: amenabilities are compared, and some requests have waited longer than others.
    corrections: Times,
    /// In the order of arrival.
    waiting: Vec<(RequestId, Request)>,
    running: HashMap<RequestId, Running>,
    fairness: Fairness,
    next: u64,
    admitted: u64,
    pushed_back: u64,
}

impl Schedule {
    pub(crate) fn new(order: Arbitration, slots: Slots, queue_max: usize) -> Self {
        Self {
            order,
            slots,
            queue_max,
            corrections: Times { pushdown: 1.0, pushback: 1.0, caller: 1.0 },
            waiting: vec![],
            running: HashMap::new(),
            fairness: Fairness::default(),
            next: 0,
            admitted: 0,
            pushed_back: 0,
        }
    }

    /// From now on estimates are multiplied by `corrections`, and those of waiting requests are
    /// what `times` says, if anything: the first requests of a scan teach what the others will take.
    pub(crate) fn estimate(&mut self, corrections: Times, mut times: impl FnMut(RequestId) -> Option<Times>) {
        self.corrections = corrections;
        for (id, request) in &mut self.waiting {
            request.times = times(*id).unwrap_or(request.times);
        }
    }

    /// Puts a request into the queue.
    pub(crate) fn offer(&mut self, request: Request) -> Result<RequestId, QueueFull> {
        if self.waiting.len() >= self.queue_max {
            return Err(QueueFull);
        }
        Ok(self.offer_again(request))
    }

    /// Puts a request into the queue that was running before, however long the queue is.
    pub(crate) fn offer_again(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.fairness.arrive(&request.flow);
        self.waiting.push((id, request));
        id
    }

    /// The next decision at the time `now`, in seconds; `None` if all that is left must wait.
    pub(crate) fn decide(&mut self, now: f64) -> Option<(RequestId, Path)> {
        if self.waiting.is_empty() || !(self.is_free(Path::Pushdown) || self.is_free(Path::Pushback)) {
            return None;
        }
        let (position, path) = match self.order {
            // Without pushback there is nothing to be amenable to.
            Arbitration::PaAware if self.slots.pushback > 0 => self.by_amenability(now),
            _ => self.by_arrival(now),
        }?;
        let (id, request) = self.waiting.remove(position);
        let time = self.time(&request, path);
        self.fairness.start(&request.flow, time / self.slots.of(path) as f64);
        let modelled = request.times.on(path);
        self.running.insert(id, Running { flow: request.flow, path, began_at: now, expected: time, modelled });
        match path {
            Path::Pushdown => self.admitted += 1,
            Path::Pushback => self.pushed_back += 1,
        }
        Some((id, path))
    }

    /// A request leaves the queue without a decision. Does nothing if it is not waiting.
    pub(crate) fn withdraw(&mut self, id: RequestId) {
        if let Some(position) = self.waiting.iter().position(|(known, _)| *known == id) {
            let (_, request) = self.waiting.remove(position);
            self.fairness.leave(&request.flow);
        }
    }

    /// A request gives its slot back. Does nothing if it has none.
    pub(crate) fn finish(&mut self, id: RequestId, now: f64) -> Option<Held> {
        let running = self.running.remove(&id)?;
        let held = Held { path: running.path, modelled: running.modelled, actual: now - running.began_at };
        self.fairness.finish(&running.flow, (held.actual - running.expected) / self.slots.of(held.path) as f64);
        Some(held)
    }

    pub(crate) fn queue_length(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn used(&self, path: Path) -> usize {
        self.running.values().filter(|running| running.path == path).count()
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.admitted
    }

    pub(crate) fn pushed_back(&self) -> u64 {
        self.pushed_back
    }

    /// Counts a pushback that was decided elsewhere and holds no slot.
    pub(crate) fn count_pushback_without_slot(&mut self) {
        self.pushed_back += 1;
    }

    #[cfg(test)]
    pub(super) fn flows_remembered(&self) -> usize {
        self.fairness.remembered()
    }

    fn is_free(&self, path: Path) -> bool {
        self.used(path) < self.slots.of(path)
    }

    fn may(&self, request: &Request, path: Path) -> bool {
        path == Path::Pushdown || (request.accepts_pushback && self.slots.pushback > 0)
    }

    /// Seconds that the request is expected to hold a slot of `path`.
    fn time(&self, request: &Request, path: Path) -> f64 {
        request.times.on(path) * self.corrections.on(path)
    }

    /// Pushdown amenability, equation 12.
    fn amenability(&self, request: &Request) -> f64 {
        self.time(request, Path::Pushback) - self.time(request, Path::Pushdown)
    }

    /// Line 5 of Algorithm 1.
    fn faster(&self, request: &Request) -> Path {
        if !self.may(request, Path::Pushback) || self.amenability(request) > 0.0 {
            Path::Pushdown
        } else {
            Path::Pushback
        }
    }

    /// Lines 4 to 8: the first request that its faster path can take, or else its slower one.
    fn by_arrival(&self, now: f64) -> Option<(usize, Path)> {
        let [pushdown, pushback] = [Path::Pushdown, Path::Pushback].map(|path| self.in_turn(path));
        let drained = self.drained(now);
        self.waiting.iter().enumerate().find_map(|(position, (_, request))| {
            let takes = |path: Path| {
                let turns = if path == Path::Pushdown { &pushdown } else { &pushback };
                turns.get(position).copied().unwrap_or(false) && self.takes(request, path, &drained)
            };
            let faster = self.faster(request);
            [faster, other(faster)].into_iter().find(|path| takes(*path)).map(|path| (position, path))
        })
    }

    /// Section 3.4: pushdown takes from the high end of PA, pushback from the low end.
    fn by_amenability(&self, now: f64) -> Option<(usize, Path)> {
        let drained = self.drained(now);
        let pick = |path: Path| {
            let turns = self.in_turn(path);
            let mut best: Option<(usize, f64)> = None;
            for (position, (_, request)) in self.waiting.iter().enumerate() {
                let amenability = self.amenability(request);
                let rank = if path == Path::Pushdown { amenability } else { -amenability };
                if turns.get(position).copied().unwrap_or(false)
                    && self.takes(request, path, &drained)
                    && best.is_none_or(|(_, best)| rank > best)
                {
                    best = Some((position, rank));
                }
            }
            best.map(|(position, _)| (position, path))
        };
        pick(Path::Pushdown).or_else(|| pick(Path::Pushback))
    }

    /// Whether `path` has a slot for the request and should take it. The slower path is for
    /// requests whose faster one is full, and only if they would not be done sooner by waiting for
    /// it: otherwise the last requests of a query would hold it up on the slower path. As the slower
    /// path, a pushback must not burden a busy caller either.
    fn takes(&self, request: &Request, path: Path, drained: &Drained) -> bool {
        let faster = self.faster(request);
        self.is_free(path)
            && self.may(request, path)
            && (path == faster
                || (!self.is_free(faster)
                    && self.done_in(request, path) <= SLOWER_PAYS * drained.on(faster)
                    && !(path == Path::Pushback && self.burdens(request))))
    }

    /// Seconds until the request is done if it takes `path` now. Transfers so far may have had the link
    /// to themselves, so a pushback takes at least the time of one that shares it with those under way.
    fn done_in(&self, request: &Request, path: Path) -> f64 {
        let held = self.time(request, path);
        match path {
            Path::Pushdown => held,
            Path::Pushback => {
                let sharing = (self.used(path) + 1) as f64 / self.slots.of(path) as f64;
                held.max(request.times.pushback * sharing) + request.times.caller
            }
        }
    }

    /// Whether a pushback would keep the caller from what it has to do anyway.
    fn burdens(&self, request: &Request) -> bool {
        request.caller_is_busy && self.time(request, Path::Pushdown) <= BUSY_CALLER_PAYS * request.times.caller
    }

    /// Requests that may take `path` and are not ahead of the others.
    fn in_turn(&self, path: Path) -> Vec<bool> {
        let charge = |request: &Request, path| match self.may(request, path) {
            true => self.time(request, path) / self.slots.of(path) as f64,
            false => f64::INFINITY,
        };
        let largest = self
            .waiting
            .iter()
            .map(|(_, request)| charge(request, Path::Pushdown).min(charge(request, Path::Pushback)))
            .fold(0.0, f64::max);
        let may = |request: &Request| self.may(request, path);
        let flows = self.waiting.iter().filter(|(_, request)| may(request)).map(|(_, request)| &request.flow);
        let mut turns = self.fairness.in_turn(flows, LAG_CHARGES * largest).into_iter();
        self.waiting.iter().map(|(_, request)| may(request) && turns.next().unwrap_or(false)).collect()
    }

    /// How long each path will take for what runs on it, and what waits or is still to come and is
    /// faster on it.
    fn drained(&self, now: f64) -> Drained {
        let mut work = Drained { pushdown: 0.0, pushback: 0.0 };
        for running in self.running.values() {
            // What is overdue is expected to take as long again: a slot that is held by a reader
            // who takes nothing makes the other path worth taking in the end.
            *work.on_mut(running.path) += (running.began_at + running.expected - now).abs();
        }
        let mut to_follow: HashMap<&Flow, (u32, &Request)> = HashMap::new();
        for (_, request) in &self.waiting {
            let path = self.faster(request);
            *work.on_mut(path) += self.time(request, path);
            let known = to_follow.entry(&request.flow).or_insert((request.to_follow, request));
            // Scans count down.
            if request.to_follow <= known.0 {
                *known = (request.to_follow, request);
            }
        }
        for (count, request) in to_follow.into_values() {
            let path = self.faster(request);
            *work.on_mut(path) += f64::from(count) * self.time(request, path);
        }
        for path in [Path::Pushdown, Path::Pushback] {
            *work.on_mut(path) /= self.slots.of(path).max(1) as f64;
        }
        work
    }
}

/// Seconds per path.
struct Drained {
    pushdown: f64,
    pushback: f64,
}

impl Drained {
    fn on(&self, path: Path) -> f64 {
        match path {
            Path::Pushdown => self.pushdown,
            Path::Pushback => self.pushback,
        }
    }

    fn on_mut(&mut self, path: Path) -> &mut f64 {
        match path {
            Path::Pushdown => &mut self.pushdown,
            Path::Pushback => &mut self.pushback,
        }
    }
}

fn other(path: Path) -> Path {
    match path {
        Path::Pushdown => Path::Pushback,
        Path::Pushback => Path::Pushdown,
    }
}
