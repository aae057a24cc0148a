//! Prefetching: look-ups of many keys that wait for memory together.

use thermocline_types::Result;

use super::Table;
use crate::schema::IndexId;
use crate::table::keys::{Keys, OfLookUps};
use crate::table::locator::Locator;
use crate::table::slab::Item;
use crate::table::tuple_ids::TupleId;

const CACHE_LINE_BYTES: usize = 64;

impl Table {
    /// Prefetches what look-ups of these keys in a hash index will read: first the index entries, then the locators,
    /// then the rows.
    pub fn read_ahead(&self, index: IndexId, keys: &Keys) -> Result<()> {
        let mut ids = OfLookUps::new();
        self.index(index)?.read_ahead(keys, &mut ids);
        self.read_rows_ahead(&ids);
        Ok(())
    }

    /// The rows of a unique index with these keys, in order. They are prefetched as by [`Table::read_ahead`].
    pub fn find_each(&self, index: IndexId, keys: &Keys) -> Result<OfLookUps<Option<TupleId>>> {
        let mut found = self.index(index)?.first_of_each(keys);
        if self.is_loading() {
            found.iter_mut().for_each(|id| *id = id.filter(|id| self.is_visible(*id)));
        }
        self.read_each_ahead(found.iter().copied().flatten());
        Ok(found)
    }

    /// Prefetches rows: first their locators, then the rows.
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
        // The sum is unused; without it the reads would be optimized away.
        std::hint::black_box(read);
    }
}
