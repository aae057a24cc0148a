//! `system.memory`: one row for all row tables and their indexes, one for each kind of working memory of the row
//! engine, one for the queue of each partition, and one for each structure of each row table in each partition.

use thermocline_compute::Columns;
use thermocline_transactions::database::Statistics;

/// A structure in memory.
pub struct Row {
    structure: &'static str,
    table: Option<String>,
    index: Option<String>,
    partition: Option<usize>,
    /// Rows, or requests in a queue; `None` if not counted.
    entries: Option<usize>,
    /// `None` if not counted.
    bytes: Option<usize>,
    /// Limit; `None` if the structure shares the limit of `all rows and indexes`.
    limit: Option<usize>,
}

pub fn columns() -> Columns<Row> {
    let number = |of: fn(&Row) -> Option<usize>| move |row: &Row| of(row).map(|number| number as u64);
    Columns::default()
        .text("structure", |row: &Row| row.structure)
        .optional_text("table_name", |row| row.table.as_deref())
        .optional_text("index_name", |row| row.index.as_deref())
        .optional_number("partition", number(|row| row.partition))
        .optional_number("entries", number(|row| row.entries))
        .optional_number("bytes", number(|row| row.bytes))
        .optional_number("limit_bytes", number(|row| row.limit))
}

pub fn rows(statistics: &Statistics) -> Vec<Row> {
    let whole = |structure, bytes: u64, limit: Option<u64>| Row {
        structure,
        table: None,
        index: None,
        partition: None,
        entries: None,
        bytes: usize::try_from(bytes).ok(),
        limit: limit.and_then(|limit| usize::try_from(limit).ok()),
    };
    let mut rows = vec![whole("all rows and indexes", statistics.memory_bytes, Some(statistics.memory_bytes_max))];
    rows.extend(statistics.working.iter().map(|(kind, bytes)| whole(kind, *bytes, None)));
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
    rows
}
