//! Access of partitions, commits and snapshots to the log, and the state shared with its keeper.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::Sequence;
use thermocline_machine::{Clock, EventCount, Step, Wait, run_steps};
use thermocline_tables::table::{Budget, Working};
use thermocline_types::{Error, Result};

use super::collector::Collector;
use super::record::Batch;
use super::segments::{Removal, Segments};
use super::writer::Writer;
use crate::disk::Disk;
use crate::log::Appended;

/// Access of partitions to the log; clones share it.
#[derive(Debug, Clone)]
pub struct LogHandle {
    pub(super) shared: Arc<Shared>,
}

/// State shared by partitions and the log's [`Keeper`](super::Keeper).
#[derive(Debug)]
pub(super) struct Shared {
    pub state: Mutex<State>,
    /// Advances when the keeper has something to do.
    pub work: Arc<EventCount>,
    /// Advances when something has become durable, or the log has failed.
    pub progress: Arc<EventCount>,
    pub clock: Clock,
    /// Whether results wait until they are durable.
    is_synchronous: bool,
    segments: Segments,
    disk: Arc<dyn Disk>,
}

#[derive(Debug)]
pub(super) struct State {
    pub collector: Collector,
    /// Why segments that a snapshot covers are still there; `None` if none are.
    pub not_removed: Option<Error>,
    pub closing: bool,
    /// Bytes of the group that is being written.
    pub in_flight: usize,
    budget: Arc<Budget>,
    /// Bytes charged to the budget.
    charged: usize,
}

impl State {
    fn memory_bytes(&self) -> usize {
        self.collector.memory_bytes() + self.in_flight
    }

    /// Charges the budget for the buffers, if their size has changed, which is rare.
    pub fn charge(&mut self) {
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

impl LogHandle {
    /// Access to this collector, and to its keeper.
    pub(super) fn new(collector: Collector, writer: &Writer, budget: Arc<Budget>, clock: Clock) -> Self {
        let is_synchronous = collector.is_synchronous();
        let state =
            Mutex::new(State { collector, not_removed: None, closing: false, in_flight: 0, budget, charged: 0 });
        let (work, progress) = (EventCount::new(), EventCount::new());
        let (segments, disk) = (writer.shared_segments(), writer.disk());
        Self { shared: Arc::new(Shared { state, work, progress, clock, is_synchronous, segments, disk }) }
    }

    /// [`Collector::append`], if there is room.
    pub fn try_append(&self, batch: &mut Batch) -> Result<Appended> {
        let seen = self.shared.progress.seen();
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if !batch.is_empty() && !state.collector.has_room(batch.bytes()) {
            state.collector.check()?;
            return Ok(Appended::Full(Wait::new(&self.shared.progress, seen)));
        }
        let before = state.collector.due(now);
        let sequence = state.collector.append(batch, now)?;
        state.charge();
        // The keeper sleeps until something is due; most appends need not wake it.
        let is_due = state.collector.due(now) != before;
        drop(state);
        if is_due {
            self.shared.work.advance();
        }
        Ok(Appended::At(sequence))
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

    /// [`Collector::check`].
    pub fn check(&self) -> Result<()> {
        self.shared.state.lock().collector.check()
    }

    /// Waits until everything up to this sequence is durable; has it written at once instead of after the interval.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<()> {
        run_steps(&self.shared.clock, || self.reach_durable(sequence))
    }

    /// [`Self::wait_durable`] as a step, for callers that drive it.
    pub fn reach_durable(&self, sequence: Sequence) -> Step<Result<()>> {
        let seen = self.shared.progress.seen();
        let mut state = self.shared.state.lock();
        if state.collector.durable() >= sequence {
            return Step::Over(Ok(()));
        }
        if let Err(error) = state.collector.check() {
            return Step::Over(Err(error));
        }
        state.collector.hurry();
        drop(state);
        self.shared.work.advance();
        Step::Wait(Wait::new(&self.shared.progress, seen))
    }

    /// Removes the segments that a snapshot of the state up to this sequence covers, in the caller's thread, while the
    /// log goes on. Segments that cannot be removed stay until the next call; see [`LogHandle::not_removed`].
    ///
    /// # Errors
    /// If the directory could not be synced. That ends the log: it is unknown which names a crash would leave.
    pub fn remove_covered(&self, covered: Sequence) -> Result<()> {
        let removed = self.shared.segments.remove_covered(&*self.shared.disk, covered);
        let removal = removed.unwrap_or_else(|error| Removal { kept: Some(error), unsynced: None });
        let mut state = self.shared.state.lock();
        state.not_removed = removal.kept;
        let Some(error) = removal.unsynced else { return Ok(()) };
        state.collector.fail(error.clone());
        drop(state);
        self.shared.work.advance();
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

    /// Has the waiting records written and the log ended.
    pub fn close(&self) {
        self.shared.state.lock().closing = true;
        self.shared.work.advance();
    }
}
