//! Which partitions a statement needs.

use super::Joined;
use crate::engine::Route;
use crate::error::{Error, Result};
use crate::partition::Scope;
use crate::sql::expression::{Comparison, Environment, Expr, Frame};
use crate::types::{DataType, PartitionHash, Rounded, Value, ValueRef, round_into};

/// How a statement's route follows from its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Routing {
    Any,
    All,
    /// The partition of all these values, which must be one.
    One(Vec<PartitionKey>),
    /// The same, of values that only rows to the right of a LEFT JOIN must have: those to its left are in
    /// every partition, and stay where no row has the values.
    OneOfOuter(Vec<PartitionKey>),
}

/// A value that a partition column must have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionKey {
    pub data_type: DataType,
    pub value: Expr,
}

impl PartitionKey {
    /// The hash of its value; `None` if no row has it.
    pub fn hash(&self, parameters: &[Value]) -> Result<Option<PartitionHash>> {
        let hash = |value| {
            Ok(match round_into(value, self.data_type)? {
                Rounded::Exact(value) => Some(PartitionHash::of(value)),
                _ => None,
            })
        };
        if let Expr::Parameter(position) = &self.value
            && let Some(value) = parameters.get(*position)
        {
            // What most tables are partitioned by.
            if let Value::Int(number) = value
                && self.data_type.is_integer()
                && self.data_type.holds(*number)
            {
                return Ok(Some(PartitionHash::of(ValueRef::Int(*number))));
            }
            return hash(value.as_ref());
        }
        hash(self.value.evaluate(&Frame::new(parameters, &Environment::new(0, 0, 0)))?.get())
    }
}

impl Routing {
    /// Of a statement over these tables.
    ///
    /// Tables that are joined by their partition columns have their rows in the same partitions. A query
    /// that would join rows of different ones is not for this engine.
    pub fn of(tables: &[Joined], filters: &[Expr]) -> Result<Self> {
        let inner: Vec<&Expr> =
            tables.iter().filter(|table| !table.outer).flat_map(|table| &table.on).chain(filters).collect();
        let mut tied: Option<Tied> = None;
        for outer in [false, true] {
            for (slot, table) in tables.iter().enumerate().filter(|(_, table)| table.outer == outer) {
                let Some(by) = table.table.partition_by else { continue };
                let data_type = table.table.columns.get(by).map_or(DataType::Text, |column| column.data_type);
                let conditions: Vec<&Expr> = if outer { table.on.iter().chain(&[]).collect() } else { inner.clone() };
                let column = Expr::Column { slot, column: by };
                let key = constant(&conditions, &column)
                    .or_else(|| through(&conditions, &column, tables))
                    .map(|value| PartitionKey { data_type, value });
                match &mut tied {
                    None if outer && key.is_none() => return Err(apart(table)),
                    None => tied = Some(Tied { columns: vec![column], keys: key.into_iter().collect(), outer }),
                    Some(tied) => tied.add(column, key, &conditions, outer).ok_or_else(|| apart(table))?,
                }
            }
        }
        Ok(match tied {
            None => Self::Any,
            Some(tied) if tied.keys.is_empty() => Self::All,
            Some(tied) if tied.outer => Self::OneOfOuter(tied.keys),
            Some(tied) => Self::One(tied.keys),
        })
    }

    /// The hash of the one partition, which all values must belong to; `None` if no row can have them.
    pub fn one(&self, scope: &mut Scope<'_>, parameters: &[Value]) -> Result<Option<PartitionHash>> {
        let (Self::One(keys) | Self::OneOfOuter(keys)) = self else { return Ok(None) };
        let mut first = None;
        for key in keys {
            let Some(hash) = key.hash(parameters)? else { return Ok(None) };
            let first = *first.get_or_insert(hash);
            if hash != first && !scope.one(first)?.0.owns(hash) {
                return Err(Error::not_here("a join of rows of different partitions"));
            }
        }
        Ok(first)
    }

    /// The route with these parameters.
    pub fn route(&self, parameters: &[Value]) -> Result<Route> {
        Ok(match self {
            Self::Any => Route::Any,
            Self::All => Route::All,
            Self::One(keys) | Self::OneOfOuter(keys) => {
                match keys.first().map(|key| key.hash(parameters)).transpose()? {
                    Some(Some(hash)) => Route::One(hash),
                    // No row has the value, so that all partitions find the same.
                    _ => Route::Any,
                }
            }
        })
    }
}

/// Partition columns whose rows are known to lie together.
struct Tied {
    columns: Vec<Expr>,
    /// Values that they must have; all of the same hash, or it is seen when it runs.
    keys: Vec<PartitionKey>,
    /// Whether all of them are of tables to the right of a LEFT JOIN.
    outer: bool,
}

impl Tied {
    fn add(&mut self, column: Expr, key: Option<PartitionKey>, conditions: &[&Expr], outer: bool) -> Option<()> {
        let joined = self.columns.iter().any(|known| conditions.iter().any(|term| equates(term, known, &column)));
        match key {
            // A constant of an outer join's ON does not hold of the rows on its left.
            Some(key) if outer => {
                let same = self.keys.iter().any(|known| known.value == key.value);
                (joined || same).then_some(())?;
            }
            Some(key) if joined || !self.keys.is_empty() => {
                if !self.keys.iter().any(|known| known.value == key.value) {
                    self.keys.push(key);
                }
            }
            _ if joined => {}
            _ => return None,
        }
        self.columns.push(column);
        Some(())
    }
}

fn apart(table: &Joined) -> Error {
    Error::not_here(format_args!("a join of table \"{}\" with rows of other partitions", table.table.name))
}

fn equates(term: &Expr, one: &Expr, other: &Expr) -> bool {
    match term {
        Expr::Compare(Comparison::Equal, sides) => {
            let [left, right] = &**sides;
            (left == one && right == other) || (left == other && right == one)
        }
        _ => false,
    }
}

/// The constant that a column must equal.
fn constant(conditions: &[&Expr], column: &Expr) -> Option<Expr> {
    conditions.iter().find_map(|term| match term {
        Expr::Compare(Comparison::Equal, sides) => {
            let [left, right] = &**sides;
            let other = if left == column {
                right
            } else if right == column {
                left
            } else {
                return None;
            };
            other.is_of_parameters().then(|| other.clone())
        }
        _ => None,
    })
}

/// The constant that a column must equal because another column that it equals must.
fn through(conditions: &[&Expr], column: &Expr, tables: &[Joined]) -> Option<Expr> {
    let columns = tables
        .iter()
        .enumerate()
        .flat_map(|(slot, table)| (0..table.table.columns.len()).map(move |column| Expr::Column { slot, column }));
    columns
        .filter(|other| conditions.iter().any(|term| equates(term, column, other)))
        .find_map(|other| constant(conditions, &other))
}
