//! Clients and sessions of a node: their requests and the results that they saw.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thermocline_machine::ids::Sequence;
use thermocline_machine::interrupt::{Cause, Interrupt};
use thermocline_machine::{EventCount, Machine, Step, Wait};
use thermocline_statements::StatementResult;
use thermocline_tables::partition::{Member, Participants};
use thermocline_tables::table::TableLoad;
use thermocline_transactions::database::{Definition, Work};
use thermocline_transactions::engine::{self, Begin, Commit, Program};
use thermocline_types::{Error, Result};

use super::history::{Outcome, Step as Did, Transaction};
use super::load::{Ended, Loader};
use super::session::{Session, pause, statement, told};
use super::workload::{Ending, Over, Part, Plan, first};
use super::world::{DEADLOCK, IDLE_TIMEOUT, Scene, World};

/// Longest idle time of a session in a transaction.
pub const IDLE_MAX: Duration = Duration::from_millis(50);
/// Number of times that a call is retried because the schema changed.
const ATTEMPTS_MAX: u32 = 16;

/// A client or a session.
pub struct Client {
    number: usize,
    engine: engine::Client<Work>,
    /// Start of its transaction.
    begin: u64,
    doing: Doing,
    /// Sequence that must be durable before it may be told of its commit or definition.
    pub needs: Sequence,
}

enum Doing {
    Nothing,
    Call { plan: Plan, work: Arc<Work>, tag: u64, interrupt: Option<Arc<Interrupt>>, attempt: u32 },
    Begin { begin: Box<Begin<Work>>, interrupt: Option<Arc<Interrupt>>, over: Over, parts: Vec<Part>, ending: Ending },
    Session(Box<Session>),
    Commit { commit: Box<Commit<Work>>, done: Vec<Did>, written: Vec<Did> },
    Load(Box<Loader>),
    Define { definition: Box<Definition>, version: u64, interrupt: Option<Arc<Interrupt>>, is_filled: bool },
}

/// The next step, or a violation.
type Stepped = Result<Step<()>, String>;

impl Client {
    pub fn new(number: usize, world: &World) -> Self {
        let engine = engine::Client::new(Arc::clone(&world.shared));
        Self { number, engine, begin: 0, doing: Doing::Nothing, needs: Sequence::ZERO }
    }

    /// Notes that a definition's record was given to the log: that of the client at one, or an earlier one. Only one
    /// client at a time gives its record, and no other does before that client is told.
    pub fn defined(&mut self, sequence: Sequence) {
        if let Doing::Define { .. } = self.doing {
            self.needs = sequence;
        }
    }

    /// Notes that a record over all partitions was given to the log, and the loads that remained after it.
    pub fn loads_left(&mut self, sequence: Sequence, loads: &BTreeSet<TableLoad>) {
        if let Doing::Load(loader) = &self.doing
            && loader.keeping().is_some_and(|load| !loads.contains(&load))
            && self.needs == Sequence::ZERO
        {
            self.needs = sequence;
        }
    }

    /// Whether it has nothing to do.
    pub const fn rests(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// Partitions whose records its next step gives to the log.
    pub fn appending(&self) -> &[Member] {
        if let Doing::Commit { commit, .. } = &self.doing { commit.appending() } else { &[] }
    }

    /// Takes a step; waits while it has nothing to do.
    pub fn step(&mut self, world: &World, scene: &mut Scene) -> Stepped {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => self.start(world, scene),
            Doing::Call { plan, work, tag, interrupt, attempt } => {
                if let Some(interrupt) = interrupt.as_ref().filter(|_| scene.random.one_in(12)) {
                    interrupt.stop(if scene.random.one_in(2) { Cause::User } else { Cause::Timeout });
                }
                match self.answer(tag, interrupt.as_deref()) {
                    Step::Over(answer) => self.answered(world, scene, (plan, work, tag, attempt), answer),
                    step => {
                        self.doing = Doing::Call { plan, work, tag, interrupt, attempt };
                        Ok(step.map(|_| ()))
                    }
                }
            }
            Doing::Begin { mut begin, interrupt, over, parts, ending } => {
                if let Some(interrupt) = interrupt.as_ref().filter(|_| scene.random.one_in(12)) {
                    interrupt.stop(Cause::User);
                }
                match begin.step() {
                    Step::Over(Ok(transaction)) => {
                        let written = parts.iter().flat_map(Part::written).collect();
                        let (parts, done, is_late) = (parts.into(), Vec::new(), over != Over::All);
                        let mut session = Session { transaction, parts, is_late, running: None, ending, done, written };
                        if let Err(error) = told(world, scene, &mut session)? {
                            return self.failed(scene, &error, Vec::new());
                        }
                        self.doing = Doing::Session(Box::new(session));
                        Ok(Step::Go)
                    }
                    Step::Over(Err(error)) if matches!(error.sqlstate(), IDLE_TIMEOUT | DEADLOCK) => {
                        Err(format!("a transaction that its session waits for has ended: {error}"))
                    }
                    Step::Over(Err(error)) => self.failed(scene, &error, Vec::new()),
                    step => {
                        self.doing = Doing::Begin { begin, interrupt, over, parts, ending };
                        Ok(step.map(|_| ()))
                    }
                }
            }
            Doing::Session(session) => self.lead(world, scene, session),
            Doing::Commit { mut commit, done, written } => match commit.step() {
                Step::Over(Ok(())) => {
                    scene.tell(world, self.needs)?;
                    self.end(scene, Outcome::Committed, "00000", done);
                    Ok(Step::Go)
                }
                Step::Over(Err(error)) => self.failed(scene, &error, written),
                step => {
                    self.doing = Doing::Commit { commit, done, written };
                    Ok(step.map(|_| ()))
                }
            },
            Doing::Load(mut loader) => match loader.step(scene)? {
                Step::Over(Ended::Kept) => {
                    if self.needs == Sequence::ZERO {
                        return Err(format!("{:?} is over, and no record ends it", loader.plan()));
                    }
                    scene.tell(world, self.needs)?;
                    scene.loaded += 1;
                    self.end(scene, Outcome::Committed, "00000", loader.plan().written());
                    Ok(Step::Go)
                }
                Step::Over(Ended::TakenBack) => {
                    scene.taken_back += 1;
                    self.end(scene, Outcome::Aborted, "rolled back", loader.plan().written());
                    Ok(Step::Go)
                }
                Step::Over(Ended::Failed(error)) => {
                    scene.taken_back += 1;
                    self.failed(scene, &error, loader.plan().written())
                }
                step => {
                    self.doing = Doing::Load(loader);
                    Ok(step.map(|_| ()))
                }
            },
            Doing::Define { mut definition, version, interrupt, is_filled } => {
                if let Some(interrupt) = interrupt.as_ref().filter(|_| scene.random.one_in(30)) {
                    interrupt.stop(Cause::User);
                }
                let step = definition.step();
                let is_filled = is_filled || definition.is_filling();
                match step {
                    Step::Over(Ok(())) => {
                        scene.built += u64::from(is_filled);
                        if world.catalog.version() > version {
                            scene.tell(world, self.needs)?;
                        }
                        *scene.ended.entry("defined".into()).or_default() += 1;
                        Ok(Step::Go)
                    }
                    Step::Over(Err(error)) => self.failed(scene, &error, Vec::new()),
                    step => {
                        self.doing = Doing::Define { definition, version, interrupt, is_filled };
                        Ok(step.map(|_| ()))
                    }
                }
            }
        }
    }

    fn start(&mut self, world: &World, scene: &mut Scene) -> Stepped {
        self.begin = scene.now;
        let plan = match scene.first.front() {
            Some(sql) if self.number == 0 => Plan::Define(sql),
            // No transaction may run before its tables exist.
            Some(_) => return Ok(rest()),
            None if scene.stopping => return Ok(rest()),
            None => {
                let Scene { plans, random, .. } = scene;
                plans.next(random)
            }
        };
        let interrupt = scene.random.one_in(3).then(|| Arc::new(Interrupt::new(None)));
        match plan {
            Plan::Define(sql) => {
                if self.number == 0 {
                    scene.first.pop_front_if(|first| *first == sql);
                }
                let definition = Definition::new(&world.catalog, &world.handle, sql, interrupt.as_ref());
                let (definition, version) = (Box::new(definition), world.catalog.version());
                self.needs = Sequence::ZERO;
                self.doing = Doing::Define { definition, version, interrupt, is_filled: false };
                Ok(Step::Go)
            }
            Plan::Session { over, parts, ending } => {
                let first = first(over, &parts);
                let participants =
                    first.and_then(|(text, parameters)| world.work(text).ok()?.participants(&parameters).ok());
                let participants = participants.unwrap_or(Participants::All);
                match Begin::new(Arc::clone(&world.shared), &participants, IDLE_MAX, interrupt.as_ref()) {
                    Ok(begin) => {
                        self.doing = Doing::Begin { begin: Box::new(begin), interrupt, over, parts, ending };
                        Ok(Step::Go)
                    }
                    Err(error) => self.failed(scene, &error, Vec::new()),
                }
            }
            Plan::Load(plan) => {
                let written = plan.written();
                self.needs = Sequence::ZERO;
                match Loader::begin(world, scene, plan) {
                    Ok(loader) => {
                        self.doing = Doing::Load(Box::new(loader));
                        Ok(Step::Go)
                    }
                    Err(error) => self.failed(scene, &error, written),
                }
            }
            plan => self.call(world, scene, plan, interrupt, 1),
        }
    }

    fn call(
        &mut self,
        world: &World,
        scene: &mut Scene,
        plan: Plan,
        interrupt: Option<Arc<Interrupt>>,
        attempt: u32,
    ) -> Stepped {
        let Some((text, parameters)) = plan.call() else { return Ok(Step::Go) };
        scene.tag_next += 1;
        let tag = scene.tag_next;
        let sent = world.work(text).and_then(|work| {
            let submitted = Arc::clone(&work);
            self.engine.submit_interruptible(submitted, parameters.into(), tag, interrupt.as_ref().map(Arc::clone))?;
            self.engine.send();
            Ok(work)
        });
        match sent {
            Ok(work) => {
                self.doing = Doing::Call { plan, work, tag, interrupt, attempt };
                Ok(Step::Go)
            }
            Err(error) => self.failed(scene, &error, plan.written()),
        }
    }

    fn answer(&self, tag: u64, interrupt: Option<&Interrupt>) -> Step<Result<StatementResult>> {
        match interrupt {
            Some(interrupt) => self.engine.called(tag, interrupt),
            None => match self.engine.try_receive() {
                Ok(replies) => match replies.into_iter().find(|reply| reply.tag == tag) {
                    Some(reply) => Step::Over(reply.result),
                    None => Step::Go,
                },
                Err(wait) => Step::Wait(wait),
            },
        }
    }

    fn answered(
        &mut self,
        world: &World,
        scene: &mut Scene,
        (plan, work, tag, attempt): (Plan, Arc<Work>, u64, u32),
        answer: Result<StatementResult>,
    ) -> Stepped {
        let needs = scene.needs.remove(&tag);
        match answer {
            Err(Error::Retry(_)) if work.is_outdated() && attempt < ATTEMPTS_MAX => {
                self.call(world, scene, plan, None, attempt + 1)
            }
            Ok(answer) => {
                let needs =
                    needs.ok_or_else(|| format!("{plan:?} is answered, and no partition has held its result"))?;
                scene.tell(world, needs)?;
                let seen = scene.plans.seen(&plan, &answer);
                self.end(scene, Outcome::Committed, "00000", seen);
                Ok(Step::Go)
            }
            Err(error) if error.sqlstate() == DEADLOCK => Err(format!("{plan:?} of no session ends with {error}")),
            Err(error) => self.failed(scene, &error, plan.written()),
        }
    }

    /// The next statement of an open transaction, or its end.
    fn lead(&mut self, world: &World, scene: &mut Scene, mut session: Box<Session>) -> Stepped {
        if session.running.is_some() || !session.parts.is_empty() {
            return match statement(world, scene, &mut session)? {
                Step::Over(Ok(())) => {
                    self.doing = Doing::Session(session);
                    Ok(Step::Go)
                }
                Step::Over(Err(error)) => {
                    // Only the rollback remains, which a failed transaction has already done.
                    let written = std::mem::take(&mut session.written);
                    drop(session);
                    self.failed(scene, &error, written)
                }
                step => {
                    self.doing = Doing::Session(session);
                    Ok(step.map(|_| ()))
                }
            };
        }
        match session.ending {
            Ending::Pause => {
                session.ending = Ending::Commit;
                self.doing = Doing::Session(session);
                Ok(pause(world, scene, 80_000))
            }
            Ending::Rollback => {
                let Session { transaction, written, .. } = *session;
                transaction.rollback();
                self.end(scene, Outcome::Aborted, "rolled back", written);
                Ok(Step::Go)
            }
            Ending::Commit => {
                let Session { transaction, done, written, .. } = *session;
                self.needs = Sequence::ZERO;
                self.doing = Doing::Commit { commit: Box::new(transaction.start_commit()), done, written };
                Ok(Step::Go)
            }
        }
    }

    fn failed(&mut self, scene: &mut Scene, error: &Error, written: Vec<Did>) -> Stepped {
        let outcome = match error.root() {
            // The log has failed, so the transaction may or may not be durable.
            Error::Io(_) | Error::DiskFull(_) => Outcome::Unknown,
            Error::Internal(_) | Error::Corrupt(_) | Error::CannotOpen(_) | Error::Unsupported(_) => {
                return Err(format!("a client is told: {error}"));
            }
            _ => Outcome::Aborted,
        };
        self.end(scene, outcome, error.sqlstate(), written);
        Ok(Step::Go)
    }

    fn end(&self, scene: &mut Scene, outcome: Outcome, state: &str, mut steps: Vec<Did>) {
        steps.retain(|step| scene.plans.is_current(step));
        *scene.ended.entry(state.to_owned()).or_default() += 1;
        if !steps.is_empty() {
            let (client, begin, end) = (self.number, self.begin, scene.now);
            scene.history.push(Transaction { client, begin, end, outcome, steps });
        }
    }

    /// Ends the client with the process, in the middle of its work.
    pub fn vanish(self, scene: &mut Scene) {
        let (outcome, written) = match &self.doing {
            Doing::Load(loader) if loader.may_be_kept() => (Outcome::Unknown, loader.plan().written()),
            Doing::Load(loader) => (Outcome::Aborted, loader.plan().written()),
            Doing::Call { plan, .. } => (Outcome::Unknown, plan.written()),
            Doing::Commit { written, .. } => (Outcome::Unknown, written.clone()),
            Doing::Session(session) => (Outcome::Aborted, session.written.clone()),
            Doing::Nothing | Doing::Begin { .. } | Doing::Define { .. } => return,
        };
        self.end(scene, outcome, "crashed", written);
    }
}

/// Waits for ever: the scheduler asks an idle client again.
fn rest() -> Step<()> {
    let nothing = EventCount::new();
    Step::Wait(Wait::new(&nothing, nothing.seen()))
}
