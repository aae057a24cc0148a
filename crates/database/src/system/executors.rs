//! `system.executors`: one row for each executor partition.

use thermocline_compute::Columns;
use thermocline_transactions::database::{PartitionStatistics, Statistics};

/// An executor partition.
pub struct Row {
    partition: u16,
    queued: usize,
    undo_bytes: usize,
    held_ms_max: f64,
    holds_long: u64,
    eviction_ms_max: f64,
}

pub fn columns() -> Columns<Row> {
    Columns::default()
        .number("partition", |row: &Row| row.partition.into())
        .number("queued", |row| row.queued as u64)
        .number("undo_bytes", |row| row.undo_bytes as u64)
        .float("held_ms_max", |row| row.held_ms_max)
        .number("holds_long", |row| row.holds_long)
        .float("eviction_ms_max", |row| row.eviction_ms_max)
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    let of = |partition: &PartitionStatistics| Row {
        partition: partition.partition.0,
        queued: partition.queued,
        undo_bytes: partition.undo_bytes,
        held_ms_max: partition.held.longest.as_secs_f64() * 1e3,
        holds_long: partition.held.long,
        eviction_ms_max: partition.held_by_eviction.longest.as_secs_f64() * 1e3,
    };
    statistics.partitions.iter().map(of).collect()
}
