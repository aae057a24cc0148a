//! Which route each partition takes (design 4.1 and 4.2, FlexPushdownDB section 4.4).

use std::sync::Arc;

use thermocline_cache::{Access, SegmentKey, SegmentRequest};
use thermocline_pushdown::Route;

use super::bitmap::{BitmapPlan, Choice, Chooser};
use super::hybrid_scan::HybridScanExec;
use super::metrics::ScanMetrics;
use crate::catalog::{Partition, PlannedObject};

/// One partition, its route, and what the cache has of it.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) object: Arc<PlannedObject>,
    pub(super) partition: Arc<Partition>,
    pub(super) route: Route,
    /// Per needed column; empty in modes that do not cache.
    pub(super) segments: Vec<Access>,
    /// What to do on the route `bitmap`; `None` on the others.
    pub(super) plan: Option<Arc<BitmapPlan>>,
}

/// Routes every partition and admits segments to the cache.
///
/// ```text
///                     all needed segments cached ------------------> local
///  modes that cache   what is missing was admitted (Algorithm 1) --> load
///                     a part is cached, and using it pays --------> bitmap
///                     otherwise, as in modes that do not cache:
///                       the fragment may run there and may reduce -> pushdown
///                       it may not ---------------------------------> pullup
/// ```
pub(super) fn route(scan: &HybridScanExec, metrics: &ScanMetrics) -> Vec<Work> {
    let engine = scan.query().engine();
    let mode = scan.query().settings().mode;
    let accesses = if mode.caches() {
        let accesses = engine.cache.access(&segment_requests(scan));
        metrics.segments_evicted.add(accesses.evicted);
        accesses.groups
    } else {
        scan.partitions().iter().map(|_| vec![]).collect()
    };
    let mut chooser = Chooser::new(scan);
    scan.partitions()
        .iter()
        .zip(accesses)
        .map(|((object, partition), mut segments)| {
            let hits = segments.iter().filter(|access| matches!(access, Access::Hit(_))).count();
            let whole = !segments.iter().any(|access| matches!(access, Access::Missing));
            let needed = scan.columns().len();
            let mut plan = None;
            let route = if needed == 0 || (mode.caches() && whole && hits == needed) {
                Route::Local
            } else if mode.caches() && whole {
                Route::Load
            } else {
                let cached: Vec<bool> = segments.iter().map(|access| matches!(access, Access::Hit(_))).collect();
                match chooser.choose(partition, &cached) {
                    Choice::Pushdown => {
                        // What the cache holds of the partition is not used, so it need not stay pinned.
                        segments.clear();
                        Route::Pushdown
                    }
                    Choice::Bitmap(chosen) => {
                        plan = Some(chosen);
                        Route::Bitmap
                    }
                    Choice::Pullup => Route::Pullup,
                }
            };
            metrics.partitions(route).add(1);
            metrics.segments_hit.add(hits);
            if mode.caches() {
                metrics.segments_missed.add(needed - hits);
            }
            Work { object: Arc::clone(object), partition: Arc::clone(partition), route, segments, plan }
        })
        .collect()
}

/// The routes as they stand now, for `EXPLAIN`: nothing is admitted, counted or pinned.
pub(super) fn preview(scan: &HybridScanExec) -> Vec<(Route, usize)> {
    let mode = scan.query().settings().mode;
    let cached = if mode.caches() {
        scan.query().engine().cache.peek(&segment_requests(scan))
    } else {
        vec![(vec![], false); scan.partitions().len()]
    };
    let mut chooser = Chooser::new(scan);
    let needed = scan.columns().len();
    let routes: Vec<Route> = scan
        .partitions()
        .iter()
        .zip(cached)
        .map(|((_, partition), (cached, admitted))| {
            let hits = cached.iter().filter(|cached| **cached).count();
            if hits == needed {
                return Route::Local;
            }
            if admitted {
                return Route::Load;
            }
            match chooser.choose(partition, &cached) {
                Choice::Pushdown => Route::Pushdown,
                Choice::Bitmap(_) => Route::Bitmap,
                Choice::Pullup => Route::Pullup,
            }
        })
        .collect();
    Route::ALL
        .into_iter()
        .map(|route| (route, routes.iter().filter(|taken| **taken == route).count()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Whether the fragment may run at the partition's storage node and is expected to pay.
pub(super) fn pushdown_pays(scan: &HybridScanExec, partition: &Partition) -> bool {
    let may = scan.query().settings().mode.pushes() && scan.encoded().is_some();
    // Parquet's own bytes are smaller than Arrow's for the same rows (design 5.1); a CSV partition
    // is larger than any part of it.
    let pays = partition.is_row_oriented()
        || (scan.fragment().reduces() && !scan.query().engine().shapes.raw_is_smaller(scan.shape()));
    may && pays
}

fn segment_requests(scan: &HybridScanExec) -> Vec<Vec<SegmentRequest>> {
    scan.partitions()
        .iter()
        .map(|(object, partition)| {
            scan.columns()
                .iter()
                .zip(scan.column_names())
                .map(|(column, name)| SegmentRequest {
                    key: SegmentKey {
                        table: Arc::clone(scan.table_name()),
                        object: object.path.clone(),
                        version: object.version.clone(),
                        partition: partition.range,
                        column: Arc::clone(name),
                    },
                    bytes: partition.memory_bytes(*column),
                })
                .collect()
        })
        .collect()
}
