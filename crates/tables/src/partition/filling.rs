use thermocline_machine::ids::LoadId;
use thermocline_types::Result;

use super::Partition;
use crate::schema::TableId;
use crate::table::TupleId;

/// A partition while the rows of a snapshot are put into it. Its indexes have no entries of them, so it can do nothing
/// else before that is finished; where it is not, the partition is of no use.
///
/// ```text
///  empty tables --add: rows, anywhere--> rows without indexes --finish: one index after the other--> Partition
/// ```
///
/// Entering rows one by one waits for memory at each of them. All of a table's keys are brought into the order of the
/// index instead: see [`Index::fill`](crate::table::Index::fill).
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
    /// Adds rows of a table by their images; those of a load that is not over are hidden.
    ///
    /// # Errors
    /// If they are not the table's.
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

    /// Makes the indexes. `check` is asked meanwhile whether that is to stop.
    ///
    /// # Errors
    /// If two rows have a key that one may have, or `check` gives one.
    pub fn finish(self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        self.partition.tables_mut().try_for_each(|table| table.index_all(check))
    }
}
