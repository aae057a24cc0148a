//! Definitions that change indexes and columns of a table.

use thermocline_types::Value;

use super::*;
use crate::schema::IndexDefinition;

/// Rows between two calls of `stopped`.
const LOOK_EVERY_ROWS: usize = 1024;

impl Table {
    /// Builds a new index from the rows. `definition` is the table's with the index in it.
    pub fn add_index(&mut self, definition: Arc<TableDefinition>, index: &IndexDefinition) -> Result<()> {
        self.add_index_unless(definition, index, &|| Ok(()))
    }

    /// [`Table::add_index`] that fails when `stopped`, called every now and then, returns an error.
    pub fn add_index_unless(
        &mut self,
        definition: Arc<TableDefinition>,
        index: &IndexDefinition,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut built = Index::new(&definition, &self.layout, index, self.seed);
        let mut key = Vec::new();
        let mut build = || -> Result<()> {
            for (row, id) in self.ids.iter().enumerate() {
                if row % LOOK_EVERY_ROWS == 0 {
                    stopped()?;
                }
                let distinct = built.key(self.row(id)?, &mut key)?;
                let added = built.insert(&mut key, distinct, id, &self.budget, Growth::Asked);
                if !added.map_err(|full| self.full(full))? {
                    return Err(duplicate(&definition, &built, &key));
                }
            }
            Ok(())
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

    /// Gives all rows the columns of this definition: additional ones with this value, or fewer.
    ///
    /// The rows are rewritten one by one, because a second layout would slow down every later read and make rows with
    /// the same values unequal; the budget must have room for a second set of them meanwhile.
    pub fn change_columns(&mut self, definition: Arc<TableDefinition>, fill: &Value) -> Result<()> {
        self.change_columns_unless(definition, fill, &|| Ok(()))
    }

    /// [`Table::change_columns`] that fails when `stopped`, called every now and then, returns an error.
    pub fn change_columns_unless(
        &mut self,
        definition: Arc<TableDefinition>,
        fill: &Value,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.rewrite(definition, fill, Growth::Asked, stopped)
    }

    /// Returns to the columns before [`Table::change_columns`]. It does not ask for memory: other partitions have the
    /// earlier columns, and this one must not differ.
    pub fn restore_columns(&mut self, definition: Arc<TableDefinition>) -> Result<()> {
        self.rewrite(definition, &Value::Null, Growth::Forced, &|| Ok(()))
    }

    fn rewrite(
        &mut self,
        definition: Arc<TableDefinition>,
        fill: &Value,
        growth: Growth,
        stopped: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let layout = Layout::new(&definition)?;
        let mut rows = rows_for(&layout);
        let mut locators = Locators::new();
        let mut image = Vec::new();
        let old_columns = self.layout.columns();
        let mut rewrite = || -> Result<()> {
            for (number, id) in self.ids.iter().enumerate() {
                if number % LOOK_EVERY_ROWS == 0 {
                    stopped()?;
                }
                let row = self.row(id)?;
                layout.encode(
                    &mut image,
                    |column| {
                        if column < old_columns { row.value(column) } else { fill.as_ref() }
                    },
                )?;
                if image.len() > ROW_BYTES_MAX {
                    return Err(Class::LimitExceeded.error(format_args!("a row would have {} bytes", image.len())));
                }
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
            self.exchange_rows(definition, layout, (&mut rows, &mut locators));
        }
        self.budget.resize(rows.bytes() + locators.bytes(), 0);
        result
    }

    /// Replaces all rows by those of another layout, with the same ids and keys.
    pub(super) fn exchange_rows(
        &mut self,
        definition: Arc<TableDefinition>,
        layout: Layout,
        (rows, locators): (&mut Slabs, &mut Locators),
    ) {
        std::mem::swap(&mut self.rows, rows);
        std::mem::swap(&mut self.locators, locators);
        self.layout = layout;
        self.indexes.iter_mut().for_each(|index| index.set_layout(&self.layout));
        self.definition = definition;
    }
}
