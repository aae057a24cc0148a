//! Groups and their aggregates.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hashbrown::HashTable;
use thermocline_tables::table::{Structure, allocated};
use thermocline_types::{Class, Decimal, Result, Value, ValueRef};

use super::Group;
use crate::bind::{Aggregate, AggregateKind};
use crate::expression::{Environment, Frame};

/// Limit on groups of a query.
const GROUPS_MAX: usize = 4_000_000;

/// A hasher with a fixed key, so that runs do not differ.
type FixedState = BuildHasherDefault<DefaultHasher>;

/// Groups in order of their first rows.
pub(super) struct Groups<'g> {
    plan: &'g Group,
    /// Positions in `groups`, by key.
    places: HashTable<usize>,
    groups: Vec<(Box<[Value]>, Vec<State>)>,
    scratch: Vec<Value>,
    memory: Structure<'g>,
}

/// Accumulator of an aggregate.
#[derive(Debug, Clone)]
struct State {
    count: i64,
    total: Total,
    /// The smallest or largest value, or a truth value; NULL before the first value.
    best: Value,
    /// Values so far; `None` unless DISTINCT.
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
    pub fn new(plan: &'g Group, environment: &'g Environment) -> Self {
        let memory = environment.structure("groups");
        Self { plan, places: HashTable::new(), groups: Vec::new(), scratch: Vec::new(), memory }
    }

    /// Adds a row to its group.
    pub fn add<'a>(&mut self, frame: &Frame<'a>) -> Result<()>
    where
        'g: 'a,
    {
        let plan = self.plan;
        self.scratch.clear();
        for key in &plan.keys {
            self.scratch.push(key.evaluate(frame)?.into_value(frame.environment)?);
        }
        let hasher = FixedState::default();
        let (scratch, groups) = (&self.scratch, &self.groups);
        let hash = hasher.hash_one(scratch.as_slice());
        let place = self.places.find(hash, |place| groups.get(*place).is_some_and(|(key, _)| **key == **scratch));
        let place = match place {
            Some(place) => *place,
            None => self.begin_group(hash)?,
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
                    state.add(aggregate.kind, value.get(), &mut self.memory)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a group with the key in `scratch`.
    fn begin_group(&mut self, hash: u64) -> Result<usize> {
        let Self { plan, places, groups, scratch, memory } = self;
        if groups.len() >= GROUPS_MAX {
            return Err(Class::LimitExceeded.error(format_args!("a query has at most {GROUPS_MAX} groups")));
        }
        memory.make_room(groups)?;
        if places.len() == places.capacity() {
            memory.grow((places.capacity() + 3) * size_of::<usize>() * 2)?;
        }
        let texts: usize = scratch.iter().map(|value| allocated(value.heap_bytes())).sum();
        let states = allocated(plan.aggregates.len() * size_of::<State>());
        memory.grow(texts + allocated(size_of_val(scratch.as_slice())) + states)?;
        let place = groups.len();
        groups.push((scratch.drain(..).collect(), plan.aggregates.iter().map(State::new).collect()));
        let hasher = FixedState::default();
        let hash_of = |place: &usize| hasher.hash_one(groups.get(*place).map_or(&[][..], |(key, _)| key));
        places.insert_unique(hash, place, hash_of);
        Ok(place)
    }

    /// Returns the values of each group, keys before aggregates, and their memory accounting.
    pub fn finish(mut self) -> (impl Iterator<Item = Result<Vec<Value>>>, Structure<'g>) {
        if self.groups.is_empty() && self.plan.keys.is_empty() {
            self.groups.push((Box::default(), self.plan.aggregates.iter().map(State::new).collect()));
        }
        let plan = self.plan;
        let groups = self.groups.into_iter().map(|(keys, states)| {
            let mut values = Vec::from(keys);
            for (aggregate, state) in plan.aggregates.iter().zip(states) {
                values.push(state.finish(aggregate.kind)?);
            }
            Ok(values)
        });
        (groups, self.memory)
    }
}

impl State {
    fn new(aggregate: &Aggregate) -> Self {
        let seen = aggregate.distinct.then(HashSet::default);
        Self { count: 0, total: Total::Nothing, best: Value::Null, seen }
    }

    fn add(&mut self, kind: AggregateKind, value: ValueRef<'_>, memory: &mut Structure<'_>) -> Result<()> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            if seen.len() >= GROUPS_MAX {
                return Err(Class::LimitExceeded.error(format_args!("more than {GROUPS_MAX} distinct values")));
            }
            let value = value.to_value();
            if seen.contains(&value) {
                return Ok(());
            }
            if seen.len() == seen.capacity() {
                memory.grow((seen.capacity() + 3) * (size_of::<Value>() + 1) * 2)?;
            }
            memory.grow(allocated(value.heap_bytes()))?;
            seen.insert(value);
        }
        self.count += 1;
        match kind {
            AggregateKind::Count => {}
            AggregateKind::Sum | AggregateKind::Average => self.total = self.total.plus(value)?,
            AggregateKind::Min | AggregateKind::Max => {
                let order = value.total_cmp(self.best.as_ref());
                let better = if kind == AggregateKind::Min { order.is_lt() } else { order.is_gt() };
                if self.best.is_null() || better {
                    // The memory of the previous best value stays counted and is reused.
                    memory.grow(value.heap_bytes().saturating_sub(self.best.heap_bytes()))?;
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

fn too_large() -> thermocline_types::Error {
    Class::OutOfRange.error("sum out of range for BIGINT")
}
