//! Index structures that map keys, as bytes, to tuple ids.

mod fill;
mod hash;
mod ordered;
mod page;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

pub use fill::{IndexFilling, Unfilled};
use hash::HashMap;
use ordered::{OrderedSet, Range};
use thermocline_types::{Class, Result, Value};

use super::blocks::RowKeys;
use super::budget::{Budget, Full, Growth};
use super::keys::{Keys, OfLookUps};
use super::layout::{Layout, chunk};
use super::row::Row;
use super::tuple_ids::{TupleId, TupleIds};
use crate::key::{self, KeyColumn};
use crate::schema::{IndexDefinition, IndexKind, TableDefinition};

/// Maximum bytes of a key.
pub const KEY_BYTES_MAX: usize = page::ENTRY_BYTES_MAX - 8;

/// Version of the bytes of keys: to be raised whenever [`key::encode`] gives others for the same values.
const KEY_ENCODING: u32 = 1;

/// A value of a hash index with this bit is the number of a list of tuple ids.
const LIST: u32 = 1 << 31;

const _: () = assert!(TupleId::MAX.0 < LIST);

/// One index of one table in one partition.
#[derive(Debug)]
pub struct Index {
    definition: IndexDefinition,
    columns: Vec<KeyColumn>,
    /// Offsets of the columns in a row's image if all are of type INTEGER, never NULL and ascending, as in most keys of
    /// several columns.
    integers_at: Option<Box<[usize]>>,
    /// See [`Index::fingerprint`].
    fingerprint: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Hash {
        /// A key's only tuple id, or the number of its list.
        map: HashMap,
        /// Lists of ids: list number and tuple id, both big-endian.
        lists: OrderedSet,
        list_numbers: TupleIds,
    },
    /// Keys followed by their tuple id, big-endian, so that equal keys are in the order of their ids.
    Ordered(OrderedSet),
}

fn fingerprint(definition: &IndexDefinition, key_columns: &[KeyColumn]) -> u64 {
    let IndexDefinition { id, kind, unique, columns, .. } = definition;
    let mut hasher = DefaultHasher::new();
    // Another version of the program may write it differently: keys are then read from the rows.
    format!("{KEY_ENCODING} {id:?} {kind:?} {unique} {columns:?} {key_columns:?}").hash(&mut hasher);
    hasher.finish()
}

impl Index {
    /// An empty index. The seed decides where hashed keys are placed, which has no visible effect.
    pub fn new(table: &TableDefinition, layout: &Layout, definition: &IndexDefinition, seed: u64) -> Self {
        let columns = table.key_columns(definition);
        let body = match definition.kind {
            IndexKind::Hash => {
                let longest = columns.iter().map(|column| column.width()).sum();
                Body::Hash { map: HashMap::new(longest, seed), lists: OrderedSet::new(), list_numbers: TupleIds::new() }
            }
            IndexKind::Ordered => Body::Ordered(OrderedSet::new()),
        };
        let fingerprint = fingerprint(definition, &columns);
        let mut index = Self { definition: definition.clone(), columns, integers_at: None, fingerprint, body };
        index.set_layout(layout);
        index
    }

    /// Values of the first index, the primary key's if there is one, among the [keys](RowKeys) of a row in indexes with
    /// these [fingerprints](Self::fingerprint), as errors print them; `None` if it is not among them.
    pub fn first_key_text(table: &TableDefinition, fingerprints: &[u64], mut keys: &[u8]) -> Option<String> {
        let definition = table.indexes.first()?;
        let columns = table.key_columns(definition);
        let wanted = fingerprint(definition, &columns);
        for index in fingerprints {
            let (key, _, rest) = RowKeys::split_first(keys)?;
            if *index == wanted {
                let values = key::decode(key, &columns).ok()?;
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                return Some(format!("({})", values.join(", ")));
            }
            keys = rest;
        }
        None
    }

    /// Switches to another layout of rows, which gives the same keys.
    pub fn set_layout(&mut self, layout: &Layout) {
        let held = &self.definition.columns;
        self.integers_at = match held.iter().any(|column| column.descending) {
            true => None,
            false => layout.integers_at(held.iter().map(|column| column.column)),
        };
    }

    /// Gives it another name.
    pub fn rename(&mut self, name: &str) {
        self.definition.name = name.into();
    }

    /// Definition of the index.
    pub fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// Columns of its keys.
    pub(crate) fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// A number that two indexes of a table share if and only if, with the highest probability, they give the same keys.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        match &self.body {
            Body::Hash { map, lists, list_numbers } => map.bytes() + lists.bytes() + list_numbers.bytes(),
            Body::Ordered(set) => set.bytes(),
        }
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        match &self.body {
            Body::Hash { map, lists, list_numbers } => map.len() + lists.len() - list_numbers.live(),
            Body::Ordered(set) => set.len(),
        }
    }

    /// Whether the index contains the column at this position.
    pub fn holds(&self, column: usize) -> bool {
        self.definition.columns.iter().any(|held| held.column == column)
    }

    /// Writes a row's key; returns true if it must be unique.
    pub fn key(&self, row: Row<'_>, key: &mut Vec<u8>) -> Result<bool> {
        let mut distinct = self.definition.unique;
        if let Some(offsets) = &self.integers_at {
            key.resize(size_of::<i32>() * offsets.len(), 0);
            for (place, at) in key.as_chunks_mut().0.iter_mut().zip(offsets) {
                *place = key::integer(chunk(row.image(), *at).map_or(0, i32::from_le_bytes));
            }
            return self.check_length(key).map(|()| distinct);
        }
        key.clear();
        for (column, place) in self.columns.iter().zip(&self.definition.columns) {
            let value = row.value(place.column);
            distinct &= !value.is_null();
            key::encode(key, *column, value)?;
        }
        self.check_length(key).map(|()| distinct)
    }

    #[inline]
    fn check_length(&self, key: &[u8]) -> Result<()> {
        if key.len() <= KEY_BYTES_MAX {
            return Ok(());
        }
        Err(Class::LimitExceeded.error(format_args!(
            "a key of index \"{}\" has {} bytes, more than {KEY_BYTES_MAX}",
            self.definition.name,
            key.len()
        )))
    }

    /// A key as messages show it: its values, unquoted, in parentheses.
    pub fn key_text(&self, key: &[u8]) -> String {
        let values = key::decode(key, &self.columns).unwrap_or_default();
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        format!("({})", values.join(", "))
    }

    /// The keys of rows as messages show them, as far as they have one here. Reads the whole index: for errors.
    pub fn key_texts(&self, rows: &BTreeSet<TupleId>) -> BTreeMap<TupleId, String> {
        let mut texts = BTreeMap::new();
        let mut found = |key: &[u8], id: TupleId| {
            if rows.contains(&id) {
                let bytes = key::length(key, &self.columns).unwrap_or(0);
                texts.insert(id, self.key_text(key.get(..bytes).unwrap_or_default()));
            }
        };
        match &self.body {
            Body::Ordered(set) => {
                Entries(set.range(Bound::Unbounded, Bound::Unbounded)).for_each(|(key, id)| found(key, id));
            }
            Body::Hash { map, lists, .. } => map.each(&mut |key, value| {
                if value & LIST == 0 {
                    return found(key, TupleId(value));
                }
                let list = (value & !LIST).to_be_bytes();
                let ids = Entries(lists.range(Bound::Included(&list), Bound::Included(&list)));
                ids.for_each(|(_, id)| found(key, id));
            }),
        }
        texts
    }

    /// Rows with this key, in the order of their tuple ids. For an ordered index, `key` may have only the leading
    /// columns; the rows are then in the order of the index.
    #[inline]
    pub fn lookup(&self, key: &[u8]) -> Matches<'_> {
        match &self.body {
            Body::Hash { map, lists, .. } => match map.get(key) {
                None => Matches::One(None),
                Some(id) if id & LIST == 0 => Matches::One(Some(TupleId(id))),
                Some(list) => {
                    let list = (list & !LIST).to_be_bytes();
                    Matches::Many(Entries(lists.range(Bound::Included(&list), Bound::Included(&list))))
                }
            },
            Body::Ordered(set) => Matches::Many(Entries(set.range(Bound::Included(key), Bound::Included(key)))),
        }
    }

    /// Prefetches the entries of these keys, and returns the ids of rows found. Keys shared by several rows, and keys
    /// of an ordered index, are left out.
    pub fn read_ahead(&self, keys: &Keys, ids: &mut OfLookUps<TupleId>) {
        if let Body::Hash { map, .. } = &self.body {
            map.get_all(keys, |id| ids.extend(id.filter(|id| id & LIST == 0).map(TupleId)));
        }
    }

    /// One row with each of these keys, in order.
    pub fn first_of_each(&self, keys: &Keys) -> OfLookUps<Option<TupleId>> {
        let mut ids = OfLookUps::new();
        match &self.body {
            Body::Hash { map, .. } => map.get_all(keys, |id| ids.push(id.map(TupleId))),
            Body::Ordered(_) => ids.extend(keys.iter().map(|key| self.first(key))),
        }
        // Keys shared by several rows.
        for (id, key) in ids.iter_mut().zip(keys.iter()).filter(|(id, _)| id.is_some_and(|id| id.0 & LIST != 0)) {
            *id = self.first(key);
        }
        ids
    }

    /// Whether the row has this whole key, in time independent of the number of rows that share it.
    pub fn contains(&self, key: &[u8], id: TupleId) -> bool {
        match &self.body {
            Body::Ordered(set) => {
                let entry = [key, &id.0.to_be_bytes()].concat();
                set.first_with(&entry) == Some(entry.as_slice())
            }
            Body::Hash { map, lists, .. } => match map.get(key) {
                None => false,
                Some(only) if only & LIST == 0 => only == id.0,
                Some(list) => lists.first_with(&list_entry(list & !LIST, id)).is_some(),
            },
        }
    }

    /// One row with this key.
    #[inline]
    pub fn first(&self, key: &[u8]) -> Option<TupleId> {
        match &self.body {
            Body::Hash { .. } => self.lookup(key).next(),
            Body::Ordered(set) => set.first_with(key).and_then(split_entry).map(|(_, id)| id),
        }
    }

    /// Keys and tuple ids between two bounds, from either end; `None` for a hash index. A bound stands for all keys
    /// with that prefix.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<Entries<'_>> {
        match &self.body {
            Body::Hash { .. } => None,
            Body::Ordered(set) => Some(Entries(set.range(from, to))),
        }
    }

    /// Adds a new entry; returns false if the key must be unique and another row has it.
    pub fn insert(
        &mut self,
        key: &mut Vec<u8>,
        distinct: bool,
        id: TupleId,
        budget: &Budget,
        growth: Growth,
    ) -> Result<bool, Full> {
        match &mut self.body {
            Body::Ordered(set) => {
                let key_bytes = key.len();
                key.extend_from_slice(&id.0.to_be_bytes());
                let result = set.insert(key, if distinct { key_bytes } else { key.len() }, budget, growth);
                key.truncate(key_bytes);
                result
            }
            Body::Hash { map, lists, list_numbers } => match map.get(key) {
                None => map.insert(key, id.0, budget, growth).map(|()| true),
                Some(_) if distinct => Ok(false),
                Some(list) if list & LIST != 0 => {
                    lists.insert(&list_entry(list & !LIST, id), LIST_ENTRY_BYTES, budget, growth)
                }
                Some(only) => {
                    let number = list_numbers.lowest_free();
                    list_numbers.take(number, budget, growth)?;
                    let first = list_entry(number.0, TupleId(only));
                    let both = lists
                        .insert(&first, LIST_ENTRY_BYTES, budget, growth)
                        .and_then(|_| lists.insert(&list_entry(number.0, id), LIST_ENTRY_BYTES, budget, growth));
                    if let Err(full) = both {
                        lists.remove(&first, budget);
                        list_numbers.release(number);
                        return Err(full);
                    }
                    map.set(key, LIST | number.0);
                    Ok(true)
                }
            },
        }
    }

    /// Removes an entry; returns false if it is not there.
    pub fn remove(&mut self, key: &mut Vec<u8>, id: TupleId, budget: &Budget) -> bool {
        match &mut self.body {
            Body::Ordered(set) => {
                key.extend_from_slice(&id.0.to_be_bytes());
                let removed = set.remove(key, budget);
                key.truncate(key.len() - 4);
                removed
            }
            Body::Hash { map, lists, list_numbers } => match map.get(key) {
                None => false,
                Some(only) if only & LIST == 0 => {
                    let found = only == id.0;
                    if found {
                        map.remove(key, budget);
                    }
                    found
                }
                Some(list) => {
                    let number = list & !LIST;
                    let removed = lists.remove(&list_entry(number, id), budget);
                    let bound = number.to_be_bytes();
                    let mut rest = Entries(lists.range(Bound::Included(&bound), Bound::Included(&bound)));
                    if let (Some((_, last)), None) = (rest.next(), rest.next()) {
                        lists.remove(&list_entry(number, last), budget);
                        list_numbers.release(TupleId(number));
                        map.set(key, last.0);
                    }
                    removed
                }
            },
        }
    }
}

const LIST_ENTRY_BYTES: usize = 8;

fn list_entry(list: u32, id: TupleId) -> [u8; LIST_ENTRY_BYTES] {
    (u64::from(list) << 32 | u64::from(id.0)).to_be_bytes()
}

fn split_entry(entry: &[u8]) -> Option<(&[u8], TupleId)> {
    let (key, id) = entry.split_last_chunk()?;
    Some((key, TupleId(u32::from_be_bytes(*id))))
}

/// Keys and tuple ids of an ordered index.
#[derive(Debug, Clone)]
pub struct Entries<'a>(Range<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], TupleId);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().and_then(split_entry)
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().and_then(split_entry)
    }
}

/// Tuple ids with one key.
#[derive(Debug, Clone)]
pub enum Matches<'a> {
    /// At most one.
    One(Option<TupleId>),
    /// Any number.
    Many(Entries<'a>),
}

impl Iterator for Matches<'_> {
    type Item = TupleId;

    #[inline]
    fn next(&mut self) -> Option<TupleId> {
        match self {
            Self::One(id) => id.take(),
            Self::Many(entries) => entries.next().map(|(_, id)| id),
        }
    }
}

impl DoubleEndedIterator for Matches<'_> {
    fn next_back(&mut self) -> Option<TupleId> {
        match self {
            Self::One(id) => id.take(),
            Self::Many(entries) => entries.next_back().map(|(_, id)| id),
        }
    }
}
