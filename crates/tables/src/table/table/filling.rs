//! Loading the rows of a snapshot into an empty table.

use super::*;
use crate::table::blocks::{BlockRows, RowKeys};
use crate::table::index::{IndexFilling, Unfilled};
use crate::table::locator::{BlockNumber, BlockPlace};

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
        self.check_free(id)?;
        indexes.iter_mut().try_for_each(|index| index.add(id, Row::new(&self.layout, image)))?;
        let item = match self.reserve(id).and_then(|()| self.store(id, image, Growth::Forced)) {
            Ok(item) => item,
            Err(error) => {
                self.ids.release(id);
                return Err(error);
            }
        };
        self.locators.set(id, Locator::Live(item));
        self.recency.get_mut().add_hot(id);
        load.map_or(Ok(()), |load| self.hide(load, id, Growth::Forced))
    }

    /// Adds a row of a snapshot that is in a block, as [`Table::fill`] adds others. Its keys are to be
    /// [gathered](Self::fill_keys) from elsewhere.
    ///
    /// # Errors
    /// If the row is already there.
    pub(crate) fn fill_evicted(&mut self, load: Option<LoadId>, id: TupleId, place: BlockPlace) -> Result<()> {
        self.check_free(id)?;
        if place.block > BlockNumber::MAX || place.offset > BlockPlace::OFFSET_MAX {
            let name = &self.definition.name;
            return Err(Error::corrupt(format_args!("the place of row {} of table \"{name}\" in a block", id.0)));
        }
        self.reserve(id)?;
        self.locators.set(id, Locator::Evicted(place));
        self.evicted_ids.reserve(self.id_bound(), &self.budget);
        self.evicted_ids.set(id);
        self.evicted += 1;
        load.map_or(Ok(()), |load| self.hide(load, id, Growth::Forced))
    }

    /// Gathers the keys of a row that is in this place of a block, given as [`RowKeys`] in the order of the indexes with
    /// these numbers; says whether it is.
    ///
    /// # Errors
    /// If they are no keys.
    pub(crate) fn fill_keys(
        &self,
        indexes: &mut [IndexFilling],
        order: &[usize],
        (id, place): (TupleId, BlockPlace),
        mut keys: &[u8],
    ) -> Result<bool> {
        if self.block_place(id) != Some(place) {
            return Ok(false);
        }
        for index in order {
            let damaged =
                || Error::corrupt(format_args!("the keys of row {} of table \"{}\"", id.0, self.definition.name));
            let (key, distinct, rest) = RowKeys::split_first(keys).ok_or_else(damaged)?;
            keys = rest;
            if let Some(index) = indexes.get_mut(*index) {
                index.add_key(id, key, distinct);
            }
        }
        Ok(true)
    }

    /// Gathers the keys of the rows that are in a block still, which was read, and brings them back unless they stay;
    /// returns their number.
    ///
    /// # Errors
    /// If the image of one is none of this table.
    pub(crate) fn fill_from_block(
        &mut self,
        indexes: &mut [IndexFilling],
        mut block: BlockRows,
        stays: bool,
    ) -> Result<u32> {
        block.choose(|id, place| self.block_place(id) == Some(place));
        let mut rows = 0;
        let layouts = self.block_layouts();
        layouts.each_chosen(&block, &mut |id, row| {
            rows += 1;
            indexes.iter_mut().try_for_each(|index| index.add(id, row))?;
            if !stays {
                let item = self.store(id, row.image(), Growth::Forced)?;
                self.locators.set(id, Locator::Live(item));
                self.recency.get_mut().add_cold(id);
                self.leave_block(id);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    fn check_free(&self, id: TupleId) -> Result<()> {
        let wrong = |what: &str| {
            Err(Error::corrupt(format_args!("tuple id {} of table \"{}\"{what}", id.0, self.definition.name)))
        };
        match self.ids.contains(id) {
            _ if id > TupleId::MAX => wrong(""),
            true => wrong(" is there twice"),
            false => Ok(()),
        }
    }

    /// Takes a free id.
    fn reserve(&mut self, id: TupleId) -> Result<()> {
        let taken = self.ids.take(id, &self.budget, Growth::Forced);
        let reserved = taken.and_then(|_| self.locators.reserve(id, &self.budget, Growth::Forced));
        let reserved = reserved.and_then(|()| self.recency.get_mut().reserve(id, &self.budget, Growth::Forced));
        reserved.map_err(|full| self.full(full))
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
