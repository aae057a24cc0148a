//! What differs on purpose: the table of `docs/sql.md`.

use std::collections::BTreeSet;

use super::Outcome;
use super::expressions::Expression;
use super::report::Difference;

/// The names in the table's first column.
const NAMES: &[&str] = &[
    "quotients",
    "powers",
    "exponents",
    "digits",
    "years",
    "extract",
    "literals",
    "remainders",
    "last digits",
    "negative zero",
    "date_trunc",
    "case mapping",
];

/// Relative difference of floats that are equal but for the last digits.
const LAST_DIGITS: f64 = 1e-13;

/// The deviation that explains a difference; `None` if it is none of them.
pub fn name(expression: &Expression, difference: &Difference) -> Option<&'static str> {
    let sql = expression.sql.as_str();
    let has = |parts: &[&str]| parts.iter().any(|part| sql.contains(part));
    let in_doubles = || {
        if has(&["1e2", "1e3"]) {
            Some("exponents")
        } else if has(&["^", "power(", "exp(", "ln(", "log(", "log10(", "sqrt("]) {
            Some("powers")
        } else if has(&["/"]) {
            Some("quotients")
        } else {
            None
        }
    };
    match difference {
        Difference::Type { expected, found } => match (expected.as_str(), found.as_str()) {
            ("numeric", "double precision") => in_doubles(),
            ("numeric", "integer") if sql.starts_with("EXTRACT(") => Some("extract"),
            ("integer", "bigint") if has(&["CASE", "coalesce"]) => Some("literals"),
            ("timestamp with time zone", "timestamp") if has(&["date_trunc("]) => Some("date_trunc"),
            _ => None,
        },
        Difference::Accepted { .. } if has(&["%"]) && has(&["_f8", "1e3"]) => Some("remainders"),
        Difference::Value { expected: Outcome::Value(Some(expected)), found, .. } => match found {
            Err(error) if error.starts_with("22003") && is_beyond_digits(expected) => Some("digits"),
            Err(error) if error.starts_with("22003") && in_doubles() == Some("powers") => Some("powers"),
            Err(error) if error.starts_with("22008") && is_beyond_years(expected) => Some("years"),
            Ok(Some(found)) if has(&["upper(", "initcap("]) && found.to_lowercase() != *expected => {
                Some("case mapping")
            }
            Ok(Some(found)) if has(&["date_trunc("]) && expected.strip_suffix("+00") == Some(found) => {
                Some("date_trunc")
            }
            Ok(Some(found)) if has(&["_f8"]) && expected.replace("-0", "0") == *found => Some("negative zero"),
            Ok(Some(found)) => match (expected.parse::<f64>(), found.parse::<f64>()) {
                (Ok(one), Ok(other)) if is_close(one, other) => in_doubles().or_else(|| {
                    has(&["cbrt(", "degrees(", "radians(", "sin(", "cos(", "tan("]).then_some("last digits")
                }),
                // PostgreSQL's powers of decimals have no digits that are this small.
                (Ok(0.0), Ok(other)) if other.abs() < 1e-15 => in_doubles().filter(|name| *name != "exponents"),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn is_close(one: f64, other: f64) -> bool {
    one == other || (one - other).abs() <= LAST_DIGITS * one.abs().max(other.abs())
}

/// Whether a number has more digits than a decimal here, or is none.
fn is_beyond_digits(expected: &str) -> bool {
    let digits = expected.bytes().filter(u8::is_ascii_digit).count();
    digits > 38 || expected.ends_with("NaN") || expected.ends_with("Infinity")
}

fn is_beyond_years(expected: &str) -> bool {
    expected.ends_with("BC") || expected.split('-').next().is_some_and(|year| year.len() > 4)
}

/// The table and this file have the same deviations.
#[test]
fn deviations_are_those_of_the_documentation() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("## Deviations from PostgreSQL").unwrap();
    let rows =
        table.lines().skip_while(|line| !line.starts_with("|--")).skip(1).take_while(|line| line.starts_with('|'));
    let listed: BTreeSet<&str> = rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect();
    assert_eq!(listed, NAMES.iter().copied().collect());
}
