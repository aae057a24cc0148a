//! Places of rows by tuple id.

use super::budget::{Budget, Full, Growth};
use super::slab::Item;
use super::tuple_ids::TupleId;

/// Locators of a chunk: 2 MiB.
const CHUNK: usize = 1 << 18;

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

/// Locators of all tuple ids, in chunks, so that growth neither copies nor doubles those of a large table. The first
/// chunk doubles until it has full size.
#[derive(Debug, Default)]
pub struct Locators {
    chunks: Vec<Vec<u64>>,
    bytes: usize,
}

impl Locators {
    /// No locators.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the chunks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Locator of a taken tuple id; for any other id it is arbitrary or `None`.
    #[inline]
    pub fn get(&self, id: TupleId) -> Option<Locator> {
        let bits = self.chunks.get(id.0 as usize / CHUNK)?.get(id.0 as usize % CHUNK)?;
        Some(Locator::from_bits(*bits))
    }

    /// Makes room for the locator of `id`.
    #[inline]
    pub fn reserve(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let (chunk, within) = (id.0 as usize / CHUNK, id.0 as usize % CHUNK);
        if self.chunks.get(chunk).is_some_and(|chunk| within < chunk.len()) {
            return Ok(());
        }
        self.grow(chunk, within, budget, growth)
    }

    #[cold]
    fn grow(&mut self, chunk: usize, within: usize, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let mut after = 0;
        for number in 0..=chunk {
            let need = if number < chunk || number > 0 { CHUNK } else { (within + 1).next_power_of_two().max(32) };
            after += self.chunks.get(number).map_or(0, Vec::len).max(need) * 8;
        }
        for number in chunk + 1..self.chunks.len() {
            after += self.chunks.get(number).map_or(0, Vec::len) * 8;
        }
        growth.check(budget, after - self.bytes)?;
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        for (number, locators) in self.chunks.iter_mut().enumerate().take(chunk + 1) {
            let need = if number < chunk || number > 0 { CHUNK } else { (within + 1).next_power_of_two().max(32) };
            if locators.len() < need {
                let mut grown = vec![0; need];
                if let Some(start) = grown.get_mut(..locators.len()) {
                    start.copy_from_slice(locators);
                }
                *locators = grown;
            }
        }
        budget.resize(self.bytes, after);
        self.bytes = after;
        Ok(())
    }

    /// Sets the locator of an id for which there is room.
    #[inline]
    pub fn set(&mut self, id: TupleId, locator: Locator) {
        if let Some(bits) =
            self.chunks.get_mut(id.0 as usize / CHUNK).and_then(|chunk| chunk.get_mut(id.0 as usize % CHUNK))
        {
            *bits = locator.bits();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
