//! Belady's policy.

use super::Score;
use crate::numbered::Numbered;
use crate::trace::{Need, SegmentId, Trace};

/// Belady: the benefit is 1 / the number of lookups until the next use.
#[derive(Debug)]
pub struct Belady {
    /// Times of uses, by segment.
    uses: Numbered<Vec<usize>>,
}

impl Belady {
    /// With the future that `trace` tells.
    pub fn new(trace: &Trace) -> Self {
        let mut uses = Numbered::of(vec![], trace.segments.len());
        for (time, lookup) in trace.lookups.iter().enumerate() {
            for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
                uses[need.id].push(time);
            }
        }
        Self { uses }
    }
}

impl Score for Belady {
    fn name(&self) -> String {
        "Belady".to_owned()
    }

    fn record(&mut self, _: usize, _: &Need, _: u64) {}

    fn score(&self, now: usize, id: SegmentId, _: u64) -> f64 {
        let uses = &self.uses[id];
        let next = uses.get(uses.partition_point(|time| *time <= now));
        next.map_or(0.0, |next| 1.0 / (next - now) as f64)
    }
}
