use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::client::Client;
use super::executor::{Executor, Heads, with_log_head};
use super::interactive::Interactive;
use super::program::{Journal, Program, Route};
use super::queue::Queue;
use super::releases::Releases;
use super::worker::{Item, Job, Shared, Visit, Worker};
use crate::error::{Error, Result};
use crate::ids::{Micros, PartitionId, TransactionId};
use crate::log::Batch;
use crate::partition::{Digest, Head, Member};
use crate::schema::{Change, Schema};

/// How an engine runs.
pub struct Options {
    /// Requests that wait for a partition at most; more are refused with 40001.
    pub queue_length: usize,
    /// How long a session may do nothing while its transaction has partitions.
    pub idle_max: Duration,
    /// The first id that no transaction has had.
    pub first_transaction: TransactionId,
    /// What random numbers of transactions come from.
    pub seed: u64,
    /// The time.
    pub clock: Box<dyn Fn() -> Micros + Send + Sync>,
}

/// The threads of all partitions.
pub struct Engine<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    threads: Vec<JoinHandle<Option<Member>>>,
    idle_max: Duration,
}

impl<P: Program + ?Sized> Engine<P> {
    /// Starts a thread for each partition; these are in the order of their numbers and all there are.
    /// `releases` is told by the journal's thread what is durable.
    pub fn start(
        options: Options,
        members: Vec<Member>,
        journal: Arc<dyn Journal>,
        releases: Arc<Releases<P::Outcome>>,
    ) -> Result<Self> {
        let count = members.len() as u32;
        let in_order = members
            .iter()
            .zip(0..)
            .all(|(member, number)| u32::from(member.partition.id().0) == number && member.partition.count() == count);
        if count == 0 || !in_order {
            return Err(Error::internal("the partitions of an engine are not all partitions in order"));
        }
        let Options { queue_length, idle_max, first_transaction, seed, clock } = options;
        let queues = members.iter().map(|_| Queue::new(queue_length)).collect();
        let shared = Arc::new(Shared {
            queues,
            journal,
            releases,
            clock,
            broken: Mutex::new(None),
            restarts: AtomicU64::new(0),
        });
        let mut engine = Self { shared, threads: Vec::new(), idle_max };
        for (number, member) in members.into_iter().enumerate() {
            let number_bits = number as u64;
            let first = TransactionId(first_transaction.0 + number_bits);
            let heads = Heads::new(first, count, seed ^ number_bits.wrapping_mul(0xd6e8_feb8_6659_fd93));
            let worker = Worker::new(Arc::clone(&engine.shared), number, Executor::new(member, heads));
            let thread = std::thread::Builder::new().name(format!("partition {number}")).spawn(move || worker.run());
            engine.threads.push(thread.map_err(|error| Error::Io(format!("cannot start a thread: {error}").into()))?);
        }
        Ok(engine)
    }

    /// Somebody who has transactions run.
    pub fn client(&self) -> Client<P> {
        Client::new(Arc::clone(&self.shared))
    }

    /// How many transactions were begun on one partition, needed rows of another and ran again over all.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// Begins a transaction that a session leads statement by statement, over the partitions of this route.
    pub fn begin(&self, route: Route) -> Result<Interactive<P>> {
        Interactive::begin(Arc::clone(&self.shared), route, self.idle_max)
    }

    /// Has something done at one place in the order of all transactions, while no other one runs, and
    /// waits until that is durable. What it appends to the batch is logged there.
    pub fn exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job: Job<P::Outcome> = Box::new(move |members, head, batch| {
            let result = work(members, head, batch);
            if result.is_err() {
                batch.clear();
            }
            // Whoever does not wait any more need not know.
            let _ = sender.send(result);
            Ok(None)
        });
        if !self.shared.over_all(job) {
            return Err(self.shared.refusal());
        }
        let result = receiver.recv().map_err(|_| self.shared.refusal())??;
        // Behind the record, because threads go on only when that is in the log.
        let sequence = self.shared.journal.append(&mut Batch::default())?;
        self.shared.releases.wait(sequence)?;
        Ok(result)
    }

    /// Has something done in one partition between two of its transactions, such as a step of a snapshot,
    /// and waits for it. It changes no row: nothing of it is logged.
    pub fn visit<T: Send + 'static>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let visit: Visit = Box::new(move |member| drop(sender.send(work(member))));
        let queue = self.shared.queues.get(partition.0 as usize);
        let queue = queue.ok_or_else(|| Error::internal(format_args!("there is no partition {}", partition.0)))?;
        if queue.push([Item::Visit(visit)]).next().is_some() {
            return Err(self.shared.refusal());
        }
        receiver.recv().map_err(|_| self.shared.refusal())
    }

    /// Requests that wait for a partition.
    pub fn queued(&self, partition: PartitionId) -> usize {
        self.shared.queues.get(partition.0 as usize).map_or(0, Queue::len)
    }

    /// Makes a change of the schema in all partitions or in none, at a place of its own in the log.
    /// `before` is the schema that it changes; `defined` is called when all partitions have changed and
    /// before anything else runs in them.
    pub fn define(
        &self,
        sql: &str,
        change: Change,
        before: Schema,
        defined: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let sql = sql.to_owned();
        self.exclusively(move |members, head, batch| {
            with_log_head(members, head, Digest::EMPTY, |head| batch.definition(head, &sql))?;
            for number in 0..members.len() {
                let Some(member) = members.get_mut(number) else { continue };
                if let Err(error) = member.partition.define(&change) {
                    members
                        .iter_mut()
                        .take(number)
                        .try_for_each(|member| member.partition.undefine(&change, &before))?;
                    return Err(error);
                }
            }
            defined();
            Ok(())
        })
    }

    /// Runs what has been asked for, then gives back the partitions; fewer than there were if a bug or
    /// the log has stopped the engine.
    pub fn stop(mut self) -> Vec<Member> {
        self.join()
    }

    fn join(&mut self) -> Vec<Member> {
        self.shared.queues.iter().for_each(Queue::close);
        self.threads.drain(..).filter_map(|thread| thread.join().ok().flatten()).collect()
    }
}

impl<P: Program + ?Sized> Drop for Engine<P> {
    fn drop(&mut self) {
        self.join();
    }
}
