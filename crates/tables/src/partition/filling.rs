//! Loading of a partition from a snapshot: rows first, then whole indexes.

use thermocline_machine::ids::LoadId;
use thermocline_types::Result;

use super::Partition;
use crate::schema::TableId;
use crate::table::TupleId;

/// A partition while it is loaded from a snapshot. Its indexes have no entries yet, so it can do nothing else before
/// loading has finished; if loading fails, the partition is unusable.
///
/// ```text
///  empty tables --add: rows, anywhere--> rows without indexes --finish: one index after the other--> Partition
/// ```
///
/// Inserting keys one by one would wait for memory at each of them. Instead all keys of a table are brought into the
/// order of the index: see [`Index::fill`](crate::table::Index::fill).
#[derive(Debug)]
pub struct Filling<'a> {
    partition: &'a mut Partition,
}

impl Partition {
    /// Begins to load rows, before anything has run.
    pub const fn begin_filling(&mut self) -> Filling<'_> {
        Filling { partition: self }
    }
}

impl Filling<'_> {
    /// Adds rows of a table by their images; rows of an unfinished load are hidden.
    ///
    /// # Errors
    /// If the images do not belong to the table.
    pub fn add<'r>(
        &mut self,
        table: TableId,
        load: Option<LoadId>,
        mut rows: impl Iterator<Item = (TupleId, &'r [u8])>,
    ) -> Result<()> {
        let table = self.partition.table_mut(table)?;
        rows.try_for_each(|(tuple, image)| match load {
            None => table.fill(tuple, image),
            Some(load) => table.fill_hidden(load, tuple, image),
        })
    }

    /// Builds the indexes. `check` returns an error if this is to stop.
    ///
    /// # Errors
    /// If two rows share a unique key, or `check` fails.
    pub fn finish(self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        self.partition.tables_mut().try_for_each(|table| table.index_all(check))
    }
}
