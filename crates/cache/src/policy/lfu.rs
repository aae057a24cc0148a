//! Least frequently used.

use super::{Candidate, Policy, Rank};

/// Least frequently used, normalised by size: the benefit is accesses per byte, where older ones count less
/// ([`FREQUENCY_HALF_LIFE`](super::FREQUENCY_HALF_LIFE)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Lfu;

impl Lfu {
    fn per_byte(candidate: Candidate<'_>) -> f64 {
        candidate.per_byte(candidate.uses.frequency as f64)
    }
}

impl Policy for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
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
