//! Replacement policies: the benefit of keeping a segment in the cache.
//!
//! A cache with a million segments cannot score them all again whenever its clock moves. So a policy gives two numbers
//! for a segment. Its *benefit* is the number of FlexPushdownDB section 5.3 at a moment. Its *rank* orders segments
//! like their benefits, and depends only on the segment's own uses:
//!
//! > for segments a and b that nobody uses in between, rank(a) < rank(b) if and only if
//! > benefit(a, now) < benefit(b, now), whatever `now` is.
//!
//! So a segment changes its place in the cache's order only when it is used. Benefits that change with time have such a
//! rank too: the recency of LRU is the time of the last access; Belady's policy ranks by the absolute time of the next
//! use; and a frequency that is halved at intervals keeps its order if, instead of halving all frequencies, later
//! accesses count twice as much ([`Rank::scaled`]).

use std::fmt;
use std::sync::Arc;

/// Lookups after which an access counts half. Frequencies are halved in steps, not continuously: between two steps,
/// segments with equally many accesses are equal, so that a repeated scan of more than fits keeps a part cached instead
/// of replacing each segment before its next use.
pub const FREQUENCY_HALF_LIFE: u64 = 4096;

/// Accesses of a segment, cached or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentUse {
    /// Accesses so far.
    pub accesses: u64,
    /// Tick of the last access; every lookup of a query's segments is one tick.
    pub last_access: u64,
    /// Accesses, halved once per [`FREQUENCY_HALF_LIFE`] up to the last access, rounded down.
    pub frequency: u64,
}

impl SegmentUse {
    /// Records an access at `tick`, which never decreases.
    pub fn record(&mut self, tick: u64) {
        let halvings = epoch(tick).saturating_sub(self.epoch());
        // In whole numbers, a difference of less than one access disappears. Otherwise two segments in alternating use
        // would evict each other for a whole half-life.
        self.frequency = self.frequency.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0) + 1;
        self.accesses += 1;
        self.last_access = tick;
    }

    /// Number of halvings applied to `frequency`.
    fn epoch(&self) -> u64 {
        epoch(self.last_access)
    }
}

/// Number of halvings before `tick`.
fn epoch(tick: u64) -> u64 {
    tick / FREQUENCY_HALF_LIFE
}

/// Position of a segment in the eviction order; the lowest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rank(u128);

impl Rank {
    /// Rank of a moment: the later, the higher.
    pub fn of_time(tick: u64) -> Self {
        Self(u128::from(tick))
    }

    /// `value` * 2^`doublings`, exactly and for any number of doublings: the value of a count `value` whose unit was
    /// worth 2^`doublings`. Anything but a positive number ranks lowest.
    pub fn scaled(value: f64, doublings: u64) -> Self {
        if !value.is_finite() || value <= 0.0 {
            return Self::default();
        }
        // The bits of positive numbers have the numbers' order, with the exponent above the fraction.
        Self(u128::from(value.to_bits()) + (u128::from(doublings) << (f64::MANTISSA_DIGITS - 1)))
    }
}

/// A replacement policy (FlexPushdownDB section 5.3): only a score.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Its name as a value of the setting.
    fn name(&self) -> &'static str;

    /// The benefit of keeping a segment of `bytes` bytes, as of tick `now`.
    fn benefit(&self, uses: &SegmentUse, bytes: usize, now: u64) -> f64;

    /// A rank that orders segments like their benefits at any time. Changes only when the segment is used.
    fn rank(&self, uses: &SegmentUse, bytes: usize) -> Rank;
}

/// Least recently used: the benefit is the time of the last access.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn benefit(&self, uses: &SegmentUse, _: usize, _: u64) -> f64 {
        uses.last_access as f64
    }

    fn rank(&self, uses: &SegmentUse, _: usize) -> Rank {
        Rank::of_time(uses.last_access)
    }
}

/// Least frequently used, normalised by size: the benefit is accesses per byte, where older ones count less
/// ([`FREQUENCY_HALF_LIFE`]).
#[derive(Debug, Clone, Copy, Default)]
pub struct Lfu;

impl Lfu {
    fn per_byte(uses: &SegmentUse, bytes: usize) -> f64 {
        uses.frequency as f64 / bytes.max(1) as f64
    }
}

impl Policy for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
    }

    fn benefit(&self, uses: &SegmentUse, bytes: usize, now: u64) -> f64 {
        let halvings = epoch(now).saturating_sub(uses.epoch());
        Self::per_byte(uses, bytes) * 0.5_f64.powf(halvings as f64)
    }

    fn rank(&self, uses: &SegmentUse, bytes: usize) -> Rank {
        Rank::scaled(Self::per_byte(uses, bytes), uses.epoch())
    }
}

/// All policies, in the order in which reports list them.
pub fn policies() -> Vec<Arc<dyn Policy>> {
    vec![Arc::new(Lru), Arc::new(Lfu)]
}

/// The policy with this name.
///
/// # Errors
/// A sentence that names the text and the available policies.
pub fn policy_named(text: &str) -> Result<Arc<dyn Policy>, String> {
    policies().into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
        let names: Vec<_> = policies().iter().map(|policy| policy.name()).collect();
        format!("unknown cache policy '{text}': expected one of {}", names.join(", "))
    })
}
