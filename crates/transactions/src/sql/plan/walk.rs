//! The nested loop.

use std::ops::Bound;

use super::Step;
use super::access::{Access, Bounds, KeyPart};
use super::ahead::Next;
use crate::error::Result;
use crate::partition::Partition;
use crate::sql::expression::{Expr, Frame, Source, TABLES_MAX};
use crate::table::{LOOK_UPS_AHEAD, OfLookUps, Table, TupleId};
use crate::types::key::{KeyColumn, encode, push_integer};
use crate::types::{Rounded, round_into};

/// The tables of a nested loop, by step.
pub(crate) struct Tables<'a> {
    tables: [Option<&'a Table>; TABLES_MAX],
}

impl<'a> Tables<'a> {
    pub fn of(steps: &[Step], partition: &'a Partition) -> Result<Self> {
        let mut tables = [None; TABLES_MAX];
        for (place, step) in tables.iter_mut().zip(steps) {
            *place = Some(partition.table(step.table.id)?);
        }
        Ok(Self { tables })
    }
}

/// Calls `emit` for each combination of rows, until it says false. Gives back whether it never did.
pub(crate) fn walk<'a>(
    steps: &'a [Step],
    tables: &Tables<'a>,
    frame: &mut Frame<'a>,
    emit: &mut dyn FnMut(&Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    walk_from(0, steps, tables, frame, emit)
}

fn walk_from<'a>(
    depth: usize,
    steps: &'a [Step],
    tables: &Tables<'a>,
    frame: &mut Frame<'a>,
    emit: &mut dyn FnMut(&Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    let Some(step) = steps.get(depth) else { return emit(frame) };
    let Some(Some(table)) = tables.tables.get(depth).copied() else { return Ok(true) };
    let next = steps.get(depth + 1).zip(tables.tables.get(depth + 1).copied().flatten());
    let next = next.and_then(|(step, table)| Next::of(step, table));
    let mut matched = false;
    let mut go_on = find_joined(step, table, next, frame, &mut |_, frame| {
        matched = true;
        if !all_hold(&step.filter, frame)? {
            return Ok(true);
        }
        walk_from(depth + 1, steps, tables, frame, emit)
    })?;
    if step.outer && !matched && go_on {
        frame.set(step.slot, Source::Nothing);
        if all_hold(&step.filter, frame)? {
            go_on = walk_from(depth + 1, steps, tables, frame, emit)?;
        }
    }
    frame.set(step.slot, Source::Nothing);
    Ok(go_on)
}

#[inline]
pub(crate) fn all_hold(conditions: &[Expr], frame: &Frame<'_>) -> Result<bool> {
    for condition in conditions {
        if !condition.holds(frame)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls `each` for the rows of one step that match, with the row in its slot, until it says false.
pub(crate) fn find_rows<'a>(
    step: &'a Step,
    table: &'a Table,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &mut Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    find_joined(step, table, None, frame, each)
}

/// The same where each row is then joined with those of the next step.
fn find_joined<'a>(
    step: &'a Step,
    table: &'a Table,
    next: Option<Next<'a>>,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &mut Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    let mut visit = |id: TupleId, frame: &mut Frame<'a>| -> Result<bool> {
        frame.environment.spend(1)?;
        frame.set(step.slot, Source::Row(table.row(id)?));
        if all_hold(&step.on, frame)? { each(id, frame) } else { Ok(true) }
    };
    let mut visit_all = |ids: &mut dyn Iterator<Item = TupleId>, frame: &mut Frame<'a>| -> Result<bool> {
        let Some(next) = next else {
            for id in ids {
                if !visit(id, frame)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        // Few at first: perhaps no more are wanted.
        let mut ahead = 1;
        loop {
            let some: OfLookUps<TupleId> = ids.take(ahead).collect();
            if some.is_empty() {
                return Ok(true);
            }
            if some.len() > 1 {
                next.read_ahead(step, table, &some, frame)?;
            }
            for id in some {
                if !visit(id, frame)? {
                    return Ok(false);
                }
            }
            ahead = (2 * ahead).min(LOOK_UPS_AHEAD);
        }
    };
    match &step.access {
        Access::Scan => visit_all(&mut table.scan(), frame),
        Access::Key { index, parts, unique, .. } => {
            let mut key = frame.environment.buffer();
            if !push_parts(&mut key, parts, frame)? {
                frame.environment.keep(key);
                return Ok(true);
            }
            if *unique {
                let found = table.find(*index, &key)?;
                frame.environment.keep(key);
                return found.map_or(Ok(true), |id| visit_all(&mut std::iter::once(id), frame));
            }
            let matches = table.lookup(*index, &key)?;
            frame.environment.keep(key);
            visit_all(&mut { matches }, frame)
        }
        Access::Range { index, parts, bounds, reverse } => {
            let (mut from, mut to) = (Vec::with_capacity(32), Vec::new());
            if !push_parts(&mut from, parts, frame)? {
                return Ok(true);
            }
            to.extend_from_slice(&from);
            let Some((low, high)) = range_bounds(bounds.as_ref(), &mut from, &mut to, frame)? else { return Ok(true) };
            let (low, high) = (bound(low, &from), bound(high, &to));
            let ids = table.range(*index, low, high)?.map(|(_, id)| id);
            if *reverse { visit_all(&mut ids.rev(), frame) } else { visit_all(&mut { ids }, frame) }
        }
    }
}

/// Appends the key's values; false if no row can have them.
pub(super) fn push_parts(key: &mut Vec<u8>, parts: &[KeyPart], frame: &Frame<'_>) -> Result<bool> {
    for part in parts {
        // What most keys are made of.
        if let Some(number) = part.value.integer(frame)
            && push_integer(key, part.column, number)
        {
            continue;
        }
        let value = part.value.evaluate(frame)?;
        match round_into(value.get(), part.column.data_type)? {
            Rounded::Exact(value) => encode(key, part.column, value)?,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether the key of a bound is itself within; every key that begins with it is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Within,
    Without,
}

fn bound(edge: Edge, key: &[u8]) -> Bound<&[u8]> {
    match edge {
        // All keys begin with nothing.
        Edge::Within if key.is_empty() => Bound::Unbounded,
        Edge::Within => Bound::Included(key),
        Edge::Without => Bound::Excluded(key),
    }
}

/// Appends the bounds of the column behind the prefix, which is in both keys; `None` if nothing is
/// between them.
fn range_bounds(
    bounds: Option<&Bounds>,
    from: &mut Vec<u8>,
    to: &mut Vec<u8>,
    frame: &Frame<'_>,
) -> Result<Option<(Edge, Edge)>> {
    let Some(bounds) = bounds else { return Ok(Some((Edge::Within, Edge::Within))) };
    let column = bounds.column;
    // Downwards, large values have small keys.
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
        // The limit lies between this value and the next larger one.
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

/// The byte with which all values of a nullable column begin.
fn push_not_null(key: &mut Vec<u8>, column: KeyColumn) {
    if column.nullable {
        key.push(if column.descending { 0xff } else { 0 });
    }
}
