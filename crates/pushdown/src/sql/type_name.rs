//! Names of types in SQL.

use arrow::datatypes::{DataType as ArrowType, IntervalUnit, TimeUnit};

use super::json::is_jsonb;
use super::types::{UUID_WIDTH, sql_type};

/// The name that SQL gives an Arrow type, as users read it: that of row tables' type if they have one, else that with
/// which an external table declares it. Types that no statement can name have DuckDB's names.
pub fn sql_type_name(of: &ArrowType) -> String {
    if let Some(known) = sql_type(of) {
        return known.to_string();
    }
    match of {
        ArrowType::Null => "NULL".to_owned(),
        ArrowType::Int8 => "TINYINT".to_owned(),
        ArrowType::UInt8 => "TINYINT UNSIGNED".to_owned(),
        ArrowType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        ArrowType::UInt32 => "INTEGER UNSIGNED".to_owned(),
        ArrowType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        ArrowType::Float16 => "REAL".to_owned(),
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        ArrowType::FixedSizeBinary(UUID_WIDTH) => "UUID".to_owned(),
        ArrowType::FixedSizeBinary(_) => "BYTEA".to_owned(),
        ArrowType::Date64 => "DATE".to_owned(),
        ArrowType::Timestamp(unit, zone) => {
            let zone = if zone.is_some() { " WITH TIME ZONE" } else { "" };
            format!("TIMESTAMP({}){zone}", digits(*unit))
        }
        ArrowType::Time32(unit) | ArrowType::Time64(unit) => match unit {
            TimeUnit::Microsecond => "TIME".to_owned(),
            unit => format!("TIME({})", digits(*unit)),
        },
        ArrowType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano)
        | ArrowType::Duration(_) => "INTERVAL".to_owned(),
        of if is_jsonb(of) => "JSONB".to_owned(),
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::ListView(element)
        | ArrowType::LargeListView(element) => format!("{}[]", sql_type_name(element.data_type())),
        ArrowType::FixedSizeList(element, length) => format!("{}[{length}]", sql_type_name(element.data_type())),
        ArrowType::Struct(fields) => {
            let fields = fields.iter().map(|field| format!("{} {}", field.name(), sql_type_name(field.data_type())));
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(fields) => {
                let of = fields.iter().map(|field| sql_type_name(field.data_type()));
                format!("MAP({})", of.collect::<Vec<_>>().join(", "))
            }
            _ => "MAP".to_owned(),
        },
        ArrowType::Dictionary(_, values) => sql_type_name(values),
        ArrowType::RunEndEncoded(_, values) => sql_type_name(values.data_type()),
        other => other.to_string(),
    }
}

/// Digits of a second.
const fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Fields};

    use super::*;

    #[test]
    fn types_have_the_names_that_statements_give_them() {
        let field = |name: &str, of| Arc::new(Field::new(name, of, true));
        let entries = ArrowType::Struct(Fields::from(vec![field("k", ArrowType::Utf8), field("v", ArrowType::Int64)]));
        for (of, name) in [
            (ArrowType::Utf8View, "TEXT"),
            (ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::LargeUtf8)), "TEXT"),
            (ArrowType::Int64, "BIGINT"),
            (ArrowType::UInt64, "BIGINT UNSIGNED"),
            (ArrowType::Decimal128(15, 2), "DECIMAL(15, 2)"),
            (ArrowType::Decimal256(40, 2), "DECIMAL(40, 2)"),
            (ArrowType::FixedSizeBinary(16), "UUID"),
            (ArrowType::FixedSizeBinary(3), "BYTEA"),
            (ArrowType::Timestamp(TimeUnit::Microsecond, None), "TIMESTAMP"),
            (ArrowType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())), "TIMESTAMP(9) WITH TIME ZONE"),
            (ArrowType::Time64(TimeUnit::Microsecond), "TIME"),
            (ArrowType::List(field("item", ArrowType::Utf8)), "TEXT[]"),
            (ArrowType::Struct(vec![field("a", ArrowType::Int32)].into()), "STRUCT(a INTEGER)"),
            (ArrowType::Map(field("entries", entries), false), "MAP(TEXT, BIGINT)"),
        ] {
            assert_eq!(sql_type_name(&of), name, "{of}");
        }
    }
}
