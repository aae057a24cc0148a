//! Check of the consistency conditions on a database.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use thermocline_transactions::Error;
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
    /// For a warehouse, `$1`, and those with a `$2` for each of its districts, the queries give numbers by key, which is
    /// all columns but the last: for each key, those on the left must add up to those on the right. A missing key counts
    /// as 0.
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

/// A database that the conditions are checked on.
pub trait Queries {
    /// Error of a query.
    type Error: From<Error>;

    /// The answer to a query with the parameters `$1`, `$2`, ...; each occurs once, in this order.
    ///
    /// # Errors
    /// If the query fails.
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Answer, Self::Error>;
}

/// The answer to a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Names of columns.
    pub columns: Vec<String>,
    /// Values by row.
    pub rows: Vec<Vec<Value>>,
}

impl Queries for RowSession {
    type Error = Error;

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Answer, Error> {
        let result = self.execute(sql, parameters)?;
        let columns = result.columns.iter().map(|column| column.name.to_string()).collect();
        Ok(Answer { columns, rows: result.rows.iter().map(|row| row.map(ValueRef::to_value).collect()).collect() })
    }
}

/// Checks conditions, warehouse by warehouse, and returns all violations. It takes several statements, between which
/// nothing else may write.
///
/// # Errors
/// If a query fails.
pub fn violations<Q: Queries + ?Sized>(
    queries: &mut Q,
    scale: Scale,
    conditions: &[Condition],
) -> Result<Vec<Violation>, Q::Error> {
    violations_of(queries, scale, 1..=scale.warehouses, conditions)
}

/// [`violations`] of some warehouses.
///
/// # Errors
/// If a query fails.
pub fn violations_of<Q: Queries + ?Sized>(
    queries: &mut Q,
    scale: Scale,
    warehouses: RangeInclusive<u32>,
    conditions: &[Condition],
) -> Result<Vec<Violation>, Q::Error> {
    let mut found = Vec::new();
    for condition in conditions {
        for check in condition.checks() {
            for warehouse in warehouses.clone().map(i64::from) {
                let broken = match check {
                    Check::Breaks(query, extent) => breaks(queries, scale, query, *extent, warehouse)?,
                    Check::Agree { left, right } => disagree(queries, left, right, warehouse)?,
                };
                let place = |what| Violation { condition: *condition, what: format!("warehouse {warehouse}, {what}") };
                found.extend(broken.into_iter().map(place));
            }
        }
    }
    Ok(found)
}

fn breaks<Q: Queries + ?Sized>(
    queries: &mut Q,
    scale: Scale,
    query: &str,
    extent: Extent,
    warehouse: i64,
) -> Result<Vec<String>, Q::Error> {
    let mut found = Vec::new();
    for district in 1..=i64::from(DISTRICTS) {
        let mut parameters = vec![Value::Int(warehouse), Value::Int(district)];
        if extent == Extent::DistrictAsLoaded {
            parameters.push(Value::Int(i64::from(scale.first_undelivered()) - 1));
        }
        let answer = queries.query(query, &parameters)?;
        for row in &answer.rows {
            let values = answer.columns.iter().zip(row);
            let values: Vec<String> = values.map(|(column, value)| format!("{column} = {value}")).collect();
            found.push(format!("district {district}: {}", values.join(", ")));
        }
    }
    Ok(found)
}

/// Numbers by key, without zeros.
type Sums = BTreeMap<Vec<Value>, Decimal>;

fn disagree<Q: Queries + ?Sized>(
    queries: &mut Q,
    left: &[&str],
    right: &[&str],
    warehouse: i64,
) -> Result<Vec<String>, Q::Error> {
    let (left, mut right) = (sums(queries, left, warehouse)?, sums(queries, right, warehouse)?);
    let mut pairs: Vec<_> = left.into_iter().map(|(key, sum)| (right.remove(&key), sum, key)).collect();
    pairs.extend(right.into_iter().map(|(key, sum)| (Some(sum), Decimal::ZERO, key)));
    let differ = pairs.into_iter().filter_map(|(right, left, key)| {
        let right = right.unwrap_or(Decimal::ZERO);
        let key: Vec<String> = key.iter().map(Value::to_string).collect();
        (left != right).then(|| format!("key ({}): {left} on one side, {right} on the other", key.join(", ")))
    });
    Ok(differ.collect())
}

fn sums<Q: Queries + ?Sized>(queries: &mut Q, of: &[&str], warehouse: i64) -> Result<Sums, Q::Error> {
    let mut sums = Sums::new();
    for query in of {
        let districts = if query.contains("$2") { 1..=i64::from(DISTRICTS) } else { 0..=0 };
        let mut rows = Vec::new();
        for district in districts {
            let mut parameters = vec![Value::Int(warehouse)];
            parameters.extend((district > 0).then_some(Value::Int(district)));
            rows.append(&mut queries.query(query, &parameters)?.rows);
        }
        for mut key in rows {
            let number = match key.pop() {
                Some(Value::Decimal(number)) => number,
                Some(Value::Int(number)) => number.into(),
                other => return Err(unexpected(format_args!("{other:?} where a number should be")).into()),
            };
            let sum = sums.entry(key).or_insert(Decimal::ZERO);
            *sum = sum.plus(number)?;
        }
    }
    Ok(sums)
}
