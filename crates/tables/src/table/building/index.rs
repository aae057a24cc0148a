//! An index that is filled while transactions change its table.

use thermocline_types::{Error, Result};

use crate::schema::{IndexDefinition, TableDefinition};
use crate::table::blocks::Blocks;
use crate::table::budget::{Budget, Growth};
use crate::table::index::Index;
use crate::table::row::Row;
use crate::table::table::Table;
use crate::table::tuple_ids::TupleId;

/// An index under construction, which is not read yet.
///
/// It never refuses a write: two rows with one key of a unique index are both added, and counted, because one of them
/// may be gone when its transaction ends.
///
/// Invariants: an entered row has exactly one entry, or is counted in `unkeyed`; `repeated` is the sum, over all unique
/// keys, of their rows less one.
#[derive(Debug)]
pub(in crate::table) struct BuildingIndex {
    index: Index,
    repeated: usize,
    /// The last key counted there.
    repeated_key: Vec<u8>,
    /// Rows whose key is too long.
    unkeyed: usize,
    /// Error of the last one.
    unkeyed_error: Option<Error>,
    /// A row's entry before a change, and after it.
    before: Entry,
    after: Entry,
}

/// Entry of a row in the index.
#[derive(Debug, Default)]
struct Entry {
    key: Vec<u8>,
    /// Whether the key must be unique.
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

impl BuildingIndex {
    pub fn new(index: Index) -> Self {
        Self {
            index,
            repeated: 0,
            repeated_key: Vec::new(),
            unkeyed: 0,
            unkeyed_error: None,
            before: Entry::default(),
            after: Entry::default(),
        }
    }

    /// Definition of the future index.
    pub fn definition(&self) -> &IndexDefinition {
        self.index.definition()
    }

    /// Bytes charged for it.
    pub fn bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Bytes of the last entered key.
    pub fn last_bytes(&self) -> usize {
        self.after.key.len()
    }

    /// Whether the index holds the column at this position.
    pub fn holds(&self, column: usize) -> bool {
        self.index.holds(column)
    }

    pub fn note(&mut self, row: Row<'_>) {
        self.before.read(&self.index, row);
    }

    /// # Errors
    /// If there is no memory for it; the build is unusable then.
    pub fn enter(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) -> Result<()> {
        self.after.read(&self.index, row);
        self.add_after(id, budget)
    }

    pub fn leave(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        self.note(row);
        self.remove_before(id, budget);
    }

    /// # Errors
    /// As for [`Self::enter`].
    pub fn renew(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) -> Result<()> {
        self.after.read(&self.index, row);
        if self.before.is_same(&self.after) {
            return Ok(());
        }
        self.remove_before(id, budget);
        self.add_after(id, budget)
    }

    fn add_after(&mut self, id: TupleId, budget: &Budget) -> Result<()> {
        let Entry { key, distinct, error } = &mut self.after;
        if let Some(error) = error.take() {
            self.unkeyed += 1;
            self.unkeyed_error = Some(error);
            return Ok(());
        }
        // Memory may be refused even for restored rows, which do not depend on an unfinished index.
        let mut added = self.index.insert(key, *distinct, id, budget, Growth::Asked);
        if added == Ok(false) {
            self.repeated += 1;
            self.repeated_key.clone_from(key);
            added = self.index.insert(key, false, id, budget, Growth::Asked);
        }
        let full = |full| Error::OutOfMemory(format!("index \"{}\": {full}", self.index.definition().name).into());
        added.map(|_| ()).map_err(full)
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

    /// An error if the rows violate the index.
    pub fn check(&self, table: &TableDefinition) -> Result<()> {
        if let Some(error) = self.unkeyed_error.as_ref().filter(|_| self.unkeyed > 0) {
            return Err(error.clone());
        }
        if self.repeated == 0 {
            return Ok(());
        }
        // It may have been removed while another duplicate remains.
        let is_there = self.index.lookup(&self.repeated_key).nth(1).is_some();
        let key = if is_there { self.index.key_text(&self.repeated_key) } else { "(...)".into() };
        Err(Error::duplicate_key(&table.name, &self.definition().name, key))
    }

    /// The complete index.
    pub fn into_index(self) -> Index {
        self.index
    }

    /// Checks the invariants against the entered rows; the error describes a violation.
    pub fn verify(
        &self,
        table: &Table,
        blocks: Option<&dyn Blocks>,
        ids: impl Iterator<Item = TupleId>,
    ) -> Result<(), String> {
        let (mut entries, mut repeated, mut unkeyed) = (0, 0, 0);
        let mut entry = Entry::default();
        for id in ids {
            let read = table.visit(id, blocks, &mut |row| {
                entry.read(&self.index, row);
                Ok(())
            });
            read.map_err(|error| error.to_string())?;
            if entry.error.is_some() {
                unkeyed += 1;
                continue;
            }
            entries += 1;
            let first = self.index.first(&entry.key);
            if !self.index.contains(&entry.key, id) {
                return Err(format!("row {} is missing", id.0));
            }
            repeated += usize::from(entry.distinct && first != Some(id));
        }
        let (counted, there) = ((self.index.entries(), self.repeated, self.unkeyed), (entries, repeated, unkeyed));
        if counted == there { Ok(()) } else { Err(format!("{counted:?} are counted, and {there:?} are there")) }
    }
}
