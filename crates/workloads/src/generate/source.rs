//! Rows of a table as the writer of objects sees them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt16Array,
};
use arrow::datatypes::UInt16Type;
use arrow::error::ArrowError;

use super::table::{DECIMAL, Table};

/// Rows of one table, made on demand.
///
/// Rows come in units, such as an order with its lines. The rows of a unit depend only on the scale
/// and the unit's number.
pub(crate) trait Source: Sync {
    fn table(&self) -> Table;

    fn units(&self) -> u64;

    /// Rows of all units together.
    fn rows(&self) -> u64;

    /// Units made at a time: some ten thousand rows, a few MB.
    fn units_per_batch(&self) -> u64 {
        8192
    }

    /// The rows of `units`, in order, with the columns of [`Table::generated_schema`].
    ///
    /// # Errors
    /// Only if the columns do not fit the schema, which is a bug.
    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError>;
}

/// A word list, shared by all batches of its column.
#[derive(Clone)]
pub(crate) struct Words(Arc<StringArray>);

impl Words {
    /// At most 65,535 words, so that a `u16` counts them.
    pub(crate) fn new<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        let words: StringArray = words.into_iter().map(Some).collect();
        debug_assert!(words.len() <= usize::from(u16::MAX));
        Self(Arc::new(words))
    }

    pub(crate) fn len(&self) -> u16 {
        self.0.len() as u16
    }

    /// The column whose row i is the word number `keys[i]`.
    ///
    /// # Errors
    /// If a key is past the end of the list.
    pub(crate) fn column(&self, keys: Vec<u16>) -> Result<ArrayRef, ArrowError> {
        let keys = UInt16Array::from(keys);
        let words: ArrayRef = self.0.clone();
        Ok(Arc::new(DictionaryArray::<UInt16Type>::try_new(keys, words)?))
    }
}

/// An `Int32` column.
pub(crate) fn integers(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

/// A `Utf8` column.
pub(crate) fn texts<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// An `Int64` column.
pub(crate) fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A `Decimal128(15, 2)` column of hundredths.
///
/// # Errors
/// Never: 15 digits are a valid precision.
pub(crate) fn decimals(hundredths: impl IntoIterator<Item = i64>) -> Result<ArrayRef, ArrowError> {
    let values = Decimal128Array::from_iter_values(hundredths.into_iter().map(i128::from));
    Ok(Arc::new(values.with_precision_and_scale(DECIMAL.0, DECIMAL.1)?))
}

/// A `Date32` column of days since 1970-01-01.
pub(crate) fn dates(days: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(days))
}
