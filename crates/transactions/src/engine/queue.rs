//! Bounded queues of requests, one for each partition.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use thermocline_machine::{EventCount, Wait};
use thermocline_tables::table::{Budget, HeapSize, Working};

/// Requests for one partition, limited by capacity and memory, so that a flood is refused instead of stored.
///
/// The budget is charged in steps of [`CHARGE_BYTES`], so that most requests do not touch it. Invariant: `charged` is
/// the charge, and at least the bytes of the queue and of the running items, which were taken out last.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Arc<EventCount>,
    capacity: usize,
    budget: Arc<Budget>,
}

const CHARGE_BYTES: usize = 64 << 10;

/// Result of taking requests from a queue.
#[derive(Debug)]
pub enum Popped {
    /// At least one request.
    Some,
    /// None before this wait ends.
    Nothing(Wait),
    /// None, and none will come.
    Closed,
}

#[derive(Debug)]
pub struct State<T> {
    items: VecDeque<T>,
    /// Bytes that the items point to.
    heap_bytes: usize,
    /// Bytes that the items taken out last point to.
    taken_bytes: usize,
    charged: usize,
    closed: bool,
    /// Whether the partition waits for the next item.
    idle: bool,
}

impl<T: HeapSize> State<T> {
    /// Puts an item in; returns it if there is no memory for it.
    fn put(&mut self, item: T, budget: &Budget, own: bool) -> Option<T> {
        let heap_bytes = self.heap_bytes + item.heap_bytes();
        let bytes = self.items.capacity() * size_of::<T>() + heap_bytes + self.taken_bytes;
        if bytes > self.charged {
            let charge = bytes.next_multiple_of(CHARGE_BYTES);
            // The first step is for requests that free memory, and is not asked for.
            let asks = !own && charge > CHARGE_BYTES;
            let more = charge - self.charged;
            let check = |budget: &Budget| match self.charged > CHARGE_BYTES {
                true => budget.check_queued(more),
                // One request may be larger than what is left to many.
                false => budget.check_working(Working::Queues, more),
            };
            if asks && check(budget).is_err() {
                return Some(item);
            }
            budget.resize_working(Working::Queues, self.charged, charge);
            self.charged = charge;
        }
        self.heap_bytes = heap_bytes;
        self.items.push_back(item);
        None
    }

    /// The items taken out last have run, except for items of this many bytes.
    fn ran(&mut self, left_bytes: usize, budget: &Budget) {
        self.taken_bytes = left_bytes;
        let bytes = self.items.capacity() * size_of::<T>() + self.heap_bytes + left_bytes;
        let bytes = bytes.next_multiple_of(CHARGE_BYTES);
        // Keeps some slack, so that the charge does not rise again at once.
        if self.charged > bytes + CHARGE_BYTES {
            budget.resize_working(Working::Queues, self.charged, bytes);
            self.charged = bytes;
        }
    }
}

impl<T: HeapSize> Queue<T> {
    /// A queue for this many requests.
    pub fn new(capacity: usize, budget: Arc<Budget>) -> Self {
        let state =
            State { items: VecDeque::new(), heap_bytes: 0, taken_bytes: 0, charged: 0, closed: false, idle: false };
        Self { state: Mutex::new(state), arrived: EventCount::new(), capacity: capacity.max(1), budget }
    }

    /// Puts requests in until one does not fit; returns the rest.
    pub fn push(&self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let mut items = items.into_iter();
        let mut state = self.state.lock();
        let free = if state.closed { 0 } else { self.capacity.saturating_sub(state.items.len()) };
        let mut back = None;
        for item in items.by_ref().take(free) {
            back = state.put(item, &self.budget, false);
            if back.is_some() {
                break;
            }
        }
        self.wake(state);
        back.into_iter().chain(items)
    }

    /// Puts in a request of the engine itself, of which there are few, even if the queue is full; returns false once it
    /// is closed.
    pub fn push_own(&self, item: T) -> bool {
        self.push_back_again(item).is_none()
    }

    /// Puts in an item whose request had left the queue, even if it is full; returns it once the queue is closed.
    pub fn push_back_again(&self, item: T) -> Option<T> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(item);
        }
        let refused = state.put(item, &self.budget, true);
        self.wake(state);
        refused
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake = std::mem::take(&mut state.idle);
        drop(state);
        if wake {
            self.arrived.advance();
        }
    }

    /// Puts one item into each of several queues at one moment, or into none if one of them is full or closed, or the
    /// first has no memory for it. The engine's own requests also enter full queues.
    ///
    /// All callers lock queues in the same order, so this cannot deadlock; and because all of them are locked at once,
    /// two such pushes are in the same order in every queue that they share.
    pub fn push_to_all(queues: &[&Self], own: bool, mut item: impl FnMut() -> T) -> bool {
        let mut locked: Vec<_> = queues.iter().map(|queue| (queue, queue.state.lock())).collect();
        if locked.iter().any(|(queue, state)| state.closed || !own && state.items.len() >= queue.capacity) {
            return false;
        }
        for (place, (queue, state)) in locked.iter_mut().enumerate() {
            // The first queue is charged for all.
            let refused = state.put(item(), &queue.budget, own || place > 0);
            if refused.is_some() {
                return false;
            }
        }
        for (queue, state) in locked {
            queue.wake(state);
        }
        true
    }

    /// Moves up to `most` requests to `into`, if there are any. The items taken out before have run by now, except for
    /// those still in `into` and `kept_bytes` of others.
    pub fn pop(&self, into: &mut VecDeque<T>, most: usize, kept_bytes: usize) -> Popped {
        let seen = self.arrived.seen();
        let mut state = self.state.lock();
        let left_bytes = kept_bytes + into.iter().map(HeapSize::heap_bytes).sum::<usize>();
        state.ran(left_bytes, &self.budget);
        if state.items.is_empty() {
            if state.closed {
                return Popped::Closed;
            }
            state.idle = true;
            return Popped::Nothing(Wait::new(&self.arrived, seen));
        }
        let count = state.items.len().min(most);
        let before = into.len();
        into.extend(state.items.drain(..count));
        let bytes: usize = into.iter().skip(before).map(HeapSize::heap_bytes).sum();
        state.taken_bytes += bytes;
        state.heap_bytes -= bytes;
        Popped::Some
    }

    /// Frees the charge for this many bytes of the items taken out last, which tables are charged for by now.
    pub fn moved_to_tables(&self, bytes: usize) {
        if bytes > CHARGE_BYTES {
            let mut state = self.state.lock();
            let left_bytes = state.taken_bytes.saturating_sub(bytes);
            state.ran(left_bytes, &self.budget);
        }
    }

    /// Wakes the partition if it waits for requests, to check something other than the queue.
    pub fn nudge(&self) {
        self.arrived.advance();
    }

    /// The budget that it charges.
    pub const fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Changes the order of waiting items; only for simulated bugs.
    pub fn rearrange(&self, change: impl FnOnce(&mut VecDeque<T>)) {
        change(&mut self.state.lock().items);
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Accepts nothing more; requests in it will run.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.wake(state);
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        self.budget.resize_working(Working::Queues, self.state.get_mut().charged, 0);
    }
}
