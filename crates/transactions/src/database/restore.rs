//! Restore of the state after one record of another database's log.

use std::fmt;
use std::sync::Arc;

use thermocline_durability::backup::{Copying, copy_extent};
use thermocline_durability::blocks::{BlockStoreSettings, BlockWrites};
use thermocline_durability::disk::Disk;
use thermocline_durability::log::{Control, LogExtent};
use thermocline_durability::recovery::{Halt, Plan, Progress, Rebuild};
use thermocline_durability::snapshot::{Barrier, Manifest, Taking};
use thermocline_machine::ids::Sequence;
use thermocline_procedures::{Definitions, Limits, Registration};
use thermocline_tables::partition::{Head, LostRows, lost_text};
use thermocline_tables::schema::Schema;
use thermocline_tables::table::Budget;
use thermocline_types::{Class, Error, Result};

use super::replay::Replayer;
use super::row_engine::RowEngine;

/// Ids copied between two writes.
const STEP_IDS: u32 = 1 << 16;

/// Blocks that a report of lost rows names, and keys of each.
const BLOCKS_NAMED_MAX: usize = 16;
const KEYS_NAMED_MAX: usize = 100;

/// State of a database that another one is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreTo {
    /// The last record of its log; `None` for all of it.
    pub until: Option<Sequence>,
    /// Whether rows of damaged or missing blocks are left out; otherwise they stay where they are, and whoever needs one
    /// gets the error.
    pub loses_rows: bool,
}

/// The state after a record.
impl From<Sequence> for RestoreTo {
    fn from(until: Sequence) -> Self {
        Self { until: Some(until), loses_rows: false }
    }
}

/// A database made of the state of another.
#[derive(Debug)]
pub struct Restored {
    /// Its snapshot, which is all that it has.
    pub manifest: Manifest,
    /// Rows that were left out.
    pub lost: Vec<LostRows>,
}

/// A line for each block with lost rows: table, file and block, their number and their keys. Nothing if none are lost.
impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for LostRows { table_name, rows, why, .. } in self.lost.iter().take(BLOCKS_NAMED_MAX) {
            let of = format!(" of table \"{table_name}\"");
            writeln!(f, "{}: {why}", lost_text(rows, &of, KEYS_NAMED_MAX))?;
        }
        let others = self.lost.iter().skip(BLOCKS_NAMED_MAX);
        let (blocks, rows) = others.fold((0, 0), |(blocks, rows), lost| (blocks + 1, rows + lost.rows.len()));
        if blocks > 0 {
            writeln!(f, "{rows} rows of {blocks} further blocks are lost")?;
        }
        Ok(())
    }
}

impl RowEngine {
    /// Creates a writable database in an empty directory from a state of another database: after one record of its log,
    /// or after the last. Changes nothing in the other directory, which must not be open. Files of blocks to which its
    /// newest snapshot refers, and in which rows are left, are copied; rows that the log has changed, and those that its
    /// replay needs, are in memory meanwhile, however many.
    ///
    /// # Errors
    /// If the state is gone, because a snapshot has replaced it, or does not exist yet; if the record is in the middle
    /// of a transaction; if it, or an earlier record, does something else than in its first run, or needs a row that is
    /// lost; or if a directory cannot be read or written. The written files are not a database then.
    pub fn restore_until(
        from: &Arc<dyn Disk>,
        into: Arc<dyn Disk>,
        procedures: Vec<Registration>,
        to: impl Into<RestoreTo>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Restored> {
        let to = to.into();
        if to.until == Some(Sequence::ZERO) {
            return Err(Class::InvalidParameter.error("the records of a log are numbered from 1"));
        }
        let _locks = (from.lock_to_read()?, into.lock()?);
        Copying::Restore.check(&*into)?;
        let plan = if to.loses_rows { Plan::losing(&**from) } else { Plan::make(&**from) }?;
        let nothing = || Error::cannot_open("there is nothing to restore: neither a log nor a snapshot");
        let identity = plan.identity().ok_or_else(nothing)?;
        if let (Some(snapshot), Some(until)) = (plan.snapshot(), to.until)
            && snapshot.position > until
        {
            return Err(Class::InvalidParameter.error(format_args!(
                "the state of log record {until} is gone: the newest snapshot is of record {}, and only later states \
                 can be restored",
                snapshot.position
            )));
        }
        let procedures = Arc::new(procedures.into_iter().map(Arc::new).collect());
        let budget = Arc::new(Budget::unlimited());
        let definitions = Definitions::new(Schema::default(), procedures, Limits::unlimited(), &budget)?;
        let rebuild = Rebuild::new(identity, &budget, usize::MAX, 0, Replayer::new(definitions));
        // Rows of blocks stay there. None go there: memory has no limit.
        let files = plan.block_files_to_copy(from)?;
        let writes = BlockWrites::at_once();
        let mut rebuild = rebuild.with_blocks(&files, identity.database, BlockStoreSettings::default(), &writes);
        let recovered = match plan.replay_until(&**from, &mut rebuild, to.until.unwrap_or(END), progress) {
            Err(Halt::Differs(read_only)) => return Err(unreachable_state(to, read_only.until, &read_only.cause)),
            replayed => replayed.map_err(Halt::into_error)?,
        };
        let last = Sequence(recovered.end.next.0.saturating_sub(1));
        // What is wrong behind the wanted record does not matter.
        if let Some(read_only) = recovered.read_only.filter(|_| to.until.is_none_or(|until| last < until)) {
            return Err(unreachable_state(to, last, &read_only.cause));
        }
        if let Some(until) = to.until.filter(|until| last < *until) {
            return Err(
                Class::InvalidParameter.error(format_args!("there is no log record {until}: the last one is {last}"))
            );
        }
        let mut lost = Vec::new();
        if to.loses_rows {
            for member in rebuild.members_mut() {
                let of_partition = member.partition.lost_rows(&|| plan.check_interrupt())?;
                of_partition.iter().try_for_each(|rows| member.partition.lose(rows))?;
                lost.extend(of_partition);
            }
        }
        // Loads unfinished at that record leave nothing.
        rebuild.take_back_loads()?;
        let (mut members, schema, _) = rebuild.into_parts();
        let head = Head { id: recovered.transaction, timestamp: recovered.timestamp, seed: 0 };
        // Rows do not change while they are copied, so none wait.
        let barrier = Barrier::at(&mut members, head, last, &schema, usize::MAX);
        Copying::Restore.begin(&*into)?;
        let taking = Taking::begin(Arc::clone(&into), identity, barrier, &files)?;
        let mut taking = taking.ok_or_else(|| Error::internal("an empty directory has a snapshot"))?;
        while !taking.is_copied() {
            members.iter_mut().try_for_each(|member| taking.step(&mut member.partition, STEP_IDS))?;
        }
        let manifest = taking.complete_with(last, |references| {
            for extent in &mut references.segments {
                let copied = copy_extent(&**from, &*into, *extent)?;
                // What is damaged stays what it is known for, unless nothing of it is needed.
                if to.loses_rows {
                    *extent = copied;
                }
            }
            into.sync_directory()
        })?;
        Control { identity, log: LogExtent::NotBegun }.write(&*into)?;
        Copying::Restore.complete(&*into)?;
        Ok(Restored { manifest, lost })
    }
}

/// Behind all records.
const END: Sequence = Sequence(u64::MAX);

/// The error of a state that a replay does not reach, and the command for the last one that it reaches.
#[cold]
fn unreachable_state(to: RestoreTo, last: Sequence, cause: &Error) -> Error {
    let wanted = match to.until {
        Some(until) => format!("log record {until} cannot be reached"),
        None => "the last log record cannot be reached".to_owned(),
    };
    let loses = if to.loses_rows { " --lose-rows" } else { "" };
    Error::corrupt(format_args!(
        "{wanted}: {cause}. The last state that can be restored is that of record {last}: 'thermocline restore DB NEWDB \
         --until {last}{loses}'"
    ))
}
