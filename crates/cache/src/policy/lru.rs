//! Least recently used.

use super::{Candidate, Policy, Rank};

/// Least recently used: the benefit is the time of the last access.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn benefit(&self, candidate: Candidate<'_>, _: u64) -> f64 {
        candidate.uses.last_access as f64
    }

    fn rank(&self, candidate: Candidate<'_>) -> Rank {
        Rank::of_time(candidate.uses.last_access)
    }
}
