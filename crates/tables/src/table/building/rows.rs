//! Rows with a further column that are written while transactions change the table.

use std::sync::Arc;

use thermocline_types::{Error, Result, Value};

use crate::schema::TableDefinition;
use crate::table::budget::{Budget, Growth};
use crate::table::layout::Layout;
use crate::table::locator::{Locator, Locators};
use crate::table::row::Row;
use crate::table::slab::{Item, Slabs};
use crate::table::table::{HEADER_BYTES, Table, rows_for, widen};
use crate::table::tuple_ids::TupleId;

/// Rows with further columns, which replace the table's rows when all are complete.
///
/// Invariants: an entered row has a slot with its header and its image in the new layout, or is counted in `unfit`;
/// `entries` is the number with a slot.
#[derive(Debug)]
pub(in crate::table) struct BuildingRows {
    definition: Arc<TableDefinition>,
    /// Value of the further columns in every row.
    fill: Value,
    layout: Layout,
    rows: Slabs,
    locators: Locators,
    entries: usize,
    /// Rows that would be too long.
    unfit: usize,
    /// Error of the last one.
    unfit_error: Option<Error>,
    /// Whether the noted row is not counted in `unfit`.
    noted_fits: bool,
    image: Vec<u8>,
}

/// Rows that replace those of a table.
pub(in crate::table) struct BuiltRows {
    pub layout: Layout,
    pub rows: Slabs,
    pub locators: Locators,
    /// Value of the further columns in rows of the earlier layout.
    pub fill: Value,
}

impl BuildingRows {
    pub fn new(definition: &Arc<TableDefinition>, fill: &Value) -> Result<Self> {
        let layout = Layout::new(definition)?;
        Ok(Self {
            definition: Arc::clone(definition),
            fill: fill.clone(),
            rows: rows_for(&layout),
            layout,
            locators: Locators::new(),
            entries: 0,
            unfit: 0,
            unfit_error: None,
            noted_fits: false,
            image: Vec::new(),
        })
    }

    /// Whether it belongs to this change.
    pub fn is_of(&self, definition: &TableDefinition, fill: &Value) -> bool {
        *self.definition == *definition && self.fill == *fill
    }

    /// Bytes of the rows, and of their locators.
    pub fn bytes(&self) -> (usize, usize) {
        (self.rows.bytes(), self.locators.bytes())
    }

    /// Bytes of the last entered row.
    pub fn last_bytes(&self) -> usize {
        self.image.len()
    }

    fn encode_own(&mut self, row: Row<'_>) -> Result<()> {
        let mut image = std::mem::take(&mut self.image);
        let encoded = widen(row, &self.fill, &self.layout, &mut image);
        self.image = image;
        encoded
    }

    fn item(&self, id: TupleId) -> Option<Item> {
        match self.locators.get(id) {
            Some(Locator::Live(item)) => Some(item),
            _ => None,
        }
    }

    pub fn note(&mut self, row: Row<'_>) {
        self.noted_fits = self.encode_own(row).is_ok();
    }

    /// # Errors
    /// If there is no memory for it; the build is unusable then.
    pub fn enter(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) -> Result<()> {
        if let Err(error) = self.encode_own(row) {
            self.unfit += 1;
            self.unfit_error = Some(error);
            return Ok(());
        }
        let name = &self.definition.name;
        let full = |full| Error::OutOfMemory(format!("table \"{name}\" with another column: {full}").into());
        self.locators.reserve(id, budget, Growth::Asked).map_err(full)?;
        let item = self.rows.allocate(HEADER_BYTES + self.image.len(), budget, Growth::Asked).map_err(full)?;
        if let Some((header, bytes)) = self.rows.get_mut(item).and_then(|bytes| bytes.split_first_chunk_mut()) {
            *header = u64::from(id.0).to_le_bytes();
            bytes.copy_from_slice(&self.image);
        }
        self.locators.set(id, Locator::Live(item));
        self.entries += 1;
        Ok(())
    }

    pub fn leave(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) {
        self.note(row);
        self.leave_noted(id, budget);
    }

    fn leave_noted(&mut self, id: TupleId, budget: &Budget) {
        if !self.noted_fits {
            self.unfit -= 1;
        } else if let Some(item) = self.item(id) {
            self.rows.free(item, budget);
            self.entries -= 1;
        }
    }

    /// # Errors
    /// As for [`Self::enter`].
    pub fn renew(&mut self, id: TupleId, row: Row<'_>, budget: &Budget) -> Result<()> {
        // Most of the memory that it takes is freed here.
        self.leave_noted(id, budget);
        self.enter(id, row, budget)
    }

    /// An error if the rows cannot have the columns.
    pub fn check(&self) -> Result<()> {
        self.unfit_error.as_ref().filter(|_| self.unfit > 0).map_or(Ok(()), |error| Err(error.clone()))
    }

    pub fn into_built(self) -> BuiltRows {
        let Self { layout, rows, locators, fill, .. } = self;
        BuiltRows { layout, rows, locators, fill }
    }

    /// Checks the invariants against the entered rows; the error describes a violation.
    pub fn verify(&self, table: &Table, ids: impl Iterator<Item = TupleId>) -> Result<(), String> {
        let (mut entries, mut unfit, mut image) = (0, 0, Vec::new());
        for id in ids.filter(|id| table.block_place(*id).is_none()) {
            let row = table.row(id).map_err(|error| error.to_string())?;
            if widen(row, &self.fill, &self.layout, &mut image).is_err() {
                unfit += 1;
                continue;
            }
            entries += 1;
            let bytes = self.item(id).and_then(|item| self.rows.get(item));
            let expected = (&u64::from(id.0).to_le_bytes(), &*image);
            if bytes.and_then(|bytes| bytes.split_first_chunk()) != Some(expected) {
                return Err(format!("row {} is missing, or another one", id.0));
            }
        }
        let (counted, there) = ((self.entries, self.unfit), (entries, unfit));
        if counted == there { Ok(()) } else { Err(format!("{counted:?} are counted, and {there:?} are there")) }
    }
}
