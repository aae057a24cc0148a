//! From the files of a database to its state: the newest snapshot, and the log behind it.
//!
//! ```text
//!            Plan::make             Plan::repair              Plan::replay
//!  directory ----------> what there is ---------> what goes on ----------> state of the last record
//!            reads only             writes                    reads only
//! ```
//!
//! What is done about each combination of what snapshots and log can be is one table ([`choose`]).
//! Planning and replaying change nothing, so that a database can be checked as it is. Repairing
//! rewrites the last segment, because nothing that an earlier process wrote there can be trusted to be
//! on the disk: it may have ended between a write and its sync, or because a sync failed, and what is
//! readable then may be gone after the next power loss.
//!
//! Left out: what procedures and statements do ([`Execute`] is for the engine).

mod choice;
mod plan;
mod rebuild;

pub use choice::{Choice, LogState, SnapshotState, choose};
pub use plan::{Plan, Progress, Recovered};
pub use rebuild::{Execute, Rebuild};

use crate::ids::{Identity, PartitionId};
use crate::log::Record;
use crate::snapshot::Chunk;
use crate::{Error, Result};

/// A state that is being rebuilt. Calls come in this order: `definitions` if there is a snapshot, its
/// `rows`, `records`, `finish`.
///
/// Partitions may work on their own: an error can come with a later call.
pub trait Replay {
    /// All tables, indexes and procedures of the snapshot.
    fn definitions(&mut self, identity: Identity, sql: &str) -> Result<()>;

    /// Rows of the snapshot, each of them once. Those of a replicated table come for the first partition
    /// and are for all of them.
    fn rows(&mut self, partition: PartitionId, chunk: &Chunk<'_>) -> Result<()>;

    /// Does what a record says; an error if that has another digest than it had: see [`verify_digest`].
    fn record(&mut self, record: &Record<'_>) -> Result<()>;

    /// Nothing comes after this.
    fn finish(&mut self) -> Result<()>;
}

/// An error unless a record, executed again, wrote what it wrote the first time.
pub fn verify_digest(record: &Record<'_>, digest: u64) -> Result<()> {
    if record.digest == digest {
        return Ok(());
    }
    Err(Error::corrupt(format_args!(
        "log record {} of transaction {} changes other rows than when it ran first: it is not \
         deterministic, or the state before it differs",
        record.sequence, record.transaction.0
    )))
}

/// The state of a directory: plan, repair and replay. A database that is new has no identity in its
/// plan and nothing is replayed; `replay` is made once it is known how many partitions there are.
pub fn recover<R: Replay>(
    disk: &dyn crate::disk::Disk,
    replay: impl FnOnce(Option<Identity>) -> Result<R>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(R, Recovered)> {
    let plan = Plan::make(disk)?;
    let mut replay = replay(plan.identity())?;
    let end = plan.repair(disk)?;
    let recovered = plan.replay(disk, &mut replay, progress)?;
    Ok((replay, Recovered { end, ..recovered }))
}

#[cfg(test)]
pub(crate) mod tests;
