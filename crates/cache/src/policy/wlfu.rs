//! Weighted LFU.

use super::uses::WEIGHT_UNIT;
use super::{Candidate, Policy, Rank};

/// Weighted LFU (FlexPushdownDB section 5.4): the benefit is the modelled work of the accesses, had they been misses, per
/// byte, where older ones count less ([`FREQUENCY_HALF_LIFE`](super::FREQUENCY_HALF_LIFE)).
///
/// Where the work is unknown, an access weighs one unit, a nanosecond: such segments have among each other the order
/// that [`Lfu`](super::Lfu) gives them, and go before those whose misses are known to take time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wlfu;

impl Wlfu {
    fn per_byte(candidate: Candidate<'_>) -> f64 {
        let uses = candidate.uses;
        candidate.per_byte(uses.weight.max(uses.frequency as f64 * WEIGHT_UNIT))
    }
}

impl Policy for Wlfu {
    fn name(&self) -> &'static str {
        "wlfu"
    }

    fn benefit(&self, candidate: Candidate<'_>, now: u64) -> f64 {
        Self::per_byte(candidate) * candidate.uses.ageing(now)
    }

    fn rank(&self, candidate: Candidate<'_>) -> Rank {
        Rank::scaled(Self::per_byte(candidate), candidate.uses.epoch())
    }

    fn weighs_bytes(&self) -> bool {
        true
    }
}
