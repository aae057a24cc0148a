//! Partitions that a statement needs.

use thermocline_tables::PartitionHash;
use thermocline_tables::partition::{Participants, Scope};
use thermocline_types::{DataType, Error, Result, Rounded, Value, ValueRef, assign, round_into};

use super::Joined;
use super::terms::terms_of;
use crate::expression::{Comparison, Environment, Expr, Frame};

/// Rule for a statement's participants, given its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Routing {
    Any,
    All,
    /// The partitions of these values; each row has one of them.
    Several(Vec<PartitionKey>),
    /// The partition of all these values, which must be the same.
    One(Vec<PartitionKey>),
    /// [`Self::One`] for values that only rows to the right of a LEFT JOIN must have. The left table is replicated, and
    /// its rows remain in the result even if no row has the values.
    OneOfOuter(Vec<PartitionKey>),
}

/// A required value of a partition column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionKey {
    pub data_type: DataType,
    pub value: Expr,
}

impl PartitionKey {
    /// The hash of the value; `None` if no row can have it.
    pub fn hash(&self, parameters: &[Value]) -> Result<Option<PartitionHash>> {
        self.hash_of(parameters, |value| {
            Ok(match round_into(value, self.data_type)? {
                Rounded::Exact(value) => Some(PartitionHash::of(value)),
                _ => None,
            })
        })
    }

    /// The hash of the value as stored in a row; `None` if it does not fit the column, which fails in every partition.
    pub fn hash_stored(&self, parameters: &[Value]) -> Result<Option<PartitionHash>> {
        self.hash_of(parameters, |value| Ok(assign(value, self.data_type).ok().map(PartitionHash::of)))
    }

    fn hash_of(
        &self,
        parameters: &[Value],
        hash: impl Fn(ValueRef<'_>) -> Result<Option<PartitionHash>>,
    ) -> Result<Option<PartitionHash>> {
        if let Expr::Parameter(position) = &self.value
            && let Some(value) = parameters.get(*position)
        {
            // The fast path: most partition columns are integers.
            if let Value::Int(number) = value
                && self.data_type.is_integer()
                && self.data_type.holds(*number)
            {
                return Ok(Some(PartitionHash::of(ValueRef::Int(*number))));
            }
            return hash(value.as_ref());
        }
        let environment = match &self.value {
            Expr::Literal(_) => Environment::new(0, 0, 0),
            _ => Environment::outside(),
        };
        hash(self.value.evaluate(&Frame::new(parameters, &environment))?.get())
    }
}

impl Routing {
    /// Derives the routing of a statement over these tables.
    ///
    /// Tables that are joined on their partition columns are co-located. A query that would join rows of different
    /// partitions is not supported by this engine.
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
                    .or_else(|| through(&conditions, (&column, data_type), tables))
                    .map(|value| PartitionKey { data_type, value });
                let column = Place { column, data_type };
                match &mut tied {
                    None if outer && key.is_none() => return Err(apart(table)),
                    None => tied = Some(Tied { columns: vec![column], keys: key.into_iter().collect(), outer }),
                    Some(tied) => tied.add(column, key, &conditions, outer).ok_or_else(|| apart(table))?,
                }
            }
        }
        Ok(match tied {
            None => Self::Any,
            Some(tied) if tied.keys.is_empty() => match tied.several(&inner) {
                Some(keys) => Self::Several(keys),
                None => Self::All,
            },
            Some(tied) if tied.outer => Self::OneOfOuter(tied.keys),
            Some(tied) => Self::One(tied.keys),
        })
    }

    /// The hash of the single partition; an error if the values belong to different ones, and `None` if no row can have
    /// them.
    pub fn one(&self, scope: &mut Scope<'_>, parameters: &[Value]) -> Result<Option<PartitionHash>> {
        let (Self::One(keys) | Self::OneOfOuter(keys)) = self else { return Ok(None) };
        let mut first = None;
        for key in keys {
            let Some(hash) = key.hash(parameters)? else { return Ok(None) };
            let first = *first.get_or_insert(hash);
            if hash != first && !scope.one(first)?.0.owns(hash) {
                return Err(Error::unsupported("a join of rows of different partitions"));
            }
        }
        Ok(first)
    }

    /// Whether [`Routing::one`] is known to give the same for both sets of parameters: its only value is a parameter
    /// that is the same integer in both. May return false negatives.
    #[inline]
    pub fn is_same(&self, one: &[Value], other: &[Value]) -> bool {
        let Self::One(keys) = self else { return false };
        let [PartitionKey { value: Expr::Parameter(position), .. }] = keys.as_slice() else { return false };
        match (one.get(*position), other.get(*position)) {
            (Some(Value::Int(one)), Some(Value::Int(other))) => one == other,
            _ => false,
        }
    }

    /// The hashes of the values of [`Self::Several`], sorted and without duplicates.
    pub fn several(&self, parameters: &[Value]) -> Result<Vec<PartitionHash>> {
        let Self::Several(keys) = self else { return Ok(Vec::new()) };
        let mut hashes = keys.iter().filter_map(|key| key.hash(parameters).transpose()).collect::<Result<Vec<_>>>()?;
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes)
    }

    /// The participants for these parameters.
    pub fn participants(&self, parameters: &[Value]) -> Result<Participants> {
        Ok(match self {
            Self::Any => Participants::Any,
            Self::All => Participants::All,
            Self::Several(_) => Participants::to(&self.several(parameters)?),
            Self::One(keys) | Self::OneOfOuter(keys) => {
                match keys.first().map(|key| key.hash(parameters)).transpose()? {
                    Some(Some(hash)) => Participants::One(hash),
                    // No row has the value, so any partition gives the result.
                    _ => Participants::Any,
                }
            }
        })
    }
}

/// Partition columns of co-located rows.
struct Tied {
    columns: Vec<Place>,
    /// Values that they must have. Runs check that these belong to one partition.
    keys: Vec<PartitionKey>,
    /// Whether all columns belong to tables to the right of a LEFT JOIN.
    outer: bool,
}

/// A partition column.
struct Place {
    column: Expr,
    data_type: DataType,
}

impl Tied {
    /// The shortest list of permitted values that a condition gives.
    fn several(&self, conditions: &[&Expr]) -> Option<Vec<PartitionKey>> {
        let of_column = |place: &Place| {
            let values = conditions.iter().filter_map(|term| one_of(term, &place.column)).min_by_key(Vec::len)?;
            let key = |value| PartitionKey { data_type: place.data_type, value };
            Some(values.into_iter().map(key).collect::<Vec<_>>())
        };
        self.columns.iter().filter_map(of_column).min_by_key(Vec::len)
    }

    fn add(&mut self, column: Place, key: Option<PartitionKey>, conditions: &[&Expr], outer: bool) -> Option<()> {
        let together = |known: &Place| {
            known.data_type.is_placed_like(column.data_type)
                && conditions.iter().any(|term| equates(term, &known.column, &column.column))
        };
        let joined = self.columns.iter().any(together);
        match key {
            // A constant in ON of an outer join does not restrict the rows on the left.
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
    Error::unsupported(format_args!("a join of table \"{}\" with rows of other partitions", table.table.name))
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

/// The constants that a column may equal: those of `IN`, or of an OR whose sides all restrict the column.
fn one_of(term: &Expr, column: &Expr) -> Option<Vec<Expr>> {
    match term {
        Expr::In(value, list) if **value == *column && list.iter().all(Expr::is_of_parameters) => Some(list.clone()),
        Expr::Or(sides) => {
            let of_side = |side| {
                let terms = terms_of(side);
                constant(&terms.iter().collect::<Vec<_>>(), column)
                    .map(|value| vec![value])
                    .or_else(|| terms.iter().filter_map(|term| one_of(term, column)).min_by_key(Vec::len))
            };
            let sides: Option<Vec<_>> = sides.iter().map(of_side).collect();
            Some(sides?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// The constant that a column must equal transitively, through another column.
fn through(conditions: &[&Expr], (column, data_type): (&Expr, DataType), tables: &[Joined]) -> Option<Expr> {
    let columns = tables.iter().enumerate().flat_map(|(slot, table)| {
        let alike =
            table.table.columns.iter().enumerate().filter(|(_, other)| other.data_type.is_placed_like(data_type));
        alike.map(move |(column, _)| Expr::Column { slot, column })
    });
    columns
        .filter(|other| conditions.iter().any(|term| equates(term, column, other)))
        .find_map(|other| constant(conditions, &other))
}
