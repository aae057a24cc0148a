//! The interface of replacement policies.

use std::fmt;

use super::{Rank, SegmentUse};
use crate::key::SegmentKey;

/// A segment to be scored, cached or not.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its key.
    pub key: &'a SegmentKey,
    /// Its uses so far.
    pub uses: &'a SegmentUse,
    /// Bytes in memory.
    pub bytes: usize,
    /// Share of a miss's time that a hit saves: less than 1 for stored bytes, which still have to be decoded, and 0 for
    /// those of a column that is cached decoded as well.
    pub share: f64,
}

impl Candidate<'_> {
    /// The saved share of `value` per byte.
    pub(super) fn per_byte(&self, value: f64) -> f64 {
        value * self.share / self.bytes.max(1) as f64
    }

    /// Its rank under `policy`: the lowest if a hit saves nothing.
    pub(crate) fn rank(self, policy: &dyn Policy) -> Rank {
        if self.share > 0.0 { policy.rank(self) } else { Rank::default() }
    }

    /// Its benefit under `policy` as of tick `now`: none if a hit saves nothing.
    pub(crate) fn benefit(self, policy: &dyn Policy, now: u64) -> f64 {
        if self.share > 0.0 { policy.benefit(self, now) } else { 0.0 }
    }
}

/// A replacement policy (FlexPushdownDB section 5.3): only a score.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Its name as a value of the setting.
    fn name(&self) -> &'static str;

    /// The benefit of keeping a segment, as of tick `now`.
    fn benefit(&self, candidate: Candidate<'_>, now: u64) -> f64;

    /// A rank that orders segments like their benefits at any time. Changes only when the segment is used.
    fn rank(&self, candidate: Candidate<'_>) -> Rank;

    /// Tells that a cache takes the policy at tick `now`.
    fn taken(&self, _now: u64) {}

    /// Whether benefits are per byte and in proportion to what a hit saves, so that they tell in which representation a
    /// column is worth its room.
    fn weighs_bytes(&self) -> bool {
        false
    }

    /// Whether the benefit of each victim is the least that later accesses add to
    /// ([`SegmentUse::inflation`]).
    fn inflates(&self) -> bool {
        false
    }
}
