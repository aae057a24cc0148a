//! Notices about replicated tables, whose rows every executor partition copies.

use std::collections::HashMap;

use parking_lot::Mutex;
use thermocline_transactions::schema::{TableDefinition, TableId};

/// Number of writing statements from which a table counts as written often. A table that is filled once and then read
/// has fewer, unless each row is inserted by its own statement.
const OFTEN: u64 = 1000;

/// Notices about tables without PARTITION BY, which every executor partition copies; each is given once per table and
/// process.
///
/// ```text
/// CREATE TABLE --> notice: what it costs
/// statements that write it: 1, 2, ... OFTEN --> notice: it is written often
/// ```
///
/// Writes of procedures are not counted: their statements do not report the tables that they write.
#[derive(Debug, Default)]
pub struct CopiedTables {
    /// Number of writing statements, by table.
    written: Mutex<HashMap<TableId, u64>>,
}

impl CopiedTables {
    /// Gives a notice about a new table if there are several partitions.
    pub fn created(&self, table: &TableDefinition, partitions: u16) {
        if !is_copied(table, partitions) {
            return;
        }
        self.written.lock().insert(table.id, 0);
        tracing::warn!("{}", at_first(&table.name, partitions));
    }

    /// Counts a statement that has written a table; gives a notice when it is written often.
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
