//! Readers of one table in one partition as of one moment.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::reader::{BlocksRead, ChosenRows, ReadStep, SharedRead};
use thermocline_types::{Error, Result};

use super::work::Work;
use crate::engine::Handle;

/// Reads one table of one partition as of the moment at which the reading began; see
/// [`thermocline_tables::partition::reader`]. Dropping it ends the reading.
pub struct TableReader {
    /// `None` if all rows have been handed on already. It does not keep the database open: a cancelled query may take a
    /// while to drop it.
    read: Option<(Handle<Work>, PartitionId, SharedRead)>,
    /// Rows of blocks that have not been handed on.
    chosen: Option<ChosenRows>,
    /// Blocks that were read for the next visit of the partition.
    blocks: BlocksRead,
}

impl fmt::Debug for TableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReader").field("done", &self.read.is_none()).finish_non_exhaustive()
    }
}

impl TableReader {
    pub(super) fn new(handle: Handle<Work>, partition: PartitionId, read: SharedRead) -> Self {
        Self { read: Some((handle, partition, read)), chosen: None, blocks: BlocksRead::default() }
    }

    pub(super) fn done() -> Self {
        Self { read: None, chosen: None, blocks: BlocksRead::default() }
    }

    /// Has the partition visit up to `ids` tuple ids and hand on their rows, and waits for that; then reads rows in
    /// blocks, while the partition goes on. It ends earlier when the sink [pauses](crate::reader::RowSink::pauses); the
    /// next step goes on with the rows that were read. Nothing is read if the partition's queue is full:
    /// [`ReadStep::Busy`].
    ///
    /// [RowSink::pauses]: thermocline_tables::partition::reader::RowSink::pauses
    ///
    /// # Errors
    /// If the database has been closed, or the reading fails.
    pub fn step(&mut self, ids: u32) -> Result<ReadStep> {
        let Some((handle, partition, read)) = &self.read else { return Ok(ReadStep::Done) };
        if self.chosen.is_some() {
            return self.hand_on();
        }
        // They are not lost if the partition cannot be asked.
        let blocks = Arc::new(Mutex::new(std::mem::take(&mut self.blocks)));
        let (shared, given) = (Arc::clone(read), Arc::clone(&blocks));
        let step = handle.visit(*partition, move |member| {
            let blocks = std::mem::take(&mut *given.lock());
            shared.lock().step(&member.partition, ids, blocks)
        });
        let stepped = match step {
            Err(Error::Retry(_)) => {
                self.blocks = std::mem::take(&mut *blocks.lock());
                return Ok(ReadStep::Busy);
            }
            step => step??,
        };
        self.blocks = stepped.to_read.read().inspect_err(|error| read.lock().fail(error.clone()))?;
        self.chosen = stepped.chosen;
        if stepped.step == ReadStep::Done {
            self.read = None;
        }
        if self.chosen.is_some() { self.hand_on() } else { Ok(stepped.step) }
    }

    /// Hands on rows of blocks, until all are or the sink pauses.
    fn hand_on(&mut self) -> Result<ReadStep> {
        if let (Some((.., read)), Some(chosen)) = (&self.read, &mut self.chosen) {
            // Commits of the partition wait for one block at most.
            let is_left = chosen.hand_on(|layouts, block| read.lock().hand_on(layouts, block));
            if !is_left? {
                self.chosen = None;
            }
        }
        Ok(ReadStep::More)
    }
}

impl Drop for TableReader {
    fn drop(&mut self) {
        if let Some((.., read)) = &self.read {
            read.lock().end();
        }
    }
}
