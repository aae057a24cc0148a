//! Writes the files of a snapshot.

use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};
use thermocline_machine::ids::{Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_types::{Error, Result};

use super::manifest::{Manifest, PartitionRows, SnapshotFile, list_snapshots};
use super::rows::{RowsHeader, seal_chunk};
use crate::Semantics;
use crate::blocks::References;
use crate::disk::{AppendFile, Disk, TEMPORARY, write_file_whole};

/// Bytes after which a row file is synced, so that a sync of the log never waits for many.
const SYNC_BYTES: u64 = 1 << 20;

/// A snapshot being written.
#[derive(Debug)]
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    files: Vec<RowFile>,
}

#[derive(Debug)]
struct RowFile {
    file: Box<dyn AppendFile>,
    unsynced: u64,
}

impl SnapshotWriter {
    /// Begins the snapshot at a position with these definitions; `transaction` is the last transaction number at that
    /// place. `None` if a snapshot of this position already exists.
    pub fn begin(
        disk: Arc<dyn Disk>,
        identity: Identity,
        (position, transaction, timestamp): (Sequence, TransactionId, Micros),
        definitions: &str,
    ) -> Result<Option<Self>> {
        if list_snapshots(&*disk)?.contains(&position) {
            return Ok(None);
        }
        let definitions_file = SnapshotFile::Definitions(position);
        // Remains of an earlier attempt at the same position.
        remove_files(&*disk, |file| file.position() == position)?;
        let mut file = disk.create(&definitions_file.name())?;
        file.append(definitions.as_bytes())?;
        file.sync()?;
        let definitions = (definitions.len() as u64, crc32c(definitions.as_bytes()));
        let Identity { database, partitions: count } = identity;
        let (mut files, mut partitions) = (Vec::new(), Vec::new());
        for partition in (0..count).map(PartitionId) {
            let mut file = disk.create(&SnapshotFile::Rows(position, partition).name())?;
            let header = RowsHeader { database, position, partition }.to_bytes();
            file.append(&header)?;
            partitions.push(PartitionRows { rows: 0, bytes: header.len() as u64, checksum: crc32c(&header) });
            files.push(RowFile { file, unsynced: header.len() as u64 });
        }
        let semantics = Semantics::CURRENT;
        let references = References::default();
        let manifest =
            Manifest { semantics, database, position, transaction, timestamp, definitions, partitions, references };
        Ok(Some(Self { disk, manifest, files }))
    }

    /// Number of partitions.
    pub(super) fn partitions(&self) -> u16 {
        self.manifest.identity().partitions
    }

    /// Seals and appends a chunk of a partition's [`Copier`](super::Copier).
    pub fn append(&mut self, partition: PartitionId, chunk: &mut [u8]) -> Result<()> {
        let number = usize::from(partition.0);
        let (Some(file), Some(rows)) = (self.files.get_mut(number), self.manifest.partitions.get_mut(number)) else {
            return Err(Error::internal(format_args!("the snapshot has no partition {number}")));
        };
        rows.rows += seal_chunk(chunk);
        rows.bytes += chunk.len() as u64;
        rows.checksum = crc32c_append(rows.checksum, chunk);
        file.file.append(chunk)?;
        file.unsynced += chunk.len() as u64;
        if file.unsynced >= SYNC_BYTES {
            file.file.sync()?;
            file.unsynced = 0;
        }
        Ok(())
    }

    /// Sets what it refers to, which must be durable.
    pub(super) fn set_references(&mut self, references: References) {
        self.manifest.references = references;
    }

    /// Completes the snapshot, after all chunks of all partitions. `durable` is the log's durable sequence: a snapshot
    /// must not be ahead of it, or a crash would leave a gap in the log after the snapshot.
    pub fn complete(mut self, durable: Sequence) -> Result<Manifest> {
        if durable < self.manifest.position {
            return Err(Error::internal(format_args!(
                "a snapshot at {} when the log is durable up to {durable}",
                self.manifest.position
            )));
        }
        for file in &mut self.files {
            file.file.sync()?;
        }
        self.disk.sync_directory()?;
        let name = SnapshotFile::Manifest(self.manifest.position).name();
        write_file_whole(&*self.disk, &name, self.manifest.to_text().as_bytes())?;
        Ok(self.manifest)
    }

    /// Gives up and removes the files.
    pub fn abandon(self) -> Result<()> {
        let position = self.manifest.position;
        drop(self.files);
        remove_files(&*self.disk, |file| file.position() == position)
    }
}

/// Removes all snapshots, and remains of unfinished ones, before a complete one.
pub fn remove_snapshots(disk: &dyn Disk, before: Sequence) -> Result<()> {
    if !list_snapshots(disk)?.contains(&before) {
        return Err(Error::internal(format_args!("there is no snapshot at {before}")));
    }
    // Without its manifest, the rest of a snapshot has no meaning.
    remove_files(disk, |file| file.position() < before && matches!(file, SnapshotFile::Manifest(_)))?;
    remove_files(disk, |file| file.position() < before)
}

/// Removes the remains of an attempt at this position, unless it has a manifest: a later step may have failed, but the
/// snapshot is whole.
pub(super) fn remove_attempt(disk: &dyn Disk, position: Sequence) -> Result<()> {
    if list_snapshots(disk)?.contains(&position) {
        return Ok(());
    }
    let unfinished = format!("{}{TEMPORARY}", SnapshotFile::Manifest(position).name());
    if disk.list()?.contains(&unfinished) {
        disk.remove(&unfinished)?;
    }
    remove_files(disk, |file| file.position() == position)
}

/// Removes unfinished snapshots and temporary files. The caller must have the directory to itself.
pub fn remove_unfinished(disk: &dyn Disk) -> Result<()> {
    let complete = list_snapshots(disk)?;
    remove_files(disk, |file| !complete.contains(&file.position()))?;
    let unfinished: Vec<String> = disk.list()?.into_iter().filter(|name| name.ends_with(TEMPORARY)).collect();
    unfinished.iter().try_for_each(|name| disk.remove(name))?;
    if unfinished.is_empty() { Ok(()) } else { disk.sync_directory() }
}

fn remove_files(disk: &dyn Disk, which: impl Fn(SnapshotFile) -> bool) -> Result<()> {
    let mut removed = false;
    for name in disk.list()? {
        if SnapshotFile::of_name(&name).is_some_and(&which) {
            disk.remove(&name)?;
            removed = true;
        }
    }
    if removed { disk.sync_directory() } else { Ok(()) }
}
