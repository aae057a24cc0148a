//! Images of evicted rows that are read side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::blocks::{BlockRows, Blocks};
use super::locator::{BlockNumber, BlockPlace};
use super::table_blocks::TableBlocks;
use super::tuple_ids::TupleId;
use crate::schema::TableDefinition;

/// Bytes that are read at least for a row.
pub const READ_BYTES: usize = 4 << 10;

/// Images of rows that were read from blocks.
#[derive(Debug, Default)]
pub struct Images {
    /// Those of all rows of some blocks.
    blocks: BTreeMap<BlockNumber, BlockRows>,
    rows: BTreeMap<BlockPlace, Result<Vec<u8>>>,
}

impl Images {
    /// Reads rows of tables, and waits for all: whole blocks where many of their rows are wanted, and other rows with
    /// their pages. Keeps what it needs of the blocks read `before`. Returns the bytes that were read as well, about.
    ///
    /// # Errors
    /// If there is no such block. A row that cannot be read is an error of [`Images::image`].
    pub fn read<'a>(
        from: &dyn Blocks,
        wanted: impl Iterator<Item = (&'a Arc<TableDefinition>, TupleId, BlockPlace)>,
        before: Self,
    ) -> Result<(Self, usize)> {
        let mut of_blocks: BTreeMap<BlockNumber, Vec<_>> = BTreeMap::new();
        for row in wanted {
            of_blocks.entry(row.2.block).or_default().push(row);
        }
        let mut blocks = before.blocks;
        blocks.retain(|number, _| of_blocks.contains_key(number));
        let is_dense = |rows: usize| rows > 1 && rows * READ_BYTES >= from.block_bytes();
        let whole = of_blocks.iter().filter(|(number, rows)| is_dense(rows.len()) && !blocks.contains_key(number));
        let whole: Vec<BlockNumber> = whole.map(|(number, _)| *number).collect();
        let mut bytes = 0;
        if !whole.is_empty() {
            for (number, block) in from.blocks_reader(whole)?() {
                // Where one is damaged, the rows may be readable.
                if let Some(block) = block.ok().filter(|block| block.damage().is_none()) {
                    bytes += block.memory_bytes();
                    blocks.insert(number, block);
                }
            }
        }
        let alone = of_blocks.into_iter().filter(|(number, _)| !blocks.contains_key(number)).flat_map(|(_, rows)| rows);
        let alone: BTreeMap<BlockPlace, _> = alone.map(|(table, id, place)| (place, (table, id))).collect();
        let readers = alone.iter().map(|(place, (table, id))| {
            bytes += from.read_bytes(place.block, false).max(READ_BYTES);
            TableBlocks::new(table, from).reader(*place, *id, false)
        });
        let read = from.read_rows(readers.collect::<Result<_>>()?).into_iter();
        let rows = alone.into_keys().zip(read.map(|read| read.map(|read| read.image))).collect();
        Ok((Self { blocks, rows }, bytes))
    }

    /// Bytes that they take.
    pub fn memory_bytes(&self) -> usize {
        let rows = self.rows.values().flatten().map(Vec::capacity).sum::<usize>();
        self.blocks.values().map(BlockRows::memory_bytes).sum::<usize>() + rows
    }

    /// Whether a row is among those that were read, or could not be.
    pub fn contains(&self, place: BlockPlace) -> bool {
        self.blocks.contains_key(&place.block) || self.rows.contains_key(&place)
    }

    /// The image of a row, as its block has it.
    ///
    /// # Errors
    /// If it could not be read.
    pub fn image(&self, place: BlockPlace) -> Result<&[u8]> {
        if let Some(image) = self.blocks.get(&place.block).and_then(|block| block.image(place.offset)) {
            return Ok(image);
        }
        match self.rows.get(&place) {
            Some(image) => image.as_deref().map_err(Error::clone),
            None => Err(Error::internal("an evicted row that was not read")),
        }
    }
}
