//! Loading the rows of a snapshot into an empty table.

use super::*;

/// Rows indexed between two calls of `check`.
const ROWS_BETWEEN_CHECKS: u32 = 1 << 14;

impl Table {
    /// Adds a row of a snapshot without index entries: see [`Table::index_all`]. Does not ask the budget: committed
    /// rows fit.
    ///
    /// # Errors
    /// If the image does not belong to this table, or the row is already there.
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

    /// Adds a row of a load that was unfinished.
    pub(crate) fn fill_hidden(&mut self, load: LoadId, id: TupleId, image: &[u8]) -> Result<()> {
        self.fill(id, image)?;
        self.hide(load, id, Growth::Forced)
    }

    /// Fills all indexes with the entries of all rows. `check` returns an error if this is to stop.
    ///
    /// # Errors
    /// If two rows share a unique key, or `check` fails. The table is unusable then.
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
