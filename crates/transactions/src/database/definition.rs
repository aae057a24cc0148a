use std::sync::Arc;
use std::time::Duration;

use super::catalog::Catalog;
use super::work::Work;
use crate::engine::{Exclusive, Handle};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Step, Turn};
use crate::schema::Change;

/// How often a definition that waits for another one looks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A change of the schema, at a place of its own among the transactions.
///
/// ```text
///  new ---> waits for its turn ---> reads the newest schema ---> runs over all partitions ---> durable
///                                                                and installs the next one
/// ```
pub(crate) struct Definition {
    catalog: Arc<Catalog>,
    handle: Handle<Work>,
    sql: Box<str>,
    interrupt: Option<Arc<Interrupt>>,
    /// What runs, and the turn that keeps others from reading the schema meanwhile; `None` before that.
    running: Option<(Exclusive<Work, ()>, Turn)>,
}

impl Definition {
    /// Before it waits for its turn.
    pub fn new(catalog: &Arc<Catalog>, handle: &Handle<Work>, sql: &str, interrupt: Option<&Arc<Interrupt>>) -> Self {
        let (catalog, handle, interrupt) = (Arc::clone(catalog), handle.clone(), interrupt.map(Arc::clone));
        Self { catalog, handle, sql: sql.into(), interrupt, running: None }
    }

    /// Starts it; false if there is nothing to change.
    fn start(&mut self, turn: Turn) -> Result<bool> {
        let before = self.catalog.current();
        before.check_writable()?;
        let (after, change) = before.define(&self.sql)?;
        if change == Change::None {
            return Ok(false);
        }
        let catalog = Arc::clone(&self.catalog);
        let installed = move || catalog.install(after);
        let schema = before.schema.clone();
        let running = self.handle.start_define(&self.sql, change, schema, self.interrupt.as_ref(), installed)?;
        self.running = Some((running, turn));
        Ok(true)
    }
}

impl Machine for Definition {
    type Output = Result<()>;

    fn step(&mut self) -> Step<Result<()>> {
        if let Some((running, _)) = &mut self.running {
            return match running.step() {
                Step::Over(Err(Error::OtherPartition(_))) => {
                    Step::Over(Err(Error::internal("a definition for some partitions")))
                }
                step => step,
            };
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
                    Ok(()) => Step::Wait(wait.until(self.handle.clock().after(LOOK_EVERY))),
                    Err(stopped) => Step::Over(Err(stopped)),
                },
            },
        }
    }
}
