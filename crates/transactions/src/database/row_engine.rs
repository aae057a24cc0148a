//! The open database: its parts, sessions, clients and statistics, and its end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thermocline_durability::backup::{Copying, backup};
use thermocline_durability::disk::{DirectoryLock, Disk, EmptyDisk};
use thermocline_durability::log::{Collector, Control, LogExtent, LogThread, Writer};
use thermocline_durability::recovery::{Plan, Progress, ReadOnly, Rebuild, recover_planned, taken_back};
use thermocline_durability::snapshot::Manifest;
use thermocline_machine as machine;
use thermocline_machine::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_machine::interrupt::Interrupt;
use thermocline_machine::random::Random;
use thermocline_procedures::{Definitions, Limits};
use thermocline_tables::partition::reader::ReadRequest;
use thermocline_tables::partition::{Head, Member, Transaction};
use thermocline_tables::schema::{Schema, TableId};
use thermocline_tables::table::Budget;
use thermocline_types::{Class, Error, Result};

use super::block_writer::BlockWriterThread;
use super::catalog::Catalog;
use super::definition::Definition;
use super::memory::{MemoryReport, Room, make_room};
use super::opening::Opening;
use super::replay::Replayer;
use super::row_session::RowSession;
use super::settings::{Settings, log_within, reserve_of};
use super::snapshots::{SnapshotReport, SnapshotStatus, Snapshots, Source};
use super::statistics::{PartitionStatistics, Statistics};
use super::table_reader::TableReader;
use super::trimmer::Trimmer;
use super::work::Work;
use crate::engine::{Client, CommitWaiters, Executors, Handle, Journal, NoJournal, Options};

/// An open database. Dropping it and all its sessions closes it; by then every commit is durable.
pub struct RowEngine {
    shared: Arc<Shared>,
}

/// State shared by sessions. Fields are dropped in this order: snapshots, partitions, log, writer of blocks, lock.
pub(super) struct Shared {
    /// `None` without a log.
    snapshots: Option<Snapshots>,
    pub handle: Handle<Work>,
    pub engine: Executors<Work>,
    pub catalog: Arc<Catalog>,
    /// `None` without a log.
    log: Option<LogThread>,
    pub budget: Arc<Budget>,
    /// `None` if rows stay in memory.
    _block_writer: Option<BlockWriterThread>,
    _trimmer: Trimmer,
    disk: Arc<dyn Disk>,
    pub idle_timeout: Duration,
    pub statement_timeout: Option<Duration>,
    pub query_rows_max: Option<u64>,
    identity: Identity,
    /// `None` if the database is writable.
    read_only: Option<ReadOnly>,
    _lock: Box<dyn DirectoryLock>,
}

impl fmt::Debug for RowEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowEngine").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}

impl RowEngine {
    /// Opens the database of a directory, or creates one in an empty directory: takes its lock, loads the newest
    /// snapshot, replays the log, starts the threads.
    ///
    /// If a record of the log is damaged or missing, or changes other rows than in its first run, the database opens
    /// read-only with the state before that record: see [`RowEngine::read_only`], which a program should report to its
    /// users.
    ///
    /// # Errors
    /// If there is no state to show: the directory is in use, of a newer version, or not readable or writable; its
    /// snapshot is damaged; or the log calls a procedure that `settings` lack, or have in another version.
    pub fn open(disk: Arc<dyn Disk>, settings: Settings) -> Result<Self> {
        Self::open_with_progress(disk, settings, &mut |_| {})
    }

    /// A new database in memory only, without files or a log.
    ///
    /// # Errors
    /// If `settings` have no partitions, or threads cannot be started.
    pub fn in_memory(settings: Settings) -> Result<Self> {
        Self::open(Arc::new(EmptyDisk), Settings { durable: false, ..settings })
    }

    /// [`RowEngine::open`] that reports the progress of recovery.
    pub fn open_with_progress(
        disk: Arc<dyn Disk>,
        settings: Settings,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Self> {
        Opening::new(disk, settings)?.finish(progress)
    }

    /// Reads the state and starts the threads.
    pub(super) fn opened(opening: Opening, progress: &mut dyn FnMut(&Progress)) -> Result<Self> {
        let Opening { disk, settings, lock, plan, procedures, measured } = opening;
        let waits_max = settings.waits_max();
        let Settings { partitions, memory_bytes_max, undo_bytes_max, queue_length, .. } = settings;
        let Settings { results_bytes_max, idle_timeout, statement_timeout, query_rows_max, ref notices, .. } = settings;
        let notices = Arc::clone(notices);
        let memory = settings.recovery_memory();
        let block_writer = memory.start_writer()?;
        let Settings { log: log_settings, snapshots, durable, limits, seed, clock, .. } = settings;
        let log_settings = log_within(log_settings, memory_bytes_max);
        let mut random = Random::new(seed);
        let budget = memory.budget();
        let database = DatabaseId(u128::from(random.next()) << 64 | u128::from(random.next()));
        let mut identity = Identity { database, partitions };
        let placement = random.next();
        let files = plan.block_files(&disk)?;
        let rebuild = |plan: &Plan| {
            identity = plan.identity().unwrap_or(identity);
            let definitions =
                Definitions::new(Schema::default(), Arc::clone(&procedures), Limits::unlimited(), &budget)?;
            let replayer = Replayer::new(definitions);
            let rebuild = Rebuild::new(identity, &budget, usize::MAX, placement, replayer);
            Ok(memory.evicting(rebuild, &files, identity.database))
        };
        let (mut rebuilt, recovered) = recover_planned(&plan, &*disk, rebuild, progress)?;
        let unfinished = rebuilt.take_back_loads()?;
        let (mut members, schema, replayer) = rebuilt.into_parts();
        if durable && recovered.read_only.is_none() {
            files.remove_left();
            if let Some(device) = measured {
                device.keep(&*disk);
            }
        }
        for member in &mut members {
            member.transaction = Transaction::charged(Head::default(), undo_bytes_max, Arc::clone(&budget));
        }
        set_limit(&budget, memory_bytes_max);
        let full = keep_limits(&mut members, &budget, memory_bytes_max).map(|cause| ReadOnly {
            until: Sequence(recovered.end.next.0.saturating_sub(1)),
            cause,
            older: None,
        });
        let read_only = recovered.read_only.clone().or(full);
        let definitions = replayer.into_definitions().with(schema, limits);
        let definitions = definitions.refusing(read_only.as_ref().map(ReadOnly::refusal));
        let catalog = Arc::new(Catalog::new(definitions));

        let commit_waiters = CommitWaiters::new(members.len());
        let (log, journal): (_, Arc<dyn Journal>) = if durable && read_only.is_some() {
            // Nothing is ever written.
            (None, Arc::new(NoJournal))
        } else if durable {
            if Control::read(&*disk)?.is_none() {
                Control { identity, log: LogExtent::NotBegun }.write(&*disk)?;
            }
            let writer = Writer::new(Arc::clone(&disk), identity, log_settings.segment_bytes, recovered.end.clone())
                .with_room(log_settings.room_bytes);
            let released = Arc::clone(&commit_waiters);
            let on_released = Box::new(move |sequence| released.released(sequence));
            let collector = Collector::new(log_settings, recovered.end.next);
            let log = LogThread::start(collector, writer, Arc::clone(&budget), on_released)?;
            // Results of reads wait only for the records before them.
            commit_waiters.released(Ok(log.handle().released()));
            let handle = log.handle();
            let mut ended = taken_back(&unfinished, recovered.transaction, recovered.timestamp)?;
            if !ended.is_empty() {
                handle.append(&mut ended)?;
            }
            (Some(log), Arc::new(handle))
        } else if recovered.end.next == Sequence::ZERO.next() {
            (None, Arc::new(NoJournal))
        } else {
            return Err(Error::cannot_open("a database that has a log cannot be opened without one"));
        };
        let start = recovered.timestamp;
        let options = Options {
            queue_length,
            results_bytes_max,
            idle_max: idle_timeout,
            first_transaction: TransactionId(recovered.transaction.0 + 1),
            seed: random.next(),
            waits_max,
            // Time continues from the end of the log even if the clock was set back.
            clock: Box::new(move || Micros(clock().0.max(start.0))),
        };
        let engine = Executors::start(options, members, journal, commit_waiters)?;
        let handle = engine.handle();
        let source = |log: &LogThread| Source {
            block_files: Arc::clone(&files),
            disk: Arc::clone(&disk),
            identity,
            handle: handle.clone(),
            log: log.handle(),
            catalog: Arc::clone(&catalog),
            settings: snapshots,
            log_bytes: recovered.progress.log_bytes,
            is_outdated: recovered.older.is_some(),
            notices,
        };
        let snapshots = log.as_ref().map(source).map(Snapshots::start).transpose()?;
        let trimmer = Trimmer::start(&budget)?;
        let shared = Shared {
            snapshots,
            handle,
            engine,
            catalog,
            log,
            budget,
            _block_writer: block_writer,
            _trimmer: trimmer,
            disk,
            idle_timeout,
            statement_timeout,
            query_rows_max,
            identity,
            read_only,
            _lock: lock,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A session, which executes SQL one statement at a time.
    pub fn session(&self) -> RowSession {
        RowSession::new(Arc::clone(&self.shared))
    }

    /// A client, which can have many transactions in flight.
    pub fn client(&self) -> Client<Work> {
        self.shared.engine.client()
    }

    /// Prepares a statement for a [`Client`]. After a definition it is refused with 40001 and must be prepared again.
    pub fn prepare(&self, sql: &str) -> Result<Arc<Work>> {
        let (catalog, budget) = (&self.shared.catalog, &self.shared.budget);
        let mut make = || make_room(&self.shared.handle, budget);
        let room = Room { budget, make: &mut make };
        Work::new_with_room(catalog, catalog.current(), sql, room).map(Arc::new)
    }

    /// Prepares a procedure for a [`Client`]; valid as long as a statement of [`RowEngine::prepare`].
    pub fn procedure(&self, name: &str) -> Result<Arc<Work>> {
        let catalog = &self.shared.catalog;
        Work::procedure(catalog, catalog.current(), name).map(Arc::new)
    }

    /// All definitions.
    pub fn schema(&self) -> Schema {
        self.shared.catalog.current().schema.clone()
    }

    /// Identity of the database and its number of partitions.
    pub fn identity(&self) -> Identity {
        self.shared.identity
    }

    /// Why it is read-only, which state it shows and how to go on; `None` if it is writable. Writers get this as an
    /// error with SQLSTATE 25006, or 53100 if the disk is full.
    pub fn read_only(&self) -> Option<&ReadOnly> {
        self.shared.read_only.as_ref()
    }

    /// Number of transactions and statements that ran again because they needed a partition that they did not have.
    pub fn restarts(&self) -> u64 {
        self.shared.engine.restarts()
    }

    /// Memory by use, in total.
    pub fn memory(&self) -> MemoryReport {
        MemoryReport::of(&self.shared.budget)
    }

    /// Bytes that rows, indexes and locators take.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.budget.used()
    }

    /// Hash of each table's rows and their ids, for each partition in order: equal for equal content, wherever its rows
    /// are. Reads all rows, and holds each partition meanwhile.
    ///
    /// # Errors
    /// If evicted rows cannot be read.
    pub fn state_hashes(&self) -> Result<Vec<BTreeMap<TableId, u64>>> {
        let of = |id| self.shared.handle.visit(PartitionId(id), |member| member.partition.state_hashes())?;
        (0..self.shared.identity.partitions).map(of).collect()
    }

    /// Takes a snapshot of everything committed before, waits for it, and removes the log before it. Transactions go on
    /// meanwhile. If it fails, the earlier snapshot and the log stay unchanged. Snapshots are also taken automatically:
    /// see [`SnapshotSettings`](super::SnapshotSettings).
    pub fn snapshot(&self) -> Result<SnapshotReport> {
        self.shared.snapshots()?.take()
    }

    /// Results of the last snapshots.
    pub fn snapshot_status(&self) -> SnapshotStatus {
        self.shared.snapshots.as_ref().map(Snapshots::status).unwrap_or_default()
    }

    /// Internal state, for tests that drive it.
    #[cfg(test)]
    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Writes a backup into an empty directory: the state at a moment after this call began.
    pub fn backup(&self, into: &dyn Disk) -> Result<Manifest> {
        // The snapshot may take long.
        Copying::Backup.begin(into)?;
        self.snapshot()?;
        let _kept = self.shared.snapshots()?.keep();
        backup(&*self.shared.disk, into)
    }

    /// Allows more or less memory from now on; see [`Settings::memory_bytes_max`].
    pub fn set_memory_bytes_max(&self, bytes: u64) {
        set_limit(&self.shared.budget, bytes);
        self.shared.handle.notify();
    }

    /// Runs the queued requests, writes the waiting records and returns whether all of them are durable. Takes a
    /// snapshot first if the next start would have a [long log](super::SnapshotSettings) to replay.
    ///
    /// # Errors
    /// If sessions are open, which keep the database open until the last of them is dropped; or if the log has failed.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.shared) {
            Ok(Shared { snapshots, engine, log, budget, .. }) => {
                if let Some(snapshots) = &snapshots {
                    snapshots.close(budget.used());
                }
                drop(snapshots);
                engine.stop();
                log.map_or(Ok(()), LogThread::close)
            }
            Err(_) => Err(Class::ActiveTransaction.error("the database has open sessions")),
        }
    }
}

/// Evicts rows until all partitions together are within the limit. If a full disk has no room for rows beyond it,
/// raises the limit, so that there is memory to read them, and returns why.
fn keep_limits(members: &mut [Member], budget: &Budget, bytes_max: u64) -> Option<Error> {
    let mut full = None;
    for member in members {
        // Each left room when it was filled, and others have grown since. Other errors do not end the start either: who
        // needs the memory is told.
        if let Err(cause @ Error::DiskFull(_)) = member.partition.keep_limit() {
            full = Some(cause);
        }
    }
    let full = full.filter(|_| budget.used() > bytes_max)?;
    let reserve = reserve_of(bytes_max);
    budget.set_limit(budget.used() + reserve, reserve);
    Some(full)
}

fn set_limit(budget: &Budget, bytes: u64) {
    budget.set_limit(bytes, reserve_of(bytes));
}

impl Shared {
    /// The memory budget of the database.
    pub const fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn snapshots(&self) -> Result<&Snapshots> {
        self.read_only.as_ref().map_or(Ok(()), |read_only| Err(read_only.refusal()))?;
        let missing = || Class::InvalidParameter.error("a database without a log has no snapshots");
        self.snapshots.as_ref().ok_or_else(missing)
    }

    /// Begins to read tables, all at one place in the order of all transactions, and waits until their contents are
    /// durable. Returns, for each request, a reader for each partition, or for the first one of a replicated table. It
    /// can be interrupted before it begins.
    pub fn read_tables(
        self: &Arc<Self>,
        mut requests: Vec<ReadRequest>,
        interrupt: &Arc<Interrupt>,
    ) -> Result<Vec<Vec<TableReader>>> {
        let reads = self.handle.exclusively_interruptible(interrupt, move |members, _, _| {
            let mut reads = Vec::with_capacity(requests.len());
            for request in &mut requests {
                let mut of_table = Vec::with_capacity(members.len());
                for member in &mut *members {
                    let read = member.partition.read(request)?;
                    of_table.extend(read.map(|read| (member.partition.id(), read)));
                }
                reads.push(of_table);
            }
            Ok(reads)
        })?;
        let reader = |(partition, read)| TableReader::new(self.handle.clone(), partition, read);
        Ok(reads.into_iter().map(|of_table| of_table.into_iter().map(reader).collect()).collect())
    }

    /// Contents of memory. `partitions` is `None` unless the caller has them.
    pub fn statistics(
        &self,
        partitions: Option<Vec<PartitionStatistics>>,
        interrupt: &Interrupt,
    ) -> Result<Statistics> {
        let partitions = match partitions {
            Some(partitions) => partitions,
            None => (0..self.identity.partitions)
                .map(|id| {
                    let id = PartitionId(id);
                    let held = (self.engine.held(id), self.engine.held_by_eviction(id));
                    let queued = self.engine.queued(id);
                    self.handle
                        .visit_interruptible(id, interrupt, move |member| PartitionStatistics::of(member, queued, held))
                })
                .collect::<Result<_>>()?,
        };
        Ok(Statistics {
            memory_bytes_max: self.budget.limit(),
            memory_bytes: self.budget.used(),
            working: MemoryReport::of(&self.budget).working,
            partitions,
        })
    }

    /// Changes the schema, at one point in the transaction order.
    pub fn define(&self, sql: &str, interrupt: &Arc<Interrupt>) -> Result<()> {
        let mut definition = Definition::new(&self.catalog, &self.handle, sql, Some(interrupt));
        machine::run(&mut definition, self.handle.clock())
    }
}
