use std::sync::Arc;
use std::time::Duration;

use super::executor::{Target, abort, commit, log_effects};
use super::meeting::Meeting;
use super::program::{Appended, Program, Route};
use super::shared::Shared;
use crate::caught::caught;
use crate::error::{Class, Error, Result};
use crate::ids::Sequence;
use crate::interrupt::Interrupt;
use crate::log::Batch;
use crate::machine::{Machine, Step};
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
/// A failed one has given its partitions back already. Its effects are logged, not its statements. It waits in
/// `Begin` and `Commit`, never in between.
pub struct Interactive<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    meeting: Arc<Meeting>,
    failed: bool,
}

impl<P: Program + ?Sized> Interactive<P> {
    /// Runs a statement or a procedure in it. An error, also of having been stopped, ends the transaction.
    pub fn run(&mut self, program: &P, arguments: &[Value], interrupt: Option<&Arc<Interrupt>>) -> Result<P::Outcome> {
        let clock = self.shared.clock.clone();
        self.with_members("a statement of a session's transaction", |members| {
            let Some(stops) = interrupt else { return program.run(&mut Scope::new(members), arguments) };
            stops.start()?;
            let begun = clock.now();
            let result = program.run(&mut Scope::with_interrupt(members, interrupt), arguments);
            stops.add_held(clock.since(begun));
            result
        })
    }

    /// Looks at its partitions, and at what it changed there. An error ends it as one of a statement does.
    pub fn visit<T>(&mut self, look: impl FnOnce(&[Member]) -> Result<T>) -> Result<T> {
        self.with_members("a look at a session's transaction", |members| look(members))
    }

    /// An error ends the transaction, a panic the engine.
    fn with_members<T>(&mut self, what: &str, work: impl FnOnce(&mut [Member]) -> Result<T>) -> Result<T> {
        let mut members = self.take().inspect_err(|_| self.failed = true)?;
        match caught(what, || work(&mut members)) {
            Ok(Ok(done)) => {
                self.meeting.put_back(members);
                Ok(done)
            }
            Ok(Err(error)) => {
                self.end(members);
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

    /// Its partitions, unless it has lost them.
    fn take(&self) -> Result<Vec<Member>> {
        if self.failed {
            return Err(Error::failed_transaction());
        }
        match self.meeting.enter(None) {
            Step::Over(entered) => entered?.ok_or_else(|| lost(&self.shared)),
            Step::Go | Step::Wait(_) => Err(Error::internal("a session that waits for partitions that it has")),
        }
    }

    /// Undoes what it changed and gives the partitions back.
    fn end(&mut self, mut members: Vec<Member>) {
        let aborted = abort(&mut members);
        self.meeting.end(members, aborted.map(|()| Sequence::ZERO));
        self.failed = true;
    }

    /// Whether it takes nothing but a rollback any more.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Undoes what it changed and gives the partitions back, because of an error that arose elsewhere. What
    /// is left to do is [`Interactive::rollback`].
    pub fn fail(&mut self) {
        if !self.failed {
            match self.meeting.enter(None) {
                Step::Over(Ok(Some(members))) => self.end(members),
                // Not all of them are here yet.
                Step::Go | Step::Wait(_) => self.meeting.give_up(),
                Step::Over(_) => {}
            }
        }
        self.failed = true;
    }

    /// Keeps what it changed, once that is durable.
    pub fn commit(self) -> Result<()> {
        let clock = self.shared.clock.clone();
        crate::machine::run(&mut self.start_commit(), &clock)
    }

    /// The same, for who drives it.
    pub(crate) fn start_commit(self) -> Commit<P> {
        Commit { session: self, state: Committing::Begun }
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

/// Why a transaction has no partitions any more.
fn lost<P: Program + ?Sized>(shared: &Shared<P>) -> Error {
    let idle = || Class::IdleTimeout.error("the transaction was rolled back: the session did nothing for too long");
    shared.broken.lock().clone().unwrap_or_else(idle)
}

/// The way to an [`Interactive`]: waits for its partitions, then until all that it could read there is durable,
/// because its results are told at once.
pub struct Begin<P: Program + ?Sized> {
    /// `None` once it was handed over.
    session: Option<Interactive<P>>,
    interrupt: Option<Arc<Interrupt>>,
    /// Up to where the log has to be durable; `None` before it has its partitions.
    sequence: Option<Sequence>,
}

impl<P: Program + ?Sized> Begin<P> {
    /// Asks for the partitions of the route.
    pub(crate) fn new(
        shared: Arc<Shared<P>>,
        route: Route,
        idle_max: Duration,
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Result<Self> {
        let count = shared.queues.len() as u32;
        let partitions = match Target::of(&route, count, 0) {
            Target::One(only) => vec![only],
            Target::Several(partitions) => partitions,
        };
        let meeting = Arc::new(Meeting::new(partitions.len(), idle_max, shared.clock.clone()));
        if !shared.meet(&partitions, &meeting, None, 0, false) {
            return Err(shared.refusal());
        }
        let session = Interactive { shared, meeting, failed: false };
        Ok(Self { session: Some(session), interrupt: interrupt.map(Arc::clone), sequence: None })
    }

    fn next(&mut self) -> Result<Step<Interactive<P>>> {
        let Some(session) = &mut self.session else {
            return Err(Error::internal("a transaction that begins twice"));
        };
        let Some(sequence) = self.sequence else {
            let members = match session.meeting.enter(self.interrupt.as_deref()) {
                Step::Wait(wait) => return Ok(Step::Wait(wait)),
                Step::Go => return Ok(Step::Go),
                Step::Over(entered) => entered?.ok_or_else(|| lost(&session.shared))?,
            };
            session.meeting.put_back(members);
            match session.shared.journal.append(&mut Batch::default())? {
                Appended::At(sequence) => self.sequence = Some(sequence),
                Appended::Full(wait) => return Ok(Step::Wait(wait)),
            }
            return Ok(Step::Go);
        };
        match session.shared.releases.reach(sequence) {
            Step::Wait(wait) => Ok(Step::Wait(wait)),
            Step::Go => Ok(Step::Go),
            Step::Over(reached) => {
                reached?;
                let session = self.session.take();
                session.map(Step::Over).ok_or_else(|| Error::internal("a transaction that begins twice"))
            }
        }
    }
}

impl<P: Program + ?Sized> Machine for Begin<P> {
    type Output = Result<Interactive<P>>;

    fn step(&mut self) -> Step<Self::Output> {
        match self.next() {
            Ok(step) => step.map(Ok),
            Err(error) => Step::Over(Err(error)),
        }
    }
}

/// The end of an [`Interactive`] that is kept.
///
/// ```text
///  Begun ---effects to a batch---> Logging ---record in the log, partitions given back---> Logged ---durable--->
/// ```
pub struct Commit<P: Program + ?Sized> {
    session: Interactive<P>,
    state: Committing,
}

enum Committing {
    Begun,
    /// Its partitions and its records, which wait for room in the log.
    Logging(Vec<Member>, Batch),
    Logged(Sequence),
}

/// One that nobody drives any more gives the partitions back.
impl<P: Program + ?Sized> Drop for Commit<P> {
    fn drop(&mut self) {
        if let Committing::Logging(members, _) = std::mem::replace(&mut self.state, Committing::Begun) {
            self.session.end(members);
        }
    }
}

impl<P: Program + ?Sized> Commit<P> {
    /// The partitions whose records the next step gives to the log, if there is room.
    pub(crate) fn appending(&self) -> &[Member] {
        match &self.state {
            Committing::Logging(members, batch) if !batch.is_empty() => members,
            _ => &[],
        }
    }
}

impl<P: Program + ?Sized> Machine for Commit<P> {
    type Output = Result<()>;

    fn step(&mut self) -> Step<Result<()>> {
        let Self { session, state } = self;
        match std::mem::replace(state, Committing::Begun) {
            Committing::Begun => {
                let members = match session.take() {
                    Ok(members) => members,
                    Err(error) => return Step::Over(Err(error)),
                };
                let mut batch = session.shared.batch(&members);
                if let Err(error) = log_effects(&members, &mut batch) {
                    session.end(members);
                    return Step::Over(Err(error));
                }
                *state = Committing::Logging(members, batch);
            }
            Committing::Logging(mut members, mut batch) => match session.shared.journal.append(&mut batch) {
                Ok(Appended::Full(wait)) => {
                    *state = Committing::Logging(members, batch);
                    return Step::Wait(wait);
                }
                Ok(Appended::At(sequence)) => {
                    session.failed = true;
                    commit(&mut members);
                    session.meeting.end(members, Ok(sequence));
                    *state = Committing::Logged(sequence);
                }
                Err(error) => {
                    session.end(members);
                    return Step::Over(Err(error));
                }
            },
            Committing::Logged(sequence) => {
                *state = Committing::Logged(sequence);
                return session.shared.releases.reach(sequence);
            }
        }
        Step::Go
    }
}
