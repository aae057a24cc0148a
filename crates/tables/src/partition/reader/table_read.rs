//! Reading of one table in one partition, in steps between transactions.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::Interrupt;
use thermocline_types::{Error, Result};

use crate::partition::Partition;
use crate::schema::TableDefinition;
use crate::table::{Change, Layout, Row, ScanFrontier, Table};

/// Receiver of the rows of one table in one partition.
///
/// Called in the partition's thread, while no transaction runs there, so it should do little more than copy. It is not
/// called again after an error.
pub trait RowSink: Send {
    /// Receives a row. Rows come in no particular order.
    fn row(&mut self, row: Row<'_>) -> Result<()>;

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
            interrupt.check()?;
            while read.step(partition, LOOK_EVERY_IDS)? != ReadStep::Done {
                interrupt.check()?;
            }
            Ok(())
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

    fn fail(&mut self, error: Error) {
        self.sink = None;
        self.failed = Some(error);
    }

    /// Visits up to `ids` ids and hands on their rows.
    pub fn step(&mut self, partition: &Partition, ids: u32) -> Result<ReadStep> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some(sink) = &mut self.sink else { return Ok(ReadStep::Done) };
        let unread = &mut self.unread;
        let result = partition.table(self.definition.id).and_then(|table| {
            for _ in 0..ids {
                let Some((id, done)) = unread.next(table) else {
                    return sink.finish().map(|()| ReadStep::Done);
                };
                if !done {
                    table.visit(id, partition.blocks(), &mut |row| sink.row(row))?;
                    if sink.pauses() {
                        break;
                    }
                }
            }
            Ok(ReadStep::More)
        });
        match &result {
            Ok(ReadStep::More | ReadStep::Busy) => {}
            Ok(ReadStep::Done) => self.sink = None,
            Err(error) => self.fail(error.clone()),
        }
        result
    }
}
