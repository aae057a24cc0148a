//! Literals on the wire.

use datafusion_proto_common::protobuf_common as protobuf;
use datafusion_proto_common::protobuf_common::arrow_type::ArrowTypeEnum as Type;
use datafusion_proto_common::protobuf_common::scalar_value::Value;

use super::types::{check_decimal, check_type, check_zone};

/// Bytes that a value without text takes.
const PLAIN_BYTES: usize = 32;

/// Checks a literal; returns the bytes that a row of it takes.
///
/// Nested values are refused whole: they travel as Arrow IPC, whose buffers may be compressed and
/// then claim any size.
///
/// # Errors
/// A sentence that says what about it is not allowed.
pub(crate) fn check_literal(literal: &protobuf::ScalarValue, bytes_max: usize) -> Result<u64, String> {
    let value = literal.value.as_ref().ok_or("a literal without a value")?;
    let bytes = match value {
        Value::Utf8Value(text) | Value::LargeUtf8Value(text) | Value::Utf8ViewValue(text) => text.len(),
        Value::BinaryValue(bytes) | Value::LargeBinaryValue(bytes) | Value::BinaryViewValue(bytes) => bytes.len(),
        Value::FixedSizeBinaryValue(binary) => {
            if usize::try_from(binary.length) != Ok(binary.values.len()) {
                return Err(format!("a literal of {} bytes claims {}", binary.values.len(), binary.length));
            }
            binary.values.len()
        }
        Value::Decimal32Value(decimal) => decimal_bytes(&decimal.value, 4, decimal.p, decimal.s, 9)?,
        Value::Decimal64Value(decimal) => decimal_bytes(&decimal.value, 8, decimal.p, decimal.s, 18)?,
        Value::Decimal128Value(decimal) => decimal_bytes(&decimal.value, 16, decimal.p, decimal.s, 38)?,
        Value::Decimal256Value(decimal) => decimal_bytes(&decimal.value, 32, decimal.p, decimal.s, 76)?,
        Value::TimestampValue(timestamp) => {
            check_zone(&timestamp.timezone)?;
            PLAIN_BYTES
        }
        Value::NullValue(kind) => null_bytes(kind)?,
        Value::DictionaryValue(dictionary) => {
            let kind = Type::Dictionary(Box::new(protobuf::Dictionary {
                key: dictionary.index_type.clone().map(Box::new),
                value: Some(Box::new(protobuf::ArrowType { arrow_type_enum: Some(Type::Int8(Default::default())) })),
            }));
            check_type(Some(&protobuf::ArrowType { arrow_type_enum: Some(kind) }))?;
            let value = dictionary.value.as_deref().ok_or("a literal without a value")?;
            if matches!(value.value, Some(Value::DictionaryValue(_))) {
                return Err("a dictionary of dictionaries is not a literal of a fragment".into());
            }
            return check_literal(value, bytes_max);
        }
        Value::ListValue(_)
        | Value::LargeListValue(_)
        | Value::FixedSizeListValue(_)
        | Value::ListViewValue(_)
        | Value::LargeListViewValue(_)
        | Value::StructValue(_)
        | Value::MapValue(_)
        | Value::UnionValue(_)
        | Value::RunEndEncodedValue(_) => return Err("a nested value is not a literal of a fragment".into()),
        _ => PLAIN_BYTES,
    };
    if bytes > bytes_max {
        return Err(format!("a literal of {bytes} bytes passes the limit of {bytes_max}"));
    }
    Ok(bytes as u64)
}

fn decimal_bytes(value: &[u8], length: usize, precision: i64, scale: i64, digits: i64) -> Result<usize, String> {
    check_decimal(precision, scale, digits)?;
    if value.len() == length { Ok(length) } else { Err(format!("a decimal of {} bytes", value.len())) }
}

/// A NULL takes the room of a value of its type.
fn null_bytes(kind: &protobuf::ArrowType) -> Result<usize, String> {
    let bytes = check_type(Some(kind))?;
    let inner = match &kind.arrow_type_enum {
        Some(Type::Dictionary(dictionary)) => {
            dictionary.value.as_deref().and_then(|kind| kind.arrow_type_enum.as_ref())
        }
        kind => kind.as_ref(),
    };
    match inner {
        Some(
            Type::List(_)
            | Type::LargeList(_)
            | Type::FixedSizeList(_)
            | Type::ListView(_)
            | Type::LargeListView(_)
            | Type::Struct(_)
            | Type::Map(_)
            | Type::Dictionary(_)
            | Type::RunEndEncoded(_),
        ) => Err("a nested value is not a literal of a fragment".into()),
        _ => Ok(usize::try_from(bytes).unwrap_or(usize::MAX)),
    }
}
