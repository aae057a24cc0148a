//! The segment cache: its operations and its counters.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_pushdown::{ObjectPath, ObjectVersion};

use crate::admission::{Asked, signed};
use crate::index::LastObject;
use crate::load::Load;
use crate::segment::Segment;
use crate::slots::Residency;
use crate::state::State;
use crate::{LoadShare, PinnedSegment, Policy, SegmentKey, SegmentUse};

/// One segment that a query needs.
#[derive(Debug, Clone)]
pub struct SegmentRequest {
    /// Its key.
    pub key: SegmentKey,
    /// Estimated bytes in memory.
    pub bytes: usize,
}

/// The cache's answer for one requested segment.
#[derive(Debug)]
pub enum Access {
    /// Cached, and pinned until the answer is dropped.
    Hit(PinnedSegment),
    /// Not cached yet, but admitted, now or by another query: a query has to load it.
    Load(LoadShare),
    /// Not cached and not admitted.
    Missing,
}

/// The cache's answer for all segments of a query.
#[derive(Debug)]
pub struct Accesses {
    /// In the shape of the request.
    pub groups: Vec<Vec<Access>>,
    /// Segments evicted for it.
    pub evicted: usize,
}

/// Counters since the start; every field only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Requested segments that were cached or being loaded.
    pub hits: u64,
    /// Requested segments that were neither.
    pub misses: u64,
    /// Segments that entered the cache.
    pub admissions: u64,
    /// Segments evicted to make room.
    pub evictions: u64,
}

/// One cached segment, for `system.segments`.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Its key.
    pub key: SegmentKey,
    /// Bytes in memory.
    pub bytes: usize,
    /// Rows.
    pub rows: usize,
    /// Its uses.
    pub uses: SegmentUse,
    /// The policy's current score for them.
    pub benefit: f64,
    /// Whether a query is reading it.
    pub pinned: bool,
}

/// A bounded cache of segments, shared by all queries of a process.
///
/// A lookup takes time proportional to the requested segments and those considered for eviction, each O(log n) for n
/// cached or remembered ones; so do loads and removals.
#[derive(Debug)]
pub struct SegmentCache {
    state: Mutex<State>,
}

impl SegmentCache {
    /// An empty cache of at most `limit` bytes.
    pub fn new(limit: usize, policy: Arc<dyn Policy>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new(limit, policy)) })
    }

    /// Looks up all segments that a query needs and decides what to load: Algorithm 1 of the
    /// FlexPushdownDB paper. The outer list has one group per partition; the answer has the same
    /// shape. Keys of one object should share their [`ObjectKey`](crate::ObjectKey).
    ///
    /// One deviation from the paper: the missing segments of a partition are admitted together or not at all. A
    /// partition with one segment missing cannot run locally, so loading the others would move bytes without saving
    /// any.
    pub fn access(self: &Arc<Self>, groups: &[Vec<SegmentRequest>]) -> Accesses {
        self.locked(|state| {
            state.tick += 1;
            let mut last = LastObject::default();
            let asked: Vec<Asked<'_>> = requests(groups)
                .map(|(group, request)| {
                    let slot = state.slot_of(&request.key, &mut last);
                    state.record(slot);
                    Asked { request, group, slot: Some(slot) }
                })
                .collect();
            let plan = state.plan(groups.len(), &asked, false);
            plan.evictions.iter().for_each(|victim| state.evict(victim));
            let mut answers: Vec<Vec<Access>> = groups.iter().map(|group| Vec::with_capacity(group.len())).collect();
            for asked in &asked {
                let admitted = plan.whole.get(asked.group).copied().unwrap_or(false);
                let answer = self.answer(state, asked, admitted);
                if let Some(group) = answers.get_mut(asked.group) {
                    group.push(answer);
                }
            }
            state.forget();
            Accesses { groups: answers, evicted: plan.evictions.len() }
        })
    }

    /// The answer that [`SegmentCache::access`] would give now, without counting, pinning or admitting anything, for
    /// EXPLAIN. By group: which segments are cached, and whether the missing ones would be admitted.
    pub fn peek(&self, groups: &[Vec<SegmentRequest>]) -> Vec<(Vec<bool>, bool)> {
        self.locked(|state| {
            let mut last = LastObject::default();
            let asked: Vec<Asked<'_>> = requests(groups)
                .map(|(group, request)| Asked { request, group, slot: state.index.find(&request.key, &mut last) })
                .collect();
            let plan = state.plan(groups.len(), &asked, true);
            state.put_back(plan.evictions);
            let mut cached: Vec<(Vec<bool>, bool)> = plan.whole.into_iter().map(|whole| (vec![], whole)).collect();
            for asked in asked {
                let slot = asked.slot.and_then(|slot| state.slots.get(slot));
                if let Some((group, _)) = cached.get_mut(asked.group) {
                    group.push(slot.is_some_and(|slot| matches!(slot.residency, Residency::Cached { .. })));
                }
            }
            cached
        })
    }

    /// Bytes of cached segments, and of loads under way.
    pub fn bytes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.resident, state.reserved)
    }

    /// Maximum of the sum of [`SegmentCache::bytes`] so far.
    pub fn bytes_max(&self) -> usize {
        self.state.lock().bytes_max
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Changes the limit and evicts the least beneficial segments to meet it. Pinned segments and loads under way keep
    /// their room until they end; nothing is admitted before that.
    pub fn set_limit(&self, limit: usize) {
        self.locked(|state| {
            state.limit = limit;
            state.shrink();
        });
    }

    /// Changes the policy; all segments are ranked again if it differs.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) {
        self.locked(|state| {
            if state.policy.name() != policy.name() {
                state.policy = policy;
                state.rank_anew();
            }
        });
    }

    /// Drops every segment that no query is reading, and all remembered uses.
    pub fn clear(&self) {
        self.locked(State::clear);
    }

    /// Drops the segments and remembered uses of a dropped table; segments that a query is reading or loading go with
    /// that query. No lookup finds any of them again.
    pub fn remove_table(&self, table: &str) {
        self.locked(|state| {
            let slots = state.index.of_table(table);
            state.remove(&slots);
        });
    }

    /// [`SegmentCache::remove_table`] for one version of an object that was overwritten or deleted.
    pub fn remove_version(&self, table: &str, object: &ObjectPath, version: &ObjectVersion) {
        self.locked(|state| {
            let slots = state.index.of_version(table, object, version);
            state.remove(&slots);
        });
    }

    /// Current counters.
    pub fn counters(&self) -> CacheCounters {
        self.state.lock().counters
    }

    /// Number of segments that are not cached but whose uses are remembered.
    pub fn remembered(&self) -> usize {
        self.state.lock().remembered()
    }

    /// All cached segments, in no particular order, without those of removed objects, even if a query still reads them.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.state.lock();
        state
            .slots
            .iter()
            .filter_map(|(_, slot)| match &slot.residency {
                Residency::Cached { segment, .. } if !slot.removed => Some(SegmentInfo {
                    key: slot.key.clone(),
                    bytes: segment.bytes,
                    rows: segment.rows,
                    uses: slot.uses,
                    benefit: state.policy.benefit(&slot.uses, segment.bytes, state.tick),
                    pinned: segment.is_pinned(),
                }),
                _ => None,
            })
            .collect()
    }

    fn answer(self: &Arc<Self>, state: &mut State, asked: &Asked<'_>, admitted: bool) -> Access {
        let Some((id, slot)) = asked.slot.and_then(|id| Some((id, state.slots.get(id)?))) else {
            return Access::Missing;
        };
        match &slot.residency {
            Residency::Cached { segment, .. } => {
                state.counters.hits += 1;
                return Access::Hit(PinnedSegment::new(Arc::clone(segment)));
            }
            Residency::Loading { load, .. } => match load.upgrade() {
                Some(load) => {
                    state.counters.hits += 1;
                    return Access::Load(LoadShare { load });
                }
                // The last share is being dropped, so its room is free now.
                None => state.abandon_slot(id),
            },
            Residency::Absent { .. } => {}
        }
        state.counters.misses += 1;
        if !admitted || state.room() < signed(asked.request.bytes) {
            return Access::Missing;
        }
        let load = Arc::new(Load::new(Arc::downgrade(self), id));
        state.begin_load(&load, asked.request.bytes);
        Access::Load(LoadShare { load })
    }

    pub(crate) fn unpinned(&self, segment: &Arc<Segment>) {
        self.locked(|state| state.unpinned(segment));
    }

    pub(crate) fn abandon(&self, load: &Load) {
        self.locked(|state| state.abandon(load));
    }

    pub(crate) fn reserve(&self, load: &Load, bytes: usize) -> bool {
        self.locked(|state| state.reserve(load, bytes))
    }

    pub(crate) fn complete(&self, load: &Load, segment: &Arc<Segment>) -> bool {
        self.locked(|state| state.complete(load, segment))
    }

    /// Runs `work` under the lock, and afterwards frees the memory of segments that left the cache.
    fn locked<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let (result, freed) = {
            let mut state = self.state.lock();
            let result = work(&mut state);
            (result, std::mem::take(&mut state.freed))
        };
        drop(freed);
        result
    }
}

/// All requests with the position of their group.
fn requests(groups: &[Vec<SegmentRequest>]) -> impl Iterator<Item = (usize, &SegmentRequest)> {
    groups.iter().enumerate().flat_map(|(group, requests)| requests.iter().map(move |request| (group, request)))
}
