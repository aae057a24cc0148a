//! Tables for tests below SQL.

use thermocline_types::DataType;

use super::{ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId};

/// A table `t`: name, type and nullability of each column; columns of the primary key are NOT NULL.
pub fn table(columns: &[(&str, DataType, bool)], primary: IndexKind, key: &[&str]) -> TableDefinition {
    let columns = columns.iter().map(|&(name, data_type, nullable)| ColumnDefinition {
        name: name.into(),
        data_type,
        nullable: nullable && !key.contains(&name),
        default: None,
    });
    let table = TableDefinition {
        id: TableId(0),
        name: "t".into(),
        columns: columns.collect(),
        indexes: Vec::new(),
        partition_by: None,
        evictable: true,
        has_row_key: false,
        checks: Vec::new(),
    };
    with_index(table, primary, true, key).0
}

/// Adds an index over these columns; a `-` before a name makes it descending.
pub fn with_index(
    mut table: TableDefinition,
    kind: IndexKind,
    unique: bool,
    columns: &[&str],
) -> (TableDefinition, IndexId) {
    let columns = columns.iter().map(|name| {
        let descending = name.starts_with('-');
        IndexColumn { column: table.column(name.trim_start_matches('-')).unwrap(), descending }
    });
    let (id, columns) = (table.next_index_id(), columns.collect());
    table.indexes.push(IndexDefinition { id, name: format!("i{}", id.0).into(), kind, unique, columns });
    (table, id)
}
