use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::held::Held;
use super::mailbox::{Delivery, Mailbox};
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::table::Charge;

/// Results of all partitions that wait for the log; between the log's thread, which calls
/// [`Releases::released`], and the partitions' threads.
#[derive(Debug)]
pub struct Releases<O> {
    waiting: Vec<Waiting<O>>,
    released: AtomicU64,
    failed: Mutex<Option<Error>>,
    progress: Condvar,
}

/// The results of one partition.
#[derive(Debug)]
struct Waiting<O> {
    state: Mutex<State<O>>,
    /// Fewer bytes wait than before.
    drained: Condvar,
}

#[derive(Debug)]
struct State<O> {
    held: Held<Results<O>>,
    /// Bytes of all of them.
    bytes: usize,
    /// Lists whose results were told, for the next ones: the partition's thread fills them and the log's
    /// empties them, and memory that changes threads is dear.
    spare: Vec<Vec<Delivery<O>>>,
}

/// Lists that are kept.
const SPARE_MAX: usize = 16;

/// Results that were handed over together, with the memory that they take.
#[derive(Debug)]
struct Results<O> {
    replies: Vec<Delivery<O>>,
    charge: Charge,
}

impl<O> Releases<O> {
    /// For this many partitions.
    pub fn new(partitions: usize) -> Arc<Self> {
        let state = || Mutex::new(State { held: Held::default(), bytes: 0, spare: Vec::new() });
        let waiting = (0..partitions).map(|_| Waiting { state: state(), drained: Condvar::new() }).collect();
        Arc::new(Self { waiting, released: AtomicU64::new(0), failed: Mutex::new(None), progress: Condvar::new() })
    }

    /// The log may tell results up to here, or has failed.
    pub fn released(&self, released: Result<Sequence>) {
        let mut failed = self.failed.lock();
        match released {
            Ok(sequence) => drop(self.released.fetch_max(sequence.0, Ordering::SeqCst)),
            Err(error) => drop(failed.get_or_insert(error)),
        }
        drop(failed);
        self.progress.notify_all();
        let mut told = Vec::new();
        for waiting in &self.waiting {
            self.tell(&mut waiting.state.lock(), &mut told);
            waiting.drained.notify_one();
        }
        told.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Results of a partition that may be told when the log is durable up to `sequence`. Waits while more than
    /// `bytes_max` of them wait: a partition that ran on would take ever more memory while the disk is slow, and
    /// its queue, which fills meanwhile, tells clients that it is busy.
    ///
    /// The list is left empty.
    pub(super) fn hold(
        &self,
        partition: usize,
        sequence: Sequence,
        replies: &mut Vec<Delivery<O>>,
        charge: Charge,
        bytes_max: usize,
    ) {
        let Some(waiting) = self.waiting.get(partition) else { return };
        let mut state = waiting.state.lock();
        state.bytes += charge.bytes();
        let replies = std::mem::replace(replies, state.spare.pop().unwrap_or_default());
        state.held.push(sequence, Results { replies, charge });
        // The log may have got there before this was noted.
        let mut told = Vec::new();
        self.tell(&mut state, &mut told);
        told.iter().for_each(|mailbox| mailbox.wake());
        while state.bytes > bytes_max {
            waiting.drained.wait(&mut state);
        }
    }

    /// Waits until what happened up to `sequence` may be told.
    pub(super) fn wait(&self, sequence: Sequence) -> Result<()> {
        let mut failed = self.failed.lock();
        while self.released.load(Ordering::SeqCst) < sequence.0 {
            if let Some(error) = &*failed {
                return Err(error.clone());
            }
            self.progress.wait(&mut failed);
        }
        Ok(())
    }

    /// Puts into mailboxes what may be told; `told` is who is to be woken.
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

/// A result that nobody may be told, because the log failed.
pub(super) fn unknown<O>((mailbox, reply): Delivery<O>, error: &Error) -> Delivery<O> {
    (mailbox, reply.map(|result| result.and_then(|_| Err(error.clone()))))
}
