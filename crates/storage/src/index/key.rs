//! Values as bytes that compare as the values do.

use std::ops::Bound;

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use datafusion::common::ScalarValue;
use thermocline_pushdown::{Lookup, ValueRange, canonical_f32, canonical_f64};

/// Longer keys are cut. Cutting keeps the order, so a lookup finds too much and never too little.
pub(crate) const KEY_BYTES_MAX: usize = 64;

/// Whether a column of this type can have an index: whether its values are in an order.
pub fn is_indexable(data_type: &DataType) -> bool {
    for_each_key(arrow::array::new_empty_array(data_type).as_ref(), |_, _| {})
}

/// Calls `take` with the position and the key of every value that is not NULL; `false` if values of
/// this type have no keys.
///
/// | type | key |
/// |---|---|
/// | integers, decimals, dates, times, timestamps | big-endian, the sign bit, if there is one, flipped |
/// | floats | the bits in the order of IEEE 754's totalOrder, -0.0 as 0.0, one NaN above all |
/// | Boolean | 0 or 1 |
/// | strings, binary | the bytes themselves, the first [`KEY_BYTES_MAX`] of them |
pub(crate) fn for_each_key(array: &dyn Array, mut take: impl FnMut(usize, &[u8])) -> bool {
    macro_rules! primitive {
        ($type:ty) => {
            primitive_keys(array.as_primitive::<$type>(), take)
        };
    }
    let cut = |bytes: &[u8]| bytes.len().min(KEY_BYTES_MAX);
    macro_rules! bytes {
        ($array:expr, $bytes:expr) => {
            for (row, value) in $array.iter().enumerate() {
                if let Some(value) = value {
                    let bytes: &[u8] = $bytes(value);
                    take(row, bytes.get(..cut(bytes)).unwrap_or(bytes));
                }
            }
        };
    }
    match array.data_type() {
        DataType::Int8 => primitive!(Int8Type),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::UInt8 => primitive!(UInt8Type),
        DataType::UInt16 => primitive!(UInt16Type),
        DataType::UInt32 => primitive!(UInt32Type),
        DataType::UInt64 => primitive!(UInt64Type),
        DataType::Float32 => primitive!(Float32Type),
        DataType::Float64 => primitive!(Float64Type),
        DataType::Decimal128(..) => primitive!(Decimal128Type),
        DataType::Decimal256(..) => primitive!(Decimal256Type),
        DataType::Date32 => primitive!(Date32Type),
        DataType::Date64 => primitive!(Date64Type),
        DataType::Time32(TimeUnit::Second) => primitive!(Time32SecondType),
        DataType::Time32(TimeUnit::Millisecond) => primitive!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => primitive!(Time64MicrosecondType),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => primitive!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitive!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType),
        DataType::Boolean => {
            for (row, value) in array.as_boolean().iter().enumerate() {
                if let Some(value) = value {
                    take(row, &[u8::from(value)]);
                }
            }
        }
        DataType::Utf8View => bytes!(array.as_string_view(), str::as_bytes),
        DataType::Utf8 => bytes!(array.as_string::<i32>(), str::as_bytes),
        DataType::LargeUtf8 => bytes!(array.as_string::<i64>(), str::as_bytes),
        DataType::BinaryView => bytes!(array.as_binary_view(), std::convert::identity),
        DataType::Binary => bytes!(array.as_binary::<i32>(), std::convert::identity),
        DataType::LargeBinary => bytes!(array.as_binary::<i64>(), std::convert::identity),
        DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary(), std::convert::identity),
        _ => return false,
    }
    true
}

fn primitive_keys<T: ArrowPrimitiveType<Native: OrderedBytes>>(
    array: &PrimitiveArray<T>,
    mut take: impl FnMut(usize, &[u8]),
) {
    for (row, value) in array.iter().enumerate() {
        if let Some(value) = value {
            take(row, value.ordered().as_ref());
        }
    }
}

/// Native values whose keys are of fixed width.
trait OrderedBytes {
    fn ordered(self) -> impl AsRef<[u8]>;
}

macro_rules! ordered_bytes {
    ($($type:ty: |$value:ident| $key:expr;)*) => {
        $(impl OrderedBytes for $type {
            fn ordered(self) -> impl AsRef<[u8]> {
                let $value = self;
                $key.to_be_bytes()
            }
        })*
    };
}

ordered_bytes! {
    i8: |value| value ^ i8::MIN;
    i16: |value| value ^ i16::MIN;
    i32: |value| value ^ i32::MIN;
    i64: |value| value ^ i64::MIN;
    i128: |value| value ^ i128::MIN;
    i256: |value| value ^ i256::MIN;
    u8: |value| value;
    u16: |value| value;
    u32: |value| value;
    u64: |value| value;
    f32: |value| {
        let bits = canonical_f32(value).to_bits();
        bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 }
    };
    f64: |value| {
        let bits = canonical_f64(value).to_bits();
        bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
    };
}

/// Sorted ranges of keys that do not touch each other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyRanges {
    ranges: Vec<KeyRange>,
}

/// Keys from `low` to `high`, both included. `None` is no bound.
#[derive(Debug, Clone, PartialEq)]
struct KeyRange {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// Keys equal to `low` are left out.
    low_open: bool,
    /// Keys equal to `high` are left out.
    high_open: bool,
}

impl KeyRanges {
    /// The keys of the values that `lookup` names in a column of `data_type`; `None` if one of them
    /// is of another type.
    pub(crate) fn of(lookup: &Lookup, data_type: &DataType) -> Option<Self> {
        let mut ranges = lookup.ranges.iter().map(|range| key_range(range, data_type)).collect::<Option<Vec<_>>>()?;
        ranges.sort_by(|a, b| a.low.cmp(&b.low));
        let mut joined: Vec<KeyRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| *high >= range.low) => last.join(range),
                _ => joined.push(range),
            }
        }
        Some(Self { ranges: joined })
    }

    /// Every key.
    pub(crate) fn everything() -> Self {
        Self { ranges: vec![KeyRange { low: vec![], low_open: false, high: None, high_open: false }] }
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Lowest and highest key of each range, `None` for no highest.
    pub(super) fn bounds(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.ranges.iter().map(|range| (range.low.as_slice(), range.high.as_deref()))
    }

    /// Whether `key` is in one of them.
    pub(super) fn contain(&self, key: &[u8]) -> bool {
        let after = self.ranges.partition_point(|range| range.low.as_slice() <= key);
        let Some(range) = after.checked_sub(1).and_then(|at| self.ranges.get(at)) else {
            return false;
        };
        let above = range.low.as_slice() < key || !range.low_open;
        let below = range.high.as_ref().is_none_or(|high| key < high.as_slice() || (key == high && !range.high_open));
        above && below
    }
}

impl KeyRange {
    /// Extends this range by one that begins within it.
    fn join(&mut self, other: Self) {
        if other.low == self.low {
            self.low_open &= other.low_open;
        }
        let higher = match (&self.high, &other.high) {
            (None, _) => false,
            (_, None) => true,
            (Some(high), Some(other)) => other > high,
        };
        if higher {
            self.high = other.high;
            self.high_open = other.high_open;
        } else if self.high == other.high {
            self.high_open &= other.high_open;
        }
    }
}

fn key_range(range: &ValueRange, data_type: &DataType) -> Option<KeyRange> {
    let (low, low_open) = match &range.low {
        Bound::Unbounded => (vec![], false),
        Bound::Included(value) => (key(value, data_type)?, false),
        Bound::Excluded(value) => opened(key(value, data_type)?),
    };
    let (high, high_open) = match &range.high {
        Bound::Unbounded => (None, false),
        Bound::Included(value) => (Some(key(value, data_type)?), false),
        Bound::Excluded(value) => {
            let (key, open) = opened(key(value, data_type)?);
            (Some(key), open)
        }
    };
    Some(KeyRange { low, high, low_open, high_open })
}

/// A key that a range ends before, if no other value has the same key.
fn opened(key: Vec<u8>) -> (Vec<u8>, bool) {
    let exact = key.len() < KEY_BYTES_MAX;
    (key, exact)
}

/// The key of one value in a column of `data_type`.
fn key(value: &ScalarValue, data_type: &DataType) -> Option<Vec<u8>> {
    let text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let found = value.data_type();
    if found != *data_type && !(text(&found) && text(data_type)) {
        return None;
    }
    let mut key = None;
    for_each_key(value.to_array().ok()?.as_ref(), |_, bytes| key = Some(bytes.to_vec()));
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int32Array, StringViewArray};
    use std::sync::Arc;

    fn keys(array: ArrayRef) -> Vec<Vec<u8>> {
        let mut keys = vec![];
        assert!(for_each_key(array.as_ref(), |_, key| keys.push(key.to_vec())));
        keys
    }

    #[test]
    fn keys_order_as_values() {
        let long = "x".repeat(100);
        let sorted: [ArrayRef; 4] = [
            Arc::new(Int32Array::from(vec![i32::MIN, -7, -1, 0, 1, i32::MAX])),
            Arc::new(Decimal128Array::from(vec![-10_i128.pow(30), -1, 0, 1, 10_i128.pow(30)])),
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 2.0, f64::INFINITY, f64::NAN])),
            Arc::new(StringViewArray::from(vec!["", "\0", "a", "a\0", "ab", "grün", &long])),
        ];
        for array in sorted {
            let keys = keys(array);
            assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
            assert!(keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
        }
        assert_eq!(keys(Arc::new(Float64Array::from(vec![-0.0, 0.0])))[0], [0x80, 0, 0, 0, 0, 0, 0, 0]);
        let nans = keys(Arc::new(Float64Array::from(vec![f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0007)])));
        assert!(nans.iter().all(|key| *key == nans[0]), "{nans:?}");
        assert!(!is_indexable(&DataType::new_list(DataType::Int8, true)));
        assert!(!is_indexable(&DataType::Null));
    }

    #[test]
    fn ranges_contain_what_they_say() {
        let value = |value: i32| ScalarValue::from(value);
        let range = |low, high| ValueRange { low, high };
        let lookup = Lookup {
            column: "a".into(),
            ranges: vec![
                range(Bound::Excluded(value(20)), Bound::Unbounded),
                range(Bound::Included(value(3)), Bound::Included(value(3))),
                range(Bound::Excluded(value(5)), Bound::Excluded(value(9))),
                range(Bound::Included(value(8)), Bound::Included(value(10))),
            ],
        };
        let ranges = KeyRanges::of(&lookup, &DataType::Int32).unwrap();
        assert_eq!(ranges.len(), 3);
        let found: Vec<i32> =
            (0..25).filter(|at| ranges.contain(&key(&value(*at), &DataType::Int32).unwrap())).collect();
        assert_eq!(found, [3, 6, 7, 8, 9, 10, 21, 22, 23, 24]);
        assert_eq!(KeyRanges::of(&lookup, &DataType::Int64), None);
    }

    #[test]
    fn cut_keys_lose_nothing() {
        let stem = "s".repeat(KEY_BYTES_MAX);
        let text = |end: &str| ScalarValue::Utf8View(Some(format!("{stem}{end}")));
        let range = ValueRange { low: Bound::Excluded(text("a")), high: Bound::Excluded(text("c")) };
        let lookup = Lookup { column: "s".into(), ranges: vec![range] };
        let ranges = KeyRanges::of(&lookup, &DataType::Utf8View).unwrap();
        assert!(ranges.contain(&key(&text("b"), &DataType::Utf8View).unwrap()));
    }
}
