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
    /// Bytes that they take.
    pub memory_bytes: u64,
    /// Bytes of each kind of working memory, which shares the limit: as in [`MemoryReport`](super::MemoryReport).
    pub working: Vec<(&'static str, u64)>,
    /// Each partition, at moments of its own.
    pub partitions: Vec<PartitionStatistics>,
}

/// Contents of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionStatistics {
    /// Which one.
    pub partition: PartitionId,
    /// Requests that wait for it.
    pub queued: usize,
    /// How long it was held.
    pub held: HoldTimes,
    /// Bytes that undoing the transaction that runs would need.
    pub undo_bytes: usize,
    /// Its part of each table.
    pub tables: Vec<TableStatistics>,
}

/// A table's part in one partition.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatistics {
    /// Which one.
    pub table: Arc<TableDefinition>,
    /// Its rows here.
    pub rows: usize,
    /// Bytes that it takes here.
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
