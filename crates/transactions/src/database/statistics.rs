//! Memory and load of a database, by partition and table.

use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::Member;
use thermocline_tables::schema::TableDefinition;
use thermocline_tables::table::TableMemory;

use crate::engine::HoldTimes;

/// Contents of a database's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Bytes that rows, indexes and locators may take together.
    pub memory_bytes_max: u64,
    /// Bytes that they take at present.
    pub memory_bytes: u64,
    /// Bytes of each kind of working memory, which shares the limit: as in [`MemoryReport`](super::MemoryReport).
    pub working: Vec<(&'static str, u64)>,
    /// The partitions, each at a moment of its own.
    pub partitions: Vec<PartitionStatistics>,
}

/// Contents of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionStatistics {
    /// Its number.
    pub partition: PartitionId,
    /// Requests that wait for it.
    pub queued: usize,
    /// Time for which it was held.
    pub held: HoldTimes,
    /// Bytes of undo information of the running transaction.
    pub undo_bytes: usize,
    /// Its part of each table.
    pub tables: Vec<TableStatistics>,
}

/// A table's part in one partition.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatistics {
    /// Its definition.
    pub table: Arc<TableDefinition>,
    /// Its rows in the partition.
    pub rows: usize,
    /// Its memory in the partition.
    pub memory: TableMemory,
}

impl PartitionStatistics {
    pub(super) fn of(member: &Member, queued: usize, held: HoldTimes) -> Self {
        let tables = member.partition.tables().map(|table| TableStatistics {
            table: Arc::clone(table.definition()),
            rows: table.rows(),
            memory: table.memory(),
        });
        let (partition, undo_bytes) = (member.partition.id(), member.transaction.undo.bytes());
        Self { partition, queued, held, undo_bytes, tables: tables.collect() }
    }
}
