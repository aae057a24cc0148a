//! Execution of a planned query.

use thermocline_tables::partition::{Partition, Scope};
use thermocline_tables::table::{Row, TupleId};
use thermocline_types::{Class, Result, Value, ValueRef};

use super::Select;
use super::aggregate::Groups;
use super::sort::{arrange, distinct};
use crate::expression::{Environment, Expr, Frame, Source};
use crate::plan::{Loop, Routing, all_hold, walk};
use crate::rows::{Outcome, Rows};

impl Select {
    /// Runs the query in the participants and adds the result to the outcome.
    pub fn run(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.point {
            return self.run_point(scope, environment, parameters, outcome);
        }
        let rows = &mut outcome.rows;
        let before = rows.len();
        if self.ordered && self.keeps_rows() && !matches!(self.routing, Routing::All | Routing::Several(_)) {
            // Rows that need no further work go directly to the outcome.
            *rows = self.run_from(std::mem::take(rows), scope, environment, parameters)?;
        } else {
            let result = self.run_from(Rows::new(self.visible), scope, environment, parameters)?;
            if before == 0 { *rows = result } else { rows.append_within(&result, environment.memory())? }
        }
        outcome.affected += (rows.len() - before) as u64;
        Ok(())
    }

    fn run_point(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Some(step) = self.steps.first() else { return Ok(()) };
        let (partition, _) = match &self.routing {
            Routing::Any => scope.any()?,
            routing => match routing.one(scope, parameters)? {
                Some(hash) => scope.one(hash)?,
                None => return Ok(()),
            },
        };
        let found = step.find_point(partition.table(step.table.id)?, &Frame::new(parameters, environment))?;
        found.map_or(Ok(()), |id| self.push_row(partition, environment, parameters, id, outcome))
    }

    /// Adds the row of a point look-up to the result if it meets the other conditions.
    pub fn push_row(
        &self,
        partition: &Partition,
        environment: &Environment,
        parameters: &[Value],
        id: TupleId,
        outcome: &mut Outcome,
    ) -> Result<()> {
        environment.spend(1)?;
        let Some(step) = self.steps.first() else { return Ok(()) };
        let (table, mut image) = (partition.table(step.table.id)?, Vec::new());
        let mut frame = Frame::new(parameters, environment);
        let row = match step.key_row(table, id, &frame, &mut image)? {
            Some(row) => row,
            None => match environment.present(table.row(id))? {
                Some(row) => row,
                None => return Ok(()),
            },
        };
        if !step.on.is_empty() {
            frame.set(step.slot, Source::Row(row));
            if !all_hold(&step.on, &frame)? {
                return Ok(());
            }
        }
        let outputs = self.outputs.iter().take(self.visible);
        push_outputs(outputs, (step.slot, row), &mut outcome.rows, parameters, environment)?;
        outcome.affected += 1;
        Ok(())
    }

    /// Whether rows in the wanted order can go to the result without further processing.
    pub(super) fn keeps_rows(&self) -> bool {
        !self.distinct && self.group.is_none()
    }

    fn run_from(
        &self,
        rows: Rows,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
    ) -> Result<Rows> {
        let mut sink = Sink::new(self, parameters, environment, rows)?;
        match &self.routing {
            Routing::Any => {
                let (partition, _) = scope.any()?;
                sink.read(partition)?;
            }
            Routing::All => {
                let mut count = 0;
                for (partition, _) in scope.all()? {
                    count += 1;
                    // Concatenated partitions are not in order.
                    sink.ordered = self.ordered && count == 1 && partition.count() == 1 || self.order.is_empty();
                    if !sink.read(partition)? && sink.direct() {
                        break;
                    }
                }
            }
            Routing::Several(_) => {
                let hashes = self.routing.several(parameters)?;
                let mut partitions = scope.several(&hashes)?.peekable();
                let mut first = true;
                while let Some((partition, _)) = partitions.next() {
                    // Concatenated partitions are not in order.
                    let only = std::mem::take(&mut first) && partitions.peek().is_none();
                    sink.ordered = self.ordered && only || self.order.is_empty();
                    if !sink.read(partition)? && sink.direct() {
                        break;
                    }
                }
            }
            Routing::One(_) => {
                if let Some(hash) = self.routing.one(scope, parameters)? {
                    let (partition, _) = scope.one(hash)?;
                    sink.read(partition)?;
                }
            }
            Routing::OneOfOuter(_) => {
                let (partition, _) = match self.routing.one(scope, parameters)? {
                    Some(hash) => scope.one(hash)?,
                    None => scope.any()?,
                };
                sink.read(partition)?;
            }
        }
        sink.finish()
    }
}

/// Appends a result row computed from one table row and the parameters.
#[inline]
pub(crate) fn push_outputs<'e>(
    outputs: impl Iterator<Item = &'e Expr>,
    (slot, row): (usize, Row<'_>),
    rows: &mut Rows,
    parameters: &[Value],
    environment: &Environment,
) -> Result<()> {
    for output in outputs {
        match output {
            Expr::Column { slot: of, column } if *of == slot => {
                rows.push_column(row, *column, environment.memory())?;
            }
            _ => {
                let mut frame = Frame::new(parameters, environment);
                frame.set(slot, Source::Row(row));
                output.push_to(&frame, rows)?;
            }
        }
    }
    Ok(())
}

/// Thresholds at which rows collected for a small limit are pruned.
const PRUNED_ROWS: usize = 1024;
const PRUNED_BYTES: usize = 64 << 10;

/// Evicted rows that a query with a limit waits for together, at least.
const MISSING_AT_LEAST: usize = 16;

/// Collector of the rows of a walk.
struct Sink<'s> {
    select: &'s Select,
    parameters: &'s [Value],
    environment: &'s Environment,
    rows: Rows,
    groups: Option<Groups<'s>>,
    ordered: bool,
    offset: usize,
    limit: usize,
    /// Rows received so far.
    seen: usize,
    /// Rows received from the current partition.
    of_partition: usize,
}

impl<'s> Sink<'s> {
    fn new(select: &'s Select, parameters: &'s [Value], environment: &'s Environment, rows: Rows) -> Result<Self> {
        let count = |expr: &Option<Expr>, otherwise: usize| -> Result<usize> {
            let Some(expr) = expr else { return Ok(otherwise) };
            match expr.evaluate(&Frame::new(parameters, environment))?.get() {
                ValueRef::Null => Ok(otherwise),
                ValueRef::Int(count) => usize::try_from(count)
                    .map_err(|_| Class::InvalidParameter.error("LIMIT and OFFSET must not be negative")),
                other => Err(Class::TypeMismatch.error(format_args!("LIMIT and OFFSET take integers, not {other}"))),
            }
        };
        Ok(Self {
            select,
            parameters,
            environment,
            rows,
            groups: select.group.as_ref().map(|group| Groups::new(group, environment)),
            ordered: select.ordered,
            offset: count(&select.offset, 0)?,
            limit: count(&select.limit, usize::MAX)?,
            seen: 0,
            of_partition: 0,
        })
    }

    /// Whether rows go to the result without further processing.
    fn direct(&self) -> bool {
        self.ordered && self.select.keeps_rows()
    }

    /// Reads one partition. Returns false if it stopped early; if rows also go directly to the result, no further
    /// partition is needed.
    fn read(&mut self, partition: &Partition) -> Result<bool> {
        let select = self.select;
        if self.direct() && self.limit == 0 {
            return Ok(false);
        }
        // Rows that are sorted later include the hidden sort keys.
        if !self.ordered && self.rows.is_empty() {
            self.rows = Rows::new(select.outputs.len());
        }
        self.of_partition = 0;
        let first_only = select.group.as_ref().is_some_and(|group| group.first_only);
        if first_only || select.ordered && select.keeps_rows() && self.limit < usize::MAX {
            // Rows that conditions exclude may be among those that are missing.
            let most = if first_only { 1 } else { self.offset.saturating_add(self.limit) };
            self.environment.limit_missing(most.saturating_mul(2).max(MISSING_AT_LEAST));
        }
        let all = Loop::of(&select.steps, partition)?;
        let mut frame = Frame::new(self.parameters, self.environment);
        if select.steps.is_empty() {
            for filter in &select.filter {
                if !filter.holds(&frame)? {
                    return Ok(true);
                }
            }
        }
        walk(&all, &mut frame, &mut |frame| self.take(frame))
    }

    fn take(&mut self, frame: &Frame<'_>) -> Result<bool> {
        if let Some(groups) = &mut self.groups {
            groups.add(frame)?;
            return Ok(!self.select.group.as_ref().is_some_and(|group| group.first_only));
        }
        if self.direct() {
            self.seen += 1;
            if self.seen <= self.offset {
                return Ok(true);
            }
            self.push(frame)?;
            return Ok(self.seen - self.offset < self.limit);
        }
        self.push(frame)?;
        self.prune()?;
        self.of_partition += 1;
        // In the wanted order, only the first rows of a partition can be in the result.
        let enough = self.select.ordered && self.select.keeps_rows();
        Ok(!enough || self.of_partition < self.offset.saturating_add(self.limit))
    }

    fn push(&mut self, frame: &Frame<'_>) -> Result<()> {
        for output in self.select.outputs.iter().take(self.rows.width()) {
            output.push_to(frame, &mut self.rows)?;
        }
        Ok(())
    }

    /// Drops rows that cannot be in the result any more, for a sort with a small limit.
    fn prune(&mut self) -> Result<()> {
        let keep = self.offset.saturating_add(self.limit);
        let (rows, enough) = (self.rows.len(), keep.saturating_mul(2));
        if rows > enough
            && (rows > PRUNED_ROWS || self.rows.byte_size() > PRUNED_BYTES)
            && !self.select.distinct
            && !self.select.order.is_empty()
        {
            self.rows = arrange(&self.rows, &self.select.order, self.rows.width(), 0, keep, self.environment)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Rows> {
        let direct = self.direct();
        if let Some(groups) = self.groups.take() {
            self.rows = Rows::new(self.select.outputs.len());
            let (groups, _memory) = groups.finish();
            for computed in groups {
                self.environment.next_row();
                let computed = computed?;
                let mut frame = Frame::new(self.parameters, self.environment);
                frame.computed = &computed;
                let kept = match self.select.group.as_ref().and_then(|group| group.having.as_ref()) {
                    Some(having) => having.holds(&frame)?,
                    None => true,
                };
                if kept {
                    for output in &self.select.outputs {
                        output.push_to(&frame, &mut self.rows)?;
                    }
                }
            }
        }
        if direct {
            return Ok(self.rows);
        }
        if self.select.distinct {
            self.rows = distinct(&self.rows, self.environment)?;
        }
        let Select { order, visible, .. } = self.select;
        arrange(&self.rows, order, *visible, self.offset, self.limit, self.environment)
    }
}
