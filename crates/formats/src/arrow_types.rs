//! Schemas in Arrow's own encoding before they are decoded: in the messages of a storage node, and in
//! the footers of Parquet objects.
//!
//! The decoder trusts widths, units and numbers of children, and panics at invalid ones.

use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{DateUnit, Endianness, Field, IntervalUnit, Precision, Schema, TimeUnit, Type, root_as_message};

/// Decodes the schema in an encapsulated message's header.
///
/// # Errors
/// A sentence that describes the problem, with the column's name.
pub fn decode_arrow_schema(header: &[u8]) -> Result<arrow::datatypes::Schema, String> {
    let message = root_as_message(header).map_err(|error| error.to_string())?;
    let schema = message.header_as_schema().ok_or("an Arrow message without a schema")?;
    check(&schema)?;
    Ok(fb_to_schema(schema))
}

fn check(schema: &Schema<'_>) -> Result<(), String> {
    if schema.endianness() != Endianness::Little {
        return Err("a schema of big-endian values".into());
    }
    schema.fields().ok_or("a schema without columns")?.iter().try_for_each(|field| check_field(&field))
}

/// Nesting is bounded: messages nested deeper than 64 levels are refused when they are verified.
fn check_field(field: &Field<'_>) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("column '{}' has {what}", field.name().unwrap_or_default()));
    if let Some(dictionary) = field.dictionary()
        && !dictionary.indexType().is_some_and(|index| matches!(index.bitWidth(), 8 | 16 | 32 | 64))
    {
        return wrong("a dictionary with keys of no known width");
    }
    let children = field.children().map_or(0, |children| children.len());
    let known = match field.type_type() {
        Type::Null
        | Type::Bool
        | Type::Binary
        | Type::BinaryView
        | Type::LargeBinary
        | Type::Utf8
        | Type::Utf8View
        | Type::LargeUtf8
        | Type::Struct_ => true,
        Type::Int => field.type_as_int().is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64)),
        Type::FixedSizeBinary => field.type_as_fixed_size_binary().is_some_and(|bytes| bytes.byteWidth() >= 0),
        Type::FloatingPoint => field
            .type_as_floating_point()
            .is_some_and(|float| matches!(float.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)),
        Type::Date => {
            field.type_as_date().is_some_and(|date| matches!(date.unit(), DateUnit::DAY | DateUnit::MILLISECOND))
        }
        Type::Time => field.type_as_time().is_some_and(|time| {
            matches!(
                (time.bitWidth(), time.unit()),
                (32, TimeUnit::SECOND | TimeUnit::MILLISECOND) | (64, TimeUnit::MICROSECOND | TimeUnit::NANOSECOND)
            )
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|timestamp| is_unit(timestamp.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|duration| is_unit(duration.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|interval| {
            matches!(interval.unit(), IntervalUnit::YEAR_MONTH | IntervalUnit::DAY_TIME | IntervalUnit::MONTH_DAY_NANO)
        }),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            u8::try_from(decimal.precision()).is_ok()
                && i8::try_from(decimal.scale()).is_ok()
                && matches!(decimal.bitWidth(), 32 | 64 | 128 | 256)
        }),
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => children == 1,
        Type::FixedSizeList => {
            children == 1 && field.type_as_fixed_size_list().is_some_and(|list| list.listSize() >= 0)
        }
        Type::Map => children == 1 && field.type_as_map().is_some(),
        Type::RunEndEncoded => children == 2,
        // Neither engine has values of these types.
        _ => false,
    };
    if !known {
        return wrong(&format!("a type {:?} that Arrow has no values of", field.type_type()));
    }
    field.children().into_iter().flatten().try_for_each(|child| check_field(&child))
}

fn is_unit(unit: TimeUnit) -> bool {
    matches!(unit, TimeUnit::SECOND | TimeUnit::MILLISECOND | TimeUnit::MICROSECOND | TimeUnit::NANOSECOND)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use arrow::datatypes::{self, DataType, Fields};
    use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
    use rand::{Rng, SeedableRng};

    use super::*;

    fn schema() -> datatypes::Schema {
        let of = |data_type: DataType| datatypes::Field::new("item", data_type, true);
        let list = DataType::List(of(DataType::Decimal128(12, 2)).into());
        let entries = Fields::from(vec![
            datatypes::Field::new("key", DataType::Utf8, false),
            datatypes::Field::new("value", DataType::Date32, true),
        ]);
        let entries = datatypes::Field::new("entries", DataType::Struct(entries), false);
        let types = [
            DataType::Int8,
            DataType::UInt64,
            DataType::Float16,
            DataType::Date64,
            DataType::Time32(datatypes::TimeUnit::Second),
            DataType::Time64(datatypes::TimeUnit::Nanosecond),
            DataType::Timestamp(datatypes::TimeUnit::Millisecond, Some("+02:00".into())),
            DataType::Duration(datatypes::TimeUnit::Microsecond),
            DataType::Interval(datatypes::IntervalUnit::MonthDayNano),
            DataType::Decimal256(76, -3),
            DataType::FixedSizeBinary(16),
            DataType::Utf8View,
            DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
            DataType::FixedSizeList(of(DataType::Float64).into(), 3),
            DataType::Struct(Fields::from(vec![of(list)])),
            DataType::Map(entries.into(), false),
        ];
        let fields = types.into_iter().enumerate();
        datatypes::Schema::new(
            fields.map(|(at, kind)| datatypes::Field::new(format!("c{at}"), kind, true)).collect::<Vec<_>>(),
        )
    }

    fn encoded() -> Vec<u8> {
        let mut dictionaries = DictionaryTracker::new(false);
        let options = IpcWriteOptions::default();
        IpcDataGenerator::default()
            .schema_to_bytes_with_dictionary_tracker(&schema(), &mut dictionaries, &options)
            .ipc_message
    }

    #[test]
    fn what_arrow_writes_is_read() {
        let decoded = decode_arrow_schema(&encoded()).unwrap();
        assert_eq!(decoded.fields(), schema().fields());
    }

    /// No bytes cause a panic.
    #[test]
    fn damaged_schemas() {
        let seed = 0x5eed_a441;
        println!("seed {seed:#x}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        let encoded = encoded();
        let mut refused = 0;
        for _ in 0..50_000 {
            let mut damaged = encoded.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..damaged.len());
                damaged[at] = random.random();
            }
            refused += usize::from(decode_arrow_schema(&damaged).is_err());
        }
        assert!(refused > 1000, "{refused}");
    }
}
