//! DESCRIBE of tables and views.

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::Result;
use thermocline_compute::Columns;
use thermocline_pushdown::sql_type_name;
use thermocline_transactions::schema::{IndexDefinition, TableDefinition};

/// A row of `DESCRIBE`.
struct Row {
    name: String,
    data_type: String,
    nullable: bool,
    default: Option<String>,
    /// Names of its indexes; `None` if it has none.
    indexes: Option<String>,
}

/// Rows of `DESCRIBE` for a row table, with more columns than for an external table, and SQL names of types.
///
/// # Errors
/// If the table has no columns, which is impossible.
pub fn describe(table: &TableDefinition) -> Result<RecordBatch> {
    let rows: Vec<Row> = table
        .listed_columns()
        .map(|(position, column)| {
            let has = |index: &&IndexDefinition| index.columns.iter().any(|key| key.column == position);
            let indexes: Vec<&str> = table.listed_indexes().filter(has).map(|index| &*index.name).collect();
            Row {
                name: column.name.to_string(),
                data_type: column.data_type.to_string(),
                nullable: column.nullable,
                default: column.default.as_deref().map(str::to_owned),
                indexes: (!indexes.is_empty()).then(|| indexes.join(", ")),
            }
        })
        .collect();
    Columns::default()
        .text("column_name", |row: &Row| &row.name)
        .text("data_type", |row| &row.data_type)
        .text("is_nullable", |row| if row.nullable { "YES" } else { "NO" })
        .optional_text("column_default", |row| row.default.as_deref())
        .optional_text("indexes", |row| row.indexes.as_deref())
        .batch(&rows)
}

/// Rows of `DESCRIBE` for an external table or a view, with SQL names of types.
///
/// # Errors
/// None for a schema of a table.
pub fn describe_schema(schema: &SchemaRef) -> Result<RecordBatch> {
    let rows: Vec<(FieldRef, String)> =
        schema.fields().iter().map(|field| (FieldRef::clone(field), sql_type_name(field.data_type()))).collect();
    Columns::default()
        .text("column_name", |row: &(FieldRef, String)| row.0.name())
        .text("data_type", |row| &row.1)
        .text("is_nullable", |row| if row.0.is_nullable() { "YES" } else { "NO" })
        .batch(&rows)
}
