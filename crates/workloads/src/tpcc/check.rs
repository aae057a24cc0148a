//! Check of the consistency conditions on a database.

use std::collections::BTreeMap;
use std::fmt;

use thermocline_transactions::Result;
use thermocline_transactions::database::RowSession;
use thermocline_transactions::types::{Decimal, Value, ValueRef};

use super::conditions::Condition;
use super::draw::unexpected;
use super::scale::{DISTRICTS, Scale};

/// Part of a condition.
#[derive(Debug)]
pub(super) enum Check {
    /// The rows of a query break the condition.
    Breaks(&'static str, Extent),
    /// For a warehouse, `$1`, the queries give numbers by key, which is all columns but the last: for each key, those
    /// on the left must add up to those on the right. A missing key counts as 0.
    Agree { left: &'static [&'static str], right: &'static [&'static str] },
}

/// Parameters of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// `$1` is a warehouse and `$2` one of its districts.
    District,
    /// Also `$3`, the number of the district's orders that were loaded as delivered.
    DistrictAsLoaded,
}

/// Rows that break a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The violated condition.
    pub condition: Condition,
    /// The place, and the numbers that do not agree.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition {}: {}", self.condition.number(), self.what)
    }
}

/// Checks conditions, warehouse by warehouse, and returns all violations. It takes several statements, between which
/// nothing else may write.
///
/// # Errors
/// If a query fails.
pub fn violations(session: &mut RowSession, scale: Scale, conditions: &[Condition]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for condition in conditions {
        for check in condition.checks() {
            for warehouse in 1..=i64::from(scale.warehouses) {
                let broken = match check {
                    Check::Breaks(query, extent) => breaks(session, scale, query, *extent, warehouse)?,
                    Check::Agree { left, right } => disagree(session, left, right, warehouse)?,
                };
                let place = |what| Violation { condition: *condition, what: format!("warehouse {warehouse}, {what}") };
                found.extend(broken.into_iter().map(place));
            }
        }
    }
    Ok(found)
}

fn breaks(session: &mut RowSession, scale: Scale, query: &str, extent: Extent, warehouse: i64) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for district in 1..=i64::from(DISTRICTS) {
        let mut parameters = vec![Value::Int(warehouse), Value::Int(district)];
        if extent == Extent::DistrictAsLoaded {
            parameters.push(Value::Int(i64::from(scale.first_undelivered()) - 1));
        }
        let answer = session.execute(query, &parameters)?;
        for row in answer.rows.iter() {
            let values = answer.columns.iter().zip(row);
            let values: Vec<String> = values.map(|(column, value)| format!("{} = {value}", column.name)).collect();
            found.push(format!("district {district}: {}", values.join(", ")));
        }
    }
    Ok(found)
}

/// Numbers by key, without zeros.
type Sums = BTreeMap<Vec<Value>, Decimal>;

fn disagree(session: &mut RowSession, left: &[&str], right: &[&str], warehouse: i64) -> Result<Vec<String>> {
    let (left, mut right) = (sums(session, left, warehouse)?, sums(session, right, warehouse)?);
    let mut pairs: Vec<_> = left.into_iter().map(|(key, sum)| (right.remove(&key), sum, key)).collect();
    pairs.extend(right.into_iter().map(|(key, sum)| (Some(sum), Decimal::ZERO, key)));
    let differ = pairs.into_iter().filter_map(|(right, left, key)| {
        let right = right.unwrap_or(Decimal::ZERO);
        let key: Vec<String> = key.iter().map(Value::to_string).collect();
        (left != right).then(|| format!("key ({}): {left} on one side, {right} on the other", key.join(", ")))
    });
    Ok(differ.collect())
}

fn sums(session: &mut RowSession, queries: &[&str], warehouse: i64) -> Result<Sums> {
    let mut sums = Sums::new();
    for query in queries {
        let rows = session.execute(query, &[Value::Int(warehouse)])?.rows;
        let last = rows.width().saturating_sub(1);
        for row in 0..rows.len() {
            let number = match rows.value(row, last) {
                ValueRef::Decimal(number) => number,
                ValueRef::Int(number) => number.into(),
                other => return Err(unexpected(format_args!("{other} where a number should be"))),
            };
            let key = rows.row(row).take(last).map(ValueRef::to_value).collect();
            let sum = sums.entry(key).or_insert(Decimal::ZERO);
            *sum = sum.plus(number)?;
        }
    }
    Ok(sums)
}
