//! Changes the number of partitions of a database that is not open.
//!
//! ```text
//!  recover -----> record without rows -----> snapshot of that record: -----> recover from that
//!  (N partitions)  (so that the snapshot's    rows of M partitions
//!                   place is a new one)            |
//!                                                  +-- its manifest gives the database M partitions
//! ```
//!
//! A snapshot exists once its manifest does, so the database changes its partitions in one step; a crash before leaves
//! the old state with the old number. Log segments written with the old number stay until the next snapshot, which
//! covers all of their records.

use std::sync::Arc;

use thermocline_durability::disk::Disk;
use thermocline_durability::log::{Batch, Collector, Head, LogSettings, Writer};
use thermocline_durability::recovery::{Plan, Progress, Rebuild, Recovered, recover_planned};
use thermocline_durability::snapshot::{SnapshotWriter, remove_snapshots, write_redistributed};
use thermocline_machine::ids::{Identity, Micros, Sequence};
use thermocline_procedures::{Definitions, Limits};
use thermocline_tables::partition::{Digest, Member};
use thermocline_tables::schema::Schema;
use thermocline_types::{Error, Result};

use super::opening::Opening;
use super::replay::Replayer;

impl Opening {
    /// Whether the settings ask for another number of partitions. A read-only database keeps its own.
    pub(super) fn is_repartitioned(&self) -> bool {
        let identity = self.plan.identity().filter(|_| self.plan.wrong().is_none());
        let wanted = self.settings.partitions;
        self.settings.repartition && identity.is_some_and(|identity| identity.partitions != wanted)
    }

    /// Changes the number of partitions to that of the settings, if [required](Self::is_repartitioned).
    pub(super) fn repartitioned(self, progress: &mut dyn FnMut(&Progress)) -> Result<Self> {
        if !self.is_repartitioned() {
            return Ok(self);
        }
        let Self { disk, settings, plan, procedures, .. } = &self;
        let memory = settings.recovery_memory();
        let _writer = memory.start_writer()?;
        let budget = memory.budget();
        let mut old = None;
        let files = plan.block_files(disk)?;
        let rebuild = |plan: &Plan| {
            let identity =
                plan.identity().ok_or_else(|| Error::internal("a database without an identity has partitions"))?;
            old = Some(identity);
            let (schema, procedures) = (Schema::default(), Arc::clone(procedures));
            let definitions = Definitions::new(schema, procedures, Limits::unlimited(), &budget)?;
            let rebuild = Rebuild::new(identity, &budget, usize::MAX, 0, Replayer::new(definitions));
            Ok(memory.evicting(rebuild, &files, identity.database))
        };
        let (mut rebuilt, recovered) = recover_planned(plan, &**disk, rebuild, progress)?;
        if let (None, Some(old)) = (&recovered.read_only, old) {
            // Unfinished loads leave nothing.
            rebuilt.take_back_loads()?;
            let (members, schema, _) = rebuilt.into_parts();
            let new = Identity { partitions: settings.partitions, ..old };
            let check = || plan.check_interrupt();
            write(disk, (old, new), &recovered, (&members, &schema), &settings.log, &check)?;
        }
        let plan = plan.made_again(&**disk)?;
        plan.check()?;
        Ok(Self { plan, ..self })
    }
}

/// Writes the snapshot that gives the database its new partitions.
fn write(
    disk: &Arc<dyn Disk>,
    (old, new): (Identity, Identity),
    recovered: &Recovered,
    (members, schema): (&[Member], &Schema),
    log: &LogSettings,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let position = append_record(disk, old, recovered, log)?;
    let head = (position, recovered.transaction, recovered.timestamp);
    let writer = SnapshotWriter::begin(Arc::clone(disk), new, head, &schema.to_sql())?;
    let mut writer = writer.ok_or_else(|| Error::internal("a new record has a snapshot already"))?;
    if let Err(error) = write_redistributed(members, &mut writer, check) {
        // The next start removes the rest; a full disk needs the room now.
        let _ = writer.abandon();
        return Err(error);
    }
    writer.complete(position)?;
    remove_snapshots(&**disk, position)
}

/// Appends a record that changes nothing and returns its sequence. A snapshot's files are named after its sequence, and
/// a snapshot of the last record may exist already.
fn append_record(
    disk: &Arc<dyn Disk>,
    identity: Identity,
    recovered: &Recovered,
    settings: &LogSettings,
) -> Result<Sequence> {
    let mut batch = Batch::default();
    let digest = Digest::EMPTY.bits();
    let Recovered { transaction, timestamp, ref end, .. } = *recovered;
    batch.effects(&Head { transaction, timestamp, seed: 0, digest, partitions: &[] }, [])?;
    let mut collector = Collector::new(settings.clone(), end.next);
    collector.append(&mut batch, Micros(0))?;
    let mut group = collector.take().ok_or_else(|| Error::internal("a record that is not to be written"))?;
    let mut writer = Writer::new(Arc::clone(disk), identity, settings.segment_bytes, end.clone());
    writer.write(&mut group)?;
    writer.sync()?;
    writer.close()?;
    Ok(end.next)
}
