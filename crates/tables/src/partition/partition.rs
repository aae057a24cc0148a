//! All tables' rows of one partition: writes, bulk loads, commit, abort, and images for readers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use thermocline_machine::Wait;
use thermocline_machine::ids::PartitionId;
use thermocline_types::{Class, Error, Result, ValueRef};

use super::choice::Choice;
use super::{Digest, Transaction, WaitStatistics};
use crate::PartitionHash;
use crate::partition::reader::{ReadRequest, SharedRead};
use crate::schema::{Change, Schema, TableDefinition, TableId};
use crate::table::{
    self, Blocks, BlocksReader, Budget, Build, BuildStep, Growth, ReadBlock, Replaced, Table, TableLoad, TupleId,
};

/// Receives every row that a committed transaction changed, before the next transaction runs: a copy of the rows that
/// has not reached the row yet needs its earlier image.
pub trait PreImages: Send {
    /// Called for each change of a row; of several changes of one row, the oldest image comes first. Returns false to
    /// end the calls.
    fn changed(&mut self, change: table::Change<'_>) -> bool;

    /// Tables or the layout of their rows are about to change. No call follows this one.
    fn defined(&mut self);

    /// Whether it needs no further change.
    fn is_over(&self) -> bool {
        false
    }

    /// Event for the next transaction to wait for, because too many rows wait to be copied; `None` if it need not wait.
    fn held_up(&self) -> Option<Wait> {
        None
    }
}

/// Rows of a load that are removed together.
const ROWS_AT_ONCE: usize = 1024;

/// A share of the rows: all tables' rows of one partition.
pub struct Partition {
    id: PartitionId,
    /// Number of partitions of the database.
    count: u32,
    /// By table number; `None` for an unused number.
    pub(super) tables: Vec<Option<Table>>,
    budget: Arc<Budget>,
    pub(super) seed: u64,
    pub(super) pre_images: Vec<Box<dyn PreImages>>,
    /// Readers in progress.
    pub(super) readers: Vec<SharedRead>,
    /// Blocks of evicted rows; `None` if rows cannot be evicted.
    pub(super) blocks: Option<Box<dyn Blocks>>,
    /// Whether rows may be pinned.
    pub(super) has_pinned: bool,
    /// Whether rows may have come back since the last snapshot.
    pub(super) has_come_back: bool,
    /// Bytes by which tables have grown for pinned rows although memory was full.
    pub(super) forced_bytes: usize,
    /// Number of rows that came back for the transaction.
    pub(super) returned_rows: usize,
    /// Bytes of blocks that the transaction's statements have read in place.
    pub(super) read_in_place: AtomicUsize,
    /// Choice of rows to be evicted.
    pub(super) choice: Choice,
    pub(super) waits: WaitStatistics,
    /// Whether sparse blocks are being read.
    pub(super) is_relocating: bool,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("id", &self.id)
            .field("tables", &self.tables().count())
            .finish_non_exhaustive()
    }
}

impl Partition {
    /// Partition `id` of `count`, without tables. The seed decides where hashed keys are placed, which has no visible
    /// effect.
    pub fn new(id: PartitionId, count: u32, budget: Arc<Budget>, seed: u64) -> Self {
        Self {
            id,
            count,
            tables: Vec::new(),
            budget,
            seed,
            pre_images: Vec::new(),
            readers: Vec::new(),
            blocks: None,
            has_pinned: false,
            has_come_back: false,
            forced_bytes: 0,
            returned_rows: 0,
            read_in_place: AtomicUsize::new(0),
            choice: Choice::default(),
            waits: WaitStatistics::default(),
            is_relocating: false,
        }
    }

    /// Its number.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Number of partitions of the database.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a row with this hash belongs here.
    pub fn owns(&self, hash: PartitionHash) -> bool {
        hash.partition(self.count) == u32::from(self.id.0)
    }

    /// The budget that it shares with the other partitions.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// A table.
    #[inline]
    pub fn table(&self, id: TableId) -> Result<&Table> {
        self.tables.get(id.0 as usize).and_then(Option::as_ref).ok_or_else(|| no_table(id))
    }

    /// A table, mutably.
    #[inline]
    pub fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        self.tables.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or_else(|| no_table(id))
    }

    /// All tables in the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().flatten()
    }

    /// All tables, mutably.
    pub(super) fn tables_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.tables.iter_mut().flatten()
    }

    /// Moves up to `rows` rows together, so that memory that deleted rows have left in many places is given back.
    /// Returns whether there is more to move. Nothing that can be observed changes but [memory](Table::memory).
    pub fn compact(&mut self, rows: usize) -> bool {
        let mut left = rows;
        for table in self.tables_mut() {
            left -= table.compact(left);
            if left == 0 {
                return true;
            }
        }
        false
    }

    /// Adds a row; see [`Table::insert`].
    pub fn insert(
        &mut self,
        table: TableId,
        values: &[ValueRef<'_>],
        transaction: &mut Transaction,
    ) -> Result<TupleId> {
        self.table_mut(table)?.insert(values, &mut transaction.undo)
    }

    /// Changes some columns of a row; see [`Table::update`].
    pub fn update(
        &mut self,
        table: TableId,
        id: TupleId,
        changes: &[(usize, ValueRef<'_>)],
        transaction: &mut Transaction,
    ) -> Result<()> {
        self.table_mut(table)?.update(id, changes, &mut transaction.undo)
    }

    /// Removes a row.
    pub fn delete(&mut self, table: TableId, id: TupleId, transaction: &mut Transaction) -> Result<()> {
        self.table_mut(table)?.delete(id, &mut transaction.undo)
    }

    /// Adds a row of a bulk load, hidden until the load [ends](Self::end_load).
    pub fn insert_hidden(
        &mut self,
        TableLoad { table, load }: TableLoad,
        image: &[u8],
        transaction: &mut Transaction,
    ) -> Result<TupleId> {
        self.table_mut(table)?.insert_hidden(load, image, &mut transaction.undo)
    }

    /// Ends a load into a table, whose rows become visible.
    pub fn end_load(&mut self, TableLoad { table, load }: TableLoad) -> Result<()> {
        self.table_mut(table)?.end_load(load);
        Ok(())
    }

    /// Removes some rows of an unfinished load, lowest ids first, and returns how many. They were never visible, so
    /// there is no undo.
    pub fn take_back(&mut self, TableLoad { table, load }: TableLoad, rows: u32) -> Result<u32> {
        let (mut next, mut removed) = (TupleId(0), 0);
        while removed < rows {
            let some = ROWS_AT_ONCE.min((rows - removed) as usize);
            let mut ids = Vec::with_capacity(some);
            while ids.len() < some
                && let Some(id) = self.table(table)?.next_hidden(load, next)
            {
                next = TupleId(id.0 + 1);
                ids.push((table, id));
            }
            if ids.is_empty() {
                break;
            }
            removed += ids.len() as u32;
            self.each_read(&ids, &mut |partition, (table, id), image| {
                let before: Vec<u8> = match image {
                    Some(image) => image.to_vec(),
                    None => partition.table(table)?.image(id)?.to_vec(),
                };
                let Self { tables, pre_images, readers, .. } = partition;
                let found = tables.get(table.0 as usize).and_then(Option::as_ref).ok_or_else(|| no_table(table))?;
                let change = table::Change { table, id, before: Some(&before), unread: None };
                pre_images.retain_mut(|one| one.changed(change));
                readers.iter().for_each(|reader| reader.lock().changed(change, found.layout()));
                partition.remove_with(table, id, &before)
            })?;
        }
        Ok(removed)
    }

    /// The unfinished loads.
    pub fn loads(&self) -> impl Iterator<Item = TableLoad> {
        self.tables().flat_map(|table| table.loads().map(|(load, _)| TableLoad { table: table.definition().id, load }))
    }

    /// Hash of the rows that the transaction changed here, in their final state, as in logs of versions 1 and 2 of the
    /// semantics.
    pub(crate) fn digest_at_the_end(&self, transaction: &Transaction) -> Result<Digest> {
        transaction.undo.changed().try_fold(Digest::EMPTY, |digest, (table, id)| {
            let image = self.table(table)?.get(id)?.map(table::Row::image);
            Ok(digest.with_row_at_the_end(table, id, image))
        })
    }

    /// The rows that the transaction changed here, in their final state, each once in the order of the first change;
    /// `None` for removed rows.
    pub fn effects<'a>(
        &'a self,
        transaction: &'a Transaction,
    ) -> impl Iterator<Item = Result<(TableId, TupleId, Option<&'a [u8]>)>> {
        let mut seen = BTreeSet::new();
        transaction.undo.iter().filter(move |change| seen.insert((change.table, change.id))).map(|change| {
            let row = self.table(change.table)?.get(change.id)?;
            Ok((change.table, change.id, row.map(table::Row::image)))
        })
    }

    /// Notes that a transaction begins, which may be sampled for eviction. Nothing else depends on it.
    #[inline]
    pub fn begin(&mut self) {
        if self.choice.draw() {
            self.switch_sampling();
        }
    }

    /// Keeps the transaction's changes, and prepares for the next transaction.
    pub fn commit(&mut self, transaction: &mut Transaction) {
        if !self.pre_images.is_empty() {
            self.pre_images.retain_mut(|one| transaction.undo.iter().all(|change| one.changed(change)));
        }
        if !self.readers.is_empty() {
            self.tell_readers(transaction);
        }
        if transaction.undo.has_unread() {
            self.release_unread(transaction);
        }
        if self.has_come_back && !transaction.is_read_only() {
            self.count_replay_reads(transaction);
        }
        transaction.undo.clear();
    }

    /// Undoes the transaction's changes, and prepares for the next transaction. An error is a bug, after which the
    /// partition cannot go on.
    pub fn abort(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.undo_to(transaction, 0)?;
        *self.read_in_place.get_mut() = 0;
        transaction.undo.clear();
        Ok(())
    }

    /// Undoes all changes after the first `length`.
    pub fn undo_to(&mut self, transaction: &mut Transaction, length: usize) -> Result<()> {
        while transaction.undo.len() > length {
            if let Some(change) = transaction.undo.get(transaction.undo.len() - 1) {
                let table = self.table_mut(change.table)?;
                match change.unread {
                    Some(unread) => table.restore_unread(change.id, unread)?,
                    None => table.restore(change.id, change.before)?,
                }
            }
            transaction.undo.forget_last();
        }
        Ok(())
    }

    /// Sets rows to their images from a log, each given once.
    ///
    /// All of them are removed first: two rows may have exchanged a unique key.
    pub fn apply<'a>(
        &mut self,
        rows: impl Iterator<Item = (TableId, TupleId, Option<&'a [u8]>)> + Clone,
    ) -> Result<()> {
        let ids: Vec<(TableId, TupleId)> = rows.clone().map(|(table, id, _)| (table, id)).collect();
        let mut reads = 0;
        self.each_read(&ids, &mut |partition, (table, id), image| {
            let counts = image.is_some() || partition.table_mut(table)?.count_came_back(id);
            reads += u64::from(counts);
            match image {
                Some(image) => partition.remove_with(table, id, image),
                None => partition.table_mut(table)?.restore(id, None),
            }
        })?;
        self.note_replay_reads(reads);
        for (table, id, image) in rows {
            if let Some(image) = image {
                self.table_mut(table)?.load(id, image)?;
            }
        }
        Ok(())
    }

    /// Reports changes from now on, until the receiver declines or the schema changes.
    pub fn watch(&mut self, pre_images: Box<dyn PreImages>) {
        self.pre_images.push(pre_images);
    }

    /// Event for the next transaction to wait for, because a copy of the rows falls behind; `None` if it need not wait.
    #[inline]
    pub fn held_up(&self) -> Option<Wait> {
        self.pre_images.iter().find_map(|one| one.held_up())
    }

    /// Stops reporting changes.
    pub fn unwatch(&mut self) {
        self.pre_images.clear();
    }

    /// Begins to read a table in its current state; `None` if another partition has the same rows and is read instead.
    pub fn read(&mut self, request: &mut ReadRequest) -> Result<Option<SharedRead>> {
        self.readers.retain(|reader| !reader.lock().is_over());
        let read = request.begin(self)?.map(|read| Arc::new(Mutex::new(read)));
        self.readers.extend(read.clone());
        Ok(read)
    }

    #[cold]
    fn tell_readers(&mut self, transaction: &Transaction) {
        for reader in &self.readers {
            let mut reader = reader.lock();
            for change in transaction.undo.iter() {
                if let Some(Some(table)) = self.tables.get(change.table.0 as usize) {
                    reader.changed(change, table.layout());
                }
            }
        }
        self.readers.retain(|reader| !reader.lock().is_over());
    }

    /// An error if the change is of a table into which rows are being loaded, or that has a build in progress.
    pub fn check_definable(&self, change: &Change) -> Result<()> {
        match change {
            Change::DropTable(table)
            | Change::ReplaceTable { before: table, .. }
            | Change::CreateIndex { table, .. }
            | Change::DropIndex { table, .. }
            | Change::AddColumn { table, .. } => self.check_changeable(table),
            Change::Redefine(tables) => tables.iter().try_for_each(|table| self.check_changeable(table)),
            Change::None | Change::CreateTable(_) | Change::CreateProcedure(_) | Change::DropProcedure(_) => Ok(()),
        }
    }

    fn check_changeable(&self, table: &TableDefinition) -> Result<()> {
        let held = self.table(table.id)?;
        if held.is_loading() {
            let message = format!("rows are being loaded into table \"{}\"; try again when they are", table.name);
            return Err(Class::ObjectInUse.error(message));
        }
        if held.is_building() {
            let message = format!("{}; try again when it is", being_built(table));
            return Err(Class::ObjectInUse.error(message));
        }
        Ok(())
    }

    /// Drops builds that were given up.
    pub fn drop_builds_given_up(&mut self) {
        self.tables.iter_mut().flatten().for_each(Table::drop_build_given_up);
    }

    /// Begins to build an index or column for a definition, in steps.
    pub fn begin_build(&mut self, table: TableId, build: &Arc<Build>, change: &Change) -> Result<()> {
        self.table_mut(table)?.begin_build(build, change)
    }

    /// Adds up to `rows` rows to a build, of those in memory and in blocks that were read for it: see
    /// [`Table::build_step`]. Returns blocks to be read for the next step as well, elsewhere.
    ///
    /// # Errors
    /// As there.
    pub fn build_step(
        &mut self,
        table: TableId,
        (build, rows): (&Arc<Build>, u32),
        read: Vec<ReadBlock>,
    ) -> Result<(BuildStep, Option<BlocksReader>)> {
        let (table, blocks) = self.with_blocks(table)?;
        table.take_build_blocks(build, read);
        let step = table.build_step(build, blocks, rows)?;
        Ok((step, table.build_reads(build, blocks)?))
    }

    /// A table, and the blocks of its evicted rows.
    fn with_blocks(&mut self, table: TableId) -> Result<(&mut Table, Option<&dyn Blocks>)> {
        let Self { tables, blocks, .. } = self;
        let place = tables.get_mut(table.0 as usize).and_then(Option::as_mut).ok_or_else(|| no_table(table))?;
        Ok((place, blocks.as_deref().map(|blocks| blocks as &dyn Blocks)))
    }

    /// An error unless the build for the definition is complete here and the rows satisfy it.
    pub fn check_build(&self, table: TableId, build: &Arc<Build>, change: &Change) -> Result<()> {
        self.table(table)?.check_build(build, self.blocks(), change)
    }

    /// Makes a [checked](Self::check_build) build part of the table. Returns the replaced rows, if any.
    pub fn install_build(&mut self, definition: &Arc<TableDefinition>) -> Result<Option<Replaced>> {
        self.before_defining();
        let (table, blocks) = self.with_blocks(definition.id)?;
        Ok(table.install_build(Arc::clone(definition), blocks))
    }

    fn before_defining(&mut self) {
        self.pre_images.drain(..).for_each(|mut one| one.defined());
    }

    /// Applies a change of the schema, which no transaction sees in part. If it fails, nothing has changed here.
    pub fn define(&mut self, change: &Change) -> Result<()> {
        self.define_unless(change, &|| Ok(()))
    }

    /// [`Partition::define`] that calls `stopped` while it reads rows and fails with its error.
    pub fn define_unless(&mut self, change: &Change, stopped: &dyn Fn() -> Result<()>) -> Result<()> {
        if !matches!(change, Change::None | Change::CreateProcedure(_) | Change::DropProcedure(_)) {
            self.before_defining();
        }
        self.drop_builds_given_up();
        match change {
            Change::CreateTable(definition) => self.create_table(definition),
            Change::DropTable(definition) => {
                self.readers.iter().for_each(|reader| reader.lock().dropped(definition));
                self.release_table(definition.id);
                if let Some(table) = self.tables.get_mut(definition.id.0 as usize) {
                    *table = None;
                }
                Ok(())
            }
            Change::ReplaceTable { before, table } => {
                self.define(&Change::DropTable(Arc::clone(before)))?;
                self.create_table(table)
            }
            Change::CreateIndex { table, index } => {
                let definition = table.index(*index);
                let definition =
                    definition.ok_or_else(|| Error::internal("a new index that its table does not have"))?;
                self.with_room(|partition| {
                    let (table_here, blocks) = partition.with_blocks(table.id)?;
                    table_here.add_index_unless(Arc::clone(table), definition, blocks, stopped)
                })
            }
            Change::DropIndex { table, index } => {
                self.table_mut(table.id)?.drop_index(Arc::clone(table), *index);
                Ok(())
            }
            Change::AddColumn { table, fill } => self.with_room(|partition| {
                let (table_here, blocks) = partition.with_blocks(table.id)?;
                table_here.change_columns_unless(Arc::clone(table), fill, blocks, stopped)
            }),
            Change::Redefine(tables) => {
                for table in tables {
                    let (table_here, blocks) = self.with_blocks(table.id)?;
                    table_here.redefine(Arc::clone(table), blocks, stopped)?;
                }
                Ok(())
            }
            Change::None | Change::CreateProcedure(_) | Change::DropProcedure(_) => Ok(()),
        }
    }

    /// Returns to the schema before a change that another partition could not apply. Dropping a table cannot fail in
    /// some partitions only, so it is never undone.
    pub fn undefine(&mut self, change: &Change, before: &Schema) -> Result<()> {
        let definition = |table: &Arc<TableDefinition>| {
            before.table_by_id(table.id).map(Arc::clone).ok_or_else(|| no_table(table.id))
        };
        match change {
            Change::CreateTable(table) => self.define(&Change::DropTable(Arc::clone(table))),
            Change::CreateIndex { table, index } => {
                let table = definition(table)?;
                self.define(&Change::DropIndex { table, index: *index })
            }
            Change::Redefine(tables) => {
                let before = tables.iter().map(definition).collect::<Result<_>>()?;
                self.define(&Change::Redefine(before))
            }
            Change::AddColumn { table, .. } => {
                // Not at the price of others, which might be of this table.
                for id in self.table(table.id)?.evicted_since_widened() {
                    self.bring_back(table.id, id, Growth::Forced)?;
                }
                self.unpin();
                self.table_mut(table.id)?.restore_columns(definition(table)?)
            }
            _ => Ok(()),
        }
    }

    fn create_table(&mut self, definition: &Arc<TableDefinition>) -> Result<()> {
        let number = definition.id.0 as usize;
        if number >= crate::schema::TABLES_MAX {
            return Err(Error::internal(format_args!("table number {number}")));
        }
        let mut table = Table::new(Arc::clone(definition), Arc::clone(&self.budget), self.seed)?;
        self.choice.watch(&mut table);
        if self.tables.len() <= number {
            self.tables.resize_with(number + 1, || None);
        }
        if let Some(place) = self.tables.get_mut(number) {
            *place = Some(table);
        }
        Ok(())
    }

    /// Hash of all rows of each table.
    pub fn state_hashes(&self) -> Result<BTreeMap<TableId, u64>> {
        self.tables().map(|table| Ok((table.definition().id, table.state_hash_with(self.blocks())?))).collect()
    }

    /// Checks the invariants of all tables, and that every row belongs to this partition.
    pub fn check(&self) -> Result<()> {
        for table in self.tables() {
            table.check_with(self.blocks())?;
            let Some(column) = table.definition().partition_by else { continue };
            let hidden = table.loads().flat_map(|(_, ids)| ids.iter());
            for id in table.scan().chain(hidden) {
                table.visit(id, self.blocks(), &mut |row| {
                    if self.owns(PartitionHash::of(row.value(column))) {
                        return Ok(());
                    }
                    let (name, here) = (&table.definition().name, self.id.0);
                    Err(Error::corrupt(format_args!(
                        "row {} of table \"{name}\" is in partition {here}, where it does not belong",
                        id.0
                    )))
                })?;
            }
        }
        Ok(())
    }
}

/// Why a definition of a table has to wait.
pub fn being_built(table: &TableDefinition) -> String {
    format!("an index or a column is being added to table \"{}\"", table.name)
}

#[cold]
fn no_table(id: TableId) -> Error {
    Error::internal(format_args!("there is no table {}", id.0))
}
