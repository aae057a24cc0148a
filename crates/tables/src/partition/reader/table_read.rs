//! Reading of one table in one partition, in steps between transactions.

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::Interrupt;
use thermocline_types::{Error, Result};

use crate::partition::Partition;
use crate::schema::TableDefinition;
use crate::table::{
    AtOnce, BlockLayouts, BlockReader, BlockRows, Change, Charge, Layout, Row, ScanFrontier, Table, Working,
};

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

    /// Whether a step should end with the last row although the sink could take more: because transactions have waited
    /// enough, and because what it has is to be taken before it gets more.
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
    /// Blocks with rows that were chosen, for the reader to hand on. There are none to read then.
    pub chosen: Option<ChosenRows>,
    /// Blocks to be read for the next step.
    pub to_read: BlocksToRead,
}

/// Blocks of a scan, charged as memory of a query: in any case, because there are few of them, and a single one if it is
/// long; tables make room for them.
#[derive(Default)]
pub struct BlocksToRead {
    readers: Vec<BlockReader>,
    charge: Charge,
}

impl BlocksToRead {
    /// Reads them. Not in the partition's thread.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn read(mut self) -> Result<BlocksRead> {
        let blocks = self.readers.into_iter().map(|read| read()).collect::<Result<VecDeque<_>>>()?;
        self.charge.set(blocks.iter().map(BlockRows::memory_bytes).sum());
        Ok(BlocksRead { blocks, charge: self.charge })
    }
}

/// Blocks that were read for a step of a scan, and their charge.
#[derive(Debug, Default)]
pub struct BlocksRead {
    blocks: VecDeque<BlockRows>,
    charge: Charge,
}

/// Rows of blocks that a step has chosen.
#[derive(Debug)]
pub struct ChosenRows {
    layouts: BlockLayouts,
    read: BlocksRead,
}

impl ChosenRows {
    /// Gives the rows to `hand_on`, a block at a time, each of which is gone then, until that says that the receiver has
    /// enough for now. Says whether there are more. Not in the partition's thread.
    ///
    /// # Errors
    /// Those of `hand_on`.
    pub fn hand_on(&mut self, mut hand_on: impl FnMut(&BlockLayouts, &BlockRows) -> Result<bool>) -> Result<bool> {
        let BlocksRead { blocks, charge } = &mut self.read;
        while let Some(block) = blocks.pop_front() {
            let is_enough = hand_on(&self.layouts, &block)?;
            charge.set(charge.bytes().saturating_sub(block.memory_bytes()));
            drop(block);
            if is_enough {
                break;
            }
        }
        Ok(!blocks.is_empty())
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

/// Reads all rows, unless it is interrupted.
pub fn read_all(request: &mut ReadRequest, partition: &Partition, interrupt: &Interrupt) -> Result<()> {
    match request.begin(partition)? {
        None => Ok(()),
        Some(mut read) => {
            let mut blocks = BlocksRead::default();
            loop {
                interrupt.check()?;
                let stepped = read.step(partition, LOOK_EVERY_IDS, blocks)?;
                if stepped.step == ReadStep::Done {
                    return Ok(());
                }
                if let Some(mut chosen) = stepped.chosen {
                    while chosen.hand_on(|layouts, block| read.hand_on(layouts, block))? {}
                }
                blocks = stepped.to_read.read()?;
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
    pub fn step(&mut self, partition: &Partition, ids: u32, read: BlocksRead) -> Result<Stepped> {
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

    fn try_step(&mut self, partition: &Partition, ids: u32, mut read: BlocksRead) -> Result<Stepped> {
        let mut stepped = Stepped { step: ReadStep::More, chosen: None, to_read: BlocksToRead::default() };
        let Some(sink) = &mut self.sink else { return Ok(Stepped { step: ReadStep::Done, ..stepped }) };
        let (unread, table) = (&mut self.unread, partition.table(self.definition.id)?);
        if !read.blocks.is_empty() {
            read.blocks.iter_mut().try_for_each(|block| unread.choose(table, block))?;
            stepped.chosen = Some(ChosenRows { layouts: table.block_layouts(), read });
        }
        for _ in 0..ids {
            let Some((id, done)) = unread.next(table) else {
                if stepped.chosen.is_some() {
                    // They are gone before others are read.
                } else if unread.has_put_off() {
                    let mut live = |id| {
                        sink.row(table.row_unread(id)?)?;
                        Ok(if sink.pauses() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                    };
                    let (from, at_once) = ((table, partition.blocks()), AtOnce::within(partition.budget().limit()));
                    let (readers, bytes) = unread.block_readers(from, at_once, &mut live)?;
                    let mut charge = Charge::new(partition.budget(), Working::Queries);
                    charge.set(bytes);
                    stepped.to_read = BlocksToRead { readers, charge };
                } else {
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

    /// Hands on the rows of a block that a step has chosen; says whether the sink [pauses](RowSink::pauses). The partition
    /// goes on meanwhile.
    ///
    /// # Errors
    /// If the sink refuses one, or it is not what was written: reading has failed then.
    pub fn hand_on(&mut self, layouts: &BlockLayouts, block: &BlockRows) -> Result<bool> {
        let Some(sink) = &mut self.sink else { return Ok(false) };
        let mut pauses = false;
        let handed = layouts.each_chosen(block, &mut |_, row| {
            sink.row(row)?;
            pauses |= sink.pauses();
            Ok(())
        });
        if let Err(error) = &handed {
            self.fail(error.clone());
        }
        handed.map(|()| pauses)
    }
}
