//! The router: a route for each partition (FlexPushdownDB section 4.4).

use std::sync::Arc;

use thermocline_cache::{Access, Decoding, ObjectKey, SegmentKey, SegmentRequest};
use thermocline_catalog::PlannedObject;
use thermocline_pushdown::{FileFormat, Route};

use super::auto::{self, Estimates, Preference};
use super::bitmap::{Choice, Chooser};
use super::by_index::ByIndex;
use super::candidate::Candidate;
use super::costing::Costing;
use super::recorded::record;
use super::scan_plan::ScanPlan;
use super::segments::{Seen, Segments, Taken};
use super::work::Work;
use crate::query::ScanMetrics;

/// Routed partitions, and what is expected of them.
pub(super) struct Routing {
    pub(super) works: Vec<Work>,
    /// Time that is expected, where the model has chosen.
    pub(super) estimates: Option<Estimates>,
    /// Seconds that one of this side's cores would take per row.
    pub(super) expected_s_per_row: f64,
}

/// Routes every partition, and takes its segments from the cache.
pub(super) fn route(scan: &ScanPlan, metrics: &ScanMetrics) -> Routing {
    let costing = Costing::new(scan);
    let mut taken = Taken::new(&scan.query().resources().cache, metrics);
    let Decision { routed, requests, estimates } = decide(scan, &costing, &mut taken);
    let (accesses, answers) = taken.into_accesses();
    let mut requests = requests.into_iter();
    let (mut accesses, mut answers) = (accesses.into_iter(), answers.into_iter());
    let works = scan.partitions().iter().zip(routed).map(|((object, partition), routed)| {
        let Routed { choice, cached } = routed;
        let answer = answers.next();
        let requests = if cached.is_empty() { None } else { requests.next() };
        let keys = |requests: Vec<SegmentRequest>| requests.into_iter().map(|request| request.key).collect();
        let missed = requests.filter(|_| matches!(choice, Choice::Pushdown)).map_or_else(Vec::new, keys);
        let mut segments = if cached.is_empty() { vec![] } else { accesses.next().unwrap_or_default() };
        let hits = cached.iter().filter(|cached| **cached).count();
        metrics.segments_hit.add(hits);
        metrics.segments_missed.add(cached.len() - hits);
        match &choice {
            // What the cache holds of the partition is not used, so it need not stay pinned.
            Choice::Pushdown => segments.clear(),
            // With nothing of it cached or admitted, its rows stream; columns would be made whole.
            Choice::Pullup if segments.iter().all(|access| matches!(access, Access::Missing)) => segments.clear(),
            Choice::Local | Choice::Answered | Choice::Load | Choice::Bitmap(_) | Choice::Pullup => {}
        }
        let route = choice.route();
        metrics.partitions(route).add(1);
        let plan = match choice {
            Choice::Bitmap(plan) => Some(plan),
            _ => None,
        };
        Work { object: Arc::clone(object), partition: Arc::clone(partition), route, segments, answer, missed, plan }
    });
    Routing { works: works.collect(), estimates, expected_s_per_row: costing.here_s_per_row() }
}

/// The number of partitions by route as [`route`] would choose them now, and the time that is expected, for `EXPLAIN`:
/// nothing is admitted, counted or pinned.
pub(super) fn preview(scan: &ScanPlan) -> (Vec<(Route, usize)>, Option<Estimates>) {
    let Decision { routed, estimates, .. } =
        decide(scan, &Costing::new(scan), &mut Seen(&scan.query().resources().cache));
    let count = |route| routed.iter().filter(|routed| routed.choice.route() == route).count();
    let routes = Route::ALL.into_iter().map(|route| (route, count(route))).filter(|(_, count)| *count > 0);
    (routes.collect(), estimates)
}

/// Routes of all partitions.
struct Decision {
    routed: Vec<Routed>,
    /// Of the partitions for which the cache is used: the needed columns.
    requests: Vec<Vec<SegmentRequest>>,
    /// Time that is expected, where the model has chosen.
    estimates: Option<Estimates>,
}

/// A partition's route.
struct Routed {
    choice: Choice,
    /// Per needed column, whether it is cached; empty where the cache is not used for the partition.
    cached: Vec<bool>,
}

/// Decides on every partition, in four steps: candidates, the cost of each, choice, admission.
///
/// ```text
///                     all needed segments cached ------------------> local
///                     the cache has the fragment's answer ---------> answered
///  an index at the node is expected to find the few rows needed --> pushdown
///  mode auto          the model's choice: fetched, and admitted ---> load
///                                         fetched -----------------> pullup
///                                         left to storage ---------> pushdown or bitmap, as below
///  hybrid, caching    what is missing was admitted (Algorithm 1) --> load
///                     a part is cached, and using it pays --------> bitmap
///                     otherwise, as in modes that do not cache:
///                       the fragment may run there and may reduce -> pushdown
///                       it may not ---------------------------------> pullup
/// ```
fn decide(scan: &ScanPlan, costing: &Costing<'_>, segments: &mut dyn Segments) -> Decision {
    let Requests { segments: mut requests, answers } = match scan.settings().mode.caches() {
        true => requests(scan, costing),
        false => Requests::default(),
    };
    let mut answered = if answers.is_empty() { vec![] } else { segments.answered(&answers) };
    answered.resize(scan.partitions().len(), false);
    let mut by_index = pushed_by_index(scan, &requests);
    by_index.iter_mut().zip(&answered).for_each(|(by_index, answered)| *by_index &= !answered);
    let mut elsewhere = by_index.iter().zip(&answered).map(|(by_index, answered)| *by_index || *answered);
    requests.retain(|_| !elsewhere.next().unwrap_or(false));
    let mut chooser = Chooser::new(scan);
    let mut candidates = candidates(scan, &requests, by_index.into_iter().zip(answered), segments);
    record(scan, costing, &candidates, &requests);
    let (preferences, estimates) = match scan.is_routed_by_model() {
        true => {
            let cacheable = candidates.iter_mut().filter(|candidate| candidate.uses_cache);
            cacheable.zip(segments.uses(&requests)).for_each(|(candidate, uses)| candidate.uses = uses);
            for candidate in candidates.iter_mut().filter(|candidate| candidate.fixed().is_none()) {
                candidate.otherwise = Some(chooser.choose(candidate.object, candidate.partition, &candidate.cached));
            }
            let (preferences, estimates) = auto::choose(costing, &candidates);
            (preferences, Some(estimates))
        }
        false => (candidates.iter().map(|candidate| by_rule(candidate, &mut chooser)).collect(), None),
    };

    let of_cache = |(preference, candidate): (&Preference, &Candidate<'_>)| {
        candidate.uses_cache.then_some(matches!(preference, Preference::LoadOr(_)))
    };
    let wanted: Vec<bool> = preferences.iter().zip(&candidates).filter_map(of_cache).collect();
    let mut admitted = match wanted.contains(&true) {
        true => segments.admit(&requests, &wanted),
        false => vec![false; wanted.len()],
    }
    .into_iter();
    let routed = preferences.into_iter().zip(candidates).map(|(preference, candidate)| {
        let admitted = candidate.uses_cache && admitted.next().unwrap_or(false);
        let choice = match preference {
            Preference::LoadOr(_) if admitted => Choice::Load,
            Preference::LoadOr(choice) | Preference::Take(choice) => choice,
        };
        Routed { choice, cached: candidate.cached }
    });
    let routed: Vec<Routed> = routed.collect();
    let keeps = |routed: &Routed| matches!(routed.choice, Choice::Pushdown);
    if !answers.is_empty() && routed.iter().any(keeps) {
        segments.admit_answers(&answers, &routed.iter().map(keeps).collect::<Vec<_>>());
    }
    Decision { routed, requests, estimates }
}

/// The rule of the modes of FlexPushdownDB section 4.4: load what the cache admits.
fn by_rule(candidate: &Candidate<'_>, chooser: &mut Chooser<'_>) -> Preference {
    if let Some(choice) = candidate.fixed() {
        return Preference::Take(choice);
    }
    let otherwise = chooser.choose(candidate.object, candidate.partition, &candidate.cached);
    match candidate.uses_cache {
        true => Preference::LoadOr(otherwise),
        false => Preference::Take(otherwise),
    }
}

/// All partitions, with what the cache has of those that `requests` are for: all but those found by an index, or of which
/// the answer is kept.
fn candidates<'a>(
    scan: &'a ScanPlan,
    requests: &[Vec<SegmentRequest>],
    elsewhere: impl Iterator<Item = (bool, bool)>,
    segments: &mut dyn Segments,
) -> Vec<Candidate<'a>> {
    let mut cached = if requests.is_empty() { vec![] } else { segments.cached(requests) }.into_iter();
    let candidate = |((object, partition), (by_index, is_answered))| {
        let cached = if by_index || is_answered { None } else { cached.next() };
        let (uses_cache, cached, needed) = (cached.is_some(), cached.unwrap_or_default(), scan.columns());
        Candidate { object, partition, cached, uses_cache, uses: 0, is_answered, by_index, otherwise: None, needed }
    };
    let partitions = scan.partitions().iter().map(|(object, partition)| (object, partition));
    partitions.zip(elsewhere).map(candidate).collect()
}

/// Per partition, whether its rows are to be found through an index at its node: not if all of it is
/// cached.
fn pushed_by_index(scan: &ScanPlan, requests: &[Vec<SegmentRequest>]) -> Vec<bool> {
    let Some(by_index) = ByIndex::new(scan) else {
        return vec![false; scan.partitions().len()];
    };
    let pays = scan.partitions().iter().map(|(object, partition)| by_index.pays(object, partition));
    if !scan.settings().mode.caches() {
        return pays.collect();
    }
    let cached = scan.query().resources().cache.peek(requests);
    pays.zip(cached).map(|(pays, cached)| pays && cached.contains(&false)).collect()
}

/// Key of the segments of an object's columns.
struct Keyed {
    object: Arc<PlannedObject>,
    key: Arc<ObjectKey>,
    decodings: Vec<Decoding>,
}

/// What a scan asks of the cache.
#[derive(Default)]
struct Requests {
    /// Per partition, the needed columns.
    segments: Vec<Vec<SegmentRequest>>,
    /// Per partition, the fragment's answer, alone in its group; empty if answers are not kept.
    answers: Vec<Vec<SegmentRequest>>,
}

fn requests(scan: &ScanPlan, costing: &Costing<'_>) -> Requests {
    let answer_name = scan.answer_name();
    let mut answers = vec![];
    // Partitions of one object come one after the other and share its key and how it is decoded.
    let mut last: Option<Keyed> = None;
    let names = matches!(scan.format(), FileFormat::Csv(_)).then(|| {
        let fields = scan.table_schema().fields().iter();
        Decoding::of(&fields.map(|field| field.name().as_str()).collect::<Vec<_>>())
    });
    let segments = scan
        .partitions()
        .iter()
        .map(|(object, partition)| {
            let known = last.take().filter(|known| Arc::ptr_eq(&known.object, object));
            let Keyed { key, decodings, .. } = last.insert(known.unwrap_or_else(|| Keyed {
                object: Arc::clone(object),
                key: Arc::new(object_key(scan, object)),
                decodings: decodings(scan, object, names),
            }));
            if let Some(name) = &answer_name {
                let (bytes, miss_seconds) = costing.answer(object, partition);
                let (object, decoding) = (Arc::clone(key), Decoding::of(decodings));
                let key = SegmentKey { object, partition: partition.range, column: Arc::clone(name), decoding };
                answers.push(vec![SegmentRequest { key, bytes, miss_seconds }]);
            }
            let miss = costing.miss(object, partition);
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
                    miss_seconds: miss.seconds(partition.memory_bytes(*column)),
                })
                .collect()
        })
        .collect();
    Requests { segments, answers }
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
