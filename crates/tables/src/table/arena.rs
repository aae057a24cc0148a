//! Slots of one size, in arenas that go when they become empty.

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
/// has a free or fresh slot; at most one arena without live slots has bytes: the one that was the only open one when it
/// became empty; without any live slot there is no arena. A slot number stays valid until it is freed, regardless of
/// growth.
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
    live: usize,
    bytes: usize,
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
}

impl Slots {
    /// Slots of `slot_bytes`, which is between 8 bytes and an arena.
    pub fn new(slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.clamp(SLOT_BYTES_MIN, ARENA_BYTES);
        let whole = (ARENA_BYTES / slot_bytes) as u32;
        let shift = whole.next_power_of_two().ilog2();
        Self { slot_bytes, whole, shift, arenas: Vec::new(), open: Vec::new(), dropped: Vec::new(), live: 0, bytes: 0 }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Slots in use.
    #[cfg(test)]
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
        let number = match self.open.last() {
            Some(number) => *number,
            None => self.make_room(budget, growth)?,
        };
        let (shift, slot_bytes) = (self.shift, self.slot_bytes);
        let full = || Full { bytes: slot_bytes as u64, used: budget.used(), limit: budget.limit(), of_share: false };
        let arena = self.arenas.get_mut(number as usize).ok_or_else(full)?;
        let slot = if arena.free == NONE {
            arena.fresh += 1;
            arena.fresh - 1
        } else {
            let slot = arena.free;
            let at = slot as usize * slot_bytes;
            arena.free = arena
                .bytes
                .get(at..)
                .and_then(|bytes| bytes.first_chunk())
                .map_or(NONE, |link| u32::from_le_bytes(*link));
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
            return Err(Full {
                bytes: ARENA_BYTES as u64,
                used: budget.used(),
                limit: budget.limit(),
                of_share: false,
            });
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
        budget.resize(before, after);
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
        if !arena.open {
            arena.open = true;
            self.open.push(number as u32);
        }
        if self.live == 0 {
            self.arenas.clear();
            self.open.clear();
            self.dropped.clear();
            budget.resize(self.bytes, 0);
            self.bytes = 0;
        } else if arena.live == 0 && self.open.len() > 1 {
            // Keeps the only open arena, so that inserting and deleting one row repeatedly does not allocate each time.
            let before = arena.bytes.len();
            *arena = Arena::empty();
            self.open.retain(|open| *open != number as u32);
            self.dropped.push(number as u32);
            self.bytes -= before;
            budget.resize(before, 0);
        }
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
