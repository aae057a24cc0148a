//! Types in which a file may store a column.

use arrow::datatypes::{DataType, Field, TimeUnit};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::schema::{Column, Traits};
use super::values::{Kind, integer};

/// Encoding of a column in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub data_type: DataType,
    pub nullable: bool,
    /// A timestamp in the twelve bytes of Impala and Spark.
    pub int96: bool,
}

impl Stored {
    /// Row numbers exceed the narrow types, and none is NULL.
    pub fn hold_row_numbers(&mut self) {
        let wide = |data_type: &DataType| match data_type {
            DataType::Int64 => DataType::Int64,
            _ => DataType::Int32,
        };
        self.data_type = match &self.data_type {
            DataType::Dictionary(key, values) => DataType::Dictionary(key.clone(), wide(values).into()),
            other => wide(other),
        };
    }

    /// A type that holds the column without loss: its own or, if the traits allow, another.
    pub fn draw(rng: &mut StdRng, column: &Column, traits: &Traits) -> Self {
        let mut stored = Self { data_type: column.usual.clone(), nullable: true, int96: false };
        if traits.mixed_types && rng.random_bool(0.6) {
            if let Kind::Timestamp { nanos: true, zone: false } = column.kind {
                // INT96 is microseconds for a table without an object of nanoseconds, which the first one is.
                if !traits.null_types {
                    return stored;
                }
                if rng.random_bool(0.4) {
                    stored.data_type = DataType::Timestamp(TimeUnit::Nanosecond, None);
                    stored.int96 = true;
                    return stored;
                }
            }
            if traits.null_types && rng.random_bool(0.05) {
                stored.data_type = DataType::Null;
                return stored;
            }
            stored.data_type = any_type(rng, &column.kind, &column.usual);
        }
        if traits.dictionaries && rng.random_bool(0.4) && takes_dictionary(&stored.data_type) {
            let key = [DataType::Int16, DataType::Int32, DataType::UInt16].choose(rng).unwrap().clone();
            stored.data_type = DataType::Dictionary(key.into(), stored.data_type.into());
        }
        stored
    }
}

/// Zones of moments: the zone named by a file changes no value.
pub const ZONES: &[&str] = &["UTC", "+00:00", "+02:00", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];

/// Dictionaries that Parquet's writer accepts.
fn takes_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary | DataType::Int32 | DataType::Int64)
}

/// A type not wider than the column's.
fn any_type(rng: &mut StdRng, kind: &Kind, usual: &DataType) -> DataType {
    match kind {
        Kind::Int { bits, signed } => {
            let widths: Vec<u8> = [8, 16, 32, 64].into_iter().filter(|width| width <= bits).collect();
            let width = *widths.choose(rng).unwrap();
            match *signed && width < *bits && rng.random_bool(0.3) {
                true => integer(width, false),
                false => integer(width, *signed),
            }
        }
        Kind::Float { bits: 64 } => [DataType::Float32, DataType::Float64].choose(rng).unwrap().clone(),
        Kind::Decimal { precision, scale } => {
            let stored_scale = rng.random_range(0..=*scale);
            // At most as many digits before the point.
            let whole = rng.random_range(1..=precision - *scale as u8);
            let digits = (whole + stored_scale as u8).max(1);
            match rng.random_range(0..4) {
                // For one digit the writer uses INT64, to which it does not convert 32 bits.
                0 if (2..=9).contains(&digits) => DataType::Decimal32(digits, stored_scale),
                1 if digits <= 18 => DataType::Decimal64(digits, stored_scale),
                2 if *precision == 38 => DataType::Decimal256(38, *scale),
                2 => DataType::Decimal256(digits, stored_scale),
                _ => DataType::Decimal128(digits, stored_scale),
            }
        }
        Kind::Date => [DataType::Date32, DataType::Date32, DataType::Date64].choose(rng).unwrap().clone(),
        Kind::Timestamp { nanos, zone } => {
            let mut units = vec![TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond];
            if *nanos {
                units.push(TimeUnit::Nanosecond);
            }
            DataType::Timestamp(*units.choose(rng).unwrap(), zone.then(|| (*ZONES.choose(rng).unwrap()).into()))
        }
        Kind::Time { nanos } => {
            let mut types = vec![DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)];
            types.push(DataType::Time64(if *nanos { TimeUnit::Nanosecond } else { TimeUnit::Microsecond }));
            types.choose(rng).unwrap().clone()
        }
        Kind::Text => [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View].choose(rng).unwrap().clone(),
        Kind::Bytes => [DataType::Binary, DataType::LargeBinary, DataType::BinaryView].choose(rng).unwrap().clone(),
        Kind::Bool | Kind::Float { .. } => usual.clone(),
        Kind::List(item) => match usual {
            DataType::List(field) => {
                let name = *["item", "element", "array"].choose(rng).unwrap();
                let item = Field::new(name, any_item(rng, item, field.data_type()), true);
                if rng.random_bool(0.2) { DataType::LargeList(item.into()) } else { DataType::List(item.into()) }
            }
            other => other.clone(),
        },
        Kind::Struct(kinds) => match usual {
            DataType::Struct(fields) => {
                let fields = kinds
                    .iter()
                    .zip(fields)
                    .map(|((name, kind), field)| Field::new(name, any_item(rng, kind, field.data_type()), true));
                DataType::Struct(fields.collect())
            }
            other => other.clone(),
        },
        Kind::Map(_) => usual.clone(),
    }
}

/// The same for nested values, whose decimals keep their scale, because it is printed.
fn any_item(rng: &mut StdRng, kind: &Kind, usual: &DataType) -> DataType {
    if matches!(kind, Kind::Decimal { .. }) { usual.clone() } else { any_type(rng, kind, usual) }
}
