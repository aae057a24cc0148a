//! Literals that a column of a kind cannot hold, or that are of another type than it.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::query::either;
use super::values::{DAY_MAX, Kind, NANOS_PER_DAY, Value, quoted};

/// Integers at and beyond the ends of the integer types.
const INTEGERS: &[&str] = &[
    "-1",
    "128",
    "-129",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
];

/// A literal near `value`: finer than values of `kind`, beyond their range, or of another type. Both engines compare it
/// with such values exactly as written. `None` if there is no such literal.
///
/// Literals for a `list` have exactly a common type with all others of the same column. `extremes` says whether it may
/// be compared with the ends of the type, which DuckDB refuses to convert to a finer unit.
pub fn beside(rng: &mut StdRng, kind: &Kind, value: &Value, list: bool, extremes: bool) -> Option<String> {
    let text = kind.text(value);
    match (kind, value) {
        (Kind::Int { .. }, Value::Int(value)) => Some(beside_integer(rng, *value, list)),
        (Kind::Float { bits }, Value::Float(value)) => {
            // Beside a REAL, DuckDB takes a bare 20.1 for a REAL, others for a DOUBLE.
            let near = value.clamp(-1e6, 1e6).trunc();
            Some(match rng.random_range(0..4) {
                0 => format!("{near:.0}"),
                1 => format!("CAST('{near:.0}.0625' AS DOUBLE)"),
                2 => format!("CAST('{}.1' AS {})", near.trunc(), if *bits == 32 { "DOUBLE" } else { "REAL" }),
                _ => format!("{near:.0}.5"),
            })
            .filter(|_| value.is_finite())
        }
        (Kind::Decimal { precision, scale }, Value::Int(digits)) => {
            let text = text?;
            let point = if *scale == 0 { "." } else { "" };
            let whole = u32::from(*precision) - *scale as u32;
            match rng.random_range(0..5) {
                0 if precision + 2 <= 38 => {
                    Some(format!("CAST('{text}{point}05' AS DECIMAL({}, {}))", precision + 2, scale + 2))
                }
                1 if *precision < 38 => Some(format!("{text}{point}5")),
                // DuckDB converts the column to a type that holds both.
                2 if precision + 2 <= 38 && whole <= 17 => Some(format!("1{}", "0".repeat(whole as usize))),
                3 if digits.unsigned_abs() < 10u128.pow(18) => {
                    Some((digits / 10i128.pow(*scale as u32)).to_string()).filter(|_| whole >= 19)
                }
                4 => Some(quoted(&text)),
                _ => None,
            }
        }
        (Kind::Date, Value::Int(days)) => {
            let noon = Value::Int(days * NANOS_PER_DAY + rng.random_range(0..3) * NANOS_PER_DAY / 4);
            let timestamp = Kind::Timestamp { nanos: false, zone: false };
            match rng.random_range(0..4) {
                0 | 1 => timestamp.literal(&noon),
                2 => text.filter(|_| *days <= DAY_MAX).map(|text| quoted(&text)),
                _ => Some(either("CAST('+10000-01-01' AS DATE)", "CAST('10000-01-01' AS DATE)")),
            }
        }
        (Kind::Time { .. }, Value::Int(nanos)) => {
            let finer = Kind::Time { nanos: true };
            match rng.random_range(0..2) {
                0 => finer.literal(&Value::Int((nanos + 1) % NANOS_PER_DAY)),
                _ => finer.text(value).map(|text| quoted(&text)),
            }
            // DuckDB does not compare a TIME_NS with a TIME, only the other way round.
        }
        (Kind::Timestamp { nanos: false, zone }, Value::Int(nanos)) => {
            beside_timestamp(rng, *nanos, *zone).filter(|_| !extremes)
        }
        (Kind::Timestamp { nanos: true, zone }, Value::Int(nanos)) => {
            let wide = Kind::Timestamp { nanos: false, zone: *zone };
            let exact = Value::Int(nanos - nanos.rem_euclid(1000));
            // Values for which DuckDB has no nanoseconds are replaced by its last and first ones, which no value
            // equals.
            let beyond = |year: &str, last: &str| {
                let zone = if *zone { "WITH TIME ZONE" } else { "" };
                let ours =
                    format!("CAST('{year}-06-01 00:00:00{}' AS TIMESTAMP(6) {zone})", ["", "Z"][zone.len().min(1)]);
                either(&ours, &format!("CAST('{last}' AS TIMESTAMP_NS)"))
            };
            match rng.random_range(0..3) {
                0 => wide.literal(&exact),
                1 => Some(beyond("9999", "2262-04-11 23:47:16")),
                _ => Some(beyond("0001", "1677-09-22 00:00:00")),
            }
        }
        _ => None,
    }
}

fn beside_integer(rng: &mut StdRng, value: i128, list: bool) -> String {
    // Lists may have floats, with which all other elements are compared as floats.
    let decimal = if list { value.clamp(-1 << 40, 1 << 40) } else { value };
    match rng.random_range(if list { 4..8 } else { 0..7 }) {
        0 | 1 => (*INTEGERS.choose(rng).unwrap()).to_owned(),
        2 => format!("CAST('{value}.25' AS DECIMAL(25, 2))"),
        // Both engines compare as floats, as SQL requires, which would not distinguish larger numbers.
        3 => format!("CAST('{}.5' AS DOUBLE)", value.clamp(-1 << 40, 1 << 40)),
        4 => format!("{}e0", value.clamp(-1 << 40, 1 << 40)),
        5 => format!("{decimal}.0"),
        6 => format!("{decimal}.5"),
        _ => value.to_string(),
    }
}

fn beside_timestamp(rng: &mut StdRng, nanos: i128, zone: bool) -> Option<String> {
    let finer = Kind::Timestamp { nanos: true, zone };
    match rng.random_range(0..4) {
        0 | 1 => finer.literal(&Value::Int(nanos + 500)),
        2 if zone => {
            // The oracle's moments have no zones.
            let local = Kind::Timestamp { nanos: false, zone: false }.text(&Value::Int(nanos + NANOS_PER_DAY / 12))?;
            let utc = finer.text(&Value::Int(nanos))?;
            let ours = format!("CAST('{local}+02:00' AS TIMESTAMP(6) WITH TIME ZONE)");
            Some(either(&ours, &format!("CAST('{utc}' AS TIMESTAMP)")))
        }
        2 => Kind::Date.literal(&Value::Int(nanos.div_euclid(NANOS_PER_DAY))),
        // DuckDB would truncate the text to its column's unit.
        _ if !zone => {
            let text = finer.text(&Value::Int(nanos + 1))?;
            Some(either(&quoted(&text), &format!("CAST('{text}' AS TIMESTAMP_NS)")))
        }
        _ => None,
    }
}
