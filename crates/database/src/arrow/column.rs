//! Values of the row engine as Arrow arrays, column by column.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder,
    FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
    IntervalMonthDayNanoBuilder, LargeStringBuilder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, i256};
use thermocline_pushdown::{UTC, UUID_WIDTH, arrow_span, arrow_type, jsonb_array};
use thermocline_transactions::types::{DataType as RowType, Decimal, ValueRef, canonical_f32, canonical_f64};
use thermocline_transactions::{Error, Result};

/// Builder of a column.
pub enum Column {
    Boolean(BooleanBuilder),
    SmallInt(Int16Builder),
    Integer(Int32Builder),
    BigInt(Int64Builder),
    Real(Float32Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder, u8),
    /// Decimals of different scales: up to 38 digits before the point and 38 behind it.
    WideDecimal(Decimal256Builder, u8),
    Text(StringViewBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    TimestampTz(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Uuid(FixedSizeBinaryBuilder),
    /// Texts of documents.
    Jsonb(LargeStringBuilder),
}

/// Digits of the widest decimals.
const WIDE_DIGITS: u8 = 76;

impl Column {
    /// An empty column of a type.
    pub fn new(data_type: RowType) -> Result<Self> {
        let typed = |data_type| Error::internal(format_args!("no array for a column of type {data_type}"));
        Ok(match data_type {
            RowType::Boolean => Self::Boolean(BooleanBuilder::new()),
            RowType::SmallInt => Self::SmallInt(Int16Builder::new()),
            RowType::Integer => Self::Integer(Int32Builder::new()),
            RowType::BigInt => Self::BigInt(Int64Builder::new()),
            RowType::Real => Self::Real(Float32Builder::new()),
            RowType::Double => Self::Double(Float64Builder::new()),
            RowType::Decimal { scale, .. } => {
                let arrow = arrow_type(data_type).ok_or_else(|| typed(data_type))?;
                Self::Decimal(Decimal128Builder::new().with_data_type(arrow), scale)
            }
            RowType::Numeric => return Err(typed(data_type)),
            RowType::Text | RowType::Varchar(_) | RowType::Char(_) => Self::Text(StringViewBuilder::new()),
            RowType::Bytea => Self::Bytes(BinaryBuilder::new()),
            RowType::Date => Self::Date(Date32Builder::new()),
            RowType::Timestamp => Self::Timestamp(TimestampMicrosecondBuilder::new()),
            RowType::TimestampTz => Self::TimestampTz(TimestampMicrosecondBuilder::new().with_timezone(UTC)),
            RowType::Interval => Self::Interval(IntervalMonthDayNanoBuilder::new()),
            RowType::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(UUID_WIDTH)),
            RowType::Jsonb => Self::Jsonb(LargeStringBuilder::new()),
        })
    }

    /// An empty column for decimals of up to this scale.
    pub fn decimals(scale: u8) -> Self {
        let arrow = DataType::Decimal256(WIDE_DIGITS, scale.cast_signed());
        Self::WideDecimal(Decimal256Builder::new().with_data_type(arrow), scale)
    }

    /// Appends a value of the column's type.
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<()> {
        match (self, value) {
            (Self::Boolean(column), ValueRef::Boolean(value)) => column.append_value(value),
            (Self::Boolean(column), ValueRef::Null) => column.append_null(),
            (Self::SmallInt(column), ValueRef::Int(value)) => {
                column.append_value(i16::try_from(value).map_err(|_| misfit(ValueRef::Int(value)))?);
            }
            (Self::SmallInt(column), ValueRef::Null) => column.append_null(),
            (Self::Integer(column), ValueRef::Int(value)) => {
                column.append_value(i32::try_from(value).map_err(|_| misfit(ValueRef::Int(value)))?);
            }
            (Self::Integer(column), ValueRef::Null) => column.append_null(),
            (Self::BigInt(column), ValueRef::Int(value)) => column.append_value(value),
            (Self::BigInt(column), ValueRef::Null) => column.append_null(),
            // The analytic engine expects floats in canonical form.
            (Self::Real(column), ValueRef::Real(value)) => column.append_value(canonical_f32(value)),
            (Self::Real(column), ValueRef::Null) => column.append_null(),
            (Self::Double(column), ValueRef::Float(value)) => column.append_value(canonical_f64(value)),
            (Self::Double(column), ValueRef::Null) => column.append_null(),
            (Self::Decimal(column, scale), ValueRef::Decimal(value)) => {
                column.append_value(units(value, *scale).ok_or_else(|| misfit(ValueRef::Decimal(value)))?);
            }
            (Self::Decimal(column, _), ValueRef::Null) => column.append_null(),
            (Self::WideDecimal(column, scale), ValueRef::Decimal(value)) => {
                column.append_value(wide_units(value, *scale).ok_or_else(|| misfit(ValueRef::Decimal(value)))?);
            }
            (Self::WideDecimal(column, scale), ValueRef::Int(value)) => {
                let value = Decimal::from(value);
                column.append_value(wide_units(value, *scale).ok_or_else(|| misfit(ValueRef::Decimal(value)))?);
            }
            (Self::WideDecimal(column, _), ValueRef::Null) => column.append_null(),
            (Self::Text(column), ValueRef::Text(value)) => column.append_value(value),
            (Self::Text(column), ValueRef::Null) => column.append_null(),
            (Self::Bytes(column), ValueRef::Bytes(value)) => column.append_value(value),
            (Self::Bytes(column), ValueRef::Null) => column.append_null(),
            (Self::Date(column), ValueRef::Date(value)) => column.append_value(value),
            (Self::Date(column), ValueRef::Null) => column.append_null(),
            (Self::Timestamp(column), ValueRef::Timestamp(value)) => column.append_value(value),
            (Self::Timestamp(column), ValueRef::Null) => column.append_null(),
            (Self::TimestampTz(column), ValueRef::TimestampTz(value)) => column.append_value(value),
            (Self::TimestampTz(column), ValueRef::Null) => column.append_null(),
            (Self::Interval(column), ValueRef::Interval(value)) => column.append_value(arrow_span(value)?),
            (Self::Interval(column), ValueRef::Null) => column.append_null(),
            (Self::Uuid(column), ValueRef::Uuid(value)) => column.append_value(value).map_err(Error::internal)?,
            (Self::Uuid(column), ValueRef::Null) => column.append_null(),
            (Self::Jsonb(column), ValueRef::Jsonb(value)) => column.append_value(value),
            (Self::Jsonb(column), ValueRef::Null) => column.append_null(),
            (_, value) => return Err(misfit(value)),
        }
        Ok(())
    }

    /// Returns the values and empties the column.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(column) => Arc::new(column.finish()),
            Self::SmallInt(column) => Arc::new(column.finish()),
            Self::Integer(column) => Arc::new(column.finish()),
            Self::BigInt(column) => Arc::new(column.finish()),
            Self::Real(column) => Arc::new(column.finish()),
            Self::Double(column) => Arc::new(column.finish()),
            Self::Decimal(column, _) => Arc::new(column.finish()),
            Self::WideDecimal(column, _) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
            Self::Bytes(column) => Arc::new(column.finish()),
            Self::Date(column) => Arc::new(column.finish()),
            Self::Timestamp(column) | Self::TimestampTz(column) => Arc::new(column.finish()),
            Self::Interval(column) => Arc::new(column.finish()),
            Self::Uuid(column) => Arc::new(column.finish()),
            Self::Jsonb(column) => Arc::new(jsonb_array(column.finish())),
        }
    }
}

#[cold]
fn misfit(value: ValueRef<'_>) -> Error {
    Error::internal(format_args!("value {value} in a column of another type"))
}

/// The unscaled integer of a decimal at `scale`; `None` if digits would be lost.
fn units(value: Decimal, scale: u8) -> Option<i128> {
    if value.scale() == scale {
        return Some(value.units());
    }
    let more = scale.checked_sub(value.scale())?;
    value.units().checked_mul(10_i128.checked_pow(more.into())?)
}

fn wide_units(value: Decimal, scale: u8) -> Option<i256> {
    let more = scale.checked_sub(value.scale())?;
    i256::from_i128(value.units()).checked_mul(i256::from_i128(10_i128.checked_pow(more.into())?))
}
