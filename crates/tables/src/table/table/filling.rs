//! Loading the rows of a snapshot into an empty table.

use super::*;
use crate::table::index::{IndexFilling, Unfilled};

impl Table {
    /// Begins to fill the table, which is empty: what gathers the keys of each of its indexes.
    pub(crate) fn begin_filling(&self) -> Vec<IndexFilling> {
        let empty = |index: &Index| Index::new(&self.definition, &self.layout, index.definition(), self.seed);
        self.indexes.iter().map(|index| IndexFilling::new(empty(index), &self.budget)).collect()
    }

    /// Adds a row of a snapshot, which belongs to an unfinished load if there is one. Its keys are gathered for the
    /// indexes, which have no entries yet. Does not ask the budget: committed rows have to be somewhere.
    ///
    /// # Errors
    /// If the image does not belong to this table, or the row is already there.
    pub(crate) fn fill(
        &mut self,
        indexes: &mut [IndexFilling],
        load: Option<LoadId>,
        id: TupleId,
        image: &[u8],
    ) -> Result<()> {
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
        indexes.iter_mut().try_for_each(|index| index.add(id, Row::new(&self.layout, image)))?;
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
        load.map_or(Ok(()), |load| self.hide(load, id, Growth::Forced))
    }

    /// Takes an index that [was filled](IndexFilling::finish) with the keys of all rows.
    ///
    /// # Errors
    /// If it could not be filled, as when two rows share a unique key: the table is unusable then.
    pub(crate) fn take_filled(&mut self, (mut index, filled): (Index, Result<(), Unfilled>)) -> Result<()> {
        let same = |held: &&mut Index| held.definition().id == index.definition().id;
        if let Some(place) = self.indexes.iter_mut().find(same).filter(|_| filled.is_ok()) {
            std::mem::swap(place, &mut index);
        }
        self.budget.resize(index.bytes(), 0);
        filled.map_err(|error| match error {
            Unfilled::Duplicate(key) => Error::duplicate_key(&self.definition.name, &index.definition().name, key),
            Unfilled::Full(full) => self.full(full),
            Unfilled::Stopped(error) => error,
        })
    }
}

#[cfg(test)]
mod tests;
