//! Belady's policy, for experiments.

use std::sync::OnceLock;

use thermocline_replay::trace::{NextUses, Trace};

use super::{Candidate, Policy, Rank};

/// Belady: the benefit is 1 / the number of lookups until the next access, which a recorded trace tells.
///
/// Lookups beyond the trace's end, and keys that it does not know, have no next access and no benefit. A segment that a
/// lookup should have used and did not keeps its rank until it is used, so the same workload must run.
#[derive(Debug)]
pub struct Belady {
    next_uses: NextUses,
    /// Tick of the trace's first lookup; unset until a cache takes the policy.
    first: OnceLock<u64>,
}

impl Belady {
    /// The policy for a run of what `trace` recorded, in which the first lookup follows the moment at which a cache takes
    /// the policy.
    pub fn new(trace: &Trace) -> Self {
        Self { next_uses: NextUses::of(trace), first: OnceLock::new() }
    }

    /// Tick of the first access after the last one.
    fn next_use(&self, candidate: Candidate<'_>) -> Option<u64> {
        let first = self.first.get().copied().unwrap_or(1);
        let from = (candidate.uses.last_access + 1).saturating_sub(first);
        self.next_uses.next(candidate.key, from).map(|time| first + time)
    }
}

impl Policy for Belady {
    fn name(&self) -> &'static str {
        "belady"
    }

    fn benefit(&self, candidate: Candidate<'_>, now: u64) -> f64 {
        self.next_use(candidate).map_or(0.0, |next| 1.0 / next.saturating_sub(now) as f64)
    }

    fn taken(&self, now: u64) {
        self.first.get_or_init(|| now + 1);
    }

    fn rank(&self, candidate: Candidate<'_>) -> Rank {
        self.next_use(candidate).map(Rank::of_next_use).unwrap_or_default()
    }
}
