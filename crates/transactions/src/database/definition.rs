//! Changes of the schema: their turn in the order of transactions, and the filling of indexes and columns.

use std::sync::Arc;

use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{Machine, Step, Turn};
use thermocline_tables::schema::{Change, TableId};
use thermocline_tables::table::Build;
use thermocline_types::{Error, Result};

use super::catalog::Catalog;
use super::work::Work;
use crate::engine::{Exclusive, Filling, Handle, Made, built_for};

/// A change of the schema, at one point in the transaction order.
///
/// ```text
///  new ---> waits for its turn ---> reads the newest schema ---> runs over all partitions ---> durable
///               ^                                                and installs the next one
///               |                                                      |
///               +-- fills it in steps <--- an index or a column of many rows: begins it, and gives back the turn
/// ```
///
/// While it fills, other definitions run, but definitions of its table get an error. Nothing is in the log before the
/// build is complete, so a crash leaves nothing of it, and replay builds the index or column when it reaches the
/// record. Dropping the definition before that drops the build.
pub struct Definition {
    catalog: Arc<Catalog>,
    handle: Handle<Work>,
    sql: Box<str>,
    interrupt: Option<Arc<Interrupt>>,
    stage: Stage,
    /// Its build and the table; `None` for any other definition, or once the build is part of the table.
    building: Option<(TableId, Arc<Build>)>,
}

enum Stage {
    /// Waits for its turn.
    Waits,
    /// Runs over all partitions; the turn keeps other definitions from reading the schema meanwhile.
    Runs {
        running: Exclusive<Work, Made>,
        _turn: Turn,
    },
    Fills(Filling<Work>),
}

impl Definition {
    /// A definition before it waits for its turn.
    pub fn new(catalog: &Arc<Catalog>, handle: &Handle<Work>, sql: &str, interrupt: Option<&Arc<Interrupt>>) -> Self {
        let (catalog, handle, interrupt) = (Arc::clone(catalog), handle.clone(), interrupt.map(Arc::clone));
        Self { catalog, handle, sql: sql.into(), interrupt, stage: Stage::Waits, building: None }
    }

    /// Whether it is filling its build.
    pub const fn is_filling(&self) -> bool {
        matches!(self.stage, Stage::Fills(_))
    }

    /// Starts it; returns false if there is nothing to change.
    fn start(&mut self, turn: Turn) -> Result<bool> {
        let before = self.catalog.current();
        before.check_writable()?;
        let (after, change) = before.define(&self.sql)?;
        if change == Change::None {
            return Ok(false);
        }
        if let Some(table) = built_for(&change) {
            self.building.get_or_insert_with(|| (table.id, Arc::default()));
        }
        let catalog = Arc::clone(&self.catalog);
        let installed = move || catalog.install(after);
        let (change, interrupt) = ((change, before.schema.clone()), self.interrupt.as_ref());
        let build = self.building.as_ref().map(|(_, build)| build);
        let running = self.handle.start_define(&self.sql, change, build, interrupt, installed)?;
        self.stage = Stage::Runs { running, _turn: turn };
        Ok(true)
    }

    /// Continues after it ran over all partitions.
    fn ran(&mut self, made: Result<Made>) -> Step<Result<()>> {
        match (made, &self.building) {
            (Ok(Made::Begun), Some((table, build))) => {
                if let Some(interrupt) = &self.interrupt {
                    interrupt.wait_again();
                }
                // Leaving the earlier stage gives back the turn.
                self.stage = Stage::Fills(self.handle.fill(*table, build, self.interrupt.as_ref()));
                Step::Go
            }
            (Ok(Made::Begun), None) => {
                Step::Over(Err(Error::internal("a definition that builds nothing has begun to")))
            }
            (Ok(Made::Defined(_)), _) => {
                self.building = None;
                Step::Over(Ok(()))
            }
            (Err(Error::OtherPartition(_)), _) => Step::Over(Err(Error::internal("a definition for some partitions"))),
            (Err(error), _) => Step::Over(Err(error)),
        }
    }
}

impl Machine for Definition {
    type Output = Result<()>;

    fn step(&mut self) -> Step<Result<()>> {
        match &mut self.stage {
            Stage::Runs { running, .. } => {
                return match running.step() {
                    Step::Over(made) => self.ran(made),
                    step => step.map(|_| Ok(())),
                };
            }
            Stage::Fills(filling) => {
                return match filling.step() {
                    Step::Over(Ok(())) => {
                        self.stage = Stage::Waits;
                        Step::Go
                    }
                    step => step,
                };
            }
            Stage::Waits => {}
        }
        match self.catalog.defining.take() {
            Step::Go => Step::Go,
            Step::Over(turn) => match self.start(turn) {
                Ok(true) => Step::Go,
                Ok(false) => Step::Over(Ok(())),
                Err(error) => Step::Over(Err(error)),
            },
            Step::Wait(wait) => match &self.interrupt {
                None => Step::Wait(wait),
                Some(interrupt) => match interrupt.check() {
                    Ok(()) => Step::Wait(wait.until(self.handle.clock().after(POLL_INTERVAL))),
                    Err(stopped) => Step::Over(Err(stopped)),
                },
            },
        }
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        if let Some((_, build)) = &self.building {
            self.handle.give_up(build);
        }
    }
}

#[cfg(test)]
mod tests;
