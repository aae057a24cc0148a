//! Weighted LFU, with and without ageing.

use super::Score;
use crate::numbered::Numbered;
use crate::trace::{Need, SegmentId};

/// Lookups after which a weight counts half; `None` if it always counts the same.
pub(super) type Ageing = Option<f64>;

/// Sums of weights that halve with time.
#[derive(Debug)]
pub(super) struct Weights {
    half_life: Ageing,
    /// Sum as of the time of the last addition, and that time.
    sums: Numbered<(f64, usize)>,
}

impl Weights {
    pub(super) fn new(segments: usize, half_life: Ageing) -> Self {
        Self { half_life, sums: Numbered::of((0.0, 0), segments) }
    }

    pub(super) fn at(&self, now: usize, id: SegmentId) -> f64 {
        let (sum, then) = self.sums[id];
        self.half_life.map_or(sum, |half_life| sum * 0.5_f64.powf((now - then) as f64 / half_life))
    }

    pub(super) fn add(&mut self, now: usize, id: SegmentId, weight: f64) {
        self.sums[id] = (self.at(now, id) + weight, now);
    }

    pub(super) fn suffix(&self) -> String {
        self.half_life.map_or(String::new(), |half_life| format!(", half-life {half_life}"))
    }
}

/// WLFU: the work of misses per byte, equation 1 of the FlexPushdownDB paper.
#[derive(Debug)]
pub struct Wlfu {
    work: Weights,
}

impl Wlfu {
    /// For this number of segments. A miss counts half after `half_life` lookups; always the same if that is `None`.
    pub fn new(segments: usize, half_life: Ageing) -> Self {
        Self { work: Weights::new(segments, half_life) }
    }
}

impl Score for Wlfu {
    fn name(&self) -> String {
        format!("WLFU{}", self.work.suffix())
    }

    fn record(&mut self, now: usize, need: &Need, _: u64) {
        self.work.add(now, need.id, need.miss_seconds);
    }

    fn score(&self, now: usize, id: SegmentId, bytes: u64) -> f64 {
        self.work.at(now, id) / bytes.max(1) as f64
    }
}
