//! Prepared statements.

use std::borrow::Cow;

use sqlparser::ast;
use thermocline_syntax::Statement;
use thermocline_tables::partition::{Participants, Scope};
use thermocline_tables::schema::{Argument, Schema};
use thermocline_tables::table::{Charge, HeapSize, LOOK_UPS_AHEAD, OfLookUps, allocated};
use thermocline_types::{
    Class, DataType, Decimal, Error, Interval, Result, UUID_BYTES, Value, ValueRef, cast, parse_text,
};

use super::bind::Binder;
use super::expression::Environment;
use super::parse::parse;
use super::plan::{Points, Work, explain_steps, read_ahead};
use super::rows::{Batch, Outcome, OutputColumn, TextHint};
use super::select::{Select, bind_select};
use super::write::{Delete, Insert, Update};

/// A parsed, bound and planned statement, to be run many times.
///
/// It holds positions and ids of the schema that it was prepared for, and must be prepared again when that changes.
#[derive(Debug, Clone)]
pub struct Prepared {
    plan: Plan,
    parameters: Vec<DataType>,
    /// For each parameter, the kinds of values that it takes without conversion.
    kinds: Box<[u16]>,
    columns: Vec<OutputColumn>,
    texts: TextHint,
}

#[derive(Debug, Clone)]
enum Plan {
    Select(Box<Select>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    /// The lines of `EXPLAIN`, and the query that it explains.
    Text(Vec<String>, Option<Box<Select>>),
}

impl Prepared {
    /// Prepares one `SELECT`, `INSERT`, `UPDATE`, `DELETE`, or `EXPLAIN` of one of these.
    ///
    /// [`Error::Unsupported`] means that this engine does not support the statement; the analytic engine may still run
    /// a query on a snapshot of the rows.
    pub fn new(schema: &Schema, sql: &str) -> Result<Self> {
        Self::with_arguments(schema, sql, &[])
    }

    /// Prepares a statement of a procedure; it may refer to the arguments by name or as `$1`, `$2`.
    pub fn with_arguments(schema: &Schema, sql: &str, arguments: &[Argument]) -> Result<Self> {
        Self::bind(schema, &parse(sql)?, arguments)
    }

    /// Binds and plans a statement; `arguments` are those of the procedure that contains it.
    ///
    /// # Errors
    /// If it does not fit the schema, or this planner does not support it.
    pub fn bind(schema: &Schema, statement: &Statement, arguments: &[Argument]) -> Result<Self> {
        Self::bind_charged(schema, statement, arguments, None)
    }

    /// [`Self::bind`] that charges memory added by the schema, which [`parse_bytes`](super::parse_bytes) does not
    /// count.
    pub fn bind_charged(
        schema: &Schema,
        statement: &Statement,
        arguments: &[Argument],
        charge: Option<&mut Charge>,
    ) -> Result<Self> {
        let statement = match statement {
            Statement::Sql(statement, _) => statement.as_ref(),
            Statement::Explain(inner) => {
                let inner = Self::bind_charged(schema, inner, arguments, charge)?;
                let columns = vec![OutputColumn { name: "QUERY PLAN".into(), data_type: DataType::Text }];
                let lines = inner.explain();
                let query = if let Plan::Select(query) = inner.plan { Some(query) } else { None };
                return Ok(Self::new_plan(Plan::Text(lines, query), inner.parameters, columns));
            }
            Statement::Call { .. } => return Err(Class::Syntax.error("CALL is no statement to prepare")),
            Statement::CreateProcedure(_) | Statement::DropProcedure { .. } => {
                return Err(Class::Syntax.error("a definition is no statement to prepare"));
            }
        };
        let mut binder = Binder::new(schema, arguments).with_charge(charge);
        let (plan, columns) = match statement {
            ast::Statement::Query(query) => {
                let (select, columns) = bind_select(&mut binder, query)?;
                (Plan::Select(Box::new(select)), columns)
            }
            ast::Statement::Insert(insert) => {
                let (insert, columns) = Insert::bind(&mut binder, insert)?;
                (Plan::Insert(Box::new(insert)), columns)
            }
            ast::Statement::Update(update) => {
                let (update, columns) = Update::bind(&mut binder, update)?;
                (Plan::Update(Box::new(update)), columns)
            }
            ast::Statement::Delete(delete) => {
                let (delete, columns) = Delete::bind(&mut binder, delete)?;
                (Plan::Delete(Box::new(delete)), columns)
            }
            other => return Err(Error::unsupported(other)),
        };
        Ok(Self::new_plan(plan, binder.into_parameters(), columns))
    }

    fn new_plan(plan: Plan, parameters: Vec<DataType>, columns: Vec<OutputColumn>) -> Self {
        let kinds = parameters.iter().map(|data_type| kinds(*data_type)).collect();
        Self { plan, parameters, kinds, columns, texts: TextHint::default() }
    }

    /// The type of each parameter; TEXT if nothing in the statement decides it.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The columns of the result; empty if the statement returns no rows.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// Whether it changes nothing.
    pub const fn is_read_only(&self) -> bool {
        matches!(self.plan, Plan::Select(_) | Plan::Text(..))
    }

    /// Whether its SELECT, if any, has a LIMIT or an OFFSET without ORDER BY.
    pub fn limits_without_order(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => select.limits_without_order(),
            Plan::Insert(insert) => insert.limits_without_order(),
            Plan::Update(_) | Plan::Delete(_) | Plan::Text(..) => false,
        }
    }

    /// The partitions that it needs for these parameters.
    pub fn participants(&self, parameters: &[Value]) -> Result<Participants> {
        let parameters = self.settle(parameters)?;
        let replicated = |step: &super::plan::Step| step.table.partition_by.is_none();
        match &self.plan {
            Plan::Select(select) => select.routing.participants(&parameters),
            Plan::Insert(insert) => insert.participants(&parameters),
            Plan::Update(update) if replicated(&update.step) => Ok(Participants::All),
            Plan::Update(update) => update.routing.participants(&parameters),
            Plan::Delete(delete) if replicated(&delete.step) => Ok(Participants::All),
            Plan::Delete(delete) => delete.routing.participants(&parameters),
            Plan::Text(..) => Ok(Participants::Any),
        }
    }

    /// Runs it in the partitions of a transaction. [`Error::OtherPartition`] means that it needs further partitions.
    #[inline]
    pub fn run(&self, scope: &mut Scope<'_>, environment: &Environment, parameters: &[Value]) -> Result<Outcome> {
        let parameters = self.settle(parameters)?;
        let mut outcome = Outcome { rows: self.texts.rows(self.columns.len()), affected: 0 };
        environment.complete(self.run_settled(scope, environment, &parameters, &mut outcome))?;
        self.texts.note(&outcome.rows);
        Ok(outcome)
    }

    /// Runs it once for each set of parameters, in order. Look-ups by complete keys are prefetched for several runs
    /// together, so their cache misses overlap.
    pub fn run_batch<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
    ) -> Result<Batch> {
        let mut batch = self.batch(sets.len());
        batch.outcome.rows.reserve(sets.len());
        let mut chunks = sets.chunks(LOOK_UPS_AHEAD);
        environment.complete(chunks.try_for_each(|sets| self.run_sets(scope, environment, sets, &mut batch)))?;
        self.texts.note(&batch.outcome.rows);
        Ok(batch)
    }

    /// Runs it `runs` times; `set` makes the parameters of a run, given its number, shortly before the run.
    pub fn run_batch_of<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        runs: usize,
        mut set: impl FnMut(usize) -> Result<P>,
    ) -> Result<Batch> {
        let mut batch = self.batch(runs);
        batch.outcome.rows.reserve(runs.min(LOOK_UPS_AHEAD));
        for from in (0..runs).step_by(LOOK_UPS_AHEAD) {
            let mut sets = OfLookUps::<P>::new();
            for run in from..runs.min(from + LOOK_UPS_AHEAD) {
                sets.push(set(run)?);
            }
            self.run_sets(scope, environment, &sets, &mut batch).or_else(|error| environment.complete(Err(error)))?;
            // The texts of these sets are freed.
            drop(sets);
            environment.next_row();
        }
        environment.complete(Ok(()))?;
        self.texts.note(&batch.outcome.rows);
        Ok(batch)
    }

    /// [`Self::run_batch`] with borrowed values. An INSERT of one row of parameters uses them directly if none needs
    /// conversion; otherwise they are copied.
    pub fn run_batch_borrowed<'v, P: AsRef<[ValueRef<'v>]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
    ) -> Result<Batch> {
        if let Plan::Insert(insert) = &self.plan
            && sets.iter().all(|parameters| self.takes(parameters.as_ref().iter().map(|value| value.kind_bit())))
        {
            let mut batch = self.batch(sets.len());
            if insert.run_each(scope, environment, sets, &mut batch)? {
                return Ok(batch);
            }
        }
        let own = |parameters: &P| parameters.as_ref().iter().map(|value| value.to_value()).collect();
        let owned: Vec<Vec<Value>> = sets.iter().map(own).collect();
        self.run_batch(scope, environment, &owned)
    }

    /// An empty result with room for `runs` runs.
    fn batch(&self, runs: usize) -> Batch {
        Batch::new(self.texts.rows(self.columns.len()), runs)
    }

    /// Runs it for a few sets of parameters.
    fn run_sets<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
        batch: &mut Batch,
    ) -> Result<()> {
        if sets.iter().all(|parameters| self.takes(parameters.as_ref().iter().map(Value::kind_bit))) {
            return self.run_some(scope, environment, sets, batch);
        }
        let mut settled = OfLookUps::new();
        for parameters in sets {
            settled.push(self.settle(parameters.as_ref())?);
        }
        self.run_some(scope, environment, &settled, batch)
    }

    /// Runs it for a few sets of parameters that need no conversion.
    fn run_some<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
        batch: &mut Batch,
    ) -> Result<()> {
        if sets.len() > 1 {
            if let Plan::Insert(insert) = &self.plan
                && insert.run_each(scope, environment, sets, batch)?
            {
                return Ok(());
            }
            if self.run_points(scope, environment, sets, batch)? {
                return Ok(());
            }
            self.read_ahead(scope, environment, sets)?;
        }
        for parameters in sets {
            self.run_settled(scope, environment, parameters.as_ref(), &mut batch.outcome)?;
            batch.end();
        }
        Ok(())
    }

    /// Runs point queries and in-place updates by key: finds the rows of all sets first, because no run changes what
    /// another finds. Returns false, and does nothing, for other statements and for rows in several partitions.
    fn run_points<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
        batch: &mut Batch,
    ) -> Result<bool> {
        let (step, routing) = match &self.plan {
            Plan::Select(select) if select.point => (select.steps.first(), &select.routing),
            Plan::Update(update) if update.in_place && update.step.is_point() => (Some(&update.step), &update.routing),
            _ => return Ok(false),
        };
        let points = step.and_then(|step| Points::find(step, routing, scope, environment, sets));
        let Some(points) = points else { return Ok(false) };
        let (partition, transaction) = points.place(scope)?;
        for (parameters, id) in sets.iter().map(AsRef::as_ref).zip(&points.ids) {
            match (&self.plan, id) {
                (Plan::Select(select), Some(id)) => {
                    select.push_row(partition, environment, parameters, *id, &mut batch.outcome)?
                }
                (Plan::Update(update), Some(id)) => {
                    update.change_in_place(partition, transaction, environment, parameters, *id, &mut batch.outcome)?;
                }
                _ => {}
            }
            batch.end();
        }
        Ok(true)
    }

    /// Runs it with converted parameters and adds to `outcome`.
    fn run_settled(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        match &self.plan {
            Plan::Select(select) => {
                environment.check_bound(|| select.rows_estimated(scope))?;
                select.run(scope, environment, parameters, outcome)
            }
            Plan::Insert(insert) => insert.run(scope, environment, parameters, outcome),
            Plan::Update(update) => update.run(scope, environment, parameters, outcome),
            Plan::Delete(delete) => delete.run(scope, environment, parameters, outcome),
            Plan::Text(lines, query) => {
                environment.check_bound(|| query.as_ref().map_or(Ok(0), |query| query.rows_estimated(scope)))?;
                lines.iter().try_for_each(|line| outcome.rows.push(ValueRef::Text(line)))?;
                outcome.affected += lines.len() as u64;
                Ok(())
            }
        }
    }

    fn read_ahead<P: AsRef<[Value]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
    ) -> Result<()> {
        match &self.plan {
            Plan::Select(select) => match select.steps.first() {
                Some(step) => read_ahead(step, &select.routing, scope, environment, sets),
                None => Ok(()),
            },
            Plan::Update(update) => read_ahead(&update.step, &update.routing, scope, environment, sets),
            Plan::Delete(delete) => read_ahead(&delete.step, &delete.routing, scope, environment, sets),
            Plan::Insert(_) | Plan::Text(..) => Ok(()),
        }
    }

    fn explain(&self) -> Vec<String> {
        match &self.plan {
            Plan::Select(select) => select.explain(),
            Plan::Insert(insert) => insert.explain(),
            Plan::Update(update) => update.explain(),
            Plan::Delete(delete) => delete.explain(),
            Plan::Text(lines, _) => lines.clone(),
        }
    }

    /// Whether parameters of these kinds match in number and need no conversion.
    #[inline]
    fn takes(&self, bits: impl ExactSizeIterator<Item = u16>) -> bool {
        bits.len() == self.kinds.len() && bits.zip(&self.kinds).all(|(bit, kinds)| bit & kinds != 0)
    }

    #[inline]
    fn settle<'p>(&self, parameters: &'p [Value]) -> Result<Cow<'p, [Value]>> {
        check_count(self.parameters.len(), parameters.len())?;
        if self.takes(parameters.iter().map(Value::kind_bit)) {
            return Ok(Cow::Borrowed(parameters));
        }
        settle(parameters, self.parameters.iter().copied())
    }
}

/// Checks the number of parameters.
#[inline]
pub(crate) fn check_count(has: usize, given: usize) -> Result<()> {
    if has == given {
        return Ok(());
    }
    Err(Class::UndefinedParameter.error(format_args!("the statement has {has} parameters and was given {given}")))
}

/// The kinds of values that a parameter of this type takes without conversion, as bits.
fn kinds(data_type: DataType) -> u16 {
    let one_of_each = [
        Value::Null,
        Value::Boolean(false),
        Value::Int(0),
        Value::Real(0.0),
        Value::Float(0.0),
        Value::Decimal(Decimal::ZERO),
        Value::Text(Box::default()),
        Value::Bytes(Box::default()),
        Value::Date(0),
        Value::Timestamp(0),
        Value::TimestampTz(0),
        Value::Interval(Interval::default()),
        Value::Uuid([0; UUID_BYTES]),
        Value::Jsonb(Box::default()),
    ];
    let taken = one_of_each.iter().filter(|value| fits(value.as_ref(), data_type));
    taken.fold(0, |kinds, value| kinds | value.kind_bit())
}

impl HeapSize for Prepared {
    fn heap_bytes(&self) -> usize {
        let plan = match &self.plan {
            Plan::Select(select) => select.heap_bytes(),
            Plan::Insert(insert) => insert.heap_bytes(),
            Plan::Update(update) => update.heap_bytes(),
            Plan::Delete(delete) => delete.heap_bytes(),
            Plan::Text(lines, select) => {
                let lines: usize = lines.iter().map(|line| size_of::<String>() + allocated(line.capacity())).sum();
                lines + select.heap_bytes()
            }
        };
        let kinds = allocated(size_of_val(&*self.kinds));
        plan + self.parameters.heap_bytes() + kinds + self.columns.heap_bytes()
    }
}

/// Converts parameters to the types derived at binding: text is parsed; a float for an exact type becomes exact, so
/// that plans know which comparisons are of floats; numbers for REAL, REALs for DOUBLE PRECISION, and dates and
/// timestamps for a type with more parts are cast. Other numbers and moments are taken without conversion.
pub fn settle(parameters: &[Value], types: impl Iterator<Item = DataType>) -> Result<Cow<'_, [Value]>> {
    let mut settled = Cow::Borrowed(parameters);
    for (position, (value, data_type)) in parameters.iter().zip(types).enumerate() {
        if fits(value.as_ref(), data_type) {
            continue;
        }
        let read = match value {
            Value::Text(text) => parse_text(text, data_type)?,
            number @ (Value::Int(_) | Value::Decimal(_) | Value::Real(_) | Value::Float(_)) if data_type.is_float() => {
                cast(number.as_ref(), data_type)?
            }
            moment @ (Value::Date(_) | Value::Timestamp(_)) if data_type.is_moment() => {
                cast(moment.as_ref(), data_type)?
            }
            Value::Float(_) | Value::Real(_) if data_type.is_number() => exact(value.as_ref(), data_type, position)?,
            other => {
                let given = other.as_ref().data_type().unwrap_or(DataType::Text);
                let message = format!("parameter ${} is of type {data_type}, not {given}", position + 1);
                return Err(Class::TypeMismatch.error(message));
            }
        };
        if let Some(place) = settled.to_mut().get_mut(position) {
            *place = read;
        }
    }
    Ok(settled)
}

/// Converts a float to an exact number without the limits of the type, because it may only be compared with such a
/// column.
fn exact(number: ValueRef<'_>, data_type: DataType, position: usize) -> Result<Value> {
    // A decimal keeps 15 or 6 digits of a float; an integer may have more.
    let is_whole = number.number_as_f64().is_some_and(|number| number.trunc() == number);
    let whole = is_whole.then(|| cast(number, DataType::BigInt).ok()).flatten();
    let exact = whole.map_or_else(|| cast(number, DataType::Numeric), Ok);
    exact.map_err(|_| {
        let position = position + 1;
        Class::OutOfRange
            .error(format_args!("parameter ${position} is of type {data_type}, which {number} does not fit"))
    })
}

#[inline]
fn fits(value: ValueRef<'_>, data_type: DataType) -> bool {
    match value {
        ValueRef::Null => true,
        ValueRef::Int(_) | ValueRef::Decimal(_) => data_type.is_number() && data_type != DataType::Real,
        ValueRef::Real(_) => data_type == DataType::Real,
        ValueRef::Float(_) => data_type == DataType::Double,
        ValueRef::Text(_) => data_type.is_text(),
        ValueRef::Boolean(_) => data_type == DataType::Boolean,
        ValueRef::Bytes(_) => data_type == DataType::Bytea,
        ValueRef::Interval(_) => data_type == DataType::Interval,
        ValueRef::Uuid(_) => data_type == DataType::Uuid,
        ValueRef::Jsonb(_) => data_type == DataType::Jsonb,
        ValueRef::Date(_) => data_type == DataType::Date,
        ValueRef::Timestamp(_) => matches!(data_type, DataType::Date | DataType::Timestamp),
        ValueRef::TimestampTz(_) => data_type.is_moment(),
    }
}

impl Select {
    fn explain(&self) -> Vec<String> {
        let mut lines = explain_steps(&self.steps, &self.routing, Work::Reads);
        for (said, present) in [
            ("group", self.group.is_some()),
            ("distinct", self.distinct),
            ("sort", !self.order.is_empty() && !self.ordered),
            ("limit", self.limit.is_some() || self.offset.is_some()),
        ] {
            if present {
                lines.push(said.to_owned());
            }
        }
        lines
    }

    pub(super) fn limits_without_order(&self) -> bool {
        (self.limit.is_some() || self.offset.is_some()) && self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_for_exact_parameters_are_the_numbers_that_they_are_written_as() {
        let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
        for data_type in [DataType::Decimal { precision: 20, scale: 14 }, DataType::Numeric, DataType::BigInt] {
            let settled = |value| settle(&[value], [data_type].into_iter()).map(|settled| settled[0].clone());
            assert_eq!(settled(Value::Real(1.1)).unwrap(), decimal("1.1"));
            assert_eq!(settled(Value::Float(1.1)).unwrap(), decimal("1.1"));
            assert_eq!(settled(Value::Real(-2.0)).unwrap(), Value::Int(-2));
            assert_eq!(settled(Value::Float(3.0)).unwrap(), Value::Int(3));
            let wide = (1 << 53) - 1;
            assert_eq!(settled(Value::Float(wide as f64)).unwrap(), Value::Int(wide));
            for lost in [Value::Real(f32::NAN), Value::Float(f64::INFINITY), Value::Float(1e300)] {
                assert_eq!(settled(lost).unwrap_err().sqlstate(), "22003");
            }
        }
    }
}
