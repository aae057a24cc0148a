//! Encoding of look-up keys.

use std::ops::Bound;

use thermocline_tables::key::{KeyColumn, encode, push_integer};
use thermocline_types::{Result, Rounded, round_into};

use super::access::{Bounds, KeyPart};
use crate::expression::{Expr, Frame};

/// Appends the values of a key; false if no row can have them.
pub fn push_parts(key: &mut Vec<u8>, parts: &[KeyPart], frame: &Frame<'_>) -> Result<bool> {
    for part in parts {
        if !push_value(key, part.column, &part.value, frame)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends the value of one column; false if no row can have it.
#[inline]
pub fn push_value(key: &mut Vec<u8>, column: KeyColumn, value: &Expr, frame: &Frame<'_>) -> Result<bool> {
    // The fast path for most keys.
    if let Some(number) = value.integer(frame)
        && push_integer(key, column, number)
    {
        return Ok(true);
    }
    let value = value.evaluate(frame)?;
    match round_into(value.get(), column.data_type)? {
        Rounded::Exact(value) => encode(key, column, value).map(|()| true),
        _ => Ok(false),
    }
}

/// Whether a bound is inclusive. Keys that begin with the key of the bound count like that key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    Within,
    Without,
}

pub(super) fn bound(edge: Edge, key: &[u8]) -> Bound<&[u8]> {
    match edge {
        // The empty key is a prefix of all keys.
        Edge::Within if key.is_empty() => Bound::Unbounded,
        Edge::Within => Bound::Included(key),
        Edge::Without => Bound::Excluded(key),
    }
}

/// Appends the bounds of the column behind the prefix, which both keys already hold; `None` if the range is empty.
pub(super) fn range_bounds(
    bounds: Option<&Bounds>,
    from: &mut Vec<u8>,
    to: &mut Vec<u8>,
    frame: &Frame<'_>,
) -> Result<Option<(Edge, Edge)>> {
    let Some(bounds) = bounds else { return Ok(Some((Edge::Within, Edge::Within))) };
    let column = bounds.column;
    // In descending columns, large values have small keys.
    let (low_key, high_key) = if column.descending { (to, from) } else { (from, to) };
    let Some(low) = push_bound(low_key, column, bounds.low.as_ref(), true, frame)? else { return Ok(None) };
    let Some(high) = push_bound(high_key, column, bounds.high.as_ref(), false, frame)? else { return Ok(None) };
    Ok(Some(if column.descending { (high, low) } else { (low, high) }))
}

fn push_bound(
    key: &mut Vec<u8>,
    column: KeyColumn,
    limit: Option<&(Expr, bool)>,
    is_low: bool,
    frame: &Frame<'_>,
) -> Result<Option<Edge>> {
    let Some((value, inclusive)) = limit else {
        push_not_null(key, column);
        return Ok(Some(Edge::Within));
    };
    let value = value.evaluate(frame)?;
    let (value, edge) = match round_into(value.get(), column.data_type)? {
        Rounded::Exact(value) => (value, if *inclusive { Edge::Within } else { Edge::Without }),
        // The limit lies between this value and the next larger value.
        Rounded::Below(value) => (value, if is_low { Edge::Without } else { Edge::Within }),
        Rounded::AboveAll if is_low => return Ok(None),
        Rounded::BelowAll if !is_low => return Ok(None),
        Rounded::AboveAll | Rounded::BelowAll => {
            push_not_null(key, column);
            return Ok(Some(Edge::Within));
        }
        Rounded::Never => return Ok(None),
    };
    encode(key, column, value)?;
    Ok(Some(edge))
}

/// Appends the first byte of the non-NULL values of a nullable column.
fn push_not_null(key: &mut Vec<u8>, column: KeyColumn) {
    if column.nullable {
        key.push(if column.descending { 0xff } else { 0 });
    }
}
