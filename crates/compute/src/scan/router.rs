//! The router: a route for each partition (FlexPushdownDB section 4.4).

use std::sync::Arc;

use thermocline_cache::{Access, Decoding, ObjectKey, SegmentKey, SegmentRequest};
use thermocline_catalog::PlannedObject;
use thermocline_pushdown::{FileFormat, Route};

use super::bitmap::{Choice, Chooser};
use super::by_index::ByIndex;
use super::scan_plan::ScanPlan;
use super::work::Work;
use crate::query::ScanMetrics;

/// What the cache holds of a partition, or will hold after the loads that it admits.
#[derive(Default)]
struct Held {
    /// Per needed column, whether it is cached; empty where the cache is not used for the partition.
    cached: Vec<bool>,
    /// Whether every column that is not cached is being loaded or admitted.
    whole: bool,
    /// Per needed column, the pinned segment or the right to load it; empty in a preview.
    segments: Vec<Access>,
}

/// Routes every partition and admits segments to the cache.
pub(super) fn route(scan: &ScanPlan, metrics: &ScanMetrics) -> Vec<Work> {
    let cache = &scan.query().resources().cache;
    let look_up = |requests: &[Vec<SegmentRequest>]| {
        let mut accesses = cache.access(requests);
        let is_cached = |segments: &Vec<Access>| segments.iter().all(|access| matches!(access, Access::Hit(_)));
        let wanted: Vec<bool> = accesses.iter().map(|segments| !is_cached(segments)).collect();
        metrics.segments_evicted.add(cache.admit(requests, &mut accesses, &wanted));
        let held = |segments: Vec<Access>| Held {
            cached: segments.iter().map(|access| matches!(access, Access::Hit(_))).collect(),
            whole: !segments.iter().any(|access| matches!(access, Access::Missing)),
            segments,
        };
        accesses.into_iter().map(held).collect()
    };
    let needed = scan.columns().len();
    scan.partitions()
        .iter()
        .zip(decide(scan, look_up))
        .map(|((object, partition), (choice, held))| {
            let Held { cached, mut segments, .. } = held;
            let hits = cached.iter().filter(|cached| **cached).count();
            metrics.segments_hit.add(hits);
            if !cached.is_empty() {
                metrics.segments_missed.add(needed - hits);
            }
            match &choice {
                // What the cache holds of the partition is not used, so it need not stay pinned.
                Choice::Pushdown => segments.clear(),
                // With nothing of it cached or admitted, its rows stream; columns would be made whole.
                Choice::Pullup if segments.iter().all(|access| matches!(access, Access::Missing)) => segments.clear(),
                Choice::Local | Choice::Load | Choice::Bitmap(_) | Choice::Pullup => {}
            }
            let route = choice.route();
            metrics.partitions(route).add(1);
            let plan = match choice {
                Choice::Bitmap(plan) => Some(plan),
                _ => None,
            };
            Work { object: Arc::clone(object), partition: Arc::clone(partition), route, segments, plan }
        })
        .collect()
}

/// The number of partitions by route as [`route`] would choose them now, for `EXPLAIN`: nothing is admitted, counted or
/// pinned.
pub(super) fn preview(scan: &ScanPlan) -> Vec<(Route, usize)> {
    let look_up = |requests: &[Vec<SegmentRequest>]| {
        let cache = &scan.query().resources().cache;
        let cached = cache.peek(requests);
        let wanted: Vec<bool> = cached.iter().map(|cached| cached.contains(&false)).collect();
        let whole = cache.would_admit(requests, &wanted);
        cached.into_iter().zip(whole).map(|(cached, whole)| Held { cached, whole, segments: vec![] }).collect()
    };
    let routes: Vec<Route> = decide(scan, look_up).iter().map(|(choice, _)| choice.route()).collect();
    Route::ALL
        .into_iter()
        .map(|route| (route, routes.iter().filter(|taken| **taken == route).count()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Decides on every partition; `look_up` tells what the cache holds of those for which it is used.
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
fn decide(scan: &ScanPlan, look_up: impl FnOnce(&[Vec<SegmentRequest>]) -> Vec<Held>) -> Vec<(Choice, Held)> {
    let needed = scan.columns().len();
    let mut requests = segment_requests(scan);
    let by_index = pushed_by_index(scan, &requests);
    let held = if scan.settings().mode.caches() {
        let mut by_index = by_index.iter();
        requests.retain(|_| !by_index.next().copied().unwrap_or(false));
        look_up(&requests)
    } else {
        vec![]
    };
    let mut held = held.into_iter();
    let mut chooser = Chooser::new(scan);
    scan.partitions()
        .iter()
        .zip(by_index)
        .map(|((object, partition), by_index)| {
            let held = if by_index { Held::default() } else { held.next().unwrap_or_default() };
            let choice = if held.cached.iter().filter(|cached| **cached).count() == needed {
                Choice::Local
            } else if by_index {
                Choice::Pushdown
            } else if held.whole {
                Choice::Load
            } else {
                chooser.choose(object, partition, &held.cached)
            };
            (choice, held)
        })
        .collect()
}

/// Per partition, whether its rows are to be found through an index at its node: not if all of it is
/// cached.
fn pushed_by_index(scan: &ScanPlan, requests: &[Vec<SegmentRequest>]) -> Vec<bool> {
    let Some(by_index) = ByIndex::new(scan) else {
        return vec![false; scan.partitions().len()];
    };
    let cached = match scan.settings().mode.caches() {
        true => scan.query().resources().cache.peek(requests),
        false => vec![vec![false]; requests.len()],
    };
    let pays = scan.partitions().iter().map(|(object, partition)| by_index.pays(object, partition));
    pays.zip(cached).map(|(pays, cached)| pays && cached.contains(&false)).collect()
}

/// Key of the segments of an object's columns.
struct Keyed {
    object: Arc<PlannedObject>,
    key: Arc<ObjectKey>,
    decodings: Vec<Decoding>,
}

fn segment_requests(scan: &ScanPlan) -> Vec<Vec<SegmentRequest>> {
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
                    miss_seconds: 0.0,
                })
                .collect()
        })
        .collect()
}

fn object_key(scan: &ScanPlan, object: &PlannedObject) -> ObjectKey {
    ObjectKey { table: Arc::clone(scan.table_name()), object: object.path.clone(), version: object.version.clone() }
}

/// Fingerprints of what decides the values of the needed columns, beside the object's path and version:
/// the node that has it, the type, and for text the dialect and which field of a record the column is:
/// fields are found by position, or by name among all of the table's `names`.
fn decodings(scan: &ScanPlan, object: &PlannedObject, names: Option<Decoding>) -> Vec<Decoding> {
    let format = object.format(scan.format());
    let fields = scan.table_schema().fields();
    let decoding = |column: &usize| {
        let of_type = fields.get(*column).map(|field| (field.data_type(), field.is_nullable()));
        let field = names.map(|names| (column, names));
        Decoding::of(&(object.node.label(), of_type, &format, field))
    };
    scan.columns().iter().map(decoding).collect()
}
