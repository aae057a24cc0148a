//! Fields of one column to an Arrow array.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowNativeTypeOp, BooleanArray, BooleanBufferBuilder, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute;
use arrow::datatypes::*;

use thermocline_pushdown::{UUID_BYTES, UUID_WIDTH, canonical_f32, canonical_f64, parse_uuid};

use super::field::{BadField, FieldRules, unquote};
use super::number;
use super::records::Records;
use super::temporal::{self, Zone};
use super::text::{StringColumn, StringViewColumn};

/// Statistics of a column.
#[derive(Debug, Clone, Default)]
pub struct ColumnStatistics {
    /// Least value, an array of length 1 of the column's type; `None` if there
    /// is no value, or none is kept for the type (strings and Booleans). Of
    /// floats, NaN is above infinity.
    pub min: Option<ArrayRef>,
    /// Greatest value, likewise.
    pub max: Option<ArrayRef>,
    /// Number of NULLs.
    pub null_count: u64,
}

/// Records of which one column is converted.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    pub(super) records: Records<'a>,
    /// The data of `records` if all of it is UTF-8.
    pub(super) text: Option<&'a str>,
    /// Index of the column in the file.
    pub(super) column: usize,
    /// The selected records.
    pub(super) rows: Range<usize>,
}

impl<'a> Fields<'a> {
    /// Start and end of each field, and the row it belongs to.
    #[inline(always)]
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (usize, usize, usize)> + use<'a> {
        let (records, column) = (self.records, self.column);
        self.rows.clone().map(move |row| {
            let (start, end) = records.field(row, column);
            (row, start, end)
        })
    }

    /// Bytes of a field.
    #[inline(always)]
    pub(super) fn raw(&self, start: usize, end: usize) -> &'a [u8] {
        self.records.data().get(start..end).unwrap_or_default()
    }
}

/// Builds the arrays of one column, batch after batch.
pub(super) trait Column: Send + fmt::Debug {
    /// Appends the fields, up to the first bad one: its row is returned.
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)>;

    /// The array of everything appended since the last call.
    fn finish(&mut self, with_statistics: bool) -> ArrayRef;

    /// Statistics of all arrays finished.
    fn statistics(&self) -> ColumnStatistics;
}

/// A column that reads `data_type`, or `None` if there is no such parser.
pub(super) fn column(data_type: &DataType, rules: FieldRules) -> Option<Box<dyn Column>> {
    macro_rules! integer {
        ($type:ty) => {
            primitive::<$type, _>(data_type, rules, Integer)
        };
    }
    macro_rules! timestamp {
        ($type:ty, $units_per_second:literal, $zone:expr) => {
            primitive::<$type, _>(data_type, rules, Timestamp::<$units_per_second>(Zone::of_type($zone.as_deref())?))
        };
    }
    Some(match data_type {
        DataType::Boolean => Box::new(BooleanColumn { values: Values::new(Boolean, rules), null_count: 0 }),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Float32 => primitive::<Float32Type, _>(data_type, rules, Float),
        DataType::Float64 => primitive::<Float64Type, _>(data_type, rules, Float),
        DataType::Decimal128(precision, scale) => {
            primitive::<Decimal128Type, _>(data_type, rules, Decimal::new(*precision, *scale))
        }
        DataType::Decimal256(precision, scale) => {
            primitive::<Decimal256Type, _>(data_type, rules, Decimal::new(*precision, *scale))
        }
        DataType::Date32 => primitive::<Date32Type, _>(data_type, rules, Date),
        DataType::Time32(TimeUnit::Second) => primitive::<Time32SecondType, _>(data_type, rules, Time::<1>),
        DataType::Time32(TimeUnit::Millisecond) => {
            primitive::<Time32MillisecondType, _>(data_type, rules, Time::<1_000>)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            primitive::<Time64MicrosecondType, _>(data_type, rules, Time::<1_000_000>)
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            primitive::<Time64NanosecondType, _>(data_type, rules, Time::<1_000_000_000>)
        }
        DataType::Timestamp(TimeUnit::Second, zone) => timestamp!(TimestampSecondType, 1, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            timestamp!(TimestampMillisecondType, 1_000, zone)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            timestamp!(TimestampMicrosecondType, 1_000_000, zone)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            timestamp!(TimestampNanosecondType, 1_000_000_000, zone)
        }
        DataType::Utf8 => Box::new(StringColumn::<i32>::new(rules)),
        DataType::LargeUtf8 => Box::new(StringColumn::<i64>::new(rules)),
        DataType::FixedSizeBinary(UUID_WIDTH) => {
            Box::new(UuidColumn { values: Values::new(Uuid, rules), null_count: 0 })
        }
        DataType::Utf8View => Box::new(StringViewColumn::new(rules)),
        _ => return None,
    })
}

fn primitive<T, P>(data_type: &DataType, rules: FieldRules, parser: P) -> Box<dyn Column>
where
    T: ArrowPrimitiveType + fmt::Debug,
    P: Parser<T::Native> + 'static,
{
    Box::new(PrimitiveColumn::<T, P> {
        values: Values::new(parser, rules),
        data_type: data_type.clone(),
        range: None,
        null_count: 0,
    })
}

/// Text to one value.
trait Parser<N>: Send + fmt::Debug {
    /// The value of the `len` bytes from `start` on. `None`: try [`Self::parse`]. Further bytes of `data` may be read,
    /// but must not matter.
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<N>;

    /// The value of `text`, `None` if it is not one.
    fn parse(&self, text: &[u8]) -> Option<N>;
}

/// Parsed values of one batch.
#[derive(Debug)]
struct Values<N, P> {
    parser: P,
    rules: FieldRules,
    /// Whether the NULL text would parse, so that it must be looked for first.
    null_parses: bool,
    values: Vec<N>,
    /// Positions of NULLs in `values`, ascending.
    nulls: Vec<usize>,
    scratch: Vec<u8>,
}

impl<N: Copy + Default, P: Parser<N>> Values<N, P> {
    fn new(parser: P, rules: FieldRules) -> Self {
        Self {
            null_parses: parser.parse(&rules.null_text).is_some(),
            parser,
            rules,
            values: Vec::new(),
            nulls: Vec::new(),
            scratch: Vec::new(),
        }
    }

    #[inline(always)]
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        let data = fields.records.data();
        let null_parses = self.null_parses;
        // A local vector, so that its fields stay in registers.
        let mut values = std::mem::take(&mut self.values);
        values.reserve(fields.rows.len());
        let mut result = Ok(());
        for (row, start, end) in fields.iter() {
            let fast = self.parser.fast(data, start, end - start);
            let value = match fast {
                Some(value) if !null_parses => value,
                _ => match self.exact(fields.raw(start, end), values.len()) {
                    Ok(value) => value,
                    Err(bad) => {
                        result = Err((row, bad));
                        break;
                    }
                },
            };
            values.push(value);
        }
        self.values = values;
        result
    }

    /// The value of any field. NULL is noted at `position`; its value does not
    /// matter.
    #[inline(never)]
    fn exact(&mut self, raw: &[u8], position: usize) -> Result<N, BadField> {
        let content = unquote(raw, self.rules.dialect, &mut self.scratch).unwrap_or(raw);
        if content == &*self.rules.null_text {
            if !self.rules.nullable {
                return Err(BadField::Null);
            }
            self.nulls.push(position);
            return Ok(N::default());
        }
        self.parser.parse(content).ok_or(BadField::Value)
    }

    fn take(&mut self) -> (Vec<N>, Option<NullBuffer>) {
        // The next batch will have as many rows.
        let next = Vec::with_capacity(self.values.len());
        let values = std::mem::replace(&mut self.values, next);
        if self.nulls.is_empty() {
            return (values, None);
        }
        let mut valid = BooleanBufferBuilder::new(values.len());
        for null in self.nulls.drain(..) {
            valid.append_n(null - valid.len(), true);
            valid.append(false);
        }
        valid.append_n(values.len() - valid.len(), true);
        (values, Some(NullBuffer::new(valid.finish())))
    }
}

/// A column of fixed-width values.
#[derive(Debug)]
struct PrimitiveColumn<T: ArrowPrimitiveType, P> {
    values: Values<T::Native, P>,
    data_type: DataType,
    /// Least and greatest value so far.
    range: Option<(T::Native, T::Native)>,
    null_count: u64,
}

impl<T: ArrowPrimitiveType, P: Parser<T::Native>> PrimitiveColumn<T, P> {
    fn widen_range(&mut self, array: &PrimitiveArray<T>) {
        let (Some(min), Some(max)) = (compute::min(array), compute::max(array)) else {
            return;
        };
        self.range = Some(match self.range {
            None => (min, max),
            Some((least, greatest)) => {
                (if min.is_lt(least) { min } else { least }, if max.is_gt(greatest) { max } else { greatest })
            }
        });
    }
}

impl<T: ArrowPrimitiveType + fmt::Debug, P: Parser<T::Native>> Column for PrimitiveColumn<T, P> {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        self.values.append(fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        let (values, nulls) = self.values.take();
        let array = PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(self.data_type.clone());
        if with_statistics {
            self.null_count += arrow::array::Array::null_count(&array) as u64;
            self.widen_range(&array);
        }
        Arc::new(array)
    }

    fn statistics(&self) -> ColumnStatistics {
        let array = |value| {
            let array = PrimitiveArray::<T>::from_iter_values([value]);
            Arc::new(array.with_data_type(self.data_type.clone())) as ArrayRef
        };
        ColumnStatistics {
            min: self.range.map(|(min, _)| array(min)),
            max: self.range.map(|(_, max)| array(max)),
            null_count: self.null_count,
        }
    }
}

/// A column of Booleans.
#[derive(Debug)]
struct BooleanColumn {
    values: Values<bool, Boolean>,
    null_count: u64,
}

impl Column for BooleanColumn {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        self.values.append(fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        let (values, nulls) = self.values.take();
        if with_statistics {
            self.null_count += nulls.as_ref().map_or(0, NullBuffer::null_count) as u64;
        }
        Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
    }

    fn statistics(&self) -> ColumnStatistics {
        ColumnStatistics { null_count: self.null_count, ..ColumnStatistics::default() }
    }
}

#[derive(Debug)]
struct Boolean;

impl Parser<bool> for Boolean {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<bool> {
        self.parse(data.get(start..start + len)?)
    }

    #[inline]
    fn parse(&self, text: &[u8]) -> Option<bool> {
        let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
        match text {
            [b't' | b'T' | b'y' | b'Y' | b'1'] => Some(true),
            [b'f' | b'F' | b'n' | b'N' | b'0'] => Some(false),
            _ if is(b"true") || is(b"yes") => Some(true),
            _ if is(b"false") || is(b"no") => Some(false),
            _ => None,
        }
    }
}

/// A column of UUIDs.
#[derive(Debug)]
struct UuidColumn {
    values: Values<[u8; UUID_BYTES], Uuid>,
    null_count: u64,
}

impl Column for UuidColumn {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        self.values.append(fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        let (values, nulls) = self.values.take();
        if with_statistics {
            self.null_count += nulls.as_ref().map_or(0, NullBuffer::null_count) as u64;
        }
        Arc::new(FixedSizeBinaryArray::new(UUID_WIDTH, values.into_flattened().into(), nulls))
    }

    fn statistics(&self) -> ColumnStatistics {
        ColumnStatistics { null_count: self.null_count, ..ColumnStatistics::default() }
    }
}

#[derive(Debug)]
struct Uuid;

impl Parser<[u8; UUID_BYTES]> for Uuid {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<[u8; UUID_BYTES]> {
        self.parse(data.get(start..start + len)?)
    }

    #[inline]
    fn parse(&self, text: &[u8]) -> Option<[u8; UUID_BYTES]> {
        parse_uuid(std::str::from_utf8(text).ok()?)
    }
}

#[derive(Debug)]
struct Integer;

impl<N: TryFrom<i64> + TryFrom<i128>> Parser<N> for Integer {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<N> {
        N::try_from(number::fast_integer(data, start, len)?).ok()
    }

    fn parse(&self, text: &[u8]) -> Option<N> {
        N::try_from(number::integer(text)?).ok()
    }
}

/// Floats in their one form: see [`thermocline_pushdown::canonical_floats`].
#[derive(Debug)]
struct Float;

impl Parser<f64> for Float {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<f64> {
        // -0.0 becomes 0.0.
        Some(number::fast_f64(data, start, len)? + 0.0)
    }

    fn parse(&self, text: &[u8]) -> Option<f64> {
        let value: f64 = number::float(text)?;
        Some(canonical_f64(value))
    }
}

impl Parser<f32> for Float {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<f32> {
        // -0.0 becomes 0.0.
        Some(number::fast_f32(data, start, len)? + 0.0)
    }

    fn parse(&self, text: &[u8]) -> Option<f32> {
        let value: f32 = number::float(text)?;
        Some(canonical_f32(value))
    }
}

#[derive(Debug)]
struct Decimal {
    precision: u8,
    scale: i8,
    /// Ten to the precision, or the greatest `i128`.
    limit: i128,
}

impl Decimal {
    fn new(precision: u8, scale: i8) -> Self {
        Self { precision, scale, limit: 10_i128.saturating_pow(u32::from(precision)) }
    }
}

impl Parser<i128> for Decimal {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<i128> {
        number::fast_decimal(data, start, len, self.scale, self.limit)
    }

    fn parse(&self, text: &[u8]) -> Option<i128> {
        number::decimal(text, self.precision, self.scale)
    }
}

impl Parser<i256> for Decimal {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<i256> {
        number::fast_decimal(data, start, len, self.scale, self.limit).map(i256::from_i128)
    }

    fn parse(&self, text: &[u8]) -> Option<i256> {
        number::decimal(text, self.precision, self.scale)
    }
}

#[derive(Debug)]
struct Date;

impl Parser<i32> for Date {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<i32> {
        if len != 10 {
            return None;
        }
        temporal::date(data.get(start..)?.first_chunk()?)
    }

    fn parse(&self, text: &[u8]) -> Option<i32> {
        temporal::trimmed_date(text)
    }
}

#[derive(Debug)]
struct Time<const UNITS_PER_SECOND: u32>;

impl<N: TryFrom<i64>, const UNITS_PER_SECOND: u32> Parser<N> for Time<UNITS_PER_SECOND> {
    #[inline(always)]
    fn fast(&self, _: &[u8], _: usize, _: usize) -> Option<N> {
        None
    }

    fn parse(&self, text: &[u8]) -> Option<N> {
        N::try_from(temporal::trimmed_time(text)?.in_units(UNITS_PER_SECOND)).ok()
    }
}

#[derive(Debug)]
struct Timestamp<const UNITS_PER_SECOND: u32>(Zone);

impl<const UNITS_PER_SECOND: u32> Parser<i64> for Timestamp<UNITS_PER_SECOND> {
    #[inline(always)]
    fn fast(&self, data: &[u8], start: usize, len: usize) -> Option<i64> {
        temporal::timestamp(data.get(start..start + len)?, UNITS_PER_SECOND, self.0)
    }

    fn parse(&self, text: &[u8]) -> Option<i64> {
        temporal::trimmed_timestamp(text, UNITS_PER_SECOND, self.0)
    }
}
