use std::collections::HashMap;

use parking_lot::Mutex;
use thermocline_transactions::schema::{TableDefinition, TableId};

/// Statements that have written a table before it counts as written often: those of a table that is filled once and
/// then read are fewer, unless each of its rows has a statement of its own.
const OFTEN: u64 = 1000;

/// Notices, once for each table and process, about tables without PARTITION BY, of which every executor
/// partition has a copy.
///
/// ```text
/// CREATE TABLE --> notice: what it costs
/// statements that write it: 1, 2, ... OFTEN --> notice: it is written often
/// ```
///
/// Writes of procedures are not counted: they are prepared, and do not tell which tables they have written.
#[derive(Debug, Default)]
pub struct CopiedTables {
    /// How many statements have written each.
    written: Mutex<HashMap<TableId, u64>>,
}

impl CopiedTables {
    /// Tells of a table that has been created, if there are several partitions.
    pub fn created(&self, table: &TableDefinition, partitions: u16) {
        if !is_copied(table, partitions) {
            return;
        }
        self.written.lock().insert(table.id, 0);
        tracing::warn!("{}", at_first(&table.name, partitions));
    }

    /// Counts a statement that has written a table, and tells of it when there were many.
    pub fn written(&self, table: &TableDefinition, partitions: u16) {
        if !is_copied(table, partitions) {
            return;
        }
        let mut written = self.written.lock();
        let count = written.entry(table.id).or_default();
        *count = count.saturating_add(1);
        if *count == OFTEN {
            tracing::warn!("{}", when_often(&table.name, partitions));
        }
    }
}

fn is_copied(table: &TableDefinition, partitions: u16) -> bool {
    table.partition_by.is_none() && partitions > 1
}

fn at_first(name: &str, partitions: u16) -> String {
    format!(
        "table {name} has no PARTITION BY, so each of the {partitions} executor partitions keeps a copy: it takes \
         {partitions} times the memory, and every write to it is done {partitions} times and holds all partitions. \
         That suits what is read much more often than written; otherwise CREATE TABLE ... PARTITION BY (column)"
    )
}

fn when_often(name: &str, partitions: u16) -> String {
    format!(
        "table {name}, which has no PARTITION BY, has been written by {OFTEN} statements since the start: each of them \
         held all {partitions} executor partitions. With PARTITION BY (column) a write holds one"
    )
}

#[cfg(test)]
mod tests {
    use thermocline_transactions::sql::read_schema;

    use super::*;

    #[test]
    fn statements_that_write_copies_are_counted() {
        let schema = "CREATE TABLE copied (k BIGINT PRIMARY KEY); \
                      CREATE TABLE parted (k BIGINT PRIMARY KEY) PARTITION BY (k);";
        let schema = read_schema(schema).unwrap();
        let (copied, parted) = (schema.table("copied").unwrap(), schema.table("parted").unwrap());
        let tables = CopiedTables::default();
        for _ in 0..3 {
            tables.written(copied, 2);
            tables.written(copied, 1);
            tables.written(parted, 2);
        }
        assert_eq!(*tables.written.lock(), HashMap::from([(copied.id, 3)]));
        tables.created(copied, 2);
        assert_eq!(*tables.written.lock(), HashMap::from([(copied.id, 0)]));
    }
}
