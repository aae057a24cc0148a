//! Definitions that change indexes and columns of a table.

use thermocline_types::Value;

use super::*;
use crate::schema::IndexDefinition;
use crate::table::blocks::Blocks;
use crate::table::put_off::PutOff;

/// Rows between two calls of `stopped`.
const LOOK_EVERY_ROWS: usize = 1024;

impl Table {
    /// Builds a new index from the rows. `definition` is the table's with the index in it.
    pub fn add_index(&mut self, definition: Arc<TableDefinition>, index: &IndexDefinition) -> Result<()> {
        self.add_index_unless(definition, index, None, &|| Ok(()))
    }

    /// [`Table::add_index`] that fails when `stopped`, called every now and then, returns an error.
    pub fn add_index_unless(
        &mut self,
        definition: Arc<TableDefinition>,
        index: &IndexDefinition,
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut built = Index::new(&definition, &self.layout, index, self.seed);
        let mut key = Vec::new();
        let mut build = || -> Result<()> {
            let mut enter = |id, row: Row<'_>| -> Result<()> {
                let distinct = built.key(row, &mut key)?;
                let added = built.insert(&mut key, distinct, id, &self.budget, Growth::Asked);
                if !added.map_err(|full| self.full(full))? {
                    return Err(duplicate(&definition, &built, &key));
                }
                Ok(())
            };
            self.each_row(blocks, stopped, &mut enter)
        };
        let result = build();
        if result.is_err() {
            self.budget.resize(built.bytes(), 0);
            return result;
        }
        self.add_built(definition, built);
        Ok(())
    }

    /// Adds a complete index to the table.
    pub(super) fn add_built(&mut self, definition: Arc<TableDefinition>, index: Index) {
        self.indexes.push(index);
        self.indexes.sort_by_key(|index| index.definition().id);
        self.definition = definition;
    }

    /// Drops an index. `definition` is the table's without it.
    pub fn drop_index(&mut self, definition: Arc<TableDefinition>, index: IndexId) {
        let budget = Arc::clone(&self.budget);
        self.indexes.retain(|held| {
            let keep = held.definition().id != index;
            if !keep {
                budget.resize(held.bytes(), 0);
            }
            keep
        });
        self.definition = definition;
    }

    /// Takes a definition with the same columns and indexes, of other names; columns that no index holds may become
    /// NOT NULL, for which all rows are read, or nullable. Images of rows are the same then.
    ///
    /// # Errors
    /// If a row has NULL where the definition has none, or cannot be read, and that of `stopped`, which is called every
    /// now and then.
    pub fn redefine(
        &mut self,
        definition: Arc<TableDefinition>,
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let columns = self.definition.columns.iter().zip(&definition.columns).enumerate();
        let filled = columns.filter(|(_, (before, after))| before.nullable && !after.nullable);
        let filled: Vec<usize> = filled.map(|(column, _)| column).collect();
        if !filled.is_empty() {
            self.check_filled(&filled, blocks, stopped)?;
        }
        // It names columns in messages.
        self.layout = Layout::new(&definition)?;
        self.indexes.iter_mut().for_each(|index| index.set_layout(&self.layout));
        for index in &mut self.indexes {
            if let Some(named) = definition.index(index.definition().id) {
                index.rename(&named.name);
            }
        }
        self.definition = definition;
        Ok(())
    }

    /// An error if a row has NULL in one of these columns.
    fn check_filled(
        &self,
        columns: &[usize],
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut check = |_, row: Row<'_>| match columns.iter().find(|column| row.is_null(**column)) {
            None => Ok(()),
            Some(column) => {
                let name = self.definition.columns.get(*column).map_or("", |column| &*column.name);
                let message = format!("column \"{name}\" of table \"{}\" contains NULL", self.definition.name);
                Err(Class::NotNullViolation.error(message))
            }
        };
        self.each_row(blocks, stopped, &mut check)
    }

    /// Gives all rows to `each`, those in blocks after the others, and leaves them where they are. Calls `stopped` every
    /// now and then.
    ///
    /// # Errors
    /// If a row cannot be read; and those of `each` and `stopped`.
    fn each_row(
        &self,
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(TupleId, Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut evicted = PutOff::default();
        for (number, id) in self.ids.iter().enumerate() {
            if number % LOOK_EVERY_ROWS == 0 {
                stopped()?;
            }
            match self.block_place(id) {
                Some(_) => evicted.add(id, self.id_bound()),
                None => each(id, self.row_unread(id)?)?,
            }
        }
        self.each_put_off(&mut evicted, blocks, stopped, each).map(drop)
    }

    /// Gives all rows the columns of this definition: additional ones with this value, or fewer. Evicted rows get them
    /// when they come back.
    ///
    /// The rows are rewritten one by one, because a second layout would slow down every later read and make rows with
    /// the same values unequal; the budget must have room for a second set of them meanwhile.
    pub fn change_columns(&mut self, definition: Arc<TableDefinition>, fill: &Value) -> Result<()> {
        self.change_columns_unless(definition, fill, None, &|| Ok(()))
    }

    /// [`Table::change_columns`] that fails when `stopped`, called every now and then, returns an error.
    pub fn change_columns_unless(
        &mut self,
        definition: Arc<TableDefinition>,
        fill: &Value,
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.check_evicted_fit(&Layout::new(&definition)?, fill, blocks)?;
        self.rewrite(definition, (fill, Growth::Asked), stopped, |table| {
            table.keep_layout_of_evicted(fill.clone(), blocks);
        })
    }

    /// Returns to the columns before [`Table::change_columns`], since which no row was evicted. It
    /// does not ask for memory: other partitions have the earlier columns, and this one must not differ.
    pub fn restore_columns(&mut self, definition: Arc<TableDefinition>) -> Result<()> {
        self.rewrite(definition, (&Value::Null, Growth::Forced), &|| Ok(()), Self::forget_last_layout)
    }

    fn rewrite(
        &mut self,
        definition: Arc<TableDefinition>,
        (fill, growth): (&Value, Growth),
        stopped: &dyn Fn() -> Result<()>,
        before_exchange: impl FnOnce(&mut Self),
    ) -> Result<()> {
        let layout = Layout::new(&definition)?;
        let mut rows = rows_for(&layout);
        let mut locators = Locators::new();
        let mut image = Vec::new();
        let mut rewrite = || -> Result<()> {
            for (number, id) in self.ids.iter().enumerate() {
                if number % LOOK_EVERY_ROWS == 0 {
                    stopped()?;
                }
                if self.block_place(id).is_some() {
                    continue;
                }
                widen(self.row(id)?, fill, &layout, &mut image)?;
                let length = HEADER_BYTES + image.len();
                let item = rows.allocate(length, &self.budget, growth).map_err(|full| self.full(full))?;
                if let Some((header, bytes)) = rows.get_mut(item).and_then(|bytes| bytes.split_first_chunk_mut()) {
                    *header = u64::from(id.0).to_le_bytes();
                    bytes.copy_from_slice(&image);
                }
                locators.reserve(id, &self.budget, growth).map_err(|full| self.full(full))?;
                locators.set(id, Locator::Live(item));
            }
            Ok(())
        };
        let result = rewrite();
        if result.is_ok() {
            // The build has the earlier layout.
            self.drop_build();
            before_exchange(self);
            self.exchange_rows(definition, layout, (&mut rows, &mut locators));
        }
        self.budget.resize_rows(rows.bytes(), 0);
        self.budget.resize(locators.bytes(), 0);
        result
    }

    /// Replaces all rows by those of another layout, with the same ids and keys.
    pub(super) fn exchange_rows(
        &mut self,
        definition: Arc<TableDefinition>,
        layout: Layout,
        (rows, locators): (&mut Slabs, &mut Locators),
    ) {
        if self.evicted == 0 {
            std::mem::swap(&mut self.locators, locators);
        } else {
            let mut next = TupleId(0);
            while let Some(id) = self.next_live(next) {
                if let Some(locator) = locators.get(id) {
                    self.locators.set(id, locator);
                }
                next = TupleId(id.0 + 1);
            }
        }
        std::mem::swap(&mut self.rows, rows);
        self.layout = layout;
        self.indexes.iter_mut().for_each(|index| index.set_layout(&self.layout));
        self.definition = definition;
    }
}

/// Writes the image that a row has in a layout with further columns, all of this value.
///
/// # Errors
/// If the row does not fit in a slot then.
pub(in crate::table) fn widen(row: Row<'_>, fill: &Value, layout: &Layout, image: &mut Vec<u8>) -> Result<()> {
    let columns = row.columns();
    layout.encode(image, |column| if column < columns { row.value(column) } else { fill.as_ref() })?;
    if image.len() > ROW_BYTES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a row would have {} bytes", image.len())));
    }
    Ok(())
}
