//! Rows that a pass over a table leaves for later because they are in blocks, which it then reads whole, each once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use thermocline_types::{Error, Result};

use super::blocks::BlockRows;
use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;

/// Rows put off that are looked at for their blocks at a time: less than a millisecond.
const LOOKS_MAX: usize = 1 << 12;

/// Blocks that are read side by side for a pass over a table.
const BLOCKS_AT_ONCE: usize = 16;
/// Bytes of such blocks, and their share of the memory limit, unless it is a single block.
const BYTES_AT_ONCE: usize = 4 << 20;
const SHARE_AT_ONCE: u64 = 32;

/// Bounds of the blocks that a pass over a table reads side by side, each of which has its rows in memory until the
/// pass has seen them. Blocks of short rows are of one size, but a row may be longer than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtOnce {
    /// Blocks.
    pub blocks: usize,
    /// Bytes of them, unless it is a single one.
    pub bytes: usize,
}

impl AtOnce {
    /// Bounds with this memory limit.
    pub fn within(limit: u64) -> Self {
        let share = usize::try_from(limit / SHARE_AT_ONCE).unwrap_or(usize::MAX);
        Self { blocks: BLOCKS_AT_ONCE, bytes: BYTES_AT_ONCE.min(share) }
    }

    /// Whether a further block of `more` bytes can be read with `blocks` that have `bytes`.
    pub const fn has_room(self, (blocks, bytes): (usize, usize), more: usize) -> bool {
        blocks == 0 || blocks < self.blocks && bytes.saturating_add(more) <= self.bytes
    }
}

/// A set of rows of one table.
#[derive(Debug, Default)]
pub struct PutOff {
    /// A bit for each row.
    words: Vec<u64>,
    rows: usize,
    /// The word with which the next search for blocks begins.
    resumed_at: usize,
}

impl PutOff {
    /// Bytes of the set.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Whether no row is put off.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Puts off a row, all of which are below `bound`.
    pub fn add(&mut self, id: TupleId, bound: TupleId) {
        if self.words.is_empty() {
            self.words = vec![0; (bound.0 as usize).div_ceil(64)];
        }
        if let Some(word) = self.words.get_mut(id.0 as usize / 64) {
            let bit = 1 << (id.0 % 64);
            self.rows += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Whether a row is put off.
    pub fn contains(&self, id: TupleId) -> bool {
        self.words.get(id.0 as usize / 64).is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }

    /// Takes a row out of the set; says whether it was there.
    pub fn take(&mut self, id: TupleId) -> bool {
        let Some(word) = self.words.get_mut(id.0 as usize / 64) else { return false };
        let bit = 1 << (id.0 % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        self.rows -= usize::from(was);
        was
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = TupleId> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let lefts = std::iter::successors(Some(*word), |left| Some(left & left.wrapping_sub(1)));
            let bits = lefts.take_while(|left| *left != 0).map(u64::trailing_zeros);
            bits.map(move |bit| TupleId((at * 64) as u32 + bit))
        })
    }

    /// The rows that are in a block, given where each row is.
    pub fn of_block(
        &self,
        number: BlockNumber,
        place: impl Fn(TupleId) -> Option<BlockPlace>,
    ) -> impl Iterator<Item = TupleId> {
        self.iter().filter(move |id| place(*id).is_some_and(|place| place.block == number))
    }

    /// Blocks with rows of the set, as many as are read at once, given where each row is. Those that are live by now are
    /// taken out and given to `live`, which says whether to go on. May return none although there are some.
    ///
    /// # Errors
    /// Those of `live`.
    pub fn blocks(
        &mut self,
        place: impl Fn(TupleId) -> Option<BlockPlace>,
        (at_once, bytes_of): (AtOnce, impl Fn(BlockNumber) -> usize),
        live: &mut dyn FnMut(TupleId) -> Result<ControlFlow<()>>,
    ) -> Result<BTreeSet<BlockNumber>> {
        let (mut blocks, mut looks, mut bytes) = (BTreeSet::new(), 0, 0);
        while let Some(word) = self.words.get(self.resumed_at).copied() {
            let mut left = word;
            while left != 0 {
                let id = TupleId((self.resumed_at * 64) as u32 + left.trailing_zeros());
                left &= left - 1;
                looks += 1;
                match place(id) {
                    Some(place) if blocks.contains(&place.block) => {}
                    Some(place) => {
                        let more = bytes_of(place.block);
                        if !at_once.has_room((blocks.len(), bytes), more) {
                            return Ok(blocks);
                        }
                        bytes += more;
                        blocks.insert(place.block);
                    }
                    None => {
                        self.take(id);
                        if live(id)?.is_break() {
                            return Ok(blocks);
                        }
                    }
                }
            }
            if looks >= LOOKS_MAX {
                return Ok(blocks);
            }
            self.resumed_at += 1;
        }
        self.resumed_at = 0;
        Ok(blocks)
    }

    /// Chooses the rows of a block that are in the set and still there, and takes them out.
    ///
    /// # Errors
    /// If the block is damaged, and one of them is lost: that of the damage. If it has none of them.
    pub fn choose(&mut self, place: impl Fn(TupleId) -> Option<BlockPlace>, block: &mut BlockRows) -> Result<()> {
        let before = self.rows;
        block.choose(|id, here| place(id) == Some(here) && self.take(id));
        if self.rows < before && block.damage().is_none() {
            return Ok(());
        }
        let Some(lost) = self.of_block(block.block(), &place).next() else { return Ok(()) };
        let missing = || Error::corrupt(format_args!("block {} has no row {}", block.block().0, lost.0));
        Err(block.damage().cloned().unwrap_or_else(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of each block.
    fn place(id: TupleId) -> Option<BlockPlace> {
        Some(BlockPlace { block: BlockNumber(u64::from(id.0 / 2)), offset: id.0 % 2 })
    }

    fn found(at_once: AtOnce, bytes: usize) -> Vec<usize> {
        let mut put_off = PutOff::default();
        (0..200).for_each(|id| put_off.add(TupleId(id), TupleId(200)));
        let mut counts = Vec::new();
        while !put_off.is_empty() {
            let mut none = |_| Ok(ControlFlow::Continue(()));
            let blocks = put_off.blocks(place, (at_once, |_| bytes), &mut none).unwrap();
            counts.push(blocks.len());
            for block in blocks {
                let ids: Vec<TupleId> = put_off.of_block(block, place).collect();
                assert_eq!(ids.len(), 2);
                ids.into_iter().for_each(|id| assert!(put_off.take(id)));
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), 100);
        counts
    }

    #[test]
    fn blocks_that_are_read_at_once_are_bounded_by_number_and_by_bytes() {
        let at_once = AtOnce::within(64 << 20);
        assert_eq!(at_once, AtOnce { blocks: 16, bytes: 2 << 20 });
        assert!(found(at_once, 64 << 10).iter().all(|count| *count <= 16));
        assert!(found(at_once, 64 << 10).contains(&16));
        assert!(found(at_once, 700 << 10).iter().all(|count| *count <= 2));
        // One that is longer than all of them may be.
        assert!(found(at_once, 16 << 20).iter().all(|count| *count == 1));
        assert_eq!(AtOnce::within(u64::MAX), AtOnce { blocks: 16, bytes: 4 << 20 });
    }

    #[test]
    fn a_pass_over_rows_that_are_live_again_goes_on_where_it_was_stopped() {
        let mut put_off = PutOff::default();
        (0..200).for_each(|id| put_off.add(TupleId(id), TupleId(200)));
        let mut seen = Vec::new();
        while !put_off.is_empty() {
            let before = seen.len();
            let mut one = |id: TupleId| {
                seen.push(id.0);
                Ok(ControlFlow::Break(()))
            };
            let none = put_off.blocks(|_| None, (AtOnce::within(1 << 30), |_| 0), &mut one).unwrap();
            assert!(none.is_empty());
            assert!(seen.len() <= before + 1);
        }
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
    }
}
