//! Column types in both engines.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_pushdown::{UUID_WIDTH, arrow_type, sql_type};
use thermocline_transactions::schema::TableDefinition;
use thermocline_transactions::types::{DataType as RowType, PRECISION_MAX};

/// The Arrow field of a column. NUMERIC becomes text; columns of tables do not have that type.
pub fn field(name: &str, row: RowType, nullable: bool) -> Field {
    Field::new(name, arrow_type(row).unwrap_or(DataType::Utf8View), nullable)
}

/// The Arrow schema of a table: the columns that users have given it, behind the row key if that gets a name.
pub fn schema_of(table: &TableDefinition, row_key: Option<&str>) -> SchemaRef {
    let row_key = row_key.filter(|_| table.has_row_key).zip(table.columns.first());
    let row_key = row_key.map(|(name, column)| field(name, column.data_type, column.nullable));
    let listed = table.listed_columns().map(|(_, column)| field(&column.name, column.data_type, column.nullable));
    let fields = row_key.into_iter().chain(listed);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The column type that holds the values of a query's column; `None` if row tables have no such values.
pub fn column_type(of: &DataType) -> Option<RowType> {
    Some(match of {
        DataType::Null => RowType::Text,
        DataType::Int8 | DataType::UInt8 => RowType::SmallInt,
        DataType::UInt16 => RowType::Integer,
        DataType::UInt32 => RowType::BigInt,
        DataType::UInt64 => RowType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 => RowType::Real,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let more = u8::try_from(-i16::from(*scale)).unwrap_or_default();
            let precision = precision.saturating_add(more).min(PRECISION_MAX);
            RowType::Decimal { precision, scale: u8::try_from(*scale).unwrap_or_default().min(precision) }
        }
        DataType::FixedSizeBinary(UUID_WIDTH) => RowType::Uuid,
        DataType::FixedSizeBinary(_) => RowType::Bytea,
        DataType::Timestamp(_, None) => RowType::Timestamp,
        DataType::Timestamp(_, Some(_)) => RowType::TimestampTz,
        DataType::Dictionary(_, values) => return column_type(values),
        other => return sql_type(other),
    })
}
