//! Bulk loads of clients.

use std::sync::Arc;
use std::time::Duration;

use thermocline_machine::Step;
use thermocline_machine::interrupt::{Cause, Interrupt};
use thermocline_tables::table::TableLoad;
use thermocline_transactions::database::{Loading, Portions};
use thermocline_transactions::engine;
use thermocline_types::{Error, Result, ValueRef};

use super::workload::{LOADED, LoadPlan};
use super::world::{Scene, World};

/// Few rows and little time, so that a load has several batches and retries.
fn portions(scene: &mut Scene) -> Portions {
    let mut below = |most| 1 + u32::try_from(scene.random.below(most)).unwrap_or(0);
    let (rows, taken_back) = (below(4), below(5));
    let (bytes, bytes_under_way, under_way) = (1 << 17, usize::MAX, below(3) as usize);
    Portions { rows, bytes, under_way, bytes_under_way, taken_back, retry_for: Duration::from_millis(20) }
}

/// A client that loads rows.
pub struct Loader {
    plan: LoadPlan,
    loading: Loading,
    interrupt: Arc<Interrupt>,
    /// Rows pushed so far.
    pushed: i64,
    doing: Doing,
}

enum Doing {
    /// Waits for its id, or until there is room for more rows.
    Waits,
    Pushes,
    Finishes,
    /// Removes its rows, because of this error or as planned.
    TakesBack(Option<Error>),
}

/// Result of a load.
pub enum Ended {
    Kept,
    TakenBack,
    /// Failed with this error; no row is left unless the node has stopped.
    Failed(Error),
}

impl Loader {
    pub fn begin(world: &World, scene: &mut Scene, plan: LoadPlan) -> Result<Self> {
        let interrupt = Arc::new(Interrupt::new(None));
        let client = engine::Client::new(Arc::clone(&world.shared));
        let table = LOADED.get(plan.table).copied().unwrap_or_default();
        let into = (table, &["k", "load", "total"][..]);
        let place = (&world.catalog, &world.handle, client);
        let loading = Loading::begin(place, into, &interrupt, (&world.budget, portions(scene)))?;
        Ok(Self { plan, loading, interrupt, pushed: 0, doing: Doing::Waits })
    }

    pub const fn plan(&self) -> &LoadPlan {
        &self.plan
    }

    /// The load whose rows are about to become visible; `None` otherwise.
    pub fn keeping(&self) -> Option<TableLoad> {
        self.loading.is_keeping().then(|| self.loading.table_load())
    }

    /// Whether its rows may be there after a crash: the record that shows them is on its way, or the log failed while
    /// writing it.
    pub fn may_be_kept(&self) -> bool {
        let log_failed = |error: &Error| matches!(error.root(), Error::Io(_) | Error::DiskFull(_));
        self.loading.is_keeping() || matches!(&self.doing, Doing::TakesBack(Some(error)) if log_failed(error))
    }

    /// Takes a step; an error is a violation.
    pub fn step(&mut self, scene: &mut Scene) -> Result<Step<Ended>, String> {
        if scene.random.one_in(60) {
            self.interrupt.stop(Cause::User);
        }
        if let Doing::Pushes = self.doing {
            return Ok(self.push());
        }
        let result = match self.loading.step() {
            Step::Over(result) => result,
            step => return Ok(step.map(|_| Ended::Kept)),
        };
        Ok(match (std::mem::replace(&mut self.doing, Doing::Pushes), result) {
            (Doing::Waits | Doing::Pushes, Ok(())) => Step::Go,
            (Doing::Finishes, Ok(())) => Step::Over(Ended::Kept),
            (Doing::TakesBack(None), Ok(())) => Step::Over(Ended::TakenBack),
            (Doing::TakesBack(Some(error)), Ok(())) => Step::Over(Ended::Failed(error)),
            (Doing::TakesBack(error), Err(other)) => match other.root() {
                Error::Io(_) | Error::DiskFull(_) | Error::Cancelled(_) => {
                    Step::Over(Ended::Failed(error.unwrap_or(other)))
                }
                _ => return Err(format!("rows of a load cannot be taken back: {other}")),
            },
            (_, Err(error)) => self.give_up(Some(error)),
        })
    }

    /// Pushes the next row, or ends the load.
    fn push(&mut self) -> Step<Ended> {
        if self.plan.gives_up_after.is_some_and(|rows| rows <= self.pushed) {
            return self.give_up(None);
        }
        let Some(key) = self.plan.key(self.pushed) else {
            self.loading.finish();
            self.doing = Doing::Finishes;
            return Step::Go;
        };
        self.pushed += 1;
        let row = [key, self.plan.load, self.plan.total].map(ValueRef::Int);
        match self.loading.push(&row) {
            Ok(waits) => {
                if waits {
                    self.doing = Doing::Waits;
                }
                Step::Go
            }
            Err(error) => self.give_up(Some(error)),
        }
    }

    fn give_up(&mut self, error: Option<Error>) -> Step<Ended> {
        self.loading.take_back();
        self.doing = Doing::TakesBack(error);
        Step::Go
    }
}
