//! Restore of the state after one record of another database's log.

use std::sync::Arc;

use thermocline_durability::backup::Copying;
use thermocline_durability::blocks::BlockFiles;
use thermocline_durability::disk::Disk;
use thermocline_durability::log::{Control, LogExtent};
use thermocline_durability::recovery::{Halt, Plan, Progress, Rebuild};
use thermocline_durability::snapshot::{Barrier, Manifest, Taking};
use thermocline_machine::ids::Sequence;
use thermocline_procedures::{Definitions, Limits, Registration};
use thermocline_tables::partition::Head;
use thermocline_tables::schema::Schema;
use thermocline_tables::table::Budget;
use thermocline_types::{Class, Error, Result};

use super::replay::Replayer;
use super::row_engine::RowEngine;

/// Ids copied between two writes.
const STEP_IDS: u32 = 1 << 16;

impl RowEngine {
    /// Creates a writable database in an empty directory from the state after one record of another database's log.
    /// Changes nothing in the other directory, which must not be open. Takes as much memory as the open database.
    ///
    /// # Errors
    /// If the state is gone, because a snapshot has replaced it, or does not exist yet; if the record is in the middle
    /// of a transaction; if it, or an earlier record, does something else than in its first run; or if a directory
    /// cannot be read or written. The written files are not a database then.
    pub fn restore_until(
        from: &dyn Disk,
        into: Arc<dyn Disk>,
        procedures: Vec<Registration>,
        until: Sequence,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Manifest> {
        if until == Sequence::ZERO {
            return Err(Class::InvalidParameter.error("the records of a log are numbered from 1"));
        }
        let _locks = (from.lock_to_read()?, into.lock()?);
        Copying::Restore.check(&*into)?;
        let plan = Plan::make(from)?;
        let nothing = || Error::cannot_open("there is nothing to restore: neither a log nor a snapshot");
        let identity = plan.identity().ok_or_else(nothing)?;
        if let Some(snapshot) = plan.snapshot().filter(|snapshot| snapshot.position > until) {
            return Err(Class::InvalidParameter.error(format_args!(
                "the state of log record {until} is gone: the newest snapshot is of record {}, and only later states \
                 can be restored",
                snapshot.position
            )));
        }
        let procedures = Arc::new(procedures.into_iter().map(Arc::new).collect());
        let budget = Arc::new(Budget::unlimited());
        let definitions = Definitions::new(Schema::default(), procedures, Limits::unlimited(), &budget)?;
        let mut rebuild = Rebuild::new(identity, &budget, usize::MAX, 0, Replayer::new(definitions));
        let recovered = plan.replay_until(from, &mut rebuild, until, progress).map_err(Halt::into_error)?;
        let last = Sequence(recovered.end.next.0.saturating_sub(1));
        if last < until {
            return Err(match recovered.read_only {
                Some(read_only) => Error::corrupt(format_args!(
                    "log record {until} cannot be reached: {}. The last state that can be restored is that of record \
                     {last}",
                    read_only.cause
                )),
                None => Class::InvalidParameter
                    .error(format_args!("there is no log record {until}: the last one is {last}")),
            });
        }
        // Loads unfinished at that record leave nothing.
        rebuild.take_back_loads()?;
        let (mut members, schema, _) = rebuild.into_parts();
        let head = Head { id: recovered.transaction, timestamp: recovered.timestamp, seed: 0 };
        // Rows do not change while they are copied, so none wait.
        let barrier = Barrier::at(&mut members, head, until, &schema, usize::MAX);
        Copying::Restore.begin(&*into)?;
        // All rows are in memory.
        let files = BlockFiles::open(Arc::clone(&into), None)?;
        let taking = Taking::begin(Arc::clone(&into), identity, barrier, &files)?;
        let mut taking = taking.ok_or_else(|| Error::internal("an empty directory has a snapshot"))?;
        while !taking.is_copied() {
            members.iter_mut().try_for_each(|member| taking.step(&mut member.partition, STEP_IDS))?;
        }
        let manifest = taking.complete(until)?;
        Control { identity, log: LogExtent::NotBegun }.write(&*into)?;
        Copying::Restore.complete(&*into)?;
        Ok(manifest)
    }
}
