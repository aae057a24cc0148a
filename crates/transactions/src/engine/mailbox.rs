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
}

/// A result and where it goes.
pub(super) type Delivery<O> = (Arc<Mailbox<O>>, Reply<O>);

impl<O> Ticket<O> {
    /// Answers go to this mailbox.
    pub fn new(mailbox: Arc<Mailbox<O>>, tag: u64) -> Self {
        Self { mailbox: Some(mailbox), tag }
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
            let reason = mailbox.stopped.lock().clone();
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
    /// Of the engine that was asked; here and not in each request, so that few touch its count.
    stopped: Stopped,
}

impl<O> Mailbox<O> {
    /// An empty one, for answers of an engine that stops for this reason.
    pub fn new(stopped: Stopped) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(VecDeque::new()), arrived: Condvar::new(), stopped })
    }

    /// Puts results in and wakes those who wait for them.
    pub(super) fn deliver(replies: impl IntoIterator<Item = Delivery<O>>) {
        let mut told = Vec::new();
        Self::put(replies, &mut told);
        told.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Puts results in, those of one mailbox behind each other under one lock, and notes whom to
    /// [wake](Self::wake): once all that there is for him is there, or he would wake for a part of it.
    pub(super) fn put(replies: impl IntoIterator<Item = Delivery<O>>, told: &mut Vec<Arc<Self>>) {
        let mut replies = replies.into_iter().peekable();
        while let Some((mailbox, reply)) = replies.next() {
            let mut held = mailbox.replies.lock();
            held.push_back(reply);
            while let Some((_, reply)) = replies.next_if(|(next, _)| Arc::ptr_eq(next, &mailbox)) {
                held.push_back(reply);
            }
            drop(held);
            if told.last().is_none_or(|last| !Arc::ptr_eq(last, &mailbox)) {
                told.push(mailbox);
            }
        }
    }

    /// Wakes whoever waits for results.
    pub(super) fn wake(&self) {
        self.arrived.notify_one();
    }

    /// Takes all results there are; waits for the first, but not longer than this.
    pub fn receive_for(&self, wait: Duration) -> VecDeque<Reply<O>> {
        let mut replies = self.replies.lock();
        if replies.is_empty() {
            self.arrived.wait_for(&mut replies, wait);
        }
        Self::take(&mut replies)
    }

    /// Takes all results there are; waits for the first.
    pub fn receive(&self) -> VecDeque<Reply<O>> {
        let mut replies = self.replies.lock();
        while replies.is_empty() {
            self.arrived.wait(&mut replies);
        }
        Self::take(&mut replies)
    }

    /// Leaves place for as many: the next results are about as many again.
    fn take(replies: &mut VecDeque<Reply<O>>) -> VecDeque<Reply<O>> {
        let place = VecDeque::with_capacity(replies.len());
        std::mem::replace(replies, place)
    }
}
