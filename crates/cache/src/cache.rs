//! The segment cache: its operations and its counters.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_pushdown::{ObjectPath, ObjectVersion};

use crate::admission::{Asked, Form, signed};
use crate::index::LastObject;
use crate::load::Load;
use crate::segment::Segment;
use crate::slots::{Residency, Slot, SlotId};
use crate::state::State;
use crate::{LoadShare, ObjectKey, PinnedSegment, Policy, Rank, Representation, SegmentKey, SegmentKind, SegmentUse};

/// One segment that a query needs.
#[derive(Debug, Clone)]
pub struct SegmentRequest {
    /// Its key.
    pub key: SegmentKey,
    /// Estimated bytes in memory.
    pub bytes: usize,
    /// Modelled work of a miss in seconds, total_work(s) in equation 1 of the FlexPushdownDB paper; 0 if unknown.
    pub miss_seconds: f64,
    /// Number of columns that would have to be cached to save as much as a hit of this one: 1 for a column, and all of a
    /// partition's needed columns for its answer.
    pub columns: usize,
    /// The stored bytes of a column, if it may be kept so rather than decoded.
    pub stored: Option<StoredSize>,
}

/// Bytes that an answer counts as, at least: its place in the index, its key and its arrays' descriptions. Of a table with
/// many partitions, a filter that selects nothing has as many answers without rows.
const ANSWER_BYTES_MIN: usize = 1 << 10;

/// Columns that find no room although others might, after which [`SegmentCache::promote`] looks for none: each may have
/// looked at all segments, while every query waits.
const REFUSALS_MAX: usize = 8;

/// A column's stored bytes, as something to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoredSize {
    /// Their number.
    pub bytes: usize,
    /// Share of a miss's time that a hit saves: fetching, without decoding.
    pub saves: f64,
}

impl SegmentRequest {
    /// The key of its stored bytes, if it has them.
    fn stored_key(&self) -> Option<SegmentKey> {
        self.stored.and_then(|_| self.key.in_representation(Representation::Stored))
    }
}

/// The cache's answer for one requested segment.
#[derive(Debug)]
pub enum Access {
    /// Cached, and pinned until the answer is dropped.
    Hit(PinnedSegment),
    /// Cached as stored bytes, and admitted to be kept decoded: [`SegmentCache::promote`].
    Decode {
        /// The stored bytes, pinned.
        stored: PinnedSegment,
        /// The load of the decoded column.
        load: LoadShare,
    },
    /// Not cached yet, but admitted, for this query or for another: one of them has to load it.
    Load(LoadShare),
    /// Not cached and not admitted.
    Missing,
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
    /// Its uses, with the modelled and the measured seconds of a miss, in whatever representation.
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

    /// Looks up all segments that a query needs: lines 1 and 2 of Algorithm 1 of the FlexPushdownDB paper. Records one
    /// use of each, pins those that are cached, shares loads of others that are under way, and admits nothing: that is
    /// [`SegmentCache::admit`], after the query has chosen its routes. One lookup is one tick of the cache's clock.
    ///
    /// The outer list has one group per partition; the answer has the same shape. Keys of one object should share their
    /// [`ObjectKey`](crate::ObjectKey).
    pub fn access(self: &Arc<Self>, groups: &[Vec<SegmentRequest>]) -> Vec<Vec<Access>> {
        self.locked(|state| {
            state.tick += 1;
            let mut last = LastObject::default();
            let mut answer = |request: &SegmentRequest| {
                let slot = state.slot_of(&request.key, &mut last);
                state.record(slot, request.miss_seconds, Form::of(request).saves);
                let stored = request.stored_key().zip(Form::stored(request)).map(|(key, form)| {
                    let stored = state.slot_of(&key, &mut last);
                    state.record(stored, request.miss_seconds, form.saves);
                    stored
                });
                let answer = match stored {
                    Some(stored) => held_in_any(state, slot, stored),
                    None => held(state, slot),
                };
                match answer {
                    Access::Missing => state.counters.misses += 1,
                    Access::Hit(_) | Access::Decode { .. } | Access::Load(_) => state.counters.hits += 1,
                }
                answer
            };
            let answers = groups.iter().map(|group| group.iter().map(&mut answer).collect()).collect();
            state.forget();
            answers
        })
    }

    /// Admits what is missing of the `wanted` groups, where the policy has room for it: lines 3 to 12 of Algorithm 1.
    /// Returns the number of segments evicted.
    ///
    /// `accesses` is the answer of [`SegmentCache::access`] for the same `groups`. In a group that is admitted,
    /// [`Access::Missing`] becomes [`Access::Load`], or [`Access::Hit`] where another query has loaded the segment
    /// meanwhile. Nothing changes in other groups; but no segment of any group, wanted or not, is evicted.
    ///
    /// One deviation from the paper: the missing segments of a partition are admitted together or not at all. A
    /// partition with one segment missing cannot run locally, so loading the others would move bytes without saving
    /// any.
    pub fn admit(
        self: &Arc<Self>,
        groups: &[Vec<SegmentRequest>],
        accesses: &mut [Vec<Access>],
        wanted: &[bool],
    ) -> usize {
        let is_missing = |access: &Access| matches!(access, Access::Missing);
        let is_open = |(answers, wanted): (&Vec<Access>, &bool)| *wanted && answers.iter().any(is_missing);
        if !accesses.iter().zip(wanted).any(is_open) {
            return 0;
        }
        self.locked(|state| {
            let mut last = LastObject::default();
            let mut ample = state.ample();
            let mut asked = vec![];
            for (group, (requests, answers)) in groups.iter().zip(accesses.iter()).enumerate() {
                let is_wanted = wanted.get(group).copied().unwrap_or(false);
                for (position, request) in requests.iter().enumerate() {
                    let missing = is_wanted && answers.get(position).is_some_and(is_missing);
                    let [slot, stored] = [Some(request.key.clone()), request.stored_key()].map(|key| {
                        let key = key?;
                        let slot = match missing {
                            true => Some(state.slot_of(&key, &mut last)),
                            false => state.index.find(&key, &mut last),
                        }?;
                        state.abandon_if_dropped(slot);
                        Some(slot)
                    });
                    asked.push(state.asked(request, group, (slot, stored), missing, &mut ample));
                }
            }
            let plan = state.plan(groups.len(), &asked, false);
            plan.evictions.iter().for_each(|victim| state.evict(victim));
            let whole = |asked: &&Asked<'_>| plan.whole.get(asked.group).copied().unwrap_or(false);
            let mut admitted = asked.iter().filter(|asked| asked.missing).filter(whole).peekable();
            for (group, answers) in accesses.iter_mut().enumerate() {
                for answer in answers.iter_mut().filter(|answer| is_missing(answer)) {
                    let Some(Asked { slot: Some(slot), form, .. }) = admitted.next_if(|asked| asked.group == group)
                    else {
                        break;
                    };
                    *answer = self.load(state, *slot, *form);
                }
            }
            plan.evictions.len()
        })
    }

    /// Makes room for columns to be kept decoded that are cached as stored bytes, in the `wanted` groups: those that will
    /// be decoded anyway. Returns the number of segments evicted.
    ///
    /// `accesses` are answers for the same `groups`. Where what decoding saves per additional byte is worth more than what
    /// would have to go, [`Access::Hit`] becomes [`Access::Decode`], or a hit of the decoded column where another query has
    /// decoded it meanwhile. Once it is complete, its stored bytes are the first to be evicted.
    pub fn promote(
        self: &Arc<Self>,
        groups: &[Vec<SegmentRequest>],
        accesses: &mut [Vec<Access>],
        wanted: &[bool],
    ) -> usize {
        // A pin that ends while the lock is held would ask for it.
        let mut replaced = vec![];
        self.locked(|state| {
            let before = state.counters.evictions;
            let mut last = LastObject::default();
            // A column of no higher rank that takes no less room than one of these will not find it either.
            let mut refused: Vec<(Rank, usize)> = vec![];
            let groups = groups.iter().zip(accesses).zip(wanted).filter(|(_, wanted)| **wanted);
            for (request, access) in groups.flat_map(|((requests, accesses), _)| requests.iter().zip(accesses)) {
                let (Access::Hit(pin), Some(form)) = (&*access, Form::stored(request)) else { continue };
                if pin.stored().is_none() {
                    continue;
                }
                let slot = state.slot_of(&request.key, &mut last);
                state.abandon_if_dropped(slot);
                if is_cached(state, slot) {
                    replaced.push(std::mem::replace(access, held(state, slot)));
                    continue;
                }
                if !state.is_absent(Some(slot)) {
                    continue;
                }
                let rank = state.step_rank(slot, request, form);
                let is_refused = |(refused, bytes): &(Rank, usize)| rank <= *refused && request.bytes >= *bytes;
                if refused.len() >= REFUSALS_MAX || refused.iter().any(is_refused) {
                    continue;
                }
                if state.make_room(request.bytes, rank) {
                    let stored = pin.clone();
                    match self.load(state, slot, Form::of(request)) {
                        Access::Load(load) => {
                            replaced.push(std::mem::replace(access, Access::Decode { stored, load }));
                        }
                        other => replaced.extend([Access::Hit(stored), other]),
                    }
                } else {
                    refused.push((rank, request.bytes));
                }
            }
            (state.counters.evictions - before) as usize
        })
    }

    /// By group, in which representation segments are cached. Counts, pins and admits nothing.
    pub fn peek(&self, groups: &[Vec<SegmentRequest>]) -> Vec<Vec<Option<Representation>>> {
        self.locked(|state| {
            let mut last = LastObject::default();
            let mut cached = |key: &SegmentKey| {
                let slot = state.index.find(key, &mut last).and_then(|slot| state.slots.get(slot));
                slot.filter(|slot| slot.is_cached()).map(|_| key.kind.representation())
            };
            let mut representation = |request: &SegmentRequest| {
                cached(&request.key).or_else(|| request.stored_key().and_then(|key| cached(&key)))
            };
            groups.iter().map(|group| group.iter().map(&mut representation).collect()).collect()
        })
    }

    /// For each group, an estimate of how often it was asked for, cached or not, beside the last `latest` times: as often as
    /// its least used segment, or a quarter of the average over its segments, if that is more. A column that is new among
    /// popular ones is likely to come back with them. Counts no use.
    pub fn uses(&self, groups: &[Vec<SegmentRequest>], latest: u64) -> Vec<u64> {
        self.locked(|state| {
            let mut last = LastObject::default();
            let mut uses = |request: &SegmentRequest| {
                let slot = state.index.find(&request.key, &mut last).and_then(|slot| state.slots.get(slot));
                slot.map_or(0, |slot| slot.uses.frequency.saturating_sub(latest))
            };
            let of_group = |group: &Vec<SegmentRequest>| {
                let of_segments = group.iter().map(&mut uses);
                let (least, sum) = of_segments.fold((u64::MAX, 0), |(least, sum), uses| (least.min(uses), sum + uses));
                let quarter = sum / (group.len().max(1) as u64 * 4);
                if group.is_empty() { 0 } else { least.max(quarter) }
            };
            groups.iter().map(of_group).collect()
        })
    }

    /// Keys of an object's columns, decoded, that queries have asked for and that are neither cached nor being loaded, in
    /// no order. Counts no use.
    pub fn wanted_columns(&self, object: &ObjectKey) -> Vec<SegmentKey> {
        self.locked(|state| {
            let slots = state.index.of_version(&object.table, &object.object, &object.version);
            slots.iter().for_each(|slot| state.abandon_if_dropped(*slot));
            let absent = slots.into_iter().filter(|slot| state.is_absent(Some(*slot)));
            let keys = absent.filter_map(|slot| state.slots.get(slot)).map(|slot| &slot.key);
            let is_wanted = |key: &&SegmentKey| {
                matches!(key.kind, SegmentKind::Column { representation: Representation::Decoded, .. })
            };
            keys.filter(is_wanted).cloned().collect()
        })
    }

    /// By group, whether [`SegmentCache::access`] and then [`SegmentCache::admit`] for the `wanted` groups would leave
    /// nothing missing of it; `false` for groups that are not wanted. Counts, pins and admits nothing, for EXPLAIN.
    pub fn would_admit(&self, groups: &[Vec<SegmentRequest>], wanted: &[bool]) -> Vec<bool> {
        self.locked(|state| {
            let mut last = LastObject::default();
            let mut ample = state.ample();
            let asked: Vec<Asked<'_>> = requests(groups)
                .map(|(group, request)| {
                    let slot = state.index.find(&request.key, &mut last);
                    let stored = request.stored_key().and_then(|key| state.index.find(&key, &mut last));
                    let missing = wanted.get(group).copied().unwrap_or(false);
                    state.asked(request, group, (slot, stored), missing, &mut ample)
                })
                .collect();
            let plan = state.plan(groups.len(), &asked, true);
            state.put_back(plan.evictions);
            let wanted = wanted.iter().copied().chain(std::iter::repeat(false));
            plan.whole.into_iter().zip(wanted).map(|(whole, wanted)| whole && wanted).collect()
        })
    }

    /// Reports how many seconds misses took, by segment. Keys that no query has requested are ignored.
    pub fn observe_miss(&self, misses: &[(&SegmentKey, f64)]) {
        self.locked(|state| {
            let mut last = LastObject::default();
            for (key, seconds) in misses.iter().filter(|(_, seconds)| seconds.is_finite() && *seconds >= 0.0) {
                let stored = key.in_representation(Representation::Stored);
                for key in [Some(*key), stored.as_ref()].into_iter().flatten() {
                    let slot = state.index.find(key, &mut last);
                    if let Some(slot) = slot.and_then(|slot| state.slots.get_mut(slot)) {
                        slot.uses.measured_seconds = Some(*seconds);
                    }
                }
            }
        });
    }

    /// The cache's clock: the number of lookups so far.
    pub fn now(&self) -> u64 {
        self.state.lock().tick
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

    /// Changes the policy; all segments are ranked again if it is another.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) {
        self.locked(|state| {
            // Two policies of Belady's have one name and two futures.
            let is_same = Arc::ptr_eq(&state.policy, &policy);
            if state.policy.name() != policy.name() || policy.name() == "belady" && !is_same {
                state.set_policy(policy);
            }
        });
    }

    /// Whether the policy compares representations of a column ([`Policy::weighs_bytes`]).
    pub fn weighs_bytes(&self) -> bool {
        self.state.lock().policy.weighs_bytes()
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
                    benefit: slot.candidate(segment.bytes).benefit(state.policy.as_ref(), state.tick),
                    pinned: segment.is_pinned(),
                }),
                _ => None,
            })
            .collect()
    }

    /// Finds a segment of an admitted partition that was missing, or begins its load.
    fn load(self: &Arc<Self>, state: &mut State, slot: SlotId, form: Form) -> Access {
        let held = held(state, slot);
        // The plan has made room.
        if !matches!(held, Access::Missing) || state.room() < signed(form.bytes) {
            return held;
        }
        let is_answer = state.slots.get(slot).is_some_and(|slot| slot.key.kind.fragment().is_some());
        let bytes_min = if is_answer { ANSWER_BYTES_MIN } else { 0 };
        let load = Arc::new(Load::new(Arc::downgrade(self), slot, form.representation, bytes_min));
        state.begin_load(&load, form.bytes);
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

/// A pin on a column that is cached in either representation, or else a share in a load of it.
///
/// One of both is taken: a pin or a share that is dropped here would ask for the lock that is held.
fn held_in_any(state: &mut State, decoded: SlotId, stored: SlotId) -> Access {
    let cached = [decoded, stored].into_iter().find(|slot| is_cached(state, *slot));
    let slot = cached.unwrap_or_else(|| {
        state.abandon_if_dropped(decoded);
        if state.is_absent(Some(decoded)) { stored } else { decoded }
    });
    held(state, slot)
}

fn is_cached(state: &State, slot: SlotId) -> bool {
    state.slots.get(slot).is_some_and(Slot::is_cached)
}

/// A pin on a cached segment, or a share in its load.
fn held(state: &mut State, id: SlotId) -> Access {
    state.abandon_if_dropped(id);
    match state.slots.get(id).map(|slot| &slot.residency) {
        Some(Residency::Cached { segment, .. }) => Access::Hit(PinnedSegment::new(Arc::clone(segment))),
        Some(Residency::Loading { load, .. }) => match load.upgrade() {
            Some(load) => Access::Load(LoadShare { load }),
            None => Access::Missing,
        },
        Some(Residency::Absent { .. }) | None => Access::Missing,
    }
}

/// All requests with the position of their group.
fn requests(groups: &[Vec<SegmentRequest>]) -> impl Iterator<Item = (usize, &SegmentRequest)> {
    groups.iter().enumerate().flat_map(|(group, requests)| requests.iter().map(move |request| (group, request)))
}
