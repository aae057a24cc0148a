use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::executor::with_log_head;
use super::program::Program;
use super::worker::{Item, Job, Shared, Visit};
use crate::error::{Error, Result};
use crate::ids::PartitionId;
use crate::interrupt::Interrupt;
use crate::log::Batch;
use crate::partition::{Digest, Head, Member};
use crate::schema::{Change, Schema};

/// How often somebody who waits for a visit looks whether he was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Access to partitions for what is neither a client nor a session: definitions, snapshots, readers of
/// whole tables. What it asks for also enters full queues, because there is little of it and clients'
/// requests could keep it out for ever. Cloning gives another one.
pub struct Handle<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
}

impl<P: Program + ?Sized> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<P: Program + ?Sized> Handle<P> {
    pub(super) fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.shared.queues.len()
    }

    /// Has something done at one place in the order of all transactions, while no other one runs, and
    /// waits until that is durable. What it appends to the batch is logged there.
    pub fn exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.exclusively_or_broken(None, |members, head, batch| Ok(work(members, head, batch)))
    }

    /// The same, which can be stopped before it begins.
    pub fn exclusively_interruptible<T: Send + 'static>(
        &self,
        interrupt: &Arc<Interrupt>,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.exclusively_or_broken(Some(interrupt), |members, head, batch| Ok(work(members, head, batch)))
    }

    /// The same, which can be stopped before it begins; an outer error of `work` is a bug after which nothing
    /// can go on.
    fn exclusively_or_broken<T: Send + 'static>(
        &self,
        interrupt: Option<&Arc<Interrupt>>,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let started = interrupt.map(Arc::clone);
        let job: Job<P::Outcome> = Box::new(move |members, head, batch, _| {
            let result = match started.map_or(Ok(()), |interrupt| interrupt.start()) {
                Ok(()) => work(members, head, batch)?,
                Err(stopped) => Err(stopped),
            };
            if result.is_err() {
                batch.clear();
            }
            // Whoever does not wait any more need not know.
            let _ = sender.send(result);
            Ok(None)
        });
        let meeting = self.shared.over(&self.shared.all(), job, 0, true).ok_or_else(|| self.shared.refusal())?;
        let interrupt = interrupt.map(|interrupt| &**interrupt);
        let withdrawn = || interrupt.map_or_else(|| self.shared.refusal(), Interrupt::error);
        // The end of the meeting and not that of the work, because the record goes into the log in between.
        let sequence = meeting.wait(interrupt)?.ok_or_else(withdrawn)?;
        let result = receiver.try_recv().map_err(|_| self.shared.refusal())??;
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
        self.start_visit(partition, work)?.recv().map_err(|_| self.shared.refusal())
    }

    /// The same, for who stops waiting when stopped. It may be done later all the same.
    pub fn visit_interruptible<T: Send + 'static>(
        &self,
        partition: PartitionId,
        interrupt: &Interrupt,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.start_visit(partition, work)?;
        loop {
            match done.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => interrupt.check()?,
                done => return done.map_err(|_| self.shared.refusal()),
            }
        }
    }

    fn start_visit<T: Send + 'static>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<mpsc::Receiver<T>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let visit: Visit = Box::new(move |member| drop(sender.send(work(member))));
        let queue = self.shared.queues.get(partition.0 as usize);
        let queue = queue.ok_or_else(|| Error::internal(format_args!("there is no partition {}", partition.0)))?;
        if !queue.push_own(Item::Visit(visit)) {
            return Err(self.shared.refusal());
        }
        Ok(receiver)
    }

    /// Makes a change of the schema in all partitions or in none, at a place of its own in the log.
    /// `before` is the schema that it changes; `defined` is called when all partitions have changed and
    /// before anything else runs in them. It can be stopped before it begins.
    pub fn define(
        &self,
        sql: &str,
        change: Change,
        before: Schema,
        interrupt: Option<&Arc<Interrupt>>,
        defined: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let sql = sql.to_owned();
        self.exclusively_or_broken(interrupt, move |members, head, batch| {
            if let Err(error) = with_log_head(members, head, Digest::EMPTY, |head| batch.definition(head, &sql)) {
                return Ok(Err(error));
            }
            for number in 0..members.len() {
                let Some(member) = members.get_mut(number) else { continue };
                if let Err(error) = member.partition.define(&change) {
                    // Partitions with different schemas: nothing can go on with these.
                    members
                        .iter_mut()
                        .take(number)
                        .try_for_each(|member| member.partition.undefine(&change, &before))?;
                    return Ok(Err(error));
                }
            }
            defined();
            Ok(Ok(()))
        })
    }
}
