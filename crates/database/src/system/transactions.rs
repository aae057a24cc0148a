//! `system.transactions`: one row for each partition, about transactions that needed evicted rows.

use thermocline_compute::Columns;
use thermocline_transactions::database::Statistics;
use thermocline_transactions::partition::WaitStatistics;

/// Waits of one partition's transactions.
pub struct Row {
    partition: u16,
    waits: WaitStatistics,
}

pub fn columns() -> Columns<Row> {
    Columns::default()
        .number("partition", |row: &Row| row.partition.into())
        .number("waiting", |row| row.waits.waits_total.saturating_sub(row.waits.waited_total))
        .number("waits_total", |row| row.waits.waits_total)
        .number("rows_waited_for_total", |row| row.waits.rows_total)
        .number("blocking_reads_total", |row| row.waits.blocking_total)
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    statistics.partitions.iter().map(|part| Row { partition: part.partition.0, waits: part.waits }).collect()
}
