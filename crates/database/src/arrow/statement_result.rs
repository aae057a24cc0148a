//! Results of the row engine's statements as record batches.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::types::{DataType as RowType, ValueRef};

use super::column::Column;
use super::types::field;
use crate::bridge::external;

/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// Schema and batches of a result; `None` if its statement returns no rows.
pub fn batches(result: &StatementResult) -> Result<Option<(SchemaRef, Vec<RecordBatch>)>> {
    let rows = &result.rows;
    let width = rows.width().max(result.columns.len());
    if width == 0 {
        return Ok(None);
    }
    let kinds: Vec<Kind> = (0..width).map(|column| Kind::of(result, column)).collect();
    let fields: Vec<Field> = kinds.iter().map(|kind| kind.field.clone()).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut batches = vec![];
    for start in (0..rows.len()).step_by(BATCH_ROWS) {
        let end = rows.len().min(start + BATCH_ROWS);
        let mut arrays = Vec::with_capacity(width);
        for (position, kind) in kinds.iter().enumerate() {
            let mut column = kind.column().map_err(external)?;
            (start..end).try_for_each(|row| column.push(rows.value(row, position))).map_err(external)?;
            arrays.push(column.finish());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?);
    }
    Ok(Some((schema, batches)))
}

/// Type of a result's column.
struct Kind {
    field: Field,
    data_type: RowType,
    /// Largest scale of its values if it is NUMERIC, whose values have different scales; otherwise 0.
    scale: u8,
}

impl Kind {
    /// A column that its procedure does not describe gets its type from its values.
    fn of(result: &StatementResult, position: usize) -> Self {
        let rows = &result.rows;
        let values = || (0..rows.len()).map(|row| rows.value(row, position));
        let (name, data_type) = match result.columns.get(position) {
            Some(column) => (column.name.to_string(), column.data_type),
            None => {
                let known = values().find_map(ValueRef::data_type).unwrap_or(RowType::Text);
                (format!("column{}", position + 1), known)
            }
        };
        let scale = match data_type {
            RowType::Numeric => values().map(scale).max().unwrap_or(0),
            _ => 0,
        };
        let field = match data_type {
            RowType::Numeric => Field::new(name, Column::decimals(scale).finish().data_type().clone(), true),
            data_type => field(&name, data_type, true),
        };
        Self { field, data_type, scale }
    }

    fn column(&self) -> thermocline_transactions::Result<Column> {
        match self.data_type {
            RowType::Numeric => Ok(Column::decimals(self.scale)),
            data_type => Column::new(data_type),
        }
    }
}

fn scale(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Decimal(value) => value.scale(),
        _ => 0,
    }
}
