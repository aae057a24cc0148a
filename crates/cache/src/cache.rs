//! The segment cache's table, its accounting and Algorithm 1.
//!
//! Invariants, under the one lock:
//! - `resident` = sum of `bytes` over entries that are `Cached`
//! - `reserved` = sum of `bytes` over entries that are `Loading`
//! - `resident + reserved <= limit`, also at every moment within an operation
//! - an entry with a pin is never removed by eviction
//! - the counters only grow

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};
use std::sync::{Arc, Weak};

use arrow::array::ArrayRef;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::segment::PinnedSegment;
use crate::{Policy, SegmentKey, SegmentUse, array_bytes};

/// Segments whose uses are remembered although they are not cached, at the most; the least
/// recently used half is forgotten when it is passed.
const REMEMBERED_MAX: usize = 1 << 20;

/// One segment that a query needs.
#[derive(Debug, Clone)]
pub struct SegmentRequest {
    /// Which one.
    pub key: SegmentKey,
    /// Bytes that it would take in memory, as well as the caller can tell.
    pub bytes: usize,
}

/// The cache's answer for one requested segment.
#[derive(Debug)]
pub enum Access {
    /// Cached, and pinned until the answer is dropped.
    Hit(PinnedSegment),
    /// Not cached yet, but admitted, now or by another query: somebody has to load it.
    Load(LoadShare),
    /// Not cached and not admitted.
    Missing,
}

/// The cache's answer for all segments of a query.
#[derive(Debug)]
pub struct Accesses {
    /// In the shape of the request.
    pub groups: Vec<Vec<Access>>,
    /// Segments that had to go.
    pub evicted: usize,
}

/// What has happened so far; every field only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Requested segments that were cached or being loaded.
    pub hits: u64,
    /// Requested segments that were not.
    pub misses: u64,
    /// Segments that entered the cache.
    pub admissions: u64,
    /// Segments that left it to make room.
    pub evictions: u64,
}

/// One cached segment, for `system.segments`.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Which one.
    pub key: SegmentKey,
    /// Bytes in memory.
    pub bytes: usize,
    /// Rows.
    pub rows: usize,
    /// Its uses.
    pub uses: SegmentUse,
    /// The policy's score for them.
    pub benefit: f64,
    /// Whether a query is reading it.
    pub pinned: bool,
}

/// A bounded cache of segments, shared by all queries of a process.
#[derive(Debug)]
pub struct SegmentCache {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    policy: Arc<dyn Policy>,
    /// Cached and loading segments.
    entries: HashMap<SegmentKey, Entry>,
    /// Uses of segments in `entries` and of others that were asked for before.
    uses: HashMap<SegmentKey, SegmentUse>,
    resident: usize,
    reserved: usize,
    resident_max: usize,
    tick: u64,
    counters: CacheCounters,
}

/// ```text
///            access: admitted              complete: it fits
///  (absent) ------------------> Loading -----------------------> Cached
///      ^                           |                                |
///      +-- all shares dropped, ----+                                |
///      |   load failed, too large                                   |
///      +------------------------------------- evict, set_limit, ----+
///                                             clear (never while pinned)
/// ```
#[derive(Debug)]
enum Entry {
    Loading { bytes: usize, load: Weak<Load> },
    Cached { array: ArrayRef, bytes: usize, pin: Arc<()> },
}

/// One load, shared by all queries that want its segment.
#[derive(Debug)]
struct Load {
    cache: Weak<SegmentCache>,
    key: SegmentKey,
    /// Whether somebody has set out to load.
    claimed: AtomicBool,
    done: watch::Sender<Progress>,
}

/// How far a load is.
#[derive(Debug, Clone)]
enum Progress {
    Underway,
    Failed,
    Done(PinnedSegment),
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.state.lock().abandon(&self.key, self);
        }
    }
}

impl SegmentCache {
    /// An empty cache of at most `limit` bytes.
    pub fn new(limit: usize, policy: Arc<dyn Policy>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                limit,
                policy,
                entries: HashMap::new(),
                uses: HashMap::new(),
                resident: 0,
                reserved: 0,
                resident_max: 0,
                tick: 0,
                counters: CacheCounters::default(),
            }),
        })
    }

    /// Looks up all segments that a query needs and decides what to load: Algorithm 1 of the
    /// FlexPushdownDB paper. The outer list has one group per partition; the answer has the same
    /// shape.
    ///
    /// One thing goes past the paper: what a partition misses is admitted together or not at all.
    /// A partition with one segment short cannot run locally, so loading the others would move
    /// bytes that save none.
    pub fn access(self: &Arc<Self>, groups: &[Vec<SegmentRequest>]) -> Accesses {
        let mut state = self.state.lock();
        state.tick += 1;
        let tick = state.tick;
        for request in groups.iter().flatten() {
            let bytes = state.bytes_of(&request.key).unwrap_or(request.bytes);
            state.uses.entry(request.key.clone()).or_default().record(tick, bytes);
        }
        let plan = state.plan(groups, 0);
        for victim in &plan.evictions {
            state.evict(victim);
        }
        let answers = groups
            .iter()
            .zip(plan.whole)
            .map(|(group, admitted)| group.iter().map(|request| self.answer(&mut state, request, admitted)).collect())
            .collect();
        state.forget();
        Accesses { groups: answers, evicted: plan.evictions.len() }
    }

    /// What [`SegmentCache::access`] would answer now, without counting, pinning or admitting
    /// anything: for plans that are only looked at. Per group: which of it is cached, and whether
    /// what it misses would be admitted.
    pub fn peek(&self, groups: &[Vec<SegmentRequest>]) -> Vec<(Vec<bool>, bool)> {
        let state = self.state.lock();
        let plan = state.plan(groups, 1);
        let cached = |request: &SegmentRequest| matches!(state.entries.get(&request.key), Some(Entry::Cached { .. }));
        groups.iter().zip(plan.whole).map(|(group, whole)| (group.iter().map(cached).collect(), whole)).collect()
    }

    /// Bytes of cached segments, and of loads under way.
    pub fn bytes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.resident, state.reserved)
    }

    /// The most bytes that [`SegmentCache::bytes`] ever summed up to.
    pub fn bytes_max(&self) -> usize {
        self.state.lock().resident_max
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Changes the limit and evicts the least beneficial segments down to it. Pinned segments and
    /// loads under way keep their room until they end; nothing is admitted before that.
    pub fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        let excess = (state.resident + state.reserved).saturating_sub(limit);
        let victims = state.victims();
        let mut freed = 0;
        for (_, key, bytes) in victims {
            if freed >= excess {
                break;
            }
            freed += bytes;
            state.evict(&key);
        }
    }

    /// Changes the policy; remembered uses are scored anew.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) {
        self.state.lock().policy = policy;
    }

    /// Drops every segment that no query is reading, and all remembered uses.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let unpinned: Vec<_> = state.victims().into_iter().map(|(_, key, _)| key).collect();
        for key in unpinned {
            state.remove(&key);
        }
        state.uses.clear();
    }

    /// Drops the segments of other versions of `object`: nobody will ask for them again.
    pub fn retain_version(
        &self,
        object: &thermocline_pushdown::ObjectPath,
        version: &thermocline_pushdown::ObjectVersion,
    ) {
        let mut state = self.state.lock();
        let stale: Vec<_> = state
            .victims()
            .into_iter()
            .map(|(_, key, _)| key)
            .filter(|key| key.object == *object && key.version != *version)
            .collect();
        for key in stale {
            state.evict(&key);
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> CacheCounters {
        self.state.lock().counters
    }

    /// All cached segments, in no particular order.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.state.lock();
        state
            .entries
            .iter()
            .filter_map(|(key, entry)| match entry {
                Entry::Loading { .. } => None,
                Entry::Cached { array, bytes, pin } => {
                    let uses = state.uses.get(key).copied().unwrap_or_default();
                    Some(SegmentInfo {
                        key: key.clone(),
                        bytes: *bytes,
                        rows: array.len(),
                        uses,
                        benefit: state.policy.benefit(&uses),
                        pinned: Arc::strong_count(pin) > 1,
                    })
                }
            })
            .collect()
    }

    fn answer(self: &Arc<Self>, state: &mut State, request: &SegmentRequest, admitted: bool) -> Access {
        match state.entries.get(&request.key) {
            Some(Entry::Cached { array, pin, .. }) => {
                let segment = PinnedSegment { array: Arc::clone(array), _pin: Arc::clone(pin) };
                state.counters.hits += 1;
                return Access::Hit(segment);
            }
            Some(Entry::Loading { load, .. }) => {
                if let Some(load) = load.upgrade() {
                    state.counters.hits += 1;
                    return Access::Load(LoadShare { load });
                }
                // The last share is being dropped: its room is free as of now.
                state.remove(&request.key);
            }
            None => {}
        }
        state.counters.misses += 1;
        if !admitted || state.room() < request.bytes {
            return Access::Missing;
        }
        let load = Arc::new(Load {
            cache: Arc::downgrade(self),
            key: request.key.clone(),
            claimed: AtomicBool::new(false),
            done: watch::Sender::new(Progress::Underway),
        });
        state.entries.insert(request.key.clone(), Entry::Loading { bytes: request.bytes, load: Arc::downgrade(&load) });
        state.reserve(request.bytes);
        Access::Load(LoadShare { load })
    }
}

/// What Algorithm 1 decides.
struct Plan {
    /// Per group, whether everything that it misses is admitted.
    whole: Vec<bool>,
    /// Segments to evict for it.
    evictions: Vec<SegmentKey>,
}

impl State {
    fn bytes_of(&self, key: &SegmentKey) -> Option<usize> {
        match self.entries.get(key)? {
            Entry::Loading { bytes, .. } | Entry::Cached { bytes, .. } => Some(*bytes),
        }
    }

    fn benefit(&self, key: &SegmentKey) -> f64 {
        self.policy.benefit(&self.uses.get(key).copied().unwrap_or_default())
    }

    /// The benefit after `more` further accesses.
    fn benefit_after(&self, request: &SegmentRequest, more: u64) -> f64 {
        let mut uses = self.uses.get(&request.key).copied().unwrap_or_default();
        for next in 1..=more {
            uses.record(self.tick + next, request.bytes);
        }
        self.policy.benefit(&uses)
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.resident + self.reserved)
    }

    /// Algorithm 1, lines 3 to 12, as a decision that changes nothing. `more` accesses of every
    /// segment are yet to be recorded.
    fn plan(&self, groups: &[Vec<SegmentRequest>], more: u64) -> Plan {
        let mut missing: Vec<(f64, usize, &SegmentRequest)> = groups
            .iter()
            .enumerate()
            .flat_map(|(group, requests)| requests.iter().map(move |request| (group, request)))
            .filter(|(_, request)| !self.entries.contains_key(&request.key))
            .map(|(group, request)| (self.benefit_after(request, more), group, request))
            .collect();
        missing.sort_by(|a, b| descending(a.0, b.0).then(a.1.cmp(&b.1)));

        let mut short: Vec<usize> = vec![0; groups.len()];
        for (_, group, _) in &missing {
            if let Some(count) = short.get_mut(*group) {
                *count += 1;
            }
        }

        // Victims come in the order of increasing benefit. What this very query needs is not one,
        // or the partition that it belongs to would fall short.
        let needed: HashSet<&SegmentKey> = groups.iter().flatten().map(|request| &request.key).collect();
        let mut victims = self.victims();
        victims.retain(|(_, key, _)| !needed.contains(key));
        let mut free = self.room();
        let mut next_victim = 0;
        let mut admitted: Vec<(usize, &SegmentRequest)> = vec![];
        for (benefit, group, request) in missing {
            while free < request.bytes {
                match victims.get(next_victim) {
                    Some((victim, _, bytes)) if *victim < benefit => {
                        free += bytes;
                        next_victim += 1;
                    }
                    _ => break,
                }
            }
            if free < request.bytes {
                break;
            }
            free -= request.bytes;
            admitted.push((group, request));
            if let Some(count) = short.get_mut(group) {
                *count -= 1;
            }
        }

        // Only whole partitions are loaded, and only what they need is evicted.
        let whole: Vec<bool> = short.iter().map(|count| *count == 0).collect();
        let wanted: usize = admitted
            .iter()
            .filter(|(group, _)| whole.get(*group).copied().unwrap_or(false))
            .map(|(_, request)| request.bytes)
            .sum();
        let mut room = self.room();
        let evictions = victims
            .into_iter()
            .take(next_victim)
            .take_while(|(_, _, bytes)| {
                let short = room < wanted;
                room += bytes;
                short
            })
            .map(|(_, key, _)| key)
            .collect();
        Plan { whole, evictions }
    }

    /// Takes back a load that nobody will finish.
    fn abandon(&mut self, key: &SegmentKey, load: &Load) {
        let same = matches!(self.entries.get(key), Some(Entry::Loading { load: entry, .. })
            if std::ptr::eq(entry.as_ptr(), load));
        if same {
            self.remove(key);
        }
    }

    /// Unpinned cached segments with their benefit and bytes, the least beneficial first.
    fn victims(&self) -> Vec<(f64, SegmentKey, usize)> {
        let mut victims: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(key, entry)| match entry {
                Entry::Cached { bytes, pin, .. } if Arc::strong_count(pin) == 1 => {
                    Some((self.benefit(key), key.clone(), *bytes))
                }
                _ => None,
            })
            .collect();
        victims.sort_by(|a, b| descending(b.0, a.0));
        victims
    }

    fn evict(&mut self, key: &SegmentKey) {
        if self.remove(key) {
            self.counters.evictions += 1;
        }
    }

    fn remove(&mut self, key: &SegmentKey) -> bool {
        match self.entries.remove(key) {
            Some(Entry::Cached { bytes, .. }) => self.resident -= bytes,
            Some(Entry::Loading { bytes, .. }) => self.reserved -= bytes,
            None => return false,
        }
        true
    }

    fn reserve(&mut self, bytes: usize) {
        self.reserved += bytes;
        self.resident_max = self.resident_max.max(self.resident + self.reserved);
    }

    /// Turns a load into a cached segment of its true size; `false` if it turned out too large for
    /// the room that less beneficial segments can give, or if it was given up meanwhile.
    fn complete(&mut self, load: &Load, array: &ArrayRef, pin: &Arc<()>) -> bool {
        let key = &load.key;
        let reserved = self.entries.len();
        self.abandon(key, load);
        if self.entries.len() == reserved {
            return false;
        }
        let bytes = array_bytes(array.as_ref());
        let benefit = self.benefit(key);
        if self.room() < bytes {
            for (victim, victim_key, _) in self.victims() {
                if victim >= benefit || self.room() >= bytes {
                    break;
                }
                self.evict(&victim_key);
            }
        }
        if self.room() < bytes {
            return false;
        }
        self.entries.insert(key.clone(), Entry::Cached { array: Arc::clone(array), bytes, pin: Arc::clone(pin) });
        self.resident += bytes;
        self.resident_max = self.resident_max.max(self.resident + self.reserved);
        self.counters.admissions += 1;
        true
    }

    /// Keeps the memory of uses bounded.
    fn forget(&mut self) {
        if self.uses.len() <= REMEMBERED_MAX.max(2 * self.entries.len()) {
            return;
        }
        let mut ticks: Vec<u64> = self.uses.values().map(|uses| uses.last_access).collect();
        let middle = ticks.len() / 2;
        let (_, median, _) = ticks.select_nth_unstable(middle);
        let median = *median;
        let entries = &self.entries;
        self.uses.retain(|key, uses| uses.last_access >= median || entries.contains_key(key));
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

/// One query's share in a load. The room stays reserved until the last share is gone.
#[derive(Debug)]
pub struct LoadShare {
    load: Arc<Load>,
}

/// What the holder of a [`LoadShare`] has to do.
#[derive(Debug)]
pub enum Claim {
    /// Load the segment: everybody else waits for it.
    Load(LoadTicket),
    /// Wait: somebody else set out to load it.
    Wait(Pending),
}

impl LoadShare {
    /// Decides who loads: the first to claim. Whoever gets the ticket must not depend on anybody
    /// else's progress before completing or dropping it.
    pub fn claim(self) -> Claim {
        if self.load.claimed.swap(true, AtomicOrdering::AcqRel) {
            Claim::Wait(Pending { done: self.load.done.subscribe() })
        } else {
            Claim::Load(LoadTicket { load: self.load })
        }
    }
}

/// The duty to load one segment. Dropped without [`LoadTicket::complete`], it gives the room back
/// and tells the waiters that nothing comes.
#[derive(Debug)]
pub struct LoadTicket {
    load: Arc<Load>,
}

impl LoadTicket {
    /// Hands over the loaded column, pinned. It may be left out of the cache: one that turns out
    /// larger than its reservation may find no room.
    pub fn complete(self, array: ArrayRef) -> PinnedSegment {
        let pin = Arc::new(());
        if let Some(cache) = self.load.cache.upgrade() {
            cache.state.lock().complete(&self.load, &array, &pin);
        }
        let segment = PinnedSegment { array, _pin: pin };
        // Waiters get the column even if the cache has no room for it: they asked for it.
        self.load.done.send_replace(Progress::Done(segment.clone()));
        segment
    }
}

impl Drop for LoadTicket {
    fn drop(&mut self) {
        let failed = self.load.done.send_if_modified(|progress| {
            let underway = matches!(progress, Progress::Underway);
            if underway {
                *progress = Progress::Failed;
            }
            underway
        });
        if failed && let Some(cache) = self.load.cache.upgrade() {
            cache.state.lock().abandon(&self.load.key, &self.load);
        }
    }
}

/// A load that somebody else is doing.
#[derive(Debug)]
pub struct Pending {
    done: watch::Receiver<Progress>,
}

impl Pending {
    /// Waits for the other load; `None` if it failed, and the caller must fetch for itself.
    pub async fn wait(mut self) -> Option<PinnedSegment> {
        let ended = self.done.wait_for(|progress| !matches!(progress, Progress::Underway)).await;
        match ended.as_deref() {
            Ok(Progress::Done(segment)) => Some(segment.clone()),
            _ => None,
        }
    }
}
