use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// A result, for whoever gave the tag.
#[derive(Debug)]
pub struct Reply<O> {
    /// What the client called the transaction.
    pub tag: u64,
    /// What became of it.
    pub result: Result<O>,
}

/// Why an engine has stopped; `None` while it has not.
pub type Stopped = Arc<Mutex<Option<Error>>>;

/// The duty to answer one request. Dropped without an answer, because the engine stops, it answers
/// with the reason for that.
#[derive(Debug)]
pub struct Ticket<O> {
    mailbox: Option<Arc<Mailbox<O>>>,
    tag: u64,
    stopped: Stopped,
}

/// A result and where it goes.
pub(super) type Delivery<O> = (Arc<Mailbox<O>>, Reply<O>);

impl<O> Ticket<O> {
    /// Answers go to this mailbox.
    pub fn new(mailbox: Arc<Mailbox<O>>, tag: u64, stopped: Stopped) -> Self {
        Self { mailbox: Some(mailbox), tag, stopped }
    }

    /// The answer, to be delivered when it may be told.
    pub(super) fn answer(mut self, result: Result<O>) -> Option<Delivery<O>> {
        Some((self.mailbox.take()?, Reply { tag: self.tag, result }))
    }

    /// Answers now: nothing was done.
    pub(super) fn refuse(self, error: Error) {
        Mailbox::deliver(self.answer(Err(error)));
    }
}

impl<O> Drop for Ticket<O> {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            let reason = self.stopped.lock().clone();
            let error = reason.unwrap_or_else(|| Error::Cancelled("the engine has stopped".into()));
            Mailbox::deliver([(mailbox, Reply { tag: self.tag, result: Err(error) })]);
        }
    }
}

/// Results for one client. It never holds more than the client has asked for.
#[derive(Debug)]
pub struct Mailbox<O> {
    replies: Mutex<VecDeque<Reply<O>>>,
    arrived: Condvar,
}

impl<O> Mailbox<O> {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(VecDeque::new()), arrived: Condvar::new() })
    }

    /// Puts results in, those of one mailbox behind each other under one lock.
    pub(super) fn deliver(replies: impl IntoIterator<Item = Delivery<O>>) {
        let mut replies = replies.into_iter().peekable();
        while let Some((mailbox, reply)) = replies.next() {
            let mut held = mailbox.replies.lock();
            held.push_back(reply);
            while let Some((_, reply)) = replies.next_if(|(next, _)| Arc::ptr_eq(next, &mailbox)) {
                held.push_back(reply);
            }
            drop(held);
            mailbox.arrived.notify_one();
        }
    }

    /// Takes all results there are; waits for the first, but not longer than this.
    pub fn receive_for(&self, wait: Duration) -> VecDeque<Reply<O>> {
        let mut replies = self.replies.lock();
        if replies.is_empty() {
            self.arrived.wait_for(&mut replies, wait);
        }
        std::mem::take(&mut replies)
    }

    /// Takes all results there are; waits for the first.
    pub fn receive(&self) -> VecDeque<Reply<O>> {
        let mut replies = self.replies.lock();
        while replies.is_empty() {
            self.arrived.wait(&mut replies);
        }
        std::mem::take(&mut replies)
    }
}
