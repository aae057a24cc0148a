//! Evicted rows that wait for a reader, and the transactions that wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use thermocline_machine::ids::PartitionId;
use thermocline_machine::{EventCount, Wait};
use thermocline_tables::partition::{FetchedRow, WantedId, WantedRow};
use thermocline_tables::table::{BlockNumber, BlockReader};

use super::program::Program;
use super::request::Request;

/// Times that a transaction is undone for evicted rows before it reads them where it runs, unless reads block anyway.
pub const WAITS_MAX: u32 = 8;

/// Number of waits of a transaction that waits for rows once more. One that needs more of them than may come back while
/// it waits may find them by a scan of its table, which every further run would repeat: the next run reads the rest where
/// it runs.
pub const fn next_wait(waits: u32, are_all: bool) -> u32 {
    if are_all { waits + 1 } else { WAITS_MAX }
}

/// Rows of a partition that a transaction [waits for later](Waiting::rest); nothing without any.
pub fn rest_of(partition: PartitionId, rest: Vec<WantedId>) -> Vec<(PartitionId, Vec<WantedId>)> {
    if rest.is_empty() { Vec::new() } else { vec![(partition, rest)] }
}

/// Evicted rows to be read for a transaction that waits for them.
pub struct Fetch<P: Program + ?Sized> {
    pub partition: PartitionId,
    pub rows: Vec<WantedRow>,
    pub waiting: Waiting<P>,
}

/// What a reader does next.
pub enum Reading<P: Program + ?Sized> {
    /// Reads rows for a transaction.
    Rows(Fetch<P>),
    /// Reads rows for a transaction over these partitions, which runs over them again then.
    Over(Vec<u32>, Vec<(PartitionId, Vec<WantedRow>)>, Waiting<P>),
    /// Reads blocks whose rows a partition moves to others.
    Sparse(PartitionId, Vec<(BlockNumber, BlockReader)>),
}

/// A transaction whose rows were read.
pub struct Fetched<P: Program + ?Sized> {
    pub rows: Vec<FetchedRow>,
    pub waiting: Waiting<P>,
}

/// A transaction that was undone because it needs evicted rows.
pub struct Waiting<P: Program + ?Sized> {
    pub request: Request<P>,
    /// Times that it has been undone for evicted rows.
    pub waits: u32,
    /// Rows that are read for it before it runs, after those that are being read now.
    pub rest: Vec<(PartitionId, Vec<WantedId>)>,
}

impl<P: Program + ?Sized> Waiting<P> {
    /// A transaction that waits for no rows but those that are being read.
    pub const fn new(request: Request<P>, waits: u32) -> Self {
        Self { request, waits, rest: Vec::new() }
    }
}

/// Transactions of a partition that need nothing but rows which are being read for another one: they run after it.
///
/// ```text
///  fetch of rows 1 and 2, for A
///    +-- B needs 1
///    +-- C needs 2 and 1
/// ```
pub struct Followers<P: Program + ?Sized> {
    /// The first row of the fetch in which each row is read.
    fetches: BTreeMap<WantedId, WantedId>,
    /// By that first row.
    waiting: BTreeMap<WantedId, Vec<Waiting<P>>>,
}

impl<P: Program + ?Sized> Default for Followers<P> {
    fn default() -> Self {
        Self { fetches: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl<P: Program + ?Sized> Followers<P> {
    /// Lets a transaction wait for these rows. Returns it if they have to be read for it.
    pub fn follow(&mut self, rows: &[WantedId], waiting: Waiting<P>) -> Option<Waiting<P>> {
        let fetch = rows.first().and_then(|row| self.fetches.get(row).copied());
        if let Some(fetch) = fetch.filter(|fetch| rows.iter().all(|row| self.fetches.get(row) == Some(fetch))) {
            self.waiting.entry(fetch).or_default().push(waiting);
            return None;
        }
        if let Some(first) = rows.first() {
            for row in rows {
                self.fetches.entry(*row).or_insert(*first);
            }
        }
        Some(waiting)
    }

    /// The transactions that have waited for a fetch of these rows.
    pub fn fetched(&mut self, rows: &[FetchedRow]) -> Vec<Waiting<P>> {
        let Some(first) = rows.first().map(FetchedRow::wanted_id) else { return Vec::new() };
        for row in rows {
            if self.fetches.get(&row.wanted_id()) == Some(&first) {
                self.fetches.remove(&row.wanted_id());
            }
        }
        self.waiting.remove(&first).unwrap_or_default()
    }

    /// All transactions that wait.
    pub fn take(&mut self) -> impl Iterator<Item = Waiting<P>> {
        self.fetches.clear();
        std::mem::take(&mut self.waiting).into_values().flatten()
    }
}

/// Fetches that wait for a reader.
pub struct Fetches<P: Program + ?Sized> {
    state: Mutex<State<P>>,
    started: Arc<StartedCount>,
}

/// Number of fetches that a disk does by itself.
#[derive(Default)]
struct StartedCount {
    count: Mutex<usize>,
    is_none: Condvar,
}

/// A fetch that a disk does by itself, until this is dropped.
pub(super) struct Started {
    count: Arc<StartedCount>,
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut count = self.count.count.lock();
        *count -= 1;
        if *count == 0 {
            self.count.is_none.notify_all();
        }
    }
}

struct State<P: Program + ?Sized> {
    waiting: VecDeque<Reading<P>>,
    /// Events of the readers that have nothing to do.
    idle: Vec<Arc<EventCount>>,
    is_closed: bool,
}

impl<P: Program + ?Sized> Default for Fetches<P> {
    fn default() -> Self {
        let state = State { waiting: VecDeque::new(), idle: Vec::new(), is_closed: false };
        Self { state: Mutex::new(state), started: Arc::default() }
    }
}

/// What a reader finds.
pub(super) enum Next<P: Program + ?Sized> {
    Read(Reading<P>),
    Nothing(Wait),
    Closed,
}

impl<P: Program + ?Sized> Fetches<P> {
    /// Adds something to read, and wakes one reader.
    pub fn push(&self, reading: Reading<P>) {
        let mut state = self.state.lock();
        state.waiting.push_back(reading);
        let idle = state.idle.pop();
        drop(state);
        if let Some(idle) = idle {
            idle.advance();
        }
    }

    /// Whether nothing waits for a reader.
    pub fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// What to read next, or the event to wait for, which is advanced when there is something.
    pub(super) fn pop(&self, event: &Arc<EventCount>) -> Next<P> {
        let seen = event.seen();
        let mut state = self.state.lock();
        match state.waiting.pop_front() {
            Some(reading) => Next::Read(reading),
            None if state.is_closed => Next::Closed,
            None => {
                if !state.idle.iter().any(|idle| Arc::ptr_eq(idle, event)) {
                    state.idle.push(Arc::clone(event));
                }
                Next::Nothing(Wait::new(event, seen))
            }
        }
    }

    /// Notes a fetch that a disk does by itself.
    pub(super) fn start(&self) -> Started {
        *self.started.count.lock() += 1;
        Started { count: Arc::clone(&self.started) }
    }

    /// Waits until disks have done what was [started](Self::start).
    pub(super) fn wait_for_started(&self) {
        let mut count = self.started.count.lock();
        while *count > 0 {
            self.started.is_none.wait(&mut count);
        }
    }

    /// Ends the readers once nothing waits for them.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.idle.drain(..).for_each(|idle| idle.advance());
    }
}
