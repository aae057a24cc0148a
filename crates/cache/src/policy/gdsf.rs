//! GreedyDual-Size-Frequency with the cost of misses.

use super::uses::WEIGHT_UNIT;
use super::{Candidate, Policy, Rank};

/// GreedyDual-Size-Frequency: the benefit is the modelled work of a miss times the accesses, per byte, above the benefit of
/// the last victim at the time of the last access. So what was dear and is not used any more is overtaken by what is
/// used now, without a half-life to be chosen.
///
/// Where the work is unknown, an access weighs one unit, a nanosecond, as under [`Wlfu`](super::Wlfu).
#[derive(Debug, Clone, Copy, Default)]
pub struct Gdsf;

impl Gdsf {
    fn benefit(candidate: Candidate<'_>) -> f64 {
        let uses = candidate.uses;
        let work = uses.accesses as f64 * uses.miss_seconds.max(WEIGHT_UNIT);
        uses.inflation + candidate.per_byte(work)
    }
}

impl Policy for Gdsf {
    fn name(&self) -> &'static str {
        "gdsf"
    }

    fn benefit(&self, candidate: Candidate<'_>, _: u64) -> f64 {
        Self::benefit(candidate)
    }

    fn rank(&self, candidate: Candidate<'_>) -> Rank {
        Rank::scaled(Self::benefit(candidate), 0)
    }

    fn weighs_bytes(&self) -> bool {
        true
    }

    fn inflates(&self) -> bool {
        true
    }
}
