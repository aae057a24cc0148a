use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::held::Held;
use super::mailbox::{Delivery, Mailbox, Reply};
use crate::error::{Error, Result};
use crate::ids::Sequence;

/// Results of all partitions that wait for the log; between the log's thread, which calls
/// [`Releases::released`], and the partitions' threads.
#[derive(Debug)]
pub struct Releases<O> {
    held: Vec<Mutex<Held<Delivery<O>>>>,
    released: AtomicU64,
    failed: Mutex<Option<Error>>,
    progress: Condvar,
}

impl<O> Releases<O> {
    /// For this many partitions.
    pub fn new(partitions: usize) -> Arc<Self> {
        let held = (0..partitions).map(|_| Mutex::default()).collect();
        Arc::new(Self { held, released: AtomicU64::new(0), failed: Mutex::new(None), progress: Condvar::new() })
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
        for held in &self.held {
            self.tell(&mut held.lock());
        }
    }

    /// Results of a partition that may be told when the log is durable up to `sequence`.
    pub(super) fn hold(&self, partition: usize, sequence: Sequence, replies: Vec<Delivery<O>>) {
        let Some(held) = self.held.get(partition) else { return };
        let mut held = held.lock();
        held.push(sequence, replies);
        // The log may have got there before this was noted.
        self.tell(&mut held);
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

    fn tell(&self, held: &mut Held<Delivery<O>>) {
        Mailbox::deliver(held.release(Sequence(self.released.load(Ordering::SeqCst))));
        if let Some(error) = &*self.failed.lock() {
            Mailbox::deliver(held.fail(unknown, error));
        }
    }
}

/// A result that nobody may be told, because the log failed.
pub(super) fn unknown<O>((mailbox, reply): Delivery<O>, error: &Error) -> Delivery<O> {
    (mailbox, Reply { tag: reply.tag, result: reply.result.and_then(|_| Err(error.clone())) })
}
