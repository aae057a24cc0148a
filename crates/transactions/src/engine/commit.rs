//! The commit of a session's transaction, as a machine.

use thermocline_durability::log::{Appended, Batch};
use thermocline_machine::ids::Sequence;
use thermocline_machine::{Machine, Step};
use thermocline_tables::partition::Member;
use thermocline_types::{Error, Result};

use super::executor::{commit, log_effects, make_room_beside};
use super::interactive::Interactive;
use super::program::Program;

/// The commit of an [`Interactive`]. If its driver drops it, the transaction is rolled back unless its record is in the
/// log.
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
    /// Its records wait for room in the log.
    Logging(Batch),
    Logged(Sequence),
}

impl<P: Program + ?Sized> Commit<P> {
    /// A commit before its first step.
    pub(super) const fn new(session: Interactive<P>) -> Self {
        Self { session, state: Committing::Begun }
    }

    /// The partitions whose records the next step appends to the log, if there is room.
    pub fn appending(&self) -> &[Member] {
        match &self.state {
            Committing::Logging(batch) if !batch.is_empty() => self.session.entered(),
            _ => &[],
        }
    }

    fn next(&mut self) -> Result<Step<Result<()>>> {
        let Self { session, state } = self;
        match state {
            Committing::Begun => {
                session.enter()?;
                let batch = loop {
                    let mut batch = session.shared.batch(session.entered());
                    match log_effects(session.entered(), &mut batch) {
                        Err(full @ Error::OutOfMemory(_)) if !make_room_beside(session.members())? => return Err(full),
                        Err(Error::OutOfMemory(_)) => {}
                        logged => {
                            logged?;
                            break batch;
                        }
                    }
                };
                *state = Committing::Logging(batch);
            }
            Committing::Logging(batch) => match session.shared.journal.append(batch)? {
                Appended::Full(wait) => return Ok(Step::Wait(wait)),
                Appended::At(sequence) => {
                    commit(session.members());
                    session.members().iter_mut().for_each(|member| member.partition.unpin());
                    session.give_back(sequence);
                    *state = Committing::Logged(sequence);
                }
            },
            Committing::Logged(sequence) => return Ok(session.shared.commit_waiters.reach(*sequence)),
        }
        Ok(Step::Go)
    }
}

impl<P: Program + ?Sized> Machine for Commit<P> {
    type Output = Result<()>;

    fn step(&mut self) -> Step<Result<()>> {
        self.next().unwrap_or_else(|error| {
            self.session.fail();
            Step::Over(Err(error))
        })
    }
}
