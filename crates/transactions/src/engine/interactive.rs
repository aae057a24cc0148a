use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::executor::{Target, abort, commit, log_effects};
use super::meeting::{Gathered, Meeting};
use super::program::{Program, Route};
use super::worker::Shared;
use crate::caught::caught;
use crate::error::{Class, Error, Result};
use crate::ids::Sequence;
use crate::interrupt::Interrupt;
use crate::log::Batch;
use crate::partition::{Member, Scope};
use crate::types::Value;

/// A transaction that a session leads statement by statement. Until it ends it has its partitions to
/// itself, so nothing else runs there: the compatible way, not the fast one.
///
/// ```text
///          run (Ok)                 commit, rollback
///  begin --------> open ---------------------------------> over
///                   |  run (Err), idle for too long         ^
///                   +--> failed: 25P02 -- rollback ---------+
/// ```
///
/// A failed one has given its partitions back already. Its effects are logged, not its statements.
pub struct Interactive<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    meeting: Arc<Meeting>,
    failed: bool,
}

impl<P: Program + ?Sized> Interactive<P> {
    /// Waits until the partitions of the route are free for it.
    pub(super) fn begin(
        shared: Arc<Shared<P>>,
        route: Route,
        idle_max: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<Self> {
        let count = shared.queues.len() as u32;
        let partitions = match Target::of(&route, count, 0) {
            Target::One(only) => vec![only],
            Target::Several(partitions) => partitions,
        };
        let meeting = Arc::new(Meeting::new(partitions.len(), idle_max));
        if !shared.meet(&partitions, &meeting, None, 0, false) {
            return Err(shared.refusal());
        }
        let session = Self { shared, meeting, failed: false };
        // What it will read may not be durable yet, and its results are told at once.
        drop(session.enter(&session.meeting, interrupt)?);
        let sequence = session.shared.journal.append(&mut Batch::default())?;
        session.shared.releases.wait(sequence)?;
        Ok(session)
    }

    fn enter<'a>(&self, meeting: &'a Meeting, interrupt: Option<&Interrupt>) -> Result<MutexGuard<'a, Gathered>> {
        if self.failed {
            return Err(Error::failed_transaction());
        }
        let idle = || Class::IdleTimeout.error("the transaction was rolled back: the session did nothing for too long");
        meeting.enter(interrupt)?.ok_or_else(|| self.shared.broken.lock().clone().unwrap_or_else(idle))
    }

    /// Runs a statement or a procedure in it. An error, also of having been stopped, ends the transaction.
    pub fn run(&mut self, program: &P, arguments: &[Value], interrupt: Option<&Arc<Interrupt>>) -> Result<P::Outcome> {
        let meeting = Arc::clone(&self.meeting);
        let mut state = self.enter(&meeting, None).inspect_err(|_| self.failed = true)?;
        let started = interrupt.map_or(Ok(()), |interrupt| interrupt.start());
        let result = caught("a statement of a session's transaction", || {
            started.and_then(|()| program.run(&mut Scope::with_interrupt(&mut state.members, interrupt), arguments))
        });
        state.touch();
        drop(state);
        self.told(result)
    }

    /// What a statement came to: an error ends the transaction, a panic the engine.
    fn told<T>(&mut self, result: Result<Result<T>>) -> Result<T> {
        match result {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(error)) => {
                self.fail();
                Err(error)
            }
            Err(panic) => {
                self.failed = true;
                self.meeting.cancel(panic.clone());
                self.shared.stop(panic.clone());
                Err(panic)
            }
        }
    }

    /// Looks at its partitions, and at what it changed there. An error ends it as one of a statement does.
    pub fn visit<T>(&mut self, look: impl FnOnce(&[Member]) -> Result<T>) -> Result<T> {
        let meeting = Arc::clone(&self.meeting);
        let mut state = self.enter(&meeting, None).inspect_err(|_| self.failed = true)?;
        let result = caught("a look at a session's transaction", || look(&state.members));
        state.touch();
        drop(state);
        self.told(result)
    }

    /// Whether it takes nothing but a rollback any more.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Undoes what it changed and gives the partitions back, because of an error that arose elsewhere. What
    /// is left to do is [`Interactive::rollback`].
    pub fn fail(&mut self) {
        if !self.failed
            && let Ok(Some(mut state)) = self.meeting.enter(None)
        {
            let aborted = abort(&mut state.members);
            self.meeting.end(state, aborted.map(|()| Sequence::ZERO));
        }
        self.failed = true;
    }

    /// Keeps what it changed, once that is durable.
    pub fn commit(mut self) -> Result<()> {
        let meeting = Arc::clone(&self.meeting);
        let mut state = self.enter(&meeting, None)?;
        self.failed = true;
        let mut batch = Batch::default();
        let appended = log_effects(&state.members, &mut batch).and_then(|()| self.shared.journal.append(&mut batch));
        match appended {
            Ok(sequence) => {
                commit(&mut state.members);
                meeting.end(state, Ok(sequence));
                self.shared.releases.wait(sequence)
            }
            Err(error) => {
                let aborted = abort(&mut state.members);
                meeting.end(state, aborted.map(|()| Sequence::ZERO));
                Err(error)
            }
        }
    }

    /// Undoes what it changed.
    pub fn rollback(self) {}
}

/// Without a commit it is rolled back.
impl<P: Program + ?Sized> Drop for Interactive<P> {
    fn drop(&mut self) {
        self.fail();
    }
}
