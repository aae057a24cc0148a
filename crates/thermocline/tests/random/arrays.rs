//! Values as Arrow arrays of any type that may store them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};

use super::values::{Kind, Value, time_text};

/// The values of a column of `kind`, stored as `stored`.
pub fn array(kind: &Kind, stored: &DataType, values: &[&Value]) -> ArrayRef {
    macro_rules! integers {
        ($array:ty, $native:ty, $divisor:expr) => {
            Arc::new(values.iter().map(|value| Some((int(value)? / $divisor) as $native)).collect::<$array>())
        };
    }
    match stored {
        DataType::Null => new_null_array(stored, values.len()),
        DataType::Boolean => Arc::new(
            values
                .iter()
                .map(|value| match value {
                    Value::Bool(value) => Some(*value),
                    _ => None,
                })
                .collect::<BooleanArray>(),
        ),
        DataType::Int8 => integers!(Int8Array, i8, 1),
        DataType::Int16 => integers!(Int16Array, i16, 1),
        DataType::Int32 => integers!(Int32Array, i32, 1),
        DataType::Int64 => integers!(Int64Array, i64, 1),
        DataType::UInt8 => integers!(UInt8Array, u8, 1),
        DataType::UInt16 => integers!(UInt16Array, u16, 1),
        DataType::UInt32 => integers!(UInt32Array, u32, 1),
        DataType::UInt64 => integers!(UInt64Array, u64, 1),
        DataType::Float32 => {
            Arc::new(values.iter().map(|value| float(value).map(|value| value as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(values.iter().map(|value| float(value)).collect::<Float64Array>()),
        DataType::Decimal128(precision, stored_scale) => {
            let Kind::Decimal { scale, .. } = kind else { panic!("{kind:?} as a decimal") };
            let divisor = 10i128.pow((scale - stored_scale) as u32);
            let digits = values.iter().map(|value| int(value).map(|digits| digits / divisor));
            let digits: Decimal128Array = digits.collect();
            Arc::new(digits.with_precision_and_scale(*precision, *stored_scale).unwrap())
        }
        // Narrow decimals are Parquet's INT32 and INT64.
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            cast(&array(kind, &DataType::Decimal128(*precision, *scale), values), stored).unwrap()
        }
        DataType::Decimal256(_, scale) => {
            cast(&array(kind, &DataType::Decimal128(38, *scale), values), stored).unwrap()
        }
        DataType::Date32 => integers!(Date32Array, i32, 1),
        DataType::Date64 => {
            Arc::new(values.iter().map(|value| Some(int(value)? as i64 * 86_400_000)).collect::<Date64Array>())
        }
        DataType::Time32(TimeUnit::Second) => integers!(Time32SecondArray, i32, 1_000_000_000),
        DataType::Time32(_) => integers!(Time32MillisecondArray, i32, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondArray, i64, 1000),
        DataType::Time64(_) => integers!(Time64NanosecondArray, i64, 1),
        DataType::Timestamp(unit, zone) => {
            macro_rules! timestamps {
                ($array:ty, $nanos:literal) => {{
                    let units = values.iter().map(|value| Some(int(value)?.div_euclid($nanos) as i64));
                    let array: $array = units.collect();
                    Arc::new(array.with_timezone_opt(zone.clone()))
                }};
            }
            match unit {
                TimeUnit::Second => timestamps!(TimestampSecondArray, 1_000_000_000),
                TimeUnit::Millisecond => timestamps!(TimestampMillisecondArray, 1_000_000),
                TimeUnit::Microsecond => timestamps!(TimestampMicrosecondArray, 1000),
                TimeUnit::Nanosecond => timestamps!(TimestampNanosecondArray, 1),
            }
        }
        DataType::Utf8 => Arc::new(
            values
                .iter()
                .map(|value| match value {
                    Value::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect::<StringArray>(),
        ),
        DataType::Binary => Arc::new(
            values
                .iter()
                .map(|value| match value {
                    Value::Bytes(bytes) => Some(bytes.as_slice()),
                    _ => None,
                })
                .collect::<BinaryArray>(),
        ),
        DataType::LargeUtf8 | DataType::Utf8View => cast(&array(kind, &DataType::Utf8, values), stored).unwrap(),
        DataType::LargeBinary | DataType::BinaryView => cast(&array(kind, &DataType::Binary, values), stored).unwrap(),
        DataType::Dictionary(_, plain) => cast(&array(kind, plain, values), stored).unwrap(),
        _ => nested(kind, stored, values),
    }
}

fn nested(kind: &Kind, stored: &DataType, values: &[&Value]) -> ArrayRef {
    let valid = NullBuffer::from_iter(values.iter().map(|value| !matches!(value, Value::Null)));
    match (kind, stored) {
        (Kind::List(item), DataType::List(field)) => {
            let lists = values.iter().map(|value| match value {
                Value::List(items) => items.as_slice(),
                _ => &[],
            });
            let offsets = OffsetBuffer::from_lengths(lists.clone().map(<[Value]>::len));
            let items: Vec<&Value> = lists.flatten().collect();
            let items = array(item, field.data_type(), &items);
            Arc::new(ListArray::new(Arc::clone(field), offsets, items, Some(valid)))
        }
        (Kind::List(_), DataType::LargeList(field)) => {
            cast(&array(kind, &DataType::List(Arc::clone(field)), values), stored).unwrap()
        }
        (Kind::Struct(kinds), DataType::Struct(fields)) => {
            let columns = kinds.iter().zip(fields).enumerate().map(|(position, ((_, kind), field))| {
                let cells = values.iter().map(|value| match value {
                    Value::Struct(cells) => &cells[position],
                    _ => &Value::Null,
                });
                array(kind, field.data_type(), &cells.collect::<Vec<_>>())
            });
            Arc::new(StructArray::new(fields.clone(), columns.collect(), Some(valid)))
        }
        (Kind::Map(kind), DataType::Map(field, sorted)) => {
            let maps = values.iter().map(|value| match value {
                Value::Map(entries) => entries.as_slice(),
                _ => &[],
            });
            let offsets = OffsetBuffer::from_lengths(maps.clone().map(<[(String, Value)]>::len));
            let keys: Vec<&str> = maps.clone().flatten().map(|(key, _)| key.as_str()).collect();
            let keys = StringArray::from_iter_values(keys);
            let cells: Vec<&Value> = maps.flatten().map(|(_, value)| value).collect();
            let DataType::Struct(fields) = field.data_type() else { panic!("entries of {stored}") };
            let cells = array(kind, fields[1].data_type(), &cells);
            let entries = StructArray::new(fields.clone(), vec![Arc::new(keys), cells], None);
            Arc::new(MapArray::new(Arc::clone(field), offsets, entries, Some(valid), *sorted))
        }
        _ => panic!("{kind:?} as {stored}"),
    }
}

fn int(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(*value),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// A cell of a result in the oracle's text; `nanos` is the unit of timestamps.
pub fn cell(array: &ArrayRef, row: usize, nanos: bool) -> Option<String> {
    use arrow::array::AsArray;
    use arrow::datatypes::{
        Date32Type, Date64Type, Float32Type, Float64Type, Time64NanosecondType, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    };
    if array.is_null(row) || matches!(array.data_type(), DataType::Null) {
        return None;
    }
    let list = |items: &ArrayRef| {
        let items = (0..items.len()).map(|row| cell(items, row, nanos).unwrap_or_else(|| "NULL".into()));
        format!("[{}]", items.collect::<Vec<_>>().join(", "))
    };
    let timestamp = |value: i64, unit: i128| {
        let value = i128::from(value) * unit;
        if nanos { value.to_string() } else { value.div_euclid(1000).to_string() }
    };
    Some(match array.data_type() {
        DataType::Float32 => format!("{:?}", f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Date64 => (array.as_primitive::<Date64Type>().value(row) / 86_400_000).to_string(),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => timestamp(array.as_primitive::<TimestampSecondType>().value(row), 1_000_000_000),
            TimeUnit::Millisecond => timestamp(array.as_primitive::<TimestampMillisecondType>().value(row), 1_000_000),
            TimeUnit::Microsecond => timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row), 1000),
            TimeUnit::Nanosecond => timestamp(array.as_primitive::<TimestampNanosecondType>().value(row), 1),
        },
        DataType::Time32(_) | DataType::Time64(_) => {
            let time = cast(array, &DataType::Time64(TimeUnit::Nanosecond)).unwrap();
            time_text(time.as_primitive::<Time64NanosecondType>().value(row).into(), true)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::Binary).unwrap();
            bytes.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        DataType::Dictionary(_, plain) => {
            let value = cast(&array.slice(row, 1), plain).unwrap();
            return cell(&value, 0, nanos);
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let cells = columns.map(|(field, column)| {
                format!("{}: {}", field.name(), cell(column, row, nanos).unwrap_or_else(|| "NULL".into()))
            });
            format!("{{{}}}", cells.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let cells = (0..entries.len()).map(|row| {
                let [key, value] = [0, 1].map(|column| cell(entries.column(column), row, nanos));
                format!("{}: {}", key.unwrap_or_default(), value.unwrap_or_else(|| "NULL".into()))
            });
            format!("{{{}}}", cells.collect::<Vec<_>>().join(", "))
        }
        _ => arrow::util::display::array_value_to_string(array, row).unwrap(),
    })
}
