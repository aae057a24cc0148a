//! Execution of one transaction: its head, its changes, its record and its result.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_durability::log::{Batch, Effect, Head as LogHead};
use thermocline_machine::caught;
use thermocline_machine::ids::{Micros, PartitionId, TransactionId};
use thermocline_machine::interrupt::Interrupt;
use thermocline_tables::partition::{Digest, Head, Member, Participants, Scope};
use thermocline_tables::schema::Change;
use thermocline_tables::table::{Budget, Charge, HeapSize, Working, out_of_memory};
use thermocline_types::{Error, Result, Value};

use super::holds::EvictionHolds;
use super::mailbox::reply_bytes;
use super::program::Program;

/// One partition and the state that its thread needs to run transactions.
#[derive(Debug)]
pub struct Executor {
    /// The rows; `None` while a transaction over several partitions has them.
    pub member: Option<Member>,
    /// Records of finished transactions that the log has not been given.
    pub batch: Batch,
    heads: Heads,
}

/// Generator of transaction heads: ids that no other partition uses, and seeds.
#[derive(Debug)]
pub struct Heads {
    next: u64,
    stride: u64,
    seed: u64,
}

impl Heads {
    /// Ids `first`, `first + stride`, ...
    pub fn new(first: TransactionId, stride: u32, seed: u64) -> Self {
        Self { next: first.0, stride: u64::from(stride.max(1)), seed }
    }

    /// Head of the next transaction.
    pub fn next(&mut self, timestamp: Micros) -> Head {
        let id = TransactionId(self.next);
        self.next += self.stride;
        // SplitMix64.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Head { id, timestamp, seed: mixed ^ (mixed >> 31) }
    }
}

/// Outcome of running a transaction.
#[derive(Debug)]
pub enum Ran<O> {
    /// Finished; its changes are kept exactly if this is `Ok`.
    Done(Result<O>),
    /// It must run over these partitions as well, or over all if none is named; it has left no changes.
    OtherPartition(Box<[u32]>),
    /// It must run again when the evicted rows are back that its partition has noted; it has left no changes.
    Evicted,
    /// A bug: the partition cannot go on.
    Broken(Error),
}

impl Executor {
    /// A partition whose transactions get ids `first`, `first + stride`, ...
    pub fn new(member: Member, heads: Heads) -> Self {
        let batch = Batch::default().charged(member.partition.budget());
        Self { member: Some(member), batch, heads }
    }

    /// The head of the next transaction.
    pub fn head(&mut self, timestamp: Micros) -> Head {
        self.heads.next(timestamp)
    }

    /// Runs a transaction over this partition alone.
    pub fn run<P: Program + ?Sized>(&mut self, program: &P, arguments: &[Value], timestamp: Micros) -> Ran<P::Outcome> {
        self.run_interruptible(program, arguments, timestamp, (None, false, None), None)
    }

    /// [`Executor::run`] with an interrupt, and with a charge for the result. It may end as [`Ran::Evicted`] if it
    /// `may_wait` elsewhere for evicted rows; otherwise they are read here, and that is noted.
    pub(super) fn run_interruptible<P: Program + ?Sized>(
        &mut self,
        program: &P,
        arguments: &[Value],
        timestamp: Micros,
        (interrupt, may_wait, holds): (Option<&Arc<Interrupt>>, bool, Option<&EvictionHolds>),
        results: Option<&mut Charge>,
    ) -> Ran<P::Outcome> {
        if let Some(Err(stopped)) = interrupt.map(|interrupt| interrupt.start()) {
            return Ran::Done(Err(stopped));
        }
        let head = self.heads.next(timestamp);
        let Some(member) = &mut self.member else {
            return Ran::Broken(Error::internal("a transaction on a partition that another one has"));
        };
        let call = Call { head, program, arguments, interrupt, may_wait, holds };
        run_all(std::slice::from_mut(member), call, &mut self.batch, results)
    }
}

/// A transaction to be run, with its head and its interrupt; `None` if it cannot be stopped.
pub(super) struct Call<'a, P: ?Sized> {
    pub head: Head,
    pub program: &'a P,
    pub arguments: &'a [Value],
    pub interrupt: Option<&'a Arc<Interrupt>>,
    /// Whether it ends as [`Ran::Evicted`] where it needs evicted rows, which otherwise are read at once.
    pub may_wait: bool,
    /// Where it is noted for how long such reads, and eviction, hold the partitions; `None` in replay.
    pub holds: Option<&'a EvictionHolds>,
}

/// Runs a transaction over these partitions, keeps or undoes its changes, and appends its record to the batch. Charges
/// its result to `results`; without memory for it the transaction fails, which is impossible once its record is
/// written.
///
/// If it needs evicted rows, it is undone, and run again with the same head when they are back, unless it waits for
/// them elsewhere; if there is no memory for its changes, others are evicted.
pub(super) fn run_all<P: Program + ?Sized>(
    members: &mut [Member],
    call: Call<'_, P>,
    batch: &mut Batch,
    mut results: Option<&mut Charge>,
) -> Ran<P::Outcome> {
    let (mut stopped, mut others) = (Ok(()), 0);
    loop {
        let seen = evictions(members);
        let ran = match stopped {
            Ok(()) => run_once(members, &call, batch, results.as_deref_mut()),
            Err(error) => Ran::Done(Err(error)),
        };
        match &ran {
            Ran::Done(Err(Error::Evicted)) if call.may_wait => {
                members.iter_mut().for_each(|member| member.partition.unpin_for_now());
                return Ran::Evicted;
            }
            Ran::Done(Err(Error::Evicted)) => stopped = held(call.holds, members, bring_back),
            Ran::Done(Err(Error::OutOfMemory(_))) => match held(call.holds, members, make_room) {
                Ok(true) => stopped = Ok(()),
                // Another partition has made room since it was refused.
                Ok(false) if seen != evictions(members) && others < OTHERS_MAX => {
                    (stopped, others) = (Ok(()), others + 1);
                }
                Ok(false) => return over(members, ran),
                // It says why memory stays full.
                Err(error) => return over(members, Ran::Done(Err(error))),
            },
            _ => return over(members, ran),
        }
        if let Some(interrupt) = call.interrupt {
            stopped = stopped.and_then(|()| interrupt.check());
        }
    }
}

/// Does something to partitions, and notes for how long that holds them.
fn held<T>(holds: Option<&EvictionHolds>, members: &mut [Member], work: impl FnOnce(&mut [Member]) -> T) -> T {
    match holds {
        Some(holds) => holds.hold(members, work),
        None => work(members),
    }
}

/// The outcome of a transaction that is over.
fn over<O>(members: &mut [Member], ran: Ran<O>) -> Ran<O> {
    members.iter_mut().for_each(|member| member.partition.unpin());
    ran
}

/// Brings back the rows that their transaction has needed in these partitions.
pub(super) fn bring_back(members: &mut [Member]) -> Result<()> {
    members
        .iter_mut()
        .map(Member::split)
        .try_for_each(|(partition, transaction)| partition.bring_back_wanted(transaction))
}

/// Number of times that a transaction runs again for memory which other partitions have given back, so that one that
/// needs too much ends.
const OTHERS_MAX: u32 = 8;

fn evictions(members: &[Member]) -> u64 {
    budget_of(members).map_or(0, |budget| budget.evictions())
}

/// Gives back memory of the tables of these partitions, if it is that which is full and rows can be moved together or
/// evicted, as much as a refused request wants; says whether it did.
pub(super) fn make_room(members: &mut [Member]) -> Result<bool> {
    let count = members.len();
    for member in &mut *members {
        let (partition, mut made) = (&mut member.partition, false);
        while partition.budget().pressure() > 0
            && (!made || partition.budget().lacks_wanted())
            && partition.make_room()?
        {
            made = true;
        }
        if made {
            return Ok(true);
        }
    }
    if let Some(member) = members.first().filter(|member| member.partition.count() as usize == count) {
        // No row can go.
        member.partition.budget().forget_wanted();
    }
    Ok(false)
}

/// [`make_room`] for a transaction in progress, whose changes stay in memory.
pub(super) fn make_room_beside(members: &mut [Member]) -> Result<bool> {
    for (partition, transaction) in members.iter_mut().map(Member::split) {
        partition.pin_changed(transaction)?;
    }
    make_room(members)
}

/// Applies a change of the schema in one of these partitions, evicting rows in all of them where it finds no memory.
///
/// # Errors
/// As of [`Partition::define_unless`](thermocline_tables::partition::Partition::define_unless).
pub(super) fn define(
    members: &mut [Member],
    number: usize,
    change: &Change,
    stopped: &dyn Fn() -> Result<()>,
) -> Result<()> {
    loop {
        let Some(member) = members.get_mut(number) else { return Ok(()) };
        match member.partition.define_unless(change, stopped) {
            Err(Error::OutOfMemory(why)) => {
                // Those of this partition had their turn.
                let others = members.iter_mut().enumerate().filter(|(other, _)| *other != number);
                let mut others = others.map(|(_, member)| std::slice::from_mut(member));
                if !others.try_fold(false, |made, other| Ok::<_, Error>(made || make_room(other)?))? {
                    return Err(Error::OutOfMemory(why));
                }
            }
            done => return done,
        }
    }
}

fn run_once<P: Program + ?Sized>(
    members: &mut [Member],
    &Call { head, program, arguments, interrupt, .. }: &Call<'_, P>,
    batch: &mut Batch,
    mut results: Option<&mut Charge>,
) -> Ran<P::Outcome> {
    let before = batch.mark();
    let ran = caught(format_args!("transaction {}", head.id.0), || {
        begin(members, head);
        let result = program.run(&mut Scope::with_interrupt(members, interrupt), arguments);
        let result = result.and_then(|outcome| {
            if let Some(results) = &mut results {
                let (bytes, charged) = (reply_bytes(Ok(&outcome)), outcome.charged_bytes());
                let room = results.grow(bytes.saturating_sub(charged));
                room.map_err(|full| out_of_memory("results that wait for the log", full))?;
                results.include(charged);
            }
            if members.iter().any(|member| !member.transaction.is_read_only()) {
                with_log_head(members, head, Member::digest(members), |log_head| {
                    program.record(batch, log_head, arguments)
                })?;
            }
            Ok(outcome)
        });
        match result {
            Ok(outcome) => {
                commit(members);
                Ran::Done(Ok(outcome))
            }
            Err(error) => match (abort(members), error) {
                (Err(broken), _) => Ran::Broken(broken),
                (Ok(()), Error::OtherPartition(wanted)) => Ran::OtherPartition(wanted),
                (Ok(()), error) => {
                    if let Some(results) = results.as_mut().filter(|_| error != Error::Evicted) {
                        // An error is small, and its charge cannot be refused.
                        results.settle(reply_bytes::<P::Outcome>(Err(&error)));
                    }
                    Ran::Done(Err(error))
                }
            },
        }
    });
    ran.unwrap_or_else(|panic| {
        // Its records must not reach the log; earlier ones may.
        batch.rewind(before);
        Ran::Broken(panic)
    })
}

/// Starts a transaction in these partitions.
pub(crate) fn begin(members: &mut [Member], head: Head) {
    members.iter_mut().for_each(|member| member.begin(head));
}

/// Calls `write` with the head of a record.
pub(super) fn with_log_head<T>(
    members: &[Member],
    head: Head,
    digest: Digest,
    write: impl FnOnce(&LogHead<'_>) -> T,
) -> T {
    let of = |partitions: &[PartitionId]| {
        let Head { id: transaction, timestamp, seed } = head;
        write(&LogHead { transaction, timestamp, seed, digest: digest.bits(), partitions })
    };
    match members {
        [only] => of(&[only.partition.id()]),
        members if members.first().is_some_and(|member| member.partition.count() as usize == members.len()) => of(&[]),
        members => of(&members.iter().map(|member| member.partition.id()).collect::<Vec<_>>()),
    }
}

/// Bytes remembered for each change, so that each row is logged once.
const SEEN_BYTES: usize = 24;

/// The budget shared by the partitions.
pub(super) fn budget_of(members: &[Member]) -> Option<&Arc<Budget>> {
    members.first().map(|member| member.partition.budget())
}

/// Logs the rows that the transaction changed, if any, because it cannot be run again.
pub(crate) fn log_effects(members: &[Member], batch: &mut Batch) -> Result<()> {
    let Some(head) = members.first().map(|member| member.transaction.head) else {
        return Err(Error::internal("a transaction without a partition"));
    };
    let changes: usize = members.iter().map(|member| member.transaction.undo.len()).sum();
    let mut charge = budget_of(members).map(|budget| Charge::new(budget, Working::Log)).unwrap_or_default();
    let room = charge.resize(changes.saturating_mul(size_of::<Effect<'_>>() + SEEN_BYTES));
    room.map_err(|full| out_of_memory("a transaction's effects", full))?;
    let mut effects = Vec::with_capacity(changes);
    for member in members {
        for effect in member.partition.effects(&member.transaction) {
            let (table, tuple, image) = effect?;
            effects.push(Effect { partition: member.partition.id(), table, tuple, image });
        }
    }
    if effects.is_empty() {
        return Ok(());
    }
    with_log_head(members, head, Member::digest(members), |head| batch.effects(head, effects))
}

/// Keeps the transaction's changes in all its partitions.
pub(crate) fn commit(members: &mut [Member]) {
    let is_logged = members.iter().any(|member| !member.transaction.is_read_only());
    for member in members {
        let (partition, transaction) = member.split();
        partition.count_read_in_place(is_logged);
        partition.commit(transaction);
    }
}

/// Undoes the transaction in all its partitions.
pub(crate) fn abort(members: &mut [Member]) -> Result<()> {
    members.iter_mut().try_for_each(|member| {
        let (partition, transaction) = member.split();
        partition.abort(transaction)
    })
}

/// The partitions of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    One(u32),
    /// At least two, ascending.
    Several(Vec<u32>),
}

impl Target {
    /// The participants among `count` partitions; `any` is used where every partition will do.
    pub fn of(participants: &Participants, count: u32, any: u32) -> Self {
        match participants {
            Participants::One(hash) => Self::One(hash.partition(count)),
            Participants::Any => Self::One(any % count.max(1)),
            Participants::All => Self::among((0..count).collect()),
            Participants::Several(hashes) => {
                let numbers: BTreeSet<u32> = hashes.iter().map(|hash| hash.partition(count)).collect();
                Self::among(numbers.into_iter().collect())
            }
        }
    }

    fn among(numbers: Vec<u32>) -> Self {
        match *numbers {
            [] => Self::One(0),
            [only] => Self::One(only),
            _ => Self::Several(numbers),
        }
    }
}
