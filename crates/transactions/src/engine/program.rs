use thermocline_durability::log::{Appended, Batch, Head, LogHandle};
use thermocline_machine::ids::Sequence;
use thermocline_tables::partition::{Participants, Scope};
use thermocline_tables::table::HeapSize;
use thermocline_types::{Result, Value};

/// A procedure or a statement that the engine runs as a transaction.
///
/// It is deterministic: with equal rows, arguments and [`Head`](thermocline_tables::partition::Head) it changes the
/// same rows in the same way, because the log holds the call and not what it did.
pub trait Program: Send + Sync + 'static {
    /// Result.
    type Outcome: HeapSize + Send + 'static;

    /// The partitions that a call needs. Needing more than is said here is seen when it runs, and costs
    /// running it twice.
    fn participants(&self, arguments: &[Value]) -> Result<Participants>;

    /// Runs it. What it changed is kept if this is `Ok`.
    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<Self::Outcome>;

    /// Writes the call for the log.
    fn record(&self, batch: &mut Batch, head: &Head<'_>, arguments: &[Value]) -> Result<()>;
}

/// The log as partitions see it.
pub trait Journal: Send + Sync + 'static {
    /// Takes a partition's records and empties the batch, if there is room.
    fn append(&self, batch: &mut Batch) -> Result<Appended>;
}

/// No log: what was committed lasts as long as the partitions do.
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
            // Not even for the log's thread, which may be waiting for the disk.
            Appended::At(_) if !self.is_synchronous() => Appended::At(Sequence::ZERO),
            appended => appended,
        })
    }
}
