//! `system.blocks`: one row for each partition that can evict rows, about the files of its blocks.

use thermocline_compute::Columns;
use thermocline_transactions::database::Statistics;
use thermocline_transactions::table::BlockStatistics;

/// The blocks of a partition.
pub struct Row {
    partition: u16,
    blocks: BlockStatistics,
}

pub fn columns() -> Columns<Row> {
    Columns::default()
        .number("partition", |row: &Row| row.partition.into())
        .number("block_size", |row| row.blocks.new_block_bytes)
        .number("segments", |row| row.blocks.segments)
        .number("blocks", |row| row.blocks.blocks)
        .number("rows", |row| row.blocks.rows)
        .number("block_bytes", |row| row.blocks.block_bytes)
        .number("file_bytes", |row| row.blocks.file_bytes)
        .number("written_total", |row| row.blocks.written_total)
        .number("written_bytes_total", |row| row.blocks.written_bytes_total)
        .number("reads_total", |row| row.blocks.reads_total)
        .number("read_bytes_total", |row| row.blocks.read_bytes_total)
        .text("reads", |row| if row.blocks.is_asynchronous { "io_uring" } else { "threads" })
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    let partitions = statistics.partitions.iter();
    partitions.filter_map(|part| Some(Row { partition: part.partition.0, blocks: part.blocks? })).collect()
}
