//! Canonical form of results, for comparing two engines.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thermocline_compute::QueryResult;

use super::oracle::Row;

/// The rows of a result.
pub fn canonical(result: &QueryResult) -> Vec<Row> {
    result.batches.iter().flat_map(batch_rows).collect()
}

fn batch_rows(batch: &RecordBatch) -> Vec<Row> {
    let options = FormatOptions::new().with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.f"));
    let columns: Vec<Vec<Option<String>>> = batch
        .columns()
        .iter()
        .map(|column| {
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options).unwrap();
            (0..column.len())
                .map(|row| {
                    column.is_valid(row).then(|| match column.data_type() {
                        DataType::Float64 => {
                            let value =
                                column.as_any().downcast_ref::<arrow::array::Float64Array>().unwrap().value(row);
                            format!("{value:?}")
                        }
                        _ => formatter.value(row).to_string(),
                    })
                })
                .collect()
        })
        .collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// Panics, with `context`, unless `result` holds the `expected` rows, in any order. Decimals are
/// compared exactly; where DuckDB has a float (averages and quotients), to the decimal's last digit.
pub fn assert_result(result: &QueryResult, mut expected: Vec<Row>, context: &str) {
    let mut actual = canonical(result);
    actual.sort_by_key(sort_key);
    expected.sort_by_key(sort_key);
    assert_eq!(actual.len(), expected.len(), "{context}: number of rows");
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual.len(), expected.len(), "{context}: number of columns");
        for ((field, actual), expected) in result.schema.fields().iter().zip(actual).zip(expected) {
            let same = match (field.data_type(), actual, expected) {
                (DataType::Decimal128(_, scale), Some(actual), Some(expected)) => {
                    same_decimal(actual, expected, *scale)
                }
                _ => same_value(actual, expected),
            };
            assert!(same, "{context}: {} is {actual:?}, expected {expected:?}", field.name());
        }
    }
}

/// Panics, with `context`, unless both results hold the same rows. Without `ordered`, in any order.
pub fn assert_same(mut actual: Vec<Row>, mut expected: Vec<Row>, ordered: bool, context: &str) {
    assert_eq!(actual.len(), expected.len(), "{context}: number of rows");
    if !ordered {
        actual.sort_by_key(sort_key);
        expected.sort_by_key(sort_key);
    }
    for (position, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        let same = actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, b)| same_value(a, b));
        assert!(same, "{context}: row {position} is {actual:?}, expected {expected:?}");
    }
}

/// Whether two lists have the same rows in the same order.
pub fn same_rows(actual: &[Row], expected: &[Row]) -> bool {
    let same = |(a, b): (&Row, &Row)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b));
    actual.len() == expected.len() && actual.iter().zip(expected).all(same)
}

/// Numbers of different types and precisions sort alike.
fn sort_key(row: &Row) -> Vec<(u8, String)> {
    row.iter()
        .map(|value| match value {
            None => (0, String::new()),
            Some(text) => match text.parse::<f64>() {
                // Rounded, so that the last digits of an average do not affect the order.
                Ok(number) => (1, format!("{number:+.6e}")),
                Err(_) => (2, text.clone()),
            },
        })
        .collect()
}

fn same_value(a: &Option<String>, b: &Option<String>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) if a == b => true,
        (Some(a), Some(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            // Exact integers and decimals may differ only in trailing zeros.
            (Ok(x), Ok(y)) => {
                x == y || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()) && !(is_integer(a) && is_integer(b))
            }
            _ => false,
        },
        (None, None) => true,
        _ => false,
    }
}

/// Whether a decimal with `scale` digits after the point is `expected`, a decimal or a float.
fn same_decimal(actual: &str, expected: &str, scale: i8) -> bool {
    let significant = |text: &str| match text.split_once('.') {
        Some((_, fraction)) => fraction.trim_end_matches('0').len(),
        None => 0,
    };
    if expected.contains('e') || significant(expected) > scale.max(0) as usize {
        let (actual, expected): (f64, f64) = (actual.parse().unwrap(), expected.parse().unwrap());
        (actual - expected).abs() <= 10f64.powi(-i32::from(scale))
    } else {
        let trimmed = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        trimmed(actual) == trimmed(expected)
    }
}

fn is_integer(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}
