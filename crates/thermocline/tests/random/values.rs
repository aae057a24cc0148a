//! Logical types and values: the meaning of a cell, independent of the file that holds it.

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A column's type as queries see it.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Bool,
    Int {
        bits: u8,
        signed: bool,
    },
    Float {
        bits: u8,
    },
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    /// A time of day, in nanoseconds with `nanos`, otherwise in microseconds.
    Time {
        nanos: bool,
    },
    /// In nanoseconds within 1678 to 2262 with `nanos`, otherwise in microseconds.
    Timestamp {
        nanos: bool,
        zone: bool,
    },
    Text,
    Bytes,
    List(Box<Kind>),
    Struct(Vec<(String, Kind)>),
    /// Keys are text.
    Map(Box<Kind>),
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// An integer; a decimal's digits at the scale of its [`Kind`]; days or nanoseconds since 1970, or
    /// nanoseconds since midnight.
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Struct(Vec<Value>),
    Map(Vec<(String, Value)>),
}

pub const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// 0001-01-01 and 9999-12-31, in days.
const DAY_MIN: i128 = -719_162;
pub const DAY_MAX: i128 = 2_932_896;
/// 1991-09-19, before a day on which clocks go back an hour in Europe.
const DAY_BASE: i128 = 7931;

const WORDS: &[&str] = &[
    "a",
    "apple",
    "apricot",
    "banana",
    "cherry pie",
    "date, dried",
    "\"fig\"",
    "grün",
    "x_y%z",
    "two\nlines",
    "it's",
    "semi;colon",
    " padded ",
    "日本",
    "Zebra",
];
/// Texts that are NULL in some definitions of a table and values in others.
const NULL_WORDS: &[&str] = &["NA", "-"];
pub const NULL_TEXTS: &[&str] = &["", "NA", "-", "apple", "20", "true"];

impl Kind {
    pub const INT: Kind = Kind::Int { bits: 32, signed: true };
    pub const BIGINT: Kind = Kind::Int { bits: 64, signed: true };
    pub const DOUBLE: Kind = Kind::Float { bits: 64 };

    pub fn is_nested(&self) -> bool {
        matches!(self, Kind::List(_) | Kind::Struct(_) | Kind::Map(_))
    }

    /// Whether [`Kind::sql`] has a type for it.
    pub fn is_declarable(&self) -> bool {
        match self {
            Kind::List(item) => item.is_declarable(),
            Kind::Struct(_) | Kind::Map(_) => false,
            _ => true,
        }
    }

    pub fn is_integer(&self) -> bool {
        matches!(self, Kind::Int { .. })
    }

    /// The type of the clean Parquet file from which DuckDB takes the values.
    pub fn reference_type(&self) -> DataType {
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::Int { bits, signed } => integer(*bits, *signed),
            Kind::Float { bits: 32 } => DataType::Float32,
            Kind::Float { .. } => DataType::Float64,
            Kind::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            Kind::Date => DataType::Date32,
            Kind::Time { nanos: true } => DataType::Time64(TimeUnit::Nanosecond),
            Kind::Time { .. } => DataType::Time64(TimeUnit::Microsecond),
            Kind::Timestamp { nanos: true, .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Timestamp { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Text => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
            _ => self.nested_type(&Kind::reference_type),
        }
    }

    /// A nested type whose leaf types are given by `leaf`.
    pub fn nested_type(&self, leaf: &dyn Fn(&Kind) -> DataType) -> DataType {
        match self {
            Kind::List(item) => DataType::List(Field::new("item", leaf(item), true).into()),
            Kind::Struct(fields) => {
                DataType::Struct(fields.iter().map(|(name, kind)| Field::new(name, leaf(kind), true)).collect())
            }
            Kind::Map(value) => {
                let entry = vec![Field::new("key", DataType::Utf8, false), Field::new("value", leaf(value), true)];
                DataType::Map(Field::new("entries", DataType::Struct(Fields::from(entry)), false).into(), false)
            }
            _ => leaf(self),
        }
    }

    /// The type in SQL, as a mark that [`super::query::dialect`] replaces by each engine's name.
    pub fn sql(&self) -> String {
        match self {
            Kind::Bool => "BOOLEAN".into(),
            Kind::Int { bits, signed } => format!("⟨{}{bits}⟩", if *signed { 'i' } else { 'u' }),
            Kind::Float { bits: 32 } => "REAL".into(),
            Kind::Float { .. } => "DOUBLE".into(),
            Kind::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
            Kind::Date => "DATE".into(),
            Kind::Time { nanos } => format!("⟨tm{}⟩", if *nanos { 9 } else { 6 }),
            Kind::Timestamp { nanos, zone } => {
                format!("⟨{}{}⟩", if *zone { "tz" } else { "ts" }, if *nanos { 9 } else { 6 })
            }
            Kind::Text => "VARCHAR".into(),
            Kind::Bytes => "⟨bytes⟩".into(),
            Kind::List(item) => format!("{}[]", item.sql()),
            Kind::Struct(_) | Kind::Map(_) => unreachable!("structs and maps are never declared"),
        }
    }

    /// The value as text of a CSV file; `None` for nested values and bytes.
    pub fn text(&self, value: &Value) -> Option<String> {
        Some(match (self, value) {
            (_, Value::Bool(value)) => value.to_string(),
            (Kind::Decimal { scale, .. }, Value::Int(digits)) => decimal_text(*digits, *scale),
            (Kind::Date, Value::Int(days)) => date_text(*days),
            (Kind::Time { nanos }, Value::Int(nanoseconds)) => time_text(*nanoseconds, *nanos),
            (Kind::Timestamp { nanos, .. }, Value::Int(nanoseconds)) => timestamp_text(*nanoseconds, *nanos),
            (_, Value::Int(value)) => value.to_string(),
            (_, Value::Float(value)) => format!("{value:?}"),
            (_, Value::Text(text)) => text.clone(),
            _ => return None,
        })
    }

    /// The value as a literal in SQL, with marks; `None` if the engines have no common one.
    pub fn literal(&self, value: &Value) -> Option<String> {
        Some(match (self, value) {
            (_, Value::Null) => format!("CAST(NULL AS {})", self.sql()),
            (Kind::Bool, Value::Bool(value)) => value.to_string(),
            (Kind::Date, Value::Int(days)) if !(DAY_MIN..=DAY_MAX).contains(days) => return None,
            (Kind::Timestamp { .. }, Value::Int(nanos))
                if !(DAY_MIN..=DAY_MAX).contains(&nanos.div_euclid(NANOS_PER_DAY)) =>
            {
                return None;
            }
            (Kind::Timestamp { zone: true, .. }, value) => {
                format!("CAST('{}Z' AS {})", self.text(value)?, self.sql())
            }
            (Kind::Int { .. }, Value::Int(value)) if i32::try_from(*value).is_ok() => value.to_string(),
            (Kind::Text, Value::Text(text)) if text.len() < 200 => quoted(text),
            (Kind::Bytes, Value::Bytes(bytes)) => {
                format!("⟨x:{}⟩", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            (Kind::Text | Kind::Bytes | Kind::List(_) | Kind::Struct(_) | Kind::Map(_), _) => return None,
            // Cast to its column's type, so that no engine compares in another one.
            (_, value) => format!("CAST('{}' AS {})", self.text(value)?, self.sql()),
        })
    }
}

/// Text as a literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub fn integer(bits: u8, signed: bool) -> DataType {
    match (bits, signed) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (_, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (_, false) => DataType::UInt64,
    }
}

fn decimal_text(digits: i128, scale: i8) -> String {
    let scale = scale.max(0) as usize;
    let sign = if digits < 0 { "-" } else { "" };
    let text = format!("{:0width$}", digits.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = text.split_at(text.len() - scale);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn date_text(days: i128) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn timestamp_text(nanoseconds: i128, nanos: bool) -> String {
    let (days, rest) = (nanoseconds.div_euclid(NANOS_PER_DAY), nanoseconds.rem_euclid(NANOS_PER_DAY));
    format!("{} {}", date_text(days), time_text(rest, nanos))
}

/// A time of day, of nanoseconds since midnight.
pub fn time_text(nanoseconds: i128, nanos: bool) -> String {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let fraction = if nanos { format!("{fraction:09}") } else { format!("{:06}", fraction / 1000) };
    format!("{:02}:{:02}:{:02}.{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of days since 1970 (the proleptic Gregorian calendar).
fn civil(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i128::from(month <= 2), month, day)
}

/// Domain of the values of one column of one object.
#[derive(Debug, Clone)]
pub struct Domain {
    /// Center of most values: objects differ in it, so that statistics prune some.
    pub base: i64,
    /// Share of NULLs.
    pub nulls: f64,
    /// Whether the ends of the type occur.
    pub extremes: bool,
    /// Whether NaN, infinities and -0.0 occur.
    pub special_floats: bool,
    /// Whether some texts have many thousand characters.
    pub long_text: bool,
    /// Whether texts occur that some definitions take for NULL.
    pub null_words: bool,
}

impl Domain {
    /// A value that an object's column of the stored type `stored` can hold.
    pub fn draw(&self, rng: &mut StdRng, kind: &Kind, stored: &DataType) -> Value {
        if matches!(stored, DataType::Null) || rng.random_bool(self.nulls) {
            return Value::Null;
        }
        let extreme = self.extremes && rng.random_bool(0.08);
        let near = i128::from(self.base) + rng.random_range(0..20);
        match kind {
            Kind::Bool => Value::Bool(rng.random_bool(0.5)),
            Kind::Int { .. } => Value::Int(self.integer(rng, stored, near, extreme)),
            Kind::Float { .. } => Value::Float(self.float(rng, stored, extreme)),
            Kind::Decimal { scale, .. } => {
                let (precision, stored_scale) = match plain(stored) {
                    DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => (*p, *s),
                    // The oracle's decimals have 38 digits at most.
                    DataType::Decimal256(p, s) => ((*p).min(38), *s),
                    other => panic!("decimals are not stored as {other}"),
                };
                let max = 10i128.pow(u32::from(precision)) - 1;
                let digits = match extreme {
                    true => *[max, -max, 0, 1, -1].choose(rng).unwrap(),
                    false => (near * 7 - 300) % (max + 1),
                };
                Value::Int(digits * 10i128.pow((scale - stored_scale) as u32))
            }
            Kind::Date => Value::Int(match extreme {
                true => *[DAY_MIN, DAY_MAX, 0, -1, -141_428].choose(rng).unwrap(),
                false => DAY_BASE + near,
            }),
            Kind::Time { .. } => Value::Int(self.time(rng, stored, near, extreme)),
            Kind::Timestamp { nanos, .. } => Value::Int(self.timestamp(rng, stored, *nanos, near, extreme)),
            Kind::Text => Value::Text(self.text(rng)),
            Kind::Bytes => {
                let length = *[0, 1, 2, 5, 70].choose(rng).unwrap();
                let first = [0u8, 1, 0x7f, 0x80, 0xff];
                Value::Bytes((0..length).map(|_| *first.choose(rng).unwrap()).collect())
            }
            Kind::List(item) => {
                let length = *[0, 1, 1, 2, 5].choose(rng).unwrap();
                let (DataType::List(field) | DataType::LargeList(field)) = stored else {
                    panic!("lists are not stored as {stored}")
                };
                Value::List((0..length).map(|_| self.draw(rng, item, field.data_type())).collect())
            }
            Kind::Struct(kinds) => {
                let DataType::Struct(fields) = stored else { panic!("structs are not stored as {stored}") };
                let values = kinds.iter().zip(fields);
                Value::Struct(values.map(|((_, kind), field)| self.draw(rng, kind, field.data_type())).collect())
            }
            Kind::Map(value) => {
                let DataType::Map(entries, _) = stored else { panic!("maps are not stored as {stored}") };
                let DataType::Struct(fields) = entries.data_type() else { panic!("entries of {stored}") };
                let keys = ["k", "l", "m"].choose_multiple(rng, 3).take(rng.random_range(0..3));
                let keys: Vec<String> = keys.map(ToString::to_string).collect();
                let stored = fields[1].data_type();
                Value::Map(keys.into_iter().map(|key| (key, self.draw(rng, value, stored))).collect())
            }
        }
    }

    fn integer(&self, rng: &mut StdRng, stored: &DataType, near: i128, extreme: bool) -> i128 {
        let (min, max): (i128, i128) = match plain(stored) {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
            DataType::UInt8 => (0, u8::MAX.into()),
            DataType::UInt16 => (0, u16::MAX.into()),
            DataType::UInt32 => (0, u32::MAX.into()),
            DataType::UInt64 => (0, u64::MAX.into()),
            other => panic!("integers are not stored as {other}"),
        };
        match extreme {
            true => *[min, max, min + 1, max - 1, 0].choose(rng).unwrap(),
            false => near.clamp(min, max),
        }
    }

    fn float(&self, rng: &mut StdRng, stored: &DataType, extreme: bool) -> f64 {
        let single = matches!(plain(stored), DataType::Float32);
        let value = if self.special_floats && rng.random_bool(0.15) {
            let payload = f64::from_bits(0x7ff8_dead_0000_0000);
            *[f64::NAN, -f64::NAN, payload, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0].choose(rng).unwrap()
        } else if extreme && single {
            f64::from(*[f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45].choose(rng).unwrap())
        } else if extreme {
            *[f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324].choose(rng).unwrap()
        } else {
            self.base as f64 + f64::from(rng.random_range(-80..240)) / 16.0
        };
        if single { f64::from(value as f32) } else { value }
    }

    fn timestamp(&self, rng: &mut StdRng, stored: &DataType, nanos: bool, near: i128, extreme: bool) -> i128 {
        let value = match (extreme, nanos) {
            (true, true) => *[-9_200_000_000_123_456_789, 9_200_000_000_123_456_789, 0, -1].choose(rng).unwrap(),
            (true, false) => {
                *[DAY_MIN * NANOS_PER_DAY, (DAY_MAX + 1) * NANOS_PER_DAY - 1000, 0, -1].choose(rng).unwrap()
            }
            _ => (DAY_BASE + near / 4) * NANOS_PER_DAY + rng.random_range(0..4) * 21_600_123_456_789,
        };
        value - value.rem_euclid(nanos_of(stored))
    }

    fn time(&self, rng: &mut StdRng, stored: &DataType, near: i128, extreme: bool) -> i128 {
        let value = match extreme {
            true => *[0, 1000, NANOS_PER_DAY - 1000, NANOS_PER_DAY - 1].choose(rng).unwrap(),
            false => near * 345_123_456_789 % NANOS_PER_DAY,
        };
        value - value.rem_euclid(nanos_of(stored))
    }

    fn text(&self, rng: &mut StdRng) -> String {
        if self.null_words && rng.random_bool(0.2) {
            return (*NULL_WORDS.choose(rng).unwrap()).to_owned();
        }
        match rng.random_range(0..20) {
            0 => String::new(),
            // Longer than the part that statistics keep, with equal beginnings.
            1 | 2 if self.extremes => format!("{}{}", "long".repeat(40), rng.random_range(0..3)),
            3 if self.long_text => "line\nafter, line\n".repeat(4000),
            4..=8 => format!("w{:04}", self.base + rng.random_range(0..20)),
            _ => (*WORDS.choose(rng).unwrap()).to_owned(),
        }
    }
}

/// Nanoseconds of the unit in which a time or timestamp is stored.
fn nanos_of(stored: &DataType) -> i128 {
    match plain(stored) {
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1000,
            TimeUnit::Nanosecond => 1,
        },
        other => panic!("times are not stored as {other}"),
    }
}

/// The values' type behind a dictionary.
pub fn plain(stored: &DataType) -> &DataType {
    match stored {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}
