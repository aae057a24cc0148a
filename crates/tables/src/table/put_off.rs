//! Rows that a pass over a table leaves for later because they are in blocks, which it then reads whole, each once.

use std::collections::BTreeSet;

use thermocline_types::{Error, Result};

use super::blocks::BlockRows;
use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;

/// Rows put off that are looked at for their blocks at a time: less than a millisecond.
const LOOKS_MAX: usize = 1 << 12;

/// Blocks that are read together for it.
pub const BLOCKS_AT_ONCE: usize = 16;

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

    /// Up to `count` blocks with rows of the set, given where each row is. Those that are live by now are taken out and
    /// given to `live`. May return none although there are some.
    ///
    /// # Errors
    /// Those of `live`.
    pub fn blocks(
        &mut self,
        place: impl Fn(TupleId) -> Option<BlockPlace>,
        count: usize,
        live: &mut dyn FnMut(TupleId) -> Result<()>,
    ) -> Result<BTreeSet<BlockNumber>> {
        let (mut blocks, mut looks) = (BTreeSet::new(), 0);
        while let Some(word) = self.words.get(self.resumed_at).copied() {
            let mut left = word;
            while left != 0 {
                let id = TupleId((self.resumed_at * 64) as u32 + left.trailing_zeros());
                left &= left - 1;
                looks += 1;
                match place(id) {
                    Some(place) => {
                        blocks.insert(place.block);
                        if blocks.len() >= count {
                            return Ok(blocks);
                        }
                    }
                    None => {
                        self.take(id);
                        live(id)?;
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
