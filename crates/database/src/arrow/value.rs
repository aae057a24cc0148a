//! Arrow rows as values of row tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit, TimestampNanosecondType};
use datafusion::common::{DataFusionError, Result};
use thermocline_pushdown::{Column, arrow_type, user_err, user_error};
use thermocline_transactions::types::{DataType as RowType, PRECISION_MAX, Value, ValueRef};

use super::types::column_type;

/// The general type, without limits, of row table values for an Arrow type; `None` if row tables have no such values.
fn kind(arrow: &DataType) -> Option<RowType> {
    match arrow {
        DataType::Dictionary(_, values) => kind(values),
        DataType::Float16 => Some(RowType::Double),
        arrow if arrow.is_integer() => Some(RowType::BigInt),
        arrow => column_type(arrow).map(RowType::unbounded),
    }
}

/// Whether values of a query's column are cast to text before they are stored in a column of type `to`.
pub fn becomes_text(from: &Field, to: RowType) -> bool {
    let kind = if *from.data_type() == DataType::Null { None } else { kind(from.data_type()) };
    to.is_text() && kind.is_some_and(|kind| !kind.is_text())
}

/// Checks that values of a query's column may be stored in a column of a table.
pub fn check_assignment(from: &Field, table: &str, column: &str, to: RowType) -> Result<()> {
    let (name, arrow) = (from.name(), from.data_type());
    match kind(arrow) {
        _ if *arrow == DataType::Null => Ok(()),
        Some(kind) if kind.assigns_to(to) => Ok(()),
        // The query casts it to text.
        Some(_) if to.is_text() => Ok(()),
        Some(_) => user_err!(
            TypeMismatch,
            "column \"{column}\" of table \"{table}\" is of type {to}, but \"{name}\" of the query is {arrow}: \
             write a CAST"
        ),
        None => user_err!(
            TypeMismatch,
            "\"{name}\" of the query is {arrow}, of which no row table has values (column \"{column}\" of table \
             \"{table}\" is {to}): write a CAST"
        ),
    }
}

/// A record batch with access by row.
pub struct Source {
    columns: Vec<Column>,
}

impl Source {
    /// Converts a batch.
    ///
    /// # Errors
    /// If a value cannot be represented exactly; the error names the column.
    pub fn new(batch: &RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
            in_row_types(array)
                .and_then(|array| Column::new(&array))
                .map_err(|error| error.context(format!("\"{}\" of the query", field.name())))
        });
        Ok(Self { columns: columns.collect::<Result<_>>()? })
    }

    /// The values of one row.
    ///
    /// # Errors
    /// If a decimal has more than 38 digits.
    pub fn row(&self, row: usize) -> Result<Vec<Value>> {
        let value = |column: &Column| column.value(row).map(ValueRef::to_value);
        let values = self.columns.iter().map(value).collect::<Result<_>>();
        values.map_err(of_query)
    }

    /// Replaces `values` by the values of one row.
    ///
    /// # Errors
    /// As [`Source::row`].
    pub fn read<'s>(&'s self, row: usize, values: &mut Vec<ValueRef<'s>>) -> Result<()> {
        values.clear();
        for column in &self.columns {
            values.push(column.value(row).map_err(of_query)?);
        }
        Ok(())
    }
}

fn of_query(error: DataFusionError) -> DataFusionError {
    user_error!(TypeMismatch, "a decimal of the query: {error}")
}

/// Casts an array to a type of row table values.
fn in_row_types(array: &ArrayRef) -> Result<ArrayRef> {
    let to = match (kind(array.data_type()), array.data_type()) {
        (_, DataType::Null) => return Ok(Arc::clone(array)),
        (
            Some(RowType::Numeric),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale),
        ) => DataType::Decimal128(PRECISION_MAX, (*scale).max(0)),
        (kind, of) => match kind.and_then(arrow_type) {
            Some(to) => to,
            None => return user_err!(TypeMismatch, "{of} is no type of row tables"),
        },
    };
    whole_microseconds(array)?;
    Ok(cast_with_options(array, &to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// Checks that timestamps are whole microseconds.
fn whole_microseconds(array: &ArrayRef) -> Result<()> {
    if let DataType::Timestamp(TimeUnit::Nanosecond, _) = array.data_type() {
        let array = array.as_primitive::<TimestampNanosecondType>();
        if array.iter().flatten().any(|nanoseconds| nanoseconds % 1000 != 0) {
            return user_err!(
                TypeMismatch,
                "a time finer than a microsecond, which a TIMESTAMP does not hold: round it with \
                 date_trunc('microsecond', ...)"
            );
        }
    }
    Ok(())
}
