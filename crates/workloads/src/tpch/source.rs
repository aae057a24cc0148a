//! The rows of `tpchgen`, in units that any thread can make.
//!
//! `tpchgen` makes part p of n of a table: part 1 to n - 1 have total / n rows each, part n has the
//! rest, which may be n - 1 rows more. A unit is one such part. Its length is chosen so that the
//! rest is less than a unit:
//!
//! ```text
//! total = 15,000, length = 64 (at most sqrt(total)), units = 15,000 / 64 = 234
//! | 64 | 64 | 64 | ...                                  | 64 + 24 |
//! ```

use std::marker::PhantomData;
use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::error::ArrowError;

use crate::generate::{Source, Table};

/// Rows of a unit where there are enough of them, as `tpchgen` counts. An order's lines together
/// take about 450 bytes as CSV, so that a unit is less than the smallest partition.
const UNIT_LENGTH_MAX: i64 = 64;

/// 8192 orders with their lines: about 33,000 rows.
const UNITS_PER_BATCH: u64 = 128;

/// Generator of one table by `tpchgen`, and the conversion of its rows into columns.
pub(super) trait Rows: Sync {
    /// The table.
    const TABLE: Table;

    /// One row.
    type Row;

    /// Number that `tpchgen` divides into parts: rows; orders for `lineitem`, parts for `partsupp`; 1 for the tables
    /// that it does not divide.
    fn divisible(scale: f64) -> i64;

    /// All rows.
    fn rows(scale: f64) -> i64 {
        Self::divisible(scale)
    }

    /// The rows of part `part` (from 1) of `parts`.
    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row>;

    /// The rows as columns of [`TABLE`](Self::TABLE).
    ///
    /// # Errors
    /// Only if the columns do not fit their types, which is a bug.
    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError>;
}

/// One table at one scale.
pub(super) struct TpchSource<R> {
    scale: f64,
    units: i32,
    rows: i64,
    table: PhantomData<fn() -> R>,
}

impl<R: Rows> TpchSource<R> {
    /// The table at `scale`, which has been checked.
    pub(super) fn new(scale: f64) -> Self {
        let divisible = R::divisible(scale);
        let length = divisible.isqrt().clamp(1, UNIT_LENGTH_MAX);
        // At most 1,500,000,000 orders in units of 64.
        Self { scale, units: (divisible / length) as i32, rows: R::rows(scale), table: PhantomData }
    }
}

impl<R: Rows> Source for TpchSource<R> {
    fn table(&self) -> Table {
        R::TABLE
    }

    fn units(&self) -> u64 {
        self.units as u64
    }

    fn rows(&self) -> u64 {
        self.rows as u64
    }

    fn units_per_batch(&self) -> u64 {
        UNITS_PER_BATCH
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<R::Row> = units.flat_map(|unit| R::generate(self.scale, unit as i32 + 1, self.units)).collect();
        RecordBatch::try_new(R::TABLE.generated_schema(), R::columns(&rows)?)
    }
}
