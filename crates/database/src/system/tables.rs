//! `system.tables`: one row for each row table.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_compute::Columns;
use thermocline_transactions::database::Statistics;
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::schema::TableDefinition;

/// A table, summed over its partitions.
pub struct Row {
    table: Arc<TableDefinition>,
    /// Number of partitions that hold the table.
    partitions: usize,
    rows: usize,
    row_bytes: usize,
    locator_bytes: usize,
    index_bytes: usize,
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    let mut rows: BTreeMap<Box<str>, Row> = BTreeMap::new();
    for partition in &statistics.partitions {
        for part in &partition.tables {
            let row = rows.entry(part.table.name.clone()).or_insert_with(|| Row {
                table: Arc::clone(&part.table),
                partitions: 0,
                rows: 0,
                row_bytes: 0,
                locator_bytes: 0,
                index_bytes: 0,
            });
            row.partitions += 1;
            // Every partition has all rows of a replicated table.
            if part.table.partition_by.is_some() || partition.partition == PartitionId(0) {
                row.rows += part.rows;
            }
            row.row_bytes += part.memory.rows;
            row.locator_bytes += part.memory.locators;
            row.index_bytes += part.memory.indexes.iter().map(|(_, bytes)| bytes).sum::<usize>();
        }
    }
    rows.into_values().collect()
}

impl Row {
    /// Number of copies of each row.
    fn copies(&self) -> u64 {
        if self.table.partition_by.is_some() { 1 } else { self.partitions as u64 }
    }

    /// The partition column; `None` for a replicated table.
    fn partition_by(&self) -> Option<&str> {
        let column = self.table.columns.get(self.table.partition_by?)?;
        Some(&column.name)
    }
}

pub fn columns() -> Columns<Row> {
    Columns::default()
        .text("table_name", |row: &Row| &row.table.name)
        .optional_text("partition_by", Row::partition_by)
        .number("partitions", |row| row.partitions as u64)
        .number("copies", Row::copies)
        .number("rows", |row| row.rows as u64)
        .number("bytes", |row| (row.row_bytes + row.locator_bytes + row.index_bytes) as u64)
        .number("row_bytes", |row| row.row_bytes as u64)
        .number("locator_bytes", |row| row.locator_bytes as u64)
        .number("index_bytes", |row| row.index_bytes as u64)
        .number("indexes", |row| row.table.listed_indexes().count() as u64)
}
