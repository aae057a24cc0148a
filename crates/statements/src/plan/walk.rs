//! Nested-loop join.

use std::ops::Bound;

use thermocline_tables::partition::Partition;
use thermocline_tables::schema::IndexKind;
use thermocline_tables::table::{Blocks, EvictedRows, Keys, LOOK_UPS_AHEAD, OfLookUps, PutOff, Row, Table, TupleId};
use thermocline_types::Result;

use super::access::Access;
use super::ahead::Next;
use super::key::{bound, push_parts, range_bounds};
use super::spans::Spans;
use super::{Needs, Step};
use crate::expression::{Expr, Frame, Source, TABLES_MAX};

/// The steps of a nested loop with their tables.
#[derive(Clone, Copy)]
pub(crate) struct Loop<'a> {
    steps: &'a [Step],
    tables: [Option<&'a Table>; TABLES_MAX],
    partition: &'a Partition,
}

impl<'a> Loop<'a> {
    pub fn of(steps: &'a [Step], partition: &'a Partition) -> Result<Self> {
        let mut tables = [None; TABLES_MAX];
        for (place, step) in tables.iter_mut().zip(steps) {
            *place = Some(partition.table(step.table.id)?);
        }
        Ok(Self { steps, tables, partition })
    }

    fn step(&self, depth: usize) -> Option<(&'a Step, &'a Table)> {
        self.steps.get(depth).zip(self.tables.get(depth).copied().flatten())
    }
}

/// Receives the row in the slot of a step, and the loop for as long as the row is there.
type Each<'e> = &'e mut dyn for<'f> FnMut(TupleId, &Loop<'f>, &mut Frame<'f>) -> Result<bool>;

/// Calls `emit` for each combination of rows, until it returns false. Returns whether it never did.
pub(crate) fn walk<'a>(
    all: &Loop<'a>,
    frame: &mut Frame<'a>,
    emit: &mut dyn FnMut(&Frame<'_>) -> Result<bool>,
) -> Result<bool> {
    walk_from(0, all, frame, emit)
}

fn walk_from<'a>(
    depth: usize,
    all: &Loop<'a>,
    frame: &mut Frame<'a>,
    emit: &mut dyn FnMut(&Frame<'_>) -> Result<bool>,
) -> Result<bool> {
    if depth == all.steps.len() {
        return emit(frame);
    }
    let Some((step, _)) = all.step(depth) else { return Ok(true) };
    let mut matched = false;
    let mut go_on = find_joined(depth, all, frame, &mut |_, all, frame| {
        matched = true;
        if !all.step(depth).map_or(Ok(true), |(step, _)| all_hold(&step.filter, frame))? {
            return Ok(true);
        }
        walk_from(depth + 1, all, frame, emit)
    })?;
    if step.outer && !matched && go_on {
        frame.set(step.slot, Source::Nothing);
        if all_hold(&step.filter, frame)? {
            go_on = walk_from(depth + 1, all, frame, emit)?;
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

/// Calls `each` for the matching rows of a single step until it returns false. The frame has what the step needs of the
/// row.
pub(crate) fn find_rows<'a>(
    step: &'a Step,
    partition: &'a Partition,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &Frame<'_>) -> Result<bool>,
) -> Result<bool> {
    let all = Loop::of(std::slice::from_ref(step), partition)?;
    find_joined(0, &all, frame, &mut |id, _, frame| each(id, frame))
}

/// Calls `each` for the matching rows of a single step: [`find_rows`], but a scan gives evicted rows after the others,
/// block by block. Conditions must not be volatile. After an error, which may be that of another row, nothing but
/// [`find_rows`] tells the error that is the same wherever rows are.
pub(crate) fn find_rows_by_block<'a>(
    step: &'a Step,
    partition: &'a Partition,
    frame: &mut Frame<'a>,
    each: &mut dyn FnMut(TupleId, &Frame<'_>) -> Result<bool>,
) -> Result<()> {
    let table = partition.table(step.table.id)?;
    let (environment, blocks) = (frame.environment, partition.blocks());
    let mut visit = |id, row: Row<'_>, frame: &Frame<'a>| {
        environment.spend(1)?;
        let mut frame: Frame<'_> = *frame;
        frame.set(step.slot, Source::Row(row));
        if all_hold(&step.on, &frame)? { each(id, &frame).map(drop) } else { Ok(()) }
    };
    let (mut put_off, mut image) = (PutOff::default(), Vec::new());
    for id in table.scan() {
        if step.is_answered_by_key(table, id) {
            visit(id, step.needs.write(table, &[], &mut image)?, frame)?;
        } else if is_read_in_place(table, blocks, id) {
            put_off.add(id, table.id_bound());
        } else if let Some(row) = environment.present(table.row(id))? {
            visit(id, row, frame)?;
        } else {
            environment.spend(1)?;
        }
    }
    let mut visit = |id, row: Row<'_>| visit(id, row, frame);
    let read = table.each_put_off(&mut put_off, blocks, &|| environment.check(), &mut visit)?;
    partition.note_read_in_place(read);
    Ok(())
}

/// Evicted rows of a table from which on a scan reads them where they are instead of bringing them back. It holds its
/// partition for longer then than if it waited elsewhere, but needs no memory for them.
const IN_PLACE_ROWS_MIN: usize = 64;
/// Bytes of an evicted row from which on a scan reads it where it is, however few there are.
const IN_PLACE_BYTES_MIN: usize = 64 << 10;

/// Whether a scan reads a row from its block, and leaves it there.
#[inline]
fn is_read_in_place(table: &Table, blocks: Option<&dyn Blocks>, id: TupleId) -> bool {
    let Some((place, blocks)) = table.block_place(id).zip(blocks) else { return false };
    table.evicted_rows() >= IN_PLACE_ROWS_MIN || blocks.read_bytes(place.block, false) >= IN_PLACE_BYTES_MIN
}

/// A row and the key by which an index has found it; the key is empty if the step does not take columns from it.
type Found<'k> = (TupleId, &'k [u8]);

/// Calls `each` for the matching rows of one step. Reads ahead for the next.
fn find_joined<'a>(depth: usize, all: &Loop<'a>, frame: &mut Frame<'a>, each: Each<'_>) -> Result<bool> {
    let Some((step, table)) = all.step(depth) else { return Ok(true) };
    let next = all.step(depth + 1).and_then(|(step, table)| Next::of(step, table));
    let is_scan = matches!(step.access, Access::Scan) && table.evicted_rows() > 0;
    let blocks = all.partition.blocks();
    let mut in_place = blocks.filter(|_| is_scan).map(|blocks| EvictedRows::new(table, blocks));
    let is_covered = step.needs != Needs::Row && table.evicted_rows() > 0;
    let mut image = Vec::new();
    let mut visit = |(id, key): Found<'_>, frame: &mut Frame<'a>| -> Result<bool> {
        frame.environment.spend(1)?;
        if step.is_answered_by_key(table, id) {
            let mut frame: Frame<'_> = *frame;
            frame.set(step.slot, Source::Row(step.needs.write(table, key, &mut image)?));
            return if all_hold(&step.on, &frame)? { each(id, all, &mut frame) } else { Ok(true) };
        }
        if let Some(evicted) = in_place.as_mut().filter(|_| is_read_in_place(table, blocks, id)) {
            let mut go_on = true;
            evicted.visit(id, &mut |row| {
                let mut frame: Frame<'_> = *frame;
                frame.set(step.slot, Source::Row(row));
                if all_hold(&step.on, &frame)? {
                    go_on = each(id, all, &mut frame)?;
                }
                Ok(())
            })?;
            return Ok(go_on);
        }
        let Some(row) = frame.environment.present(table.row(id))? else { return Ok(true) };
        frame.set(step.slot, Source::Row(row));
        if all_hold(&step.on, frame)? { each(id, all, frame) } else { Ok(true) }
    };
    let mut visit_all = |found: &mut dyn Iterator<Item = Found<'_>>, frame: &mut Frame<'a>| -> Result<bool> {
        let Some(next) = next else {
            for row in found {
                if !visit(row, frame)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        // Few at first: the caller may stop early.
        let mut ahead = 1;
        loop {
            let some: OfLookUps<Found<'_>> = found.take(ahead).collect();
            if some.is_empty() {
                return Ok(true);
            }
            if some.len() > 1 && !is_scan {
                let ids: OfLookUps<TupleId> = some.iter().map(|(id, _)| *id).collect();
                next.read_ahead(step, table, &ids, frame)?;
            }
            for row in some {
                if !visit(row, frame)? {
                    return Ok(false);
                }
            }
            ahead = (2 * ahead).min(LOOK_UPS_AHEAD);
        }
    };
    match &step.access {
        Access::Scan => {
            let go_on = visit_all(&mut table.scan().map(|id| (id, [].as_slice())), frame);
            all.partition.note_read_in_place(in_place.map_or(0, |evicted| evicted.read_bytes()));
            go_on
        }
        Access::Key { index, parts, unique, .. } => {
            let mut key = frame.environment.buffer();
            if !push_parts(&mut key, parts, frame)? {
                frame.environment.keep(key);
                return Ok(true);
            }
            let kept = if is_covered { key.clone() } else { Vec::new() };
            if *unique {
                let found = table.find(*index, &key)?;
                frame.environment.keep(key);
                return found.map_or(Ok(true), |id| visit_all(&mut std::iter::once((id, &*kept)), frame));
            }
            let matches = table.lookup(*index, &key)?;
            frame.environment.keep(key);
            visit_all(&mut matches.map(|id| (id, &*kept)), frame)
        }
        Access::Range { index, parts, bounds, reverse } => {
            let (mut from, mut to) = (Vec::with_capacity(32), Vec::new());
            if !push_parts(&mut from, parts, frame)? {
                return Ok(true);
            }
            to.extend_from_slice(&from);
            let Some((low, high)) = range_bounds(bounds.as_ref(), &mut from, &mut to, frame)? else { return Ok(true) };
            let (low, high) = (bound(low, &from), bound(high, &to));
            let found = table.range(*index, low, high)?.map(|(key, id)| (id, key));
            if *reverse { visit_all(&mut found.rev(), frame) } else { visit_all(&mut { found }, frame) }
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
                table.index(*index)?;
                let found = some.iter().copied().flat_map(|key| {
                    // The index exists.
                    table.lookup(*index, key).into_iter().flatten().map(move |id| (id, key))
                });
                if !visit_all(&mut { found }, frame)? {
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
                let found = table.range(*index, Bound::Included(from), to)?.map(|(key, id)| (id, key));
                let go_on =
                    if *reverse { visit_all(&mut found.rev(), frame) } else { visit_all(&mut { found }, frame) }?;
                if !go_on {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}
