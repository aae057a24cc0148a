//! SQL's types and Arrow's.

use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit};
use thermocline_types::DataType;

/// The type that SQL gives values of an Arrow type; `None` if it has none, and they are the analytic engine's alone.
pub fn sql_type(of: &ArrowType) -> Option<DataType> {
    Some(match of {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int16 => DataType::SmallInt,
        ArrowType::Int32 => DataType::Integer,
        ArrowType::Int64 => DataType::BigInt,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        ArrowType::Dictionary(_, values) => return sql_type(values),
        _ => return None,
    })
}
