use super::Partition;
use crate::error::Result;
use crate::snapshot::Chunk;

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
pub(crate) struct Filling<'a> {
    partition: &'a mut Partition,
}

impl Partition {
    /// Begins to load rows, before anything has run.
    pub(crate) const fn begin_filling(&mut self) -> Filling<'_> {
        Filling { partition: self }
    }
}

impl Filling<'_> {
    /// Adds rows of a table.
    ///
    /// # Errors
    /// If they are not the table's.
    pub fn add(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        let table = self.partition.table_mut(chunk.table)?;
        chunk.rows().try_for_each(|(tuple, image)| match chunk.load {
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
