//! Replacement policies: how much a segment gains from staying in the cache.

use std::fmt;
use std::sync::Arc;

/// What is remembered of a segment's accesses, cached or not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SegmentUse {
    /// Accesses so far.
    pub accesses: u64,
    /// Tick of the last access; every lookup of a query's segments is one tick.
    pub last_access: u64,
    /// Sum over accesses of 1 / size in bytes.
    pub frequency_per_byte: f64,
}

impl SegmentUse {
    /// Records an access to a segment of `bytes` at `tick`.
    pub fn record(&mut self, tick: u64, bytes: usize) {
        self.accesses += 1;
        self.last_access = tick;
        self.frequency_per_byte += 1.0 / bytes.max(1) as f64;
    }
}

/// A replacement policy (FlexPushdownDB section 5.3): nothing but a score function.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The setting's value.
    fn name(&self) -> &'static str;

    /// The benefit of keeping a segment; only the order matters.
    fn benefit(&self, uses: &SegmentUse) -> f64;
}

/// Least recently used: the benefit is the time of the last access.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn benefit(&self, uses: &SegmentUse) -> f64 {
        uses.last_access as f64
    }
}

/// Least frequently used, normalised by size: the benefit is the sum of 1/size over accesses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lfu;

impl Policy for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
    }

    fn benefit(&self, uses: &SegmentUse) -> f64 {
        uses.frequency_per_byte
    }
}

/// The policy with that setting value.
///
/// # Errors
/// A sentence that names the text and the policies there are.
pub fn policy_named(text: &str) -> Result<Arc<dyn Policy>, String> {
    let policies: [Arc<dyn Policy>; 2] = [Arc::new(Lru), Arc::new(Lfu)];
    let names = policies.each_ref().map(|policy| policy.name()).join(", ");
    policies
        .into_iter()
        .find(|policy| policy.name().eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| format!("unknown cache policy '{text}': expected one of {names}"))
}
