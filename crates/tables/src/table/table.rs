//! Rows and indexes of one table in one partition.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::LoadId;
use thermocline_types::{Class, Error, Result, ValueRef};

use super::budget::{Budget, Full, Growth};
use super::building::Building;
use super::encoder::{Encoder, Parameter};
use super::index::Index;
use super::layout::Layout;
use super::loads::Loads;
use super::locator::{Locator, Locators};
use super::patch::{IntegerPlace, Patch};
use super::row::Row;
use super::row_bits::RowBits;
use super::slab::{ITEM_BYTES_MAX, Item, Slabs};
use super::tuple_ids::{TupleId, TupleIds};
use super::undo::Undo;
use super::use_counts::UseCounts;
use crate::schema::{IndexId, TableDefinition, TableId};

mod ahead;
mod building;
mod covering;
mod eviction;
mod filling;
mod loading;
mod recency;
mod reshape;
mod verify;

pub use eviction::{BlockLayouts, EvictedRows, Search};
use eviction::{EarlierLayout, Wanted};
use recency::Recency;
pub(super) use reshape::widen;

/// Bytes before a row's image.
///
/// ```text
/// 0         4                   8
/// tuple id  access epoch        image
/// ```
///
/// The tuple id leads from a slot back to its locator when rows are moved or evicted by slot. The
/// access epoch is written when rows can be evicted; until then it is 0.
pub const HEADER_BYTES: usize = 8;

/// Maximum bytes of a row's image.
pub const ROW_BYTES_MAX: usize = ITEM_BYTES_MAX - HEADER_BYTES;

/// The rows of one table in one partition, and its indexes.
///
/// ```text
/// index: key -> tuple id -> locator -> slot of a size class: header, image
/// ```
///
/// Invariants: exactly the taken tuple ids have a live or evicted locator; every index has exactly one entry for each
/// of them, with the key of its image; the budget is charged with [`Table::memory`]'s sum. A failed operation leaves
/// the table unchanged. Look-ups and scans skip rows of unfinished loads, which nevertheless have their ids, slots and
/// keys.
#[derive(Debug)]
pub struct Table {
    definition: Arc<TableDefinition>,
    layout: Layout,
    ids: TupleIds,
    locators: Locators,
    rows: Slabs,
    indexes: Vec<Index>,
    /// An incomplete index or set of rows, not yet part of the table; `None` without a build.
    building: Option<Box<Building>>,
    loads: Loads,
    /// In how many rounds of the search for cold rows they were used; nothing under [`Victims::Chain`].
    uses: UseCounts,
    /// Whether uses are counted.
    counts_uses: bool,
    /// Whether reads and writes of rows are noted in `recency`: a sampled transaction runs.
    is_monitored: bool,
    recency: Mutex<Recency>,
    /// Where that search goes on.
    hand: TupleId,
    /// Rows in blocks, and their number.
    evicted_ids: RowBits,
    evicted: usize,
    /// Rows that came back since the last snapshot, and are not counted as what a replay would read.
    came_back: RowBits,
    /// Rows that went to blocks, and that came back, since the start.
    evicted_total: u64,
    returned_total: u64,
    /// Of these, those that a transaction has needed.
    needed_total: u64,
    /// Those of them that transactions have needed.
    wanted: Mutex<Wanted>,
    /// Layouts of those that were evicted before columns were added.
    earlier: Vec<EarlierLayout>,
    /// Rows that stay in memory until a transaction is over: it has needed or changed them.
    pinned: BTreeSet<TupleId>,
    /// Those that it has needed.
    returned: Vec<TupleId>,
    budget: Arc<Budget>,
    seed: u64,
    scratch: Scratch,
}

/// Place of a row.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    id: TupleId,
    item: Item,
}

/// Buffers reused by operations, so that they do not allocate.
#[derive(Debug, Default)]
struct Scratch {
    image: Vec<u8>,
    old_keys: Vec<Key>,
    new_keys: Vec<Key>,
}

/// A row's key in an index.
#[derive(Debug, Default)]
struct Key {
    bytes: Vec<u8>,
    /// Whether it must be unique.
    distinct: bool,
}

/// Bytes of a table, by use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMemory {
    /// Arenas of rows.
    pub rows: usize,
    /// Locators, the bitmaps of tuple ids, and the rows' order of use.
    pub locators: usize,
    /// Each index; the last may be under construction.
    pub indexes: Vec<(IndexId, usize)>,
}

impl TableMemory {
    /// The sum.
    pub fn total(&self) -> usize {
        self.rows + self.locators + self.indexes.iter().map(|(_, bytes)| bytes).sum::<usize>()
    }
}

impl Table {
    /// An empty table. The seed decides where hashed keys are placed, which has no visible effect.
    pub fn new(definition: Arc<TableDefinition>, budget: Arc<Budget>, seed: u64) -> Result<Self> {
        let layout = Layout::new(&definition)?;
        let rows = rows_for(&layout);
        let indexes = definition.indexes.iter().map(|index| Index::new(&definition, &layout, index, seed)).collect();
        Ok(Self {
            definition,
            layout,
            ids: TupleIds::new(),
            locators: Locators::new(),
            rows,
            indexes,
            building: None,
            loads: Loads::default(),
            uses: UseCounts::default(),
            counts_uses: false,
            is_monitored: false,
            recency: Mutex::default(),
            hand: TupleId(0),
            evicted_ids: RowBits::default(),
            came_back: RowBits::default(),
            evicted: 0,
            evicted_total: 0,
            returned_total: 0,
            needed_total: 0,
            wanted: Mutex::default(),
            earlier: Vec::new(),
            pinned: BTreeSet::new(),
            returned: Vec::new(),
            budget,
            seed,
            scratch: Scratch::default(),
        })
    }

    /// Definition of the table.
    pub fn definition(&self) -> &Arc<TableDefinition> {
        &self.definition
    }

    /// Layout of its rows.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn id(&self) -> TableId {
        self.definition.id
    }

    /// Number of rows, without those of unfinished loads.
    pub fn rows(&self) -> usize {
        self.ids.live() - self.loads.rows()
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> TableMemory {
        let building = self.building.as_ref().map(|building| building.bytes());
        let (index, rows, locators) = building.unwrap_or_default();
        TableMemory {
            rows: self.rows.bytes() + rows,
            locators: self.locators.bytes()
                + locators
                + self.ids.bytes()
                + self.loads.bytes()
                + self.uses.bytes()
                + self.recency.lock().bytes()
                + self.evicted_ids.bytes()
                + self.came_back.bytes(),
            indexes: self.indexes.iter().map(|index| (index.definition().id, index.bytes())).chain(index).collect(),
        }
    }

    /// The row with this id. [`Error::Evicted`] if it is in a block.
    #[inline]
    pub fn row(&self, id: TupleId) -> Result<Row<'_>> {
        self.get(id)?.ok_or_else(|| self.no_row(id))
    }

    /// The row with this id; `None` if there is none.
    #[inline]
    pub fn get(&self, id: TupleId) -> Result<Option<Row<'_>>> {
        if !self.ids.contains(id) {
            return Ok(None);
        }
        let image = self.rows.get_from(self.item(id)?, HEADER_BYTES);
        self.note_access(id);
        Ok(Some(Row::new(&self.layout, image.ok_or_else(|| self.no_row(id))?)))
    }

    #[inline]
    fn item(&self, id: TupleId) -> Result<Item> {
        match self.locators.get(id) {
            Some(Locator::Live(item)) => Ok(item),
            Some(Locator::Evicted(_)) => Err(self.want(id)),
            None => Err(self.no_row(id)),
        }
    }

    #[cold]
    fn no_row(&self, id: TupleId) -> Error {
        no_row(&self.definition, id)
    }

    #[cold]
    fn full(&self, full: Full) -> Error {
        no_room(&self.definition, full)
    }

    /// The ids of all rows, in order.
    pub fn scan(&self) -> impl Iterator<Item = TupleId> {
        self.ids.iter().filter(|id| self.is_visible(*id))
    }

    /// The first row at or after an id, including rows of unfinished loads; for scans in steps between which rows
    /// change.
    pub fn next(&self, from: TupleId) -> Option<TupleId> {
        self.ids.next(from)
    }

    /// Upper bound of all rows' ids.
    pub fn id_bound(&self) -> TupleId {
        self.ids.bound()
    }

    /// An index.
    pub fn index(&self, id: IndexId) -> Result<&Index> {
        self.indexes
            .iter()
            .find(|index| index.definition().id == id)
            .ok_or_else(|| Error::internal(format_args!("table \"{}\" has no index {}", self.definition.name, id.0)))
    }

    /// The rows with this key, in the order of their ids; see [`crate::key`] for keys. For an ordered index, the key
    /// may have only the leading columns.
    pub fn lookup(&self, index: IndexId, key: &[u8]) -> Result<impl DoubleEndedIterator<Item = TupleId> + use<'_>> {
        Ok(self.index(index)?.lookup(key).filter(|id| self.is_visible(*id)))
    }

    /// The row with this key in a unique index.
    #[inline]
    pub fn find(&self, index: IndexId, key: &[u8]) -> Result<Option<TupleId>> {
        Ok(self.index(index)?.first(key).filter(|id| self.is_visible(*id)))
    }

    /// Keys and rows of an ordered index between two bounds, from either end. A bound stands for all keys with that
    /// prefix.
    pub fn range(
        &self,
        index: IndexId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<impl DoubleEndedIterator<Item = (&[u8], TupleId)> + use<'_>> {
        let index = self.index(index)?;
        let entries = index.range(from, to);
        let entries = entries
            .ok_or_else(|| Error::internal(format_args!("a range of hash index \"{}\"", index.definition().name)))?;
        Ok(entries.filter(|(_, id)| self.is_visible(*id)))
    }

    /// Adds a row of values of the columns' types.
    pub fn insert(&mut self, values: &[ValueRef<'_>], undo: &mut Undo) -> Result<TupleId> {
        let mut image = std::mem::take(&mut self.scratch.image);
        let result = self.layout.encode(&mut image, |column| values.get(column).copied().unwrap_or_default());
        let result = result.and_then(|()| self.insert_image(&image, undo));
        self.scratch.image = image;
        result
    }

    /// Adds a row from a statement's parameters and `other` values by column; see [`Encoder`].
    #[inline]
    pub fn insert_encoded<'v, V: Parameter>(
        &mut self,
        encoder: &Encoder,
        parameters: &'v [V],
        other: impl Fn(usize) -> ValueRef<'v>,
        convert: impl Fn(usize, ValueRef<'v>) -> Result<ValueRef<'v>>,
        undo: &mut Undo,
    ) -> Result<TupleId> {
        let mut image = std::mem::take(&mut self.scratch.image);
        let result = encoder.encode(&self.layout, &mut image, parameters, other, convert);
        let result = result.and_then(|()| self.insert_image(&image, undo));
        self.scratch.image = image;
        result
    }

    /// Adds a row given as an image in this table's layout.
    pub fn insert_image(&mut self, image: &[u8], undo: &mut Undo) -> Result<TupleId> {
        let id = self.ids.lowest_free();
        if id > TupleId::MAX {
            return Err(no_id(&self.definition));
        }
        undo.push(self.id(), id, None)?;
        let result = self.place(id, image, Growth::Asked);
        match result {
            Ok(()) => {
                let digest = undo.digest_mut();
                *digest = digest.with_row(self.definition.id, id, Some(image));
            }
            Err(_) => undo.forget_last(),
        }
        result.map(|()| id)
    }

    /// Changes columns of a row to values of the columns' types.
    pub fn update(&mut self, id: TupleId, changes: &[(usize, ValueRef<'_>)], undo: &mut Undo) -> Result<()> {
        let row = self.row(id)?;
        undo.push(self.definition.id, id, Some(row.image()))?;
        let indexed = changes.iter().any(|(column, _)| self.is_indexed(*column));
        let patched = if indexed { Ok(false) } else { self.patch(id, changes) };
        let result = patched.and_then(|is_patched| {
            if is_patched {
                return Ok(());
            }
            let mut image = std::mem::take(&mut self.scratch.image);
            let result = self.row_unread(id).and_then(|row| {
                let changed = |column| changes.iter().rev().find(|(changed, _)| *changed == column);
                self.layout
                    .encode(&mut image, |column| changed(column).map_or_else(|| row.value(column), |(_, value)| *value))
            });
            let result = result.and_then(|()| {
                if indexed { self.replace(id, &image, Growth::Asked) } else { self.replace_image(id, &image) }
            });
            self.scratch.image = image;
            result
        });
        let result = result.and_then(|()| {
            let (image, digest) = (self.row(id)?.image(), undo.digest_mut());
            *digest = changes.iter().fold(digest.with_change(self.definition.id, id), |digest, (column, _)| {
                digest.with_column(&self.layout, image, *column)
            });
            Ok(())
        });
        if result.is_err() {
            undo.forget_last();
        }
        result
    }

    fn is_indexed(&self, column: usize) -> bool {
        self.indexes.iter().any(|index| index.holds(column))
            || self.building.as_ref().is_some_and(|building| building.holds(column))
    }

    /// Place of the row with this id, valid until the table changes.
    #[inline]
    pub fn place_of(&self, id: TupleId) -> Result<Place> {
        if !self.ids.contains(id) {
            return Err(self.no_row(id));
        }
        let item = self.item(id)?;
        self.note_access(id);
        Ok(Place { id, item })
    }

    /// The row in a place.
    #[inline]
    pub fn row_at(&self, place: Place) -> Result<Row<'_>> {
        let image = self.rows.get_from(place.item, HEADER_BYTES);
        Ok(Row::new(&self.layout, image.ok_or_else(|| self.no_row(place.id))?))
    }

    /// Changes columns of fixed width that no complete index contains, and returns the changed row.
    #[inline]
    pub fn patch_row(&mut self, Place { id, item }: Place, patch: &Patch, undo: &mut Undo) -> Result<Row<'_>> {
        if self.building.is_some() {
            self.note(id, item);
        }
        let image = self.rows.get_from_mut(item, HEADER_BYTES);
        let Some(image) = image else { return Err(no_row(&self.definition, id)) };
        undo.push(self.definition.id, id, Some(image))?;
        patch.apply(image);
        let digest = undo.digest_mut();
        *digest = patch.columns().fold(digest.with_change(self.definition.id, id), |digest, column| {
            digest.with_column(&self.layout, image, column)
        });
        let row = Row::new(&self.layout, image);
        if let Some(building) = &mut self.building {
            building.renew(id, row, &self.budget);
        }
        Ok(row)
    }

    /// Changes integers that no complete index contains, to values computed from the row's image, and returns the
    /// changed row; returns `None` and changes nothing if the values cannot be computed so.
    #[inline]
    pub fn change_integers<const N: usize>(
        &mut self,
        id: TupleId,
        places: impl Iterator<Item = IntegerPlace>,
        values: impl FnOnce(&[u8]) -> Option<[i64; N]>,
        undo: &mut Undo,
    ) -> Result<Option<Row<'_>>> {
        let Place { item, .. } = self.place_of(id)?;
        if self.building.is_some() {
            self.note(id, item);
        }
        let image = self.rows.get_from_mut(item, HEADER_BYTES);
        let Some(image) = image else { return Err(no_row(&self.definition, id)) };
        let Some(values) = values(image) else { return Ok(None) };
        undo.push(self.definition.id, id, Some(image))?;
        let mut digest = undo.digest().with_change(self.definition.id, id);
        for (place, number) in places.zip(values) {
            place.put(image, number);
            digest = digest.with_integer(place.column, number);
        }
        *undo.digest_mut() = digest;
        let row = Row::new(&self.layout, image);
        if let Some(building) = &mut self.building {
            building.renew(id, row, &self.budget);
        }
        Ok(Some(row))
    }

    /// Writes changes in place; returns false if they do not fit.
    fn patch(&mut self, id: TupleId, changes: &[(usize, ValueRef<'_>)]) -> Result<bool> {
        let item = self.item(id)?;
        let image = self.rows.get_from_mut(item, HEADER_BYTES);
        match image {
            Some(image) => self.layout.patch(image, changes),
            None => Err(self.no_row(id)),
        }
    }

    /// Removes a row.
    pub fn delete(&mut self, id: TupleId, undo: &mut Undo) -> Result<()> {
        undo.push(self.definition.id, id, Some(self.row(id)?.image()))?;
        match self.remove(id) {
            Ok(()) => {
                let digest = undo.digest_mut();
                *digest = digest.with_row(self.definition.id, id, None);
                Ok(())
            }
            Err(error) => {
                undo.forget_last();
                Err(error)
            }
        }
    }

    /// Sets the row `id` to an earlier image, or to the one in a log or snapshot; `None` removes it. Does not ask the
    /// budget and cannot violate a unique index, because the restored rows existed together.
    pub fn restore(&mut self, id: TupleId, image: Option<&[u8]>) -> Result<()> {
        match (self.ids.contains(id), image) {
            (true, Some(image)) => self.replace(id, image, Growth::Forced),
            (true, None) => self.remove(id),
            (false, Some(image)) => self.place(id, image, Growth::Forced),
            (false, None) => Ok(()),
        }
    }

    /// [`Table::restore`] for bytes from outside.
    pub fn load(&mut self, id: TupleId, image: &[u8]) -> Result<()> {
        self.layout.validate(image)?;
        if id > TupleId::MAX {
            return Err(Error::Corrupt(format!("tuple id {} of table \"{}\"", id.0, self.definition.name).into()));
        }
        self.restore(id, Some(image))
    }

    /// Writes the keys of this image, by index.
    fn keys(&self, image: &[u8], keys: &mut Vec<Key>) -> Result<()> {
        let row = Row::new(&self.layout, image);
        keys.resize_with(self.indexes.len(), Key::default);
        for (index, key) in self.indexes.iter().zip(keys) {
            key.distinct = index.key(row, &mut key.bytes)?;
        }
        Ok(())
    }

    /// Puts a row at a free id.
    fn place(&mut self, id: TupleId, image: &[u8], growth: Growth) -> Result<()> {
        let mut keys = std::mem::take(&mut self.scratch.new_keys);
        let result = self.keys(image, &mut keys).and_then(|()| self.place_with(id, image, growth, &mut keys));
        self.scratch.new_keys = keys;
        result
    }

    fn place_with(&mut self, id: TupleId, image: &[u8], growth: Growth, keys: &mut [Key]) -> Result<()> {
        let taken = self.ids.take(id, &self.budget, growth);
        let taken = taken.and_then(|_| self.locators.reserve(id, &self.budget, growth));
        let taken = taken.and_then(|()| self.recency.get_mut().reserve(id, &self.budget, growth));
        let item = match taken.map_err(|full| self.full(full)).and_then(|()| self.store(id, image, growth)) {
            Ok(item) => item,
            Err(error) => {
                self.ids.release(id);
                return Err(error);
            }
        };
        let (mut added, mut failed) = (0, None);
        for (index, key) in self.indexes.iter_mut().zip(keys.iter_mut()) {
            failed = enter((&self.definition, &self.loads), index, key, id, &self.budget, growth).err();
            if failed.is_some() {
                break;
            }
            added += 1;
        }
        if let Some(error) = failed {
            for (index, key) in self.indexes.iter_mut().zip(keys).take(added) {
                index.remove(&mut key.bytes, id, &self.budget);
            }
            self.rows.free(item, &self.budget);
            self.ids.release(id);
            return Err(error);
        }
        self.locators.set(id, Locator::Live(item));
        self.recency.get_mut().add_hot(id);
        // Nobody has used the rows of a load, of which there may be more than memory.
        if self.counts_uses && self.loads.inserting.is_none() {
            self.uses.reserve(TupleId(id.0 + 1), &self.budget);
            self.uses.add(id);
        }
        if let Some(building) = &mut self.building {
            building.enter(id, Row::new(&self.layout, image), &self.budget);
        }
        Ok(())
    }

    /// Writes a row into a new slot.
    fn store(&mut self, id: TupleId, image: &[u8], growth: Growth) -> Result<Item> {
        if image.len() > ROW_BYTES_MAX {
            return Err(Class::LimitExceeded.error(format_args!(
                "a row of table \"{}\" has {} bytes, more than {ROW_BYTES_MAX}",
                self.definition.name,
                image.len()
            )));
        }
        let item = self.rows.allocate(HEADER_BYTES + image.len(), &self.budget, growth);
        let item = item.map_err(|full| self.full(full))?;
        self.write(item, id, image);
        Ok(item)
    }

    fn write(&mut self, item: Item, id: TupleId, image: &[u8]) {
        if let Some((header, bytes)) = self.rows.get_mut(item).and_then(|bytes| bytes.split_first_chunk_mut()) {
            *header = u64::from(id.0).to_le_bytes();
            bytes.copy_from_slice(image);
        }
    }

    /// Replaces a row's image and its index keys.
    fn replace(&mut self, id: TupleId, image: &[u8], growth: Growth) -> Result<()> {
        let mut old = std::mem::take(&mut self.scratch.old_keys);
        let mut new = std::mem::take(&mut self.scratch.new_keys);
        let keys = match self.image_of(id) {
            Some(image) => self.keys(image, &mut old),
            None => self.row(id).map(drop),
        };
        let keys = keys.and_then(|()| self.keys(image, &mut new));
        if self.building.is_some() {
            self.note(id, self.item(id)?);
        }
        let result = keys.and_then(|()| self.replace_with(id, image, growth, (&mut old, &mut new)));
        if let (Ok(()), Some(building)) = (&result, &mut self.building) {
            building.renew(id, Row::new(&self.layout, image), &self.budget);
        }
        self.scratch.old_keys = old;
        self.scratch.new_keys = new;
        result
    }

    /// Replaces a row's image by one with the same keys.
    fn replace_image(&mut self, id: TupleId, image: &[u8]) -> Result<()> {
        self.replace_with(id, image, Growth::Asked, (&mut [], &mut []))
    }

    fn replace_with(
        &mut self,
        id: TupleId,
        image: &[u8],
        growth: Growth,
        (old, new): (&mut [Key], &mut [Key]),
    ) -> Result<()> {
        let old_item = self.item(id)?;
        let same_place =
            self.rows.resized(old_item, HEADER_BYTES + image.len()).filter(|_| image.len() <= ROW_BYTES_MAX);
        let exact = HEADER_BYTES + image.len() == old_item.len();
        let item = match same_place.or(exact.then_some(old_item)) {
            Some(item) => item,
            None => self.store(id, image, growth)?,
        };
        // Everything that can fail comes first.
        let (mut seen, mut failed) = (0, None);
        for ((index, old), new) in self.indexes.iter_mut().zip(old.iter()).zip(new.iter_mut()) {
            if old.bytes != new.bytes {
                failed = enter((&self.definition, &self.loads), index, new, id, &self.budget, growth).err();
                if failed.is_some() {
                    break;
                }
            }
            seen += 1;
        }
        // Removes the new entries after a failure, and the old ones otherwise.
        for ((index, old), new) in self.indexes.iter_mut().zip(old).zip(new).take(seen) {
            if old.bytes != new.bytes {
                index.remove(if failed.is_some() { &mut new.bytes } else { &mut old.bytes }, id, &self.budget);
            }
        }
        let moved = !item.same_place(old_item);
        if let Some(error) = failed {
            if moved {
                self.rows.free(item, &self.budget);
            }
            return Err(error);
        }
        self.write(item, id, image);
        self.locators.set(id, Locator::Live(item));
        if moved {
            self.rows.free(old_item, &self.budget);
        }
        Ok(())
    }

    /// Removes a row's entries from the indexes.
    fn remove_keys(&mut self, id: TupleId, keys: &mut [Key]) {
        for (index, key) in self.indexes.iter_mut().zip(keys) {
            index.remove(&mut key.bytes, id, &self.budget);
        }
    }

    fn remove(&mut self, id: TupleId) -> Result<()> {
        let item = self.item(id)?;
        let mut keys = std::mem::take(&mut self.scratch.old_keys);
        let result = self.row(id).and_then(|row| self.keys(row.image(), &mut keys));
        if result.is_ok() {
            self.remove_keys(id, &mut keys);
        }
        self.scratch.old_keys = keys;
        result?;
        if let (Some(building), Some(image)) = (&mut self.building, self.rows.get_from(item, HEADER_BYTES)) {
            building.leave(id, Row::new(&self.layout, image), &self.budget);
        }
        self.rows.free(item, &self.budget);
        self.recency.get_mut().leave(id);
        self.uses.clear(id);
        self.ids.release(id);
        self.loads.release(id);
        Ok(())
    }
}

impl Table {
    /// Moves up to `rows` rows together, so that sparse arenas become empty and go; returns how many were moved: fewer
    /// once about as many bytes are taken as rows have.
    pub fn compact(&mut self, rows: usize) -> usize {
        for moved in 0..rows {
            let Some((header, slot)) = self.rows.drain::<HEADER_BYTES>(&self.budget) else { return moved };
            let id = TupleId(u64::from_le_bytes(header) as u32);
            if let Some(Locator::Live(item)) = self.locators.get(id) {
                self.locators.set(id, Locator::Live(item.at(slot)));
            }
        }
        rows
    }
}

/// Releases its memory from the budget.
impl Drop for Table {
    fn drop(&mut self) {
        let memory = self.memory();
        self.budget.resize_rows(memory.rows, 0);
        self.budget.resize(memory.total() - memory.rows, 0);
    }
}

pub(super) fn rows_for(layout: &Layout) -> Slabs {
    Slabs::of_rows(layout.length().map(|length| HEADER_BYTES + length))
}

/// Adds a row's key to an index.
#[inline]
fn enter(
    (table, loads): (&TableDefinition, &Loads),
    index: &mut Index,
    key: &mut Key,
    id: TupleId,
    budget: &Budget,
    growth: Growth,
) -> Result<()> {
    match index.insert(&mut key.bytes, key.distinct, id, budget, growth) {
        Ok(true) => Ok(()),
        Ok(false) => Err(taken(table, loads, index, &key.bytes)),
        Err(full) => Err(no_room(table, full)),
    }
}

#[cold]
fn no_row(table: &TableDefinition, id: TupleId) -> Error {
    Error::internal(format_args!("table \"{}\" has no row {}", table.name, id.0))
}

#[cold]
fn no_id(table: &TableDefinition) -> Error {
    Class::LimitExceeded.error(format_args!("table \"{}\" has no tuple id left", table.name))
}

#[cold]
fn no_room(table: &TableDefinition, full: Full) -> Error {
    Error::OutOfMemory(format!("table \"{}\": {full}", table.name).into())
}

/// Error of a row whose key another row has. If that row is hidden, it is unknown whether it will stay.
#[cold]
fn taken(table: &TableDefinition, loads: &Loads, index: &Index, key: &[u8]) -> Error {
    match index.first(key) {
        Some(id) if loads.hide_from_inserting(id) => being_loaded(table),
        _ => duplicate(table, index, key),
    }
}

#[cold]
fn being_loaded(table: &TableDefinition) -> Error {
    Error::Retry(format!("a row with the same key is being loaded into table \"{}\"", table.name).into())
}

#[cold]
fn duplicate(table: &TableDefinition, index: &Index, key: &[u8]) -> Error {
    Error::duplicate_key(&table.name, &index.definition().name, index.key_text(key))
}
