//! Results on their way to a client, and the obligation to send one for each request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thermocline_machine::{EventCount, Wait};
use thermocline_tables::table::{Budget, HeapSize, Working};
use thermocline_types::{Error, Result};

/// A result for the client that chose the tag.
#[derive(Debug)]
pub struct Reply<O> {
    /// The client's name of the transaction.
    pub tag: u64,
    /// Its result.
    pub result: Result<O>,
    /// Bytes that it takes.
    bytes: usize,
    /// Part of these bytes that the result itself charges to the budget.
    charged: usize,
}

/// Bytes of a result and of its slot in a queue.
pub(super) fn reply_bytes<O: HeapSize>(result: Result<&O, &Error>) -> usize {
    // Errors are rare, so rendering their texts may cost something.
    size_of::<Delivery<O>>() + result.map_or_else(|error| error.to_string().len(), HeapSize::heap_bytes)
}

impl<O> Reply<O> {
    /// Replaces the result by one that is no larger, or by an error.
    pub(super) fn map(self, other: impl FnOnce(Result<O>) -> Result<O>) -> Self {
        Self { tag: self.tag, result: other(self.result), bytes: self.bytes, charged: self.charged }
    }
}

/// Why an engine has stopped; `None` while it has not.
pub type Stopped = Arc<Mutex<Option<Error>>>;

/// Obligation to answer one request. If it is dropped unanswered because the engine stops, it answers with the reason.
#[derive(Debug)]
pub struct Ticket<O> {
    mailbox: Option<Arc<Mailbox<O>>>,
    tag: u64,
    /// Number of times that the request may still run again once there is memory.
    tries: u8,
}

/// Number of times that a request has rows evicted, to run again once there is memory, before it is refused.
pub const ROOM_TRIES: u8 = 64;

/// A result and its mailbox.
pub(super) type Delivery<O> = (Arc<Mailbox<O>>, Reply<O>);

impl<O: HeapSize> Ticket<O> {
    /// A ticket for this mailbox.
    pub fn new(mailbox: Arc<Mailbox<O>>, tag: u64) -> Self {
        Self { mailbox: Some(mailbox), tag, tries: ROOM_TRIES }
    }

    /// Whether the request may run again once there is memory; counts it.
    pub(super) fn take_try(&mut self) -> bool {
        let may = self.tries > 0;
        self.tries = self.tries.saturating_sub(1);
        may
    }

    /// The answer, to be delivered when it may be told.
    pub(super) fn answer(mut self, result: Result<O>) -> Option<Delivery<O>> {
        let bytes = reply_bytes(result.as_ref());
        let charged = result.as_ref().map_or(0, HeapSize::charged_bytes);
        Some((self.mailbox.take()?, Reply { tag: self.tag, result, bytes, charged }))
    }

    /// Answers at once: nothing was done.
    pub(super) fn refuse(self, error: Error) {
        Mailbox::deliver(self.answer(Err(error)));
    }
}

impl<O> Drop for Ticket<O> {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            let reason = mailbox.stopped.lock().clone();
            let error = reason.unwrap_or_else(|| Error::Cancelled("the engine has stopped".into()));
            let bytes = size_of::<Delivery<O>>();
            Mailbox::deliver([(mailbox, Reply { tag: self.tag, result: Err(error), bytes, charged: 0 })]);
        }
    }
}

/// Results for one client. It never holds more than the client has requested, and charges the budget for them until
/// they are received.
#[derive(Debug)]
pub struct Mailbox<O> {
    replies: Mutex<VecDeque<Reply<O>>>,
    arrived: Arc<EventCount>,
    /// The engine's reason to stop; here and not in each request, so that its reference count is seldom touched.
    stopped: Stopped,
    /// Bytes of the results; changed with them, under their lock.
    bytes: AtomicUsize,
    /// Bytes charged for them here.
    told: AtomicUsize,
    budget: Arc<Budget>,
}

impl<O> Drop for Mailbox<O> {
    fn drop(&mut self) {
        self.budget.resize_working(Working::Results, *self.told.get_mut(), 0);
    }
}

impl<O> Mailbox<O> {
    /// An empty mailbox, for answers of an engine that stops for this reason.
    pub fn new(stopped: Stopped, budget: Arc<Budget>) -> Arc<Self> {
        let (replies, bytes, told) = (Mutex::new(VecDeque::new()), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { replies, arrived: EventCount::new(), stopped, bytes, told, budget })
    }

    /// Bytes of results not received yet.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Puts results in and wakes those who wait for them.
    pub(super) fn deliver(replies: impl IntoIterator<Item = Delivery<O>>) {
        let mut told = Vec::new();
        Self::put(replies, &mut told);
        told.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Puts results in, consecutive ones of one mailbox under one lock, and notes the mailboxes to [wake](Self::wake)
    /// later, when all of their results are there.
    pub(super) fn put(replies: impl IntoIterator<Item = Delivery<O>>, told: &mut Vec<Arc<Self>>) {
        let mut replies = replies.into_iter().peekable();
        while let Some((mailbox, reply)) = replies.next() {
            let mut held = mailbox.replies.lock();
            let (mut bytes, mut charged) = (reply.bytes, reply.charged);
            held.push_back(reply);
            while let Some((_, reply)) = replies.next_if(|(next, _)| Arc::ptr_eq(next, &mailbox)) {
                bytes += reply.bytes;
                charged += reply.charged;
                held.push_back(reply);
            }
            let counted = bytes.saturating_sub(charged);
            mailbox.bytes.fetch_add(bytes, Ordering::Relaxed);
            mailbox.told.fetch_add(counted, Ordering::Relaxed);
            mailbox.budget.resize_working(Working::Results, 0, counted);
            drop(held);
            if told.last().is_none_or(|last| !Arc::ptr_eq(last, &mailbox)) {
                told.push(mailbox);
            }
        }
    }

    /// Wakes the threads that wait for results.
    pub(super) fn wake(&self) {
        self.arrived.advance();
    }

    /// Takes all available results, or returns a wait if there are none.
    pub fn try_receive(&self) -> Result<VecDeque<Reply<O>>, Wait> {
        let seen = self.arrived.seen();
        let mut replies = self.replies.lock();
        if replies.is_empty() { Err(Wait::new(&self.arrived, seen)) } else { Ok(self.take(&mut replies)) }
    }

    /// Takes all available results; waits for the first, at most this long.
    pub fn receive_for(&self, wait: Duration) -> VecDeque<Reply<O>> {
        let seen = self.arrived.seen();
        if self.replies.lock().is_empty() {
            self.arrived.sleep(seen, Some(wait));
        }
        self.take(&mut self.replies.lock())
    }

    /// Takes all available results; waits for the first.
    pub fn receive(&self) -> VecDeque<Reply<O>> {
        loop {
            let seen = self.arrived.seen();
            let mut replies = self.replies.lock();
            if !replies.is_empty() {
                return self.take(&mut replies);
            }
            drop(replies);
            self.arrived.sleep(seen, None);
        }
    }

    /// Takes the results and leaves room for as many: the next batch has about the same size.
    fn take(&self, replies: &mut VecDeque<Reply<O>>) -> VecDeque<Reply<O>> {
        self.bytes.store(0, Ordering::Relaxed);
        self.budget.resize_working(Working::Results, self.told.swap(0, Ordering::Relaxed), 0);
        let place = VecDeque::with_capacity(replies.len());
        std::mem::replace(replies, place)
    }
}
