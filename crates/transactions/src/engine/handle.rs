use std::sync::Arc;
use std::sync::mpsc;

use super::executor::with_log_head;
use super::program::Program;
use super::worker::{Item, Job, Shared, Visit};
use crate::error::{Error, Result};
use crate::ids::PartitionId;
use crate::log::Batch;
use crate::partition::{Digest, Head, Member};
use crate::schema::{Change, Schema};

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
        if !self.shared.over_all(job, true) {
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
        if !queue.push_own(Item::Visit(visit)) {
            return Err(self.shared.refusal());
        }
        receiver.recv().map_err(|_| self.shared.refusal())
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
}
