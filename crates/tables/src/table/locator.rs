//! Places of rows by tuple id.

use super::budget::{Budget, Full, Growth};
use super::id_words::IdWords;
use super::slab::Item;
use super::tuple_ids::TupleId;

/// Location of a row.
///
/// ```text
/// 63 62                           21 20              0
///  0 | item: class, length, slot                    |   live
///  1 | block (42)                  | offset (21)    |   evicted
/// ```
///
/// Indexes hold tuple ids, so evicting, restoring or moving a row changes only its locator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locator {
    /// In memory, in the table's slabs.
    Live(Item),
    /// In a block of the block store.
    Evicted(BlockPlace),
}

/// Number of a block. Partitions share them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(pub u64);

impl BlockNumber {
    /// The largest number that a locator holds: numbers last for 256 PiB of blocks of 64 KiB.
    pub const MAX: Self = Self((1 << (63 - OFFSET_BITS)) - 1);
}

/// Place of a row in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockPlace {
    /// The block.
    pub block: BlockNumber,
    /// Bytes before the row's record there, so that it can be read without the rest of the block.
    pub offset: u32,
}

const EVICTED: u64 = 1 << 63;
/// Bits of an offset.
const OFFSET_BITS: u32 = 21;

impl BlockPlace {
    /// The largest offset that a locator holds.
    pub const OFFSET_MAX: u32 = (1 << OFFSET_BITS) - 1;
}

impl Locator {
    fn bits(self) -> u64 {
        match self {
            Self::Live(item) => item.bits(),
            Self::Evicted(BlockPlace { block, offset }) => EVICTED | block.0 << OFFSET_BITS | u64::from(offset),
        }
    }

    fn from_bits(bits: u64) -> Self {
        if bits & EVICTED == 0 {
            return Self::Live(Item::from_bits(bits));
        }
        let block = BlockNumber(bits >> OFFSET_BITS & BlockNumber::MAX.0);
        Self::Evicted(BlockPlace { block, offset: bits as u32 & BlockPlace::OFFSET_MAX })
    }
}

/// Locators of all tuple ids.
#[derive(Debug, Default)]
pub struct Locators {
    words: IdWords,
}

impl Locators {
    /// No locators.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the chunks.
    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// Locator of a taken tuple id; for any other id it is arbitrary or `None`.
    #[inline]
    pub fn get(&self, id: TupleId) -> Option<Locator> {
        self.words.get(id).map(Locator::from_bits)
    }

    /// Makes room for the locator of `id`.
    #[inline]
    pub fn reserve(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        self.words.reserve(id, budget, growth)
    }

    /// Sets the locator of an id for which there is room.
    #[inline]
    pub fn set(&mut self, id: TupleId, locator: Locator) {
        self.words.set(id, locator.bits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::id_words::CHUNK;

    #[test]
    fn locators_keep_both_kinds() {
        let budget = Budget::unlimited();
        let mut locators = Locators::new();
        let item = Item::from_bits(0x1234_5678_9abc_def0);
        let evicted = Locator::Evicted(BlockPlace { block: BlockNumber::MAX, offset: BlockPlace::OFFSET_MAX });
        for id in [0, 1, 31, 32, 1000, CHUNK as u32, 3 * CHUNK as u32 + 5] {
            locators.reserve(TupleId(id), &budget, Growth::Asked).unwrap();
            locators.set(TupleId(id), if id % 2 == 0 { Locator::Live(item) } else { evicted });
            assert_eq!(budget.used(), locators.bytes() as u64);
        }
        assert_eq!(locators.get(TupleId(0)), Some(Locator::Live(item)));
        assert_eq!(locators.get(TupleId(1)), Some(evicted));
        assert_eq!(locators.get(TupleId(31)), Some(evicted));
        assert_eq!(locators.get(TupleId(3 * CHUNK as u32 + 5)), Some(evicted));
        assert_eq!(locators.get(TupleId(9 * CHUNK as u32)), None);
        assert_eq!(locators.bytes(), 4 * CHUNK * 8);
    }
}
