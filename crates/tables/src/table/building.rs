//! Builds of CREATE INDEX and ADD COLUMN, in steps beside the transactions of a partition.

mod index;
mod rows;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use index::BuildingIndex;
use rows::BuildingRows;
use thermocline_types::{Error, Result};

use super::blocks::{BlockRows, Blocks, BlocksReader, ReadBlock};
use super::budget::Budget;
use super::index::Index;
use super::layout::Layout;
use super::locator::{BlockNumber, Locators};
use super::put_off::{AtOnce, PutOff};
use super::row::Row;
use super::slab::Slabs;
use super::table::Table;
use super::table_blocks::TableBlocks;
use super::tuple_ids::TupleId;
use crate::schema::{Change, IndexId, TableDefinition};

pub(super) use rows::BuiltRows;

/// Bytes of keys or images after which a step ends, because few rows may have long ones.
const STEP_BYTES: usize = 128 << 10;

/// One definition that builds in steps, in all partitions.
#[derive(Debug, Default)]
pub struct Build {
    is_given_up: AtomicBool,
}

impl Build {
    /// Gives up the build; partitions drop their parts when they next check.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Whether the build was given up.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::SeqCst)
    }
}

/// Progress of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStep {
    /// Some rows have not been entered.
    More,
    /// All rows are entered, and writers keep the build up to date.
    Done,
}

/// Incremental build of an index or of wider rows, interleaved with transactions.
///
/// ```text
///  tuple ids   0 ............ cursor ............ bound ...........
///              entered:       not met yet         entered:
///              kept up by                         added by
///              who writes                         who writes
/// ```
///
/// An index needs evicted rows as well. The cursor puts them off; behind the last row their blocks are read whole, each
/// once, and outside of the partition: see [`Building::reads`].
///
/// Writers are never refused because of a build. Rows that violate it are counted, since the transaction that wrote
/// them may still abort; a count above zero between two transactions, where steps run, ends the build. So does a lack
/// of memory.
///
/// Invariants: exactly rows below `cursor`, but those put off, and from `bound` on are entered, unless `failed`;
/// `cursor` only grows, and ids from `bound` on were free when the build began.
#[derive(Debug)]
pub(super) struct Building {
    build: Arc<Build>,
    cursor: TupleId,
    bound: TupleId,
    /// Rows that were in blocks when the cursor passed them, and are not entered.
    put_off: PutOff,
    /// Blocks that were read for some of them.
    read: VecDeque<ReadBlock>,
    /// Why it cannot go on; nothing is charged for it then.
    failed: Option<Error>,
    body: Body,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per table, inside a `Box`")]
enum Body {
    Index(BuildingIndex),
    Rows(BuildingRows),
}

/// Replaced rows. Returning their memory to the system takes a while, which the caller can do outside the partition.
#[derive(Debug)]
pub struct Replaced {
    _rows: Slabs,
    _locators: Locators,
}

impl Replaced {
    /// Wraps rows that are no longer charged.
    pub(super) fn new(rows: Slabs, locators: Locators) -> Self {
        Self { _rows: rows, _locators: locators }
    }
}

/// Result of a build.
#[expect(clippy::large_enum_variant, reason = "there for a moment only")]
pub(super) enum Built {
    Index(Index),
    Rows(BuiltRows),
}

impl Building {
    /// Begins with the existing rows.
    pub fn new(build: &Arc<Build>, change: &Change, (layout, seed): (&Layout, u64), bound: TupleId) -> Result<Self> {
        let body = match change {
            Change::CreateIndex { table, index } => {
                let index =
                    table.index(*index).ok_or_else(|| Error::internal("a new index that its table does not have"))?;
                Body::Index(BuildingIndex::new(Index::new(table, layout, index, seed)))
            }
            Change::AddColumn { table, fill } => Body::Rows(BuildingRows::new(table, fill)?),
            _ => return Err(Error::internal("a definition that builds nothing")),
        };
        let (build, cursor) = (Arc::clone(build), TupleId(0));
        Ok(Self { build, cursor, bound, put_off: PutOff::default(), read: VecDeque::new(), failed: None, body })
    }

    /// Build that it belongs to.
    pub fn build(&self) -> &Arc<Build> {
        &self.build
    }

    /// Its name in errors.
    pub fn name(&self) -> String {
        match &self.body {
            Body::Index(index) => format!("index \"{}\"", index.definition().name),
            Body::Rows(_) => "another column".into(),
        }
    }

    /// Bytes charged for it: an index with its id, rows, and their locators.
    pub fn bytes(&self) -> (Option<(IndexId, usize)>, usize, usize) {
        match &self.body {
            _ if self.failed.is_some() => (None, 0, 0),
            Body::Index(index) => (Some((index.definition().id, index.bytes())), 0, 0),
            Body::Rows(rows) => {
                let (rows, locators) = rows.bytes();
                (None, rows, locators)
            }
        }
    }

    /// Whether a change of the column at this position affects it.
    pub fn holds(&self, column: usize) -> bool {
        match &self.body {
            Body::Index(index) => index.holds(column),
            Body::Rows(_) => true,
        }
    }

    /// Releases its charge.
    pub fn release(&self, budget: &Budget) {
        let (index, rows, locators) = self.bytes();
        budget.resize_rows(rows, 0);
        budget.resize(index.map_or(0, |(_, bytes)| bytes) + locators, 0);
    }

    /// Whether the row has been entered, so that writers must keep it up to date.
    fn has_met(&self, id: TupleId) -> bool {
        self.failed.is_none() && (id < self.cursor && !self.put_off.contains(id) || id >= self.bound)
    }

    /// Enters a new row.
    pub fn enter(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        self.put_off.take(id);
        if self.has_met(id) {
            let entered = match &mut self.body {
                Body::Index(index) => index.enter(id, row, budget),
                Body::Rows(rows) => rows.enter(id, row, budget),
            };
            self.fail_if(entered, budget);
        }
    }

    /// Removes a row.
    pub fn leave(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if self.put_off.take(id) {
            return;
        }
        if self.has_met(id) {
            match &mut self.body {
                Body::Index(index) => index.leave(id, row, budget),
                Body::Rows(rows) => rows.leave(id, row, budget),
            }
        }
    }

    /// Drops its copy of a row that goes to a block.
    pub fn evict(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if matches!(self.body, Body::Rows(_)) {
            self.leave(id, row, budget);
        }
    }

    /// Removes a row that is in a block.
    pub fn remove_evicted(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if matches!(self.body, Body::Index(_)) {
            self.leave(id, row, budget);
        }
    }

    /// Copies a row that comes back from a block.
    pub fn bring_back(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if matches!(self.body, Body::Rows(_)) {
            self.enter(id, row, budget);
        }
    }

    /// Notes a row that may be about to change; [`Building::renew`] follows if it does.
    pub fn note(&mut self, id: TupleId, row: Row<'_>) {
        if self.has_met(id) {
            match &mut self.body {
                Body::Index(index) => index.note(row),
                Body::Rows(rows) => rows.note(row),
            }
        }
    }

    /// Updates a noted row after its change.
    pub fn renew(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if self.has_met(id) {
            let renewed = match &mut self.body {
                Body::Index(index) => index.renew(id, row, budget),
                Body::Rows(rows) => rows.renew(id, row, budget),
            };
            self.fail_if(renewed, budget);
        }
    }

    fn fail_if(&mut self, result: Result<()>, budget: &Budget) {
        if let Err(error) = result {
            self.release(budget);
            self.failed = Some(error);
        }
    }

    /// Enters up to `rows` rows, or some more of a block. Evicted ones are put off for an index, until their blocks are
    /// [read](Self::reads), and keep their columns otherwise. Between transactions only.
    ///
    /// # Errors
    /// If the rows violate it, one cannot be read, or there is no memory for it.
    pub fn fill(
        &mut self,
        table: &Table,
        blocks: Option<&dyn Blocks>,
        budget: &Budget,
        rows: u32,
    ) -> Result<BuildStep> {
        self.check(table.definition())?;
        let mut bytes = 0;
        for _ in 0..rows {
            let Some(id) = table.next(self.cursor).filter(|id| *id < self.bound) else {
                self.cursor = self.bound;
                break;
            };
            self.cursor = TupleId(id.0 + 1);
            if table.block_place(id).is_some() {
                if matches!(self.body, Body::Index(_)) {
                    self.put_off.add(id, self.bound);
                }
                continue;
            }
            self.enter(id, table.row_unread(id)?, budget);
            bytes += self.last_bytes();
            if bytes >= STEP_BYTES || self.failed.is_some() {
                break;
            }
        }
        let mut entered = 0;
        while entered < rows
            && bytes < STEP_BYTES
            && self.failed.is_none()
            && let Some((number, block)) = self.read.pop_front()
        {
            let mut each = |building: &mut Self, id, row: Row<'_>| {
                building.enter(id, row, budget);
                bytes += building.last_bytes();
                entered += 1;
            };
            match block {
                Ok(block) => self.enter_block(table, block, &mut each)?,
                // What is damaged there may have left it.
                Err(_) => self.enter_one_by_one(table, (blocks, number), &mut each)?,
            }
        }
        self.check(table.definition())?;
        Ok(if self.is_complete() { BuildStep::Done } else { BuildStep::More })
    }

    /// Enters the rows of a block that were put off.
    fn enter_block(
        &mut self,
        table: &Table,
        mut block: BlockRows,
        each: &mut dyn FnMut(&mut Self, TupleId, Row<'_>),
    ) -> Result<()> {
        self.put_off.choose(|id| table.block_place(id), &mut block)?;
        table.block_layouts().each_chosen(&block, &mut |id, row| {
            each(self, id, row);
            Ok(())
        })
    }

    /// [`Building::enter_block`] for a block that cannot be read whole.
    fn enter_one_by_one(
        &mut self,
        table: &Table,
        (blocks, number): (Option<&dyn Blocks>, BlockNumber),
        each: &mut dyn FnMut(&mut Self, TupleId, Row<'_>),
    ) -> Result<()> {
        let ids: Vec<TupleId> = self.put_off.of_block(number, |id| table.block_place(id)).collect();
        for id in ids {
            table.visit(id, blocks, &mut |row| {
                each(self, id, row);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A read of the next blocks with rows that were put off, whose outcome is to be [taken](Self::take_read): none
    /// before all other rows are entered, while there are blocks that were read, or behind the last one. Those of the
    /// rows that are live by now are entered. Between transactions only.
    ///
    /// # Errors
    /// If there are no blocks, or the rows violate it.
    pub fn reads(
        &mut self,
        table: &Table,
        blocks: Option<&dyn Blocks>,
        budget: &Budget,
    ) -> Result<Option<BlocksReader>> {
        if self.put_off.is_empty() || !self.read.is_empty() || self.cursor < self.bound || self.failed.is_some() {
            return Ok(None);
        }
        let blocks = blocks.ok_or_else(|| Error::internal("evicted rows without blocks"))?;
        let mut live = Vec::new();
        let at_once = (AtOnce::within(budget.limit()), |block| blocks.bytes_of(block));
        let found = self.put_off.blocks(|id| table.block_place(id), at_once, &mut |id| {
            live.push(id);
            Ok(ControlFlow::Continue(()))
        })?;
        for id in live {
            self.enter(id, table.row_unread(id)?, budget);
        }
        let found: Vec<BlockNumber> = found.into_iter().collect();
        TableBlocks::new(table.definition(), blocks).blocks_reader(found).map(Some)
    }

    /// Takes blocks that were read, for the next steps.
    pub fn take_read(&mut self, read: Vec<ReadBlock>) {
        self.read.extend(read);
    }

    /// Bytes that the last row has added.
    fn last_bytes(&self) -> usize {
        match &self.body {
            Body::Index(index) => index.last_bytes(),
            Body::Rows(rows) => rows.last_bytes(),
        }
    }

    /// Whether all rows are entered.
    const fn is_complete(&self) -> bool {
        self.cursor.0 >= self.bound.0 && self.put_off.is_empty()
    }

    /// An error if the entered rows violate it. Between transactions only.
    fn check(&self, table: &TableDefinition) -> Result<()> {
        match (&self.failed, &self.body) {
            (Some(failed), _) => Err(failed.clone()),
            (None, Body::Index(index)) => index.check(table),
            (None, Body::Rows(rows)) => rows.check(),
        }
    }

    /// An error unless this change is complete and the rows satisfy it. Between transactions only.
    pub fn check_complete(&self, table: &TableDefinition, change: &Change) -> Result<()> {
        self.check(table)?;
        let is_of = match (change, &self.body) {
            (Change::CreateIndex { table, index }, Body::Index(building)) => {
                table.index(*index) == Some(building.definition())
            }
            (Change::AddColumn { table, fill }, Body::Rows(building)) => building.is_of(table, fill),
            _ => false,
        };
        if !is_of || !self.is_complete() {
            return Err(Error::internal(format_args!("{} is not complete, or another one", self.name())));
        }
        Ok(())
    }

    /// Result of a [checked](Self::check_complete) build.
    pub fn into_built(self) -> Built {
        match self.body {
            Body::Index(index) => Built::Index(index.into_index()),
            Body::Rows(rows) => Built::Rows(rows.into_built()),
        }
    }

    /// Checks the invariants against the rows of these ids; the error describes a violation.
    pub fn verify(
        &self,
        table: &Table,
        blocks: Option<&dyn Blocks>,
        ids: impl Iterator<Item = TupleId>,
    ) -> Result<(), String> {
        if self.failed.is_some() {
            return Ok(());
        }
        let met = ids.filter(|id| self.has_met(*id));
        match &self.body {
            Body::Index(index) => index.verify(table, blocks, met),
            Body::Rows(rows) => rows.verify(table, met),
        }
    }
}

#[cfg(test)]
mod tests;
