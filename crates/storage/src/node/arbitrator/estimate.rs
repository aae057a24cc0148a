//! How long a fragment would take here, and its stored bytes on the link (Enhancing Computation
//! Pushdown section 3.3): t_pd = S_in / C_storage + S_out / BW_net, t_pb = S_in / BW_net. The time to read the
//! objects is part of both and left out of both.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::schedule::{Held, Path, Slots, Times};

/// C_storage before anything ran: stored bytes of the needed columns per second of a core.
const COMPUTE_PRIOR: f64 = 100e6;
/// BW_net before anything was sent, if it was not stated: 1 Gbit/s.
const LINK_PRIOR: f64 = 125e6;
/// S_out / S_in if nothing is known: DataFusion's guess for a filter that it cannot estimate.
const SELECTIVITY_PRIOR: f64 = 0.2;
/// Weight of the newest observation.
const WEIGHT: f64 = 0.3;
/// Seconds after which an observed rate or correction no longer counts: a path that once was slow and
/// therefore is not taken would never be found to be fast again.
const RELEARN_S: f64 = 60.0;
/// Largest correction of an estimate: more comes of a reader that sleeps, not of a slow node.
const CORRECTION_MAX: f64 = 4.0;
/// Fragment shapes that are remembered.
const SHAPES_MAX: usize = 10_000;
/// Largest correction of callers' expectations of answers, in either direction.
const PER_EXPECTED_MAX: f64 = 1000.0;
/// Transfers smaller than this say more about latency than about the link.
const TRANSFER_BYTES_MIN: u64 = 64 << 10;

/// Identifies fragments that tend to select alike: the same operators over the same folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape(u64);

/// The shape of an encoded fragment over an object.
pub(crate) fn shape_of(fragment: &[u8], object: &str) -> Shape {
    let folder = object.rsplit_once('/').map_or("", |(folder, _)| folder);
    Shape(BuildHasherDefault::<DefaultHasher>::default().hash_one((fragment, folder)))
}

/// A rate in bytes per second, learnt with exponential weights.
#[derive(Debug, Clone, Copy)]
struct Rate {
    value: f64,
    seen_at: f64,
}

impl Rate {
    fn observe(rate: Option<Rate>, bytes: f64, seconds: f64, now: f64) -> Option<Rate> {
        if bytes <= 0.0 || seconds <= 0.0 {
            return rate;
        }
        let value = bytes / seconds;
        let value = match rate.filter(|rate| rate.is_recent(now)) {
            Some(rate) => rate.value + WEIGHT * (value - rate.value),
            None => value,
        };
        Some(Rate { value, seen_at: now })
    }

    fn is_recent(&self, now: f64) -> bool {
        now - self.seen_at <= RELEARN_S
    }
}

#[derive(Debug, Clone, Copy)]
struct Learnt {
    /// S_out / S_in.
    selectivity: f64,
    /// S_out in proportion to what callers expected: fragments of one shape differ in their literals,
    /// about which callers know more. `None` until one said something.
    per_expected: Option<f64>,
    /// `None` until an execution came to its end.
    compute: Option<Rate>,
    used: u64,
}

/// Rates of the node and selectivities of fragments, as far as they are known.
#[derive(Debug)]
pub(crate) struct Knowledge {
    slots: Slots,
    /// Share of a core that one pushdown slot gets.
    core_share: f64,
    /// BW_net if it was stated, for all slots together.
    stated: Option<f64>,
    /// BW_net of one transfer, as measured.
    link: Option<Rate>,
    compute: Option<Rate>,
    /// How much longer slots were held than the model said, and when that was last seen.
    correction: [(f64, f64); 2],
    shapes: HashMap<Shape, Learnt>,
    tick: u64,
}

impl Knowledge {
    /// `power` is the share of a core that a slot may take, `bandwidth` the link's bytes per
    /// second if that is known.
    pub(crate) fn new(slots: Slots, power: f64, cores: usize, bandwidth: Option<u64>) -> Self {
        let core_share = power.min(cores as f64 / slots.pushdown.max(1) as f64);
        Self {
            slots,
            core_share,
            stated: bandwidth.map(|rate| rate as f64),
            link: None,
            compute: None,
            correction: [(1.0, 0.0); 2],
            shapes: HashMap::new(),
            tick: 0,
        }
    }

    /// t_pd and t_pb, and the caller's own time, of a fragment over `bytes_in` stored bytes, without
    /// corrections. `bytes_out` is the caller's estimate of the answer, which is corrected by how far
    /// earlier ones for the shape were off.
    pub(crate) fn times(&mut self, shape: Shape, bytes_in: u64, bytes_out: Option<u64>, now: f64) -> Times {
        let size = bytes_in as f64;
        self.tick += 1;
        let tick = self.tick;
        let learnt = self.shapes.get_mut(&shape).map(|learnt| {
            learnt.used = tick;
            *learnt
        });
        let corrected = learnt.and_then(|learnt| Some(learnt.per_expected? * bytes_out? as f64));
        let answer = match (corrected, learnt) {
            (Some(corrected), _) => corrected.min(size),
            (None, Some(learnt)) => learnt.selectivity * size,
            (None, None) => bytes_out.map_or(SELECTIVITY_PRIOR * size, |bytes| bytes as f64),
        };
        let compute = learnt
            .and_then(|learnt| learnt.compute)
            .or(self.compute)
            .filter(|rate| rate.is_recent(now))
            .map_or(COMPUTE_PRIOR, |rate| rate.value);
        let link = self.link_share(now);
        Times {
            pushdown: size / (compute * self.core_share) + answer / link,
            pushback: size / link,
            // It has a whole core for it, as fast as one of these.
            caller: size / compute,
        }
    }

    /// A slot was held from an admission to the end of the answer, or from a pushback to the end of
    /// the transfer: what the model leaves out (the way to the caller and back, other work on the
    /// same cores) shows here.
    pub(crate) fn held(&mut self, held: Held, now: f64) {
        if held.modelled <= 0.0 {
            return;
        }
        let before = self.correction(held.path, now);
        let seen = (held.actual / held.modelled).clamp(1.0 / CORRECTION_MAX, CORRECTION_MAX);
        let [pushdown, pushback] = &mut self.correction;
        let known = if held.path == Path::Pushdown { pushdown } else { pushback };
        *known = (before + WEIGHT * (seen - before), now);
    }

    /// By how much estimates of the model are to be multiplied.
    pub(crate) fn corrections(&self, now: f64) -> Times {
        Times {
            pushdown: self.correction(Path::Pushdown, now),
            pushback: self.correction(Path::Pushback, now),
            caller: 1.0,
        }
    }

    fn correction(&self, path: Path, now: f64) -> f64 {
        let [pushdown, pushback] = self.correction;
        let (factor, seen_at) = if path == Path::Pushdown { pushdown } else { pushback };
        if now - seen_at <= RELEARN_S { factor } else { 1.0 }
    }

    /// A fragment sent `bytes_out` bytes for `bytes_in`, where its caller had expected `expected`.
    /// `busy` is the time that it computed, if it came to its end.
    pub(crate) fn executed(
        &mut self,
        shape: Shape,
        bytes_in: u64,
        (expected, bytes_out): (Option<u64>, u64),
        busy: Option<f64>,
        now: f64,
    ) {
        if bytes_in == 0 {
            return;
        }
        self.tick += 1;
        if !self.shapes.contains_key(&shape) && self.shapes.len() >= SHAPES_MAX {
            self.forget_half();
        }
        let selectivity = bytes_out as f64 / bytes_in as f64;
        let fresh = Learnt { selectivity, per_expected: None, compute: self.compute, used: self.tick };
        let learnt = self.shapes.entry(shape).or_insert(fresh);
        learnt.used = self.tick;
        learnt.selectivity += WEIGHT * (selectivity - learnt.selectivity);
        if let Some(expected) = expected {
            let seen =
                (bytes_out.max(1) as f64 / expected.max(1) as f64).clamp(1.0 / PER_EXPECTED_MAX, PER_EXPECTED_MAX);
            learnt.per_expected = Some(learnt.per_expected.map_or(seen, |known| known + WEIGHT * (seen - known)));
        }
        if let Some(busy) = busy {
            learnt.compute = Rate::observe(learnt.compute, bytes_in as f64, busy, now);
            self.compute = Rate::observe(self.compute, bytes_in as f64, busy, now);
        }
    }

    /// `bytes` stored bytes went over the link in `seconds`.
    pub(crate) fn transferred(&mut self, bytes: u64, seconds: f64, now: f64) {
        if bytes >= TRANSFER_BYTES_MIN {
            self.link = Rate::observe(self.link, bytes as f64, seconds, now);
        }
    }

    /// BW_net of one pushback slot.
    fn link_share(&self, now: f64) -> f64 {
        let slots = self.slots.pushback.max(1) as f64;
        match (self.stated, self.link.filter(|rate| rate.is_recent(now))) {
            (Some(stated), _) => stated / slots,
            // Measured beside the other transfers, so it is a share already.
            (None, Some(rate)) => rate.value,
            (None, None) => LINK_PRIOR / slots,
        }
    }

    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.shapes.values().map(|learnt| learnt.used).collect();
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        let median = *median;
        self.shapes.retain(|_, learnt| learnt.used > median);
    }

    #[cfg(test)]
    pub(super) fn shapes_remembered(&self) -> usize {
        self.shapes.len()
    }
}
