use super::weigh::Weigh;
use crate::error::Result;
use crate::ids::Sequence;
use crate::log::{Batch, Head};
use crate::machine::Wait;
use crate::partition::Scope;
use crate::types::{PartitionHash, Value};

/// Which partitions a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The one that rows with this hash belong to.
    One(PartitionHash),
    /// Those that rows with these hashes belong to, of which there may be fewer than hashes.
    Several(Box<[PartitionHash]>),
    /// One, whichever.
    Any,
    /// All.
    All,
}

impl Route {
    /// The route to rows with any of these hashes; to any partition if there are none.
    pub fn to(hashes: &[PartitionHash]) -> Self {
        match hashes {
            [] => Self::Any,
            [first, rest @ ..] if rest.iter().all(|hash| hash == first) => Self::One(*first),
            hashes => Self::Several(hashes.into()),
        }
    }
}

/// What the engine runs as a transaction: a procedure or a statement.
///
/// It is deterministic: with equal rows, arguments and [`Head`](crate::partition::Head) it changes the
/// same rows in the same way, because the log holds the call and not what it did.
pub trait Program: Send + Sync + 'static {
    /// What it gives back.
    type Outcome: Weigh + Send + 'static;

    /// The partitions that a call needs. Needing more than is said here is seen when it runs, and costs
    /// running it twice.
    fn route(&self, arguments: &[Value]) -> Result<Route>;

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

/// What became of records on their way to the log.
#[derive(Debug)]
pub enum Appended {
    /// The sequence up to which the log has to be durable before their results may be told.
    At(Sequence),
    /// There is no room before this is over; the batch is as it was.
    Full(Wait),
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

impl Journal for crate::log::LogHandle {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        Ok(match self.try_append(batch)? {
            // Not even for the log's thread, which may be waiting for the disk.
            Appended::At(_) if !self.is_synchronous() => Appended::At(Sequence::ZERO),
            appended => appended,
        })
    }
}
