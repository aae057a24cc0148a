//! Reading of one table in one partition, in steps between transactions.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::Interrupt;
use thermocline_types::{Error, Result};

use crate::partition::Partition;
use crate::schema::TableDefinition;
use crate::table::{BlockLayouts, BlockReader, BlockRows, Change, Layout, Row, ScanFrontier, Table};

/// Receiver of the rows of one table in one partition.
///
/// Called in the partition's thread, while no transaction runs there, so it should do little more than copy. It is not
/// called again after an error.
pub trait RowSink: Send {
    /// Receives a row. Rows come in no particular order.
    fn row(&mut self, row: Row<'_>) -> Result<()>;

    /// Receives a row of which it needs no value, and which is not read then. Returns false if it needs values: then
    /// [`row`](Self::row) follows.
    ///
    /// # Errors
    /// If it takes no more rows.
    fn count(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Whether a step should end here although the sink could take more rows, because transactions have waited enough.
    fn pauses(&self) -> bool {
        false
    }

    /// Called after the last row.
    fn finish(&mut self) -> Result<()>;
}

/// A table to be read, with a sink for each partition.
pub struct ReadRequest {
    /// Definition known to the reader. Columns added since are ignored.
    pub table: Arc<TableDefinition>,
    /// Creates the sink of a partition. A replicated table is read from partition 0 only.
    pub sink: Box<dyn FnMut(PartitionId) -> Box<dyn RowSink> + Send>,
}

impl fmt::Debug for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRequest").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// Outcome of a step of reading: rows in blocks are not read in the partition's thread.
pub struct Stepped {
    /// Whether there is more to read.
    pub step: ReadStep,
    /// Blocks with rows that were chosen, for the reader to hand on.
    pub chosen: Option<(BlockLayouts, Vec<BlockRows>)>,
    /// Blocks to be read for the next step.
    pub to_read: Vec<BlockReader>,
}

impl Stepped {
    /// Gives the chosen rows to `hand_on`, a block at a time, and reads the blocks for the next step. Not in the
    /// partition's thread.
    ///
    /// # Errors
    /// If a block cannot be read; and those of `hand_on`.
    pub fn read(self, mut hand_on: impl FnMut(&BlockLayouts, &BlockRows) -> Result<()>) -> Result<Vec<BlockRows>> {
        if let Some((layouts, blocks)) = &self.chosen {
            blocks.iter().try_for_each(|block| hand_on(layouts, block))?;
        }
        self.to_read.into_iter().map(|read| read()).collect()
    }
}

impl fmt::Debug for Stepped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepped").field("step", &self.step).finish_non_exhaustive()
    }
}

/// Result of a step of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStep {
    /// There is more to read.
    More,
    /// There is more to read, but the partition's queue is full.
    Busy,
    /// The sink has all rows.
    Done,
}

/// State shared by the partition and the reader.
pub type SharedRead = Arc<Mutex<TableRead>>;

/// Reading of one table in one partition.
pub struct TableRead {
    definition: Arc<TableDefinition>,
    unread: ScanFrontier,
    /// `None` once all rows are read, the reader is gone, or reading has failed.
    sink: Option<Box<dyn RowSink>>,
    failed: Option<Error>,
}

impl fmt::Debug for TableRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRead").field("table", &self.definition.name).finish_non_exhaustive()
    }
}

impl ReadRequest {
    /// Begins to read a partition in its current state; `None` if another partition has the same rows and is read
    /// instead.
    pub(crate) fn begin(&mut self, partition: &Partition) -> Result<Option<TableRead>> {
        if self.table.partition_by.is_none() && partition.id() != PartitionId(0) {
            return Ok(None);
        }
        let table = current(&self.table, partition)?;
        let (definition, unread) = (Arc::clone(&self.table), ScanFrontier::visible(table));
        Ok(Some(TableRead { definition, unread, sink: Some((self.sink)(partition.id())), failed: None }))
    }
}

/// The current table of a definition, if it still exists.
fn current<'a>(definition: &TableDefinition, partition: &'a Partition) -> Result<&'a Table> {
    let same = |table: &&Table| {
        let now = table.definition();
        now.name == definition.name && now.columns.starts_with(&definition.columns)
    };
    partition.table(definition.id).ok().filter(same).ok_or_else(|| gone(definition))
}

fn gone(definition: &TableDefinition) -> Error {
    Error::Retry(format!("table \"{}\" was dropped while a query was about to read it", definition.name).into())
}

/// Rows between two checks of the interrupt.
const LOOK_EVERY_IDS: u32 = 4096;
/// Blocks that are read for one step.
const BLOCKS_AT_ONCE: usize = 16;

/// Reads all rows, unless it is interrupted.
pub fn read_all(request: &mut ReadRequest, partition: &Partition, interrupt: &Interrupt) -> Result<()> {
    match request.begin(partition)? {
        None => Ok(()),
        Some(mut read) => {
            let mut blocks = Vec::new();
            loop {
                interrupt.check()?;
                let stepped = read.step(partition, LOOK_EVERY_IDS, blocks)?;
                if stepped.step == ReadStep::Done {
                    return Ok(());
                }
                blocks = stepped.read(|layouts, block| read.hand_on(layouts, block))?;
            }
        }
    }
}

impl TableRead {
    /// Whether it needs to know of a change of this table.
    fn wants(&self, change: &Change<'_>) -> bool {
        self.sink.is_some() && self.definition.id == change.table
    }

    /// Whether it needs no more rows.
    pub fn is_over(&self) -> bool {
        self.sink.is_none()
    }

    /// Ends it.
    pub fn end(&mut self) {
        self.sink = None;
    }

    /// Handles a change of a row.
    pub fn changed(&mut self, change: Change<'_>, layout: &Layout) {
        if !self.wants(&change) || !self.unread.mark(change.id) {
            return;
        }
        if change.unread.is_some() {
            return self.fail(Error::internal("an unread row has changed while its table is read"));
        }
        if let (Some(before), Some(sink)) = (change.before, &mut self.sink)
            && let Err(error) = sink.row(Row::new(layout, before))
        {
            self.fail(error);
        }
    }

    /// Handles the drop of its table.
    pub fn dropped(&mut self, table: &TableDefinition) {
        if self.sink.is_some() && self.definition.id == table.id {
            self.fail(Error::Retry(format!("table \"{}\" was dropped while a query read it", table.name).into()));
        }
    }

    /// Ends it with an error.
    pub fn fail(&mut self, error: Error) {
        self.sink = None;
        self.failed = Some(error);
    }

    /// Visits up to `ids` ids and hands on those of their rows that are live; then chooses the rows of blocks that were
    /// read for it, and says which to read next.
    ///
    /// # Errors
    /// If reading has failed, now or before.
    pub fn step(&mut self, partition: &Partition, ids: u32, read: Vec<BlockRows>) -> Result<Stepped> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.try_step(partition, ids, read);
        match &result {
            Ok(Stepped { step: ReadStep::Done, .. }) => self.sink = None,
            Ok(_) => {}
            Err(error) => self.fail(error.clone()),
        }
        result
    }

    fn try_step(&mut self, partition: &Partition, ids: u32, mut read: Vec<BlockRows>) -> Result<Stepped> {
        let mut stepped = Stepped { step: ReadStep::More, chosen: None, to_read: Vec::new() };
        let Some(sink) = &mut self.sink else { return Ok(Stepped { step: ReadStep::Done, ..stepped }) };
        let (unread, table) = (&mut self.unread, partition.table(self.definition.id)?);
        if !read.is_empty() {
            read.iter_mut().try_for_each(|block| unread.choose(table, block))?;
            stepped.chosen = Some((table.block_layouts(), read));
        }
        for _ in 0..ids {
            let Some((id, done)) = unread.next(table) else {
                if unread.has_put_off() {
                    let mut live = |id| sink.row(table.row_unread(id)?);
                    let from = (table, partition.blocks());
                    stepped.to_read = unread.block_readers(from, BLOCKS_AT_ONCE, &mut live)?;
                } else if stepped.chosen.is_none() {
                    sink.finish()?;
                    stepped.step = ReadStep::Done;
                }
                break;
            };
            if done {
                continue;
            }
            if table.block_place(id).is_none() {
                sink.row(table.row_unread(id)?)?;
            } else if !sink.count()? {
                unread.put_off(id);
                continue;
            }
            if sink.pauses() {
                break;
            }
        }
        Ok(stepped)
    }

    /// Hands on the rows of a block that a step has chosen. The partition goes on meanwhile.
    ///
    /// # Errors
    /// If the sink refuses one, or it is not what was written: reading has failed then.
    pub fn hand_on(&mut self, layouts: &BlockLayouts, block: &BlockRows) -> Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let handed = layouts.each_chosen(block, &mut |_, row| sink.row(row));
        if let Err(error) = &handed {
            self.fail(error.clone());
        }
        handed
    }
}
