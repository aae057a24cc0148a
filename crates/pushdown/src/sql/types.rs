//! SQL's types and Arrow's.

use datafusion::arrow::datatypes::{DataType as ArrowType, IntervalUnit, TimeUnit};
use thermocline_types::DataType;

use super::json::{is_jsonb, jsonb_type};

/// The type that SQL gives values of an Arrow type; `None` if it has none, and they are the analytic engine's alone.
pub fn sql_type(of: &ArrowType) -> Option<DataType> {
    Some(match of {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int16 => DataType::SmallInt,
        ArrowType::Int32 => DataType::Integer,
        ArrowType::Int64 => DataType::BigInt,
        ArrowType::Float32 => DataType::Real,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
        ArrowType::Dictionary(_, values) => return sql_type(values),
        of if is_jsonb(of) => DataType::Jsonb,
        _ => return None,
    })
}

/// The Arrow type that holds exactly the values of a type. Of computed decimals without a precision, each value has a
/// scale of its own, and `None` is given.
pub fn arrow_type(of: DataType) -> Option<ArrowType> {
    Some(match of {
        DataType::Boolean => ArrowType::Boolean,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Integer => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Real => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale.cast_signed()),
        DataType::Numeric => return None,
        DataType::Text | DataType::Varchar(_) => ArrowType::Utf8View,
        DataType::Bytea => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Jsonb => jsonb_type(),
    })
}
