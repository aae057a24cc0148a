//! Deliberate differences: the table of `docs/sql.md`.

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
    "case mapping",
    "to_char",
    "sums of reals",
    "blanks",
];

/// Relative difference of floats that count as equal except for the last digits.
const LAST_DIGITS: f64 = 1e-13;

/// The deviation that explains a difference; `None` if none does.
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
            _ => None,
        },
        // Refused at once, not when a date is met.
        Difference::Refused { error, .. } if error.starts_with("0A000") && has(&["EXTRACT(", "date_part("]) => {
            Some("extract")
        }
        Difference::Accepted { .. } if has(&["%"]) && has(&["_f4", "_f8", "1e3"]) => Some("remainders"),
        // PostgreSQL's exponent is a decimal with a fraction, which no double of this size has.
        Difference::Value { expected: Outcome::Error(state), .. } if state == "2201F" && has(&["^"]) => Some("powers"),
        Difference::Value { expected: Outcome::Error(state), found: Ok(Some(found)), .. }
            if state == "22003" && has(&["to_char("]) && found.contains("##") =>
        {
            Some("to_char")
        }
        Difference::Value { .. } if is_of_blanks(sql) => Some("blanks"),
        // The first character of one.
        Difference::Value { expected: Outcome::Value(Some(expected)), found: Ok(Some(found)), .. }
            if has(&["CAST(l_f4 AS CHARACTER)", "CAST(l_f8 AS CHARACTER)"]) && expected == "-" && found == "0" =>
        {
            Some("negative zero")
        }
        // A text chosen instead of a CHAR becomes a CHAR.
        Difference::Value { expected: Outcome::Value(Some(expected)), found: Ok(Some(found)), .. }
            if has(&["_ch"]) && expected == found.trim_end_matches(' ') =>
        {
            Some("blanks")
        }
        Difference::Value { expected: Outcome::Value(Some(expected)), found, .. } => match found {
            Err(error) if error.starts_with("22008") && is_beyond_years(expected) => Some("years"),
            Err(error) if is_of_digits(error) && is_beyond_digits(expected) => Some("digits"),
            Err(error) if is_of_digits(error) => in_doubles().filter(|name| *name != "quotients"),
            Err(_) | Ok(None) => None,
            Ok(Some(found)) => {
                if has(&["to_char("]) {
                    let signs = ['-', '<'];
                    let is_signed_zero = has(&["_f4", "_f8"])
                        && expected.contains(signs)
                        && !found.contains(signs)
                        && !expected.contains(|digit| ('1'..='9').contains(&digit));
                    let is_rounded_up = has(&["EEEE"]) && expected.contains("10.");
                    let is_wrapped = has(&["V99"]) && has(&["_i4"]) && found.contains("##");
                    return match (is_signed_zero, is_rounded_up || is_wrapped) {
                        (true, _) => Some("negative zero"),
                        (_, true) => Some("to_char"),
                        _ => None,
                    };
                }
                let numbers = expected.parse::<f64>().ok().zip(found.parse::<f64>().ok());
                if has(&["upper(", "initcap("]) && found.to_lowercase() != *expected {
                    Some("case mapping")
                } else if has(&["_f4", "_f8"]) && is_without_signs(expected, found) {
                    Some("negative zero")
                } else if has(&["%"]) && has(&["1e2", "1e3"]) {
                    Some("exponents")
                } else {
                    let (one, other) = numbers?;
                    // PostgreSQL's powers of decimals have 16 digits after the point.
                    let is_small = one.abs() < 1e-2 && (one - other).abs() < 1e-14;
                    match in_doubles() {
                        Some(name) if is_close(one, other) || (is_small && name != "quotients") => Some(name),
                        None if is_close(one, other)
                            && has(&["cbrt(", "degrees(", "radians(", "sin(", "cos(", "tan("]) =>
                        {
                            Some("last digits")
                        }
                        None if has(&["atan2("])
                            && one.abs() == std::f64::consts::PI
                            && (other == 0.0 || other == -one) =>
                        {
                            Some("negative zero")
                        }
                        // An odd number of more than 53 bits becomes an even double.
                        Some("powers") if one == -other && one.abs() == 1.0 => Some("powers"),
                        _ => None,
                    }
                }
            }
        },
        _ => None,
    }
}

/// Whether an expression depends on the blanks with which PostgreSQL pads a CHAR, or has a literal that it takes for a
/// CHAR.
fn is_of_blanks(sql: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| sql.contains(part));
    has(&["_ch", "CHAR(5)"]) && has(&["octet_length(", "concat", "LIKE", "~", "SIMILAR", "AS BYTEA", "'abc  '"])
}

/// An out-of-range error of a number. One passed on by a storage node has no SQLSTATE.
fn is_of_digits(error: &str) -> bool {
    error.starts_with("22003") || error.contains("38 digits") || error.contains("out of range")
}

/// Whether only the signs of zeros differ.
fn is_without_signs(expected: &str, found: &str) -> bool {
    let mut expected = expected.chars().peekable();
    let mut lost = 0;
    for next in found.chars() {
        let mut other = expected.next();
        while other != Some(next) {
            if other != Some('-') || expected.peek() != Some(&'0') {
                return false;
            }
            lost += 1;
            other = expected.next();
        }
    }
    lost > 0 && expected.next().is_none()
}

fn is_close(one: f64, other: f64) -> bool {
    one == other || (one - other).abs() <= LAST_DIGITS * one.abs().max(other.abs())
}

/// Whether a number has more digits than a decimal here, or is not a number.
fn is_beyond_digits(expected: &str) -> bool {
    let digits = expected.bytes().filter(u8::is_ascii_digit).count();
    digits > 38 || expected.ends_with("NaN") || expected.ends_with("Infinity")
}

fn is_beyond_years(expected: &str) -> bool {
    expected.ends_with("BC") || expected.split('-').next().is_some_and(|year| year.len() > 4)
}

/// The table and this file list the same deviations.
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
