//! The state under the cache's lock.
//!
//! Invariants:
//! - `resident` = sum of the bytes of slots that are `Cached`, removed ones included
//! - `reserved` = sum of the bytes of slots that are `Loading`, removed ones included
//! - `resident + reserved <= limit` at every moment, also within an operation, unless the limit was lowered below the
//!   segments that are pinned or being loaded; then the sum only shrinks
//! - `victims` holds each `Cached` slot that is not removed, except those that eviction found pinned: their last reader
//!   puts them back. So finding a victim does not revisit pinned slots
//! - `remembered` holds each `Absent` slot
//! - the index finds each slot that is not removed
//! - a slot with a pin is never removed by eviction
//! - a slot of stored bytes is `spare` if and only if the same column is `Cached` decoded
//! - the counters only grow

use std::sync::Arc;

use crate::admission::signed;
use crate::cache::CacheCounters;
use crate::index::{LastObject, SegmentIndex};
use crate::key::{Representation, SegmentKey};
use crate::load::Load;
use crate::order::LazyOrder;
use crate::policy::{Policy, Rank, SegmentUse};
use crate::segment::Segment;
use crate::slots::{Place, Residency, Slot, SlotId, Slots};

/// Segments whose uses are remembered although they are not cached, at least and at most, unless more are cached. Between
/// these, they take an eighth of the cache's limit; beyond, the least recently used are forgotten.
pub const REMEMBERED_MIN: usize = 1 << 15;
/// See [`REMEMBERED_MIN`].
const REMEMBERED_MAX: usize = 1 << 20;
/// Share of the cache's limit that they may take, beside the cached segments.
const REMEMBERED_PART: usize = 8;
/// Bytes of memory that one takes, about: keys, uses and places in the orders.
const REMEMBERED_BYTES: usize = 512;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limit: usize,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) index: SegmentIndex,
    pub(crate) slots: Slots,
    victims: LazyOrder<Place>,
    /// By the last access, then the slot.
    remembered: LazyOrder<(u64, SlotId)>,
    pub(crate) resident: usize,
    pub(crate) reserved: usize,
    pub(crate) bytes_max: usize,
    pub(crate) tick: u64,
    /// See [`SegmentUse::inflation`].
    pub(crate) inflation: f64,
    pub(crate) counters: CacheCounters,
    /// Evicted and removed segments, whose memory is freed after the lock is released.
    pub(crate) freed: Vec<Arc<Segment>>,
}

/// A segment taken out of the eviction order, to be evicted or put back.
#[derive(Debug)]
pub(crate) struct Victim {
    place: Place,
    pub(crate) slot: SlotId,
    pub(crate) bytes: usize,
}

impl Victim {
    pub(crate) fn rank(&self) -> Rank {
        self.place.0
    }
}

impl State {
    pub(crate) fn new(limit: usize, policy: Arc<dyn Policy>) -> Self {
        policy.taken(0);
        Self {
            limit,
            policy,
            index: SegmentIndex::default(),
            slots: Slots::default(),
            victims: LazyOrder::default(),
            remembered: LazyOrder::default(),
            resident: 0,
            reserved: 0,
            bytes_max: 0,
            tick: 0,
            inflation: 0.0,
            counters: CacheCounters::default(),
            freed: vec![],
        }
    }

    /// The slot of `key`, created if the index has none.
    pub(crate) fn slot_of(&mut self, key: &SegmentKey, last: &mut LastObject) -> SlotId {
        if let Some(slot) = self.index.find(key, last) {
            return slot;
        }
        let (object, key) = self.index.object_of(key);
        let residency = Residency::Absent { listed: self.tick };
        let (key_of_slot, uses) = (key.clone(), SegmentUse::default());
        let slot = Slot { key: key_of_slot, object, uses, saves: 1.0, spare: false, residency, removed: false };
        let id = self.slots.insert(slot);
        self.index.insert(object, &key, id);
        self.remembered.insert((self.tick, id), id);
        id
    }

    /// Records an access now, which would take `miss_seconds` as a miss, and of which a hit saves the share `saves`.
    pub(crate) fn record(&mut self, id: SlotId, miss_seconds: f64, saves: f64) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.uses.record(self.tick, miss_seconds);
        slot.uses.inflation = self.inflation;
        slot.saves = saves;
        self.sink(id);
    }

    /// Moves a cached segment forward in the eviction order if its rank has become lower. One that grew is updated when
    /// eviction reaches the slot.
    fn sink(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let rank = slot.rank(self.policy.as_ref());
        if let (Some(rank), Residency::Cached { queued: Some(place), .. }) = (rank, &mut slot.residency)
            && rank < place.0
        {
            self.victims.remove(place);
            place.0 = rank;
            self.victims.insert(*place, id);
        }
    }

    /// The slot of the same column in another representation.
    fn other_of(&self, id: SlotId) -> Option<SlotId> {
        let slot = self.slots.get(id).filter(|slot| !slot.removed)?;
        let other = slot.key.in_representation(slot.key.kind.representation().other())?;
        self.index.find(&other, &mut LastObject::default())
    }

    /// Notes for the column of a slot that became cached or left whether its stored bytes are spare now.
    fn note_spare(&mut self, id: SlotId) {
        let other = self.other_of(id);
        let is_stored = |slot: &Slot| slot.key.kind.representation() == Representation::Stored;
        let (stored, decoded) = match self.slots.get(id).is_some_and(is_stored) {
            true => (Some(id), other),
            false => (other, Some(id)),
        };
        let spare = decoded.and_then(|decoded| self.slots.get(decoded)).is_some_and(Slot::is_cached);
        let Some(stored) = stored else { return };
        if let Some(slot) = self.slots.get_mut(stored) {
            slot.spare = spare;
        }
        self.sink(stored);
    }

    /// Bytes that may still be admitted; negative while the limit is below the bytes held.
    pub(crate) fn room(&self) -> i64 {
        signed(self.limit) - signed(self.resident + self.reserved)
    }

    /// Takes the least beneficial unpinned segment out of the eviction order.
    pub(crate) fn take_victim(&mut self) -> Option<Victim> {
        while let Some((mut place, id)) = self.victims.pop_first() {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            let rank = slot.rank(self.policy.as_ref());
            let (Some(rank), Residency::Cached { segment, queued, .. }) = (rank, &mut slot.residency) else {
                continue;
            };
            if segment.report_unpinned() {
                *queued = None;
                continue;
            }
            if rank == place.0 {
                return Some(Victim { place, slot: id, bytes: segment.bytes });
            }
            place.0 = rank;
            *queued = Some(place);
            self.victims.insert(place, id);
        }
        None
    }

    pub(crate) fn put_back(&mut self, victims: Vec<Victim>) {
        for victim in victims {
            self.victims.insert(victim.place, victim.slot);
        }
    }

    /// Evicts a segment taken out of the order.
    pub(crate) fn evict(&mut self, victim: &Victim) {
        if self.policy.inflates()
            && let Some(slot) = self.slots.get(victim.slot)
        {
            let benefit = slot.candidate(victim.bytes).benefit(self.policy.as_ref(), self.tick);
            self.inflation = self.inflation.max(benefit);
        }
        self.release(victim.slot);
        self.note_spare(victim.slot);
        self.list(victim.slot);
        self.counters.evictions += 1;
    }

    /// Releases the room of a segment or a load. The slot is in no order afterwards.
    fn release(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        match std::mem::replace(&mut slot.residency, Residency::Absent { listed: 0 }) {
            Residency::Cached { segment, .. } => {
                self.resident -= segment.bytes;
                self.freed.push(segment);
            }
            Residency::Loading { bytes, .. } => self.reserved -= bytes,
            Residency::Absent { .. } => {}
        }
    }

    /// Remembers the uses of a slot whose segment is gone; drops the slot if its object was removed.
    fn list(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if slot.removed {
            self.slots.remove(id);
            return;
        }
        slot.residency = Residency::Absent { listed: slot.uses.last_access };
        self.remembered.insert((slot.uses.last_access, id), id);
    }

    fn unlist(&mut self, id: SlotId) {
        if let Some(Slot { residency: Residency::Absent { listed }, .. }) = self.slots.get(id) {
            self.remembered.remove(&(*listed, id));
        }
    }

    /// Reserves room for a load; the caller has checked that there is room.
    pub(crate) fn begin_load(&mut self, load: &Arc<Load>, bytes: usize) {
        self.unlist(load.slot);
        if let Some(slot) = self.slots.get_mut(load.slot) {
            slot.residency = Residency::Loading { bytes, load: Arc::downgrade(load) };
            self.reserved += bytes;
            self.bytes_max = self.bytes_max.max(self.resident + self.reserved);
        }
    }

    /// Bytes reserved for `load`; `None` if it was abandoned.
    fn reserved_for(&self, load: &Load) -> Option<usize> {
        match &self.slots.get(load.slot)?.residency {
            Residency::Loading { bytes, load: known } if std::ptr::eq(known.as_ptr(), load) => Some(*bytes),
            _ => None,
        }
    }

    /// Abandons a load that will not finish.
    pub(crate) fn abandon(&mut self, load: &Load) {
        if self.reserved_for(load).is_some() {
            self.release(load.slot);
            self.list(load.slot);
        }
    }

    /// Abandons the load of a slot if its last share is being dropped: its room is free now.
    pub(crate) fn abandon_if_dropped(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        if slot
            .is_some_and(|slot| matches!(&slot.residency, Residency::Loading { load, .. } if load.strong_count() == 0))
        {
            self.release(id);
            self.list(id);
        }
    }

    /// Raises the reservation of a load to at least `bytes`; `false` if less beneficial segments cannot give the room,
    /// or if the load was abandoned.
    pub(crate) fn reserve(&mut self, load: &Load, bytes: usize) -> bool {
        let Some(reserved) = self.reserved_for(load) else {
            return false;
        };
        let more = bytes.saturating_sub(reserved);
        if more == 0 {
            return true;
        }
        let policy = self.policy.as_ref();
        let rank = self.slots.get(load.slot).map(|slot| slot.candidate(bytes).rank(policy)).unwrap_or_default();
        if !self.make_room(more, rank) {
            return false;
        }
        if let Some(Slot { residency: Residency::Loading { bytes: reserved, .. }, .. }) = self.slots.get_mut(load.slot)
        {
            *reserved += more;
            self.reserved += more;
            self.bytes_max = self.bytes_max.max(self.resident + self.reserved);
        }
        true
    }

    /// Turns a load into a cached segment of its true size; `false` if it is too large for the room that less
    /// beneficial segments can give, or if it was abandoned or removed meanwhile.
    pub(crate) fn complete(&mut self, load: &Load, segment: &Arc<Segment>) -> bool {
        if self.reserved_for(load).is_none() {
            return false;
        }
        self.release(load.slot);
        let Some(slot) = self.slots.get(load.slot) else {
            return false;
        };
        let rank = slot.candidate(segment.bytes).rank(self.policy.as_ref());
        if slot.removed || !self.make_room(segment.bytes, rank) {
            self.list(load.slot);
            return false;
        }
        self.counters.admissions += 1;
        let admission = self.counters.admissions;
        if let Some(slot) = self.slots.get_mut(load.slot) {
            let queued = Some((rank, admission));
            slot.residency = Residency::Cached { segment: Arc::clone(segment), queued, admission };
            self.victims.insert((rank, admission), load.slot);
            self.resident += segment.bytes;
            self.bytes_max = self.bytes_max.max(self.resident + self.reserved);
        }
        self.note_spare(load.slot);
        true
    }

    /// Evicts segments of a lower rank until there is room for `bytes`, or none if that is not enough; returns whether
    /// there is room.
    pub(crate) fn make_room(&mut self, bytes: usize, rank: Rank) -> bool {
        let mut room = self.room();
        let mut taken = vec![];
        while room < signed(bytes)
            && let Some(victim) = self.take_victim()
        {
            let lower = victim.rank() < rank;
            room += signed(victim.bytes);
            taken.push(victim);
            if !lower {
                self.put_back(taken);
                return false;
            }
        }
        if room < signed(bytes) {
            self.put_back(taken);
            return false;
        }
        taken.iter().for_each(|victim| self.evict(victim));
        true
    }

    /// Evicts the least beneficial segments until the limit holds, or only pinned ones are left.
    pub(crate) fn shrink(&mut self) {
        while self.room() < 0
            && let Some(victim) = self.take_victim()
        {
            self.evict(&victim);
        }
    }

    /// Called when the last reader of a segment that eviction or removal found pinned has ended.
    pub(crate) fn unpinned(&mut self, segment: &Arc<Segment>) {
        let id = segment.slot;
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let rank = slot.rank(self.policy.as_ref()).unwrap_or_default();
        let Slot { residency: Residency::Cached { segment: known, queued, admission }, removed, .. } = slot else {
            return;
        };
        // Another reader may have begun meanwhile, and will be the last.
        if !Arc::ptr_eq(known, segment) || segment.is_pinned() || queued.is_some() {
            return;
        }
        segment.stop_reporting();
        if *removed {
            self.release(id);
            self.list(id);
            return;
        }
        let place = (rank, *admission);
        *queued = Some(place);
        self.victims.insert(place, id);
        self.shrink();
    }

    /// Removes slots and drops their segments: at once, or with their last reader or load.
    pub(crate) fn remove(&mut self, ids: &[SlotId]) {
        for id in ids {
            self.unlist(*id);
            let Some(slot) = self.slots.get_mut(*id) else {
                continue;
            };
            slot.removed = true;
            self.index.remove(slot.object, &slot.key);
            let stays = match &mut slot.residency {
                Residency::Absent { .. } => false,
                Residency::Loading { .. } => true,
                Residency::Cached { segment, queued, .. } => {
                    if let Some(place) = queued.take() {
                        self.victims.remove(&place);
                    }
                    segment.report_unpinned()
                }
            };
            if !stays {
                self.release(*id);
                self.slots.remove(*id);
            }
        }
    }

    /// Drops every unpinned segment, and all remembered uses.
    pub(crate) fn clear(&mut self) {
        let (kept, dropped): (Vec<_>, Vec<_>) = self.slots.iter().partition(|(_, slot)| match &slot.residency {
            Residency::Absent { .. } => false,
            Residency::Loading { .. } => true,
            Residency::Cached { segment, .. } => segment.is_pinned(),
        });
        let kept: Vec<SlotId> = kept.into_iter().map(|(id, _)| id).collect();
        let dropped: Vec<SlotId> = dropped.into_iter().map(|(id, _)| id).collect();
        self.remove(&dropped);
        for id in kept {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.uses = SegmentUse::default();
            }
            self.note_spare(id);
        }
        self.rank_anew();
    }

    /// Takes another policy, which has evicted nothing yet.
    pub(crate) fn set_policy(&mut self, policy: Arc<dyn Policy>) {
        policy.taken(self.tick);
        self.policy = policy;
        self.inflation = 0.0;
        let ids: Vec<SlotId> = self.slots.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.uses.inflation = 0.0;
            }
        }
        self.rank_anew();
    }

    /// Ranks all segments again by the current policy and uses.
    pub(crate) fn rank_anew(&mut self) {
        self.victims = LazyOrder::default();
        let ids: Vec<SlotId> = self.slots.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            let rank = slot.rank(self.policy.as_ref());
            if let (Some(rank), Residency::Cached { queued: Some(place), .. }) = (rank, &mut slot.residency) {
                place.0 = rank;
                self.victims.insert(*place, id);
            }
        }
    }

    /// Number of segments of which only the uses are known.
    pub(crate) fn remembered(&self) -> usize {
        self.remembered.len()
    }

    /// Bounds the memory of uses.
    pub(crate) fn forget(&mut self) {
        let most = self.limit / REMEMBERED_PART / REMEMBERED_BYTES;
        let most = most.clamp(REMEMBERED_MIN, REMEMBERED_MAX).max(self.victims.len());
        while self.remembered.len() > most
            && let Some(((listed, _), id)) = self.remembered.pop_first()
        {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            if slot.uses.last_access > listed {
                self.list(id);
                continue;
            }
            self.index.remove(slot.object, &slot.key);
            self.slots.remove(id);
        }
    }
}
