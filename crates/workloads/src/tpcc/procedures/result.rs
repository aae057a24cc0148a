//! Values of results in the types of the tables' columns.

use thermocline_transactions::Result;
use thermocline_transactions::sql::{Batch, Rows};
use thermocline_transactions::types::{Decimal, Value, ValueRef};

use super::super::draw::unexpected;

pub fn int(rows: &Rows, row: usize, column: usize) -> Result<i64> {
    match rows.value(row, column) {
        ValueRef::Int(value) => Ok(value),
        other => Err(unexpected(format_args!("{other} where an integer should be"))),
    }
}

pub fn decimal(rows: &Rows, row: usize, column: usize) -> Result<Decimal> {
    match rows.value(row, column) {
        ValueRef::Decimal(value) => Ok(value),
        other => Err(unexpected(format_args!("{other} where a decimal should be"))),
    }
}

pub fn text(rows: &Rows, row: usize, column: usize) -> Result<&str> {
    match rows.value(row, column) {
        ValueRef::Text(value) => Ok(value),
        other => Err(unexpected(format_args!("{other} where text should be"))),
    }
}

/// The row of a result that must have exactly one.
pub fn only<'r>(rows: &'r Rows, what: &str, key: &[Value]) -> Result<&'r Rows> {
    match rows.len() {
        1 => Ok(rows),
        count => {
            let key: Vec<String> = key.iter().map(Value::to_string).collect();
            Err(unexpected(format_args!("{count} rows of {what} ({})", key.join(", "))))
        }
    }
}

/// The rows of a batch whose runs must each have one.
pub fn one_each(batch: Batch, what: &str) -> Result<Rows> {
    let counts = (0..batch.runs()).map(|run| batch.rows_of(run).len());
    match counts.enumerate().find(|(_, count)| *count != 1) {
        None => Ok(batch.outcome.rows),
        Some((run, count)) => Err(unexpected(format_args!("{count} rows of {what} in run {run} of a batch"))),
    }
}

/// The first `count` values, which begin a key.
pub fn first(count: usize, values: &[Value]) -> &[Value] {
    values.get(..count).unwrap_or(values)
}
