//! `ORDER BY`, `DISTINCT`, `LIMIT`.

use std::cmp::Ordering;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use hashbrown::HashTable;
use thermocline_types::Result;

use crate::expression::Environment;
use crate::rows::Rows;

/// A sort column, possibly hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub output: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Compares two rows by the keys.
fn compare(rows: &Rows, keys: &[SortKey], one: usize, other: usize) -> Ordering {
    for key in keys {
        let (left, right) = (rows.value(one, key.output), rows.value(other, key.output));
        let order = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => right.total_cmp(left),
            (false, false) => left.total_cmp(right),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Sorts rows by the keys and returns at most `limit` of them from `offset`, with the first `visible` columns.
pub(super) fn arrange(
    rows: &Rows,
    keys: &[SortKey],
    visible: usize,
    offset: usize,
    limit: usize,
    environment: &Environment,
) -> Result<Rows> {
    let mut memory = environment.structure("sorting");
    memory.resize(rows.len() * size_of::<usize>())?;
    let mut places: Vec<usize> = (0..rows.len()).collect();
    if !keys.is_empty() {
        // Ties are broken by position: a stable sort would need extra memory.
        places.sort_unstable_by(|one, other| compare(rows, keys, *one, *other).then(one.cmp(other)));
    }
    let mut out = Rows::new(visible);
    for place in places.into_iter().skip(offset).take(limit) {
        out.push_row_within(rows, place, environment.memory())?;
    }
    Ok(out)
}

/// Keeps the first of equal rows. All columns of a DISTINCT query are visible.
pub(super) fn distinct(rows: &Rows, environment: &Environment) -> Result<Rows> {
    let mut memory = environment.structure("DISTINCT");
    // Positions in `out`.
    let mut seen: HashTable<usize> = HashTable::new();
    let mut out = Rows::new(rows.width());
    for place in 0..rows.len() {
        let hash = hash(rows, place);
        if seen.find(hash, |known| out.row(*known).eq(rows.row(place))).is_some() {
            continue;
        }
        if seen.len() == seen.capacity() {
            memory.grow((seen.capacity() + 3) * size_of::<usize>() * 2)?;
        }
        out.push_row_within(rows, place, environment.memory())?;
        seen.insert_unique(hash, out.len() - 1, |known| self::hash(&out, *known));
    }
    Ok(out)
}

/// Hashes with a fixed key, so that runs do not differ.
fn hash(rows: &Rows, place: usize) -> u64 {
    let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
    rows.row(place).for_each(|value| value.hash(&mut hasher));
    hasher.finish()
}
