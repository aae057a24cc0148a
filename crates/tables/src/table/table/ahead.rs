//! Reading ahead: look-ups of many keys that wait for memory together.

use thermocline_types::Result;

use super::Table;
use crate::schema::IndexId;
use crate::table::keys::{Keys, OfLookUps};
use crate::table::locator::Locator;
use crate::table::slab::Item;
use crate::table::tuple_ids::TupleId;

const CACHE_LINE_BYTES: usize = 64;

impl Table {
    /// Brings what look-ups of these keys in a hash index will read into the processor's caches: first what is in
    /// the index, then the locators, then the rows.
    pub fn read_ahead(&self, index: IndexId, keys: &Keys) -> Result<()> {
        let mut ids = OfLookUps::new();
        self.index(index)?.read_ahead(keys, &mut ids);
        self.read_rows_ahead(&ids);
        Ok(())
    }

    /// The rows of a unique index with these keys, in their order. They are in the processor's caches then, as by
    /// [`Table::read_ahead`].
    pub fn find_each(&self, index: IndexId, keys: &Keys) -> Result<OfLookUps<Option<TupleId>>> {
        let mut found = self.index(index)?.first_of_each(keys);
        if self.is_loading() {
            found.iter_mut().for_each(|id| *id = id.filter(|id| self.is_visible(*id)));
        }
        self.read_each_ahead(found.iter().copied().flatten());
        Ok(found)
    }

    /// Brings rows into the processor's caches: first their locators, then themselves.
    pub fn read_rows_ahead(&self, ids: &[TupleId]) {
        self.read_each_ahead(ids.iter().copied());
    }

    fn read_each_ahead(&self, ids: impl Iterator<Item = TupleId>) {
        let mut items: OfLookUps<Item> = OfLookUps::new();
        for id in ids {
            if let Some(Locator::Live(item)) = self.locators.get(id) {
                items.push(item);
            }
        }
        let mut read = 0;
        for item in items {
            let lines = self.rows.get(item).unwrap_or_default().chunks(CACHE_LINE_BYTES);
            lines.filter_map(<[u8]>::first).for_each(|byte| read ^= byte);
        }
        // Nobody needs the sum; without it nothing would be read.
        std::hint::black_box(read);
    }
}
