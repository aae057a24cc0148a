//! Reads of evicted rows, while their partitions run other transactions (Anti-Caching 2013, section 3.4).
//!
//! ```text
//!  Worker: a transaction needs evicted rows, and is undone
//!     |                                   ^
//!     | Fetch: their places, the request  | item of the queue: their images, the request
//!     v                                   |
//!  Fetches ---------> Fetcher: reads -----+
//! ```

use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_machine::{EventCount, Machine, Step};
use thermocline_tables::partition::WantedRow;
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
