//! The thread that takes snapshots: schedule, pauses, retries and reports.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use thermocline_durability::blocks::BlockFiles;
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

/// Schedule and cost of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Bytes of log after which a snapshot is taken: approximately the most that recovery has to replay. A row that
    /// recovery would have to read from a block counts as 4 KiB of log. Also the bytes of files of blocks without rows,
    /// which stay for the newest snapshot, after which another is taken.
    pub log_bytes: u64,
    /// Time after which a snapshot is taken if anything has changed; `None` for never.
    pub interval: Option<Duration>,
    /// Maximum percentage of a partition's time for copying while transactions run there.
    pub time_percent: u8,
    /// Maximum percentage of the time for writing and syncing while transactions run anywhere: the rest of the disk's
    /// time is left to the log. Writing a snapshot then takes its time on an idle disk, times 100, divided by this; or
    /// less, because writing does not pause while a quarter of `memory_bytes_max` waits.
    pub write_percent: u8,
    /// Bytes of one partition's rows that wait for the disk, copied or as images of changed rows; while there are more,
    /// the partition runs no transaction. The changes of a single transaction may exceed this.
    pub memory_bytes_max: usize,
    /// Bytes of log after the newest snapshot from which on [`RowEngine::close`](super::RowEngine::close) takes one, so
    /// that the next start has little to replay: 16 MiB of small transactions take about a second. A row that recovery
    /// would have to read from a block counts as 4 KiB of log. No snapshot is taken
    /// if the log is smaller than a quarter of the tables' memory: writing all rows would take longer than replaying
    /// it. As many bytes of files of blocks without rows are a reason, too.
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

/// Report of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Its place in the log.
    pub position: Sequence,
    /// Rows of all partitions.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Duration; zero if nothing had changed since the last one.
    pub duration: Duration,
    /// The longest step, during which a partition did nothing else.
    pub pause_max: Duration,
}

/// Snapshot history since the database was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The last snapshot.
    pub last: Option<SnapshotReport>,
    /// Why the last attempt failed; `None` if it succeeded.
    pub error: Option<Error>,
    /// Why log segments covered by the last snapshot could not be removed; the next snapshot tries again.
    pub log_error: Option<Error>,
    /// Snapshots taken.
    pub taken_total: u64,
    /// Attempts that failed.
    pub failed_total: u64,
    /// Whether a snapshot is in progress.
    pub is_running: bool,
    /// Bytes of log after the newest snapshot: approximately what the next start replays.
    pub log_bytes: u64,
}

/// Ids visited in one step of a partition: less than a millisecond.
const STEP_IDS: u32 = 2048;
/// Interval at which the size of the log is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Interval at which chunks are written while a partition pauses copying.
const WRITE_EVERY: Duration = Duration::from_millis(2);
/// A partition without a transaction for this long is idle. Between two groups of the log it may have no work for some
/// milliseconds, because all clients wait for the disk.
const IDLE_AFTER: Duration = Duration::from_millis(50);
/// Delay after a failed attempt before the next scheduled one.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// Number of times that a snapshot begins again because of definitions.
const ATTEMPTS_MAX: u32 = 16;
/// One part in this many of the tables' bytes may remain as log after a snapshot when the database is closed: see
/// [`SnapshotSettings::closing_log_bytes`].
const CLOSING_SHARE: u64 = 4;

/// Bytes of log as which a row counts that a replay has to read from a block.
const READ_BYTES: u64 = 4 << 10;

type Waiter = mpsc::SyncSender<Result<SnapshotReport>>;

#[derive(Debug, Default)]
struct State {
    /// Callers that wait for a snapshot which starts after their request.
    waiters: Vec<Waiter>,
    status: SnapshotStatus,
    stop: bool,
    /// The panic that has ended the thread.
    panicked: Option<Error>,
    /// Bytes of log, replayed and appended, when the newest snapshot began, and rows that a replay would have read.
    covered: (u64, u64),
    /// Whether log after the newest snapshot ran with older semantics.
    is_outdated: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread that takes snapshots; dropping it abandons the snapshot in progress.
#[derive(Debug)]
pub(super) struct Snapshots {
    shared: Arc<Shared>,
    /// Held while the files of snapshots change.
    files: Arc<Mutex<()>>,
    block_files: Arc<BlockFiles>,
    log: LogHandle,
    /// Bytes of log replayed at the start.
    replayed_bytes: u64,
    closing_log_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

/// Parts of the database that the thread needs.
pub(super) struct Source {
    pub disk: Arc<dyn Disk>,
    pub block_files: Arc<BlockFiles>,
    pub identity: Identity,
    pub handle: Handle<Work>,
    pub log: LogHandle,
    pub catalog: Arc<Catalog>,
    pub settings: SnapshotSettings,
    /// Bytes of log replayed at the start.
    pub log_bytes: u64,
    /// Whether some of that ran with older semantics. Then a snapshot is taken at once, because the next version may
    /// not be able to replay it.
    pub is_outdated: bool,
    pub notices: Arc<Notices>,
}

impl Snapshots {
    pub fn start(source: Source) -> Result<Self> {
        let (shared, files) = (Arc::new(Shared::default()), Arc::new(Mutex::new(())));
        shared.state.lock().is_outdated = source.is_outdated;
        let (log, replayed_bytes) = (source.log.clone(), source.log_bytes);
        let (closing_log_bytes, block_files) = (source.settings.closing_log_bytes, Arc::clone(&source.block_files));
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
        Ok(Self { shared, files, block_files, log, replayed_bytes, closing_log_bytes, thread: Some(thread) })
    }

    /// Takes a snapshot of everything committed before this call, and waits for it.
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

    /// Bytes of log after the newest snapshot.
    fn log_bytes(&self) -> u64 {
        let bytes = self.replayed_bytes + self.log.appended_bytes();
        bytes.saturating_sub(self.shared.state.lock().covered.0)
    }

    /// [`Self::log_bytes`] with the rows that a replay would read from blocks.
    fn replay_bytes(&self) -> u64 {
        let covered = self.shared.state.lock().covered.1;
        let reads = self.block_files.replay_reads().saturating_sub(covered);
        self.log_bytes().saturating_add(reads.saturating_mul(READ_BYTES))
    }

    /// Takes a snapshot before the database is closed, if the log after the newest one is [long](SnapshotSettings)
    /// relative to `table_bytes`, or the files that stay for that one are. If this fails, nothing is lost: everything is in the log.
    pub fn close(&self, table_bytes: u64) {
        let log_bytes = self.log_bytes();
        let most = self.closing_log_bytes.max(table_bytes / CLOSING_SHARE);
        let is_long = self.replay_bytes() >= most || self.block_files.kept_bytes() >= most;
        let is_outdated = self.shared.state.lock().is_outdated;
        if log_bytes > 0 && (is_long || is_outdated) {
            // The thread reports errors.
            let _ = self.take();
        }
    }

    /// Keeps snapshots from being completed or removed while the guard is held.
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
    /// Rows that a replay of the log before it would have read from blocks.
    reads: u64,
    at: Instant,
}

impl Taker {
    fn run(self) {
        let position = Sequence(self.source.log.appended().0.saturating_sub(u64::from(self.source.log_bytes > 0)));
        let mut last = Last { position, log_bytes: 0, reads: 0, at: Instant::now() };
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
            let reads = self.source.block_files.replay_reads();
            let result = self.take();
            let mut state = self.shared.state.lock();
            state.status.is_running = false;
            match &result {
                Ok(report) => {
                    last = Last { position: report.position, log_bytes, reads, at };
                    state.status.taken_total += u64::from(!report.duration.is_zero());
                    state.status.error = None;
                    (state.covered, state.is_outdated) = ((log_bytes, reads), false);
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
                // The caller may have stopped waiting.
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
        let (kept, changed) = (self.source.block_files.kept_bytes(), self.source.log.appended() > last.position);
        let reads = self.source.block_files.replay_reads().saturating_sub(last.reads);
        let replay_bytes = (self.log_bytes() - last.log_bytes).saturating_add(reads.saturating_mul(READ_BYTES));
        (time || kept >= *log_bytes || replay_bytes >= *log_bytes) && changed
    }

    fn is_stopped(&self) -> bool {
        self.shared.state.lock().stop
    }

    fn take(&self) -> Result<SnapshotReport> {
        let mut attempts = 1;
        loop {
            match self.attempt() {
                // A definition ran meanwhile.
                Err(Error::Retry(_)) if attempts < ATTEMPTS_MAX && !self.is_stopped() => attempts += 1,
                result => return result,
            }
        }
    }

    fn attempt(&self) -> Result<SnapshotReport> {
        let Source { disk, block_files, identity, handle, log, catalog, settings, .. } = &self.source;
        let start = Instant::now();
        // A backup may have them for long: nobody waits for the copy of what changes meanwhile.
        let files = self.files.lock();
        let barrier =
            machine::run(&mut start_barrier(handle, log, catalog, settings.memory_bytes_max)?, handle.clock())?;
        let position = barrier.position();
        let taking = Taking::begin(Arc::clone(disk), *identity, barrier, block_files)?;
        drop(files);
        let Some(mut taking) = taking else {
            let manifest = Manifest::read(&**disk, position)?;
            return Ok(report(&manifest, Duration::ZERO, Duration::ZERO));
        };
        let pause_max = match self.copy(&mut taking) {
            Ok(pause_max) => pause_max,
            Err(error) => {
                // Its files are useless; the next snapshot removes those that cannot be removed now.
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

    /// Copies and writes all rows. Each partition pauses after a step in proportion to its duration, unless nothing
    /// else runs there, and so does this thread after a write. Returns the longest step.
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
                        let result = copier.step(&mut member.partition, STEP_IDS);
                        (result, start.elapsed(), member.transaction.head.id)
                    })?;
                    let clock = handle.clock();
                    let done = run_steps(clock, || match done.receive() {
                        // The step may have to wait until the chunks copied so far are written.
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

/// Brings all partitions to one place in the log, where a snapshot begins to track them; `bytes_max` bounds the images
/// kept for it.
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

/// Ratio of pause to work at which the work takes this percentage of the time.
fn rest_for(percent: u8) -> u32 {
    100_u32.div_ceil(u32::from(percent.clamp(1, 100))) - 1
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// When the next copying step is due.
    next: Instant,
    /// Last transaction that ran there; `None` before the first check.
    transaction: Option<TransactionId>,
    /// When that transaction was first seen.
    since: Instant,
    /// Whether that was [long ago](IDLE_AFTER) at the last check.
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
