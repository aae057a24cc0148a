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
}

impl Candidate<'_> {
    /// `value` per byte.
    pub(super) fn per_byte(&self, value: f64) -> f64 {
        value / self.bytes.max(1) as f64
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

    /// Whether the benefit of each victim is the least that later accesses add to
    /// ([`SegmentUse::inflation`]).
    fn inflates(&self) -> bool {
        false
    }
}
