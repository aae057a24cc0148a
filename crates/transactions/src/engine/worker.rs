use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::executor::{self, Executor, Ran};
use super::mailbox::{Delivery, Mailbox, Stopped, Ticket};
use super::meeting::Meeting;
use super::program::{Journal, Program};
use super::queue::Queue;
use super::releases::{Releases, unknown};
use super::weigh::Weigh;
use crate::caught::caught;
use crate::error::{Error, Result};
use crate::ids::{Micros, Sequence};
use crate::interrupt::Interrupt;
use crate::log::Batch;
use crate::partition::{Head, Member};
use crate::table::{Charge, Working};
use crate::types::Value;

/// Requests that a thread takes from its queue at once, and hands to the log together.
const BATCH: usize = 128;
/// Bytes of records or of results after which it hands over those that there are.
const BATCH_BYTES: usize = 1 << 20;

/// A transaction that a client asks for.
pub struct Request<P: Program + ?Sized> {
    pub program: Arc<P>,
    pub arguments: Box<[Value]>,
    pub ticket: Ticket<P::Outcome>,
    /// What stops it; `None` if nothing does.
    pub interrupt: Option<Arc<Interrupt>>,
}

impl<P: Program + ?Sized> Weigh for Request<P> {
    fn heap_bytes(&self) -> usize {
        self.arguments.iter().map(|value| size_of::<Value>() + value.heap_bytes()).sum()
    }
}

impl<P: Program + ?Sized> Weigh for Item<P> {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::One(request) => request.heap_bytes(),
            Self::Visit(_) => 0,
            Self::Meet(.., heap_bytes) => *heap_bytes,
        }
    }
}

/// What a queue holds.
pub enum Item<P: Program + ?Sized> {
    /// A transaction over this partition.
    One(Request<P>),
    /// A look at the partition between two transactions, such as a step of a snapshot.
    Visit(Visit),
    /// One over several; whoever comes last takes the job. `None` for a session's. With the bytes that the job
    /// points to, in one of the queues.
    Meet(Arc<Meeting>, Arc<Mutex<Option<Job<P::Outcome>>>>, usize),
}

/// A transaction over several partitions. It writes its record and gives its reply, which is charged, if somebody
/// waits for one; an error is a bug after which nothing can go on.
pub type Job<O> = Box<dyn FnOnce(&mut [Member], Head, &mut Batch, &mut Charge) -> Result<Option<Delivery<O>>> + Send>;

/// What is done in a partition between two transactions.
pub type Visit = Box<dyn FnOnce(&mut Member) + Send>;

/// What the threads of an engine share.
pub struct Shared<P: Program + ?Sized> {
    pub queues: Vec<Queue<Item<P>>>,
    pub journal: Arc<dyn Journal>,
    pub releases: Arc<Releases<P::Outcome>>,
    pub clock: Box<dyn Fn() -> Micros + Send + Sync>,
    /// Bytes of a partition's results that may wait for the log before it rests.
    pub results_bytes_max: usize,
    /// Why nothing runs any more.
    pub broken: Stopped,
    /// Transactions that were begun on one partition and needed others.
    pub restarts: AtomicU64,
}

impl<P: Program + ?Sized> Shared<P> {
    /// Nothing runs any more after this error.
    pub fn stop(&self, error: Error) {
        self.broken.lock().get_or_insert(error);
        self.queues.iter().for_each(Queue::close);
    }

    /// Has the threads of these partitions meet; false if one of their queues is full, which does not
    /// matter to what is the engine's own, or if there is no memory for so many bytes of the job.
    pub fn meet(
        &self,
        partitions: &[u32],
        meeting: &Arc<Meeting>,
        job: Option<Job<P::Outcome>>,
        mut heap_bytes: usize,
        own: bool,
    ) -> bool {
        let job = Arc::new(Mutex::new(job));
        let queues: Vec<_> = partitions.iter().filter_map(|number| self.queues.get(*number as usize)).collect();
        let item = || Item::Meet(Arc::clone(meeting), Arc::clone(&job), std::mem::take(&mut heap_bytes));
        Queue::push_to_all(&queues, own, item)
    }

    /// All partitions.
    pub fn all(&self) -> Vec<u32> {
        (0..self.queues.len() as u32).collect()
    }

    /// Has a job done over these partitions, in the meeting that it gives back; where it finds no room, the job
    /// is dropped.
    pub fn over(&self, partitions: &[u32], job: Job<P::Outcome>, heap_bytes: usize, own: bool) -> Option<Arc<Meeting>> {
        let meeting = Arc::new(Meeting::new(partitions.len(), Duration::MAX));
        self.meet(partitions, &meeting, Some(job), heap_bytes, own).then_some(meeting)
    }

    /// Runs a request again over all partitions, because it needed others than its own.
    pub fn request_again(self: &Arc<Self>, request: Request<P>) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.request_over(&self.all(), request);
    }

    /// Runs a request over these partitions, in ascending order.
    pub fn request_over(self: &Arc<Self>, partitions: &[u32], request: Request<P>) {
        let heap_bytes = request.heap_bytes();
        let Request { program, arguments, ticket, interrupt } = request;
        // Refused with a reason of its own, so the ticket has to survive the job.
        let ticket = Arc::new(Mutex::new(Some(ticket)));
        let inner = Arc::clone(&ticket);
        // The queues are the engine's own, and would keep it alive for ever.
        let shared = Arc::downgrade(self);
        let job: Job<P::Outcome> = Box::new(move |members, head, batch, results| {
            if let Some(Err(stopped)) = interrupt.as_ref().map(|interrupt| interrupt.start()) {
                return Ok(inner.lock().take().and_then(|ticket| ticket.answer(Err(stopped))));
            }
            let ran = executor::run_all(members, head, &*program, &arguments, batch, interrupt.as_ref(), Some(results));
            let result = match ran {
                Ran::Done(result) => result,
                Ran::OtherPartition => match shared.upgrade() {
                    Some(shared) if members.len() < shared.queues.len() => {
                        if let Some(ticket) = inner.lock().take() {
                            shared.request_again(Request { program, arguments, ticket, interrupt });
                        }
                        return Ok(None);
                    }
                    _ => Err(Error::internal("a transaction over all partitions needs another one")),
                },
                Ran::Broken(error) => {
                    if let Some(ticket) = inner.lock().take() {
                        ticket.refuse(error.clone());
                    }
                    return Err(error);
                }
            };
            Ok(inner.lock().take().and_then(|ticket| ticket.answer(result)))
        });
        if self.over(partitions, job, heap_bytes, false).is_none()
            && let Some(ticket) = ticket.lock().take()
        {
            ticket.refuse(self.refusal());
        }
    }

    /// Why a queue takes nothing.
    pub fn refusal(&self) -> Error {
        let broken = self.broken.lock().clone();
        broken.unwrap_or_else(|| Error::Retry("a partition's queue is full".into()))
    }
}

/// The thread of one partition.
pub struct Worker<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    number: usize,
    executor: Executor,
    /// Up to where the log has to be durable before anybody may be told what is in this partition.
    last: Sequence,
    replies: Vec<Delivery<P::Outcome>>,
    /// The memory of the replies.
    results: Charge,
}

impl<P: Program + ?Sized> Worker<P> {
    /// The thread of partition `number`, not running yet.
    pub fn new(shared: Arc<Shared<P>>, number: usize, executor: Executor) -> Self {
        let budget = executor.member.as_ref().map(|member| member.partition.budget());
        let results = budget.map(|budget| Charge::new(budget, Working::Results)).unwrap_or_default();
        Self { shared, number, executor, last: Sequence::ZERO, replies: Vec::new(), results }
    }

    /// Runs what comes until the queue is closed and empty, and gives back the partition.
    pub fn run(mut self) -> Option<Member> {
        let mut items = VecDeque::with_capacity(BATCH);
        let shared = Arc::clone(&self.shared);
        while let Some(queue) = shared.queues.get(self.number)
            && queue.pop(&mut items, BATCH)
        {
            let mut now = (shared.clock)();
            for item in items.drain(..) {
                let met = matches!(item, Item::Meet(..));
                let mut done = self.guarded(item, now);
                if self.executor.batch.bytes().max(self.results.bytes()) >= BATCH_BYTES {
                    done = done.and_then(|()| self.flush());
                }
                if let Err(error) = done {
                    shared.stop(error);
                }
                if met {
                    // It may have waited for long.
                    now = (shared.clock)();
                }
            }
            if let Err(error) = self.flush() {
                shared.stop(error);
            }
        }
        self.executor.member
    }

    /// After a panic this thread goes on, only to tell whoever is in its queue that nothing runs any more.
    fn guarded(&mut self, item: Item<P>, now: Micros) -> Result<()> {
        let meeting = if let Item::Meet(meeting, ..) = &item { Some(Arc::clone(meeting)) } else { None };
        let number = self.number;
        caught(format_args!("partition {number}"), || self.one(item, now)).unwrap_or_else(|panic| {
            self.executor.member = None;
            self.executor.batch.clear();
            Mailbox::deliver(self.replies.drain(..).map(|reply| unknown(reply, &panic)));
            drop(self.results.take());
            if let Some(meeting) = meeting {
                meeting.cancel(panic.clone());
            }
            Err(panic)
        })
    }

    fn one(&mut self, item: Item<P>, now: Micros) -> Result<()> {
        let Request { program, arguments, ticket, interrupt } = match item {
            Item::One(request) => request,
            Item::Visit(visit) => {
                if let Some(member) = &mut self.executor.member {
                    visit(member);
                }
                return Ok(());
            }
            Item::Meet(meeting, job, _) => {
                let met = self.meet(&meeting, &job, now);
                // Those who wait there already, or will, must not wait for ever.
                return met.inspect_err(|error| meeting.cancel(error.clone()));
            }
        };
        if self.executor.member.is_none() {
            ticket.refuse(self.shared.refusal());
            return Ok(());
        }
        let results = Some(&mut self.results);
        match self.executor.run_interruptible(&*program, &arguments, now, interrupt.as_ref(), results) {
            Ran::Done(result) => self.replies.extend(ticket.answer(result)),
            Ran::OtherPartition => {
                self.shared.request_again(Request { program, arguments, ticket, interrupt });
            }
            Ran::Broken(error) => {
                self.executor.member = None;
                ticket.refuse(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Hands records to the log, and results to where they wait for it.
    fn flush(&mut self) -> Result<()> {
        let results = self.results.take();
        if !self.executor.batch.is_empty() {
            match self.shared.journal.append(&mut self.executor.batch) {
                Ok(sequence) => self.last = sequence,
                Err(error) => {
                    // What changed is in no log, and what was read may be of that.
                    self.executor.member = None;
                    self.executor.batch.clear();
                    Mailbox::deliver(self.replies.drain(..).map(|reply| unknown(reply, &error)));
                    return Err(error);
                }
            }
        }
        if !self.replies.is_empty() {
            let Shared { releases, results_bytes_max, .. } = &*self.shared;
            releases.hold(self.number, self.last, &mut self.replies, results, *results_bytes_max);
        }
        Ok(())
    }

    fn meet(&mut self, meeting: &Meeting, job: &Mutex<Option<Job<P::Outcome>>>, now: Micros) -> Result<()> {
        // What ran here before goes into the log before what runs over all partitions.
        self.flush()?;
        let Some(member) = self.executor.member.take() else { return Err(self.shared.refusal()) };
        let head = self.executor.head(now);
        let Self { shared, replies, executor, results, .. } = self;
        let batch = &mut executor.batch;
        let (member, sequence) = meeting.arrive(member, |members| {
            let Some(job) = job.lock().take() else {
                executor::begin(members, head);
                return None;
            };
            // This thread may have waited for the others, which have run later transactions meanwhile.
            let head = Head { timestamp: (shared.clock)(), ..head };
            Some(job(members, head, batch, results).and_then(|reply| {
                // Also what only read waits for all that it may have read.
                match shared.journal.append(batch) {
                    Ok(sequence) => {
                        replies.extend(reply);
                        Ok(sequence)
                    }
                    Err(error) => {
                        Mailbox::deliver(reply.map(|reply| unknown(reply, &error)));
                        Err(error)
                    }
                }
            }))
        })?;
        executor.member = Some(member);
        self.last = self.last.max(sequence);
        self.flush()
    }
}
