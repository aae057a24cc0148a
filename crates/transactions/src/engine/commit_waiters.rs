//! Results of all partitions until the log releases them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_machine::ids::Sequence;
use thermocline_machine::{EventCount, Step, Wait};
use thermocline_tables::table::Charge;
use thermocline_types::{Error, Result};

use super::commit_queue::CommitQueue;
use super::mailbox::{Delivery, Mailbox};

/// Results of all partitions that wait for the log, which calls [`CommitWaiters::released`].
#[derive(Debug)]
pub struct CommitWaiters<O> {
    waiting: Vec<Waiting<O>>,
    released: AtomicU64,
    failed: Mutex<Option<Error>>,
    progress: Arc<EventCount>,
}

/// The results of one partition.
#[derive(Debug)]
struct Waiting<O> {
    state: Mutex<State<O>>,
    /// Advances when fewer bytes wait.
    drained: Arc<EventCount>,
}

#[derive(Debug)]
struct State<O> {
    held: CommitQueue<Results<O>>,
    /// Bytes of all waiting results.
    bytes: usize,
    /// Empty lists for the next results: the partition's thread fills them and the log's thread empties them, and
    /// freeing memory on another thread is expensive.
    spare: Vec<Vec<Delivery<O>>>,
}

/// Maximum lists kept.
const SPARE_MAX: usize = 16;

/// Results that were handed over together, with the charge for them.
#[derive(Debug)]
struct Results<O> {
    replies: Vec<Delivery<O>>,
    charge: Charge,
}

impl<O> CommitWaiters<O> {
    /// A list of waiting results for each partition.
    pub fn new(partitions: usize) -> Arc<Self> {
        let state = || Mutex::new(State { held: CommitQueue::default(), bytes: 0, spare: Vec::new() });
        let waiting = (0..partitions).map(|_| Waiting { state: state(), drained: EventCount::new() }).collect();
        Arc::new(Self { waiting, released: AtomicU64::new(0), failed: Mutex::new(None), progress: EventCount::new() })
    }

    /// Delivers results up to this sequence, or fails the rest because the log has failed.
    pub fn released(&self, released: Result<Sequence>) {
        let mut failed = self.failed.lock();
        match released {
            Ok(sequence) => drop(self.released.fetch_max(sequence.0, Ordering::SeqCst)),
            Err(error) => drop(failed.get_or_insert(error)),
        }
        drop(failed);
        self.progress.advance();
        let mut told = Vec::new();
        for waiting in &self.waiting {
            self.tell(&mut waiting.state.lock(), &mut told);
            waiting.drained.advance();
        }
        told.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Sequence up to which results may be told.
    pub fn sequence(&self) -> Sequence {
        Sequence(self.released.load(Ordering::SeqCst))
    }

    /// Holds results of a partition until the log is durable up to `sequence`, and empties the list.
    pub(super) fn hold(&self, partition: usize, sequence: Sequence, replies: &mut Vec<Delivery<O>>, charge: Charge) {
        let Some(waiting) = self.waiting.get(partition) else { return };
        let mut state = waiting.state.lock();
        state.bytes += charge.bytes();
        let replies = std::mem::replace(replies, state.spare.pop().unwrap_or_default());
        state.held.push(sequence, Results { replies, charge });
        // The log may have reached it before this was noted.
        let mut told = Vec::new();
        self.tell(&mut state, &mut told);
        drop(state);
        told.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Event that a partition waits for while more than `bytes_max` of its results wait: otherwise its results would
    /// take ever more memory while the disk is slow. Its queue fills meanwhile and tells clients that it is busy.
    pub(super) fn rest(&self, partition: usize, bytes_max: usize) -> Option<Wait> {
        let waiting = self.waiting.get(partition)?;
        let seen = waiting.drained.seen();
        (waiting.state.lock().bytes > bytes_max).then(|| Wait::new(&waiting.drained, seen))
    }

    /// Completes when transactions up to `sequence` may be told.
    pub(super) fn reach(&self, sequence: Sequence) -> Step<Result<()>> {
        let seen = self.progress.seen();
        let failed = self.failed.lock();
        if self.released.load(Ordering::SeqCst) >= sequence.0 {
            return Step::Over(Ok(()));
        }
        match &*failed {
            Some(error) => Step::Over(Err(error.clone())),
            None => Step::Wait(Wait::new(&self.progress, seen)),
        }
    }

    /// Delivers the results that may be told; adds the mailboxes to wake to `told`.
    fn tell(&self, state: &mut State<O>, told: &mut Vec<Arc<Mailbox<O>>>) {
        let released = Sequence(self.released.load(Ordering::SeqCst));
        while let Some(Results { mut replies, charge }) = state.held.release(released) {
            state.bytes -= charge.bytes();
            Mailbox::put(replies.drain(..), told);
            if state.spare.len() < SPARE_MAX {
                state.spare.push(replies);
            }
        }
        if let Some(error) = &*self.failed.lock() {
            while let Some(Results { replies, charge }) = state.held.fail() {
                state.bytes -= charge.bytes();
                Mailbox::deliver(replies.into_iter().map(|reply| unknown(reply, error)));
            }
        }
    }
}

/// A result whose durability is unknown because the log failed.
pub(super) fn unknown<O>((mailbox, reply): Delivery<O>, error: &Error) -> Delivery<O> {
    (mailbox, reply.map(|result| result.and_then(|_| Err(error.clone()))))
}
