//! One node: what the threads of an engine would do, a step at a time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use super::run::Bug;
use super::workload::{Call, Model};
use crate::disk::SimulatedDisk;
use crate::engine::{Executor, Heads, Held, Program, Ran, Route, abort, begin, commit, log_effects, run};
use crate::ids::{Identity, Micros, Sequence, TransactionId};
use crate::log::{Batch, Collector, Head as LogHead, LogEnd, LogSettings, PendingGroup, Writer};
use crate::partition::{Head, Member, Scope};
use crate::schema::{Schema, TableId};
use crate::snapshot::{Barrier, Taking};
use crate::{Error, Result};

/// Few bytes, so that a session's transaction has several records.
const PART_BYTES: usize = 60;

/// Hash of each table of a partition.
pub type Hashes = BTreeMap<TableId, u64>;

/// Replies that wait for the log: what they depend on.
#[derive(Debug, Clone, Copy)]
struct Reply {
    /// Up to where the log has to be durable before the client may be told.
    needs: Sequence,
}

/// What a partition has to do next.
#[derive(Debug)]
enum Item {
    One(Call),
    /// Come together with all others.
    Meet(u64),
}

/// What is done when all partitions have come together.
#[derive(Debug)]
enum Job {
    Call(Call),
    /// Calls that a session makes one after the other in a transaction.
    Session(Vec<Call>),
    Define(String),
    Snapshot,
}

/// One partition with what its thread would have.
struct Seat {
    executor: Executor,
    queue: VecDeque<Item>,
    /// The meeting where it waits.
    waits: Option<u64>,
    /// Calls in the batch, in order.
    ran: Vec<(Call, Head)>,
    replies: usize,
    /// Up to where the log has to be durable before anybody may be told what is here.
    last: Sequence,
    held: Held<Reply>,
    /// State after each of its batches.
    hashes: Vec<(Sequence, Hashes)>,
}

/// A group on its way to the disk.
enum Flight {
    Taken(PendingGroup),
    Written(PendingGroup),
}

/// What ran and is in the log.
pub enum Committed {
    /// A call.
    Call(Call, Head),
    /// Calls of one transaction, whose effects are logged.
    Session(Vec<Call>, Head),
    /// The schema after a definition.
    Schema(Box<Schema>),
}

/// A node that runs.
pub struct Node {
    disk: SimulatedDisk,
    identity: Identity,
    pub schema: Schema,
    seats: Vec<Seat>,
    jobs: BTreeMap<u64, Job>,
    meeting_next: u64,
    pub collector: Collector,
    writer: Writer,
    flight: Option<Flight>,
    snapshot: Option<Taking>,
    pub now: Micros,
    /// The rows as they should be now.
    pub model: Model,
    /// What ran since the start, by its place in the log.
    pub committed: Vec<(Sequence, Committed)>,
    /// The last sequence that a client was told of, or of something that it was told.
    pub told: Sequence,
    pub snapshots: u64,
    pub commits: u64,
    /// Of those, with several records.
    pub commits_in_parts: u64,
    bug: Option<Bug>,
}

/// Where a node starts.
pub struct Start {
    pub disk: SimulatedDisk,
    pub identity: Identity,
    pub members: Vec<Member>,
    pub schema: Schema,
    pub end: LogEnd,
    pub transaction: TransactionId,
    pub now: Micros,
    pub model: Model,
    pub seed: u64,
    pub settings: LogSettings,
    pub bug: Option<Bug>,
}

impl Node {
    pub fn start(start: Start) -> Result<Self> {
        let Start { disk, identity, members, schema, end, transaction, now, model, seed, settings, bug } = start;
        let (collector, count) = (Collector::new(settings.clone(), end.next), u32::from(identity.partitions));
        let durable = collector.durable();
        let mut seats = Vec::new();
        for (number, member) in (1..).zip(members) {
            let hashes = vec![(durable, member.partition.state_hashes()?)];
            let heads = Heads::new(TransactionId(transaction.0 + number), count, seed ^ number);
            seats.push(Seat {
                executor: Executor::new(member, heads),
                queue: VecDeque::new(),
                waits: None,
                ran: Vec::new(),
                replies: 0,
                last: durable,
                held: Held::default(),
                hashes,
            });
        }
        let writer =
            Writer::new(Arc::new(disk.clone()), identity, settings.segment_bytes, end).with_room(settings.room_bytes);
        Ok(Self {
            disk,
            identity,
            schema,
            seats,
            jobs: BTreeMap::new(),
            meeting_next: 0,
            collector,
            writer,
            flight: None,
            snapshot: None,
            now,
            model,
            committed: Vec::new(),
            told: Sequence::ZERO,
            snapshots: 0,
            commits: 0,
            commits_in_parts: 0,
            bug,
        })
    }

    pub fn partitions(&self) -> usize {
        self.seats.len()
    }

    /// Calls that have no reply yet, to keep queues short.
    pub fn waiting(&self) -> usize {
        self.seats.iter().map(|seat| seat.queue.len()).sum()
    }

    pub fn submit(&mut self, call: Call) -> Result<()> {
        match call.route(&[])? {
            Route::One(hash) => {
                let number = hash.partition(u32::from(self.identity.partitions));
                if let Some(seat) = self.seats.get_mut(number as usize) {
                    seat.queue.push_back(Item::One(call));
                }
            }
            Route::Any | Route::Several(_) | Route::All => self.meet(Job::Call(call)),
        }
        Ok(())
    }

    pub fn session(&mut self, calls: Vec<Call>) {
        self.meet(Job::Session(calls));
    }

    pub fn define(&mut self, sql: &str) {
        self.meet(Job::Define(sql.to_owned()));
    }

    pub fn begin_snapshot(&mut self) {
        if self.snapshot.is_none() && !self.jobs.values().any(|job| matches!(job, Job::Snapshot)) {
            self.meet(Job::Snapshot);
        }
    }

    fn meet(&mut self, job: Job) {
        let meeting = self.meeting_next;
        self.meeting_next += 1;
        self.jobs.insert(meeting, job);
        self.seats.iter_mut().for_each(|seat| seat.queue.push_back(Item::Meet(meeting)));
    }

    /// Takes up to so many items off a partition's queue; what ran goes to the log if `flush`.
    pub fn work(&mut self, number: usize, items: usize, flush: bool) -> Result<()> {
        for _ in 0..items {
            let Some(seat) = self.seats.get_mut(number).filter(|seat| seat.waits.is_none()) else { return Ok(()) };
            match seat.queue.pop_front() {
                Some(Item::One(call)) => self.one(number, call)?,
                Some(Item::Meet(meeting)) => {
                    // What ran here before goes into the log before what runs over all partitions.
                    self.flush(number)?;
                    if let Some(seat) = self.seats.get_mut(number) {
                        seat.waits = Some(meeting);
                    }
                    if self.seats.iter().all(|seat| seat.waits == Some(meeting)) {
                        self.gathered(meeting)?;
                    }
                }
                None => break,
            }
        }
        if flush { self.flush(number) } else { Ok(()) }
    }

    fn one(&mut self, number: usize, call: Call) -> Result<()> {
        let Some(seat) = self.seats.get_mut(number) else { return Ok(()) };
        let records = seat.executor.batch.records();
        match seat.executor.run(&call, &[], self.now) {
            Ran::OtherPartition => self.meet(Job::Call(call)),
            Ran::Broken(error) => return Err(error),
            Ran::Done(result) => {
                let head = seat.executor.member.as_ref().map(|member| member.transaction.head).unwrap_or_default();
                compare(&mut self.model, &call, head, &result)?;
                let wrote = seat.executor.batch.records() > records;
                if wrote {
                    seat.ran.push((call, head));
                } else if self.bug == Some(Bug::ReadsDoNotWait) {
                    // What it has read may be of records that wait anywhere.
                    let open = u64::from(seat.executor.batch.records());
                    self.told = self.told.max(self.collector.appended().plus(open));
                }
                seat.replies += 1;
            }
        }
        Ok(())
    }

    /// Hands a partition's batch to the log.
    fn flush(&mut self, number: usize) -> Result<()> {
        let Some(seat) = self.seats.get_mut(number) else { return Ok(()) };
        let count = u64::from(seat.executor.batch.records());
        if count > 0 {
            seat.last = self.collector.append(&mut seat.executor.batch, self.now)?;
            if let Some(member) = &seat.executor.member {
                seat.hashes.push((seat.last, member.partition.state_hashes()?));
            }
            let first = Sequence(seat.last.0 + 1 - count);
            for (place, (call, head)) in (0..).zip(seat.ran.drain(..)) {
                self.committed.push((first.plus(place), Committed::Call(call, head)));
            }
            self.commits += count;
        }
        let replies = std::mem::take(&mut seat.replies);
        if replies > 0 {
            seat.held.push(seat.last, Reply { needs: seat.last });
        }
        self.release();
        Ok(())
    }

    /// All partitions have come together.
    fn gathered(&mut self, meeting: u64) -> Result<()> {
        let job = self.jobs.remove(&meeting);
        let head = match self.seats.last_mut() {
            Some(seat) => seat.executor.head(self.now),
            None => return Ok(()),
        };
        let mut members: Vec<Member> = self.seats.iter_mut().filter_map(|seat| seat.executor.member.take()).collect();
        let done = job.map_or(Ok(()), |job| self.together(&mut members, head, job));
        for (seat, member) in self.seats.iter_mut().zip(members) {
            (seat.executor.member, seat.waits) = (Some(member), None);
        }
        done
    }

    fn together(&mut self, members: &mut [Member], head: Head, job: Job) -> Result<()> {
        let mut batch = Batch::with_part_bytes(PART_BYTES);
        let mut committed = None;
        match job {
            Job::Snapshot => return self.barrier(members, head),
            Job::Session(calls) => {
                begin(members, head);
                let results = calls.iter().map(|call| call.run(&mut Scope::new(members), &[])).collect();
                let expected = self.model.run_together(&calls, head);
                compare_found(&calls, expected.as_ref(), &results)?;
                if results.is_ok() {
                    log_effects(members, &mut batch)?;
                    commit(members);
                } else {
                    abort(members)?;
                }
                self.commits_in_parts += u64::from(batch.records() > 1);
                committed = (!batch.is_empty()).then_some(Committed::Session(calls, head));
            }
            Job::Call(call) => match run(members, head, &call, &[], &mut batch) {
                Ran::Broken(error) => return Err(error),
                Ran::OtherPartition => return Err(Error::internal("all partitions are not enough")),
                Ran::Done(result) => {
                    compare(&mut self.model, &call, head, &result)?;
                    committed = (!batch.is_empty()).then_some(Committed::Call(call, head));
                }
            },
            Job::Define(sql) => {
                if let Ok((schema, change)) = self.schema.define(&sql) {
                    members.iter_mut().try_for_each(|member| member.partition.define(&change))?;
                    let (transaction, timestamp) = (head.id, head.timestamp);
                    let log_head = LogHead { transaction, timestamp, seed: head.seed, digest: 0, partitions: &[] };
                    batch.definition(&log_head, &sql)?;
                    self.schema = schema;
                    committed = Some(Committed::Schema(Box::new(self.schema.clone())));
                }
            }
        }
        let sequence = self.collector.append(&mut batch, self.now)?;
        if let Some(committed) = committed {
            self.commits += 1;
            self.committed.push((sequence, committed));
            for (seat, member) in self.seats.iter_mut().zip(&*members) {
                seat.hashes.push((sequence, member.partition.state_hashes()?));
            }
        }
        for seat in &mut self.seats {
            seat.last = sequence;
        }
        if let Some(seat) = self.seats.last_mut() {
            seat.held.push(sequence, Reply { needs: sequence });
        }
        self.release();
        Ok(())
    }

    /// Tells clients what may be told.
    fn release(&mut self) {
        let released = self.collector.released();
        for seat in &mut self.seats {
            while let Some(reply) = seat.held.release(released) {
                self.told = self.told.max(reply.needs);
            }
        }
    }

    /// The next step of the log, if there is one: take, write, sync.
    pub fn log(&mut self) -> Result<()> {
        match self.flight.take() {
            None => self.flight = self.collector.take().map(Flight::Taken),
            Some(Flight::Taken(mut group)) => match self.writer.write(&mut group) {
                Ok(()) => self.flight = Some(Flight::Written(group)),
                Err(error) => {
                    self.collector.done(group, Err(error.clone()));
                    return Err(error);
                }
            },
            Some(Flight::Written(group)) => {
                let synced = self.writer.sync();
                self.collector.done(group, synced.clone());
                self.release();
                return synced;
            }
        }
        Ok(())
    }

    fn barrier(&mut self, members: &mut [Member], head: Head) -> Result<()> {
        let barrier = Barrier::at(members, head, self.collector.appended(), &self.schema, 1 << 16);
        if self.bug == Some(Bug::NoPreImages) {
            members.iter_mut().for_each(|member| member.partition.unwatch());
        }
        match Taking::begin(Arc::new(self.disk.clone()), self.identity, barrier) {
            // A snapshot that fails is tried again some time; the log goes on.
            Err(error) if self.disk.crashed() => Err(error),
            Err(_) => Ok(()),
            Ok(snapshot) => {
                self.snapshot = snapshot;
                Ok(())
            }
        }
    }

    /// A step of a snapshot under way: one partition copies so many rows, or, when all have, it is
    /// completed.
    pub fn snapshot(&mut self, number: usize, rows: u32) -> Result<()> {
        let Some(mut snapshot) = self.snapshot.take() else { return Ok(()) };
        let member = self.seats.get(number).and_then(|seat| seat.executor.member.as_ref());
        match member.map_or(Ok(()), |member| snapshot.step(&member.partition, rows)) {
            Ok(()) if snapshot.is_copied() && self.collector.durable() >= snapshot.position() => {
                let durable = self.collector.durable();
                let completed = snapshot.complete(durable).and_then(|manifest| {
                    self.snapshots += 1;
                    self.writer.remove_covered(manifest.position)
                });
                // Nothing but a crash may hurt the log; files that were not removed go later.
                if self.disk.crashed() { completed } else { Ok(()) }
            }
            Ok(()) => {
                self.snapshot = Some(snapshot);
                Ok(())
            }
            Err(error) if self.disk.crashed() => Err(error),
            Err(_) => {
                let abandoned = snapshot.abandon();
                if self.disk.crashed() { abandoned } else { Ok(()) }
            }
        }
    }

    /// Writes all that ran, and ends the log.
    pub fn close(&mut self) -> Result<()> {
        for number in 0..self.seats.len() {
            self.flush(number)?;
        }
        while self.flight.is_some() || self.collector.appended() > self.collector.durable() {
            self.log()?;
        }
        self.writer.close()
    }

    /// Hashes of each partition's tables as of this place in the log.
    pub fn hashes_at(&self, sequence: Sequence) -> Vec<&Hashes> {
        let of = |seat: &'_ Seat| seat.hashes.iter().rposition(|(at, _)| *at <= sequence);
        self.seats.iter().filter_map(|seat| seat.hashes.get(of(seat)?).map(|(_, hashes)| hashes)).collect()
    }

    /// What is wrong with what is in memory.
    pub fn check(&self) -> Result<()> {
        if self.collector.durable() > self.collector.appended() {
            return Err(Error::internal("more is durable than there is"));
        }
        self.seats
            .iter()
            .filter_map(|seat| seat.executor.member.as_ref())
            .try_for_each(|member| member.partition.check())
    }
}

/// The result of a call, compared with the model's.
fn compare(model: &mut Model, call: &Call, head: Head, result: &Result<Vec<i64>>) -> Result<()> {
    compare_found(call, model.run(call, head).as_ref(), result)
}

fn compare_found<C: Debug, T: Debug + PartialEq>(call: &C, expected: Option<&T>, result: &Result<T>) -> Result<()> {
    let found = match result {
        Ok(found) => Some(found),
        Err(error) if error.sqlstate() == "P0001" => None,
        Err(error) => return Err(error.clone()),
    };
    if expected == found {
        return Ok(());
    }
    Err(Error::internal(format_args!("{call:?} gives {result:?}, and {expected:?} in the model")))
}
