//! Cached partitions in pieces, which the output streams of a scan share.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use parking_lot::Mutex;

use super::local::Columns;

/// Rows of a morsel: some batches, so that taking one costs nothing beside processing it, and few
/// enough that output streams end at about the same time. With partitions as the unit, three of a
/// million rows each would keep one of two cores idle for a third of the time.
pub(super) const MORSEL_ROWS: usize = 64 << 10;

/// Partitions whose columns are all in memory. Whoever is free takes the next morsel of the first
/// partition that is left.
#[derive(Debug)]
pub(super) struct Morsels {
    partitions: Mutex<VecDeque<Left>>,
}

/// A partition and the first row of it that nobody has taken.
#[derive(Debug)]
struct Left {
    columns: Arc<Columns>,
    next_row: usize,
}

/// Consecutive rows of one partition, some batches of them.
#[derive(Debug)]
pub(super) struct Morsel {
    columns: Arc<Columns>,
    batches: Vec<Range<usize>>,
    is_last: bool,
}

impl Morsels {
    pub(super) fn new(partitions: impl IntoIterator<Item = Columns>) -> Self {
        let left = |columns| Left { columns: Arc::new(columns), next_row: 0 };
        Self { partitions: Mutex::new(partitions.into_iter().map(left).collect()) }
    }

    /// The next morsel, in batches of at most `batch_rows` rows; `None` when all are taken. A partition
    /// without rows has one, which is empty.
    pub(super) fn take(&self, batch_rows: usize) -> Option<Morsel> {
        let mut partitions = self.partitions.lock();
        let Left { columns, next_row } = partitions.front_mut()?;
        let (columns, start) = (Arc::clone(columns), *next_row);
        let mut batches = vec![];
        while *next_row < columns.rows() && *next_row - start < MORSEL_ROWS {
            let end = columns.batch_end(*next_row, batch_rows);
            batches.push(*next_row..end);
            *next_row = end;
        }
        let is_last = *next_row >= columns.rows();
        if is_last {
            partitions.pop_front();
        }
        Some(Morsel { columns, batches, is_last })
    }
}

impl Morsel {
    /// Whether the partition has no rows behind these.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// The rows.
    pub(super) fn batches(self) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        self.batches.into_iter().map(move |rows| self.columns.batch(rows))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn every_row_is_taken_once_whoever_takes_it() {
        let sizes = [0, 1, MORSEL_ROWS, MORSEL_ROWS + 1, 0, 5 * MORSEL_ROWS - 1];
        let morsels = Morsels::new(sizes.map(|rows| Columns::new(Arc::new(Schema::empty()), rows, [])));
        let taker = || std::iter::from_fn(|| morsels.take(8192)).collect::<Vec<_>>();
        let mut taken: Vec<Morsel> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..3).map(|_| scope.spawn(taker)).collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|morsel| morsel.is_last()).count(), sizes.len());
        taken.sort_by_key(|morsel| morsel.batches.first().map(|rows| rows.start));
        let of = |size: usize| {
            let columns = taken.iter().filter(move |morsel| morsel.columns.rows() == size);
            columns.flat_map(|morsel| morsel.batches.iter().cloned()).collect::<Vec<_>>()
        };
        for size in sizes {
            let batches = of(size);
            assert!(batches.iter().all(|rows| (1..=8192).contains(&rows.len())));
            assert!(
                batches
                    .iter()
                    .map(|rows| rows.start)
                    .eq([0].into_iter().chain(batches.iter().map(|rows| rows.end)).take(batches.len()))
            );
            assert_eq!(batches.iter().map(Range::len).sum::<usize>(), size);
        }
        let rows = taken.into_iter().flat_map(Morsel::batches).map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        assert_eq!(rows, sizes.iter().sum::<usize>());
    }
}
