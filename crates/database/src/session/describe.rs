//! DESCRIBE of row tables.

use arrow::array::RecordBatch;
use datafusion::common::Result;
use thermocline_compute::Columns;
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
        .columns
        .iter()
        .enumerate()
        .map(|(position, column)| {
            let has = |index: &&IndexDefinition| index.columns.iter().any(|key| key.column == position);
            let indexes: Vec<&str> = table.indexes.iter().filter(has).map(|index| &*index.name).collect();
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
