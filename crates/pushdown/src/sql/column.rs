//! Columns as values of SQL, one by one.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BinaryViewArray, BooleanArray, BooleanBuilder, Date32Array, Date32Builder,
    Decimal128Array, Decimal128Builder, FixedSizeBinaryArray, FixedSizeBinaryBuilder, Float32Array, Float32Builder,
    Float64Array, Float64Builder, Int16Builder, Int32Builder, Int64Array, Int64Builder, IntervalMonthDayNanoArray,
    IntervalMonthDayNanoBuilder, LargeStringArray, LargeStringBuilder, StringArray, StringBuilder, StringViewArray,
    StringViewBuilder, StructArray, TimestampMicrosecondArray, TimestampMicrosecondBuilder, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::ColumnarValue;
use thermocline_types::{Class, DataType, Decimal, Interval, Value, ValueRef};

use super::external;
use super::json::{is_jsonb, jsonb_array, jsonb_texts};
use super::types::{UTC, UUID_WIDTH, sql_type};

/// Nanoseconds of a microsecond.
const NANOS_PER_MICRO: i64 = 1_000;

/// A column of one of SQL's types.
pub enum Column {
    /// NULL in every row.
    Null,
    /// BOOLEAN.
    Boolean(BooleanArray),
    /// SMALLINT, INTEGER and BIGINT.
    Int(Int64Array),
    /// REAL.
    Real(Float32Array),
    /// DOUBLE PRECISION.
    Float(Float64Array),
    /// DECIMAL, and its digits after the point.
    Decimal(Decimal128Array, u8),
    /// TEXT.
    Text(StringViewArray),
    /// BYTEA.
    Bytes(BinaryViewArray),
    /// DATE.
    Date(Date32Array),
    /// TIMESTAMP.
    Timestamp(TimestampMicrosecondArray),
    /// TIMESTAMP WITH TIME ZONE.
    TimestampTz(TimestampMicrosecondArray),
    /// INTERVAL.
    Interval(IntervalMonthDayNanoArray),
    /// UUID.
    Uuid(FixedSizeBinaryArray),
    /// JSONB, and the documents' texts.
    Jsonb(StructArray, LargeStringArray),
}

impl Column {
    /// The column of an array.
    ///
    /// # Errors
    /// If SQL has no such type.
    pub fn new(array: &ArrayRef) -> Result<Self> {
        let of = array.data_type();
        let to = |of: &ArrowType| cast(array, of);
        Ok(match sql_type(of) {
            _ if *of == ArrowType::Null => Self::Null,
            Some(DataType::Boolean) => Self::Boolean(to(&ArrowType::Boolean)?.as_boolean().clone()),
            Some(DataType::SmallInt | DataType::Integer | DataType::BigInt) => {
                Self::Int(to(&ArrowType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            Some(DataType::Real) => Self::Real(to(&ArrowType::Float32)?.as_primitive::<Float32Type>().clone()),
            Some(DataType::Double) => Self::Float(to(&ArrowType::Float64)?.as_primitive::<Float64Type>().clone()),
            Some(DataType::Decimal { precision, scale }) => {
                let array = to(&ArrowType::Decimal128(precision, scale.cast_signed()))?;
                Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), scale)
            }
            Some(DataType::Text) => Self::Text(to(&ArrowType::Utf8View)?.as_string_view().clone()),
            Some(DataType::Bytea) => Self::Bytes(to(&ArrowType::BinaryView)?.as_binary_view().clone()),
            Some(DataType::Date) => Self::Date(to(&ArrowType::Date32)?.as_primitive::<Date32Type>().clone()),
            Some(DataType::Timestamp) => {
                let array = to(&ArrowType::Timestamp(TimeUnit::Microsecond, None))?;
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>().clone())
            }
            Some(DataType::TimestampTz) => {
                let array = to(&ArrowType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))?;
                Self::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().clone())
            }
            Some(DataType::Interval) => Self::Interval(array.as_primitive::<IntervalMonthDayNanoType>().clone()),
            Some(DataType::Uuid) => {
                Self::Uuid(to(&ArrowType::FixedSizeBinary(UUID_WIDTH))?.as_fixed_size_binary().clone())
            }
            Some(DataType::Jsonb) => {
                let documents = to(of)?.as_struct().clone();
                let texts = jsonb_texts(&documents)?;
                Self::Jsonb(documents, texts)
            }
            Some(DataType::Numeric | DataType::Varchar(_) | DataType::Char(_)) | None => {
                return exec_err!("SQL has no type {of}");
            }
        })
    }

    /// The value in a row.
    ///
    /// # Errors
    /// If a decimal has more than 38 digits.
    pub fn value(&self, row: usize) -> Result<ValueRef<'_>> {
        let array: &dyn Array = match self {
            Self::Null => return Ok(ValueRef::Null),
            Self::Boolean(array) => array,
            Self::Int(array) => array,
            Self::Real(array) => array,
            Self::Float(array) => array,
            Self::Decimal(array, _) => array,
            Self::Text(array) => array,
            Self::Bytes(array) => array,
            Self::Date(array) => array,
            Self::Timestamp(array) | Self::TimestampTz(array) => array,
            Self::Interval(array) => array,
            Self::Uuid(array) => array,
            Self::Jsonb(array, _) => array,
        };
        if array.is_null(row) {
            return Ok(ValueRef::Null);
        }
        Ok(match self {
            Self::Null => ValueRef::Null,
            Self::Boolean(array) => ValueRef::Boolean(array.value(row)),
            Self::Int(array) => ValueRef::Int(array.value(row)),
            Self::Real(array) => ValueRef::Real(array.value(row)),
            Self::Float(array) => ValueRef::Float(array.value(row)),
            Self::Decimal(array, scale) => ValueRef::Decimal(Decimal::new(array.value(row), *scale).map_err(external)?),
            Self::Text(array) => ValueRef::Text(array.value(row)),
            Self::Bytes(array) => ValueRef::Bytes(array.value(row)),
            Self::Date(array) => ValueRef::Date(array.value(row)),
            Self::Timestamp(array) => ValueRef::Timestamp(array.value(row)),
            Self::TimestampTz(array) => ValueRef::TimestampTz(array.value(row)),
            Self::Interval(array) => ValueRef::Interval(span(array.value(row))),
            Self::Uuid(array) => match array.value(row).try_into() {
                Ok(uuid) => ValueRef::Uuid(uuid),
                Err(_) => return exec_err!("a UUID of {} bytes", array.value_length()),
            },
            Self::Jsonb(_, texts) => ValueRef::Jsonb(texts.value(row)),
        })
    }
}

/// The array of `rows` values of a type, each computed by `value`.
///
/// # Errors
/// Those of `value`, and if a value is of another kind than the type.
pub(super) fn array_of(of: &ArrowType, rows: usize, mut value: impl FnMut(usize) -> Result<Value>) -> Result<ArrayRef> {
    macro_rules! build {
        ($builder:expr, $($kind:ident($value:ident) => $stored:expr),+) => {{
            let mut builder = $builder;
            for row in 0..rows {
                match value(row)? {
                    Value::Null => builder.append_null(),
                    $(Value::$kind($value) => builder.append_value($stored),)+
                    other => return exec_err!("{other:?} is no value of {of}"),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    Ok(match of {
        ArrowType::Null => new_null_array(of, rows),
        ArrowType::Boolean => build!(BooleanBuilder::with_capacity(rows), Boolean(value) => value),
        ArrowType::Int16 => build!(Int16Builder::with_capacity(rows), Int(value) => narrow::<i16>(value, of)?),
        ArrowType::Int32 => build!(Int32Builder::with_capacity(rows), Int(value) => narrow::<i32>(value, of)?),
        ArrowType::Int64 => build!(Int64Builder::with_capacity(rows), Int(value) => value),
        ArrowType::Float32 => build!(Float32Builder::with_capacity(rows), Real(value) => value),
        ArrowType::Float64 => build!(Float64Builder::with_capacity(rows), Float(value) => value),
        ArrowType::Decimal128(precision, scale) => {
            let places = u8::try_from(*scale).unwrap_or(0);
            let fit = |value: Decimal| value.fit(*precision, places).map(Decimal::units).map_err(external);
            let builder = Decimal128Builder::with_capacity(rows).with_precision_and_scale(*precision, *scale)?;
            build!(builder, Decimal(value) => fit(value)?, Int(value) => fit(value.into())?)
        }
        ArrowType::Utf8 => build!(StringBuilder::new(), Text(value) => value),
        ArrowType::Utf8View => build!(StringViewBuilder::new(), Text(value) => value),
        ArrowType::Binary => build!(BinaryBuilder::new(), Bytes(value) => value),
        ArrowType::Date32 => build!(Date32Builder::with_capacity(rows), Date(value) => value),
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => {
            build!(TimestampMicrosecondBuilder::with_capacity(rows), Timestamp(value) => value)
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) if sql_type(of) == Some(DataType::TimestampTz) => {
            let builder = TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(of.clone());
            build!(builder, TimestampTz(value) => value)
        }
        ArrowType::Interval(IntervalUnit::MonthDayNano) => {
            let builder = IntervalMonthDayNanoBuilder::with_capacity(rows);
            build!(builder, Interval(value) => arrow_span(value).map_err(external)?)
        }
        ArrowType::FixedSizeBinary(UUID_WIDTH) => uuids(rows, value)?,
        of if is_jsonb(of) => {
            let mut texts = LargeStringBuilder::new();
            for row in 0..rows {
                match value(row)? {
                    Value::Null => texts.append_null(),
                    Value::Jsonb(text) => texts.append_value(text),
                    other => return exec_err!("{other:?} is no value of {of}"),
                }
            }
            Arc::new(jsonb_array(texts.finish()))
        }
        other => {
            let similar = match other {
                ArrowType::LargeUtf8 | ArrowType::Dictionary(..) => ArrowType::Utf8View,
                ArrowType::LargeBinary | ArrowType::BinaryView => ArrowType::Binary,
                other => return exec_err!("SQL has no type {other}"),
            };
            cast(&array_of(&similar, rows, value)?, other)?
        }
    })
}

/// The array of UUIDs.
fn uuids(rows: usize, mut value: impl FnMut(usize) -> Result<Value>) -> Result<ArrayRef> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(rows, UUID_WIDTH);
    for row in 0..rows {
        match value(row)? {
            Value::Null => builder.append_null(),
            Value::Uuid(uuid) => builder.append_value(uuid)?,
            other => return exec_err!("{other:?} is no value of type UUID"),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Intervals, UUIDs and documents as texts, as SQL casts them, which is not how Arrow writes them; other arrays as they are.
///
/// # Errors
/// None for these.
pub fn with_sql_texts(array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(sql_type(array.data_type()), Some(DataType::Interval | DataType::Uuid | DataType::Jsonb)) {
        return Ok(Arc::clone(array));
    }
    let column = Column::new(array)?;
    let text = |row| match column.value(row)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.to_string())),
    };
    Ok(Arc::new((0..array.len()).map(text).collect::<Result<StringArray>>()?))
}

/// A function of arrays, applied to a scalar as to an array of one.
///
/// # Errors
/// Those of the function.
pub(super) fn apply(to: &ColumnarValue, function: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match to {
        ColumnarValue::Array(array) => function(array).map(ColumnarValue::Array),
        ColumnarValue::Scalar(value) => {
            let one = function(&value.to_array()?)?;
            ScalarValue::try_from_array(&one, 0).map(ColumnarValue::Scalar)
        }
    }
}

/// Arrow's interval, which holds nanoseconds, as one of whole microseconds.
fn span(of: IntervalMonthDayNano) -> Interval {
    Interval { months: of.months, days: of.days, micros: of.nanoseconds / NANOS_PER_MICRO }
}

/// An interval as Arrow's.
///
/// # Errors
/// If its time is longer than nanoseconds hold, which is 292 years.
pub fn arrow_span(of: Interval) -> thermocline_types::Result<IntervalMonthDayNano> {
    match of.micros.checked_mul(NANOS_PER_MICRO) {
        Some(nanos) => Ok(IntervalMonthDayNano::new(of.months, of.days, nanos)),
        None => Err(Class::DatetimeOverflow.error(format_args!("interval out of range: {of}"))),
    }
}

fn narrow<T: TryFrom<i64>>(value: i64, of: &ArrowType) -> Result<T> {
    let error = |_| Class::OutOfRange.error(format_args!("{value} does not fit {of}"));
    T::try_from(value).map_err(|none| external(error(none)))
}
