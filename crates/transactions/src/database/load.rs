//! Bulk loads for callers that wait: rows to batches of partitions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thermocline_machine::interrupt::Interrupt;
use thermocline_machine::run_steps;
use thermocline_types::{Error, Result, ValueRef};

use super::loading::{Loading, Portions};
use super::row_engine::Shared;

/// A batch takes a partition a fraction of a millisecond.
const PORTIONS: Portions = Portions {
    rows: 256,
    bytes: 128 << 10,
    under_way: 8,
    bytes_under_way: usize::MAX,
    taken_back: 1024,
    retry_for: Duration::from_secs(10),
};
/// Bytes of a batch, however small the limit.
const BATCH_BYTES_MIN: usize = 4 << 10;
/// Divisor of the memory limit for the batches of a load, of which each is there twice.
const BATCHES_SHARE: u64 = 16;

/// Portions whose batches under way fit into a share of a limit.
fn portions_within(limit: u64, partitions: usize) -> Portions {
    let bytes_under_way = usize::try_from(limit / BATCHES_SHARE).unwrap_or(usize::MAX);
    let most = bytes_under_way / (2 * PORTIONS.under_way * partitions).max(1);
    Portions { bytes: PORTIONS.bytes.min(most).max(BATCH_BYTES_MIN), bytes_under_way, ..PORTIONS }
}

/// A bulk load: any number of rows into one table, all of them or none, while other transactions run.
///
/// ```text
///  push: image --> batch of its partition --> short transactions, whose rows nobody sees
///                                                  |
///  finish ---> keep: at one moment, over all partitions, all rows are there
///  drop -----> take back: batches of rows go again, as they came
/// ```
///
/// Rows are in the table and its indexes as soon as their batch has run, hidden until the load ends. So the end copies
/// nothing and holds no partition longer than a batch does, and the load needs only a bit per row besides the table.
/// The key of a hidden row is taken: a transaction that inserts it meanwhile gets SQLSTATE 40001, because it is not
/// known yet whether the row will stay. After a crash in the middle, recovery removes the rows.
pub struct Load {
    shared: Arc<Shared>,
    loading: Loading,
    has_failed: bool,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, rows) = (self.loading.table_load(), self.loading.rows());
        f.debug_struct("Load").field("id", &of.load).field("rows", &rows).finish_non_exhaustive()
    }
}

impl Load {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        table: &str,
        columns: &[impl AsRef<str>],
        interrupt: &Arc<Interrupt>,
    ) -> Result<Self> {
        let engine = (&shared.catalog, &shared.handle, shared.engine.client());
        let portions = portions_within(shared.budget.limit(), shared.handle.partitions());
        let loading = Loading::begin(engine, (table, columns), interrupt, (&shared.budget, portions))?;
        let mut load = Self { shared: Arc::clone(shared), loading, has_failed: false };
        load.run()?;
        Ok(load)
    }

    fn run(&mut self) -> Result<()> {
        run_steps(self.shared.handle.clock(), || self.loading.step())
    }

    /// Adds a row: a value for each of the columns. It may wait until earlier rows are inserted.
    ///
    /// # Errors
    /// If this row or an earlier one cannot be inserted. Then none is.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let pushed = match self.loading.push(values) {
            Ok(true) => self.run(),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        self.has_failed |= pushed.is_err();
        pushed
    }

    /// Inserts the remaining rows, waits until all are durable, and makes them visible. Returns the number of rows.
    ///
    /// # Errors
    /// If a row cannot be inserted, or the load was stopped. Then none is there.
    pub fn finish(mut self) -> Result<u64> {
        if self.has_failed {
            return Err(Error::internal("a load that has failed cannot be finished"));
        }
        self.loading.finish();
        self.run()?;
        Ok(self.loading.rows())
    }
}

/// Takes all rows back unless it is [finished](Load::finish).
impl Drop for Load {
    fn drop(&mut self) {
        if self.loading.is_begun() {
            self.loading.take_back();
            // Only a stopped engine refuses it, and then the rows are removed at the next opening.
            let _ = self.run();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(
        PORTIONS.bytes + thermocline_tables::table::ROW_BYTES_MAX < thermocline_durability::log::RECORD_BYTES_MAX / 2
    );

    #[test]
    fn a_load_can_be_handed_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Load>();
    }
}
