//! Loading of a partition from a snapshot: rows first, then whole indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_machine::ids::{LoadId, PartitionId};
use thermocline_types::{Error, Result, Value};

use super::Partition;
use crate::schema::TableId;
use crate::table::{BlockEntry, BlockNumber, BlockPlace, BlockRows, DirectoryEntry, IndexFilling, Table, TupleId};

/// A partition while it is loaded from a snapshot. Its indexes have no entries yet, so it can do nothing else before
/// loading has finished; if loading fails, the partition is unusable.
///
/// ```text
///  empty tables --add: rows, anywhere--> rows without indexes --finish: one index after the other--> Partition
///                                        |              ^
///                  more than the limit:  +--> blocks    +-- keys, gathered by add
///
///  add_evicted: rows in blocks of an earlier process --add_keys: from directories--------------> Partition
///                                                    --add_block: from the block, which was read-->
/// ```
///
/// Inserting keys one by one would wait for memory at each of them, and rows that were evicted meanwhile would have to
/// be read: see [`IndexFilling`].
#[derive(Debug)]
pub struct Filling<'a> {
    partition: &'a mut Partition,
    /// Of the tables with rows.
    indexes: BTreeMap<TableId, Vec<IndexFilling>>,
    /// Rows in blocks whose keys have not been gathered.
    without_keys: u64,
}

impl Partition {
    /// Begins to load rows, before anything has run.
    pub fn begin_filling(&mut self) -> Filling<'_> {
        Filling { partition: self, indexes: BTreeMap::new(), without_keys: 0 }
    }
}

impl Filling<'_> {
    /// Adds rows of a table by their images; rows of an unfinished load are hidden. Evicts rows where the partition has
    /// blocks and memory is full.
    ///
    /// # Errors
    /// If the images do not belong to the table, or a block cannot be written.
    pub fn add<'r>(
        &mut self,
        table: TableId,
        load: Option<LoadId>,
        mut rows: impl Iterator<Item = (TupleId, &'r [u8])>,
    ) -> Result<()> {
        let (table, indexes) = self.table(table)?;
        rows.try_for_each(|(tuple, image)| table.fill(indexes, load, tuple, image))?;
        self.partition.keep_limit()
    }

    /// Whether it takes blocks of this partition.
    pub fn takes_blocks(&self, of: PartitionId) -> bool {
        self.partition.id() == of && self.partition.blocks.is_some()
    }

    /// Adds rows of a table that are in blocks of an earlier process.
    ///
    /// # Errors
    /// If a row is already there.
    pub fn add_evicted(
        &mut self,
        table: TableId,
        load: Option<LoadId>,
        rows: impl Iterator<Item = (TupleId, BlockPlace)>,
    ) -> Result<()> {
        let (table, _) = self.table(table)?;
        let mut added = 0;
        for (tuple, place) in rows {
            table.fill_evicted(load, tuple, place)?;
            added += 1;
        }
        self.without_keys += added;
        self.partition.keep_limit()
    }

    /// Adds layouts of rows in blocks: see [`Table::earlier_layouts`].
    ///
    /// # Errors
    /// If the table cannot have had them.
    pub fn add_earlier_layouts(&mut self, table: TableId, layouts: Vec<(BlockNumber, usize, Value)>) -> Result<()> {
        self.table(table)?.0.add_earlier_layouts(layouts)
    }

    /// Adds the keys of a block's rows, in indexes with these fingerprints, and takes the block. Returns false if the
    /// table has other indexes: then the block [must be read](Self::add_block).
    ///
    /// # Errors
    /// If what is given as keys are none, or the block's file cannot be opened.
    pub fn add_keys<'r>(
        &mut self,
        block: &BlockEntry,
        fingerprints: &[u64],
        mut rows: impl Iterator<Item = (TupleId, u32, &'r [u8])>,
    ) -> Result<bool> {
        let (table, indexes) = self.table(block.table)?;
        let place = |fingerprint: &u64| indexes.iter().position(|index| index.fingerprint() == *fingerprint);
        // Indexes that were dropped have no place.
        let order: Vec<usize> = fingerprints.iter().map(|index| place(index).unwrap_or(usize::MAX)).collect();
        if (0..indexes.len()).any(|index| !order.contains(&index)) {
            return Ok(false);
        }
        let mut found = 0;
        rows.try_for_each(|(tuple, offset, keys)| {
            let place = BlockPlace { block: block.block, offset };
            found += u32::from(table.fill_keys(indexes, &order, (tuple, place), keys)?);
            Ok::<_, Error>(())
        })?;
        self.found(block, found, true)?;
        Ok(true)
    }

    /// Adds the keys of the rows of a block that was read, and takes the block; unless it `stays`, the rows are brought
    /// back instead. Returns the number of rows that are in the block still.
    ///
    /// # Errors
    /// If the image of a row is none of the table, or the block's file cannot be opened.
    pub fn add_block(&mut self, block: &BlockEntry, rows: BlockRows, stays: bool) -> Result<u32> {
        let (table, indexes) = self.table(block.table)?;
        let found = table.fill_from_block(indexes, rows, stays)?;
        self.found(block, found, stays)?;
        Ok(found)
    }

    /// The number of evicted rows in each block.
    pub fn rows_of_blocks(&self) -> BTreeMap<BlockNumber, u32> {
        let mut rows = BTreeMap::new();
        for table in self.partition.tables() {
            for place in table.evicted_from(TupleId(0)).filter_map(|id| table.block_place(id)) {
                *rows.entry(place.block).or_default() += 1;
            }
        }
        rows
    }

    /// Leaves rows of a block without keys, because they cannot be read: a look-up does not find them, and what needs
    /// one of them fails with this error, until they are [lost](Partition::lose).
    pub fn lose(&mut self, block: BlockNumber, rows: u32, why: Error) {
        self.without_keys = self.without_keys.saturating_sub(rows.into());
        if let Some(blocks) = &mut self.partition.blocks {
            blocks.lose(block, why);
        }
    }

    /// Name of a table.
    ///
    /// # Errors
    /// If there is none with this id.
    pub fn table_name(&self, id: TableId) -> Result<&str> {
        Ok(&self.partition.table(id)?.definition().name)
    }

    /// Takes the directories of blocks that it has taken.
    pub fn adopt_directories(&mut self, directories: &[DirectoryEntry]) {
        if let Some(blocks) = &mut self.partition.blocks {
            blocks.adopt_directories(directories);
        }
    }

    fn found(&mut self, block: &BlockEntry, rows: u32, stays: bool) -> Result<()> {
        self.without_keys = self.without_keys.saturating_sub(rows.into());
        if let Some(blocks) = self.partition.blocks.as_mut().filter(|_| stays && rows > 0) {
            blocks.adopt(block, rows)?;
        }
        self.partition.keep_limit()
    }

    fn table(&mut self, id: TableId) -> Result<(&mut Table, &mut Vec<IndexFilling>)> {
        let table = self.partition.table_mut(id)?;
        let indexes = self.indexes.entry(id).or_insert_with(|| table.begin_filling());
        Ok((table, indexes))
    }

    /// Builds the indexes. `check` returns an error if this is to stop.
    ///
    /// # Errors
    /// If two rows share a unique key, keys of rows in blocks are missing, a block cannot be written, or `check` fails.
    pub fn finish(self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let Self { partition, indexes, without_keys } = self;
        if without_keys > 0 {
            return Err(Error::corrupt(format_args!(
                "{without_keys} rows of partition {} are not in the blocks in which the snapshot says they are",
                partition.id().0
            )));
        }
        let budget = Arc::clone(partition.budget());
        // Rows that were read from blocks have the layout of their table.
        partition.tables_mut().for_each(Table::forget_unused_layouts);
        for (table, indexes) in indexes {
            for index in indexes {
                let filled = index.finish(&budget, &mut || check().and_then(|()| partition.keep_limit()));
                partition.table_mut(table)?.take_filled(filled)?;
            }
        }
        partition.keep_limit()
    }
}
