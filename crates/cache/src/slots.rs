//! Slots: the cache's knowledge of each segment.

use std::sync::{Arc, Weak};

use crate::index::ObjectId;
use crate::key::SegmentKey;
use crate::load::Load;
use crate::policy::{Candidate, Policy, Rank, SegmentUse};
use crate::segment::Segment;

/// Number of a slot. It is reused only after its segment has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotId(u32);

/// A segment that was requested: its uses, and its state in the cache.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: SegmentKey,
    pub(crate) object: ObjectId,
    pub(crate) uses: SegmentUse,
    /// Share of a miss's time that a hit saves, as of the last lookup, while it is not `spare`.
    pub(crate) saves: f64,
    /// Whether it holds the stored bytes of a column that is cached decoded as well.
    pub(crate) spare: bool,
    pub(crate) residency: Residency,
    /// Whether its table or object was removed: no lookup finds it, and it goes as soon as its load or last reader
    /// ends.
    pub(crate) removed: bool,
}

impl Slot {
    /// The rank of its cached segment; `None` if none is.
    pub(crate) fn rank(&self, policy: &dyn Policy) -> Option<Rank> {
        match &self.residency {
            Residency::Cached { segment, .. } => Some(self.candidate(segment.bytes).rank(policy)),
            Residency::Absent { .. } | Residency::Loading { .. } => None,
        }
    }

    pub(crate) fn is_cached(&self) -> bool {
        matches!(self.residency, Residency::Cached { .. })
    }

    /// Its segment, or a segment of this size to be, for a policy to score.
    pub(crate) fn candidate(&self, bytes: usize) -> Candidate<'_> {
        let share = if self.spare { 0.0 } else { self.saves };
        Candidate { key: &self.key, uses: &self.uses, bytes, share }
    }
}

/// Residency of a segment and its transitions.
///
/// ```text
///                    admit                 complete: it fits
///   Absent ---------------------> Loading -----------------------> Cached
///      ^                             |                                |
///      +-- all shares dropped, ------+                                |
///      |   load failed, too large                                     |
///      +--------------------------------------- evict, set_limit -----+
///                                               (never while pinned)
/// ```
#[derive(Debug)]
pub(crate) enum Residency {
    /// Only its uses are known.
    Absent {
        /// Its key in the order in which uses are forgotten.
        listed: u64,
    },
    /// Being loaded, with `bytes` reserved.
    Loading { bytes: usize, load: Weak<Load> },
    /// In memory.
    Cached {
        segment: Arc<Segment>,
        /// Its key in the eviction order; `None` while it is out of that order: eviction or removal found it pinned.
        queued: Option<Place>,
        /// Number of its admission.
        admission: u64,
    },
}

/// Key in the eviction order: among equals, the first admitted goes first.
pub(crate) type Place = (Rank, u64);

/// Slots by number. Numbers of vacant slots are used again.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Option<Slot>>,
    vacant: Vec<SlotId>,
}

impl Slots {
    pub(crate) fn insert(&mut self, slot: Slot) -> SlotId {
        if let Some(id) = self.vacant.pop()
            && let Some(vacant) = self.slots.get_mut(id.0 as usize)
        {
            *vacant = Some(slot);
            return id;
        }
        self.slots.push(Some(slot));
        SlotId((self.slots.len() - 1) as u32)
    }

    pub(crate) fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, id: SlotId) -> Option<Slot> {
        let slot = self.slots.get_mut(id.0 as usize)?.take()?;
        self.vacant.push(id);
        Some(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(position, slot)| slot.as_ref().map(|slot| (SlotId(position as u32), slot)))
    }
}
