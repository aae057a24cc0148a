use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::{Budget, Growth};
use super::index::Index;
use super::row::Row;
use super::table::Table;
use super::tuple_ids::TupleId;
use crate::error::{Error, Result};
use crate::schema::{IndexDefinition, TableDefinition};

/// Bytes of keys after which a step ends: few rows may have long ones.
const STEP_KEY_BYTES: usize = 128 << 10;

/// One CREATE INDEX, which builds the index of each partition in steps.
#[derive(Debug, Default)]
pub(crate) struct Build {
    is_over: AtomicBool,
}

impl Build {
    /// Gives it up: what was built goes when a partition next [looks](Table::drop_build_given_up).
    pub fn give_up(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Whether nobody wants the index any more.
    pub fn is_given_up(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// What a step of building came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildStep {
    /// There are rows that it has not met.
    More,
    /// All rows are in the index, and writers keep it up.
    Done,
}

/// An index that is filled in steps while rows change in between. Nothing reads it.
///
/// ```text
///  tuple ids   0 ............ cursor ............ bound ...........
///              in the index:  not met yet         in the index:
///              kept up by                         added by
///              who writes                         who writes
/// ```
///
/// Who writes is never refused because of it: two rows with one key of a unique index are both added, and counted, for
/// one of them may be gone when its transaction ends. Between transactions, where steps run, what is counted is
/// committed, and ends the build. So does a lack of memory.
///
/// Invariants, unless `failed`:
/// - a row below `cursor` or from `bound` on has exactly one entry, or is counted in `unkeyed`; no other row has one
/// - `repeated` is the sum of rows less one over all keys that no two rows may have
/// - `cursor` only grows, and ids from `bound` on were free when the build began
#[derive(Debug)]
pub(super) struct Building {
    build: Arc<Build>,
    index: Index,
    cursor: TupleId,
    bound: TupleId,
    repeated: usize,
    /// The key that was last counted there.
    repeated_key: Vec<u8>,
    /// Rows whose key is too long.
    unkeyed: usize,
    /// Why the last one was.
    unkeyed_error: Option<Error>,
    /// Why it cannot go on; it has no memory then.
    failed: Option<Error>,
    /// A row's entry before a change, and after it.
    before: Entry,
    after: Entry,
}

/// What a row has in the index.
#[derive(Debug, Default)]
struct Entry {
    key: Vec<u8>,
    /// Whether no other row may have the key.
    distinct: bool,
    /// Why there is no key; `None` if there is one.
    error: Option<Error>,
}

impl Entry {
    fn read(&mut self, index: &Index, row: Row<'_>) {
        match index.key(row, &mut self.key) {
            Ok(distinct) => (self.distinct, self.error) = (distinct, None),
            Err(error) => self.error = Some(error),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.error, &other.error) {
            (None, None) => self.key == other.key,
            (before, after) => before.is_some() == after.is_some(),
        }
    }
}

impl Building {
    /// Begins with the rows of a table as they are now.
    pub fn new(build: &Arc<Build>, index: Index, bound: TupleId) -> Self {
        Self {
            build: Arc::clone(build),
            index,
            cursor: TupleId(0),
            bound,
            repeated: 0,
            repeated_key: Vec::new(),
            unkeyed: 0,
            unkeyed_error: None,
            failed: None,
            before: Entry::default(),
            after: Entry::default(),
        }
    }

    /// Whose it is.
    pub fn build(&self) -> &Arc<Build> {
        &self.build
    }

    /// What the index will be.
    pub fn definition(&self) -> &IndexDefinition {
        self.index.definition()
    }

    /// Bytes that are charged for it.
    pub fn bytes(&self) -> usize {
        if self.failed.is_none() { self.index.bytes() } else { 0 }
    }

    /// Whether the index holds the column at this position.
    pub fn holds(&self, column: usize) -> bool {
        self.index.holds(column)
    }

    /// Gives back its memory.
    pub fn release(&self, budget: &Budget) {
        budget.resize(self.bytes(), 0);
    }

    /// Whether it has met the row: who writes it keeps the index up.
    fn has_met(&self, id: TupleId) -> bool {
        self.failed.is_none() && (id < self.cursor || id >= self.bound)
    }

    /// A row is new.
    pub fn enter(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if self.has_met(id) {
            self.after.read(&self.index, row);
            self.add_after(id, budget);
        }
    }

    /// A row goes.
    pub fn leave(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if self.has_met(id) {
            self.before.read(&self.index, row);
            self.remove_before(id, budget);
        }
    }

    /// A row may be about to change; [`Building::renew`] follows if it does.
    pub fn note(&mut self, id: TupleId, row: Row<'_>) {
        if self.has_met(id) {
            self.before.read(&self.index, row);
        }
    }

    /// A row has changed since it was noted.
    pub fn renew(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        if !self.has_met(id) {
            return;
        }
        self.after.read(&self.index, row);
        if !self.before.is_same(&self.after) {
            self.remove_before(id, budget);
            self.add_after(id, budget);
        }
    }

    fn add_after(&mut self, id: TupleId, budget: &Budget) {
        let Entry { key, distinct, error } = &mut self.after;
        if let Some(error) = error.take() {
            self.unkeyed += 1;
            self.unkeyed_error = Some(error);
            return;
        }
        // Not even where rows come back: they can do without an index that there is not.
        let mut added = self.index.insert(key, *distinct, id, budget, Growth::Asked);
        if added == Ok(false) {
            self.repeated += 1;
            self.repeated_key.clone_from(key);
            added = self.index.insert(key, false, id, budget, Growth::Asked);
        }
        if let Err(full) = added {
            let name = &self.index.definition().name;
            self.release(budget);
            self.failed = Some(Error::OutOfMemory(format!("index \"{name}\": {full}").into()));
        }
    }

    fn remove_before(&mut self, id: TupleId, budget: &Budget) {
        let Entry { key, distinct, error } = &mut self.before;
        if error.is_some() {
            self.unkeyed -= 1;
            return;
        }
        self.index.remove(key, id, budget);
        if *distinct && self.repeated > 0 && self.index.first(key).is_some() {
            self.repeated -= 1;
        }
    }

    /// Adds up to so many rows that it has not met. Between transactions only.
    ///
    /// # Errors
    /// If the rows cannot have the index, or there is no memory for it.
    pub fn fill(&mut self, table: &Table, budget: &Budget, rows: u32) -> Result<BuildStep> {
        self.check(table.definition())?;
        let mut key_bytes = 0;
        for _ in 0..rows {
            let Some(id) = table.next(self.cursor).filter(|id| *id < self.bound) else {
                self.cursor = self.bound;
                break;
            };
            let row = table.row(id)?;
            self.cursor = TupleId(id.0 + 1);
            self.enter(id, row, budget);
            key_bytes += self.after.key.len();
            if key_bytes >= STEP_KEY_BYTES || self.failed.is_some() {
                break;
            }
        }
        self.check(table.definition())?;
        Ok(if self.cursor < self.bound { BuildStep::More } else { BuildStep::Done })
    }

    /// An error if the rows that it has met cannot have the index. Between transactions only.
    fn check(&self, table: &TableDefinition) -> Result<()> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if let Some(error) = self.unkeyed_error.as_ref().filter(|_| self.unkeyed > 0) {
            return Err(error.clone());
        }
        if self.repeated == 0 {
            return Ok(());
        }
        // It may have gone, and another one is left.
        let is_there = self.index.lookup(&self.repeated_key).nth(1).is_some();
        let key = if is_there { self.index.key_text(&self.repeated_key) } else { "(...)".into() };
        Err(Error::duplicate_key(&table.name, &self.definition().name, key))
    }

    /// An error unless the index is complete, and the rows can have it. Between transactions only.
    pub fn check_complete(&self, table: &TableDefinition) -> Result<()> {
        self.check(table)?;
        if self.cursor < self.bound {
            return Err(Error::internal(format_args!("index \"{}\" is not complete", self.definition().name)));
        }
        Ok(())
    }

    /// The complete index.
    pub fn into_index(self) -> Index {
        self.index
    }

    /// Checks the invariants; an error says what is wrong.
    pub fn verify(&self, table: &Table, ids: impl Iterator<Item = TupleId>) -> Result<(), String> {
        if self.failed.is_some() {
            return Ok(());
        }
        let (mut entries, mut repeated, mut unkeyed) = (0, 0, 0);
        let mut entry = Entry::default();
        for id in ids.filter(|id| self.has_met(*id)) {
            let row = table.row(id).map_err(|error| error.to_string())?;
            entry.read(&self.index, row);
            if entry.error.is_some() {
                unkeyed += 1;
                continue;
            }
            entries += 1;
            let mut found = self.index.lookup(&entry.key);
            let first = found.next();
            if first != Some(id) && !found.any(|other| other == id) {
                return Err(format!("row {} is missing", id.0));
            }
            repeated += usize::from(entry.distinct && first != Some(id));
        }
        let (counted, there) = ((self.index.entries(), self.repeated, self.unkeyed), (entries, repeated, unkeyed));
        if counted == there { Ok(()) } else { Err(format!("{counted:?} are counted, and {there:?} are there")) }
    }
}

#[cfg(test)]
mod tests;
