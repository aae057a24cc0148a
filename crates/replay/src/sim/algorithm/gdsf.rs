//! GreedyDual-Size-Frequency with the cost of misses.

use super::Score;
use crate::numbered::Numbered;
use crate::trace::{Need, SegmentId};

/// GDSF: the benefit is an inflation that is the benefit of the last victim, plus uses x cost / size.
#[derive(Debug)]
pub struct Gdsf {
    inflation: f64,
    /// Uses, and the benefit as of the last use.
    known: Numbered<(f64, f64)>,
}

impl Gdsf {
    /// For this number of segments.
    pub fn new(segments: usize) -> Self {
        Self { inflation: 0.0, known: Numbered::of((0.0, 0.0), segments) }
    }
}

impl Score for Gdsf {
    fn name(&self) -> String {
        "GDSF".to_owned()
    }

    fn record(&mut self, _: usize, need: &Need, bytes: u64) {
        let (uses, benefit) = &mut self.known[need.id];
        *uses += 1.0;
        *benefit = self.inflation + *uses * need.miss_seconds / bytes.max(1) as f64;
    }

    fn score(&self, _: usize, id: SegmentId, _: u64) -> f64 {
        self.known[id].1
    }

    fn evicted(&mut self, score: f64) {
        self.inflation = self.inflation.max(score);
    }
}
