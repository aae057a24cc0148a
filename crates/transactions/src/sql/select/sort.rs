//! `ORDER BY`, `DISTINCT`, `LIMIT`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::error::Result;
use crate::sql::rows::Rows;
use crate::types::Value;

/// A column of the rows, hidden ones included, to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub output: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The order of two rows; rows that are equal in all keys keep theirs.
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

/// Rows in the order of the keys, from `offset`, at most `limit`, of which the first `visible` columns
/// are kept.
pub(super) fn arrange(rows: &Rows, keys: &[SortKey], visible: usize, offset: usize, limit: usize) -> Result<Rows> {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    if !keys.is_empty() {
        places.sort_by(|one, other| compare(rows, keys, *one, *other));
    }
    let mut out = Rows::new(visible);
    for place in places.into_iter().skip(offset).take(limit) {
        out.push_row(rows, place)?;
    }
    Ok(out)
}

/// The first of rows that are equal in the visible columns, which are all columns of a DISTINCT query.
pub(super) fn distinct(rows: &Rows) -> Result<Rows> {
    let mut seen: HashSet<Box<[Value]>, BuildHasherDefault<DefaultHasher>> = HashSet::default();
    let mut out = Rows::new(rows.width());
    for place in 0..rows.len() {
        if seen.insert(rows.row(place).map(|value| value.to_value()).collect()) {
            out.push_row(rows, place)?;
        }
    }
    Ok(out)
}
