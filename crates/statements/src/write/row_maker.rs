//! Rows of a bulk load, made outside the partitions.

use std::sync::Arc;

use thermocline_tables::PartitionHash;
use thermocline_tables::schema::{Schema, TableDefinition};
use thermocline_tables::table::{Layout, ROW_BYTES_MAX};
use thermocline_types::{Class, Error, Result, ValueRef};

use super::{Check, OfRow, bind_checks, check_row, store};
use crate::definition::bind_default;
use crate::expression::{Environment, Evaluated, Expr, Frame, Source};

/// Makes rows of a table from values for some of its columns, as INSERT does.
#[derive(Debug)]
pub struct RowMaker {
    table: Arc<TableDefinition>,
    layout: Layout,
    /// For each column of the table, the position of its value or its default.
    places: Vec<Result<usize, Expr>>,
    given: usize,
    checks: Vec<Check>,
}

impl RowMaker {
    /// Makes rows from values of these columns, in this order.
    pub fn new(schema: &Schema, table: &str, columns: &[impl AsRef<str>]) -> Result<Self> {
        let table = Arc::clone(schema.table(table)?);
        let mut targets = Vec::with_capacity(columns.len());
        for name in columns.iter().map(AsRef::as_ref) {
            let column = table.column(name)?;
            if targets.contains(&column) {
                return Err(Class::DuplicateColumn.error(format_args!("column \"{name}\" specified more than once")));
            }
            targets.push(column);
        }
        let mut places = Vec::with_capacity(table.columns.len());
        for (position, column) in table.columns.iter().enumerate() {
            places.push(match targets.iter().position(|target| *target == position) {
                Some(given) => Ok(given),
                None => Err(bind_default(schema, column)?),
            });
        }
        let checks = bind_checks(schema, &table, None)?;
        Ok(Self { layout: Layout::new(&table)?, table, places, given: columns.len(), checks })
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableDefinition> {
        &self.table
    }

    /// Writes the image of a row and returns the hash of its partition; `None` for every partition.
    pub fn make(
        &self,
        given: &[ValueRef<'_>],
        environment: &Environment,
        image: &mut Vec<u8>,
    ) -> Result<Option<PartitionHash>> {
        if given.len() != self.given {
            return Err(Error::internal(format_args!("{} values for {} columns", given.len(), self.given)));
        }
        let frame = Frame::new(&[], environment);
        // Storage for computed values while the row is made.
        let mut computed: OfRow<Evaluated<'_>> = OfRow::new();
        for default in self.places.iter().filter_map(|place| place.as_ref().err()) {
            computed.push(default.evaluate(&frame)?);
        }
        let mut computed = computed.iter();
        let mut values: OfRow<ValueRef<'_>> = OfRow::new();
        for (column, place) in self.table.columns.iter().zip(&self.places) {
            let value = match place {
                Ok(position) => given.get(*position).copied().unwrap_or_default(),
                Err(_) => computed.next().map(Evaluated::get).unwrap_or_default(),
            };
            values.push(store(&self.table, column, value)?);
        }
        check_row(&self.checks, &self.table, Source::New(&values), environment)?;
        self.layout.encode(image, |column| values.get(column).copied().unwrap_or_default())?;
        if image.len() > ROW_BYTES_MAX {
            let message =
                format!("a row of table \"{}\" has {} bytes, more than {ROW_BYTES_MAX}", self.table.name, image.len());
            return Err(Class::LimitExceeded.error(message));
        }
        Ok(self.table.partition_by.and_then(|by| values.get(by)).map(|value| PartitionHash::of(*value)))
    }
}
