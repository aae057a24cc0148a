//! `system.evicted`: one row for each row table in each partition, with its rows in memory and in blocks.

use thermocline_compute::Columns;
use thermocline_transactions::database::Statistics;

/// A table's part in one partition.
pub struct Row {
    table: String,
    partition: u16,
    evictable: bool,
    live_rows: usize,
    evicted_rows: usize,
    evicted_total: u64,
    returned_total: u64,
}

pub fn columns() -> Columns<Row> {
    Columns::default()
        .text("table_name", |row: &Row| &row.table)
        .number("partition", |row| row.partition.into())
        .boolean("evictable", |row| row.evictable)
        .number("live_rows", |row| row.live_rows as u64)
        .number("evicted_rows", |row| row.evicted_rows as u64)
        .number("evicted_total", |row| row.evicted_total)
        .number("returned_total", |row| row.returned_total)
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    let mut rows = Vec::new();
    for partition in &statistics.partitions {
        rows.extend(partition.tables.iter().map(|part| Row {
            table: part.table.name.to_string(),
            partition: partition.partition.0,
            evictable: part.table.evictable,
            live_rows: part.live_rows,
            evicted_rows: part.evicted_rows,
            evicted_total: part.evicted_total,
            returned_total: part.returned_total,
        }));
    }
    rows
}
