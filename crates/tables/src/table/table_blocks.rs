//! Reads of a table's rows from blocks.

use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::blocks::{BlockReader, BlockRows, Blocks, BlocksReader, ReadRow, ReadsRow, RowReader};
use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;
use crate::schema::TableDefinition;

/// Blocks with rows of one table: an error of a read names the table. Whoever reads rows from blocks does it here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableBlocks<'a> {
    table: &'a Arc<TableDefinition>,
    blocks: &'a dyn Blocks,
}

impl<'a> TableBlocks<'a> {
    pub fn new(table: &'a Arc<TableDefinition>, blocks: &'a dyn Blocks) -> Self {
        Self { table, blocks }
    }

    /// [`Blocks::read`]; errors of `each` stay as they are.
    pub fn read(self, place: BlockPlace, tuple: TupleId, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut given = Ok(());
        let read = self.blocks.read(place, tuple, &mut |image| {
            given = each(image);
            Ok(())
        });
        read.map_err(|error| named(self.table, error)).and(given)
    }

    /// [`Blocks::reader`].
    pub fn reader(self, place: BlockPlace, tuple: TupleId, is_first: bool) -> Result<RowReader> {
        let read = self.blocks.reader(place, tuple, is_first)?;
        Ok(Box::new(ReadOfTable { table: Arc::clone(self.table), read }))
    }

    /// [`Blocks::block_reader`].
    pub fn block_reader(self, block: BlockNumber) -> Result<BlockReader> {
        let (read, table) = (self.blocks.block_reader(block)?, Arc::clone(self.table));
        Ok(Box::new(move || rows_named(&table, read())))
    }

    /// [`Blocks::blocks_reader`].
    pub fn blocks_reader(self, blocks: Vec<BlockNumber>) -> Result<BlocksReader> {
        let (read, table) = (self.blocks.blocks_reader(blocks)?, Arc::clone(self.table));
        let names = move |(number, block)| (number, rows_named(&table, block));
        Ok(Box::new(move || read().into_iter().map(names).collect()))
    }
}

/// Rows of a block whose errors name the table.
fn rows_named(table: &TableDefinition, rows: Result<BlockRows>) -> Result<BlockRows> {
    let rows = rows.map_err(|error| named(table, error))?;
    Ok(match rows.damage().map(|damage| named(table, damage.clone())) {
        Some(damage) => rows.with_damage(damage),
        None => rows,
    })
}

struct ReadOfTable {
    table: Arc<TableDefinition>,
    read: RowReader,
}

impl ReadsRow for ReadOfTable {
    fn read(self: Box<Self>) -> Result<ReadRow> {
        self.read.read().map_err(|error| named(&self.table, error))
    }

    fn is_asynchronous(&self) -> bool {
        self.read.is_asynchronous()
    }

    fn start(self: Box<Self>, then: Box<dyn FnOnce(Result<ReadRow>) + Send>) {
        let Self { table, read } = *self;
        read.start(Box::new(move |row| then(row.map_err(|error| named(&table, error)))));
    }
}

fn named(table: &TableDefinition, error: Error) -> Error {
    match error {
        Error::Corrupt(what) => Error::corrupt(format_args!("table \"{}\": {what}", table.name)),
        Error::Io(what) => Error::Io(format!("table \"{}\": {what}", table.name).into()),
        other => other,
    }
}
