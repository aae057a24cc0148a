//! `system.memory`: one row for each structure of each row table and partition, and those beside them.

use arrow::array::RecordBatch;
use datafusion::common::Result;
use thermocline_transactions::database::Statistics;

use super::table::{batch, number, text};

/// A structure in memory.
struct Row {
    structure: &'static str,
    table: Option<String>,
    index: Option<String>,
    partition: Option<usize>,
    /// Rows, or requests in a queue; `None` where nothing is counted.
    entries: Option<usize>,
    /// `None` where bytes are not counted.
    bytes: Option<usize>,
    /// What it may take; `None` for what shares a limit, which stands with `all rows and indexes`.
    limit: Option<usize>,
}

pub fn rows(statistics: Option<&Statistics>) -> Result<RecordBatch> {
    let mut rows = vec![];
    if let Some(statistics) = statistics {
        let whole = |structure, bytes: u64, limit: Option<u64>| Row {
            structure,
            table: None,
            index: None,
            partition: None,
            entries: None,
            bytes: usize::try_from(bytes).ok(),
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        };
        rows.push(whole("all rows and indexes", statistics.memory_bytes, Some(statistics.memory_bytes_max)));
        rows.push(whole("log buffers", statistics.log_bytes as u64, None));
        for partition in &statistics.partitions {
            let of = |structure, entries, bytes| Row {
                structure,
                table: None,
                index: None,
                partition: Some(partition.partition.0.into()),
                entries,
                bytes,
                limit: None,
            };
            rows.push(of("queue", Some(partition.queued), None));
            rows.push(of("undo", None, Some(partition.undo_bytes)));
            for part in &partition.tables {
                let table = || Some(part.table.name.to_string());
                rows.push(Row { table: table(), ..of("rows", Some(part.rows), Some(part.memory.rows)) });
                rows.push(Row { table: table(), ..of("locators", Some(part.rows), Some(part.memory.locators)) });
                for (id, bytes) in &part.memory.indexes {
                    let index = part.table.index(*id).map(|index| index.name.to_string());
                    rows.push(Row { table: table(), index, ..of("index", None, Some(*bytes)) });
                }
            }
        }
    }
    batch(vec![
        ("structure", text(&rows, |row| Some(row.structure))),
        ("table_name", text(&rows, |row| row.table.as_deref())),
        ("index_name", text(&rows, |row| row.index.as_deref())),
        ("partition", number(&rows, |row| row.partition)),
        ("entries", number(&rows, |row| row.entries)),
        ("bytes", number(&rows, |row| row.bytes)),
        ("limit_bytes", number(&rows, |row| row.limit)),
    ])
}
