use std::sync::Arc;

use thermocline_machine::ids::{Micros, TransactionId};

use crate::table::{Budget, StatementMemory, Undo};

/// What a transaction is: all that its procedure can know of the world, and what the log records of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Which one.
    pub id: TransactionId,
    /// What `now()` is.
    pub timestamp: Micros,
    /// What random numbers come from.
    pub seed: u64,
}

/// A running transaction's part in one partition.
#[derive(Debug)]
pub struct Transaction {
    /// What it is; the same in all its partitions.
    pub head: Head,
    /// What it changed here.
    pub undo: Undo,
    /// What is told of the memory that its statements take; `None` where nobody counts, and while it is lent.
    pub memory: Option<Box<StatementMemory>>,
}

impl Transaction {
    /// A transaction that may change `bytes_max` of rows in this partition.
    pub fn new(head: Head, bytes_max: usize) -> Self {
        Self { head, undo: Undo::new(bytes_max), memory: None }
    }

    /// The same, whose memory this budget is told.
    pub fn charged(head: Head, bytes_max: usize, budget: Arc<Budget>) -> Self {
        let memory = Some(Box::new(StatementMemory::new(&budget)));
        Self { head, undo: Undo::charged(bytes_max, budget), memory }
    }

    /// Did it change anything here?
    pub fn is_read_only(&self) -> bool {
        self.undo.is_empty()
    }
}
