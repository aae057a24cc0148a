//! The machine that writes and syncs groups of records and reports them as durable.

use std::fmt;
use std::sync::Arc;

use thermocline_machine::ids::Sequence;
use thermocline_machine::{Clock, Machine, Step, Wait, caught};
use thermocline_tables::table::Budget;
use thermocline_types::{Error, Result};

use super::collector::{Collector, Due, PendingGroup};
use super::handle::{LogHandle, Shared};
use super::writer::Writer;

/// Called with the last released sequence whenever it has changed, or with the error that ended the log.
pub type OnReleased = Box<dyn FnMut(Result<Sequence>) + Send>;

/// Writes and syncs the groups of the [`Collector`] and reports the result.
///
/// ```text
///             due                                      closing, nothing waits
///   Look ------------> Write ----> Sync ---+ done   +---------------------> Close ---> the end
///    ^ |                                   |        |
///    | +-- released is not told --> Tell --+--> Look+--- the log has failed: told ---> the end
///    |
///    +---- nothing is due: waits
/// ```
///
/// Invariant: a sequence is told when the collector has released it, which is after its group was synced.
pub struct Keeper {
    shared: Arc<Shared>,
    writer: Writer,
    on_released: OnReleased,
    told: Sequence,
    state: State,
}

#[derive(Debug)]
enum State {
    Look,
    Write(PendingGroup),
    Sync(PendingGroup),
    Close,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, told, state, .. } = self;
        f.debug_struct("Keeper")
            .field("writer", writer)
            .field("told", told)
            .field("state", state)
            .finish_non_exhaustive()
    }
}

/// A log and its keeper before the first step; the budget is charged for the buffers.
pub fn start(
    collector: Collector,
    writer: Writer,
    budget: Arc<Budget>,
    clock: Clock,
    on_released: OnReleased,
) -> (LogHandle, Keeper) {
    // Everything appended from now on has to be reported.
    let told = collector.released();
    let handle = LogHandle::new(collector, &writer, budget, clock);
    let shared = Arc::clone(&handle.shared);
    (handle, Keeper { shared, writer, on_released, told, state: State::Look })
}

impl Machine for Keeper {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        match caught("the log's thread", || self.next()) {
            Ok(step) => step,
            Err(error) => {
                // Otherwise those waiting for durability would wait for ever.
                self.shared.state.lock().collector.fail(error.clone());
                self.failed(error)
            }
        }
    }
}

impl Keeper {
    fn next(&mut self) -> Step<()> {
        match std::mem::replace(&mut self.state, State::Look) {
            State::Look => return self.look(),
            State::Write(mut group) => match self.writer.write(&mut group) {
                Ok(()) => self.state = State::Sync(group),
                Err(error) => self.done(group, Err(error)),
            },
            State::Sync(group) => {
                let synced = self.writer.sync();
                self.done(group, synced);
            }
            State::Close => {
                if let Err(error) = self.writer.close() {
                    self.shared.state.lock().collector.fail(error);
                }
                return Step::Over(());
            }
        }
        Step::Go
    }

    fn look(&mut self) -> Step<()> {
        let seen = self.shared.work.seen();
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if let Err(error) = state.collector.check() {
            drop(state);
            return self.failed(error);
        }
        let released = state.collector.released();
        if released != self.told {
            self.told = released;
            drop(state);
            (self.on_released)(Ok(released));
            return Step::Go;
        }
        let wait = Wait::new(&self.shared.work, seen);
        match state.collector.due(now) {
            Due::Later if state.closing => self.state = State::Close,
            Due::Later => return Step::Wait(wait),
            Due::At(at) if !state.closing => return Step::Wait(wait.until(at)),
            Due::At(_) | Due::Now => {
                if let Some(group) = state.collector.take() {
                    state.in_flight = group.memory_bytes();
                    state.charge();
                    self.state = State::Write(group);
                }
            }
        }
        Step::Go
    }

    /// Notes that a group is durable, or that its write or sync failed.
    fn done(&self, group: PendingGroup, result: Result<()>) {
        let mut state = self.shared.state.lock();
        state.collector.done(group, result);
        state.in_flight = 0;
        state.charge();
        drop(state);
        self.shared.progress.advance();
    }

    fn failed(&mut self, error: Error) -> Step<()> {
        self.shared.progress.advance();
        (self.on_released)(Err(error));
        Step::Over(())
    }
}
