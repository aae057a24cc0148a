//! `UPDATE`.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use sqlparser::ast;
use thermocline_tables::partition::{Partition, Scope, Transaction};
use thermocline_tables::schema::IndexDefinition;
use thermocline_tables::table::{Layout, Patch, Structure, TupleId};
use thermocline_types::{Error, Result, Value, ValueRef};

use super::shares::for_each_share;
use super::{Assignment, Check, OfRow, Returning, bind_assignments, bind_checks, bind_returning, check_row, store};
use crate::bind::Binder;
use crate::expression::{Environment, Evaluated, Expr, Frame, Source};
use crate::heap_size::heap_size;
use crate::plan::{
    Access, Routing, Step, Work, all_hold, conjuncts, explain_steps, find_rows, find_rows_by_block, note_needs,
    plan_joins,
};
use crate::rows::{Outcome, OutputColumn};
use crate::select::bind_table;

/// Bytes of an unread row besides its image, approximately.
const UNREAD_BYTES: usize = 48;
/// Limit on integers that are changed together.
const INTEGERS_MAX: usize = 8;

/// A planned `UPDATE`.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub step: Step,
    pub routing: Routing,
    assignments: Vec<Assignment>,
    checks: Vec<Check>,
    returning: Returning,
    /// Whether it changes only unindexed columns of fixed width of a partitioned table.
    pub in_place: bool,
    /// Whether all assignments are compiled ones of integers, in place.
    of_integers: bool,
    /// Whether partitions are independent; see [`for_each_share`].
    is_apart: bool,
    /// Bytes of the fixed part of the rows that it was planned for.
    fixed_bytes: usize,
    /// Whether its new rows follow from their keys, so that evicted ones need not be read.
    is_blind: bool,
}

impl Update {
    pub fn bind(binder: &mut Binder<'_>, update: &ast::Update) -> Result<(Self, Vec<OutputColumn>)> {
        let plain = update.from.is_none()
            && update.table.joins.is_empty()
            && update.or.is_none()
            && update.output.is_none()
            && update.order_by.is_empty()
            && update.limit.is_none();
        if !plain {
            return Err(Error::unsupported("this UPDATE"));
        }
        let joined = bind_table(binder, &update.table.relation)?;
        let condition = update.selection.as_ref().map(|condition| binder.condition(condition, "WHERE")).transpose()?;
        let assignments = bind_assignments(binder, &joined.table, &update.assignments)?;
        let (returning, columns) = bind_returning(binder, update.returning.as_ref())?;
        let checks = bind_checks(binder.schema(), &joined.table, Some(&assignments))?;
        let is_volatile = condition.iter().chain(checks.iter().map(|check| &check.condition)).any(Expr::is_volatile)
            || assignments.iter().any(|one| one.value.is_volatile());
        let is_apart = returning.outputs.is_empty() && !is_volatile;
        let (mut step, routing) = one_step(joined, condition)?;
        let is_fixed = assignments.iter().all(|assignment| assignment.fixed);
        let is_assigned = |column| assignments.iter().any(|assignment| assignment.column == column);
        let is_blind = is_fixed
            && returning.outputs.is_empty()
            && checks.is_empty()
            && step.take_keys().is_some_and(|keys| {
                (0..step.table.columns.len()).all(|column| keys.contains(&column) != is_assigned(column))
            });
        let table = &step.table;
        let in_place = table.partition_by.is_some()
            && checks.is_empty()
            && assignments.iter().all(|Assignment { column, .. }| {
                let fixed = table.columns.get(*column).is_some_and(|column| column.data_type.is_of_fixed_width());
                let indexed = |index: &IndexDefinition| index.columns.iter().any(|held| held.column == *column);
                fixed && !table.indexes.iter().any(indexed)
            });
        let of_integers =
            in_place && assignments.len() <= INTEGERS_MAX && assignments.iter().all(|one| one.integers.is_some());
        let fixed_bytes = Layout::new(table)?.fixed_bytes();
        let update = Self {
            step,
            routing,
            assignments,
            checks,
            returning,
            in_place,
            of_integers,
            is_apart,
            fixed_bytes,
            is_blind,
        };
        Ok((update, columns))
    }

    pub fn explain(&self) -> Vec<String> {
        let work = if self.is_blind { Work::ChangesUnread } else { Work::Changes };
        explain_steps(std::slice::from_ref(&self.step), &self.routing, work)
    }

    pub fn run(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let shares = (&self.step, &self.routing, self.is_apart);
        for_each_share(
            shares,
            scope,
            environment,
            parameters,
            outcome,
            |partition, transaction, environment, outcome| {
                self.run_in(partition, transaction, environment, parameters, outcome)
            },
        )
    }

    fn run_in(
        &self,
        partition: &mut Partition,
        transaction: &mut Transaction,
        environment: &Environment,
        parameters: &[Value],
        mut outcome: Option<&mut Outcome>,
    ) -> Result<()> {
        let unread = unread_by_key(self.is_blind, &self.step, partition)?;
        if let Some(outcome) = &mut outcome
            && self.in_place
            && self.step.is_point()
        {
            let frame = Frame::new(parameters, environment);
            let table = partition.table(self.step.table.id)?;
            let Some(id) = self.step.find_point(table, &frame)? else { return Ok(()) };
            if unread == Unread::Nothing || table.block_place(id).is_none() {
                return self.change_in_place(partition, transaction, environment, parameters, id, outcome);
            }
        }
        let mut memory = environment.structure("rows to change");
        let found = matching(&self.step, partition, environment, parameters, &mut memory, unread)?;
        environment.next_row();
        if found.ids.is_empty() {
            // Values that cannot be computed fail for rows alone, so that it does not matter in which way these are found.
            return Ok(());
        }
        let frame = Frame::new(parameters, environment);
        // Values that are the same for all rows, which may borrow from the parameters.
        let mut fixed: OfRow<Option<Evaluated<'_>>> = OfRow::new();
        for assignment in &self.assignments {
            fixed.push(if assignment.fixed { Some(assignment.value.evaluate(&frame)?) } else { None });
        }
        environment.keeping_texts(|| self.change(partition, transaction, &frame, &found, &fixed, outcome))
    }

    fn change<'a>(
        &'a self,
        partition: &mut Partition,
        transaction: &mut Transaction,
        frame: &Frame<'a>,
        found: &Found,
        fixed: &[Option<Evaluated<'_>>],
        mut outcome: Option<&mut Outcome>,
    ) -> Result<()> {
        let (definition, environment, parameters) = (&self.step.table, frame.environment, frame.parameters);
        let of_integers = self.of_integers && self.is_of(partition.table(definition.id)?.layout());
        for (number, id) in found.ids.iter().copied().enumerate() {
            environment.check_at(number)?;
            environment.next_row();
            let key_row = found.unread.get(&id);
            if key_row.is_none()
                && of_integers
                && let Some(outcome) = &mut outcome
            {
                let places = self.assignments.iter().filter_map(|one| one.integers.as_ref().map(|change| change.place));
                let values = |image: &[u8]| self.integers(image, parameters);
                let table = partition.table_mut(definition.id)?;
                if let Some(row) = table.change_integers(id, places, values, &mut transaction.undo)? {
                    outcome.affected += 1;
                    self.returning.push(&mut outcome.rows, Source::Row(row), parameters, environment)?;
                    continue;
                }
            }
            // The others are computed before the row changes.
            let mut computed: OfRow<Value> = OfRow::new();
            let mut frame = *frame;
            if key_row.is_none() {
                frame.set(0, Source::Row(partition.table(definition.id)?.row(id)?));
            }
            for assignment in self.assignments.iter().filter(|assignment| !assignment.fixed) {
                computed.push(assignment.value.evaluate(&frame)?.into_value(environment)?);
            }
            let mut rest = computed.iter();
            let mut changes: OfRow<(usize, ValueRef<'_>)> = OfRow::new();
            for (assignment, fixed) in self.assignments.iter().zip(fixed) {
                let value = match fixed {
                    Some(fixed) => Evaluated::get(fixed),
                    None => rest.next().map(Value::as_ref).unwrap_or_default(),
                };
                if let Some(column) = definition.columns.get(assignment.column) {
                    changes.push((assignment.column, store(definition, column, value)?));
                }
            }
            if !self.checks.is_empty() {
                let row = partition.table(definition.id)?.row_unread(id)?;
                check_row(&self.checks, definition, Source::Changed(row, &changes), environment)?;
            }
            match key_row {
                Some(key_row) => {
                    let table = partition.table_mut(definition.id)?;
                    table.update_unread(id, key_row, &changes, &mut transaction.undo)?;
                }
                None => partition.update(definition.id, id, &changes, transaction)?,
            }
            if let Some(outcome) = &mut outcome {
                outcome.affected += 1;
                if !self.returning.outputs.is_empty() {
                    let row = Source::Row(partition.table(definition.id)?.row_unread(id)?);
                    self.returning.push(&mut outcome.rows, row, parameters, environment)?;
                }
            }
        }
        Ok(())
    }
}

heap_size! { Update: step routing assignments checks returning; }

impl Update {
    /// Changes the row of a point look-up in place if it meets the other conditions.
    pub fn change_in_place(
        &self,
        partition: &mut Partition,
        transaction: &mut Transaction,
        environment: &Environment,
        parameters: &[Value],
        id: TupleId,
        outcome: &mut Outcome,
    ) -> Result<()> {
        environment.spend(1)?;
        let definition = &*self.step.table;
        let table = partition.table_mut(definition.id)?;
        if self.of_integers && self.step.on.is_empty() && self.is_of(table.layout()) {
            let places = self.assignments.iter().filter_map(|one| one.integers.as_ref().map(|change| change.place));
            let values = |image: &[u8]| self.integers(image, parameters);
            let changed = table.change_integers(id, places, values, &mut transaction.undo);
            let Some(changed) = environment.present(changed)? else { return Ok(()) };
            if let Some(row) = changed {
                outcome.affected += 1;
                return self.returning.push(&mut outcome.rows, Source::Row(row), parameters, environment);
            }
        }
        let mut frame = Frame::new(parameters, environment);
        let Some(place) = environment.present(table.place_of(id))? else { return Ok(()) };
        let row = table.row_at(place)?;
        frame.set(0, Source::Row(row));
        if !all_hold(&self.step.on, &frame)? {
            return Ok(());
        }
        let mut patch = Patch::default();
        for assignment in &self.assignments {
            let Some(column) = definition.columns.get(assignment.column) else { continue };
            let convert = |value| store(definition, column, value);
            let integer = assignment.integers.as_ref().filter(|_| self.is_of(table.layout()));
            let integer = integer.and_then(|change| Some((change.place, change.integer(row.image(), parameters)?)));
            if let Some((place, number)) = integer {
                patch.set_integer(place, number);
                continue;
            }
            let value = assignment.value.evaluate(&frame)?;
            patch.set(table.layout(), assignment.column, value.get(), convert)?;
        }
        let row = table.patch_row(place, &patch, &mut transaction.undo)?;
        outcome.affected += 1;
        self.returning.push(&mut outcome.rows, Source::Row(row), parameters, environment)
    }
}

impl Update {
    /// The new integers for a row with this image; `None` if a value is not an integer or does not fit its column.
    #[inline]
    fn integers(&self, image: &[u8], parameters: &[Value]) -> Option<[i64; INTEGERS_MAX]> {
        let mut numbers = [0; INTEGERS_MAX];
        for (number, assignment) in numbers.iter_mut().zip(&self.assignments) {
            *number = assignment.integers.as_ref()?.integer(image, parameters)?;
        }
        Some(numbers)
    }

    /// Whether rows still have the layout that this was planned for.
    #[inline]
    fn is_of(&self, layout: &Layout) -> bool {
        self.fixed_bytes == layout.fixed_bytes()
    }
}

/// The single step of a statement over one table, and its routing.
pub(super) fn one_step(
    joined: crate::plan::Joined,
    condition: Option<crate::expression::Expr>,
) -> Result<(Step, Routing)> {
    let filters: Vec<_> = condition.clone().map(conjuncts).unwrap_or_default();
    let tables = [joined];
    let routing = Routing::of(&tables, &filters)?;
    let plan = plan_joins(&tables, condition, None)?;
    let mut steps = plan.steps;
    // Rows that its conditions exclude; the others are needed whole, to be changed.
    note_needs(&mut steps, &[]);
    let step = steps.into_iter().next().ok_or_else(|| Error::internal("a statement without a table"))?;
    Ok((step, routing))
}

/// Evicted rows that a statement changes without having them back, where the partition lets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Nothing,
    /// Those whose key the index has given, if that is all that is needed.
    Keyed,
    /// Those that a scan has read where they are, because their keys are all that is needed any more.
    Scanned,
}

/// [`Unread::Keyed`] if a statement allows that and the partition lets evicted rows of its step change unread.
pub(super) fn unread_by_key(is_blind: bool, step: &Step, partition: &Partition) -> Result<Unread> {
    if !is_blind {
        return Ok(Unread::Nothing);
    }
    let table = partition.table(step.table.id)?;
    let is_unread = table.evicted_rows() > 0 && partition.changes_unread(table);
    Ok(if is_unread { Unread::Keyed } else { Unread::Nothing })
}

/// Rows that a statement is about to change.
#[derive(Default)]
pub(super) struct Found {
    pub ids: SmallVec<[TupleId; 16]>,
    /// Images with the columns of the keys of those that are evicted and stay unread.
    pub unread: BTreeMap<TupleId, Box<[u8]>>,
}

/// Adds how many rows fit to the error of a statement that has found so many, whose keys it keeps: a third, because
/// other partitions may have found as many.
fn with_advice(error: Error, found: usize) -> Error {
    match error {
        Error::OutOfMemory(why) if found >= 3 => Error::OutOfMemory(
            format!("{why}; it had found {found} rows to change: change {} rows at a time", found / 3).into(),
        ),
        error => error,
    }
}

/// Finds all rows of a step before any of them changes, in the order of a scan; none if some of them are evicted and
/// have to be read.
pub(super) fn matching(
    step: &Step,
    partition: &Partition,
    environment: &Environment,
    parameters: &[Value],
    memory: &mut Structure<'_>,
    unread: Unread,
) -> Result<Found> {
    let table = partition.table(step.table.id)?;
    let is_scan = matches!(step.access, Access::Scan);
    let mut collect = |by_block: bool| -> Result<Found> {
        let mut frame = Frame::new(parameters, environment);
        let (mut found, mut unread_bytes) = (Found::default(), 0);
        let Found { ids, unread: keys } = &mut found;
        let mut each = |id, frame: &Frame<'_>| -> Result<bool> {
            let key_row = match frame.sources.get(step.slot) {
                Some(Source::Row(row)) if table.block_place(id).is_some() => match unread {
                    Unread::Keyed if step.is_answered_by_key(table, id) => Some(row.image().into()),
                    Unread::Scanned => {
                        let mut image = environment.buffer();
                        table.write_keys_row(*row, &mut image)?;
                        let key_row = image.as_slice().into();
                        environment.keep(image);
                        Some(key_row)
                    }
                    _ => {
                        // A scan has read it where it is, but it has to be back to be changed.
                        environment.present(table.row(id))?;
                        None
                    }
                },
                _ => None,
            };
            let is_full = ids.len() == ids.capacity();
            unread_bytes += key_row.as_deref().map_or(0, |key_row: &[u8]| key_row.len() + UNREAD_BYTES);
            if is_full || key_row.is_some() {
                // The vector doubles.
                let resized = memory.resize(2 * ids.capacity() * size_of::<TupleId>() + unread_bytes);
                resized.map_err(|error| with_advice(error, keys.len()))?;
            }
            keys.extend(key_row.map(|key_row| (id, key_row)));
            ids.push(id);
            Ok(true)
        };
        match by_block {
            true => find_rows_by_block(step, partition, &mut frame, &mut each)?,
            false => find_rows(step, partition, &mut frame, &mut each).map(drop)?,
        }
        Ok(found)
    };
    let mut by_block = false;
    if is_scan && table.evicted_rows() > 0 {
        environment.seek_all();
        by_block = !step.on.iter().any(Expr::is_volatile);
    }
    let mut found = match collect(by_block) {
        // It depends on where rows are which of them fails first.
        Err(Error::User(..)) if by_block => collect(false)?,
        found => found?,
    };
    if environment.is_short() {
        found.ids.clear();
    }
    if is_scan || matches!(step.access, Access::Union { .. }) {
        // In scan order, which determines random values and temporary unique conflicts.
        found.ids.sort_unstable();
    }
    Ok(found)
}
