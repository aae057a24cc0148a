//! Reads of evicted rows, while their partitions run other transactions (Anti-Caching 2013, section 3.4).
//!
//! ```text
//!  Worker: a transaction needs evicted rows, and is undone
//!     |                                   ^
//!     | Fetch: their places, the request  | item of the queue: their images, the request
//!     v                                   |
//!  Fetches ---------> Fetcher: reads -----+
//!     |                                   |
//!     +---- a disk that reads side by side, for rows alone
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::{EventCount, Machine, Step};
use thermocline_tables::partition::{FetchedRow, WantedRow};
use thermocline_tables::table::{BlockNumber, BlockRows};
use thermocline_types::Result;

use super::fetches::{Fetch, Fetched, Next, Reading};
use super::program::Program;
use super::shared::{Item, Shared, Visit};

/// A reader. There may be several.
pub struct Fetcher<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    event: Arc<EventCount>,
}

impl<P: Program + ?Sized> Fetcher<P> {
    /// A reader for all partitions.
    pub fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared, event: EventCount::new() }
    }
}

impl<P: Program + ?Sized> Machine for Fetcher<P> {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        match self.shared.fetches.pop(&self.event) {
            Next::Nothing(wait) => Step::Wait(wait),
            Next::Closed => Step::Over(()),
            Next::Read(Reading::Sparse(partition, blocks)) => {
                let blocks = blocks.into_iter().map(|(block, read)| (block, read())).collect();
                self.shared.read_sparse(partition, blocks);
                Step::Go
            }
            Next::Read(Reading::Over(partitions, rows, waiting)) => {
                let fetch =
                    |(id, rows): (PartitionId, Vec<WantedRow>)| (id, rows.into_iter().map(WantedRow::fetch).collect());
                let rows = rows.into_iter().map(fetch).collect();
                self.shared.request_over_fetched(&partitions, waiting, rows);
                Step::Go
            }
            Next::Read(Reading::Rows(Fetch { partition, rows, waiting })) => {
                let rows = rows.into_iter().map(WantedRow::fetch).collect();
                self.shared.fetched(partition, Fetched { rows, waiting });
                Step::Go
            }
        }
    }
}

impl<P: Program + ?Sized> Shared<P> {
    /// Begins a read of rows where the disk does so by itself, or leaves it to a reader. Does not wait.
    pub fn fetch(self: &Arc<Self>, reading: Reading<P>) {
        if !reading.is_asynchronous() {
            return self.fetches.push(reading);
        }
        let (shared, started) = (Arc::clone(self), self.fetches.start());
        match reading {
            Reading::Rows(Fetch { partition, rows, waiting }) => {
                let rows = rows.into_iter().map(|row| (partition, row)).collect();
                read_together(rows, move |rows| {
                    let rows = rows.into_iter().map(|(_, row)| row).collect();
                    shared.fetched(partition, Fetched { rows, waiting });
                    drop(started);
                });
            }
            Reading::Over(partitions, rows, waiting) => {
                let rows = rows.into_iter().flat_map(|(id, rows)| rows.into_iter().map(move |row| (id, row))).collect();
                read_together(rows, move |rows| {
                    let mut of_partitions: Vec<(PartitionId, Vec<FetchedRow>)> = Vec::new();
                    for (id, row) in rows {
                        match of_partitions.last_mut() {
                            Some((last, rows)) if *last == id => rows.push(row),
                            _ => of_partitions.push((id, vec![row])),
                        }
                    }
                    shared.request_over_fetched(&partitions, waiting, of_partitions);
                    drop(started);
                });
            }
            Reading::Sparse(..) => {}
        }
    }

    /// Has a partition move the rows of blocks that were read.
    fn read_sparse(&self, partition: PartitionId, blocks: Vec<(BlockNumber, Result<BlockRows>)>) {
        let visit: Visit = Box::new(move |member| {
            // What could not be written is tried again later: the rows are where they were.
            let _later = member.partition.relocate(blocks);
        });
        if let Some(queue) = self.queues.get(usize::from(partition.0)) {
            // A closed queue drops it.
            let _closed = queue.push_back_again(Item::Visit(visit));
        }
    }

    /// Gives a transaction whose rows were read back to its partition.
    fn fetched(&self, partition: PartitionId, fetched: Fetched<P>) {
        let item = Item::Fetched(Box::new(fetched));
        let refused = match self.queues.get(usize::from(partition.0)) {
            Some(queue) => queue.push_back_again(item),
            None => Some(item),
        };
        if let Some(Item::Fetched(fetched)) = refused {
            fetched.waiting.request.ticket.refuse(self.refusal());
        }
    }
}

impl<P: Program + ?Sized> Reading<P> {
    /// Whether the disk reads some of it side by side, in a thread of its own; rows in memory are copied at once then.
    /// Blocks whose rows move are left to readers, which have time to check them.
    fn is_asynchronous(&self) -> bool {
        let mut rows = match self {
            Self::Rows(fetch) => Box::new(fetch.rows.iter()) as Box<dyn Iterator<Item = &WantedRow>>,
            Self::Over(_, rows, _) => Box::new(rows.iter().flat_map(|(_, rows)| rows)),
            Self::Sparse(..) => return false,
        };
        rows.any(WantedRow::is_asynchronous)
    }
}

/// Rows that are read side by side, and what follows the last one.
struct Together<F> {
    /// In the order in which they were wanted.
    rows: Mutex<Vec<Option<(PartitionId, FetchedRow)>>>,
    left: AtomicUsize,
    then: Mutex<Option<F>>,
}

/// Begins reads of rows, of which there is one at least, and gives all to `then`, in their order.
fn read_together<F>(rows: Vec<(PartitionId, WantedRow)>, then: F)
where
    F: FnOnce(Vec<(PartitionId, FetchedRow)>) + Send + 'static,
{
    let read = Mutex::new(rows.iter().map(|_| None).collect());
    let together = Together { rows: read, left: AtomicUsize::new(rows.len()), then: Mutex::new(Some(then)) };
    let together = Arc::new(together);
    for (place, (id, row)) in rows.into_iter().enumerate() {
        let together = Arc::clone(&together);
        row.start(move |row| {
            if let Some(slot) = together.rows.lock().get_mut(place) {
                *slot = Some((id, row));
            }
            if together.left.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(then) = together.then.lock().take()
            {
                let rows = std::mem::take(&mut *together.rows.lock());
                then(rows.into_iter().flatten().collect());
            }
        });
    }
}
