//! The router: a route for each partition (FlexPushdownDB section 4.4).

use std::sync::Arc;

use thermocline_cache::{
    Access, Decoding, ObjectKey, Representation, SegmentKey, SegmentKind, SegmentRequest, StoredColumn, StoredSize,
};
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::{PartitionRange, Route};

use super::auto::{self, Estimates, Preference};
use super::bitmap::{Choice, Chooser};
use super::by_index::ByIndex;
use super::candidate::Candidate;
use super::companions::add_companions;
use super::costing::{Costing, Miss, Unseen};
use super::group::share_requests;
use super::keys::{decodings, names_of_text, object_key};
use super::recorded::record;
use super::scan_plan::ScanPlan;
use super::segments::{Seen, Segments, Taken};
use super::work::Work;
use crate::model::Terms;
use crate::query::ScanMetrics;
use crate::settings::CachedRepresentations;

/// Answers of at most one part in this many of the cache's limit are kept at their first use: a thousand one-off queries
/// replace what is useful, not one.
const SMALL_ANSWER_SHARE: usize = 1000;

/// Routed partitions, and what is expected of them.
pub(super) struct Routing {
    pub(super) works: Vec<Work>,
    /// Time that is expected, where the model has chosen.
    pub(super) estimates: Option<Estimates>,
    /// What is expected of storage, if the fragment was not seen there yet.
    pub(super) unseen: Option<Unseen>,
    /// Seconds that one of this side's cores would take per row.
    pub(super) expected_s_per_row: f64,
}

/// Routes every partition, and takes its segments from the cache.
pub(super) fn route(scan: &ScanPlan, metrics: &ScanMetrics) -> Routing {
    let model = &scan.query().resources().model;
    let costing = Costing::new(scan);
    let mut taken = Taken::new(&scan.query().resources().cache, metrics);
    // Nobody else spends the credit until it is given back.
    let terms = scan.is_routed_by_model().then(|| model.credit.lock().take());
    let Decision { routed, requests, estimates } = decide(scan, &costing, &mut taken, terms.as_ref());
    if let Some((Estimates { time, .. }, terms)) = estimates.as_ref().zip(terms) {
        model.credit.lock().give_back(&terms, time);
    }
    let (accesses, answers) = taken.into_accesses();
    let mut requests = requests.into_iter();
    let (mut accesses, mut answers) = (accesses.into_iter(), answers.into_iter());
    let works = scan.partitions().iter().zip(routed).map(|((object, partition), routed)| {
        let Routed { choice, cached, answer_bytes_max } = routed;
        let answer = answers.next();
        let requests = if cached.is_empty() { None } else { requests.next() };
        let keys = |requests: Vec<SegmentRequest>| requests.into_iter().map(|request| request.key).collect();
        let missed = requests.filter(|_| matches!(choice, Choice::Pushdown)).map_or_else(Vec::new, keys);
        let mut segments = if cached.is_empty() { vec![] } else { accesses.next().unwrap_or_default() };
        let hits = cached.iter().flatten().count();
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
        let (object, partition) = (Arc::clone(object), Arc::clone(partition));
        let companions = vec![];
        Work { object, partition, route, segments, companions, answer, answer_bytes_max, missed, plan }
    });
    let mut works: Vec<Work> = works.collect();
    add_companions(scan, &costing, &mut works, metrics);
    let unseen = costing.unseen();
    Routing { works, estimates, unseen, expected_s_per_row: costing.here_s_per_row() }
}

/// Numbers of partitions by route, and the time that is expected where the model has chosen.
pub(super) type Preview = (Vec<(Route, usize)>, Option<Estimates>);

/// The number of partitions by route as [`route`] would choose them now, and the time that is expected, for `EXPLAIN`:
/// nothing is admitted, counted or pinned.
pub(super) fn preview(scan: &ScanPlan) -> Preview {
    let resources = scan.query().resources();
    let terms = scan.is_routed_by_model().then(|| resources.model.credit.lock().terms());
    let Decision { routed, estimates, .. } =
        decide(scan, &Costing::new(scan), &mut Seen(&resources.cache), terms.as_ref());
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
    /// Per needed column, in which representation it is cached; empty where the cache is not used for the partition.
    cached: Vec<Option<Representation>>,
    /// Largest answer to be kept, in bytes of memory; 0 if none is to be.
    answer_bytes_max: usize,
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
///
/// With `terms`, the model chooses, and loads may spend credit; without, the rule of the mode applies.
fn decide(scan: &ScanPlan, costing: &Costing<'_>, segments: &mut dyn Segments, terms: Option<&Terms>) -> Decision {
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
    let (preferences, mut estimates) = match terms {
        Some(terms) => {
            let cacheable = candidates.iter_mut().filter(|candidate| candidate.uses_cache);
            cacheable.zip(segments.uses(&requests)).for_each(|(candidate, uses)| candidate.uses = uses);
            note_room(scan, &mut candidates);
            for candidate in candidates.iter_mut().filter(|candidate| candidate.fixed().is_none()) {
                let decoded = candidate.decoded();
                candidate.otherwise = Some(chooser.choose(candidate.object, candidate.partition, &decoded));
            }
            let (preferences, estimates) = auto::choose(costing, &candidates, terms);
            (preferences, Some(estimates))
        }
        None => (candidates.iter().map(|candidate| by_rule(candidate, &mut chooser)).collect(), None),
    };

    let of_cache = |(preference, candidate): (&Preference, &Candidate<'_>)| {
        candidate.uses_cache.then_some(matches!(preference, Preference::LoadOr(_)))
    };
    let wanted: Vec<bool> = preferences.iter().zip(&candidates).filter_map(of_cache).collect();
    let admitted = match wanted.contains(&true) {
        true => segments.admit(&requests, &wanted),
        false => vec![false; wanted.len()],
    };
    let count = |of: &[bool]| of.iter().filter(|it| **it).count() as f64;
    if let Some(estimates) = estimates.as_mut().filter(|_| wanted.contains(&true)) {
        estimates.load_share(count(&admitted).min(count(&wanted)) / count(&wanted).max(1.0));
    }
    let mut admitted = admitted.into_iter();
    let routed = preferences.into_iter().zip(candidates).map(|(preference, candidate)| {
        let admitted = candidate.uses_cache && admitted.next().unwrap_or(false);
        let choice = match preference {
            Preference::LoadOr(_) if admitted => Choice::Load,
            Preference::LoadOr(choice) | Preference::Take(choice) => choice,
        };
        Routed { choice, cached: candidate.cached, answer_bytes_max: 0 }
    });
    let mut routed: Vec<Routed> = routed.collect();
    if let Some(estimates) = &mut estimates {
        estimates.taken(routed.iter().map(|routed| routed.choice.route()));
    }
    promote(&requests, &routed, segments);
    if !answers.is_empty() {
        keep_answers(scan, &answers, &mut routed, segments);
    }
    Decision { routed, requests, estimates }
}

/// Notes the partitions for whose missing columns, or else stored ones, the cache has free room to keep them decoded.
fn note_room(scan: &ScanPlan, candidates: &mut [Candidate<'_>]) {
    let cache = &scan.query().resources().cache;
    let (cached, loading) = cache.bytes();
    let mut room = cache.limit().saturating_sub(cached + loading);
    for candidate in candidates.iter_mut().filter(|candidate| candidate.uses_cache) {
        let mut columns = candidate.missing();
        if columns.is_empty() {
            columns = candidate.stored();
        }
        let bytes: usize = columns.iter().map(|column| candidate.partition.memory_bytes(*column)).sum();
        candidate.has_room = bytes > 0 && bytes <= room;
        room -= if candidate.has_room { bytes } else { 0 };
    }
}

/// Makes room for decoded columns of partitions that are decoded here, in part from stored bytes in the cache.
fn promote(requests: &[Vec<SegmentRequest>], routed: &[Routed], segments: &mut dyn Segments) {
    let decodes = |Routed { choice, cached, .. }: &Routed| {
        matches!(choice, Choice::Local | Choice::Load | Choice::Pullup)
            && cached.contains(&Some(Representation::Stored))
    };
    let of_cache = routed.iter().filter(|routed| !routed.cached.is_empty());
    let wanted: Vec<bool> = of_cache.map(decodes).collect();
    if wanted.contains(&true) {
        segments.promote(requests, &wanted);
    }
}

/// Makes room for answers of partitions: of any size where the same was asked for before, whichever side makes it. At the
/// first time, nobody knows whether it comes back: a small answer of storage is kept, unless there are so many partitions
/// that neighbours are asked for together and have one answer.
fn keep_answers(scan: &ScanPlan, answers: &[Vec<SegmentRequest>], routed: &mut [Routed], segments: &mut dyn Segments) {
    let pushed = routed.iter().filter(|routed| matches!(routed.choice, Choice::Pushdown)).count();
    let small = scan.query().resources().cache.limit() / SMALL_ANSWER_SHARE;
    let at_first = match share_requests(pushed, scan.settings().partitions_in_flight) {
        true => 0,
        false => small,
    };
    let mut wanted = vec![];
    for ((answer, routed), uses) in answers.iter().zip(routed).zip(segments.uses(answers)) {
        let bytes_max = match (&routed.choice, uses) {
            (Choice::Pushdown, 0) => at_first,
            (Choice::Pushdown | Choice::Load | Choice::Pullup, 1..) => usize::MAX,
            // It takes little time to make it again.
            (Choice::Local, 1..) => small,
            // That of a bitmap is put together by both sides.
            (Choice::Local | Choice::Load | Choice::Pullup, 0) | (Choice::Bitmap(_) | Choice::Answered, _) => 0,
        };
        let keeps = bytes_max > 0 && answer.iter().all(|request| request.bytes <= bytes_max);
        routed.answer_bytes_max = if keeps { bytes_max } else { 0 };
        wanted.push(keeps);
    }
    if wanted.contains(&true) {
        segments.admit_answers(answers, &wanted);
    }
}

/// The rule of the modes of FlexPushdownDB section 4.4: load what the cache admits.
fn by_rule(candidate: &Candidate<'_>, chooser: &mut Chooser<'_>) -> Preference {
    if let Some(choice) = candidate.fixed() {
        return Preference::Take(choice);
    }
    if candidate.missing().is_empty() {
        return Preference::Take(Choice::Local);
    }
    let otherwise = chooser.choose(candidate.object, candidate.partition, &candidate.decoded());
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
        Candidate {
            object,
            partition,
            cached,
            uses_cache,
            uses: 0,
            has_room: false,
            is_answered,
            by_index,
            otherwise: None,
            needed,
        }
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
    pays.zip(cached).map(|(pays, cached)| pays && cached.contains(&None)).collect()
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
    let digest = scan.answer_digest();
    let representations = representations(scan);
    let mut answers = vec![];
    // Partitions of one object come one after the other and share its key and how it is decoded.
    let mut last: Option<Keyed> = None;
    let names = names_of_text(scan);
    let segments = scan
        .partitions()
        .iter()
        .map(|(object, partition)| {
            let known = last.take().filter(|known| Arc::ptr_eq(&known.object, object));
            let Keyed { key, decodings, .. } = last.insert(known.unwrap_or_else(|| Keyed {
                object: Arc::clone(object),
                key: Arc::new(object_key(scan, object)),
                decodings: decodings(scan, object, names, scan.columns()),
            }));
            if let Some(digest) = &digest {
                let (bytes, miss_seconds) = costing.answer(object, partition);
                let (object, decoding) = (Arc::clone(key), Decoding::of(decodings));
                let kind = SegmentKind::Answer(Arc::clone(digest));
                let key = SegmentKey { object, partition: partition.range, kind, decoding };
                let columns = scan.columns().len();
                answers.push(vec![SegmentRequest { key, bytes, miss_seconds, columns, stored: None }]);
            }
            let miss = costing.miss(object, partition);
            let kept = Kept::of(representations, costing, object, partition);
            let column = |((column, name), decoding): ((&usize, &Arc<str>), &Decoding)| {
                let decoded = SegmentKey {
                    object: Arc::clone(key),
                    partition: partition.range,
                    kind: SegmentKind::column(Arc::clone(name)),
                    decoding: *decoding,
                };
                kept.request(decoded, *column, &miss)
            };
            scan.columns().iter().zip(scan.column_names()).zip(decodings.iter()).map(column).collect()
        })
        .collect();
    Requests { segments, answers }
}

/// How columns of a partition are kept.
struct Kept<'a> {
    costing: &'a Costing<'a>,
    object: &'a PlannedObject,
    partition: &'a Partition,
    representations: CachedRepresentations,
    row_groups: usize,
}

/// How a scan's columns are kept where stored bytes come by column and over a link.
fn representations(scan: &ScanPlan) -> CachedRepresentations {
    match scan.settings().cached_representations {
        _ if !scan.is_routed_by_model() => CachedRepresentations::Decoded,
        CachedRepresentations::Both if !scan.query().resources().cache.weighs_bytes() => CachedRepresentations::Decoded,
        representations => representations,
    }
}

impl<'a> Kept<'a> {
    fn of(
        representations: CachedRepresentations,
        costing: &'a Costing<'a>,
        object: &'a PlannedObject,
        partition: &'a Partition,
    ) -> Self {
        let row_groups = match partition.range {
            PartitionRange::RowGroups { start, end } => end.saturating_sub(start) as usize,
            PartitionRange::Bytes { .. } => 0,
        };
        let has_stored = row_groups > 0 && object.node.capabilities().crosses_link;
        let representations = if has_stored { representations } else { CachedRepresentations::Decoded };
        Self { costing, object, partition, representations, row_groups }
    }

    fn request(&self, decoded: SegmentKey, column: usize, miss: &Miss) -> SegmentRequest {
        let bytes = self.partition.memory_bytes(column);
        let miss_seconds = miss.seconds(bytes);
        let stored_bytes = self.partition.stored_bytes(&[column]) as usize;
        let saves = self.costing.fetching_share(self.object, self.partition, column);
        let stored = StoredSize { bytes: StoredColumn::bytes_of(stored_bytes, self.row_groups), saves };
        let request = SegmentRequest { key: decoded, bytes, miss_seconds, columns: 1, stored: None };
        match self.representations {
            CachedRepresentations::Decoded => request,
            CachedRepresentations::Both => SegmentRequest { stored: Some(stored), ..request },
            CachedRepresentations::Stored => {
                let key = request.key.in_representation(Representation::Stored).unwrap_or(request.key);
                let StoredSize { bytes, saves } = stored;
                SegmentRequest { key, bytes, miss_seconds: miss_seconds * saves, ..request }
            }
        }
    }
}
