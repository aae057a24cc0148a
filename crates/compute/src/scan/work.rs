//! A routed partition.

use std::sync::Arc;

use thermocline_cache::{Access, LoadShare, SegmentKey};
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::Route;

use super::bitmap::BitmapPlan;

/// One partition, its route, and what the cache has of it.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) object: Arc<PlannedObject>,
    pub(super) partition: Arc<Partition>,
    pub(super) route: Route,
    /// Per needed column; empty where the cache is not used for the partition.
    pub(super) segments: Vec<Access>,
    /// Columns that a load keeps beside the needed ones.
    pub(super) companions: Vec<Companion>,
    /// The kept answer on route `answered`, or room for one on the others.
    pub(super) answer: Option<Access>,
    /// Bytes in memory up to which an answer is kept.
    pub(super) answer_bytes_max: usize,
    /// Keys of the needed columns, where the cache is used and the partition is pushed down.
    pub(super) missed: Vec<SegmentKey>,
    /// Plan of the route `bitmap`; `None` on the others.
    pub(super) plan: Option<Arc<BitmapPlan>>,
}

/// A column that a load keeps beside those that its scan needs.
#[derive(Debug)]
pub(super) struct Companion {
    /// Its position among the table's columns.
    pub(super) column: usize,
    /// Room for it.
    pub(super) share: LoadShare,
}

impl Work {
    /// Whether there is room for its answer.
    pub(super) fn keeps_answer(&self) -> bool {
        matches!(self.answer, Some(Access::Load(_)))
    }

    /// Whether the values of all needed columns are in memory.
    pub(super) fn is_decoded(&self) -> bool {
        self.segments.iter().all(is_decoded)
    }
}

/// Whether the values of a column are in memory.
pub(super) fn is_decoded(access: &Access) -> bool {
    matches!(access, Access::Hit(segment) if segment.stored().is_none())
}
