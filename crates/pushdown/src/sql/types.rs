//! SQL's types and Arrow's.

use datafusion::arrow::datatypes::{DataType as ArrowType, IntervalUnit, TimeUnit};
use thermocline_types::{DataType, UUID_BYTES};

/// Bytes of a UUID, as Arrow counts them.
pub const UUID_WIDTH: i32 = UUID_BYTES as i32;

/// The time zone of a `TIMESTAMP WITH TIME ZONE`, as Arrow's types call it.
pub const UTC: &str = "+00:00";

/// Whether a time zone of Arrow's is UTC. Timestamps of other zones are the analytic engine's alone.
pub(super) fn is_utc(zone: &str) -> bool {
    matches!(zone, UTC | "UTC" | "Etc/UTC" | "utc" | "Z" | "GMT")
}

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
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(zone)) if is_utc(zone) => DataType::TimestampTz,
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
        // Parquet's UUIDs, too; there is no other type of SQL's with as many bytes in each value.
        ArrowType::FixedSizeBinary(UUID_WIDTH) => DataType::Uuid,
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
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => ArrowType::Utf8View,
        DataType::Bytea => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::TimestampTz => ArrowType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Uuid => ArrowType::FixedSizeBinary(UUID_WIDTH),
        DataType::Jsonb => jsonb_type(),
    })
}
