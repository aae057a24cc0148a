use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::catalog::Definitions;
use super::database::Shared;
use super::work::{LoadBatch, Work};
use crate::engine::Client;
use crate::error::{Error, Result};
use crate::ids::LoadId;
use crate::interrupt::{Interrupt, POLL_INTERVAL};
use crate::log::{TableLoad, put_counted};
use crate::machine::{Step, run_steps};
use crate::sql::{Environment, RowMaker};
use crate::table::{Charge, Working};
use crate::types::{PartitionHash, ValueRef};

/// Rows and bytes of rows that a partition inserts without doing anything else in between: a fraction of a
/// millisecond.
const BATCH_ROWS: u32 = 256;
const BATCH_BYTES: usize = 128 << 10;
/// Batches of one partition that wait for their turn or for the log.
const UNDER_WAY_MAX: usize = 8;
/// Rows of a load that failed which go from each partition at once.
const TAKE_BACK_ROWS: u32 = 1024;
/// How long it tries a batch again that lost a race: to a full queue, or to another load of the same key.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// How long it waits before that.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// A bulk load: any number of rows into one table, all of them or none, while other transactions run.
///
/// ```text
///  push: image --> batch of its partition --> short transactions, whose rows nobody sees
///                                                  |
///  finish ---> keep: at one moment, over all partitions, all rows are there
///  drop -----> take back: batches of rows go again, as they came
/// ```
///
/// Rows are in the table and in its indexes as soon as their batch has run, hidden until the load is over. So at the
/// end nothing is copied, no partition is held for longer than a batch takes, and what it needs besides the table is a
/// bit for each row. A key of a hidden row is taken: who inserts it meanwhile gets an error with SQLSTATE 40001, for
/// nobody knows yet whether the row will stay. After a crash in the middle of it the rows go when the log is replayed.
pub struct Load {
    shared: Arc<Shared>,
    definitions: Arc<Definitions>,
    client: Client<Work>,
    interrupt: Arc<Interrupt>,
    id: LoadId,
    maker: RowMaker,
    environment: Environment,
    /// By partition; one for all of a table that every partition has.
    open: Vec<OpenBatch>,
    /// By tag.
    under_way: BTreeMap<u64, UnderWay>,
    tag_next: u64,
    rows: u64,
    image: Vec<u8>,
    /// Bytes of all batches.
    charge: Charge,
    /// Whether all rows are to go when it is dropped: a batch was sent, and the load is not kept.
    is_begun: bool,
    has_failed: bool,
}

/// Rows of one partition that have not been sent.
#[derive(Default)]
struct OpenBatch {
    hash: Option<PartitionHash>,
    count: u32,
    images: Vec<u8>,
    /// How many batches of the partition are under way.
    sent: usize,
}

struct UnderWay {
    partition: usize,
    work: Arc<Work>,
    bytes: usize,
    /// When it was sent first.
    since: Instant,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("id", &self.id).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Load {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        table: &str,
        columns: &[impl AsRef<str>],
        interrupt: &Arc<Interrupt>,
    ) -> Result<Self> {
        let definitions = shared.catalog.current();
        definitions.check_writable()?;
        let maker = RowMaker::new(&definitions.schema, table, columns)?;
        let head = shared.handle.exclusively_interruptible(interrupt, |_, head, _| Ok(head))?;
        interrupt.wait_again();
        let partitions = if maker.table().partition_by.is_some() { shared.handle.partitions() } else { 1 };
        Ok(Self {
            definitions,
            client: shared.engine.client(),
            interrupt: Arc::clone(interrupt),
            id: LoadId(head.id.0),
            environment: Environment::new(head.timestamp.0, head.seed, u64::MAX),
            open: (0..partitions).map(|_| OpenBatch::default()).collect(),
            under_way: BTreeMap::new(),
            tag_next: 0,
            rows: 0,
            image: Vec::new(),
            charge: Charge::new(&shared.budget, Working::Queues),
            is_begun: false,
            has_failed: false,
            shared: Arc::clone(shared),
            maker,
        })
    }

    /// Adds a row: a value for each of the columns. It may wait for rows before it to be inserted.
    ///
    /// # Errors
    /// If the row, or one before it, cannot be inserted. Then none is.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let pushed = self.push_row(values);
        self.has_failed |= pushed.is_err();
        pushed
    }

    fn push_row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let hash = self.maker.make(values, &self.environment, &mut self.image)?;
        let count = self.open.len() as u32;
        let partition = hash.map_or(0, |hash| hash.partition(count) as usize);
        let Some(open) = self.open.get_mut(partition) else { return Err(Error::internal("a row of no partition")) };
        put_counted(&mut open.images, &self.image);
        open.hash = hash;
        open.count += 1;
        self.rows += 1;
        if open.count >= BATCH_ROWS || open.images.len() >= BATCH_BYTES { self.send(partition) } else { Ok(()) }
    }

    /// Inserts what has not been inserted, waits until all of it is durable, and lets everybody see it. Gives back how
    /// many rows that were.
    ///
    /// # Errors
    /// If a row cannot be inserted, or the load was stopped. Then there is none of them.
    pub fn finish(mut self) -> Result<u64> {
        if self.has_failed {
            return Err(Error::internal("a load that has failed cannot be finished"));
        }
        for partition in 0..self.open.len() {
            self.send(partition)?;
        }
        while !self.under_way.is_empty() {
            self.receive()?;
        }
        if self.is_begun {
            self.shared.handle.keep_load(self.table_load(), &self.interrupt)?;
            self.is_begun = false;
        }
        Ok(self.rows)
    }

    fn table_load(&self) -> TableLoad {
        TableLoad { table: self.maker.table().id, load: self.id }
    }

    /// Sends the rows of a partition, once there is room for them.
    fn send(&mut self, partition: usize) -> Result<()> {
        self.interrupt.check()?;
        while self.open.get(partition).is_some_and(|open| open.sent >= UNDER_WAY_MAX) {
            self.receive()?;
        }
        let Some(open) = self.open.get_mut(partition).filter(|open| open.count > 0) else { return Ok(()) };
        open.sent += 1;
        let next = Vec::with_capacity(open.images.len());
        let images = std::mem::replace(&mut open.images, next);
        let bytes = 2 * images.capacity();
        let (count, hash) = (std::mem::take(&mut open.count), open.hash.take());
        let batch = LoadBatch { load: self.id, table: Arc::clone(self.maker.table()), hash, count, images };
        let work = Arc::new(Work::load(&self.shared.catalog, &self.definitions, batch));
        let no_room = |full| Error::OutOfMemory(format!("rows that are being loaded: {full}").into());
        self.charge.grow(bytes).map_err(no_room)?;
        self.submit(UnderWay { partition, work, bytes, since: Instant::now() })
    }

    fn submit(&mut self, batch: UnderWay) -> Result<()> {
        let tag = self.tag_next;
        self.tag_next += 1;
        self.is_begun = true;
        let work = Arc::clone(&batch.work);
        self.under_way.insert(tag, batch);
        let submitted = self.client.submit(work, Box::default(), tag);
        if submitted.is_err() {
            // Nobody will answer it.
            self.under_way.remove(&tag);
        }
        submitted?;
        self.client.send();
        Ok(())
    }

    /// Waits until a batch has been answered.
    fn receive(&mut self) -> Result<()> {
        let clock = self.shared.handle.clock().clone();
        let replies = run_steps(&clock, || match (self.client.try_receive(), self.interrupt.check()) {
            (Ok(replies), _) => Step::Over(Ok(replies)),
            (Err(_), Err(stopped)) => Step::Over(Err(stopped)),
            (Err(wait), Ok(())) => Step::Wait(wait.until(clock.after(POLL_INTERVAL))),
        })?;
        let (mut again, mut failed) = (Vec::new(), None);
        for reply in replies {
            let Some(batch) = self.under_way.remove(&reply.tag) else { continue };
            match reply.result {
                Err(Error::Retry(_)) if batch.since.elapsed() < RETRY_FOR => again.push(batch),
                result => {
                    failed = failed.or(result.err());
                    let bytes = self.charge.bytes().saturating_sub(batch.bytes);
                    // Fewer bytes always have room.
                    let _ = self.charge.resize(bytes);
                    if let Some(open) = self.open.get_mut(batch.partition) {
                        open.sent -= 1;
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)?;
        if !again.is_empty() {
            std::thread::sleep(RETRY_AFTER);
        }
        again.into_iter().try_for_each(|batch| self.submit(batch))
    }

    /// Removes its rows. What is left of them if that fails goes when the database is opened: nothing else can happen
    /// by then, because only a stopped engine refuses it.
    fn take_back(&mut self) -> Result<()> {
        let clock = self.shared.handle.clock().clone();
        while !self.under_way.is_empty() {
            let replies = run_steps(&clock, || match self.client.try_receive() {
                Ok(replies) => Step::Over(replies),
                Err(wait) => Step::Wait(wait),
            });
            replies.iter().for_each(|reply| drop(self.under_way.remove(&reply.tag)));
        }
        let load = self.table_load();
        while self.shared.handle.take_back(load, TAKE_BACK_ROWS)? > 0 {}
        self.shared.handle.forget_load(load)
    }
}

/// Takes all rows back unless it is [finished](Load::finish).
impl Drop for Load {
    fn drop(&mut self) {
        if self.is_begun {
            // See there.
            let _ = self.take_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(BATCH_BYTES + crate::table::ROW_BYTES_MAX < crate::log::RECORD_BYTES_MAX / 2);

    #[test]
    fn a_load_can_be_handed_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Load>();
    }
}
