//! Types of columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_pushdown::arrow_type;
use thermocline_transactions::schema::TableDefinition;
use thermocline_transactions::types::DataType as RowType;

/// A column; NUMERIC, which no table has, as text.
pub fn field(name: &str, row: RowType, nullable: bool) -> Field {
    Field::new(name, arrow_type(row).unwrap_or(DataType::Utf8View), nullable)
}

/// A table's columns.
pub fn schema_of(table: &TableDefinition) -> SchemaRef {
    let fields = table.columns.iter().map(|column| field(&column.name, column.data_type, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
