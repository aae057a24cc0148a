//! Head of a transaction, and its state in one partition.

use std::sync::Arc;

use thermocline_machine::ids::{Micros, TransactionId};

use crate::table::{Budget, StatementMemory, Undo};

/// Identity of a transaction: everything that its procedure can know of the outside, and that the log records of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Its number.
    pub id: TransactionId,
    /// Value of `now()`.
    pub timestamp: Micros,
    /// Seed of random numbers.
    pub seed: u64,
}

/// A running transaction's part in one partition.
#[derive(Debug)]
pub struct Transaction {
    /// Identity; the same in all its partitions.
    pub head: Head,
    /// Its changes here.
    pub undo: Undo,
    /// Memory account of its statements; `None` if memory is not counted, and while it is lent.
    pub memory: Option<Box<StatementMemory>>,
}

impl Transaction {
    /// A transaction that may change `bytes_max` of rows in this partition.
    pub fn new(head: Head, bytes_max: usize) -> Self {
        Self { head, undo: Undo::new(bytes_max), memory: None }
    }

    /// [`Transaction::new`] with a budget to charge.
    pub fn charged(head: Head, bytes_max: usize, budget: Arc<Budget>) -> Self {
        let memory = Some(Box::new(StatementMemory::new(&budget)));
        Self { head, undo: Undo::charged(bytes_max, budget), memory }
    }

    /// Whether it has changed nothing here.
    pub fn is_read_only(&self) -> bool {
        self.undo.is_empty()
    }
}
