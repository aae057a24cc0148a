//! Nested-loop join.

use std::ops::Bound;

use thermocline_tables::partition::Partition;
use thermocline_tables::schema::IndexKind;
use thermocline_tables::table::{Keys, LOOK_UPS_AHEAD, OfLookUps, Table, TupleId};
use thermocline_types::Result;

use super::Step;
use super::access::Access;
use super::ahead::Next;
use super::key::{bound, push_parts, range_bounds};
use super::spans::Spans;
use crate::expression::{Expr, Frame, Source, TABLES_MAX};

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

/// Calls `emit` for each combination of rows, until it returns false. Returns whether it never did.
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
pub fn all_hold(conditions: &[Expr], frame: &Frame<'_>) -> Result<bool> {
    for condition in conditions {
        if !condition.holds(frame)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls `each` for the matching rows of one step, with the row in its slot, until it returns false.
pub(crate) fn find_rows<'a>(
    step: &'a Step,
    table: &'a Table,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &mut Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    find_joined(step, table, None, frame, each)
}

/// [`find_rows`] with read-ahead for the next step of the join.
fn find_joined<'a>(
    step: &'a Step,
    table: &'a Table,
    next: Option<Next<'a>>,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &mut Frame<'a>) -> Result<bool>,
) -> Result<bool> {
    let mut visit = |id: TupleId, frame: &mut Frame<'a>| -> Result<bool> {
        frame.environment.spend(1)?;
        let Some(row) = frame.environment.present(table.row(id))? else { return Ok(true) };
        frame.set(step.slot, Source::Row(row));
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
        // Few at first: the caller may stop early.
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
        Access::Union { index, kind: IndexKind::Hash, ranges, .. } => {
            let spans = Spans::of(ranges, frame)?;
            for some in spans.keys().chunks(LOOK_UPS_AHEAD) {
                if some.len() > 1 {
                    let mut keys = Keys::new(frame.environment.buffer());
                    some.iter().for_each(|key| keys.push_bytes(key));
                    table.read_ahead(*index, &keys)?;
                    frame.environment.keep(keys.into_buffer());
                }
                let of_index = table.index(*index)?;
                if !visit_all(&mut some.iter().flat_map(|key| of_index.lookup(key)), frame)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Access::Union { index, kind: IndexKind::Ordered, ranges, reverse } => {
            let spans = Spans::of(ranges, frame)?.merged();
            for place in 0..spans.len() {
                let place = if *reverse { spans.len() - 1 - place } else { place };
                let (from, to) = spans.get(place);
                let to = to.map_or(Bound::Unbounded, Bound::Excluded);
                let ids = table.range(*index, Bound::Included(from), to)?.map(|(_, id)| id);
                let go_on = if *reverse { visit_all(&mut ids.rev(), frame)? } else { visit_all(&mut { ids }, frame)? };
                if !go_on {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}
