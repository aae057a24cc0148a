//! Rows of bulk loads: see [`Loads`](super::Loads).

use super::*;
use crate::table::tuple_ids::TupleIds;

impl Table {
    /// Whether look-ups and scans return the row.
    #[inline]
    pub(super) fn is_visible(&self, id: TupleId) -> bool {
        self.loads.is_empty() || !self.loads.hide(id)
    }

    /// Whether it has an unfinished load.
    pub(crate) fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// The unfinished loads, each with its rows.
    pub fn loads(&self) -> impl Iterator<Item = (LoadId, &TupleIds)> {
        self.loads.iter()
    }

    /// The row with this key in a unique index, for a caller about to insert another one.
    ///
    /// # Errors
    /// If the row belongs to an unfinished load: it is unknown whether it will stay.
    pub fn find_to_insert(&self, index: IndexId, key: &[u8]) -> Result<Option<TupleId>> {
        match self.index(index)?.first(key) {
            Some(id) if !self.is_visible(id) => Err(being_loaded(&self.definition)),
            found => Ok(found),
        }
    }

    /// Adds a hidden row of a load, given as an image in this table's layout.
    pub(crate) fn insert_hidden(&mut self, load: LoadId, image: &[u8], undo: &mut Undo) -> Result<TupleId> {
        let id = self.ids.lowest_free();
        self.hide(load, id, Growth::Asked)?;
        self.loads.inserting = Some(load);
        let inserted = self.insert_image(image, undo);
        self.loads.inserting = None;
        if inserted.is_err() {
            self.loads.release(id);
        }
        inserted
    }

    pub(super) fn hide(&mut self, load: LoadId, id: TupleId, growth: Growth) -> Result<()> {
        if id > TupleId::MAX {
            return Err(no_id(&self.definition));
        }
        self.loads.add(load, id, &self.budget, growth).map_err(|full| no_room(&self.definition, full))
    }

    /// Ends a load and makes its rows visible.
    pub(crate) fn end_load(&mut self, load: LoadId) {
        self.loads.end(load, &self.budget);
    }

    /// The first row of a load at or after an id.
    pub(crate) fn next_hidden(&self, load: LoadId, from: TupleId) -> Option<TupleId> {
        self.loads.next(load, from)
    }
}
