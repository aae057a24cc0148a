//! Recovery of a database's state from its files: the newest snapshot, and the log after it.
//!
//! ```text
//!            Plan::make             Plan::replay                              Plan::repair
//!  directory ----------> what there is ---------> state of the last record ------------> a log that goes on
//!            reads only      |      reads only                                writes
//!                            |
//!                            +--> something is wrong behind record N: state of record N, to be read (ReadOnly)
//! ```
//!
//! One table ([`choose`]) decides for each combination of states of snapshots and log. Planning and replaying change
//! nothing, so that a database can be checked in place, and a database that cannot be recovered to its last record
//! keeps its files. Repairing rewrites the last segment, because writes of an earlier process cannot be trusted to be
//! on the disk: the process may have ended between a write and its sync, or because a sync failed, and readable bytes
//! may then be gone after the next power loss. While the disk has no room for the rewrite, the database is read-only.
//!
//! Left out: execution of procedures and statements ([`Execute`], implemented by the engine).

mod blocks;
mod choice;
mod filling;
mod halt;
mod plan;
mod read_only;
mod rebuild;
mod rows;
mod run;

use std::fmt;

use thermocline_machine::ids::{Identity, Sequence};
use thermocline_types::{Error, Result};

use crate::Semantics;
use crate::log::{Body, Record};

pub use choice::{Choice, LogState, SnapshotState, choose};
pub use halt::Halt;
pub use plan::{Plan, Progress, Recovered};
pub use read_only::ReadOnly;
pub use rebuild::{Execute, Rebuild};
pub use rebuild::{insert_hidden, take_back_loads, taken_back};
pub use rows::{Reading, SnapshotRows};

/// A state that is being rebuilt. Calls come in this order: `definitions` if there is a snapshot, its
/// `rows`, `records`, `finish`.
///
/// Partitions may work on their own: an error can come with a later call.
pub trait Replay {
    /// All tables, indexes and procedures of the snapshot.
    fn definitions(&mut self, identity: Identity, sql: &str) -> Result<()>;

    /// All rows of the snapshot, each once. Calls `loaded` with the number of further rows loaded.
    fn rows(&mut self, rows: &SnapshotRows<'_>, loaded: &mut dyn FnMut(u64)) -> Result<()>;

    /// Executes a record that first ran with these semantics; an error if its digest differs from the logged one: see
    /// [`verify_digest`]. Some of the records behind it are known: what they need may be fetched with what it needs.
    fn record(&mut self, record: &Record<'_>, semantics: Semantics, behind: &[Record<'_>]) -> Result<()>;

    /// Called last.
    fn finish(&mut self) -> Result<()>;
}

/// An error unless a record, executed again, wrote the same as in its first run.
pub fn verify_digest(record: &Record<'_>, digest: u64) -> Result<()> {
    if record.digest == digest {
        return Ok(());
    }
    Err(Error::corrupt(format_args!(
        "{} changes other rows than when it ran first: it is not deterministic, or the state before it differs",
        Described(record)
    )))
}

/// A record as errors describe it.
struct Described<'a>(&'a Record<'a>);

/// Characters of a statement that errors show.
const STATEMENT_CHARACTERS: usize = 100;

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { sequence, transaction, partitions, body, .. } = self.0;
        write!(f, "log record {sequence} of transaction {} (", transaction.0)?;
        match body {
            Body::Call { procedure, .. } => write!(f, "procedure \"{procedure}\"")?,
            Body::Statement { sql, .. } | Body::Definition(sql) => {
                let end = sql.char_indices().nth(STATEMENT_CHARACTERS).map_or(sql.len(), |(end, _)| end);
                let dots = if end < sql.len() { "..." } else { "" };
                write!(f, "{}{dots}", sql.get(..end).unwrap_or_default())?;
            }
            Body::Effects(_) | Body::Part(_) => write!(f, "rows of a session's transaction")?,
            Body::Load(..) | Body::TakeBack(..) | Body::LoadEnd(..) => write!(f, "rows of a load")?,
        }
        match partitions.single() {
            Some(partition) => write!(f, "; partition {})", partition.0),
            None => write!(f, ")"),
        }
    }
}

/// Plans, replays and repairs a directory. A new database has no identity in its plan and nothing is replayed. `replay`
/// makes the state once the number of partitions is known, and again if a record turns out to do something else than in
/// its first run, to get the state before it.
///
/// A [read-only](Recovered::read_only) state leaves the directory unchanged.
pub fn recover<R: Replay>(
    disk: &dyn crate::disk::Disk,
    replay: impl FnMut(&Plan) -> Result<R>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(R, Recovered)> {
    recover_planned(&Plan::make(disk)?, disk, replay, progress)
}

/// [`recover`] for a directory that has not changed since `plan` was made.
pub fn recover_planned<R: Replay>(
    plan: &Plan,
    disk: &dyn crate::disk::Disk,
    mut replay: impl FnMut(&Plan) -> Result<R>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(R, Recovered)> {
    let mut state = replay(plan)?;
    let recovered = match plan.replay(disk, &mut state, progress) {
        Err(Halt::Differs(read_only)) => {
            // Its changes are not wanted, and its memory is needed.
            drop(state);
            state = replay(plan)?;
            let before = plan.replay_until(disk, &mut state, read_only.until, progress);
            let before = before.map_err(Halt::into_error)?;
            Recovered { read_only: Some(*read_only), ..before }
        }
        replayed => replayed.map_err(Halt::into_error)?,
    };
    if recovered.read_only.is_some() {
        return Ok((state, recovered));
    }
    match plan.repair(disk) {
        Ok(end) => Ok((state, Recovered { end, ..recovered })),
        // The existing state can be read without room for more.
        Err(cause @ Error::DiskFull(_)) => {
            let until = Sequence(recovered.end.next.0.saturating_sub(1));
            let read_only = Some(ReadOnly { until, cause, older: None });
            Ok((state, Recovered { read_only, ..recovered }))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) mod tests;
