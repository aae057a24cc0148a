//! Byte strings of any size, in slots of size classes.

use super::arena::{ARENA_BYTES, Moved, SLOT_BYTES_MIN, Slots};
use super::budget::{Budget, Full, Growth};

/// Classes below this size are multiples of [`STEP`]; above it there are eight to each doubling.
const LINEAR_BYTES: usize = 256;
const STEP: usize = 8;
const LINEAR_CLASSES: usize = LINEAR_BYTES / STEP;
const CLASSES: usize = LINEAR_CLASSES + 8 * (ARENA_BYTES.ilog2() - LINEAR_BYTES.ilog2()) as usize;

/// Maximum bytes of an item.
pub const ITEM_BYTES_MAX: usize = ARENA_BYTES;

/// Bits of an [`Item`]'s parts.
const SLOT_BITS: u32 = 32;
const LENGTH_BITS: u32 = 23;
const CLASS_BITS: u32 = 63 - LENGTH_BITS - SLOT_BITS;

const _: () = assert!(CLASSES <= 1 << CLASS_BITS);
const _: () = assert!(ITEM_BYTES_MAX < 1 << LENGTH_BITS);
const _: () = assert!(SLOT_BYTES_MIN <= STEP);

/// Place of some bytes: size class, slot in the class, and length. 63 bits, so that a locator has one left.
///
/// ```text
/// 63  62      55 54               32 31                    0
///  0 | class (8) |  length (23)      |  slot (32)           |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item(u64);

impl Item {
    fn new(class: usize, length: usize, slot: u32) -> Self {
        Self((class as u64) << (LENGTH_BITS + SLOT_BITS) | (length as u64) << SLOT_BITS | u64::from(slot))
    }

    /// The bits of an item; the highest is 0.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The item with these bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits & (u64::MAX >> 1))
    }

    fn class(self) -> usize {
        (self.0 >> (LENGTH_BITS + SLOT_BITS)) as usize
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Whether both are in one slot, whatever their lengths.
    pub fn same_place(self, other: Self) -> bool {
        self.class() == other.class() && self.slot() == other.slot()
    }

    /// The same bytes in another slot of its class.
    pub fn at(self, slot: u32) -> Self {
        Self(self.0 & !u64::from(u32::MAX) | u64::from(slot))
    }

    /// Bytes of the item.
    pub fn len(self) -> usize {
        (self.0 >> SLOT_BITS) as usize & ((1 << LENGTH_BITS) - 1)
    }
}

/// Byte strings of any size up to [`ITEM_BYTES_MAX`], each in a slot of the smallest size class that
/// holds it.
///
/// Each class is at most one eighth larger than the one below it. If all items have one size (rows without variable
/// columns), there is one class of exactly this size.
#[derive(Debug)]
pub struct Slabs {
    classes: Vec<Slots>,
    exact: Option<usize>,
    /// Bytes freed since no class was sparse.
    freed: usize,
    of_rows: bool,
}

#[inline]
fn class_of(length: usize) -> usize {
    if length <= LINEAR_BYTES {
        return length.div_ceil(STEP).max(1) - 1;
    }
    // 2^k < length <= 2^(k+1), cut into eight.
    let k = (length - 1).ilog2();
    let eighth = (length - 1 - (1 << k)) >> (k - 3);
    LINEAR_CLASSES + 8 * (k - LINEAR_BYTES.ilog2()) as usize + eighth
}

fn class_bytes(class: usize) -> usize {
    if class < LINEAR_CLASSES {
        return (class + 1) * STEP;
    }
    let k = (class - LINEAR_CLASSES) / 8 + LINEAR_BYTES.ilog2() as usize;
    let eighth = (class - LINEAR_CLASSES) % 8;
    (1 << k) + (((eighth + 1) << k) >> 3)
}

impl Slabs {
    /// Slabs for items of many sizes.
    pub fn new() -> Self {
        Self { classes: Vec::new(), exact: None, freed: 0, of_rows: false }
    }

    /// Slabs for rows, which the budget counts by themselves; of `length` bytes each, unless that is `None`.
    pub fn of_rows(length: Option<usize>) -> Self {
        let classes = length.map(|length| Slots::new(length).counted(true)).into_iter().collect();
        Self { classes, exact: length, freed: 0, of_rows: true }
    }

    /// Bytes that all classes take.
    pub fn bytes(&self) -> usize {
        self.classes.iter().map(Slots::bytes).sum()
    }

    /// Bytes of the slots in use.
    pub fn live_bytes(&self) -> usize {
        self.classes.iter().map(|slots| slots.live() * slots.slot_bytes()).sum()
    }

    /// Bytes of an item; `None` for an invalid item.
    #[inline]
    pub fn get(&self, item: Item) -> Option<&[u8]> {
        self.get_from(item, 0)
    }

    /// The bytes of an item from an offset on.
    #[inline]
    pub fn get_from(&self, item: Item, from: usize) -> Option<&[u8]> {
        self.classes.get(item.class())?.get_part(item.slot(), from..item.len())
    }

    /// Bytes of an item from an offset on, mutably.
    #[inline]
    pub fn get_from_mut(&mut self, item: Item, from: usize) -> Option<&mut [u8]> {
        self.classes.get_mut(item.class())?.get_part_mut(item.slot(), from..item.len())
    }

    /// Bytes of an item, mutably.
    #[inline]
    pub fn get_mut(&mut self, item: Item) -> Option<&mut [u8]> {
        self.get_from_mut(item, 0)
    }

    /// Allocates `length` bytes with arbitrary content.
    pub fn allocate(&mut self, length: usize, budget: &Budget, growth: Growth) -> Result<Item, Full> {
        let class = if self.exact == Some(length) { 0 } else { class_of(length) };
        while self.classes.len() <= class {
            self.classes.push(Slots::new(class_bytes(self.classes.len())).counted(self.of_rows));
        }
        let full = || budget.full(length);
        let slot = self.classes.get_mut(class).filter(|slots| slots.slot_bytes() >= length).ok_or_else(full)?;
        Ok(Item::new(class, length, slot.allocate(budget, growth)?))
    }

    /// The same slot with another length, if its class is right for that.
    pub fn resized(&self, item: Item, length: usize) -> Option<Item> {
        (self.exact.is_none() && class_of(length) == item.class()).then(|| Item::new(item.class(), length, item.slot()))
    }

    /// Has the next [`Slabs::drain`] look for a sparse arena, however little was freed since none was found.
    pub fn look_for_holes(&mut self) {
        self.freed = self.freed.max(ARENA_BYTES);
    }

    /// Moves one item out of a sparse arena, as [`Slots::drain`] does; returns its first `N` bytes, by which its owner
    /// finds it, and its new slot. `None` if all arenas are about full, or hold nothing.
    pub fn drain<const N: usize>(&mut self, budget: &Budget) -> Option<([u8; N], u32)> {
        if self.freed < ARENA_BYTES {
            return None;
        }
        let drained = self.classes.iter_mut().find_map(|slots| {
            let Moved { to, .. } = slots.drain(budget)?;
            Some((*slots.get(to)?.first_chunk()?, to))
        });
        if drained.is_none() {
            self.freed = 0;
        }
        drained
    }

    /// Frees an item.
    pub fn free(&mut self, item: Item, budget: &Budget) {
        if let Some(slots) = self.classes.get_mut(item.class()) {
            slots.free(item.slot(), budget);
            self.freed = self.freed.saturating_add(slots.slot_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_the_smallest_class_that_holds_it() {
        assert_eq!(class_bytes(CLASSES - 1), ITEM_BYTES_MAX);
        for length in (1..5000).chain((5000..ITEM_BYTES_MAX).step_by(997)).chain([ITEM_BYTES_MAX]) {
            let class = class_of(length);
            assert!(class_bytes(class) >= length, "{length}");
            assert!(class == 0 || class_bytes(class - 1) < length, "{length} fits a smaller class");
            assert!(class_bytes(class) <= (length + length / 8).max(length + STEP), "{length} wastes too much");
        }
    }

    #[test]
    fn items_come_back_as_they_were_written() {
        let budget = Budget::new(1 << 28);
        let mut slabs = Slabs::new();
        let lengths = [0, 1, 16, 17, 255, 256, 257, 300, 1000, 70_000, ITEM_BYTES_MAX];
        let items: Vec<Item> =
            lengths.iter().map(|length| slabs.allocate(*length, &budget, Growth::Asked).unwrap()).collect();
        for (at, item) in items.iter().enumerate() {
            slabs.get_mut(*item).unwrap().fill(at as u8);
        }
        for (at, item) in items.iter().enumerate() {
            let bytes = slabs.get(Item::from_bits(item.bits())).unwrap();
            assert_eq!(bytes.len(), lengths[at]);
            assert!(bytes.iter().all(|byte| *byte == at as u8));
        }
        assert_eq!(slabs.bytes() as u64, budget.used());
        assert!(slabs.allocate(ITEM_BYTES_MAX + 1, &budget, Growth::Asked).is_err());
    }

    #[test]
    fn equal_lengths_waste_nothing() {
        let budget = Budget::new(1 << 28);
        let mut slabs = Slabs::of_rows(Some(100));
        for _ in 0..100_000 {
            slabs.allocate(100, &budget, Growth::Asked).unwrap();
        }
        assert!(budget.used() < 100 * 100_000 + ARENA_BYTES as u64, "{}", budget.used());
    }
}
