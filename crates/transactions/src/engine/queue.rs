use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Requests for one partition: never more than its capacity, so that a flood is refused and not
/// remembered.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    capacity: usize,
}

#[derive(Debug)]
pub struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Whether the partition's thread sleeps.
    idle: bool,
}

impl<T> Queue<T> {
    /// A queue for this many requests.
    pub fn new(capacity: usize) -> Self {
        let state = State { items: VecDeque::new(), closed: false, idle: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Puts requests in until one does not fit; gives back those that do not.
    pub fn push(&self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let mut items = items.into_iter();
        let mut state = self.state.lock();
        let free = if state.closed { 0 } else { self.capacity.saturating_sub(state.items.len()) };
        state.items.extend(items.by_ref().take(free));
        self.wake(state);
        items
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake = std::mem::take(&mut state.idle);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Puts one item into each of several queues at one moment, or, where one of them is full or closed,
    /// into none.
    ///
    /// The queues are given in one order by everybody, so this cannot deadlock; and because all of them
    /// are locked at once, two such pushes are in the same order in every queue that they share.
    pub fn push_to_all(queues: &[&Self], mut item: impl FnMut() -> T) -> bool {
        let mut locked: Vec<_> = queues.iter().map(|queue| (queue, queue.state.lock())).collect();
        if locked.iter().any(|(queue, state)| state.closed || state.items.len() >= queue.capacity) {
            return false;
        }
        for (_, state) in &mut locked {
            state.items.push_back(item());
        }
        for (queue, state) in locked {
            queue.wake(state);
        }
        true
    }

    /// Moves up to `most` requests to `into`; waits for the first. False once the queue is closed and
    /// empty.
    pub fn pop(&self, into: &mut VecDeque<T>, most: usize) -> bool {
        let mut state = self.state.lock();
        while state.items.is_empty() {
            if state.closed {
                return false;
            }
            state.idle = true;
            self.arrived.wait(&mut state);
        }
        let count = state.items.len().min(most);
        into.extend(state.items.drain(..count));
        true
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Takes nothing any more; what is in it will run.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.wake(state);
        self.arrived.notify_all();
    }
}
