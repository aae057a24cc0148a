use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use thermocline_durability::disk::Disk;
use thermocline_durability::log::LogHandle;
use thermocline_durability::snapshot::{Barrier, Manifest, Taking};
use thermocline_machine::ids::{Identity, PartitionId, Sequence, TransactionId};
use thermocline_machine::{self as machine, Step, caught, run_steps};
use thermocline_types::{Error, Result};

use super::catalog::Catalog;
use super::notice::{Notice, Notices};
use super::work::Work;
use crate::engine::{Exclusive, Handle};

/// When snapshots are taken, and what they may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Bytes of log after which one is taken: about what recovery has to replay at most.
    pub log_bytes: u64,
    /// Time after which one is taken if anything has changed; `None` for never.
    pub interval: Option<Duration>,
    /// Percent of a partition's time that copying takes at most while transactions run there.
    pub time_percent: u8,
    /// Percent of the time that writing and syncing take at most while transactions run anywhere: what is left
    /// of the disk is the log's. A snapshot of so many bytes takes their time on an idle disk times 100 by this, or
    /// less: while a quarter of `memory_bytes_max` waits, it does not rest.
    pub write_percent: u8,
    /// Bytes of one partition's rows that wait for the disk, copied or as they were before a change; while there are
    /// more, the partition runs no transaction. What a single one has changed may be more than that.
    pub memory_bytes_max: usize,
    /// Bytes of log behind the newest snapshot from which on [`Database::close`](super::Database::close) takes one,
    /// so that the next start has little to replay: 16 MiB of small transactions are about a second. But not of less
    /// log than a quarter of the tables' memory: to write all rows takes longer than to replay that.
    pub closing_log_bytes: u64,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self {
            log_bytes: 1 << 30,
            interval: Some(Duration::from_secs(3600)),
            time_percent: 5,
            write_percent: 20,
            memory_bytes_max: 32 << 20,
            closing_log_bytes: 16 << 20,
        }
    }
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Its place in the log.
    pub position: Sequence,
    /// Rows of all partitions.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// How long it took; zero if nothing had changed since the one before.
    pub duration: Duration,
    /// The longest step: how long a partition did nothing else.
    pub pause_max: Duration,
}

/// Snapshot history since the database was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The last one.
    pub last: Option<SnapshotReport>,
    /// Why the last attempt failed; `None` if it did not.
    pub error: Option<Error>,
    /// Why segments of the log that the last one covers could not be removed; the next one tries again.
    pub log_error: Option<Error>,
    /// How many were taken.
    pub taken_total: u64,
    /// How many attempts failed.
    pub failed_total: u64,
    /// Whether one is being taken.
    pub is_running: bool,
    /// Bytes of log behind the newest one: about what the next start has to replay.
    pub log_bytes: u64,
}

/// Ids that a partition looks at in one step: less than a millisecond.
const STEP_IDS: u32 = 2048;
/// How often the size of the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Chunks are written at least so often while a partition rests from copying.
const WRITE_EVERY: Duration = Duration::from_millis(2);
/// A partition that ran no transaction for so long is idle. Between two groups of the log it may have nothing
/// to do for some milliseconds, because everybody waits for the disk.
const IDLE_AFTER: Duration = Duration::from_millis(50);
/// After an attempt that failed, the next one by size or time has to wait so long.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How often a snapshot begins again because of definitions.
const ATTEMPTS_MAX: u32 = 16;
/// The part of the tables' bytes that the log behind a snapshot may have when the database is closed: see
/// [`SnapshotSettings::closing_log_bytes`].
const CLOSING_SHARE: u64 = 4;

type Waiter = mpsc::SyncSender<Result<SnapshotReport>>;

#[derive(Debug, Default)]
struct State {
    /// Callers that wait for a snapshot which starts after their request.
    waiters: Vec<Waiter>,
    status: SnapshotStatus,
    stop: bool,
    /// A bug has ended the thread.
    panicked: Option<Error>,
    /// Bytes of log, replayed and appended, when the newest one began.
    covered_bytes: u64,
    /// Whether there is a log behind the newest one that ran with older semantics.
    is_outdated: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread that takes snapshots; dropping gives up the one it is at.
#[derive(Debug)]
pub(super) struct Snapshots {
    shared: Arc<Shared>,
    /// CommitQueue while the files of snapshots change.
    files: Arc<Mutex<()>>,
    log: LogHandle,
    /// Bytes of log that were replayed.
    replayed_bytes: u64,
    closing_log_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

/// Parts that the thread needs.
pub(super) struct Source {
    pub disk: Arc<dyn Disk>,
    pub identity: Identity,
    pub handle: Handle<Work>,
    pub log: LogHandle,
    pub catalog: Arc<Catalog>,
    pub settings: SnapshotSettings,
    /// Bytes of log that were replayed.
    pub log_bytes: u64,
    /// Whether some of that ran with older semantics. A snapshot is taken at once: the next version may not be able
    /// to replay it.
    pub is_outdated: bool,
    pub notices: Arc<Notices>,
}

impl Snapshots {
    pub fn start(source: Source) -> Result<Self> {
        let (shared, files) = (Arc::new(Shared::default()), Arc::new(Mutex::new(())));
        shared.state.lock().is_outdated = source.is_outdated;
        let (log, replayed_bytes) = (source.log.clone(), source.log_bytes);
        let closing_log_bytes = source.settings.closing_log_bytes;
        let (waited, notices) = (Arc::clone(&shared), Arc::clone(&source.notices));
        let taker = Taker { shared: Arc::clone(&shared), files: Arc::clone(&files), source };
        let run = move || {
            if let Err(panic) = caught("the snapshots' thread", || taker.run()) {
                notices(&Notice::SnapshotFailed(panic.clone()));
                let state = &mut *waited.state.lock();
                state.waiters.clear();
                state.status.is_running = false;
                state.status.error = Some(panic.clone());
                state.panicked = Some(panic);
            }
        };
        let thread = std::thread::Builder::new().name("snapshots".into()).spawn(run);
        let thread =
            thread.map_err(|error| Error::Io(format!("cannot start the snapshots' thread: {error}").into()))?;
        Ok(Self { shared, files, log, replayed_bytes, closing_log_bytes, thread: Some(thread) })
    }

    /// Takes one that has all that was committed before this call, and waits for it.
    pub fn take(&self) -> Result<SnapshotReport> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let mut state = self.shared.state.lock();
        if state.stop {
            return Err(closing());
        }
        if let Some(panic) = &state.panicked {
            return Err(panic.clone());
        }
        state.waiters.push(sender);
        drop(state);
        self.shared.changed.notify_all();
        receiver.recv().unwrap_or_else(|_| Err(self.shared.state.lock().panicked.clone().unwrap_or_else(closing)))
    }

    pub fn status(&self) -> SnapshotStatus {
        let (log_error, log_bytes) = (self.log.not_removed(), self.log_bytes());
        SnapshotStatus { log_error, log_bytes, ..self.shared.state.lock().status.clone() }
    }

    /// Bytes of log behind the newest one.
    fn log_bytes(&self) -> u64 {
        let bytes = self.replayed_bytes + self.log.appended_bytes();
        bytes.saturating_sub(self.shared.state.lock().covered_bytes)
    }

    /// Takes one before the database is closed, if the log behind the newest is [long](SnapshotSettings) beside
    /// tables of so many bytes. If it fails, the log has everything all the same.
    pub fn close(&self, table_bytes: u64) {
        let log_bytes = self.log_bytes();
        let is_long = log_bytes >= self.closing_log_bytes.max(table_bytes / CLOSING_SHARE);
        let is_outdated = self.shared.state.lock().is_outdated;
        if log_bytes > 0 && (is_long || is_outdated) {
            // Whoever has to know of an error is told by the thread.
            let _ = self.take();
        }
    }

    /// No snapshot is completed or removed while this is held.
    pub fn keep(&self) -> MutexGuard<'_, ()> {
        self.files.lock()
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "the snapshots' thread does not panic");
        }
    }
}

fn closing() -> Error {
    Error::Cancelled("the database is being closed".into())
}

struct Taker {
    shared: Arc<Shared>,
    files: Arc<Mutex<()>>,
    source: Source,
}

/// The last snapshot, which decides when the next is due.
struct Last {
    position: Sequence,
    log_bytes: u64,
    at: Instant,
}

impl Taker {
    fn run(self) {
        let position = Sequence(self.source.log.appended().0.saturating_sub(u64::from(self.source.log_bytes > 0)));
        let mut last = Last { position, log_bytes: 0, at: Instant::now() };
        let mut not_before = Instant::now();
        loop {
            let mut state = self.shared.state.lock();
            while !state.stop
                && state.waiters.is_empty()
                && !(Instant::now() >= not_before && (state.is_outdated || self.is_due(&last)))
            {
                self.shared.changed.wait_for(&mut state, LOOK_EVERY);
            }
            if state.stop {
                return;
            }
            let waiters = std::mem::take(&mut state.waiters);
            state.status.is_running = true;
            drop(state);

            let (log_bytes, at) = (self.log_bytes(), Instant::now());
            let result = self.take();
            let mut state = self.shared.state.lock();
            state.status.is_running = false;
            match &result {
                Ok(report) => {
                    last = Last { position: report.position, log_bytes, at };
                    state.status.taken_total += u64::from(!report.duration.is_zero());
                    state.status.error = None;
                    (state.covered_bytes, state.is_outdated) = (log_bytes, false);
                    if !report.duration.is_zero() || state.status.last.is_none() {
                        state.status.last = Some(report.clone());
                    }
                }
                Err(_) if state.stop => return,
                Err(error) => {
                    state.status.failed_total += 1;
                    state.status.error = Some(error.clone());
                    not_before = Instant::now() + RETRY_AFTER;
                }
            }
            drop(state);
            match (&result, self.source.log.not_removed()) {
                (Err(error), _) => (self.source.notices)(&Notice::SnapshotFailed(error.clone())),
                (Ok(_), Some(error)) => (self.source.notices)(&Notice::LogNotRemoved(error)),
                (Ok(_), None) => {}
            }
            for waiter in waiters {
                // Whoever does not wait any more need not know.
                let _ = waiter.send(result.clone());
            }
        }
    }

    fn log_bytes(&self) -> u64 {
        self.source.log_bytes + self.source.log.appended_bytes()
    }

    fn is_due(&self, last: &Last) -> bool {
        let SnapshotSettings { log_bytes, interval, .. } = &self.source.settings;
        let time = interval.is_some_and(|interval| last.at.elapsed() >= interval);
        self.log_bytes() - last.log_bytes >= *log_bytes || time && self.source.log.appended() > last.position
    }

    fn is_stopped(&self) -> bool {
        self.shared.state.lock().stop
    }

    fn take(&self) -> Result<SnapshotReport> {
        let mut attempts = 1;
        loop {
            match self.attempt() {
                // A definition came between.
                Err(Error::Retry(_)) if attempts < ATTEMPTS_MAX && !self.is_stopped() => attempts += 1,
                result => return result,
            }
        }
    }

    fn attempt(&self) -> Result<SnapshotReport> {
        let Source { disk, identity, handle, log, catalog, settings, .. } = &self.source;
        let start = Instant::now();
        let barrier =
            machine::run(&mut start_barrier(handle, log, catalog, settings.memory_bytes_max)?, handle.clock())?;
        let position = barrier.position();
        let files = self.files.lock();
        let taking = Taking::begin(Arc::clone(disk), *identity, barrier)?;
        drop(files);
        let Some(mut taking) = taking else {
            let manifest = Manifest::read(&**disk, position)?;
            return Ok(report(&manifest, Duration::ZERO, Duration::ZERO));
        };
        let pause_max = match self.copy(&mut taking) {
            Ok(pause_max) => pause_max,
            Err(error) => {
                // Its files are of no use; what cannot be removed now goes with the next one.
                let _ = taking.abandon();
                return Err(error);
            }
        };
        log.wait_durable(position)?;
        let files = self.files.lock();
        let manifest = taking.complete(log.durable())?;
        drop(files);
        log.remove_covered(position)?;
        Ok(report(&manifest, start.elapsed(), pause_max))
    }

    /// Copies and writes all rows. Each partition rests between its steps, in proportion to how long they
    /// took, unless nothing else runs there; and so does this thread between its writes. Gives back the longest
    /// step.
    fn copy(&self, taking: &mut Taking) -> Result<Duration> {
        let Source { handle, settings, .. } = &self.source;
        let rest = rest_for(settings.time_percent);
        let mut paces = vec![Pace::new(); handle.partitions()];
        let mut pause_max = Duration::ZERO;
        while !taking.is_copied() {
            if self.is_stopped() {
                return Err(closing());
            }
            let mut next = Instant::now() + WRITE_EVERY;
            let mut writing = Duration::ZERO;
            for (partition, pace) in (0..).map(PartitionId).zip(&mut paces) {
                let Some(copier) = taking.copier(partition) else { continue };
                let mut step = None;
                if pace.next <= Instant::now() {
                    let done = handle.start_visit(partition, move |member| {
                        let start = Instant::now();
                        let result = copier.step(&member.partition, STEP_IDS);
                        (result, start.elapsed(), member.transaction.head.id)
                    })?;
                    let clock = handle.clock();
                    let done = run_steps(clock, || match done.receive() {
                        // It may come only when what the partitions have copied so far is written.
                        Step::Wait(wait) => match taking.write_all() {
                            Ok(_) => Step::Wait(wait.until(clock.after(WRITE_EVERY))),
                            Err(error) => Step::Over(Err(error)),
                        },
                        Step::Go => Step::Go,
                        Step::Over(done) => Step::Over(done.ok_or_else(closing)),
                    });
                    let (result, took, transaction) = done?;
                    step = Some(result?);
                    pause_max = pause_max.max(took);
                    pace.saw(transaction);
                    pace.next = Instant::now() + if pace.is_idle { Duration::ZERO } else { took * rest };
                }
                let start = Instant::now();
                taking.write(partition, step)?;
                writing += start.elapsed();
                next = next.min(pace.next);
            }
            if taking.is_copied() {
                break;
            }
            if !paces.iter().all(|pace| pace.is_idle) && !taking.is_pressed() {
                next = next.max(Instant::now() + writing * rest_for(settings.write_percent));
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(pause_max)
    }
}

/// Brings all partitions to one place in the log, from which on a snapshot watches them; what is kept of their rows
/// for it takes so many bytes at most.
pub fn start_barrier(
    handle: &Handle<Work>,
    log: &LogHandle,
    catalog: &Arc<Catalog>,
    bytes_max: usize,
) -> Result<Exclusive<Work, Barrier>> {
    let (log, catalog) = (log.clone(), Arc::clone(catalog));
    handle.start_exclusively(move |members, head, _| {
        Ok(Barrier::at(members, head, log.appended(), &catalog.current().schema, bytes_max))
    })
}

/// How many times as long as some work the rest after it is, so that the work takes this share of the time.
fn rest_for(percent: u8) -> u32 {
    100_u32.div_ceil(u32::from(percent.clamp(1, 100))) - 1
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// When it may copy again.
    next: Instant,
    /// The last transaction that ran there; `None` before the first look.
    transaction: Option<TransactionId>,
    /// When it was seen first.
    since: Instant,
    /// Whether that was [long ago](IDLE_AFTER) at the last look.
    is_idle: bool,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self { next: now, transaction: None, since: now, is_idle: false }
    }

    fn saw(&mut self, transaction: TransactionId) {
        if self.transaction.replace(transaction) != Some(transaction) {
            self.since = Instant::now();
        }
        self.is_idle = self.since.elapsed() >= IDLE_AFTER;
    }
}

fn report(manifest: &Manifest, duration: Duration, pause_max: Duration) -> SnapshotReport {
    let rows = manifest.partitions.iter().map(|partition| partition.rows).sum();
    let bytes = manifest.partitions.iter().map(|partition| partition.bytes).sum();
    SnapshotReport { position: manifest.position, rows, bytes, duration, pause_max }
}
