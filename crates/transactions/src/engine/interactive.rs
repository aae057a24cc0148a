//! Transactions that a session leads statement by statement.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermocline_durability::log::{Appended, Batch};
use thermocline_machine::ids::{PartitionId, Sequence};
use thermocline_machine::interrupt::Interrupt;
use thermocline_machine::{Machine, Step, caught, run_steps};
use thermocline_tables::partition::{Head, Member, Participants, Scope};
use thermocline_types::{Class, Error, Result, Value};

use super::commit::Commit;
use super::executor::{self, Target, abort};
use super::lock_table::{Asking, Owner};
use super::program::Program;
use super::rendezvous::{Purpose, Rendezvous};
use super::shared::{Shared, WIDENED_MAX};

/// A transaction that a session leads statement by statement. It owns the partitions that its statements have needed,
/// and nothing else runs there until it ends: the compatible way, not the fast one.
///
/// ```text
///            run, of partitions that it owns: nothing waits
///                 +------+
///   Begin         v      |          commit, rollback
///  -------------> open --+---------------------------------------> over
///                 ^  |   run (Err), idle for too long               ^
///                 |  +--> failed: 25P02 -- rollback ----------------+
///                 |  |
///  what may be    |  | run, of others as well: their names go into the lock table
///  read there is  |  v
///  durable        |  coming: its rows wait with it -- stopped, deadlock --> failed
///                 |  |
///                 |  | the last one brings its rows to their rendezvous
///                 +--+
/// ```
///
/// A statement that turns out to need another partition while it runs is undone, gets the partition and runs again. A
/// failed statement has already given back its partitions, unless there is a [mark](Mark) to return to: then it alone is
/// undone, and the session decides. The log gets the transaction's effects, not its statements:
/// one or more records of one group, over all its partitions. Results of statements are told at once; therefore the
/// transaction waits, when partitions come, until everything that it could read there is durable.
pub struct Interactive<P: Program + ?Sized> {
    pub(super) shared: Arc<Shared<P>>,
    owner: Owner,
    idle_max: Duration,
    /// Rendezvous with its partitions, in the order in which they came.
    all_rendezvous: Vec<Arc<Rendezvous>>,
    /// The partitions in order during a statement; between two statements they are at their rendezvous.
    members: Vec<Member>,
    /// Each partition and the number of its rendezvous, which does not change.
    places: Vec<(PartitionId, usize)>,
    /// Number of times that the statement turned out to need more.
    widened: usize,
    /// Identity of the transaction; `None` before the first partition has come.
    head: Option<Head>,
    /// Whether an error of a statement undoes that statement alone.
    is_restorable: bool,
    pub(super) state: State,
}

/// A place in a session's transaction that it can return to: the length of the undo in each partition that it had. In
/// partitions that have come since, and in all of the default, this is the beginning.
#[derive(Debug, Clone, Default)]
pub struct Mark(Vec<(PartitionId, usize)>);

/// State of a session's transaction.
pub(super) enum State {
    /// No statement runs.
    Open,
    /// A statement has all partitions that the transaction owns.
    Entered,
    /// A statement waits for more partitions.
    Coming(Arc<Rendezvous>),
    /// They are here; their contents need not be durable yet.
    Here,
    /// Waits until the log is durable up to this sequence.
    Durable(Sequence),
    /// It has given back its partitions.
    Over,
}

impl<P: Program + ?Sized> Interactive<P> {
    fn new(shared: Arc<Shared<P>>, idle_max: Duration) -> Self {
        let owner = Owner(shared.sessions.fetch_add(1, Ordering::Relaxed));
        let (all_rendezvous, members, places) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            shared,
            owner,
            idle_max,
            all_rendezvous,
            members,
            places,
            widened: 0,
            head: None,
            is_restorable: false,
            state: State::Open,
        }
    }

    /// Says whether the session has a mark to return to after an error. Errors of waiting for partitions, such as an
    /// interruption, end the transaction all the same.
    pub fn set_restorable(&mut self, is_restorable: bool) {
        self.is_restorable = is_restorable;
    }

    /// The place where it is now.
    ///
    /// # Errors
    /// If it has ended.
    pub fn mark(&mut self) -> Result<Mark> {
        self.visit(|members| {
            Mark(members.iter().map(|member| (member.partition.id(), member.transaction.undo.len())).collect())
        })
    }

    /// Undoes its changes since a mark.
    ///
    /// # Errors
    /// If it has ended, or breaks down.
    pub fn restore(&mut self, mark: &Mark) -> Result<()> {
        self.enter()?;
        let length = |id| mark.0.iter().find(|(marked, _)| *marked == id).map_or(0, |(_, length)| *length);
        let marks: Vec<usize> = self.members.iter().map(|member| length(member.partition.id())).collect();
        self.undo_statement(&marks)
    }

    /// Runs a statement or a procedure in it. Any error, including an interruption, ends the transaction, unless it is
    /// [restorable](Self::set_restorable).
    pub fn run(&mut self, program: &P, arguments: &[Value], interrupt: Option<&Arc<Interrupt>>) -> Result<P::Outcome> {
        let clock = self.shared.clock.clone();
        run_steps(&clock, || self.step(program, arguments, interrupt))
    }

    /// [`Self::run`] as a step: call it with the same program and arguments until it is over.
    pub fn step(
        &mut self,
        program: &P,
        arguments: &[Value],
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Step<Result<P::Outcome>> {
        let clock = self.shared.clock.clone();
        let work = |members: &mut [Member]| {
            let Some(stops) = interrupt else { return program.run(&mut Scope::new(members), arguments) };
            stops.start()?;
            let begun = clock.now();
            let result = program.run(&mut Scope::with_interrupt(members, interrupt), arguments);
            stops.add_held(clock.since(begun));
            result
        };
        self.step_with(|| program.participants(arguments), interrupt, "a statement of a session's transaction", work)
    }

    /// Reads all partitions of the database, including its own changes, and owns them from then on. An error ends it
    /// like that of a statement.
    pub fn visit_all<T>(
        &mut self,
        interrupt: Option<&Arc<Interrupt>>,
        look: impl FnOnce(&[Member]) -> Result<T>,
    ) -> Result<T> {
        let clock = self.shared.clock.clone();
        let mut look = Some(look);
        let mut looked = |members: &mut [Member]| {
            let look = look.take().ok_or_else(|| Error::internal("a look that is taken twice"))?;
            look(members)
        };
        let what = "a look at a session's transaction";
        run_steps(&clock, || self.step_with(|| Ok(Participants::All), interrupt, what, &mut looked))
    }

    /// Reads the partitions that it owns.
    pub fn visit<T>(&mut self, look: impl FnOnce(&[Member]) -> T) -> Result<T> {
        self.enter()?;
        let looked = look(&self.members);
        self.put_back();
        Ok(looked)
    }

    /// Gives back memory of the tables of its partitions between two statements; says whether it did.
    pub fn make_room(&mut self) -> bool {
        if self.enter().is_err() {
            return false;
        }
        // A block that cannot be written is tried again by the statement that needs the memory, which tells why.
        let made = executor::make_room_beside(&mut self.members).unwrap_or(false);
        self.members.iter_mut().for_each(|member| member.partition.unpin());
        self.put_back();
        made
    }

    fn step_with<T>(
        &mut self,
        participants: impl FnOnce() -> Result<Participants>,
        interrupt: Option<&Arc<Interrupt>>,
        what: &str,
        work: impl FnOnce(&mut [Member]) -> Result<T>,
    ) -> Step<Result<T>> {
        let next = match self.state {
            State::Open => self
                .enter()
                .and_then(|()| participants())
                .and_then(|participants| self.ask(&self.missing(&participants))),
            State::Entered => return self.attempt(what, work),
            State::Coming(_) | State::Here | State::Durable(_) => match self.come(interrupt) {
                Ok(Some(wait)) => return wait.map(|never: Infallible| match never {}),
                come => come.map(|_| ()),
            },
            State::Over => Err(Error::failed_transaction()),
        };
        match next {
            Ok(()) => Step::Go,
            Err(error) => {
                match self.state {
                    // Nothing of the statement has run.
                    State::Entered => self.fail_statement(&[]),
                    _ => self.fail(),
                }
                Step::Over(Err(error))
            }
        }
    }

    /// Ends a statement that has failed and changed rows behind these marks; and the transaction, unless it can be
    /// restored.
    fn fail_statement(&mut self, marks: &[usize]) {
        // An error of this has stopped the engine.
        if !self.is_restorable || self.undo_statement(marks).is_err() {
            self.fail();
        }
    }

    /// Undoes changes to the mark in each partition, and keeps the partitions.
    fn undo_statement(&mut self, marks: &[usize]) -> Result<()> {
        if let Err(broken) = self.undo_to(marks) {
            self.break_down(&broken);
            return Err(broken);
        }
        self.members.iter_mut().for_each(|member| member.partition.unpin());
        self.put_back();
        Ok(())
    }

    /// Runs work on its partitions, and ends the statement unless it needs another partition.
    fn attempt<T>(&mut self, what: &str, work: impl FnOnce(&mut [Member]) -> Result<T>) -> Step<Result<T>> {
        let mut members = std::mem::take(&mut self.members);
        let marks: Vec<_> = members.iter().map(|member| member.transaction.undo.len()).collect();
        let done = caught(what, || work(&mut members));
        self.members = members;
        match done {
            Ok(Ok(done)) => {
                self.members.iter_mut().for_each(|member| member.partition.unpin());
                self.put_back();
                Step::Over(Ok(done))
            }
            Ok(Err(Error::OtherPartition(wanted))) => {
                if let Err(broken) = self.undo_to(&marks) {
                    self.break_down(&broken);
                    return Step::Over(Err(broken));
                }
                match self.widen(&wanted) {
                    Ok(()) => Step::Go,
                    Err(error) => {
                        self.fail();
                        Step::Over(Err(error))
                    }
                }
            }
            Ok(Err(error @ (Error::Evicted | Error::OutOfMemory(_)))) => {
                let again = self.undo_to(&marks).and_then(|()| match &error {
                    Error::Evicted => {
                        self.shared.eviction_holds.hold(&mut self.members, executor::bring_back).map(|()| true)
                    }
                    _ => self.shared.eviction_holds.hold(&mut self.members, executor::make_room_beside),
                });
                // Other partitions may have room, once it has them as well.
                let again = match again {
                    Ok(false) if self.shared.may_have_room(&self.members) => self.widen(&[]).map(|()| true),
                    again => again,
                };
                match again {
                    Ok(true) => return Step::Go,
                    Ok(false) => self.fail_statement(&marks),
                    Err(worse) => {
                        self.fail_statement(&marks);
                        return Step::Over(Err(worse));
                    }
                }
                Step::Over(Err(error))
            }
            Ok(Err(error)) => {
                self.fail_statement(&marks);
                Step::Over(Err(error))
            }
            Err(panic) => {
                self.break_down(&panic);
                Step::Over(Err(panic))
            }
        }
    }

    /// Undoes the changes of a statement, to the mark in each partition.
    fn undo_to(&mut self, marks: &[usize]) -> Result<()> {
        self.members.iter_mut().zip(marks).try_for_each(|(member, mark)| {
            let (partition, transaction) = member.split();
            partition.undo_to(transaction, *mark)
        })
    }

    /// Requests the partitions that a statement turned out to need: all if it names none, or has needed more
    /// repeatedly.
    fn widen(&mut self, wanted: &[u32]) -> Result<()> {
        self.widened += 1;
        let all = wanted.is_empty() || self.widened >= WIDENED_MAX;
        let wanted = if all { self.shared.all() } else { wanted.to_vec() };
        let missing: Vec<_> = wanted.into_iter().filter(|number| !self.owns(*number)).collect();
        if missing.is_empty() {
            return Err(Error::internal("a statement needs another partition, and has it"));
        }
        self.shared.restarts.fetch_add(1, Ordering::Relaxed);
        self.ask(&missing)
    }

    fn owns(&self, number: u32) -> bool {
        self.places.iter().any(|(id, _)| u32::from(id.0) == number)
    }

    /// The largest partition that it owns; `None` if it owns none.
    fn last(&self) -> Option<u32> {
        self.places.iter().map(|(id, _)| u32::from(id.0)).max()
    }

    /// The participants that it does not own, ascending.
    fn missing(&self, participants: &Participants) -> Vec<u32> {
        let count = self.shared.queues.len() as u32;
        // Any partition will do, so it takes one that it owns.
        let own = self.places.first().map(|(id, _)| u32::from(id.0));
        let any = own.unwrap_or(self.owner.0 as u32 % count.max(1));
        let wanted = match Target::of(participants, count, any) {
            Target::One(only) => vec![only],
            Target::Several(partitions) => partitions,
        };
        wanted.into_iter().filter(|number| !self.owns(*number)).collect()
    }

    /// Whether a statement's participants, as declared, include no partition before one that it owns, and it has not
    /// asked for more than these, such as for all when memory is short.
    pub fn is_in_order(&self, program: &P, arguments: &[Value]) -> bool {
        let last = self.last();
        let first =
            program.participants(arguments).ok().and_then(|participants| self.missing(&participants).first().copied());
        self.widened == 0 && first.is_none_or(|first| last.is_none_or(|last| first > last))
    }

    /// Requests partitions that it does not own, if any.
    fn ask(&mut self, missing: &[u32]) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let rendezvous =
            Arc::new(Rendezvous::new(missing, Purpose::RowSession(self.idle_max), self.shared.clock.clone()));
        self.shared.enter_for(Asking { owner: self.owner, last: self.last() }, missing, &rendezvous)?;
        self.state = State::Coming(rendezvous);
        Ok(())
    }

    /// Continues until all requested partitions are here; returns a wait, if any.
    fn come(&mut self, interrupt: Option<&Arc<Interrupt>>) -> Result<Option<Step<Infallible>>> {
        match &self.state {
            State::Coming(rendezvous) => match rendezvous.enter(interrupt.map(Arc::as_ref)) {
                Step::Wait(wait) => return Ok(Some(Step::Wait(wait))),
                Step::Go => {}
                Step::Over(entered) => {
                    let rendezvous = Arc::clone(rendezvous);
                    let members = entered?.ok_or_else(|| lost(&self.shared))?;
                    self.add(rendezvous, members);
                    self.state = State::Here;
                }
            },
            State::Here => match self.shared.journal.append(&mut Batch::default())? {
                Appended::At(sequence) => self.state = State::Durable(sequence),
                Appended::Full(wait) => return Ok(Some(Step::Wait(wait))),
            },
            State::Durable(sequence) => match self.shared.commit_waiters.reach(*sequence) {
                Step::Wait(wait) => return Ok(Some(Step::Wait(wait))),
                Step::Go => {}
                Step::Over(reached) => {
                    reached?;
                    self.state = State::Entered;
                }
            },
            State::Open | State::Entered | State::Over => {
                return Err(Error::internal("a session that waits for partitions that it has"));
            }
        }
        Ok(None)
    }

    /// Adds partitions to the transaction.
    fn add(&mut self, rendezvous: Arc<Rendezvous>, mut members: Vec<Member>) {
        let first = members.first().map(|member| member.transaction.head).unwrap_or_default();
        executor::begin(&mut members, *self.head.get_or_insert(first));
        self.places.extend(members.iter().map(|member| (member.partition.id(), self.all_rendezvous.len())));
        self.all_rendezvous.push(rendezvous);
        self.members.append(&mut members);
        self.members.sort_unstable_by_key(|member| member.partition.id());
    }

    /// Takes its partitions from their rendezvous; an error if it has lost one, or has failed.
    pub(super) fn enter(&mut self) -> Result<()> {
        if !matches!(self.state, State::Open) {
            return Err(Error::failed_transaction());
        }
        self.state = State::Entered;
        let mut entered = Ok(());
        for rendezvous in &self.all_rendezvous {
            match rendezvous.enter(None) {
                Step::Over(Ok(Some(members))) if self.members.is_empty() => self.members = members,
                Step::Over(Ok(Some(mut members))) => self.members.append(&mut members),
                Step::Over(Ok(None)) => entered = Err(lost(&self.shared)),
                Step::Over(Err(error)) => entered = Err(error),
                Step::Go | Step::Wait(_) => {
                    entered = Err(Error::internal("a session that waits for partitions that it has"));
                }
            }
        }
        if entered.is_err() {
            self.fail();
        }
        self.members.sort_unstable_by_key(|member| member.partition.id());
        entered
    }

    /// Takes its partitions, grouped by rendezvous, to be given back.
    fn apart(&mut self) -> impl Iterator<Item = (&Arc<Rendezvous>, Vec<Member>)> {
        let mut apart: Vec<Vec<Member>> = self.all_rendezvous.iter().map(|_| Vec::new()).collect();
        if let [all] = &mut apart[..] {
            std::mem::swap(all, &mut self.members);
        }
        for member in self.members.drain(..) {
            let place = self.places.iter().find(|(id, _)| *id == member.partition.id());
            if let Some(members) = place.and_then(|(_, place)| apart.get_mut(*place)) {
                members.push(member);
            }
        }
        self.all_rendezvous.iter().zip(apart)
    }

    /// Ends a statement; the transaction keeps its partitions.
    fn put_back(&mut self) {
        self.apart().for_each(|(rendezvous, members)| rendezvous.put_back(members));
        (self.state, self.widened) = (State::Open, 0);
    }

    /// Gives its partitions back; work there may be told when the log is durable up to `sequence`.
    pub(super) fn give_back(&mut self, sequence: Sequence) {
        self.apart().filter(|(_, members)| !members.is_empty()).for_each(|(rendezvous, members)| {
            rendezvous.end(members, Ok(sequence));
        });
        self.state = State::Over;
    }

    /// Its partitions during a statement or a commit.
    pub(super) fn members(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// Its partitions during a statement or a commit, for reading.
    pub(super) fn entered(&self) -> &[Member] {
        &self.members
    }

    /// Stops the engine.
    fn break_down(&mut self, error: &Error) {
        self.state = State::Over;
        self.members.clear();
        self.all_rendezvous.iter().for_each(|rendezvous| rendezvous.cancel(error.clone()));
        self.shared.stop(error.clone());
    }

    /// Whether it accepts only a rollback.
    pub const fn has_failed(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Undoes its changes and gives the partitions back after an error. Only [`Interactive::rollback`] remains.
    pub fn fail(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => return,
            State::Open => {
                for rendezvous in &self.all_rendezvous {
                    // An idle session may have lost them.
                    if let Step::Over(Ok(Some(mut members))) = rendezvous.enter(None) {
                        self.members.append(&mut members);
                    }
                }
            }
            State::Coming(rendezvous) => {
                self.shared.withdraw(&rendezvous);
                rendezvous.give_up();
                self.shared.nudge(&rendezvous);
            }
            State::Entered | State::Here | State::Durable(_) => {}
        }
        match abort(&mut self.members) {
            Ok(()) => {
                self.members.iter_mut().for_each(|member| member.partition.unpin());
                self.give_back(Sequence::ZERO);
            }
            Err(broken) => self.break_down(&broken),
        }
    }

    /// Commits, and waits until its changes are durable if commits wait for the log.
    pub fn commit(self) -> Result<()> {
        let clock = self.shared.clock.clone();
        thermocline_machine::run(&mut self.start_commit(), &clock)
    }

    /// [`Self::commit`] as a machine, for callers that drive it.
    pub fn start_commit(self) -> Commit<P> {
        Commit::new(self)
    }

    /// Undoes its changes.
    pub fn rollback(self) {}
}

/// Rolls back unless it was committed.
impl<P: Program + ?Sized> Drop for Interactive<P> {
    fn drop(&mut self) {
        self.fail();
    }
}

/// Why a transaction has lost its partitions.
fn lost<P: Program + ?Sized>(shared: &Shared<P>) -> Error {
    let idle = || Class::IdleTimeout.error("the transaction was rolled back: the session did nothing for too long");
    shared.broken.lock().clone().unwrap_or_else(idle)
}

/// The beginning of an [`Interactive`]: waits for its first partitions.
pub struct Begin<P: Program + ?Sized> {
    /// `None` once it was handed over.
    session: Option<Interactive<P>>,
    interrupt: Option<Arc<Interrupt>>,
}

impl<P: Program + ?Sized> Begin<P> {
    /// Requests the participants.
    pub fn new(
        shared: Arc<Shared<P>>,
        participants: &Participants,
        idle_max: Duration,
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Result<Self> {
        let mut session = Interactive::new(shared, idle_max);
        session.ask(&session.missing(participants))?;
        Ok(Self { session: Some(session), interrupt: interrupt.map(Arc::clone) })
    }
}

impl<P: Program + ?Sized> Machine for Begin<P> {
    type Output = Result<Interactive<P>>;

    fn step(&mut self) -> Step<Self::Output> {
        let Some(session) = &mut self.session else {
            return Step::Over(Err(Error::internal("a transaction that begins twice")));
        };
        match session.come(self.interrupt.as_ref()) {
            Ok(Some(wait)) => return wait.map(|never| match never {}),
            Ok(None) if !matches!(session.state, State::Entered) => return Step::Go,
            Ok(None) => session.put_back(),
            Err(error) => return Step::Over(Err(error)),
        }
        let session = self.session.take();
        Step::Over(session.ok_or_else(|| Error::internal("a transaction that begins twice")))
    }
}
