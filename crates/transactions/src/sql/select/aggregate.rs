//! Groups and their aggregates.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::Group;
use crate::error::{Class, Result};
use crate::sql::bind::{Aggregate, AggregateKind};
use crate::sql::expression::Frame;
use crate::types::{Decimal, Value, ValueRef};

/// The most groups of one query.
const GROUPS_MAX: usize = 4_000_000;

/// With a fixed key, so that nothing differs between two runs.
type FixedState = BuildHasherDefault<DefaultHasher>;

/// Groups in the order in which their first rows came.
pub(super) struct Groups<'g> {
    plan: &'g Group,
    places: HashMap<Box<[Value]>, usize, FixedState>,
    groups: Vec<(Box<[Value]>, Vec<State>)>,
    scratch: Vec<Value>,
}

/// What is known of an aggregate so far.
#[derive(Debug, Clone)]
struct State {
    count: i64,
    total: Total,
    /// The least, the largest, or a truth value; NULL before the first value.
    best: Value,
    /// Values so far, of a DISTINCT aggregate.
    seen: Option<HashSet<Value, FixedState>>,
}

#[derive(Debug, Clone, Copy)]
enum Total {
    Nothing,
    Int(i128),
    Decimal(Decimal),
    Float(f64),
}

impl<'g> Groups<'g> {
    pub fn new(plan: &'g Group) -> Self {
        Self { plan, places: HashMap::default(), groups: Vec::new(), scratch: Vec::new() }
    }

    /// Adds a row to its group.
    pub fn add<'a>(&mut self, frame: &Frame<'a>) -> Result<()>
    where
        'g: 'a,
    {
        let plan = self.plan;
        self.scratch.clear();
        for key in &plan.keys {
            self.scratch.push(key.evaluate(frame)?.into_value());
        }
        let place = match self.places.get(self.scratch.as_slice()) {
            Some(place) => *place,
            None => {
                if self.groups.len() >= GROUPS_MAX {
                    return Err(Class::LimitExceeded.error(format_args!("a query has at most {GROUPS_MAX} groups")));
                }
                let key: Box<[Value]> = self.scratch.drain(..).collect();
                self.places.insert(key.clone(), self.groups.len());
                self.groups.push((key, plan.aggregates.iter().map(State::new).collect()));
                self.groups.len() - 1
            }
        };
        let Some((_, states)) = self.groups.get_mut(place) else { return Ok(()) };
        for (aggregate, state) in plan.aggregates.iter().zip(states) {
            if let Some(filter) = &aggregate.filter
                && !filter.holds(frame)?
            {
                continue;
            }
            match &aggregate.argument {
                None => state.count += 1,
                Some(argument) => {
                    let value = argument.evaluate(frame)?;
                    state.add(aggregate.kind, value.get())?;
                }
            }
        }
        Ok(())
    }

    /// The values of each group: its keys, then its aggregates.
    pub fn finish(mut self) -> Result<Vec<Vec<Value>>> {
        if self.groups.is_empty() && self.plan.keys.is_empty() {
            self.groups.push((Box::default(), self.plan.aggregates.iter().map(State::new).collect()));
        }
        let plan = self.plan;
        self.groups
            .into_iter()
            .map(|(keys, states)| {
                let mut values = Vec::from(keys);
                for (aggregate, state) in plan.aggregates.iter().zip(states) {
                    values.push(state.finish(aggregate.kind)?);
                }
                Ok(values)
            })
            .collect()
    }
}

impl State {
    fn new(aggregate: &Aggregate) -> Self {
        let seen = aggregate.distinct.then(HashSet::default);
        Self { count: 0, total: Total::Nothing, best: Value::Null, seen }
    }

    fn add(&mut self, kind: AggregateKind, value: ValueRef<'_>) -> Result<()> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            if seen.len() >= GROUPS_MAX {
                return Err(Class::LimitExceeded.error(format_args!("more than {GROUPS_MAX} distinct values")));
            }
            if !seen.insert(value.to_value()) {
                return Ok(());
            }
        }
        self.count += 1;
        match kind {
            AggregateKind::Count => {}
            AggregateKind::Sum | AggregateKind::Average => self.total = self.total.plus(value)?,
            AggregateKind::Min | AggregateKind::Max => {
                let order = value.total_cmp(self.best.as_ref());
                let better = if kind == AggregateKind::Min { order.is_lt() } else { order.is_gt() };
                if self.best.is_null() || better {
                    self.best = value.to_value();
                }
            }
            AggregateKind::All | AggregateKind::Any => {
                let decisive = Value::Boolean(kind == AggregateKind::Any);
                if self.best != decisive {
                    self.best = value.to_value();
                }
            }
        }
        Ok(())
    }

    fn finish(self, kind: AggregateKind) -> Result<Value> {
        Ok(match kind {
            AggregateKind::Count => Value::Int(self.count),
            AggregateKind::Min | AggregateKind::Max | AggregateKind::All | AggregateKind::Any => self.best,
            AggregateKind::Sum => match self.total {
                Total::Nothing => Value::Null,
                Total::Int(sum) => Value::Int(i64::try_from(sum).map_err(|_| too_large())?),
                Total::Decimal(sum) => sum.into(),
                Total::Float(sum) => sum.into(),
            },
            AggregateKind::Average => match self.total {
                Total::Nothing => Value::Null,
                #[expect(clippy::cast_precision_loss, reason = "the quotient is a double")]
                Total::Int(sum) => (sum as f64 / self.count as f64).into(),
                #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
                Total::Decimal(sum) => (sum.to_f64() / self.count as f64).into(),
                #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
                Total::Float(sum) => (sum / self.count as f64).into(),
            },
        })
    }
}

impl Total {
    fn plus(self, value: ValueRef<'_>) -> Result<Self> {
        Ok(match (self, value) {
            (Self::Nothing, ValueRef::Int(value)) => Self::Int(value.into()),
            (Self::Nothing, ValueRef::Decimal(value)) => Self::Decimal(value),
            (Self::Int(sum), ValueRef::Int(value)) => Self::Int(sum + i128::from(value)),
            (Self::Int(sum), ValueRef::Decimal(value)) => Self::Decimal(Decimal::new(sum, 0)?.plus(value)?),
            (Self::Decimal(sum), ValueRef::Decimal(value)) => Self::Decimal(sum.plus(value)?),
            (Self::Decimal(sum), ValueRef::Int(value)) => Self::Decimal(sum.plus(value.into())?),
            (sum, value) => {
                let number = value.number_as_f64().unwrap_or(f64::NAN);
                Self::Float(match sum {
                    Self::Nothing => number,
                    #[expect(clippy::cast_precision_loss, reason = "floats are sums after rounding")]
                    Self::Int(sum) => sum as f64 + number,
                    Self::Decimal(sum) => sum.to_f64() + number,
                    Self::Float(sum) => sum + number,
                })
            }
        })
    }
}

fn too_large() -> crate::Error {
    Class::OutOfRange.error("sum out of range for BIGINT")
}
