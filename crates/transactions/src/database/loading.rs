//! Bulk loads as a machine: batches under way, their end, and the removal of their rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thermocline_durability::log::put_counted;
use thermocline_machine::ids::{LoadId, Micros};
use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{EventCount, Machine, Step, Wait};
use thermocline_procedures::Definitions;
use thermocline_statements::{Environment, RowMaker};
use thermocline_tables::PartitionHash;
use thermocline_tables::partition::Head;
use thermocline_tables::table::{Budget, Charge, TableLoad, Working};
use thermocline_types::{Error, Result, ValueRef};

use super::catalog::Catalog;
use super::work::{LoadBatch, Work};
use crate::engine::{Client, Exclusive, Handle};

/// Delay before a batch is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Sizes of the steps of a load.
#[derive(Debug, Clone, Copy)]
pub struct Portions {
    /// Rows that a partition inserts without doing anything else in between.
    pub rows: u32,
    /// Bytes of rows that a partition inserts without doing anything else in between.
    pub bytes: usize,
    /// Batches of one partition that wait for their turn or for the log.
    pub under_way: usize,
    /// Bytes of memory of such batches of all partitions, unless it is a single one.
    pub bytes_under_way: usize,
    /// Rows of a failed load that are removed from each partition at once.
    pub taken_back: u32,
    /// How long it retries a batch that was refused because of a full queue, or of another load with the same key.
    pub retry_for: Duration,
}

/// The steps of a bulk load.
///
/// ```text
///            the id           push             finish
///  begin: Begins ----> Open --------> Fills     |        all rows are there
///                       ^ <-- room for more --+ +--> Ends -------> Keeps -----------------> Over
///                                                                                            ^
///  take_back, from any: --> Answers (to what was sent) --> Removes (some rows at once) ------+
/// ```
///
/// [`step`](Self::step) continues the last request to its end.
pub struct Loading {
    catalog: Arc<Catalog>,
    definitions: Arc<Definitions>,
    handle: Handle<Work>,
    client: Client<Work>,
    interrupt: Arc<Interrupt>,
    portions: Portions,
    id: LoadId,
    maker: RowMaker,
    environment: Environment,
    /// By partition; a single one for a replicated table.
    open: Vec<OpenBatch>,
    /// By tag.
    under_way: BTreeMap<u64, UnderWay>,
    /// Batches to be retried, and when they are sent again.
    again: (Vec<UnderWay>, Micros),
    tag_next: u64,
    rows: u64,
    image: Vec<u8>,
    /// Bytes of all batches.
    charge: Charge,
    /// Since when the next batch has waited for memory; `None` if it has not.
    refused_since: Option<Micros>,
    /// Whether a batch was sent and the load has not ended: some of its rows may be there.
    is_begun: bool,
    stage: Stage,
}

enum Stage {
    /// Gets its id and its time.
    Begins(Exclusive<Work, Head>),
    /// Has room for more rows.
    Open,
    /// A batch is full.
    Fills(usize),
    /// Sends the remaining rows, and waits until all are inserted.
    Ends,
    /// Ends and keeps its rows.
    Keeps(Exclusive<Work, ()>),
    /// Is to be taken back; waits for batches that may be running.
    Answers,
    /// Removes some of its rows.
    Removes(Exclusive<Work, u32>),
    /// Ends without its rows.
    Forgets(Exclusive<Work, ()>),
    Over,
}

/// Rows of one partition that have not been sent.
#[derive(Default)]
struct OpenBatch {
    hash: Option<PartitionHash>,
    count: u32,
    images: Vec<u8>,
    /// Batches of the partition that were sent and are not inserted yet, those to be retried included.
    sent: usize,
}

struct UnderWay {
    partition: usize,
    work: Arc<Work>,
    bytes: usize,
    /// When it was sent first.
    since: Micros,
}

impl Loading {
    /// A load into these columns of a table, before it has its id.
    pub fn begin(
        (catalog, handle, client): (&Arc<Catalog>, &Handle<Work>, Client<Work>),
        (table, columns): (&str, &[impl AsRef<str>]),
        interrupt: &Arc<Interrupt>,
        (budget, portions): (&Arc<Budget>, Portions),
    ) -> Result<Self> {
        let definitions = catalog.current();
        definitions.check_writable()?;
        let maker = RowMaker::new(&definitions.schema, table, columns)?;
        let partitions = if maker.table().partition_by.is_some() { handle.partitions() } else { 1 };
        Ok(Self {
            catalog: Arc::clone(catalog),
            definitions,
            client,
            interrupt: Arc::clone(interrupt),
            portions,
            id: LoadId(0),
            environment: Environment::new(0, 0, u64::MAX),
            open: (0..partitions).map(|_| OpenBatch::default()).collect(),
            under_way: BTreeMap::new(),
            again: (Vec::new(), Micros(0)),
            tag_next: 0,
            rows: 0,
            image: Vec::new(),
            charge: Charge::new(budget, Working::Queues),
            refused_since: None,
            is_begun: false,
            stage: Stage::Begins(handle.start_head(interrupt)?),
            handle: handle.clone(),
            maker,
        })
    }

    /// Adds a row: a value for each of the columns. Returns whether [steps](Self::step) must run before the next row.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        let hash = self.maker.make(values, &self.environment, &mut self.image)?;
        let count = self.open.len() as u32;
        let partition = hash.map_or(0, |hash| hash.partition(count) as usize);
        let Some(open) = self.open.get_mut(partition) else { return Err(Error::internal("a row of no partition")) };
        put_counted(&mut open.images, &self.image);
        open.hash = hash;
        open.count += 1;
        self.rows += 1;
        let is_full = open.count >= self.portions.rows || open.images.len() >= self.portions.bytes;
        if is_full {
            self.stage = Stage::Fills(partition);
        }
        Ok(is_full)
    }

    /// Requests that all rows become visible by the end of the [steps](Self::step).
    pub fn finish(&mut self) {
        self.stage = Stage::Ends;
    }

    /// Requests that all rows are removed by the end of the [steps](Self::step). If that fails, the remaining rows are
    /// removed at the next opening; the database cannot be used before, because only a stopped engine refuses this.
    pub fn take_back(&mut self) {
        self.again.0.clear();
        self.stage = if self.is_begun { Stage::Answers } else { Stage::Over };
    }

    /// Rows that were pushed.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Its table and load id; only after it has begun.
    pub fn table_load(&self) -> TableLoad {
        TableLoad { table: self.maker.table().id, load: self.id }
    }

    /// Whether hidden rows of it may be there.
    pub const fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Whether its rows are about to become visible.
    pub const fn is_keeping(&self) -> bool {
        matches!(self.stage, Stage::Keeps(_))
    }

    /// Continues the last request. Ends with an error if a row cannot be inserted or the load was stopped; then it must
    /// be [taken back](Self::take_back).
    pub fn step(&mut self) -> Step<Result<()>> {
        self.next().unwrap_or_else(|error| Step::Over(Err(error)))
    }

    fn next(&mut self) -> Result<Step<Result<()>>> {
        match &mut self.stage {
            Stage::Begins(exclusive) => match exclusive.step() {
                Step::Over(head) => {
                    let head = head?;
                    self.interrupt.wait_again();
                    self.id = LoadId(head.id.0);
                    self.environment = Environment::new(head.timestamp.0, head.seed, u64::MAX);
                    self.stage = Stage::Open;
                    Ok(Step::Over(Ok(())))
                }
                step => Ok(step.map(|_| Ok(()))),
            },
            Stage::Open | Stage::Over => Ok(Step::Over(Ok(()))),
            Stage::Fills(partition) => {
                let partition = *partition;
                self.interrupt.check()?;
                if let Some(step) = self.try_send(partition)? {
                    return Ok(step);
                }
                self.stage = Stage::Open;
                Ok(Step::Over(Ok(())))
            }
            Stage::Ends => {
                self.interrupt.check()?;
                match self.open.iter().position(|open| open.count > 0) {
                    Some(partition) => return Ok(self.try_send(partition)?.unwrap_or(Step::Go)),
                    None if self.under_way.is_empty() && self.again.0.is_empty() => {
                        if !self.is_begun {
                            self.stage = Stage::Over;
                            return Ok(Step::Over(Ok(())));
                        }
                        self.stage = Stage::Keeps(self.handle.start_keep_load(self.table_load(), &self.interrupt)?);
                    }
                    _ => return self.receive(),
                }
                Ok(Step::Go)
            }
            Stage::Keeps(exclusive) | Stage::Forgets(exclusive) => match exclusive.step() {
                Step::Over(ended) => {
                    ended?;
                    self.is_begun = false;
                    self.stage = Stage::Over;
                    Ok(Step::Over(Ok(())))
                }
                step => Ok(step),
            },
            Stage::Answers => {
                if self.under_way.is_empty() {
                    self.stage = Stage::Removes(self.start_removing()?);
                    return Ok(Step::Go);
                }
                Ok(match self.client.try_receive() {
                    Ok(replies) => {
                        replies.iter().for_each(|reply| drop(self.under_way.remove(&reply.tag)));
                        Step::Go
                    }
                    Err(wait) => Step::Wait(wait),
                })
            }
            Stage::Removes(exclusive) => match exclusive.step() {
                Step::Over(removed) => {
                    self.stage = match removed? {
                        0 => Stage::Forgets(self.handle.start_forget_load(self.table_load())?),
                        _ => Stage::Removes(self.start_removing()?),
                    };
                    Ok(Step::Go)
                }
                step => Ok(step.map(|_| Ok(()))),
            },
        }
    }

    fn start_removing(&self) -> Result<Exclusive<Work, u32>> {
        self.handle.start_take_back(self.table_load(), self.portions.taken_back)
    }

    fn has_room(&self, partition: usize) -> bool {
        self.open.get(partition).is_some_and(|open| open.sent < self.portions.under_way)
    }

    /// Charges the open batch of a partition. Returns false if that must wait until earlier batches are inserted, or
    /// rows are evicted.
    fn take_memory(&mut self, partition: usize) -> Result<bool> {
        let Some(open) = self.open.get(partition) else { return Ok(true) };
        let bytes = 2 * open.images.capacity();
        let is_alone = self.under_way.is_empty() && self.again.0.is_empty();
        if !is_alone && self.charge.bytes() + bytes > self.portions.bytes_under_way {
            return Ok(false);
        }
        let Err(full) = self.charge.grow(bytes) else {
            self.refused_since = None;
            return Ok(true);
        };
        if let Some(stuck) = self.stuck() {
            return Err(stuck);
        }
        let clock = self.handle.clock();
        if self.refused_since.is_none() {
            // Partitions that have nothing to do evict rows for it.
            self.handle.notify();
        }
        let since = *self.refused_since.get_or_insert(clock.now());
        if self.is_evicting() && (!self.under_way.is_empty() || clock.since(since) < self.portions.retry_for) {
            return Ok(false);
        }
        Err(Error::OutOfMemory(format!("rows that are being loaded: {full}").into()))
    }

    /// Sends the rows of a partition, or takes a step of waiting until it can.
    fn try_send(&mut self, partition: usize) -> Result<Option<Step<Result<()>>>> {
        if self.has_room(partition) && self.take_memory(partition)? {
            self.send(partition)?;
            return Ok(None);
        }
        if self.under_way.is_empty() && self.again.0.is_empty() {
            return Ok(Some(self.rest_until(self.handle.clock().after(RETRY_AFTER))));
        }
        self.receive().map(Some)
    }

    fn rest_until(&self, until: Micros) -> Step<Result<()>> {
        let nothing = EventCount::new();
        Step::Wait(Wait::new(&nothing, nothing.seen()).until(until))
    }

    /// Why rows cannot be evicted; `None` if they can.
    fn stuck(&self) -> Option<Error> {
        self.charge.budget().and_then(|budget| budget.stuck())
    }

    fn is_evicting(&self) -> bool {
        self.charge.budget().is_some_and(|budget| budget.is_evicting())
    }

    /// Sends the rows of a partition, which are charged.
    fn send(&mut self, partition: usize) -> Result<()> {
        let Some(open) = self.open.get_mut(partition) else { return Ok(()) };
        open.sent += 1;
        let next = Vec::with_capacity(open.images.len());
        let images = std::mem::replace(&mut open.images, next);
        let bytes = 2 * images.capacity();
        let (count, hash) = (std::mem::take(&mut open.count), open.hash.take());
        let batch = LoadBatch { load: self.id, table: Arc::clone(self.maker.table()), hash, count, images };
        let work = Arc::new(Work::load(&self.catalog, &self.definitions, batch));
        self.submit(UnderWay { partition, work, bytes, since: self.handle.clock().now() })
    }

    fn submit(&mut self, batch: UnderWay) -> Result<()> {
        let tag = self.tag_next;
        self.tag_next += 1;
        self.is_begun = true;
        let work = Arc::clone(&batch.work);
        self.under_way.insert(tag, batch);
        let submitted = self.client.submit(work, Box::default(), tag);
        if submitted.is_err() {
            // It gets no answer.
            self.under_way.remove(&tag);
        }
        submitted?;
        self.client.send();
        Ok(())
    }

    /// Waits for answers to batches, and sends those again that are to be retried.
    fn receive(&mut self) -> Result<Step<Result<()>>> {
        let clock = self.handle.clock().clone();
        if !self.again.0.is_empty() {
            if clock.now() < self.again.1 {
                return Ok(self.rest_until(self.again.1));
            }
            std::mem::take(&mut self.again.0).into_iter().try_for_each(|batch| self.submit(batch))?;
            return Ok(Step::Go);
        }
        let replies = match self.client.try_receive() {
            Ok(replies) => replies,
            Err(wait) => return Ok(Step::Wait(wait.until(clock.after(POLL_INTERVAL)))),
        };
        let (is_evicting, stuck) = (self.is_evicting(), self.stuck());
        let mut failed = None;
        for reply in replies {
            let Some(batch) = self.under_way.remove(&reply.tag) else { continue };
            match reply.result {
                // Work that takes memory now, such as records on their way to the disk, gives it back.
                Err(Error::OutOfMemory(_))
                    if is_evicting && stuck.is_none() && clock.since(batch.since) < self.portions.retry_for =>
                {
                    self.again.0.push(batch);
                }
                Err(Error::Retry(_)) if clock.since(batch.since) < self.portions.retry_for => self.again.0.push(batch),
                result => {
                    let error = result.err().map(|error| match (&error, &stuck) {
                        (Error::OutOfMemory(_), Some(stuck)) => stuck.clone(),
                        _ => error,
                    });
                    failed = failed.or(error);
                    let bytes = self.charge.bytes().saturating_sub(batch.bytes);
                    // Shrinking is never refused.
                    let _ = self.charge.resize(bytes);
                    if let Some(open) = self.open.get_mut(batch.partition) {
                        open.sent -= 1;
                    }
                }
            }
        }
        self.again.1 = clock.after(RETRY_AFTER);
        failed.map_or(Ok(Step::Go), Err)
    }
}
