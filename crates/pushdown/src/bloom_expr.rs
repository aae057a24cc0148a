//! The predicate "may have a partner on the build side", as it stands in a fragment's filter.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use prost::Message;

use crate::bloom_filter::{BloomFilter, hash_keys, is_hashable};
use crate::observed::{Observed, PASSING_MAX};

/// Key columns of a join.
const KEYS_MAX: usize = 64;

/// TRUE for every row whose keys are in a [`BloomFilter`], FALSE for most others.
///
/// It only saves work: the join above drops what it lets through. So where too many rows pass, by
/// default more than nine in ten, it lets batches pass unseen for a while.
#[derive(Debug)]
pub struct BloomFilterExpr {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    filter: Arc<BloomFilter>,
    /// Shared by copies over other columns: what it drops is a property of the data.
    observed: Arc<Observed>,
}

/// The wire form, without the key expressions.
#[derive(Clone, PartialEq, Message)]
struct BloomFilterMessage {
    /// [`BloomFilter::to_bytes`].
    #[prost(bytes = "vec", tag = "1")]
    bits: Vec<u8>,
    /// [`hash_check`]: a node that hashes otherwise would drop rows that it must keep.
    #[prost(fixed64, tag = "2")]
    hash_check: u64,
}

impl BloomFilterExpr {
    /// Tests `keys`, in the order in which the build side's were hashed.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>, filter: Arc<BloomFilter>) -> Self {
        Self { keys, filter, observed: Arc::new(Observed::new(PASSING_MAX)) }
    }

    /// The same expression, resting where more than this share of the rows pass.
    #[must_use]
    pub fn resting_above(self, passing_max: f64) -> Self {
        Self { observed: Arc::new(Observed::new(passing_max)), ..self }
    }

    /// The bits.
    pub fn filter(&self) -> &Arc<BloomFilter> {
        &self.filter
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(BloomFilterMessage { bits: self.filter.to_bytes(), hash_check: hash_check()? }.encode_to_vec())
    }

    /// # Errors
    /// If the bytes are no filter, or `keys` are none that can be hashed.
    pub(crate) fn decode(bytes: &[u8], keys: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<Self> {
        let message = match BloomFilterMessage::decode(bytes) {
            Ok(message) => message,
            Err(error) => return plan_err!("a Bloom filter does not decode: {error}"),
        };
        let Some(filter) = BloomFilter::from_bytes(&message.bits) else {
            return plan_err!("a Bloom filter has {} bytes, which is not its length", message.bits.len());
        };
        if message.hash_check != hash_check()? {
            return plan_err!("a Bloom filter was made with another hash function");
        }
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return plan_err!("a Bloom filter over {} columns", keys.len());
        }
        for key in keys {
            let data_type = key.data_type(schema)?;
            if !is_hashable(&data_type) {
                return plan_err!("a Bloom filter over {key} of type {data_type}");
            }
        }
        Ok(Self::new(keys.to_vec(), Arc::new(filter)))
    }
}

/// Hashes of fixed values, which differ if the hash function does.
fn hash_check() -> Result<u64> {
    let integers: ArrayRef = ScalarValue::from(0x0123_4567_89ab_i64).to_array()?;
    let text: ArrayRef = ScalarValue::Utf8View(Some("split-block Bloom filter".into())).to_array()?;
    let (hashes, _) = hash_keys(&[integers, text], 1)?;
    Ok(hashes.first().copied().unwrap_or_default())
}

impl fmt::Display for BloomFilterExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|key| key.to_string()).collect();
        write!(f, "bloom({}: {} keys, {} bytes)", keys.join(", "), self.filter.keys(), self.filter.bytes())
    }
}

impl PartialEq for BloomFilterExpr {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && (Arc::ptr_eq(&self.filter, &other.filter) || self.filter == other.filter)
    }
}

impl Eq for BloomFilterExpr {}

impl Hash for BloomFilterExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
        self.filter.bytes().hash(state);
    }
}

impl PhysicalExpr for BloomFilterExpr {
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
        let rows = batch.num_rows();
        let columns: Vec<ArrayRef> =
            self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
        let (hashes, keyed) = hash_keys(&columns, rows)?;
        let mut hashes = hashes.into_iter();
        let may =
            BooleanBuffer::collect_bool(rows, |_| hashes.next().is_some_and(|hash| self.filter.may_contain(hash)));
        let may = match &keyed {
            Some(keyed) => &may & keyed.inner(),
            None => may,
        };
        self.observed.add(rows as u64, may.count_set_bits() as u64);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(may, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { keys, filter: Arc::clone(&self.filter), observed: Arc::clone(&self.observed) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::col;

    use super::*;
    use crate::observed::BATCHES_UNSEEN;

    fn schema() -> Schema {
        let list = DataType::new_list(DataType::Int8, true);
        Schema::new(vec![Field::new("key", DataType::Int64, true), Field::new("list", list, true)])
    }

    fn batch(keys: std::ops::Range<i64>) -> RecordBatch {
        let rows = keys.clone().count();
        let keys: ArrayRef = Arc::new(Int64Array::from_iter(keys.map(|key| (key % 7 != 0).then_some(key))));
        let list = datafusion::arrow::array::new_null_array(schema().field(1).data_type(), rows);
        RecordBatch::try_new(Arc::new(schema()), vec![keys, list]).unwrap()
    }

    fn expression(keys: std::ops::Range<i64>) -> BloomFilterExpr {
        let mut filter = BloomFilter::with_bytes(64 << 10);
        let (hashes, _) = hash_keys(batch(keys.clone()).columns().get(..1).unwrap(), keys.count()).unwrap();
        hashes.into_iter().for_each(|hash| filter.insert(hash));
        BloomFilterExpr::new(vec![col("key", &schema()).unwrap()], Arc::new(filter))
    }

    fn passed(expression: &BloomFilterExpr, batch: &RecordBatch) -> usize {
        let passed = expression.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
        datafusion::common::cast::as_boolean_array(&passed).unwrap().true_count()
    }

    #[test]
    fn keys_pass_and_nulls_do_not() {
        let expression = expression(1..100);
        assert_eq!(passed(&expression, &batch(1..100)), (1..100).filter(|key| key % 7 != 0).count());
        assert!(passed(&expression, &batch(1000..2000)) < 20);
    }

    #[test]
    fn a_filter_that_drops_nothing_rests_and_wakes() {
        let (expression, own, foreign) = (expression(1..8000), batch(1..8000), batch(100_000..108_000));
        let all = own.num_rows();
        let some = passed(&expression, &own);
        assert!(some < all, "NULLs are dropped");
        let nothing_dropped = BloomFilterExpr::new(
            vec![col("key", &schema()).unwrap()],
            Arc::new(BloomFilter::from_bytes(&[0xff; 32]).unwrap()),
        );
        let keyed = RecordBatch::try_new(
            Arc::new(schema()),
            vec![Arc::new(Int64Array::from_iter_values(0..all as i64)), Arc::clone(own.column(1))],
        )
        .unwrap();
        // After enough rows it rests: even NULLs pass.
        (0..3).for_each(|_| assert_eq!(passed(&nothing_dropped, &keyed), all));
        assert_eq!(passed(&nothing_dropped, &own), all);
        // And looks again later.
        (0..BATCHES_UNSEEN).for_each(|_| _ = passed(&nothing_dropped, &own));
        assert_eq!(passed(&nothing_dropped, &own), some);
        assert!(passed(&expression, &foreign) < 400);
    }

    #[test]
    fn a_filter_rests_where_its_owner_says_and_ever_longer() {
        let (half, own) = (1..4000, batch(1..8000));
        let selective = expression(half.clone()).resting_above(0.9);
        (0..100).for_each(|_| assert!(passed(&selective, &own) < 4100, "half of the rows are few enough"));
        let strict = expression(half).resting_above(0.1);
        let looked = (0..2000).filter(|_| passed(&strict, &own) < own.num_rows()).count();
        assert!((3..60).contains(&looked), "it looked at {looked} of 2000 batches");
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let good = BloomFilterMessage { bits: vec![0; 64], hash_check: hash_check().unwrap() };
        let key = [col("key", &schema()).unwrap()];
        assert!(BloomFilterExpr::decode(&good.encode_to_vec(), &key, &schema()).is_ok());
        let refused = |message: &BloomFilterMessage, keys: &[Arc<dyn PhysicalExpr>], why: &str| {
            let error = BloomFilterExpr::decode(&message.encode_to_vec(), keys, &schema()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        for length in [0, 31, 33, 96] {
            refused(&BloomFilterMessage { bits: vec![0; length], ..good.clone() }, &key, &format!("{length} bytes"));
        }
        refused(&BloomFilterMessage { hash_check: 1, ..good.clone() }, &key, "another hash function");
        refused(&good, &[], "0 columns");
        refused(&good, &[col("list", &schema()).unwrap()], "List");
        assert!(BloomFilterExpr::decode(&[0xff; 10], &key, &schema()).is_err());
    }
}
