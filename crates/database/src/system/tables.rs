//! `system.tables`: one row for each row table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use thermocline_transactions::database::Statistics;
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::schema::TableDefinition;

use super::table::{batch, number, text};

/// A table, summed over its partitions.
struct Row {
    table: Arc<TableDefinition>,
    partitions: usize,
    rows: usize,
    row_bytes: usize,
    locator_bytes: usize,
    index_bytes: usize,
}

pub fn rows(statistics: Option<&Statistics>) -> Result<RecordBatch> {
    let mut rows: BTreeMap<Box<str>, Row> = BTreeMap::new();
    for partition in statistics.iter().flat_map(|statistics| &statistics.partitions) {
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
    let rows: Vec<Row> = rows.into_values().collect();
    let partition_by = |row: &'_ Row| row.table.partition_by.and_then(|column| row.table.columns.get(column)).cloned();
    let names: Vec<Option<Box<str>>> = rows.iter().map(|row| partition_by(row).map(|column| column.name)).collect();
    batch(vec![
        ("table_name", text(&rows, |row| Some(&row.table.name))),
        ("partition_by", text(&names, Option::as_deref)),
        ("partitions", number(&rows, |row| Some(row.partitions))),
        ("rows", number(&rows, |row| Some(row.rows))),
        ("bytes", number(&rows, |row| Some(row.row_bytes + row.locator_bytes + row.index_bytes))),
        ("row_bytes", number(&rows, |row| Some(row.row_bytes))),
        ("locator_bytes", number(&rows, |row| Some(row.locator_bytes))),
        ("index_bytes", number(&rows, |row| Some(row.index_bytes))),
        ("indexes", number(&rows, |row| Some(row.table.indexes.len()))),
    ])
}
