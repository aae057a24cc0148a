//! The thread around the log.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::collector::{Collector, Due};
use super::record::Batch;
use super::segments::{Removal, Segments};
use super::writer::Writer;
use crate::caught::caught;
use crate::disk::Disk;
use crate::ids::{Micros, Sequence};
use crate::table::{Budget, Working};
use crate::{Error, Result};

/// Called after what may be told to clients has changed, from the log's thread: with the last
/// released sequence, or the error that ended the log.
pub type OnReleased = Box<dyn FnMut(Result<Sequence>) + Send>;

/// Partitions' access to the log; cloning gives another one.
#[derive(Debug, Clone)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something to do for the log's thread.
    work: Condvar,
    /// Something has become durable, or the log has failed.
    progress: Condvar,
    /// What moments are counted from.
    start: Instant,
    /// Whether results wait until they are durable.
    is_synchronous: bool,
    segments: Segments,
    disk: Arc<dyn Disk>,
}

#[derive(Debug)]
struct State {
    collector: Collector,
    /// Why segments that a snapshot covers are still there; `None` if none are.
    not_removed: Option<Error>,
    closing: bool,
    /// Bytes of the group that is being written.
    in_flight: usize,
    budget: Arc<Budget>,
    /// What the budget was told.
    charged: usize,
}

impl State {
    fn memory_bytes(&self) -> usize {
        self.collector.memory_bytes() + self.in_flight
    }

    /// Buffers seldom get another size.
    fn charge(&mut self) {
        let bytes = self.memory_bytes();
        self.budget.resize_working(Working::Log, self.charged, bytes);
        self.charged = bytes;
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.budget.resize_working(Working::Log, self.charged, 0);
    }
}

/// The thread that writes and syncs; dropping writes what waits, then ends the log.
#[derive(Debug)]
pub struct LogThread {
    handle: LogHandle,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Starts the thread; the budget is told of the buffers.
    pub fn start(collector: Collector, writer: Writer, budget: Arc<Budget>, on_released: OnReleased) -> Result<Self> {
        // Before the thread runs: whatever is appended meanwhile has to be told.
        let (told, is_synchronous) = (collector.released(), collector.is_synchronous());
        let state =
            Mutex::new(State { collector, not_removed: None, closing: false, in_flight: 0, budget, charged: 0 });
        let (work, progress, start) = (Condvar::new(), Condvar::new(), Instant::now());
        let (segments, disk) = (writer.shared_segments(), writer.disk());
        let shared = Shared { state, work, progress, start, is_synchronous, segments, disk };
        let handle = LogHandle { shared: Arc::new(shared) };
        let shared = Arc::clone(&handle.shared);
        let thread =
            std::thread::Builder::new().name("log".into()).spawn(move || shared.run(writer, told, on_released));
        let thread = thread.map_err(|error| Error::Io(format!("cannot start the log's thread: {error}").into()))?;
        Ok(Self { handle, thread: Some(thread) })
    }

    /// Access for a partition.
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Writes what waits and ends the log; an error if it has failed.
    pub fn close(mut self) -> Result<()> {
        self.join();
        self.handle.shared.state.lock().collector.check()
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.shared.state.lock().closing = true;
            self.handle.shared.work.notify_all();
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "the log's thread does not panic");
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.join();
    }
}

impl LogHandle {
    /// [`Collector::append`]; waits while the buffer is full.
    pub fn append(&self, batch: &mut Batch) -> Result<Sequence> {
        let now = self.shared.now();
        let mut state = self.shared.state.lock();
        while !batch.is_empty() && !state.collector.has_room(batch.bytes()) {
            state.collector.check()?;
            self.shared.progress.wait(&mut state);
        }
        let before = state.collector.due(now);
        let sequence = state.collector.append(batch, now)?;
        state.charge();
        // The thread sleeps until something is due; it need not know of every append.
        if state.collector.due(now) != before {
            self.shared.work.notify_one();
        }
        Ok(sequence)
    }

    /// Whether results wait until they are durable.
    pub fn is_synchronous(&self) -> bool {
        self.shared.is_synchronous
    }

    /// [`Collector::released`].
    pub fn released(&self) -> Sequence {
        self.shared.state.lock().collector.released()
    }

    /// [`Collector::appended`].
    pub fn appended(&self) -> Sequence {
        self.shared.state.lock().collector.appended()
    }

    /// [`Collector::durable`].
    pub fn durable(&self) -> Sequence {
        self.shared.state.lock().collector.durable()
    }

    /// [`Collector::appended_bytes`].
    pub fn appended_bytes(&self) -> u64 {
        self.shared.state.lock().collector.appended_bytes()
    }

    /// Waits until everything up to this sequence is durable, at once rather than after the interval.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<()> {
        let mut state = self.shared.state.lock();
        while state.collector.durable() < sequence {
            state.collector.check()?;
            state.collector.hurry();
            self.shared.work.notify_one();
            self.shared.progress.wait(&mut state);
        }
        Ok(())
    }

    /// Removes the segments that a snapshot of the state up to this sequence covers, in the caller's thread: the
    /// log goes on meanwhile. What cannot be removed stays until the next time; see [`LogHandle::not_removed`].
    ///
    /// # Errors
    /// If the directory could not be synced, which ends the log: nobody knows any more what a crash would leave.
    pub fn remove_covered(&self, covered: Sequence) -> Result<()> {
        let removed = self.shared.segments.remove_covered(&*self.shared.disk, covered);
        let removal = removed.unwrap_or_else(|error| Removal { kept: Some(error), unsynced: None });
        let mut state = self.shared.state.lock();
        state.not_removed = removal.kept;
        let Some(error) = removal.unsynced else { return Ok(()) };
        state.collector.fail(error.clone());
        drop(state);
        self.shared.work.notify_one();
        Err(error)
    }

    /// Why segments that a snapshot covers could not be removed; the next snapshot tries again.
    pub fn not_removed(&self) -> Option<Error> {
        self.shared.state.lock().not_removed.clone()
    }

    /// Bytes of memory in its buffers.
    pub fn memory_bytes(&self) -> usize {
        self.shared.state.lock().memory_bytes()
    }
}

impl Shared {
    fn now(&self) -> Micros {
        Micros(i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn run(&self, mut writer: Writer, told: Sequence, mut on_released: OnReleased) {
        let served = caught("the log's thread", || self.serve(&mut writer, told, &mut on_released));
        if let Err(error) = served {
            // Whoever waits for something to become durable would wait for ever.
            self.state.lock().collector.fail(error.clone());
            self.progress.notify_all();
            on_released(Err(error));
        }
    }

    fn serve(&self, writer: &mut Writer, mut told: Sequence, on_released: &mut OnReleased) {
        let mut state = self.state.lock();
        loop {
            if let Err(error) = state.collector.check() {
                self.progress.notify_all();
                drop(state);
                return on_released(Err(error));
            }
            let closing = state.closing;
            match state.collector.due(self.now()) {
                Due::Later if closing => {
                    drop(state);
                    let closed = writer.close();
                    if let Err(error) = closed {
                        self.state.lock().collector.fail(error);
                    }
                    return;
                }
                Due::Later => self.work.wait(&mut state),
                Due::At(at) if !closing => {
                    let wait = u64::try_from(at.0 - self.now().0).unwrap_or(0);
                    self.work.wait_for(&mut state, Duration::from_micros(wait));
                }
                Due::At(_) | Due::Now => {
                    if let Some(mut group) = state.collector.take() {
                        state.in_flight = group.memory_bytes();
                        state.charge();
                        drop(state);
                        let result = writer.write(&mut group).and_then(|()| writer.sync());
                        state = self.state.lock();
                        state.collector.done(group, result);
                        state.in_flight = 0;
                        state.charge();
                        self.progress.notify_all();
                    }
                }
            }
            let released = state.collector.released();
            if released != told && state.collector.check().is_ok() {
                told = released;
                drop(state);
                on_released(Ok(released));
                state = self.state.lock();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::disk::{Faults, RealDisk, SimulatedDisk};
    use crate::ids::{DatabaseId, Identity};
    use crate::log::record::tests::head;
    use crate::log::tests::sequences;
    use crate::log::{LogEnd, LogSettings};

    fn start(disk: Arc<dyn Disk>, settings: LogSettings) -> (LogThread, mpsc::Receiver<Result<Sequence>>) {
        let identity = Identity { database: DatabaseId(1), partitions: 2 };
        let writer = Writer::new(disk, identity, settings.segment_bytes, LogEnd::empty());
        let (sender, receiver) = mpsc::channel();
        let on_released = Box::new(move |released| drop(sender.send(released)));
        let budget = Arc::new(Budget::unlimited());
        (LogThread::start(Collector::new(settings, Sequence(1)), writer, budget, on_released).unwrap(), receiver)
    }

    fn append(log: &LogHandle) -> Result<Sequence> {
        let mut batch = Batch::default();
        batch.definition(&head(&[]), "DROP TABLE t").unwrap();
        log.append(&mut batch)
    }

    #[test]
    fn many_threads_append_and_all_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
        let settings = LogSettings { segment_bytes: 10_000, buffer_bytes_max: 2_000, ..LogSettings::default() };
        let (log, released) = start(Arc::clone(&disk), settings);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let log = log.handle();
                    let mut last = Sequence::ZERO;
                    for _ in 0..200 {
                        let sequence = append(&log).unwrap();
                        assert!(sequence > last);
                        last = sequence;
                    }
                    log.wait_durable(last).unwrap();
                });
            }
        });
        assert_eq!(log.handle().released(), Sequence(800));
        log.close().unwrap();
        let released: Vec<_> = released.iter().map(Result::unwrap).collect();
        assert!(released.is_sorted() && released.last() == Some(&Sequence(800)));
        assert_eq!(sequences(&*disk), (1..=800).collect::<Vec<_>>());
    }

    #[test]
    fn what_waits_is_written_when_the_log_is_closed() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1, Faults::default()));
        let settings = LogSettings { commit_interval_us: u32::MAX, ..LogSettings::default() };
        let (log, _released) = start(Arc::clone(&disk), settings);
        append(&log.handle()).unwrap();
        drop(log);
        assert_eq!(sequences(&*disk), [1]);
    }

    #[test]
    fn what_is_appended_before_the_thread_runs_is_released() {
        for _ in 0..200 {
            let settings = LogSettings { synchronous_commit: false, ..LogSettings::default() };
            let (log, released) = start(Arc::new(SimulatedDisk::new(1, Faults::default())), settings);
            append(&log.handle()).unwrap();
            assert_eq!(released.recv_timeout(Duration::from_secs(30)), Ok(Ok(Sequence(1))));
        }
    }

    #[test]
    fn a_failed_sync_ends_the_log_for_everybody() {
        let faults = Faults { sync: 1, ..Faults::default() };
        let (log, released) = start(Arc::new(SimulatedDisk::new(1, faults)), LogSettings::default());
        let handle = log.handle();
        let sequence = append(&handle).unwrap();
        assert!(matches!(handle.wait_durable(sequence), Err(Error::Io(_))));
        assert!(matches!(released.recv().unwrap(), Err(Error::Io(_))));
        assert!(matches!(append(&handle), Err(Error::Io(_))));
        assert!(matches!(log.close(), Err(Error::Io(_))));
        assert_eq!(handle.released(), Sequence::ZERO);
    }
}
