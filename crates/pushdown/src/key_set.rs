//! The keys of a join's build side, exactly, for rows that are in the same process.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, UInt8Type, UInt16Type,
    UInt32Type,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::observed::Observed;

/// Bits of a word.
const WORD: u64 = u64::BITS as u64;

/// A set of whole numbers or dates that lie close together: one bit for each value from the least to the
/// greatest, so that a look-up is a shift and a load.
///
/// ```text
///   first                     words
///     64   |0110 ... 1|0000 ... 0|1000 ... 1|      65, 66, ..., 127, 192, ..., 255
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet {
    /// The value of the first bit, a multiple of 64.
    first: i64,
    words: Vec<u64>,
}

/// Calls `$body` with `$values`, the array as one of whole numbers; `$other` for other types.
macro_rules! with_integers {
    ($array:expr, $values:ident => $body:expr, $other:expr) => {
        match $array.data_type() {
            DataType::Int8 => {
                let $values = $array.as_primitive::<Int8Type>();
                $body
            }
            DataType::Int16 => {
                let $values = $array.as_primitive::<Int16Type>();
                $body
            }
            DataType::Int32 => {
                let $values = $array.as_primitive::<Int32Type>();
                $body
            }
            DataType::Int64 => {
                let $values = $array.as_primitive::<Int64Type>();
                $body
            }
            DataType::UInt8 => {
                let $values = $array.as_primitive::<UInt8Type>();
                $body
            }
            DataType::UInt16 => {
                let $values = $array.as_primitive::<UInt16Type>();
                $body
            }
            DataType::UInt32 => {
                let $values = $array.as_primitive::<UInt32Type>();
                $body
            }
            DataType::Date32 => {
                let $values = $array.as_primitive::<Date32Type>();
                $body
            }
            DataType::Date64 => {
                let $values = $array.as_primitive::<Date64Type>();
                $body
            }
            _ => $other,
        }
    };
}

impl KeySet {
    /// Whether a set can hold values of the type.
    pub fn holds(data_type: &DataType) -> bool {
        use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
        matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32 | Date64)
    }

    /// Adds the values of `keys` that are not NULL. Returns whether it did: not if the set would then take
    /// more than `bytes_max`, or for a type that sets do not hold.
    pub fn insert(&mut self, keys: &ArrayRef, bytes_max: usize) -> bool {
        with_integers!(keys, keys => self.insert_values(keys, bytes_max), false)
    }

    fn insert_values<T: ArrowPrimitiveType<Native: Into<i64>>>(
        &mut self,
        keys: &PrimitiveArray<T>,
        bytes_max: usize,
    ) -> bool {
        let values = || keys.iter().flatten().map(Into::<i64>::into);
        let (Some(min), Some(max)) = (values().min(), values().max()) else {
            return true;
        };
        if !self.cover(min, max, bytes_max) {
            return false;
        }
        for value in values() {
            let bit = value.wrapping_sub(self.first) as u64;
            if let Some(word) = self.words.get_mut((bit / WORD) as usize) {
                *word |= 1 << (bit % WORD);
            }
        }
        true
    }

    /// Makes room for all values from `min` to `max`; `false` if that is more than `bytes_max`.
    fn cover(&mut self, min: i64, max: i64, bytes_max: usize) -> bool {
        let word = |value: i64| i128::from(value.div_euclid(WORD as i64));
        let (mut start, mut end) = (word(min), word(max) + 1);
        if !self.words.is_empty() {
            let known = word(self.first);
            start = start.min(known);
            end = end.max(known + self.words.len() as i128);
        }
        let Some(words) = usize::try_from(end - start).ok().filter(|words| *words <= bytes_max / size_of::<u64>())
        else {
            return false;
        };
        let Some(first) = i64::try_from(start * i128::from(WORD)).ok() else {
            return false;
        };
        let before = if self.words.is_empty() { 0 } else { (word(self.first) - start) as usize };
        if before > 0 {
            self.words.splice(..0, std::iter::repeat_n(0, before));
        }
        self.words.resize(words, 0);
        self.first = first;
        true
    }

    /// The values of both; `None` if they take more than `bytes_max`.
    pub fn united(mut self, other: &Self, bytes_max: usize) -> Option<Self> {
        if other.words.is_empty() {
            return Some(self);
        }
        let last = other.first.saturating_add((other.words.len() as i64).saturating_mul(WORD as i64) - 1);
        if !self.cover(other.first, last, bytes_max) {
            return None;
        }
        let start = (other.first.wrapping_sub(self.first) as u64 / WORD) as usize;
        for (word, more) in self.words.iter_mut().skip(start).zip(&other.words) {
            *word |= more;
        }
        Some(self)
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Which of `keys` are in the set; `None` for a type that sets do not hold.
    fn contains(&self, keys: &ArrayRef) -> Option<BooleanBuffer> {
        with_integers!(keys, keys => Some(self.contains_values(keys)), None)
    }

    fn contains_values<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, keys: &PrimitiveArray<T>) -> BooleanBuffer {
        let (first, words) = (self.first, self.words.as_slice());
        let mut values = keys.values().iter();
        let found = BooleanBuffer::collect_bool(keys.len(), |_| {
            values.next().is_some_and(|value| {
                let value: i64 = (*value).into();
                let bit = value.wrapping_sub(first) as u64;
                words.get((bit / WORD) as usize).is_some_and(|word| word >> (bit % WORD) & 1 == 1)
            })
        });
        match keys.nulls() {
            Some(nulls) => &found & nulls.inner(),
            None => found,
        }
    }
}

/// TRUE for every row whose key is in a [`KeySet`], FALSE for all others.
///
/// It only saves work, and never travels: the join above drops what it lets through. So where too many
/// rows pass, it lets batches pass unseen for a while.
#[derive(Debug)]
pub struct KeySetExpr {
    key: Arc<dyn PhysicalExpr>,
    set: Arc<KeySet>,
    /// Shared by copies over other columns: what it drops is a property of the data.
    observed: Arc<Observed>,
}

impl KeySetExpr {
    /// Tests `key`; rests where more than this share of the rows pass.
    pub fn new(key: Arc<dyn PhysicalExpr>, set: Arc<KeySet>, passing_max: f64) -> Self {
        Self { key, set, observed: Arc::new(Observed::new(passing_max)) }
    }
}

impl fmt::Display for KeySetExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key_set({}: {} keys)", self.key, self.set.len())
    }
}

impl PartialEq for KeySetExpr {
    fn eq(&self, other: &Self) -> bool {
        self.key.eq(&other.key) && (Arc::ptr_eq(&self.set, &other.set) || self.set == other.set)
    }
}

impl Eq for KeySetExpr {}

impl Hash for KeySetExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        self.set.first.hash(state);
    }
}

impl PhysicalExpr for KeySetExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.observed.skips() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
        }
        let keys = self.key.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(found) = self.set.contains(&keys) else {
            return exec_err!("no set of keys holds {}", keys.data_type());
        };
        self.observed.add(batch.num_rows() as u64, found.count_set_bits() as u64);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.key]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            Ok([key]) => Ok(Arc::new(Self { key, set: Arc::clone(&self.set), observed: Arc::clone(&self.observed) })),
            Err(children) => exec_err!("a set of keys has one column, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;

    use datafusion::arrow::array::{Int64Array, StringArray, UInt32Array};
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::col;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const BYTES: usize = 64 << 10;

    fn array(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from_iter(values))
    }

    #[test]
    fn holds_what_was_inserted_and_nothing_else() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let middle: i64 = [0, -1, 1 << 40, i64::MIN + 5000, i64::MAX - 5000][seed as usize % 5];
            let mut draw = || -> Vec<Option<i64>> {
                let (low, high) = (middle + rng.random_range(-5000..0), middle + rng.random_range(1..5000));
                (0..rng.random_range(0..300))
                    .map(|_| rng.random_bool(0.9).then(|| rng.random_range(low..high)))
                    .collect()
            };
            let parts: Vec<Vec<Vec<Option<i64>>>> = (0..3).map(|_| (0..4).map(|_| draw()).collect()).collect();
            let mut united = KeySet::default();
            for part in &parts {
                let mut set = KeySet::default();
                assert!(part.iter().all(|batch| set.insert(&array(batch.iter().copied()), BYTES)));
                united = united.united(&set, BYTES).unwrap();
            }
            let known: BTreeSet<i64> = parts.iter().flatten().flatten().flatten().copied().collect();
            assert_eq!(united.len(), known.len() as u64, "seed {seed}");
            let asked: Vec<Option<i64>> = (-6000..6000)
                .map(|at: i64| middle.checked_add(at))
                .chain([None, Some(i64::MIN), Some(i64::MAX), Some(0)])
                .collect();
            let found = united.contains(&array(asked.iter().copied())).unwrap();
            for (asked, found) in asked.iter().zip(found.iter()) {
                assert_eq!(found, asked.is_some_and(|asked| known.contains(&asked)), "seed {seed}, {asked:?}");
            }
        }
    }

    #[test]
    fn a_set_of_few_values_far_apart_is_refused() {
        let mut set = KeySet::default();
        assert!(set.insert(&array([Some(7)]), BYTES));
        assert!(!set.insert(&array([Some(7 + 8 * BYTES as i64)]), BYTES));
        assert!(!set.insert(&array([Some(i64::MIN), Some(i64::MAX)]), BYTES));
        assert_eq!((set.len(), set.bytes() <= BYTES), (1, true), "what was there stays");
        let mut far = KeySet::default();
        assert!(far.insert(&array([Some(-8 * BYTES as i64)]), BYTES));
        assert_eq!(set.clone().united(&far, BYTES), None);
        assert_eq!(set.clone().united(&KeySet::default(), BYTES), Some(set.clone()));
        assert_eq!(KeySet::default().united(&set, BYTES), Some(set));
    }

    #[test]
    fn other_types_are_refused() {
        let mut set = KeySet::default();
        let text: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
        assert!(!set.insert(&text, BYTES) && !KeySet::holds(text.data_type()));
        assert_eq!(set.contains(&text), None);
        let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![u32::MAX]));
        assert!(set.insert(&unsigned, BYTES) && KeySet::holds(unsigned.data_type()));
        assert_eq!(set.contains(&unsigned).unwrap().count_set_bits(), 1);
    }

    #[test]
    fn rows_without_a_key_in_the_set_do_not_pass() {
        let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
        let mut set = KeySet::default();
        assert!(set.insert(&array((0..100).map(Some)), BYTES));
        let expression = KeySetExpr::new(col("key", &schema).unwrap(), Arc::new(set), 1.0);
        let batch = RecordBatch::try_new(schema, vec![array((50..150).map(|at| (at % 5 > 0).then_some(at)))]).unwrap();
        let passed = expression.evaluate(&batch).unwrap().into_array(100).unwrap();
        assert_eq!(passed.as_boolean().true_count(), 40);
    }
}
