//! Transactions of sessions, statement by statement.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermocline_machine::ids::Sequence;
use thermocline_machine::interrupt::{Cause, Interrupt};
use thermocline_machine::{EventCount, Step, Wait};
use thermocline_statements::StatementResult;
use thermocline_tables::partition::Member;
use thermocline_transactions::database::Work;
use thermocline_transactions::engine::Interactive;
use thermocline_types::{Class, Result, Value};

use super::history::Step as Did;
use super::workload::{Ask, Ending, Part, Text};
use super::world::{DEADLOCK, IDLE_TIMEOUT, Scene, World};

/// An open transaction.
pub struct Session {
    pub transaction: Interactive<Work>,
    pub parts: VecDeque<Part>,
    /// Whether it gets some partitions after its timestamp is fixed.
    pub is_late: bool,
    pub running: Option<Running>,
    pub ending: Ending,
    pub done: Vec<Did>,
    pub written: Vec<Did>,
}

/// The statements of a part.
pub struct Running {
    part: Part,
    statements: VecDeque<(Text, Vec<Value>)>,
    interrupt: Arc<Interrupt>,
    /// Answer of the first statement.
    seen: Option<StatementResult>,
    /// Whether the running statement has waited for partitions.
    waits: bool,
}

/// Steps the statements of an open transaction.
pub fn statement(world: &World, scene: &mut Scene, session: &mut Session) -> Result<Step<Result<()>>, String> {
    let Some(mut running) = session.running.take().or_else(|| begin_part(scene, session)) else {
        return Ok(Step::Over(Err(Class::Raised.error("on purpose"))));
    };
    let Some((text, parameters)) = running.statements.front() else {
        let Running { part, seen, .. } = running;
        session.done.extend(seen.map(|answer| part.seen(&scene.plans, &answer)).unwrap_or_default());
        return Ok(if scene.random.one_in(6) { pause(world, scene, 5_000).map(Ok) } else { Step::Over(Ok(())) });
    };
    if running.waits && scene.random.one_in(20) {
        running.interrupt.stop(Cause::User);
    }
    let work = match world.work(*text) {
        Ok(work) => work,
        Err(error) => {
            session.transaction.fail();
            return Ok(Step::Over(Err(error)));
        }
    };
    let in_order = session.transaction.is_in_order(&*work, parameters);
    Ok(match session.transaction.step(&work, parameters, Some(&running.interrupt)) {
        Step::Over(Ok(answer)) => {
            running.seen.get_or_insert(answer);
            running.statements.pop_front();
            running.waits = false;
            session.running = Some(running);
            match told(world, scene, session)? {
                Ok(()) => Step::Go,
                Err(error) => Step::Over(Err(error)),
            }
        }
        Step::Over(Err(error)) if error.sqlstate() == IDLE_TIMEOUT && running.waits => {
            return Err(format!("a transaction that its session waits for has ended: {error}"));
        }
        Step::Over(Err(error)) if error.sqlstate() == DEADLOCK && in_order && matches!(running.part, Part::Ask(_)) => {
            return Err(format!("a session that asks for its partitions in order is told: {error}"));
        }
        Step::Over(Err(error)) => Step::Over(Err(error)),
        step => {
            running.waits |= matches!(step, Step::Wait(_));
            session.running = Some(running);
            step.map(|_| Ok(()))
        }
    })
}

/// Statements of the next part; `None` if it is to fail.
fn begin_part(scene: &mut Scene, session: &mut Session) -> Option<Running> {
    let part = session.parts.pop_front().filter(|part| !matches!(part, Part::Ask(Ask::Abort)));
    let Some(part) = part else {
        session.transaction.fail();
        return None;
    };
    let interrupt = Arc::new(Interrupt::new(None));
    if scene.random.one_in(30) {
        interrupt.stop(Cause::Timeout);
    }
    let statements = part.statements(session.is_late).into();
    Some(Running { part, statements, interrupt, seen: None, waits: false })
}

/// Checks that a session may be told its statements' results at once.
pub fn told(world: &World, scene: &mut Scene, session: &mut Session) -> Result<Result<()>, String> {
    let last = |member: &Member| scene.last.get(usize::from(member.partition.id().0)).copied();
    let needs = session.transaction.visit(|members| members.iter().filter_map(last).max());
    Ok(match needs {
        Ok(needs) => {
            scene.tell(world, needs.unwrap_or(Sequence::ZERO))?;
            Ok(())
        }
        Err(error) => Err(error),
    })
}

/// Keeps a session idle for up to this many microseconds, which may exceed the limit.
pub fn pause(world: &World, scene: &mut Scene, most: u64) -> Step<()> {
    let pause = Duration::from_micros(scene.random.below(most));
    let nothing = EventCount::new();
    Step::Wait(Wait::new(&nothing, nothing.seen()).until(world.clock.after(pause)))
}
