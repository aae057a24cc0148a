//! Traits of programs that executors run, and of the log that they write.

use thermocline_durability::log::{Appended, Batch, Head, LogHandle};
use thermocline_machine::ids::Sequence;
use thermocline_tables::partition::{Participants, Scope};
use thermocline_tables::table::HeapSize;
use thermocline_types::{Result, Value};

/// A procedure or a statement that the engine runs as a transaction.
///
/// It must be deterministic: with equal rows, arguments and [`Head`](thermocline_tables::partition::Head) it changes
/// the same rows in the same way, because the log holds the call and not its effects.
pub trait Program: Send + Sync + 'static {
    /// Result.
    type Outcome: HeapSize + Send + 'static;

    /// The partitions that a call needs. If it turns out to need others, it runs again with those as well.
    fn participants(&self, arguments: &[Value]) -> Result<Participants>;

    /// Runs it. Its changes are kept if this is `Ok`.
    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<Self::Outcome>;

    /// Appends the call to the log's batch.
    fn record(&self, batch: &mut Batch, head: &Head<'_>, arguments: &[Value]) -> Result<()>;
}

/// The log as partitions see it.
pub trait Journal: Send + Sync + 'static {
    /// Takes a partition's records and empties the batch, if there is room.
    fn append(&self, batch: &mut Batch) -> Result<Appended>;
}

/// No log: committed changes last as long as the partitions.
#[derive(Debug, Clone, Copy)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        batch.clear();
        Ok(Appended::At(Sequence::ZERO))
    }
}

impl Journal for LogHandle {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        Ok(match self.try_append(batch)? {
            // Reads do not even wait for the log's thread, which may be waiting for the disk.
            Appended::At(_) if !self.is_synchronous() => Appended::At(Sequence::ZERO),
            appended => appended,
        })
    }
}
