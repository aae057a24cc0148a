//! Rows of a snapshot on their way into partitions.
//!
//! ```text
//!  snapshot-S-00000.rows --(thread: read, checksum)--> chunks --(thread: place rows, then indexes)--> partition 0
//!  snapshot-S-00001.rows --(thread: read, checksum)--> chunks --(thread: place rows, then indexes)--> partition 1
//!           ...
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use thermocline_machine::caught;
use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::{self, Partition};
use thermocline_tables::schema::TableId;
use thermocline_types::{Error, Result};

use super::blocks::BlocksOfSnapshot;
use super::{Reading, SnapshotRows};

/// Puts all rows into empty partitions; in this thread if `threads` is one. Rows of `replicated` tables go into all of
/// them.
pub(super) fn fill<'p>(
    mut partitions: impl ExactSizeIterator<Item = &'p mut Partition> + Send,
    threads: usize,
    rows: &SnapshotRows<'_>,
    replicated: &BTreeSet<TableId>,
    loaded: &mut dyn FnMut(u64),
) -> Result<()> {
    let stopped = AtomicBool::new(false);
    let filling = Filling { rows, replicated, reading: Reading::Inline, stopped: &stopped };
    if threads <= 1 {
        return partitions.try_for_each(|partition| filling.fill(partition, loaded));
    }
    let filling = Filling { reading: Reading::Ahead, ..filling };
    let threads = threads.min(partitions.len());
    let (partitions, failed) = (Mutex::new(partitions), Mutex::new(None));
    let (counted, counts) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (counted, partitions, failed) = (counted.clone(), &partitions, &failed);
            let run = move || {
                loop {
                    let Some(partition) = partitions.lock().next() else { break };
                    let filled = caught("loading rows", || {
                        filling.fill(partition, &mut |rows| {
                            // The receiver outlives this thread.
                            let _ = counted.send(rows);
                        })
                    });
                    if let Err(error) = filled.flatten() {
                        failed.lock().get_or_insert(error);
                        filling.stopped.store(true, Ordering::Relaxed);
                    }
                }
            };
            let started = thread::Builder::new().name("recovery".into()).spawn_scoped(scope, run);
            if let Err(error) = started {
                let error = Error::Io(format!("cannot start a thread: {error}").into());
                failed.lock().get_or_insert(error);
                filling.stopped.store(true, Ordering::Relaxed);
            }
        }
        drop(counted);
        counts.iter().for_each(&mut *loaded);
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// State shared by all threads.
#[derive(Clone, Copy)]
struct Filling<'a> {
    rows: &'a SnapshotRows<'a>,
    replicated: &'a BTreeSet<TableId>,
    reading: Reading,
    /// Set when another partition has failed.
    stopped: &'a AtomicBool,
}

impl Filling<'_> {
    fn fill(&self, partition: &mut Partition, loaded: &mut dyn FnMut(u64)) -> Result<()> {
        let id = partition.id();
        let mut filling = partition.begin_filling();
        if id != PartitionId(0) && !self.replicated.is_empty() {
            self.fill_from(PartitionId(0), |table| self.replicated.contains(&table), &mut filling, &mut |_| {})?;
        }
        self.fill_from(id, |_| true, &mut filling, loaded)?;
        filling.finish(&|| self.check())
    }

    /// Adds the rows of wanted tables in the file of the partition `from`.
    fn fill_from(
        &self,
        from: PartitionId,
        wanted: impl Fn(TableId) -> bool + Send,
        filling: &mut partition::Filling<'_>,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut blocks = BlocksOfSnapshot::default();
        self.rows.each_chunk(from, self.reading, wanted, |chunk| {
            self.check()?;
            blocks.add(chunk, filling)?;
            loaded(chunk.row_count().into());
            Ok(())
        })?;
        blocks.finish((self.rows, from), filling, &|| self.check())
    }

    fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Error::Cancelled("rows of another partition cannot be loaded".into()));
        }
        self.rows.check_interrupt()
    }
}
