//! Rows of a snapshot by partition, read by the caller or ahead on a thread.

use std::sync::mpsc;
use std::thread;

use thermocline_machine::ids::PartitionId;
use thermocline_tables::schema::TableId;
use thermocline_types::{Error, Result};

use super::Plan;
use crate::blocks::Segment;
use crate::disk::Disk;
use crate::snapshot::{Chunk, Manifest, RowFileReader, RowsHeader};

/// Chunks read ahead.
const CHUNKS_AHEAD: usize = 4;

/// Rows of a snapshot; any number of threads can read them, each thread those of one partition.
#[derive(Debug)]
pub struct SnapshotRows<'a> {
    plan: &'a Plan,
    disk: &'a dyn Disk,
    snapshot: &'a Manifest,
}

/// Thread that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The thread that asks for the rows.
    Inline,
    /// A thread of its own, some chunks ahead.
    Ahead,
}

impl<'a> SnapshotRows<'a> {
    pub(super) const fn new(plan: &'a Plan, disk: &'a dyn Disk, snapshot: &'a Manifest) -> Self {
        Self { plan, disk, snapshot }
    }

    /// Bytes of a file of blocks to which the snapshot refers; 0 if it does not.
    pub(super) fn referred_bytes(&self, segment: Segment) -> u64 {
        let mut extents = self.snapshot.references.segments.iter();
        extents.find(|extent| extent.segment == segment).map_or(0, |extent| extent.bytes)
    }

    /// Whether rows that cannot be read, with their keys, are left without them: see [`Plan::losing`].
    pub(super) const fn loses(&self) -> bool {
        self.plan.loses
    }

    /// Whether a file of blocks is missing, which only a replay that [loses](Self::loses) rows gets to see.
    pub(super) fn is_missing(&self, segment: Segment) -> bool {
        self.plan.missing.contains(&segment)
    }

    /// The directory.
    pub(super) const fn disk(&self) -> &'a dyn Disk {
        self.disk
    }

    /// An error once the replay is to stop.
    pub fn check_interrupt(&self) -> Result<()> {
        self.plan.check_interrupt()
    }

    /// Hands out the chunks of a partition's wanted tables. Rows of a replicated table are in the file of the first
    /// partition and are for all partitions.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged, which may be noticed after some rows were handed out.
    pub fn each_chunk(
        &self,
        partition: PartitionId,
        reading: Reading,
        wanted: impl Fn(TableId) -> bool + Send,
        mut each: impl FnMut(&Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let Manifest { database, position, ref partitions, .. } = *self.snapshot;
        let missing = || Error::internal(format_args!("the snapshot has no partition {}", partition.0));
        let expected = partitions.get(usize::from(partition.0)).copied().ok_or_else(missing)?;
        let mut reader = RowFileReader::open(self.disk, RowsHeader { database, position, partition }, expected)?;
        let mut each = |bytes: &[u8]| {
            self.check_interrupt()?;
            each(&Chunk::of_read(bytes).ok_or_else(|| Error::internal("a chunk that was read is none"))?)
        };
        let mut chunk = Vec::new();
        if reading == Reading::Inline {
            while reader.read_next(&mut chunk, &wanted)? {
                each(&chunk)?;
            }
            return Ok(());
        }
        let (read, chunks) = mpsc::sync_channel::<Vec<u8>>(CHUNKS_AHEAD);
        let (used, spare) = mpsc::channel::<Vec<u8>>();
        thread::scope(|scope| {
            let run = move || {
                // A receiver that failed takes no more chunks.
                while reader.read_next(&mut chunk, &wanted)? && read.send(chunk).is_ok() {
                    chunk = spare.try_recv().unwrap_or_default();
                }
                Ok(())
            };
            let thread = thread::Builder::new().name("snapshot".into()).spawn_scoped(scope, run);
            let thread = thread.map_err(|error| Error::Io(format!("cannot start a thread: {error}").into()))?;
            for chunk in chunks {
                each(&chunk)?;
                // The reader may have finished.
                let _ = used.send(chunk);
            }
            thread.join().unwrap_or_else(|_| Err(Error::internal("reading a snapshot panicked")))
        })
    }
}
