//! Rows of a snapshot, put into an empty table all at once.

use super::*;

/// Rows that are indexed between two questions whether to go on.
const ROWS_BETWEEN_CHECKS: u32 = 1 << 14;

impl Table {
    /// Adds a row of a snapshot, and no entry to any index: see [`Table::index_all`]. Does not ask the budget: what was
    /// committed fits.
    ///
    /// # Errors
    /// If the image is none of this table, or the row is there already.
    pub(crate) fn fill(&mut self, id: TupleId, image: &[u8]) -> Result<()> {
        self.layout.validate(image)?;
        let wrong = |what: &str| {
            Err(Error::Corrupt(format!("tuple id {} of table \"{}\"{what}", id.0, self.definition.name).into()))
        };
        if id > TupleId::MAX {
            return wrong("");
        }
        if self.ids.contains(id) {
            return wrong(" is there twice");
        }
        let taken = self.ids.take(id, &self.budget, Growth::Forced);
        let reserved = taken.and_then(|_| self.locators.reserve(id, &self.budget, Growth::Forced));
        let item = reserved.map_err(|full| self.full(full)).and_then(|()| self.store(id, image, Growth::Forced));
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                self.ids.release(id);
                return Err(error);
            }
        };
        self.locators.set(id, Locator::Live(item));
        Ok(())
    }

    /// The same of a load that was not over.
    pub(crate) fn fill_hidden(&mut self, load: LoadId, id: TupleId, image: &[u8]) -> Result<()> {
        self.fill(id, image)?;
        self.hide(load, id, Growth::Forced)
    }

    /// Gives all indexes the entries of all rows, and no others. `check` is asked meanwhile whether that is to stop.
    ///
    /// # Errors
    /// If two rows have a key that one may have, or `check` gives one. The table is of no use then.
    pub(crate) fn index_all(&mut self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        for position in 0..self.indexes.len() {
            let Some(place) = self.indexes.get(position) else { break };
            let mut index = Index::new(&self.definition, &self.layout, place.definition(), self.seed);
            let filled = self.fill_index(&mut index, check);
            if let (Ok(()), Some(place)) = (&filled, self.indexes.get_mut(position)) {
                std::mem::swap(place, &mut index);
            }
            self.budget.resize(index.bytes(), 0);
            filled?;
        }
        Ok(())
    }

    fn fill_index(&self, index: &mut Index, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut rows = 0_u32;
        let mut row = |id| {
            rows = rows.wrapping_add(1);
            if rows.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                check()?;
            }
            self.row(id)
        };
        match index.fill(self.ids.iter(), self.ids.live(), &mut row, &self.budget)? {
            Ok(None) => Ok(()),
            Ok(Some(key)) => Err(duplicate(&self.definition, index, &key)),
            Err(full) => Err(self.full(full)),
        }
    }
}

#[cfg(test)]
mod tests;
