//! Loading of a partition from a snapshot: rows first, then whole indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_machine::ids::LoadId;
use thermocline_types::Result;

use super::Partition;
use crate::schema::TableId;
use crate::table::{IndexFilling, TupleId};

/// A partition while it is loaded from a snapshot. Its indexes have no entries yet, so it can do nothing else before
/// loading has finished; if loading fails, the partition is unusable.
///
/// ```text
///  empty tables --add: rows, anywhere--> rows without indexes --finish: one index after the other--> Partition
///                                        |              ^
///                  more than the limit:  +--> blocks    +-- keys, gathered by add
/// ```
///
/// Inserting keys one by one would wait for memory at each of them, and rows that were evicted meanwhile would have to
/// be read: see [`IndexFilling`].
#[derive(Debug)]
pub struct Filling<'a> {
    partition: &'a mut Partition,
    /// Of the tables with rows.
    indexes: BTreeMap<TableId, Vec<IndexFilling>>,
}

impl Partition {
    /// Begins to load rows, before anything has run.
    pub fn begin_filling(&mut self) -> Filling<'_> {
        Filling { partition: self, indexes: BTreeMap::new() }
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
        let Self { partition, indexes } = self;
        let table = partition.table_mut(table)?;
        let indexes = indexes.entry(table.definition().id).or_insert_with(|| table.begin_filling());
        rows.try_for_each(|(tuple, image)| table.fill(indexes, load, tuple, image))?;
        partition.keep_limit()
    }

    /// Builds the indexes. `check` returns an error if this is to stop.
    ///
    /// # Errors
    /// If two rows share a unique key, a block cannot be written, or `check` fails.
    pub fn finish(self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let Self { partition, indexes } = self;
        let budget = Arc::clone(partition.budget());
        for (table, indexes) in indexes {
            for index in indexes {
                let filled = index.finish(&budget, &mut || check().and_then(|()| partition.keep_limit()));
                partition.table_mut(table)?.take_filled(filled)?;
            }
        }
        partition.keep_limit()
    }
}
