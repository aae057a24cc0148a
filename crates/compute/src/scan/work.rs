//! Routed partitions.

use std::sync::Arc;

use thermocline_cache::Access;
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
    /// Plan of the route `bitmap`; `None` on the others.
    pub(super) plan: Option<Arc<BitmapPlan>>,
}

/// A route, with its plan where it has one.
#[derive(Debug, Clone)]
pub(super) enum Choice {
    Local,
    Load,
    Pushdown,
    Bitmap(Arc<BitmapPlan>),
    Pullup,
}

impl Choice {
    pub(super) fn route(&self) -> Route {
        match self {
            Self::Local => Route::Local,
            Self::Load => Route::Load,
            Self::Pushdown => Route::Pushdown,
            Self::Bitmap(_) => Route::Bitmap,
            Self::Pullup => Route::Pullup,
        }
    }
}
