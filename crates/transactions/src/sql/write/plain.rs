//! Rows of VALUES that go in without a further look at them.

use smallvec::SmallVec;

use super::{Returning, store};
use crate::engine::Weigh;
use crate::error::Result;
use crate::partition::Scope;
use crate::schema::TableDefinition;
use crate::sql::expression::{Environment, Evaluated, Expr, Frame, Source};
use crate::sql::rows::Outcome;
use crate::table::{Encoder, Layout, Written, allocated};
use crate::types::{PartitionHash, Value};

/// How a row of a partitioned table without checks is written as its values are made.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    /// The partition column.
    by: usize,
    /// Columns whose values are neither parameters nor constants.
    computed: Vec<usize>,
    encoder: Encoder,
}

impl Plain {
    /// Of a row with these values; `None` if the table is not partitioned.
    pub fn new(table: &TableDefinition, row: &[Expr]) -> Result<Option<Self>> {
        let Some(by) = table.partition_by else { return Ok(None) };
        let written = row.iter().map(|value| match value {
            Expr::Parameter(position) => Written::Parameter(*position),
            Expr::Literal(value) => Written::Constant(value),
            _ => Written::Computed,
        });
        let is_computed = |value: &Expr| !matches!(value, Expr::Parameter(_) | Expr::Literal(_));
        let computed = row.iter().enumerate().filter(|(_, value)| is_computed(value)).map(|(column, _)| column);
        Ok(Some(Self { by, computed: computed.collect(), encoder: Encoder::new(&Layout::new(table)?, written)? }))
    }

    /// Inserts the row, which is the one that this was made of.
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
        // What is computed has to stand somewhere meanwhile.
        let mut computed: SmallVec<[(usize, Evaluated<'_>); 2]> = SmallVec::new();
        for (column, value) in self.computed.iter().filter_map(|column| Some((*column, row.get(*column)?))) {
            computed.push((column, value.evaluate(&frame)?));
        }
        let other = |column: usize| match row.get(column) {
            Some(Expr::Parameter(position)) => parameters.get(*position).map(Value::as_ref).unwrap_or_default(),
            Some(Expr::Literal(value)) => value.as_ref(),
            _ => computed.iter().find(|(of, _)| *of == column).map(|(_, value)| value.get()).unwrap_or_default(),
        };
        let convert = |column: usize, value| match table.columns.get(column) {
            Some(column) => store(table, column, value),
            None => Ok(value),
        };
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

impl Weigh for Plain {
    fn heap_bytes(&self) -> usize {
        allocated(self.computed.capacity() * size_of::<usize>()) + self.encoder.heap_bytes()
    }
}
