//! Memory and load of a database, by partition and table.

use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::{Member, WaitStatistics};
use thermocline_tables::schema::TableDefinition;
use thermocline_tables::table::{BlockStatistics, TableMemory};

use crate::engine::HoldTimes;

/// Contents of a database's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Bytes that rows, indexes and locators may take together.
    pub memory_bytes_max: u64,
    /// Bytes that they take at present, with the list of blocks of evicted rows.
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
    /// Time for which eviction, and bringing rows back, held it.
    pub held_by_eviction: HoldTimes,
    /// Bytes of undo information of the running transaction.
    pub undo_bytes: usize,
    /// Transactions that needed evicted rows.
    pub waits: WaitStatistics,
    /// Blocks of evicted rows; `None` if rows stay in memory.
    pub blocks: Option<BlockStatistics>,
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
    /// Those of them in memory, and those in blocks, with rows of unfinished loads.
    pub live_rows: usize,
    /// See there.
    pub evicted_rows: usize,
    /// Bytes of the rows in memory, without free memory between them.
    pub live_row_bytes: usize,
    /// Rows that went to blocks since the start.
    pub evicted_total: u64,
    /// Rows that came back.
    pub returned_total: u64,
    /// Its memory in the partition.
    pub memory: TableMemory,
}

impl PartitionStatistics {
    pub(super) fn of(member: &Member, queued: usize, (held, held_by_eviction): (HoldTimes, HoldTimes)) -> Self {
        let tables = member.partition.tables().map(|table| {
            let (evicted_total, returned_total) = table.eviction_totals();
            TableStatistics {
                table: Arc::clone(table.definition()),
                rows: table.rows(),
                live_rows: table.live_rows(),
                evicted_rows: table.evicted_rows(),
                live_row_bytes: table.live_row_bytes(),
                evicted_total,
                returned_total,
                memory: table.memory(),
            }
        });
        Self {
            partition: member.partition.id(),
            queued,
            held,
            held_by_eviction,
            undo_bytes: member.transaction.undo.bytes(),
            waits: member.partition.wait_statistics(),
            blocks: member.partition.blocks().map(|blocks| blocks.statistics()),
            tables: tables.collect(),
        }
    }
}
