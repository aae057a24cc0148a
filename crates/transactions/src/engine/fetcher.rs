//! Reads of evicted rows, while their partitions run other transactions (Anti-Caching 2013, section 3.4).
//!
//! ```text
//!  Worker: a transaction needs evicted rows, and is undone
//!     |                                   ^
//!     | Fetch: their places, the request  | item of the queue: their images, the request
//!     v                                   |
//!  Fetches ---------> Fetcher: reads -----+
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::{EventCount, Machine, Step, Wait};
use thermocline_tables::partition::{FetchedRow, WantedRow};

use super::program::Program;
use super::shared::{Item, Request, Shared};

/// Evicted rows to be read, and the transaction that waits for them.
pub struct Fetch<P: Program + ?Sized> {
    pub partition: PartitionId,
    pub rows: Vec<WantedRow>,
    pub request: Request<P>,
    /// Times that it has been undone so far.
    pub restarts: u32,
}

/// A transaction whose rows were read.
pub struct Fetched<P: Program + ?Sized> {
    pub rows: Vec<FetchedRow>,
    pub request: Request<P>,
    /// Times that it has been undone.
    pub restarts: u32,
}

/// Fetches that wait for a reader.
pub struct Fetches<P: Program + ?Sized> {
    state: Mutex<State<P>>,
    arrived: Arc<EventCount>,
}

struct State<P: Program + ?Sized> {
    waiting: VecDeque<Fetch<P>>,
    is_closed: bool,
}

impl<P: Program + ?Sized> Default for Fetches<P> {
    fn default() -> Self {
        Self { state: Mutex::new(State { waiting: VecDeque::new(), is_closed: false }), arrived: EventCount::new() }
    }
}

enum Next<P: Program + ?Sized> {
    Fetch(Fetch<P>),
    Nothing(Wait),
    Closed,
}

impl<P: Program + ?Sized> Fetches<P> {
    /// Adds a fetch.
    pub fn push(&self, fetch: Fetch<P>) {
        self.state.lock().waiting.push_back(fetch);
        self.arrived.advance();
    }

    /// Whether nothing waits for a reader.
    pub fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    fn pop(&self) -> Next<P> {
        let seen = self.arrived.seen();
        let mut state = self.state.lock();
        match state.waiting.pop_front() {
            Some(fetch) => Next::Fetch(fetch),
            None if state.is_closed => Next::Closed,
            None => Next::Nothing(Wait::new(&self.arrived, seen)),
        }
    }

    /// Ends the readers once nothing waits for them.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.advance();
    }
}

/// A reader. There may be several.
pub struct Fetcher<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
}

impl<P: Program + ?Sized> Fetcher<P> {
    /// A reader for all partitions.
    pub fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }
}

impl<P: Program + ?Sized> Machine for Fetcher<P> {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        match self.shared.fetches.pop() {
            Next::Nothing(wait) => Step::Wait(wait),
            Next::Closed => Step::Over(()),
            Next::Fetch(Fetch { partition, rows, request, restarts }) => {
                let rows = rows.into_iter().map(WantedRow::fetch).collect();
                self.shared.fetched(partition, Fetched { rows, request, restarts });
                Step::Go
            }
        }
    }
}

impl<P: Program + ?Sized> Shared<P> {
    /// Gives a transaction whose rows were read back to its partition.
    fn fetched(&self, partition: PartitionId, fetched: Fetched<P>) {
        let item = Item::Fetched(Box::new(fetched));
        let refused = match self.queues.get(usize::from(partition.0)) {
            Some(queue) => queue.push_back_again(item),
            None => Some(item),
        };
        if let Some(Item::Fetched(fetched)) = refused {
            fetched.request.ticket.refuse(self.refusal());
        }
    }
}
