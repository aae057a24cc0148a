//! Types of columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thermocline_transactions::schema::TableDefinition;
use thermocline_transactions::types::DataType as RowType;

/// The Arrow type that holds exactly the values of a type. Of computed decimals without a precision,
/// each value has a scale of its own, and `None` is given.
pub fn arrow_type(row: RowType) -> Option<DataType> {
    Some(match row {
        RowType::Boolean => DataType::Boolean,
        RowType::SmallInt => DataType::Int16,
        RowType::Integer => DataType::Int32,
        RowType::BigInt => DataType::Int64,
        RowType::Double => DataType::Float64,
        RowType::Decimal { precision, scale } => DataType::Decimal128(precision, scale.cast_signed()),
        RowType::Numeric => return None,
        RowType::Text | RowType::Varchar(_) => DataType::Utf8View,
        RowType::Bytea => DataType::Binary,
        RowType::Date => DataType::Date32,
        RowType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
    })
}

/// A column; NUMERIC, which no table has, as text.
pub fn field(name: &str, row: RowType, nullable: bool) -> Field {
    Field::new(name, arrow_type(row).unwrap_or(DataType::Utf8View), nullable)
}

/// A table's columns.
pub fn schema_of(table: &TableDefinition) -> SchemaRef {
    let fields = table.columns.iter().map(|column| field(&column.name, column.data_type, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
