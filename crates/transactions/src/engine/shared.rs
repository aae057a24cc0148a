//! State that workers, clients and sessions share, and the items of queues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use thermocline_durability::log::Batch;
use thermocline_machine::Clock;
use thermocline_machine::ids::{Micros, PartitionId};
use thermocline_tables::partition::{FetchedRow, Head, Member, Wanted};
use thermocline_tables::table::{Charge, HeapSize, Working};
use thermocline_types::{Class, Error, Result};

use super::commit_waiters::CommitWaiters;
use super::executor::{self, Call, Ran, budget_of};
use super::fetches::{Fetched, Fetches, Reading, Waiting, next_wait, rest_of};
use super::holds::{EvictionHolds, Holds};
use super::lock_table::{Asked, Asking, LockTable, Request as Locks};
use super::mailbox::{Delivery, Stopped};
use super::program::{Journal, Program};
use super::queue::Queue;
use super::rendezvous::{Purpose, Rendezvous};
use super::request::Request;

/// Number of times that a transaction is run again with further partitions before it gets all.
pub const WIDENED_MAX: usize = 4;

impl<P: Program + ?Sized> HeapSize for Item<P> {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::One(request) => request.heap_bytes(),
            Self::Fetched(fetched) => {
                fetched.waiting.request.heap_bytes() + fetched.rows.iter().map(FetchedRow::bytes).sum::<usize>()
            }
            Self::Visit(_) => 0,
            Self::Meet(.., heap_bytes) => *heap_bytes,
        }
    }
}

/// An item of a queue.
pub enum Item<P: Program + ?Sized> {
    /// A transaction over this partition.
    One(Request<P>),
    /// The same, which was undone because it needed evicted rows; these were read.
    Fetched(Box<Fetched<P>>),
    /// A visit to the partition between two transactions, such as a step of a snapshot.
    Visit(Visit),
    /// A transaction over several; the last partition to arrive takes the job. `None` for a session's. The number is
    /// the bytes that the job points to, counted in one of the queues.
    Meet(Arc<Rendezvous>, JobPlace<P::Outcome>, usize),
}

/// Requests over several partitions for which there is always room, and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// One that is refused where queues or memory are full.
    New,
    /// One that had left its queues, and goes on.
    Again,
    /// One of the engine itself.
    Own,
}

/// A job until the last partition of its rendezvous takes it.
pub type JobPlace<O> = Arc<Mutex<Option<Job<O>>>>;

/// A transaction over several partitions. It appends its record and returns its charged reply, if a client waits for
/// one. An error is a bug that stops the engine.
pub type Job<O> = Box<dyn FnOnce(&mut [Member], Head, &mut Batch, &mut Charge) -> Result<Option<Delivery<O>>> + Send>;

/// Work in a partition between two transactions.
pub type Visit = Box<dyn FnOnce(&mut Member) + Send>;

/// State shared by the partitions of an engine and their users.
pub struct Shared<P: Program + ?Sized> {
    /// The queue of each partition.
    pub queues: Vec<Queue<Item<P>>>,
    /// Transactions that wait for evicted rows.
    pub fetches: Fetches<P>,
    /// Receiver of records.
    pub journal: Arc<dyn Journal>,
    /// Results that wait for the log.
    pub commit_waiters: Arc<CommitWaiters<P::Outcome>>,
    /// Time that transactions see.
    pub timestamps: Box<dyn Fn() -> Micros + Send + Sync>,
    /// Time for timeouts.
    pub clock: Clock,
    /// Bytes of a partition's results that may wait for the log before it pauses.
    pub results_bytes_max: usize,
    /// Bytes of a session's changes after which another record begins.
    pub part_bytes: usize,
    /// Rows that one step of CREATE INDEX or ADD COLUMN processes.
    pub build_rows: u32,
    /// Times that a transaction is undone for evicted rows before it reads them where it runs.
    pub waits_max: u32,
    /// Why the engine has stopped.
    pub broken: Stopped,
    /// Number of transactions and statements that ran again because they needed a partition that they did not have.
    pub restarts: AtomicU64,
    /// Times for which each partition was held.
    pub holds: Vec<Holds>,
    /// Bytes of tables when no partition had memory to give back: none is asked while they have not changed.
    pub no_room_at: AtomicU64,
    /// For how long eviction and returning rows held each partition.
    pub eviction_holds: Arc<EvictionHolds>,
    /// Ownership of partitions by sessions' transactions. Locked before queues and rendezvous.
    pub locks: RwLock<LockTable<Entrant<P::Outcome>>>,
    /// Maximum requests for one partition that wait for owners of partitions.
    pub waiting_max: usize,
    /// Number of sessions' transactions begun.
    pub sessions: AtomicU64,
}

/// A rendezvous on its way into the queues of its partitions.
pub struct Entrant<O> {
    rendezvous: Arc<Rendezvous>,
    job: JobPlace<O>,
    /// Bytes that the job points to.
    heap_bytes: usize,
    /// Charge for these bytes while it waits for owners of its partitions.
    charge: Charge,
}

impl<P: Program + ?Sized> Shared<P> {
    /// Stops the engine with this error.
    pub fn stop(&self, error: Error) {
        let reason = self.broken.lock().get_or_insert(error).clone();
        self.queues.iter().for_each(Queue::close);
        let waiting = self.locks.write().close();
        waiting.iter().for_each(|request| request.what.rendezvous.cancel(reason.clone()));
    }

    /// Puts a rendezvous into the queues of its partitions; false if one of them is closed, or full and the request is
    /// not the engine's own, or if there is no memory for the job.
    fn push(&self, partitions: &[u32], entrant: Entrant<P::Outcome>, own: bool) -> bool {
        let Entrant { rendezvous, job, mut heap_bytes, charge } = entrant;
        drop(charge);
        let queues: Vec<_> = partitions.iter().filter_map(|number| self.queues.get(*number as usize)).collect();
        let item = || Item::Meet(Arc::clone(&rendezvous), Arc::clone(&job), std::mem::take(&mut heap_bytes));
        Queue::push_to_all(&queues, own, item)
    }

    /// Makes partitions meet for a job as soon as no session's transaction owns one of them; returns false as
    /// [`Shared::push`] does.
    fn enter(&self, partitions: &[u32], mut entrant: Entrant<P::Outcome>, own: bool) -> bool {
        let locks = self.locks.read();
        if locks.is_free(partitions) {
            return self.push(partitions, entrant, own);
        }
        drop(locks);
        let mut locks = self.locks.write();
        if locks.is_free(partitions) {
            return self.push(partitions, entrant, own);
        }
        let full = |partition: &u32| locks.waiting_for(*partition) >= self.waiting_max;
        if locks.is_closed() || !own && partitions.iter().any(full) {
            return false;
        }
        if let Some(queue) = self.queues.first() {
            entrant.charge = Charge::new(queue.budget(), Working::Queues);
            let bytes = size_of::<Locks<Entrant<P::Outcome>>>() + entrant.heap_bytes;
            if own {
                entrant.charge.settle(bytes);
            } else if queue.budget().check_queued(bytes).is_err() || entrant.charge.resize_exactly(bytes).is_err() {
                return false;
            }
        }
        locks.wait(Locks { partitions: partitions.into(), session: None, what: entrant });
        true
    }

    /// Makes partitions meet for a session's transaction, which owns them from then on, as soon as it can have them. If
    /// it would close a cycle of waiting sessions, a rendezvous of the cycle ends with an error.
    pub fn enter_for(&self, asking: Asking, partitions: &[u32], rendezvous: &Arc<Rendezvous>) -> Result<()> {
        let (rendezvous, job) = (Arc::clone(rendezvous), Arc::default());
        let what = Entrant { rendezvous, job, heap_bytes: 0, charge: Charge::default() };
        let mut locks = self.locks.write();
        if locks.is_closed() {
            return Err(self.refusal());
        }
        match locks.ask(Locks { partitions: partitions.into(), session: Some(asking), what }, asking) {
            Asked::Entered(Locks { what, .. }) => {
                if self.push(partitions, what, true) {
                    Ok(())
                } else {
                    Err(self.refusal())
                }
            }
            Asked::Waits(victims) => {
                victims.iter().for_each(|request| request.what.rendezvous.cancel(deadlock()));
                Ok(())
            }
        }
    }

    /// Ends a session's ownership of the partition.
    pub fn release(&self, id: PartitionId) {
        let mut locks = self.locks.write();
        let entered = locks.release(id.0.into());
        self.push_all(entered);
    }

    /// Withdraws a rendezvous that its requester no longer waits for: it need not enter the queues.
    pub fn withdraw(&self, rendezvous: &Arc<Rendezvous>) {
        let mut locks = self.locks.write();
        let (withdrawn, entered) = locks.withdraw(|entrant| Arc::ptr_eq(&entrant.rendezvous, rendezvous));
        self.push_all(entered);
        drop(locks);
        // Dropped outside the lock, because dropping its job may do anything.
        drop(withdrawn);
    }

    /// Puts granted requests into the queues, under the lock under which they were granted.
    fn push_all(&self, entered: Vec<Locks<Entrant<P::Outcome>>>) {
        for Locks { partitions, what, .. } in entered {
            let rendezvous = Arc::clone(&what.rendezvous);
            if !self.push(&partitions, what, true) {
                rendezvous.cancel(self.refusal());
            }
        }
    }

    /// Wakes the partitions of a rendezvous once the turn of all has come, or it is over: those that wait for requests
    /// check it.
    pub fn nudge(&self, rendezvous: &Rendezvous) {
        let queues = rendezvous.partitions().iter().filter_map(|number| self.queues.get(*number as usize));
        queues.for_each(Queue::nudge);
    }

    /// Number of requests that wait for a partition.
    pub fn queued(&self, id: PartitionId) -> usize {
        let queued = self.queues.get(usize::from(id.0)).map_or(0, Queue::len);
        queued + self.locks.read().waiting_for(id.0.into())
    }

    /// All partitions.
    pub fn all(&self) -> Vec<u32> {
        (0..self.queues.len() as u32).collect()
    }

    /// Runs a job over these partitions in the returned rendezvous; if there is no room for it, drops the job.
    pub fn over(
        &self,
        partitions: &[u32],
        job: Job<P::Outcome>,
        heap_bytes: usize,
        admission: Admission,
    ) -> Option<Arc<Rendezvous>> {
        let purpose = if admission == Admission::Own { Purpose::Exclusive } else { Purpose::Request };
        let rendezvous = Arc::new(Rendezvous::new(partitions, purpose, self.clock.clone()));
        let entrant = Entrant {
            rendezvous: Arc::clone(&rendezvous),
            job: Arc::new(Mutex::new(Some(job))),
            heap_bytes,
            charge: Charge::default(),
        };
        self.enter(partitions, entrant, admission != Admission::New).then_some(rendezvous)
    }

    /// Runs a request again over the partitions it had and those it wants, or over all if it names none or keeps
    /// asking. It holds nothing meanwhile, so it blocks nobody.
    pub fn request_again(self: &Arc<Self>, request: Request<P>, had: &[Member], wanted: &[u32]) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        let had = had.iter().map(|member| u32::from(member.partition.id().0));
        let both: BTreeSet<u32> = had.chain(wanted.iter().copied()).collect();
        if wanted.is_empty() || both.len() > WIDENED_MAX {
            return self.request_over(&self.all(), request);
        }
        self.request_over(&both.into_iter().collect::<Vec<_>>(), request);
    }

    /// Runs a request over these partitions, given in ascending order.
    pub fn request_over(self: &Arc<Self>, partitions: &[u32], request: Request<P>) {
        self.request_over_fetched(partitions, Waiting::new(request, 0), Vec::new());
    }

    /// [`Shared::request_over`] for a transaction that has waited for these evicted rows.
    pub fn request_over_fetched(
        self: &Arc<Self>,
        partitions: &[u32],
        Waiting { request, waits, rest }: Waiting<P>,
        mut fetched: Vec<(PartitionId, Vec<FetchedRow>)>,
    ) {
        let rows_bytes: usize = fetched.iter().flat_map(|(_, rows)| rows).map(FetchedRow::bytes).sum();
        let heap_bytes = request.heap_bytes() + rows_bytes;
        let Request { program, arguments, ticket, interrupt } = request;
        // It is refused with a specific reason, so the ticket must survive the job.
        let ticket = Arc::new(Mutex::new(Some(ticket)));
        let inner = Arc::clone(&ticket);
        // The queues belong to the engine, and would keep it alive for ever.
        let (shared, clock, over) = (Arc::downgrade(self), self.clock.clone(), partitions.to_vec());
        let (waits_max, holds) = (self.waits_max, Arc::clone(&self.eviction_holds));
        let job: Job<P::Outcome> = Box::new(move |members, head, batch, results| {
            for member in members.iter_mut() {
                let has_waited = fetched.iter().any(|(id, rows)| *id == member.partition.id() && !rows.is_empty());
                member.partition.end_waits(has_waited.into());
            }
            if let Some(Err(stopped)) = interrupt.as_ref().map(|interrupt| interrupt.start()) {
                return Ok(inner.lock().take().and_then(|ticket| ticket.answer(Err(stopped))));
            }
            let (begun, has_waited) = (clock.now(), !fetched.is_empty());
            let back = fetched.drain(..).try_for_each(|(id, rows)| {
                let of = members.iter_mut().find(|member| member.partition.id() == id);
                of.map_or(Ok(()), |member| member.partition.bring_back_fetched(rows))
            });
            for member in members.iter().filter(|_| has_waited) {
                holds.add(member.partition.id(), begun);
            }
            if let Err(error) = back {
                members.iter_mut().for_each(|member| member.partition.unpin());
                return Ok(inner.lock().take().and_then(|ticket| ticket.answer(Err(error))));
            }
            if !rest.is_empty() {
                // All of them stay until it runs, also in partitions that have read theirs.
                members.iter_mut().for_each(|member| member.partition.unpin_for_now());
                let next = rest.iter().map(|(id, rest)| {
                    let of = members.iter_mut().find(|member| member.partition.id() == *id);
                    of.map(|member| Ok((*id, member.partition.wanted_next(rest)?))).transpose()
                });
                let next: Result<Vec<Option<(PartitionId, Wanted)>>> = next.collect();
                let (Some(ticket), Some(shared)) = (inner.lock().take(), shared.upgrade()) else { return Ok(None) };
                return match next {
                    Ok(next) => {
                        let request = Request { program, arguments, ticket, interrupt };
                        shared.fetch_over(over, next.into_iter().flatten().collect(), request, waits);
                        Ok(None)
                    }
                    Err(error) => Ok(ticket.answer(Err(error))),
                };
            }
            let begun = clock.now();
            let (of_call, given) = (&*program, &*arguments);
            let may_wait = waits < waits_max;
            let call = Call {
                head,
                program: of_call,
                arguments: given,
                interrupt: interrupt.as_ref(),
                may_wait,
                holds: Some(&holds),
            };
            let ran = executor::run_all(members, call, batch, Some(results));
            if let Some(interrupt) = &interrupt {
                interrupt.add_held(clock.since(begun));
            }
            let result = match ran {
                Ran::Done(Err(full @ Error::OutOfMemory(_))) => match shared.upgrade() {
                    Some(shared) if shared.may_have_room(members) => {
                        if let Some(ticket) = inner.lock().take() {
                            let request = Request { program, arguments, ticket, interrupt };
                            shared.request_after_room(&over, request, full);
                        }
                        return Ok(None);
                    }
                    _ => Err(full),
                },
                Ran::Done(result) => result,
                Ran::OtherPartition(wanted) => match shared.upgrade() {
                    Some(shared) if members.len() < shared.queues.len() => {
                        if let Some(ticket) = inner.lock().take() {
                            let request = Request { program, arguments, ticket, interrupt };
                            shared.request_again(request, members, &wanted);
                        }
                        return Ok(None);
                    }
                    _ => Err(Error::internal("a transaction over all partitions needs another one")),
                },
                Ran::Evicted => {
                    let wanted = members.iter_mut().map(|member| {
                        let wanted = member.partition.wanted()?;
                        Ok((member.partition.id(), wanted))
                    });
                    let (wanted, Some(ticket)) = (wanted.collect(), inner.lock().take()) else { return Ok(None) };
                    return match (wanted, shared.upgrade()) {
                        (Ok(wanted), Some(shared)) => {
                            let request = Request { program, arguments, ticket, interrupt };
                            let wanted: Vec<(PartitionId, Wanted)> = wanted;
                            let are_all = wanted.iter().all(|(_, wanted)| wanted.are_all);
                            shared.fetch_over(over, wanted, request, next_wait(waits, are_all));
                            Ok(None)
                        }
                        (Err(error), _) => Ok(ticket.answer(Err(error))),
                        (Ok(_), None) => Err(Error::internal("a transaction of an engine that is gone")),
                    };
                }
                Ran::Broken(error) => {
                    if let Some(ticket) = inner.lock().take() {
                        ticket.refuse(error.clone());
                    }
                    return Err(error);
                }
            };
            Ok(inner.lock().take().and_then(|ticket| ticket.answer(result)))
        });
        let admission = if waits > 0 { Admission::Again } else { Admission::New };
        if self.over(partitions, job, heap_bytes, admission).is_none()
            && let Some(ticket) = ticket.lock().take()
        {
            ticket.refuse(self.refusal());
        }
    }

    /// Reads rows for a transaction over several partitions, which has given them back.
    fn fetch_over(
        self: &Arc<Self>,
        over: Vec<u32>,
        wanted: Vec<(PartitionId, Wanted)>,
        request: Request<P>,
        waits: u32,
    ) {
        let (mut rows, mut left) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (id, Wanted { rows: now, rest, .. }) in wanted {
            rows.push((id, now));
            left.extend(rest_of(id, rest));
        }
        self.fetch(Reading::Over(over, rows, Waiting { request, waits, rest: left }));
    }

    /// A batch for the effects of a session's transaction.
    pub fn batch(&self, members: &[Member]) -> Batch {
        let batch = Batch::with_part_bytes(self.part_bytes);
        match budget_of(members) {
            Some(budget) => batch.charged(budget),
            None => batch,
        }
    }

    /// Why a queue accepts nothing.
    pub fn refusal(&self) -> Error {
        let broken = self.broken.lock().clone();
        broken.unwrap_or_else(|| Error::Retry("a partition's queue is full".into()))
    }
}

/// Error of a session's transaction in a cycle of waiting ones.
fn deadlock() -> Error {
    Class::Deadlock.error(
        "sessions' transactions wait for each other's partitions, and this one was rolled back; run it again, or make it \
         a procedure, which gets all its partitions at once",
    )
}
