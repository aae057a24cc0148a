//! Requests of definitions, snapshots and readers to partitions.

use std::sync::Arc;
use std::time::Duration;

use thermocline_durability::log::{Batch, LoadOutcome};
use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{self as machine, Clock, Receiver, Sender, Step, run_steps, slot};
use thermocline_tables::partition::{Digest, Head, Member};
use thermocline_tables::schema::{Change, Schema, TableDefinition, TableId};
use thermocline_tables::table::{Build, Replaced, TableLoad};
use thermocline_types::{Error, Result};

use super::exclusive::Exclusive;
use super::executor::{self, with_log_head};
use super::filling::Filling;
use super::program::Program;
use super::shared::{Item, Shared, Visit};

/// Access to partitions for callers that are neither clients nor sessions: definitions, snapshots, readers of whole
/// tables. Their requests are few and enter even full queues, because clients' requests could keep them out for ever.
/// Clones share the engine.
pub struct Handle<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
}

impl<P: Program + ?Sized> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<P: Program + ?Sized> Handle<P> {
    /// A handle of an engine.
    pub fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }

    /// Clock of timeouts.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.shared.queues.len()
    }

    /// Runs `work` at one point in the transaction order, with all partitions held. Completes when what it logged is
    /// durable.
    pub(crate) fn start_exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<T> + Send + 'static,
    ) -> Result<Exclusive<P, T>> {
        Exclusive::new(&self.shared, None, |members, head, batch| Ok(work(members, head, batch)))
    }

    /// Runs `work` at one point in the transaction order, with all partitions held, and waits until what it logged is
    /// durable. An interrupt cancels it until it starts.
    pub fn exclusively_interruptible<T: Send + 'static>(
        &self,
        interrupt: &Arc<Interrupt>,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = |members: &mut [Member], head, batch: &mut Batch| Ok(work(members, head, batch));
        machine::run(&mut Exclusive::new(&self.shared, Some(interrupt), work)?, &self.shared.clock)
    }

    /// Runs `work` in one partition between two transactions, such as a step of a snapshot, and waits for the result.
    /// `work` must not change rows: nothing is logged.
    pub fn visit<T: Send + 'static>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.start_visit(partition, work)?;
        run_steps(&self.shared.clock, || done.receive()).ok_or_else(|| self.shared.refusal())
    }

    /// Like [`Handle::visit`], but an interrupt ends the wait. The work may still run later.
    pub fn visit_interruptible<T: Send + 'static>(
        &self,
        partition: PartitionId,
        interrupt: &Interrupt,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.start_visit(partition, work)?;
        let clock = &self.shared.clock;
        run_steps(clock, || match (done.receive(), interrupt.check()) {
            (Step::Wait(_), Err(stopped)) => Step::Over(Err(stopped)),
            (Step::Wait(wait), Ok(())) => Step::Wait(wait.until(clock.after(POLL_INTERVAL))),
            (Step::Over(done), _) => Step::Over(done.ok_or_else(|| self.shared.refusal())),
            (Step::Go, _) => Step::Go,
        })
    }

    /// Queues `work` for a partition; the caller polls the receiver.
    pub fn start_visit<T: Send + 'static>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<Receiver<T>> {
        self.start_visit_in(slot(), partition, work)
    }

    /// [`Handle::start_visit`] with the slot for the result.
    pub(super) fn start_visit_in<T: Send + 'static>(
        &self,
        (sender, receiver): (Sender<T>, Receiver<T>),
        partition: PartitionId,
        work: impl FnOnce(&mut Member) -> T + Send + 'static,
    ) -> Result<Receiver<T>> {
        let visit: Visit = Box::new(move |member| sender.send(work(member)));
        let queue = self.shared.queues.get(partition.0 as usize);
        let queue = queue.ok_or_else(|| Error::internal(format_args!("there is no partition {}", partition.0)))?;
        if !queue.push_own(Item::Visit(visit)) {
            return Err(self.shared.refusal());
        }
        Ok(receiver)
    }

    /// Has partitions that have nothing to do notice that the memory limit or requests for memory have changed.
    pub(crate) fn notify(&self) {
        for partition in self.ids() {
            // A stopped engine has nothing to evict.
            let _visit = self.start_visit(partition, |_| ());
        }
    }

    /// Has each partition give back memory of its tables, for a caller outside of them; says whether one did. Waits
    /// for so long at most: a partition may be held by the transaction of a session that waits for memory itself.
    pub(crate) fn make_room(&self, wait: Duration) -> bool {
        let clock = &self.shared.clock;
        let until = clock.after(wait);
        let room = |member: &mut Member| executor::make_room(std::slice::from_mut(member)).unwrap_or(false);
        let mut asked: Vec<_> = self.ids().filter_map(|id| self.start_visit(id, room).ok()).collect();
        run_steps(clock, || {
            let (mut made, mut next) = (false, None);
            asked.retain(|visit| match visit.receive() {
                Step::Over(done) => {
                    made |= done.unwrap_or(false);
                    false
                }
                Step::Wait(wait) => {
                    next = Some(wait);
                    true
                }
                Step::Go => true,
            });
            match next {
                // One is enough, whoever holds the others.
                _ if made || asked.is_empty() => Step::Over(made),
                Some(_) if clock.now() >= until => Step::Over(false),
                Some(wait) => Step::Wait(wait.until(until.min(clock.after(POLL_INTERVAL)))),
                None => Step::Go,
            }
        })
    }

    fn ids(&self) -> impl Iterator<Item = PartitionId> {
        (0..self.partitions()).filter_map(|number| u16::try_from(number).ok()).map(PartitionId)
    }

    /// Why the engine runs nothing more.
    pub(super) fn refusal(&self) -> Error {
        self.shared.refusal()
    }

    /// The id and time of a load, at one point in the transaction order. It can be interrupted before it begins.
    pub(crate) fn start_head(&self, interrupt: &Arc<Interrupt>) -> Result<Exclusive<P, Head>> {
        Exclusive::new(&self.shared, Some(interrupt), |_, head, _| Ok(Ok(head)))
    }

    /// Removes up to `rows` rows of a load from each partition; the result is their number.
    pub(crate) fn start_take_back(&self, load: TableLoad, rows: u32) -> Result<Exclusive<P, u32>> {
        Exclusive::new(&self.shared, None, move |members, head, batch| {
            if let Err(error) = with_log_head(members, head, Digest::EMPTY, |head| batch.take_back(head, load, rows)) {
                return Ok(Err(error));
            }
            let taken = members.iter_mut().map(|member| member.partition.take_back(load, rows));
            taken.sum::<Result<u32>>().map(Ok)
        })
    }

    /// Ends a load and keeps its rows, which become visible in all partitions at once. It can be interrupted before it
    /// begins.
    pub(crate) fn start_keep_load(&self, load: TableLoad, interrupt: &Arc<Interrupt>) -> Result<Exclusive<P, ()>> {
        self.start_end_load(load, LoadOutcome::Kept, Some(interrupt))
    }

    /// Ends a load whose rows have been taken back.
    pub(crate) fn start_forget_load(&self, load: TableLoad) -> Result<Exclusive<P, ()>> {
        self.start_end_load(load, LoadOutcome::TakenBack, None)
    }

    fn start_end_load(
        &self,
        load: TableLoad,
        outcome: LoadOutcome,
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Result<Exclusive<P, ()>> {
        Exclusive::new(&self.shared, interrupt, move |members, head, batch| {
            if let Err(error) = with_log_head(members, head, Digest::EMPTY, |head| batch.load_end(head, load, outcome))
            {
                return Ok(Err(error));
            }
            members.iter_mut().try_for_each(|member| member.partition.end_load(load)).map(Ok)
        })
    }

    /// Changes the schema in all partitions or in none, at one place in the log. `before` is the old schema; `defined`
    /// is called when all partitions have changed and before anything else runs in them. It can be interrupted before
    /// it begins, and while it reads rows.
    pub fn define(
        &self,
        sql: &str,
        change: Change,
        before: Schema,
        interrupt: Option<&Arc<Interrupt>>,
        defined: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let mut exclusive = self.start_define(sql, (change, before), None, interrupt, defined)?;
        machine::run(&mut exclusive, &self.shared.clock).map(|_| ())
    }

    /// [`Handle::define`] for callers that step it. With a `build`, an index or a column of a large table is only
    /// begun; once [`Filling`] has ended, a second call installs the result.
    pub(crate) fn start_define(
        &self,
        sql: &str,
        (change, before): (Change, Schema),
        build: Option<&Arc<Build>>,
        interrupt: Option<&Arc<Interrupt>>,
        defined: impl FnOnce() + Send + 'static,
    ) -> Result<Exclusive<P, Made>> {
        let (sql, stop) = (sql.to_owned(), interrupt.map(Arc::clone));
        let (build, rows_at_once) = (build.map(Arc::clone), self.shared.build_rows as usize);
        Exclusive::new(&self.shared, interrupt, move |members, head, batch| {
            if let (Some(build), Some(table)) = (&build, built_for(&change)) {
                match meet_build(members, build, (table, &change), rows_at_once) {
                    Ok(Met::Small) => {}
                    Ok(Met::Begun) => return Ok(Ok(Made::Begun)),
                    Ok(Met::Complete) => {
                        let record = with_log_head(members, head, Digest::EMPTY, |head| batch.definition(head, &sql));
                        if let Err(error) = record {
                            return Ok(Err(error));
                        }
                        let installed = members.iter_mut().map(|member| member.partition.install_build(table));
                        let replaced = installed.collect::<Result<_>>()?;
                        defined();
                        return Ok(Ok(Made::Defined(replaced)));
                    }
                    Err(error) => return Ok(Err(error)),
                }
            }
            let stopped = || stop.as_ref().map_or(Ok(()), |stop| stop.check());
            if let Err(error) = with_log_head(members, head, Digest::EMPTY, |head| batch.definition(head, &sql)) {
                return Ok(Err(error));
            }
            if let Err(error) = members.iter().try_for_each(|member| member.partition.check_definable(&change)) {
                return Ok(Err(error));
            }
            for number in 0..members.len() {
                if let Err(error) = executor::define(members, number, &change, &stopped) {
                    // Partitions with different schemas cannot go on.
                    members
                        .iter_mut()
                        .take(number)
                        .try_for_each(|member| member.partition.undefine(&change, &before))?;
                    return Ok(Err(error));
                }
            }
            defined();
            Ok(Ok(Made::Defined(Vec::new())))
        })
    }

    /// Fills a `build` that was begun.
    pub(crate) fn fill(&self, table: TableId, build: &Arc<Build>, interrupt: Option<&Arc<Interrupt>>) -> Filling<P> {
        Filling::new(self.clone(), (table, self.shared.build_rows), build, interrupt)
    }

    /// Drops a `build` in all partitions, each when its turn comes.
    pub(crate) fn give_up(&self, build: &Build) {
        build.give_up();
        for number in 0..self.partitions() {
            let Ok(number) = u16::try_from(number) else { continue };
            // A stopped engine drops its partitions anyway.
            let _ = self.start_visit(PartitionId(number), |member| member.partition.drop_builds_given_up());
        }
    }
}

/// Outcome of a definition.
#[derive(Debug)]
pub(crate) enum Made {
    /// Made; replaces these rows.
    Defined(
        #[expect(dead_code, reason = "held so that the requester, not a partition, frees the memory")]
        Vec<Option<Replaced>>,
    ),
    /// Its build has begun and is to be filled in steps.
    Begun,
}

/// State of a build when all partitions meet.
enum Met {
    /// Not begun, and no partition has more rows than one step processes.
    Small,
    /// Begun now.
    Begun,
    /// Complete; it becomes part of the table.
    Complete,
}

/// Table of a definition that reads all of its rows.
pub(crate) fn built_for(change: &Change) -> Option<&Arc<TableDefinition>> {
    match change {
        Change::CreateIndex { table, .. } | Change::AddColumn { table, .. } => Some(table),
        _ => None,
    }
}

fn meet_build(
    members: &mut [Member],
    build: &Arc<Build>,
    (definition, change): (&Arc<TableDefinition>, &Change),
    rows_at_once: usize,
) -> Result<Met> {
    let id = definition.id;
    let mut rows_most = 0;
    for member in &*members {
        let table = member.partition.table(id)?;
        if table.has_build(build) {
            members.iter().try_for_each(|member| member.partition.check_build(id, build, change))?;
            return Ok(Met::Complete);
        }
        rows_most = rows_most.max(table.rows());
    }
    if rows_most <= rows_at_once {
        return Ok(Met::Small);
    }
    if build.is_given_up() {
        return Err(Error::Cancelled("nobody waits for it any more".into()));
    }
    members.iter().try_for_each(|member| member.partition.check_definable(change))?;
    members.iter_mut().try_for_each(|member| member.partition.begin_build(id, build, change))?;
    Ok(Met::Begun)
}
