//! Segments of a scan's partitions in the cache: taken for an execution, or only looked at for `EXPLAIN`.

use std::sync::Arc;

use thermocline_cache::{Access, Representation, SegmentCache, SegmentRequest};

use crate::query::ScanMetrics;

/// The cache, as the router asks it. Groups are partitions.
pub(super) trait Segments {
    /// Per group and segment, in which representation it is cached. Asked first, and once.
    fn cached(&mut self, groups: &[Vec<SegmentRequest>]) -> Vec<Vec<Option<Representation>>>;

    /// Per answer, a group of its own, whether it is kept.
    fn answered(&mut self, answers: &[Vec<SegmentRequest>]) -> Vec<bool>;

    /// Makes room for the answers that are `wanted`, as far as the policy has any.
    fn admit_answers(&mut self, answers: &[Vec<SegmentRequest>], wanted: &[bool]);

    /// Per group, how often it may be taken to have been asked for before ([`SegmentCache::uses`]).
    fn uses(&self, groups: &[Vec<SegmentRequest>]) -> Vec<u64>;

    /// Per group, whether all its segments that are not cached are admitted (Algorithm 1), of those that are `wanted`.
    fn admit(&mut self, groups: &[Vec<SegmentRequest>], wanted: &[bool]) -> Vec<bool>;

    /// Makes room for the decoded columns of groups that are decoded from stored bytes in the cache, of those that are
    /// `wanted`, where it pays to keep them so.
    fn promote(&mut self, groups: &[Vec<SegmentRequest>], wanted: &[bool]);
}

/// Segments that an execution takes: uses are counted, hits pinned, what is admitted is to be loaded.
pub(super) struct Taken<'a> {
    cache: &'a Arc<SegmentCache>,
    metrics: &'a ScanMetrics,
    accesses: Vec<Vec<Access>>,
    answers: Vec<Vec<Access>>,
}

impl<'a> Taken<'a> {
    pub(super) fn new(cache: &'a Arc<SegmentCache>, metrics: &'a ScanMetrics) -> Self {
        Self { cache, metrics, accesses: vec![], answers: vec![] }
    }

    /// Per group that was asked for, what became of its segments; per answer, what became of it.
    pub(super) fn into_accesses(self) -> (Vec<Vec<Access>>, Vec<Access>) {
        (self.accesses, self.answers.into_iter().flatten().collect())
    }
}

impl Segments for Taken<'_> {
    fn cached(&mut self, groups: &[Vec<SegmentRequest>]) -> Vec<Vec<Option<Representation>>> {
        self.accesses = self.cache.access(groups);
        self.accesses.iter().map(|group| group.iter().map(representation).collect()).collect()
    }

    fn answered(&mut self, answers: &[Vec<SegmentRequest>]) -> Vec<bool> {
        self.answers = self.cache.access(answers);
        self.answers.iter().flatten().map(|access| matches!(access, Access::Hit(_))).collect()
    }

    fn admit_answers(&mut self, answers: &[Vec<SegmentRequest>], wanted: &[bool]) {
        let evicted = self.cache.admit(answers, &mut self.answers, wanted);
        self.metrics.segments_evicted.add(evicted);
    }

    fn uses(&self, groups: &[Vec<SegmentRequest>]) -> Vec<u64> {
        // This access was counted.
        self.cache.uses(groups, 1)
    }

    fn admit(&mut self, groups: &[Vec<SegmentRequest>], wanted: &[bool]) -> Vec<bool> {
        let evicted = self.cache.admit(groups, &mut self.accesses, wanted);
        self.metrics.segments_evicted.add(evicted);
        let whole = |group: &Vec<Access>| !group.iter().any(|access| matches!(access, Access::Missing));
        self.accesses.iter().zip(wanted).map(|(group, wanted)| *wanted && whole(group)).collect()
    }

    fn promote(&mut self, groups: &[Vec<SegmentRequest>], wanted: &[bool]) {
        let evicted = self.cache.promote(groups, &mut self.accesses, wanted);
        self.metrics.segments_evicted.add(evicted);
    }
}

/// In which representation a segment is cached.
fn representation(access: &Access) -> Option<Representation> {
    match access {
        Access::Hit(segment) if segment.stored().is_none() => Some(Representation::Decoded),
        Access::Hit(_) | Access::Decode { .. } => Some(Representation::Stored),
        Access::Load(_) | Access::Missing => None,
    }
}

/// A look that changes nothing.
pub(super) struct Seen<'a>(pub(super) &'a Arc<SegmentCache>);

impl Segments for Seen<'_> {
    fn cached(&mut self, groups: &[Vec<SegmentRequest>]) -> Vec<Vec<Option<Representation>>> {
        self.0.peek(groups)
    }

    fn answered(&mut self, answers: &[Vec<SegmentRequest>]) -> Vec<bool> {
        self.0.peek(answers).into_iter().flatten().map(|cached| cached.is_some()).collect()
    }

    fn admit_answers(&mut self, _: &[Vec<SegmentRequest>], _: &[bool]) {}

    fn uses(&self, groups: &[Vec<SegmentRequest>]) -> Vec<u64> {
        self.0.uses(groups, 0)
    }

    fn admit(&mut self, groups: &[Vec<SegmentRequest>], wanted: &[bool]) -> Vec<bool> {
        self.0.would_admit(groups, wanted)
    }

    fn promote(&mut self, _: &[Vec<SegmentRequest>], _: &[bool]) {}
}
