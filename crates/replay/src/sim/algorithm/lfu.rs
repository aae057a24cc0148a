//! Least frequently used, normalised by size.

use super::Score;
use super::wlfu::{Ageing, Weights};
use crate::trace::{Need, SegmentId};

/// LFU: uses per byte.
#[derive(Debug)]
pub struct Lfu {
    uses: Weights,
}

impl Lfu {
    /// For this number of segments. A use counts half after `half_life` lookups; always the same if that is `None`.
    pub fn new(segments: usize, half_life: Ageing) -> Self {
        Self { uses: Weights::new(segments, half_life) }
    }
}

impl Score for Lfu {
    fn name(&self) -> String {
        format!("LFU{}", self.uses.suffix())
    }

    fn record(&mut self, now: usize, need: &Need, _: u64) {
        self.uses.add(now, need.id, 1.0);
    }

    fn score(&self, now: usize, id: SegmentId, bytes: u64) -> f64 {
        self.uses.at(now, id) / bytes.max(1) as f64
    }
}
