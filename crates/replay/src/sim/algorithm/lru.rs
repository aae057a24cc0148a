//! Least recently used.

use super::Score;
use crate::numbered::Numbered;
use crate::trace::{Need, SegmentId};

/// LRU: the benefit is the time of the last use.
#[derive(Debug)]
pub struct Lru {
    last: Numbered<f64>,
}

impl Lru {
    /// For this number of segments.
    pub fn new(segments: usize) -> Self {
        Self { last: Numbered::of(-1.0, segments) }
    }
}

impl Score for Lru {
    fn name(&self) -> String {
        "LRU".to_owned()
    }

    fn record(&mut self, now: usize, need: &Need, _: u64) {
        self.last[need.id] = now as f64;
    }

    fn score(&self, _: usize, id: SegmentId, _: u64) -> f64 {
        self.last[id]
    }
}
