//! Types and schemas on the wire.

use datafusion_proto_common::protobuf_common as protobuf;
use datafusion_proto_common::protobuf_common::arrow_type::ArrowTypeEnum as Type;

/// Bytes of a row that one column may take by its type alone: a fixed size, multiplied by every
/// fixed-size list around it.
const TYPE_BYTES_MAX: u64 = 32 << 10;
/// Most bytes of a value whose type states no size.
const PLAIN_BYTES: u64 = 32;
/// Nesting of lists, structs and the like.
const DEPTH_MAX: usize = 24;
/// Characters of a time zone's name.
const ZONE_CHARS_MAX: usize = 64;

/// Checks the columns of a schema; returns the bytes that a row takes by fixed sizes.
///
/// # Errors
/// A sentence that names the column.
pub(crate) fn check_schema(schema: &protobuf::Schema) -> Result<u64, String> {
    let mut row_bytes = 0_u64;
    for column in &schema.columns {
        let bytes = check_field(column, 0).map_err(|why| format!("column {}: {why}", column.name))?;
        row_bytes = row_bytes.saturating_add(bytes.saturating_sub(PLAIN_BYTES));
    }
    Ok(row_bytes)
}

/// Checks a type; returns the bytes that a value takes by its fixed size.
pub(super) fn check_type(arrow_type: Option<&protobuf::ArrowType>) -> Result<u64, String> {
    checked(arrow_type, 0)
}

fn check_field(field: &protobuf::Field, depth: usize) -> Result<u64, String> {
    checked(field.arrow_type.as_deref(), depth)
}

fn required<T>(part: Option<&T>) -> Result<&T, String> {
    part.ok_or_else(|| "a nested type lacks the type of its values".to_owned())
}

fn checked(arrow_type: Option<&protobuf::ArrowType>, depth: usize) -> Result<u64, String> {
    if depth > DEPTH_MAX {
        return Err(format!("a type is nested deeper than {DEPTH_MAX} levels"));
    }
    let kind = arrow_type.and_then(|arrow_type| arrow_type.arrow_type_enum.as_ref());
    let kind = kind.ok_or("a type is missing or unknown")?;
    let field = |field: Option<&protobuf::Field>| check_field(required(field)?, depth + 1);
    let size = |size: i32| u64::try_from(size).map_err(|_| format!("a type has the size {size}"));
    let bytes = match kind {
        Type::FixedSizeBinary(length) => size(*length)?,
        Type::FixedSizeList(list) => field(list.field_type.as_deref())?.max(1).saturating_mul(size(list.list_size)?),
        Type::List(list) | Type::LargeList(list) | Type::ListView(list) | Type::LargeListView(list) => {
            field(list.field_type.as_deref())?
        }
        Type::Struct(fields) => fields
            .sub_field_types
            .iter()
            .try_fold(0_u64, |sum, field| Ok::<_, String>(sum.saturating_add(check_field(field, depth + 1)?)))?,
        Type::Map(map) => {
            let entries = required(map.field_type.as_deref())?;
            match entries.arrow_type.as_deref().and_then(|entries| entries.arrow_type_enum.as_ref()) {
                Some(Type::Struct(pair)) if pair.sub_field_types.len() == 2 => check_field(entries, depth + 1)?,
                _ => return Err("a map has entries that are no pairs".into()),
            }
        }
        Type::Dictionary(dictionary) => {
            let key = dictionary.key.as_deref().and_then(|key| key.arrow_type_enum.as_ref());
            if !key.is_some_and(is_integer) {
                return Err("a dictionary has keys that are no integers".into());
            }
            checked(dictionary.value.as_deref(), depth + 1)?
        }
        Type::RunEndEncoded(runs) => {
            let ends = required(runs.run_ends_field.as_deref())?.arrow_type.as_deref();
            match ends.and_then(|ends| ends.arrow_type_enum.as_ref()) {
                Some(Type::Int16(_) | Type::Int32(_) | Type::Int64(_)) => field(runs.values_field.as_deref())?,
                _ => return Err("runs end at what is no 16, 32 or 64-bit integer".into()),
            }
        }
        Type::Union(_) => return Err("a union is not a column's type".into()),
        Type::Decimal32(decimal) => check_decimal(decimal.precision.into(), decimal.scale.into(), 9)?,
        Type::Decimal64(decimal) => check_decimal(decimal.precision.into(), decimal.scale.into(), 18)?,
        Type::Decimal128(decimal) => check_decimal(decimal.precision.into(), decimal.scale.into(), 38)?,
        Type::Decimal256(decimal) => check_decimal(decimal.precision.into(), decimal.scale.into(), 76)?,
        Type::Timestamp(timestamp) => {
            check_zone(&timestamp.timezone)?;
            PLAIN_BYTES
        }
        // Arrow has no array of seconds in 64 bits or of nanoseconds in 32, and panics instead.
        Type::Time32(unit) if !matches!(protobuf::TimeUnit::try_from(*unit), Ok(unit) if is_coarse(unit)) => {
            return Err("a 32-bit time is of seconds or milliseconds".into());
        }
        Type::Time64(unit) if !matches!(protobuf::TimeUnit::try_from(*unit), Ok(unit) if !is_coarse(unit)) => {
            return Err("a 64-bit time is of microseconds or nanoseconds".into());
        }
        _ => PLAIN_BYTES,
    };
    if bytes > TYPE_BYTES_MAX {
        return Err(format!("a value of {bytes} bytes passes the limit of {TYPE_BYTES_MAX} for fixed-size types"));
    }
    Ok(bytes)
}

fn is_integer(kind: &Type) -> bool {
    matches!(
        kind,
        Type::Int8(_)
            | Type::Int16(_)
            | Type::Int32(_)
            | Type::Int64(_)
            | Type::Uint8(_)
            | Type::Uint16(_)
            | Type::Uint32(_)
            | Type::Uint64(_)
    )
}

fn is_coarse(unit: protobuf::TimeUnit) -> bool {
    matches!(unit, protobuf::TimeUnit::Second | protobuf::TimeUnit::Millisecond)
}

/// Checks the parameters of a decimal with at most `digits` digits; returns its bytes.
pub(super) fn check_decimal(precision: i64, scale: i64, digits: i64) -> Result<u64, String> {
    if (1..=digits).contains(&precision) && scale <= precision && scale >= -digits {
        Ok(PLAIN_BYTES)
    } else {
        Err(format!("a decimal of {precision} digits, {scale} of them fractional, is none of at most {digits}"))
    }
}

/// Checks the name of a time zone; empty for none.
pub(super) fn check_zone(zone: &str) -> Result<(), String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/_+-:".contains(character);
    if zone.len() <= ZONE_CHARS_MAX && zone.chars().all(plain) {
        Ok(())
    } else {
        let shown: String = zone.chars().take(ZONE_CHARS_MAX).collect();
        Err(format!("'{}' is not a time zone", shown.escape_debug()))
    }
}
