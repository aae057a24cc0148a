//! The thread that drives the keeper of a log.

use std::sync::Arc;
use std::thread::JoinHandle;

use thermocline_machine::{self as machine, Clock};
use thermocline_tables::table::Budget;
use thermocline_types::{Error, Result};

use super::collector::Collector;
use super::handle::LogHandle;
use super::keeper::{OnReleased, start};
use super::writer::Writer;

/// The thread that writes and syncs. Dropping it writes the waiting records, then ends the log.
#[derive(Debug)]
pub struct LogThread {
    handle: LogHandle,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Starts the thread; the budget is charged for the buffers.
    pub fn start(collector: Collector, writer: Writer, budget: Arc<Budget>, on_released: OnReleased) -> Result<Self> {
        let clock = Clock::real();
        let (handle, mut keeper) = start(collector, writer, budget, clock.clone(), on_released);
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || machine::run(&mut keeper, &clock));
        let thread = thread.map_err(|error| Error::Io(format!("cannot start the log's thread: {error}").into()))?;
        Ok(Self { handle, thread: Some(thread) })
    }

    /// Handle for a partition.
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Writes the waiting records and ends the log; an error if it has failed.
    pub fn close(mut self) -> Result<()> {
        self.join();
        self.handle.check()
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.close();
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use thermocline_machine::ids::{DatabaseId, Identity, Sequence};
    use thermocline_machine::{Step, run_steps};

    use super::*;
    use crate::disk::{Disk, Faults, RealDisk, SimulatedDisk};
    use crate::log::record::tests::head;
    use crate::log::tests::sequences;
    use crate::log::{Appended, Batch, LogEnd, LogSettings};

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
        run_steps(&Clock::real(), || match log.try_append(&mut batch) {
            Ok(Appended::At(sequence)) => Step::Over(Ok(sequence)),
            Ok(Appended::Full(wait)) => Step::Wait(wait),
            Err(error) => Step::Over(Err(error)),
        })
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
