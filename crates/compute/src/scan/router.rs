//! The router: a route for each partition (FlexPushdownDB section 4.4).

use std::sync::Arc;

use thermocline_cache::{Access, Decoding, ObjectKey, SegmentKey, SegmentRequest};
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::{FileFormat, Route};

use super::bitmap::{BitmapPlan, Choice, Chooser};
use super::by_index::ByIndex;
use super::hybrid_scan::HybridScanExec;
use crate::learning::Place;
use crate::query::ScanMetrics;

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

/// Routes every partition and admits segments to the cache.
///
/// ```text
///                     all needed segments cached ------------------> local
///  an index at the node is expected to find the few rows needed --> pushdown
///  modes that cache   what is missing was admitted (Algorithm 1) --> load
///                     a part is cached, and using it pays --------> bitmap
///                     otherwise, as in modes that do not cache:
///                       the fragment may run there and may reduce -> pushdown
///                       it may not ---------------------------------> pullup
/// ```
pub(super) fn route(scan: &HybridScanExec, metrics: &ScanMetrics) -> Vec<Work> {
    let engine = scan.query().resources();
    let mode = scan.query().settings().mode;
    let mut requests = segment_requests(scan);
    let by_index = pushed_by_index(scan, &requests);
    let accesses = if mode.caches() {
        let mut by_index = by_index.iter();
        requests.retain(|_| !by_index.next().copied().unwrap_or(false));
        let accesses = engine.cache.access(&requests);
        metrics.segments_evicted.add(accesses.evicted);
        accesses.groups
    } else {
        vec![]
    };
    let mut accesses = accesses.into_iter();
    let mut chooser = Chooser::new(scan);
    scan.partitions()
        .iter()
        .zip(by_index)
        .map(|((object, partition), by_index)| {
            let mut segments = if by_index { vec![] } else { accesses.next().unwrap_or_default() };
            let hits = segments.iter().filter(|access| matches!(access, Access::Hit(_))).count();
            let whole = !segments.iter().any(|access| matches!(access, Access::Missing));
            let needed = scan.columns().len();
            let mut plan = None;
            let route = if needed == 0 || (mode.caches() && whole && hits == needed) {
                Route::Local
            } else if by_index {
                Route::Pushdown
            } else if mode.caches() && whole {
                Route::Load
            } else {
                let cached: Vec<bool> = segments.iter().map(|access| matches!(access, Access::Hit(_))).collect();
                match chooser.choose(object, partition, &cached) {
                    Choice::Pushdown => {
                        // What the cache holds of the partition is not used, so it need not stay pinned.
                        segments.clear();
                        Route::Pushdown
                    }
                    Choice::Bitmap(chosen) => {
                        plan = Some(chosen);
                        Route::Bitmap
                    }
                    Choice::Pullup => {
                        // With nothing of it cached or admitted, its rows stream; columns would be
                        // made whole.
                        if segments.iter().all(|access| matches!(access, Access::Missing)) {
                            segments.clear();
                        }
                        Route::Pullup
                    }
                }
            };
            metrics.partitions(route).add(1);
            metrics.segments_hit.add(hits);
            if mode.caches() && !by_index {
                metrics.segments_missed.add(needed - hits);
            }
            Work { object: Arc::clone(object), partition: Arc::clone(partition), route, segments, plan }
        })
        .collect()
}

/// The routes as they stand now, for `EXPLAIN`: nothing is admitted, counted or pinned.
pub(super) fn preview(scan: &HybridScanExec) -> Vec<(Route, usize)> {
    let mode = scan.query().settings().mode;
    let requests = segment_requests(scan);
    let by_index = pushed_by_index(scan, &requests);
    let cached = if mode.caches() {
        scan.query().resources().cache.peek(&requests)
    } else {
        vec![(vec![], false); scan.partitions().len()]
    };
    let mut chooser = Chooser::new(scan);
    let needed = scan.columns().len();
    let routes: Vec<Route> = scan
        .partitions()
        .iter()
        .zip(cached)
        .zip(by_index)
        .map(|(((object, partition), (cached, admitted)), by_index)| {
            let hits = cached.iter().filter(|cached| **cached).count();
            if hits == needed {
                return Route::Local;
            }
            if by_index {
                return Route::Pushdown;
            }
            if admitted {
                return Route::Load;
            }
            match chooser.choose(object, partition, &cached) {
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

/// Per partition, whether its rows are to be found through an index at its node: not if all of it is
/// cached.
fn pushed_by_index(scan: &HybridScanExec, requests: &[Vec<SegmentRequest>]) -> Vec<bool> {
    let Some(by_index) = ByIndex::new(scan) else {
        return vec![false; scan.partitions().len()];
    };
    let cached = match scan.query().settings().mode.caches() {
        true => scan.query().resources().cache.peek(requests),
        false => vec![(vec![false], false); requests.len()],
    };
    let pays = scan.partitions().iter().map(|(object, partition)| by_index.pays(object, partition));
    pays.zip(cached).map(|(pays, (cached, _))| pays && cached.contains(&false)).collect()
}

/// Whether the fragment may run at the partition's storage node and is expected to pay.
pub(super) fn pushdown_pays(scan: &HybridScanExec, object: &PlannedObject, partition: &Partition) -> bool {
    let raw_is_smaller = || {
        let place = Place::new(&object.path, partition.range);
        scan.query().resources().experience.raw_is_smaller(scan.shape(), scan.expected(), place)
    };
    // Parquet's own bytes, and those of compressed text, are smaller than Arrow's for the same rows; a
    // partition of plain text is larger than any part of it.
    let pays = partition.is_plain_text() || (scan.fragment().reduces() && !raw_is_smaller());
    scan.may_push(object) && pays && (!scan.link_is_free() || pays_without_link(scan))
}

/// Whether a fragment pays at a node in this process: if its answer is next to nothing, that is, has
/// at most this many bytes per row read, as far as executions have shown.
fn pays_without_link(scan: &HybridScanExec) -> bool {
    const ANSWER_BYTES_PER_ROW_MAX: f64 = 0.25;
    let observed = scan.query().resources().experience.observed(scan.shape(), scan.expected(), None).answer_bytes;
    scan.fragment().condenses() && observed.is_none_or(|bytes| bytes <= ANSWER_BYTES_PER_ROW_MAX)
}

/// Key of the segments of an object's columns.
struct Keyed {
    object: Arc<PlannedObject>,
    key: Arc<ObjectKey>,
    decodings: Vec<Decoding>,
}

fn segment_requests(scan: &HybridScanExec) -> Vec<Vec<SegmentRequest>> {
    // Partitions of one object come one after the other and share its key and how it is decoded.
    let mut last: Option<Keyed> = None;
    let names = matches!(scan.format(), FileFormat::Csv(_)).then(|| {
        let fields = scan.table_schema().fields().iter();
        Decoding::of(&fields.map(|field| field.name().as_str()).collect::<Vec<_>>())
    });
    scan.partitions()
        .iter()
        .map(|(object, partition)| {
            let known = last.take().filter(|known| Arc::ptr_eq(&known.object, object));
            let Keyed { key, decodings, .. } = last.insert(known.unwrap_or_else(|| Keyed {
                object: Arc::clone(object),
                key: Arc::new(object_key(scan, object)),
                decodings: decodings(scan, object, names),
            }));
            scan.columns()
                .iter()
                .zip(scan.column_names())
                .zip(decodings.iter())
                .map(|((column, name), decoding)| SegmentRequest {
                    key: SegmentKey {
                        object: Arc::clone(key),
                        partition: partition.range,
                        column: Arc::clone(name),
                        decoding: *decoding,
                    },
                    bytes: partition.memory_bytes(*column),
                })
                .collect()
        })
        .collect()
}

fn object_key(scan: &HybridScanExec, object: &PlannedObject) -> ObjectKey {
    ObjectKey { table: Arc::clone(scan.table_name()), object: object.path.clone(), version: object.version.clone() }
}

/// Fingerprints of what decides the values of the needed columns, beside the object's path and version:
/// the node that has it, the type, and for text the dialect and which field of a record the column is:
/// fields are found by position, or by name among all of the table's `names`.
fn decodings(scan: &HybridScanExec, object: &PlannedObject, names: Option<Decoding>) -> Vec<Decoding> {
    let format = object.format(scan.format());
    let fields = scan.table_schema().fields();
    let decoding = |column: &usize| {
        let of_type = fields.get(*column).map(|field| (field.data_type(), field.is_nullable()));
        let field = names.map(|names| (column, names));
        Decoding::of(&(object.node.label(), of_type, &format, field))
    };
    scan.columns().iter().map(decoding).collect()
}
