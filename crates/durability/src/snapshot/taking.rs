//! A snapshot from its barrier over all partitions to the manifest.

use std::sync::Arc;

use thermocline_machine::ids::{Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_tables::partition::{Head, Member, Partition};
use thermocline_tables::schema::Schema;
use thermocline_types::{Error, Result};

use super::copier::{Copier, Step};
use super::manifest::{Manifest, list_snapshots};
use super::writer::{SnapshotWriter, remove_attempt, remove_snapshots};
use crate::blocks::{BlockFiles, References};
use crate::disk::Disk;

/// Start of a snapshot: all partitions stand at one place in the log and are tracked from there on.
#[derive(Debug)]
pub struct Barrier {
    position: Sequence,
    transaction: TransactionId,
    timestamp: Micros,
    definitions: String,
    copiers: Vec<Copier>,
}

impl Barrier {
    /// Begins a snapshot while the caller has all partitions, and everything that they ran is in the log up to
    /// `position`. `head` is the caller's own. Touches no disk, because the partitions wait.
    pub fn at(members: &mut [Member], head: Head, position: Sequence, schema: &Schema, bytes_max: usize) -> Self {
        let heads = members.iter().map(|member| member.transaction.head);
        // Partitions number their transactions independently.
        let (transaction, timestamp) = heads
            .fold((head.id, head.timestamp), |(id, timestamp), head| (id.max(head.id), timestamp.max(head.timestamp)));
        let copiers = members.iter_mut().map(|member| Copier::begin(&mut member.partition, position, bytes_max));
        let copiers = copiers.collect();
        Self { position, transaction, timestamp, definitions: schema.to_sql(), copiers }
    }

    /// Its place in the log.
    pub fn position(&self) -> Sequence {
        self.position
    }
}

/// A snapshot in progress.
///
/// ```text
///  Barrier::at --> begin --> step, write, step, write ... --> is_copied --> complete
///  (all partitions)  |        (a partition's thread; the writer's)             |
///                    +------------------------- abandon <-- an error ----------+
/// ```
///
/// Invariant: an error leaves earlier snapshots unchanged; the caller abandons this one.
#[derive(Debug)]
pub struct Taking {
    disk: Arc<dyn Disk>,
    /// `None` for partitions that are copied and written.
    copiers: Vec<Option<Writing>>,
    writer: SnapshotWriter,
    position: Sequence,
    files: Arc<BlockFiles>,
}

/// A partition's copier while its chunks are written. Its steps may be queued after a transaction that waits for them:
/// when writing ends, no transaction may keep waiting.
#[derive(Debug)]
struct Writing(Arc<Copier>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Taking {
    /// Creates its files; `None` if a snapshot of this position already exists. It refers to blocks in `files`.
    pub fn begin(
        disk: Arc<dyn Disk>,
        identity: Identity,
        barrier: Barrier,
        files: &Arc<BlockFiles>,
    ) -> Result<Option<Self>> {
        let Barrier { position, transaction, timestamp, definitions, copiers } = barrier;
        let place = (position, transaction, timestamp);
        let writer = SnapshotWriter::begin(Arc::clone(&disk), identity, place, &definitions)
            .inspect_err(|_| drop(remove_attempt(&*disk, position)))?;
        let copiers = copiers.into_iter().map(|copier| Some(Writing(Arc::new(copier)))).collect();
        let files = Arc::clone(files);
        Ok(writer.map(|writer| Self { disk, copiers, writer, position, files }))
    }

    /// Its place in the log.
    pub fn position(&self) -> Sequence {
        self.position
    }

    /// Copier of a partition, to be [stepped](Copier::step) there; `None` if it is done.
    pub fn copier(&self, partition: PartitionId) -> Option<Arc<Copier>> {
        self.copiers.get(usize::from(partition.0))?.as_ref().map(|Writing(copier)| Arc::clone(copier))
    }

    /// Copies some rows of a partition and writes complete chunks.
    pub fn step(&mut self, partition: &mut Partition, ids: u32) -> Result<()> {
        let Some(copier) = self.copier(partition.id()) else { return Ok(()) };
        let step = copier.step(partition, ids)?;
        self.write(partition.id(), Some(step)).map(drop)
    }

    /// Writes the chunks that a partition has copied. `step` is the result of the last step there before this call.
    /// Returns the number of bytes.
    pub fn write(&mut self, partition: PartitionId, step: Option<Step>) -> Result<u64> {
        let Some(copier) = self.copier(partition) else { return Ok(0) };
        let mut bytes = 0;
        while let Some(mut chunk) = copier.take_chunk() {
            bytes += chunk.len() as u64;
            self.writer.append(partition, &mut chunk)?;
            copier.give_back(chunk);
        }
        if step == Some(Step::Done)
            && let Some(copier) = self.copiers.get_mut(usize::from(partition.0))
        {
            *copier = None;
        }
        Ok(bytes)
    }

    /// Writes the chunks that all partitions have copied; returns the number of bytes.
    pub fn write_all(&mut self) -> Result<u64> {
        let partitions = (0..self.copiers.len()).filter_map(|number| u16::try_from(number).ok()).map(PartitionId);
        partitions.map(|partition| self.write(partition, None)).sum()
    }

    /// Whether so much waits in some partition that the writer should not rest.
    pub fn is_pressed(&self) -> bool {
        self.copiers.iter().flatten().any(|Writing(copier)| copier.is_pressed())
    }

    /// Whether all rows are written.
    pub fn is_copied(&self) -> bool {
        self.copiers.iter().all(Option::is_none)
    }

    /// Makes it the snapshot of the database and removes earlier ones; the log up to it may be removed then. `durable`
    /// is the log's durable sequence, which must have reached its position.
    pub fn complete(self, durable: Sequence) -> Result<Manifest> {
        self.complete_with(durable, |_| Ok(()))
    }

    /// [`Taking::complete`], after `copy` has put the files of blocks to which it refers in their place.
    pub fn complete_with(
        self,
        durable: Sequence,
        copy: impl FnOnce(&mut References) -> Result<()>,
    ) -> Result<Manifest> {
        if !self.is_copied() {
            return Err(Error::internal("a snapshot without all rows"));
        }
        let Self { disk, mut writer, position, files, .. } = self;
        let completed = files.sync(position).and_then(|mut references| {
            copy(&mut references)?;
            writer.set_references(references);
            writer.complete(durable)
        });
        let manifest = completed.inspect_err(|_| {
            // On a full disk the next attempt and the log need the room.
            let _remains = remove_attempt(&*disk, position);
            // Its manifest may be there, although it is not known to be durable.
            if list_snapshots(&*disk).is_ok_and(|there| !there.contains(&position)) {
                let _remains = files.abandoned(position);
            }
        })?;
        remove_snapshots(&*disk, position)?;
        // The next start removes files that stay.
        let _stay = files.completed(position);
        Ok(manifest)
    }

    /// Gives up and removes its files.
    pub fn abandon(self) -> Result<()> {
        drop(self.copiers);
        let forgotten = self.files.abandoned(self.position);
        self.writer.abandon().and(forgotten)
    }
}
