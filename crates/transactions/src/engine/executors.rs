//! Start and end of the partitions' threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::RwLock;
use thermocline_durability::log::PART_BYTES;
use thermocline_machine::ids::{Micros, PartitionId, TransactionId};
use thermocline_machine::interrupt::Interrupt;
use thermocline_machine::{self as machine, Clock};
use thermocline_tables::partition::{Member, Participants};
use thermocline_types::{Error, Result};

use super::client::Client;
use super::commit_waiters::CommitWaiters;
use super::executor::{Executor, Heads};
use super::fetcher::Fetcher;
use super::fetches::Fetches;
use super::handle::Handle;
use super::holds::{EvictionHolds, HoldTimes, Holds};
use super::interactive::{Begin, Interactive};
use super::lock_table::LockTable;
use super::program::{Journal, Program};
use super::queue::Queue;
use super::shared::Shared;
use super::worker::Worker;

/// Options of [`Executors`].
pub struct Options {
    /// Maximum requests that wait for a partition; more are refused with 40001.
    pub queue_length: usize,
    /// Bytes of a partition's results that may wait for the log. A partition with more runs nothing until some were
    /// delivered.
    pub results_bytes_max: usize,
    /// Longest idle time of a session while its transaction has partitions.
    pub idle_max: Duration,
    /// First unused transaction id.
    pub first_transaction: TransactionId,
    /// Seed of transactions' random numbers.
    pub seed: u64,
    /// Times that a transaction is undone for evicted rows before it reads them where it runs, as
    /// [`WAITS_MAX`](super::WAITS_MAX); 0 to read them there at once.
    pub waits_max: u32,
    /// The time.
    pub clock: Box<dyn Fn() -> Micros + Send + Sync>,
}

/// Threads that read evicted rows: as many reads as a disk does well at once.
const FETCHERS: usize = 16;
/// Their number where the disk reads rows side by side: for blocks whose rows move, and for fetches of rows that are all
/// in memory.
const FETCHERS_BESIDE: usize = 2;

/// The threads of all partitions, and those that read evicted rows.
pub struct Executors<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    threads: Vec<JoinHandle<Option<Member>>>,
    fetchers: Vec<JoinHandle<()>>,
    idle_max: Duration,
}

impl<P: Program + ?Sized> Executors<P> {
    /// Starts a thread for each partition; `members` are all of them in order. The journal's thread tells
    /// `commit_waiters` what is durable.
    pub fn start(
        options: Options,
        members: Vec<Member>,
        journal: Arc<dyn Journal>,
        commit_waiters: Arc<CommitWaiters<P::Outcome>>,
    ) -> Result<Self> {
        let idle_max = options.idle_max;
        let is_asynchronous =
            |member: &Member| member.partition.blocks().is_some_and(|blocks| blocks.statistics().is_asynchronous);
        let fetchers = if members.iter().all(is_asynchronous) { FETCHERS_BESIDE } else { FETCHERS };
        let (shared, workers) = assemble(options, Tuning::default(), members, journal, commit_waiters)?;
        let mut engine = Self { shared, threads: Vec::new(), fetchers: Vec::new(), idle_max };
        let failed = |error: std::io::Error| Error::Io(format!("cannot start a thread: {error}").into());
        for number in 0..fetchers {
            let (mut fetcher, clock) = (Fetcher::new(Arc::clone(&engine.shared)), engine.shared.clock.clone());
            let thread = std::thread::Builder::new().name(format!("fetcher {number}"));
            let thread = thread.spawn(move || machine::run(&mut fetcher, &clock));
            engine.fetchers.push(thread.map_err(failed)?);
        }
        for (number, mut worker) in workers.into_iter().enumerate() {
            let clock = engine.shared.clock.clone();
            let thread = std::thread::Builder::new().name(format!("partition {number}"));
            let thread = thread.spawn(move || machine::run(&mut worker, &clock));
            engine.threads.push(thread.map_err(failed)?);
        }
        Ok(engine)
    }

    /// A client of the executors.
    pub fn client(&self) -> Client<P> {
        Client::new(Arc::clone(&self.shared))
    }

    /// Number of transactions and statements that ran again because they needed a partition that they did not have.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// Begins a transaction of a session with these participants; its statements get further partitions as they need
    /// them. Waiting for partitions can be interrupted. The session may be idle between two statements for as long as
    /// the options allow.
    pub fn begin(&self, participants: &Participants, interrupt: Option<&Arc<Interrupt>>) -> Result<Interactive<P>> {
        self.begin_with(participants, self.idle_max, interrupt)
    }

    /// [`Executors::begin`] with another idle timeout.
    pub fn begin_with(
        &self,
        participants: &Participants,
        idle_max: Duration,
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Result<Interactive<P>> {
        let mut begin = Begin::new(Arc::clone(&self.shared), participants, idle_max, interrupt)?;
        machine::run(&mut begin, &self.shared.clock)
    }

    /// Requests that wait for a partition.
    pub fn queued(&self, partition: PartitionId) -> usize {
        self.shared.queued(partition)
    }

    /// Statistics of the time for which a partition was held.
    pub fn held(&self, partition: PartitionId) -> HoldTimes {
        self.shared.holds.get(partition.0 as usize).map(Holds::times).unwrap_or_default()
    }

    /// Times for which eviction, and bringing rows back, held a partition, with reads for which the partition waits
    /// itself.
    pub fn held_by_eviction(&self, partition: PartitionId) -> HoldTimes {
        self.shared.eviction_holds.times(partition)
    }

    /// Handle for callers that are neither clients nor sessions.
    pub fn handle(&self) -> Handle<P> {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Runs all queued requests, then returns the partitions; fewer if a bug or the log has stopped the executors.
    pub fn stop(mut self) -> Vec<Member> {
        self.join()
    }

    fn join(&mut self) -> Vec<Member> {
        self.shared.stop(Error::Cancelled("the database is closed".into()));
        let members = self.threads.drain(..).filter_map(|thread| thread.join().ok().flatten()).collect();
        // Transactions that wait for rows are refused, as all that have not run.
        self.shared.fetches.close();
        self.fetchers.drain(..).for_each(|thread| drop(thread.join()));
        self.shared.fetches.wait_for_started();
        members
    }
}

impl<P: Program + ?Sized> Drop for Executors<P> {
    fn drop(&mut self) {
        self.join();
    }
}

/// Parameters that only simulations set.
pub struct Tuning {
    /// Clock of timeouts.
    pub clock: Clock,
    /// Requests that a partition takes from its queue at once.
    pub batch_items: usize,
    /// Bytes of a session's changes after which another record begins.
    pub part_bytes: usize,
    /// Rows that one step of CREATE INDEX or ADD COLUMN processes.
    pub build_rows: u32,
}

/// Keeps one build step below a few milliseconds.
const BUILD_ROWS: u32 = 2048;

impl Default for Tuning {
    fn default() -> Self {
        Self { clock: Clock::real(), batch_items: 128, part_bytes: PART_BYTES, build_rows: BUILD_ROWS }
    }
}

/// State that partitions share, and a worker for each.
pub(crate) type Assembled<P> = (Arc<Shared<P>>, Vec<Worker<P>>);

/// State that partitions share, and each partition's worker, all before their first steps.
pub fn assemble<P: Program + ?Sized>(
    options: Options,
    tuning: Tuning,
    members: Vec<Member>,
    journal: Arc<dyn Journal>,
    commit_waiters: Arc<CommitWaiters<P::Outcome>>,
) -> Result<Assembled<P>> {
    let count = members.len() as u32;
    let in_order = members
        .iter()
        .zip(0..)
        .all(|(member, number)| u32::from(member.partition.id().0) == number && member.partition.count() == count);
    if count == 0 || !in_order {
        return Err(Error::internal("the partitions of an engine are not all partitions in order"));
    }
    let Options { queue_length, results_bytes_max, first_transaction, seed, waits_max, clock: timestamps, .. } =
        options;
    let queues = members.iter().map(|member| Queue::new(queue_length, Arc::clone(member.partition.budget()))).collect();
    let holds = members.iter().map(|_| Holds::default()).collect();
    let locks = RwLock::new(LockTable::new(members.len()));
    let (broken, restarts) = (Arc::default(), AtomicU64::new(0));
    let Tuning { clock, batch_items, part_bytes, build_rows } = tuning;
    let eviction_holds = Arc::new(EvictionHolds::new(clock.clone(), members.len()));
    let shared = Arc::new(Shared {
        queues,
        fetches: Fetches::default(),
        journal,
        commit_waiters,
        timestamps,
        clock,
        results_bytes_max,
        part_bytes,
        build_rows,
        waits_max,
        broken,
        restarts,
        holds,
        eviction_holds,
        no_room_at: AtomicU64::new(u64::MAX),
        locks,
        waiting_max: queue_length,
        sessions: AtomicU64::new(0),
    });
    let workers = (0_u64..).zip(members).map(|(number, member)| {
        let first = TransactionId(first_transaction.0 + number);
        let heads = Heads::new(first, count, seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Worker::new(Arc::clone(&shared), member.partition.id(), Executor::new(member, heads), batch_items)
    });
    let workers = workers.collect();
    Ok((shared, workers))
}
