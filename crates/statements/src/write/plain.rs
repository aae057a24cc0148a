//! Rows of VALUES that are inserted without further checks.

use smallvec::SmallVec;
use thermocline_tables::PartitionHash;
use thermocline_tables::partition::Scope;
use thermocline_tables::schema::TableDefinition;
use thermocline_tables::table::{Encoder, HeapSize, Layout, Parameter, Written, allocated};
use thermocline_types::{Result, Value, ValueRef};

use super::{Returning, store};
use crate::expression::{Environment, Evaluated, Expr, Frame, Source};
use crate::rows::{Batch, Outcome};

/// Encoder of a row of VALUES for a partitioned table without checks.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    /// Partition column.
    by: usize,
    /// The parameter that is its value; `None` if the value is not a parameter.
    by_parameter: Option<usize>,
    /// Columns whose values are neither parameters nor constants.
    computed: Vec<usize>,
    encoder: Encoder,
}

impl Plain {
    /// Makes the encoder for a row of these values; `None` if the table is not partitioned.
    pub fn new(table: &TableDefinition, row: &[Expr]) -> Result<Option<Self>> {
        let Some(by) = table.partition_by else { return Ok(None) };
        let written = row.iter().map(|value| match value {
            Expr::Parameter(position) => Written::Parameter(*position),
            Expr::Literal(value) => Written::Constant(value),
            _ => Written::Computed,
        });
        let is_computed = |value: &Expr| !matches!(value, Expr::Parameter(_) | Expr::Literal(_));
        let computed = row.iter().enumerate().filter(|(_, value)| is_computed(value)).map(|(column, _)| column);
        let by_parameter = match row.get(by) {
            Some(Expr::Parameter(position)) => Some(*position),
            _ => None,
        };
        let encoder = Encoder::new(&Layout::new(table)?, written)?;
        Ok(Some(Self { by, by_parameter, computed: computed.collect(), encoder }))
    }

    /// Whether all values are parameters or constants, which [`Plain::insert_each`] requires.
    pub fn is_of_parameters(&self) -> bool {
        self.computed.is_empty()
    }

    /// Inserts `row`, for which this was made, once for each set of parameters.
    pub fn insert_each<V: Parameter, P: AsRef<[V]>>(
        &self,
        table: &TableDefinition,
        row: &[Expr],
        scope: &mut Scope<'_>,
        (sets, environment): (&[P], &Environment),
        returning: &Returning,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut sets = sets.iter().map(<P as AsRef<[V]>>::as_ref).peekable();
        while let Some(first) = sets.next() {
            environment.spend(1)?;
            let by = convert(table, self.by, given(row, first, self.by))?;
            let (partition, transaction) = scope.one(PartitionHash::of(by))?;
            let rows = partition.table_mut(table.id)?;
            let mut next = Some(first);
            while let Some(parameters) = next {
                let id = rows.insert_encoded(
                    &self.encoder,
                    parameters,
                    |column| given(row, parameters, column),
                    |column, value| convert(table, column, value),
                    &mut transaction.undo,
                )?;
                batch.outcome.affected += 1;
                if !returning.outputs.is_empty() {
                    let values = V::values(parameters);
                    returning.push(&mut batch.outcome.rows, Source::Row(rows.row(id)?), &values, environment)?;
                }
                batch.end();
                next = sets.next_if(|next| self.is_same_partition(first, next));
                if next.is_some() {
                    environment.spend(1)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the rows of both sets are known to belong to one partition.
    #[inline]
    fn is_same_partition<V: Parameter>(&self, one: &[V], other: &[V]) -> bool {
        let integer = |set: &[V]| set.get(self.by_parameter?)?.integer();
        integer(one).is_some_and(|one| integer(other) == Some(one))
    }

    /// Inserts `row`, for which this was made.
    pub fn insert(
        &self,
        table: &TableDefinition,
        row: &[Expr],
        scope: &mut Scope<'_>,
        (parameters, environment): (&[Value], &Environment),
        returning: &Returning,
        outcome: &mut Outcome,
    ) -> Result<()> {
        environment.spend(1)?;
        let frame = Frame::new(parameters, environment);
        // Storage for computed values while the row is made.
        let mut computed: SmallVec<[(usize, Evaluated<'_>); 2]> = SmallVec::new();
        for (column, value) in self.computed.iter().filter_map(|column| Some((*column, row.get(*column)?))) {
            computed.push((column, value.evaluate(&frame)?));
        }
        let other = |column: usize| match row.get(column) {
            Some(Expr::Parameter(position)) => parameters.get(*position).map(Value::as_ref).unwrap_or_default(),
            Some(Expr::Literal(value)) => value.as_ref(),
            _ => computed.iter().find(|(of, _)| *of == column).map(|(_, value)| value.get()).unwrap_or_default(),
        };
        let convert = |column, value| convert(table, column, value);
        let (partition, transaction) = scope.one(PartitionHash::of(convert(self.by, other(self.by))?))?;
        let rows = partition.table_mut(table.id)?;
        let id = rows.insert_encoded(&self.encoder, parameters, other, convert, &mut transaction.undo)?;
        outcome.affected += 1;
        if returning.outputs.is_empty() {
            return Ok(());
        }
        returning.push(&mut outcome.rows, Source::Row(rows.row(id)?), parameters, environment)
    }
}

/// The value of a column, in a row of parameters and constants.
fn given<'v, V: Parameter>(row: &'v [Expr], parameters: &'v [V], column: usize) -> ValueRef<'v> {
    match row.get(column) {
        Some(Expr::Parameter(position)) => parameters.get(*position).map(Parameter::value).unwrap_or_default(),
        Some(Expr::Literal(value)) => value.as_ref(),
        _ => ValueRef::Null,
    }
}

/// Converts a value to the type of its column.
#[inline]
fn convert<'v>(table: &TableDefinition, column: usize, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
    match table.columns.get(column) {
        Some(column) => store(table, column, value),
        None => Ok(value),
    }
}

impl HeapSize for Plain {
    fn heap_bytes(&self) -> usize {
        allocated(self.computed.capacity() * size_of::<usize>()) + self.encoder.heap_bytes()
    }
}
