//! Slots of one size, in arenas that go when they become empty; the emptiest can be drained into the others.

use std::ops::Range;

use super::budget::{Budget, Full, Growth};
use super::region::{REGION_BYTES, Region};

/// Maximum bytes of an arena and of a slot.
pub const ARENA_BYTES: usize = REGION_BYTES;

/// Initial size of the first arena, so that a table of five rows does not take 2 MiB.
const FIRST_BYTES: usize = 1 << 10;

/// No slot: the end of a free list.
const NONE: u32 = u32::MAX;

/// Bytes of the link that a free slot holds.
pub(super) const SLOT_BYTES_MIN: usize = 8;

/// Share of all slots that may stay free, beside those of an arena, before an arena is drained: 1 in this many. With
/// fewer, the next insertions would need the arena back.
const FREE_SHARE: usize = 32;

/// Slots of one size, in arenas.
///
/// ```text
/// slot number = arena << shift | slot in the arena
///
/// arena   | live | live | free | live | never used ...        bytes: 0 or slots * slot size
///                          |
///                 next free slot of this arena
/// ```
///
/// Invariants: an arena's slots are live, on its free list, or at or after `fresh`; an arena is in `open` exactly if it
/// has a free or fresh slot and is not being drained; at most one arena without live slots has bytes: the one that was the only open one when it
/// became empty; without any live slot there is no arena. A slot number stays valid until it is freed or
/// [drained](Slots::drain), regardless of growth.
#[derive(Debug)]
pub struct Slots {
    slot_bytes: usize,
    /// Slots of a full-size arena, and the number of bits of a slot number within it.
    whole: u32,
    shift: u32,
    arenas: Vec<Arena>,
    /// Arenas with room; the last is used next.
    open: Vec<u32>,
    /// Arenas without bytes.
    dropped: Vec<u32>,
    draining: Option<Draining>,
    live: usize,
    bytes: usize,
    /// Whether the slots hold rows, which the budget counts by themselves.
    of_rows: bool,
}

/// The arena whose slots are moved to others.
#[derive(Debug)]
struct Draining {
    arena: u32,
    /// The slot to look at next.
    next: u32,
    /// Its slots that are free, as bits.
    free: Vec<u64>,
}

/// A slot that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Its number before.
    pub from: u32,
    /// Its number now.
    pub to: u32,
}

#[derive(Debug)]
struct Arena {
    bytes: Region,
    /// Slots for which `bytes` has room.
    slots: u32,
    /// First slot that was never used.
    fresh: u32,
    free: u32,
    live: u32,
    open: bool,
}

impl Arena {
    fn empty() -> Self {
        Self { bytes: Region::empty(), slots: 0, fresh: 0, free: NONE, live: 0, open: false }
    }

    /// The slot that follows a free one on the free list.
    fn next_free(&self, slot: u32, slot_bytes: usize) -> u32 {
        let link = self.bytes.get(slot as usize * slot_bytes..).and_then(|bytes| bytes.first_chunk());
        link.map_or(NONE, |link| u32::from_le_bytes(*link))
    }
}

impl Slots {
    /// Slots of `slot_bytes`, which is between 8 bytes and an arena.
    pub fn new(slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.clamp(SLOT_BYTES_MIN, ARENA_BYTES);
        let whole = (ARENA_BYTES / slot_bytes) as u32;
        let shift = whole.next_power_of_two().ilog2();
        Self {
            slot_bytes,
            whole,
            shift,
            arenas: Vec::new(),
            open: Vec::new(),
            dropped: Vec::new(),
            draining: None,
            live: 0,
            bytes: 0,
            of_rows: false,
        }
    }

    /// The same slots, whose bytes are told to the budget as those of rows if `of_rows`.
    pub fn counted(self, of_rows: bool) -> Self {
        Self { of_rows, ..self }
    }

    fn tell(&self, budget: &Budget, before: usize, after: usize) {
        if self.of_rows {
            budget.resize_rows(before, after);
        } else {
            budget.resize(before, after);
        }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Slots in use.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Bytes that the arenas take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn place(&self, slot: u32) -> (usize, usize) {
        let arena = (slot >> self.shift) as usize;
        let within = (slot & ((1 << self.shift) - 1)) as usize;
        (arena, within * self.slot_bytes)
    }

    /// Bytes of a slot; `None` for a number outside of the arenas.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&[u8]> {
        let (arena, at) = self.place(slot);
        self.arenas.get(arena)?.bytes.get(at..at + self.slot_bytes)
    }

    /// Part of the bytes of a slot.
    #[inline]
    pub fn get_part(&self, slot: u32, part: Range<usize>) -> Option<&[u8]> {
        let (arena, at) = self.place(slot);
        let bytes = self.arenas.get(arena)?.bytes.get(at + part.start..at + part.end)?;
        (part.end <= self.slot_bytes).then_some(bytes)
    }

    /// Part of the bytes of a slot, mutably.
    #[inline]
    pub fn get_part_mut(&mut self, slot: u32, part: Range<usize>) -> Option<&mut [u8]> {
        let (arena, at) = self.place(slot);
        let bytes = self.arenas.get_mut(arena)?.bytes.get_mut(at + part.start..at + part.end)?;
        (part.end <= self.slot_bytes).then_some(bytes)
    }

    /// Bytes of a slot, mutably.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut [u8]> {
        let (arena, at) = self.place(slot);
        self.arenas.get_mut(arena)?.bytes.get_mut(at..at + self.slot_bytes)
    }

    /// Allocates a slot, whose bytes are left over from earlier uses.
    pub fn allocate(&mut self, budget: &Budget, growth: Growth) -> Result<u32, Full> {
        if self.open.is_empty() {
            self.stop_draining();
        }
        let number = match self.open.last() {
            Some(number) => *number,
            None => self.make_room(budget, growth)?,
        };
        let (shift, slot_bytes) = (self.shift, self.slot_bytes);
        let full = || budget.full(slot_bytes);
        let arena = self.arenas.get_mut(number as usize).ok_or_else(full)?;
        let slot = if arena.free == NONE {
            arena.fresh += 1;
            arena.fresh - 1
        } else {
            let slot = arena.free;
            arena.free = arena.next_free(slot, slot_bytes);
            slot
        };
        arena.live += 1;
        if arena.free == NONE && arena.fresh == arena.slots {
            arena.open = false;
            self.open.pop();
        }
        self.live += 1;
        Ok(number << shift | slot)
    }

    /// Makes an arena with room: a single arena grows to full size, then full-size ones are added.
    fn make_room(&mut self, budget: &Budget, growth: Growth) -> Result<u32, Full> {
        let whole = self.whole;
        let first = self.arenas.first().map_or(0, |arena| arena.slots);
        let (number, slots) = if self.arenas.len() <= 1 && first < whole {
            let least = (FIRST_BYTES / self.slot_bytes).max(1) as u32;
            (0, (first * 2).max(least).min(whole))
        } else {
            (self.dropped.last().copied().unwrap_or(self.arenas.len() as u32), whole)
        };
        if number.leading_zeros() < self.shift {
            return Err(budget.full(ARENA_BYTES));
        }
        let before = self.arenas.get(number as usize).map_or(0, |arena| arena.bytes.len());
        let after = Region::bytes_of(slots as usize * self.slot_bytes);
        growth.check(budget, after - before)?;
        let mut bytes = Region::new(after);
        if number as usize == self.arenas.len() {
            self.arenas.push(Arena::empty());
        }
        if self.dropped.last() == Some(&number) {
            self.dropped.pop();
        }
        if let Some(arena) = self.arenas.get_mut(number as usize) {
            if let Some(start) = bytes.get_mut(..before) {
                start.copy_from_slice(&arena.bytes);
            }
            arena.bytes = bytes;
            arena.slots = slots;
            arena.open = true;
        }
        self.open.push(number);
        self.bytes += after - before;
        self.tell(budget, before, after);
        Ok(number)
    }

    /// Frees a slot.
    pub fn free(&mut self, slot: u32, budget: &Budget) {
        let (number, at) = self.place(slot);
        let slot_bytes = self.slot_bytes;
        let Some(arena) = self.arenas.get_mut(number) else { return };
        let link = arena.free;
        let Some(bytes) = arena.bytes.get_mut(at..at + slot_bytes).and_then(|bytes| bytes.first_chunk_mut()) else {
            return;
        };
        *bytes = link.to_le_bytes();
        arena.free = (at / slot_bytes) as u32;
        arena.live -= 1;
        self.live -= 1;
        let draining = self.draining.as_mut().filter(|draining| draining.arena as usize == number);
        let is_draining = draining.is_some();
        if let Some(draining) = draining {
            draining.set_free((at / slot_bytes) as u32);
        }
        if !arena.open {
            arena.open = true;
            self.open.push(number as u32);
        }
        if self.live == 0 {
            self.arenas.clear();
            self.open.clear();
            self.dropped.clear();
            self.draining = None;
            self.tell(budget, self.bytes, 0);
            self.bytes = 0;
        } else if arena.live == 0 && (is_draining || self.open.len() > 1) {
            // Keeps the only open arena, so that inserting and deleting one row repeatedly does not allocate each time.
            self.open.retain(|open| *open != number as u32);
            self.draining = self.draining.take().filter(|_| !is_draining);
            self.drop_arena(number as u32, budget);
        }
    }

    /// Gives back the bytes of an arena without live slots that is neither open nor drained any more.
    fn drop_arena(&mut self, number: u32, budget: &Budget) {
        let Some(arena) = self.arenas.get_mut(number as usize) else { return };
        let before = arena.bytes.len();
        *arena = Arena::empty();
        self.dropped.push(number);
        self.bytes -= before;
        self.tell(budget, before, 0);
    }

    /// Moves one slot of the emptiest arena to another, so that it can go in the end; `None` if that would free nothing
    /// worth having: if fewer slots are free than an arena has, and one in [`FREE_SHARE`] of all. Never grows.
    ///
    /// Whoever refers to the slot has to refer to its new number before the next call of any method.
    pub fn drain(&mut self, budget: &Budget) -> Option<Moved> {
        if self.draining.is_none() {
            self.start_draining(budget)?;
        }
        let Draining { arena, .. } = self.draining.as_ref()?;
        let arena = *arena;
        let slots = self.arenas.get(arena as usize)?.fresh;
        let Some(slot) = self.draining.as_mut()?.next_live(slots) else {
            self.stop_draining();
            return None;
        };
        if self.open.is_empty() {
            self.stop_draining();
            return None;
        }
        let from = arena << self.shift | slot;
        let to = self.allocate(budget, Growth::Asked).ok()?;
        self.copy(from, to)?;
        self.free(from, budget);
        Some(Moved { from, to })
    }

    /// Whether as many slots are free as it takes to drain an arena.
    fn is_sparse(&self) -> bool {
        let whole = self.whole as usize;
        let arenas = self.arenas.len() - self.dropped.len();
        arenas > 1 && arenas * whole - self.live > whole + arenas * whole / FREE_SHARE
    }

    /// Chooses the emptiest arena, and lets the fullest ones be filled first.
    fn start_draining(&mut self, budget: &Budget) -> Option<()> {
        if !self.is_sparse() {
            return None;
        }
        let live = |number: &u32| self.arenas.get(*number as usize).map_or(0, |arena| arena.live);
        self.open.sort_by_key(live);
        let (emptiest, others) = self.open.split_first()?;
        if others.is_empty() {
            return None;
        }
        let number = *emptiest;
        self.open.remove(0);
        let arena = self.arenas.get(number as usize)?;
        if arena.live == 0 {
            self.drop_arena(number, budget);
            return self.start_draining(budget);
        }
        let mut draining = Draining::new(number, arena.fresh);
        let mut free = arena.free;
        while free != NONE {
            draining.set_free(free);
            free = arena.next_free(free, self.slot_bytes);
        }
        self.draining = Some(draining);
        Some(())
    }

    /// Leaves the arena that is being drained as it is.
    fn stop_draining(&mut self) {
        if let Some(Draining { arena, .. }) = self.draining.take() {
            self.open.push(arena);
        }
    }

    /// Copies the bytes of a slot to one of another arena.
    fn copy(&mut self, from: u32, to: u32) -> Option<()> {
        let ((from, at), (to, to_at)) = (self.place(from), self.place(to));
        let [from, to] = self.arenas.get_disjoint_mut([from, to]).ok()?;
        let bytes = from.bytes.get(at..at + self.slot_bytes)?;
        to.bytes.get_mut(to_at..to_at + self.slot_bytes)?.copy_from_slice(bytes);
        Some(())
    }
}

impl Draining {
    fn new(arena: u32, slots: u32) -> Self {
        Self { arena, next: 0, free: vec![0; slots.div_ceil(u64::BITS) as usize] }
    }

    fn set_free(&mut self, slot: u32) {
        if let Some(bits) = self.free.get_mut((slot / u64::BITS) as usize) {
            *bits |= 1 << (slot % u64::BITS);
        }
    }

    /// The next live one of the first `slots` slots.
    fn next_live(&mut self, slots: u32) -> Option<u32> {
        let free = |slot: u32| {
            self.free.get((slot / u64::BITS) as usize).is_none_or(|bits| bits >> (slot % u64::BITS) & 1 == 1)
        };
        let live = (self.next..slots).find(|slot| !free(*slot))?;
        self.next = live + 1;
        Some(live)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn slots_keep_their_bytes_and_arenas_go_when_empty() {
        for seed in 0..10 {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let budget = Budget::new(1 << 30);
            let size = rng.random_range(8..200_000);
            let mut slots = Slots::new(size);
            let mut model: BTreeMap<u32, u8> = BTreeMap::new();
            for step in 0..3000u32 {
                let grow = if step < 1500 { 0.7 } else { 0.3 };
                if rng.random_bool(grow) {
                    let slot = slots.allocate(&budget, Growth::Asked).unwrap();
                    assert!(model.insert(slot, step as u8).is_none(), "slot {slot} handed out twice");
                    slots.get_mut(slot).unwrap().fill(step as u8);
                } else if let Some(slot) = model.keys().nth(rng.random_range(0..model.len().max(1))).copied() {
                    model.remove(&slot);
                    slots.free(slot, &budget);
                }
                while rng.random_bool(0.6) {
                    let Some(Moved { from, to }) = slots.drain(&budget) else { break };
                    let fill = model.remove(&from).expect("only live slots are moved");
                    assert!(model.insert(to, fill).is_none(), "slot {to} handed out twice");
                }
                assert_eq!(budget.used(), slots.bytes() as u64);
                assert_eq!(slots.live(), model.len());
            }
            for (slot, fill) in &model {
                assert!(slots.get(*slot).unwrap().iter().all(|byte| byte == fill));
            }
            for slot in model.keys() {
                slots.free(*slot, &budget);
            }
            assert_eq!(slots.bytes(), 0);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn freeing_any_tenth_of_the_slots_frees_a_tenth_of_the_bytes() {
        for (size, share) in [(1000, 0.1), (1000, 0.7), (24, 0.2), (300_000, 0.5)] {
            let (budget, mut rng) = (Budget::unlimited(), StdRng::seed_from_u64(size as u64));
            let mut slots = Slots::new(size);
            let taken = (0..64 * ARENA_BYTES / size).map(|_| slots.allocate(&budget, Growth::Asked).unwrap());
            let mut model: BTreeMap<u32, u8> = taken.map(|slot| (slot, slot as u8)).collect();
            model.iter().for_each(|(slot, fill)| slots.get_mut(*slot).unwrap().fill(*fill));
            let before = slots.bytes();
            assert_eq!(slots.drain(&budget), None, "nothing is free");
            model.retain(|slot, _| {
                let stays = !rng.random_bool(share);
                if !stays {
                    slots.free(*slot, &budget);
                }
                stays
            });
            let mut moves = 0;
            while let Some(Moved { from, to }) = slots.drain(&budget) {
                let fill = model.remove(&from).unwrap();
                assert!(model.insert(to, fill).is_none(), "slot {to} handed out twice");
                moves += 1;
            }
            assert!(model.iter().all(|(slot, fill)| slots.get(*slot).unwrap().iter().all(|byte| byte == fill)));
            assert!(moves <= slots.live(), "no slot is moved twice");
            let allowed = before as f64 * (1.0 - share + 0.01) + before as f64 / FREE_SHARE as f64;
            assert!(
                slots.bytes() as f64 <= allowed + 2.0 * ARENA_BYTES as f64,
                "{size}: {} of {before}",
                slots.bytes()
            );
            assert_eq!(budget.used(), slots.bytes() as u64);
        }
    }

    #[test]
    fn no_room_is_an_error_and_freed_slots_are_used_again() {
        let budget = Budget::new(100_000);
        let mut slots = Slots::new(1000);
        let mut taken = Vec::new();
        let full = loop {
            match slots.allocate(&budget, Growth::Asked) {
                Ok(slot) => taken.push(slot),
                Err(full) => break full,
            }
        };
        assert_eq!(full.limit, 100_000);
        assert!(taken.len() >= 32, "{} slots", taken.len());
        slots.free(taken[3], &budget);
        assert_eq!(slots.allocate(&budget, Growth::Asked), Ok(taken[3]));
        assert!(slots.allocate(&budget, Growth::Asked).is_err());
        assert!(slots.allocate(&budget, Growth::Forced).is_ok(), "an abort does not ask");
    }
}
