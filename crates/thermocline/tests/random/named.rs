//! Columns as queries name them, and literals to compare them with.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::literals::beside;
use super::schema::Table;
use super::values::{Kind, Value};

/// A column that a query may name.
pub struct Named<'a> {
    table: &'a Table,
    position: usize,
    pub sql: String,
    pub kind: &'a Kind,
}

/// All columns of a table.
pub fn columns(table: &Table) -> Vec<Named<'_>> {
    let named = table.columns.iter().zip(&table.definition.kinds).enumerate();
    named
        .map(|(position, (column, kind))| Named {
            table,
            position,
            sql: format!("{}.{}", table.name, column.name),
            kind,
        })
        .collect()
}

impl Named<'_> {
    /// A literal of the column's type: one of its values, or one near such a value.
    pub fn literal(&self, rng: &mut StdRng) -> Option<String> {
        let rows: Vec<_> = self.table.objects.iter().flat_map(|object| &object.rows).collect();
        for _ in 0..5 {
            let Some(row) = rows.choose(rng) else { break };
            let value = self.table.seen(self.position, &row[self.position]);
            let value = match (value, self.kind) {
                (Value::Null, _) => continue,
                (Value::Int(value), Kind::Int { bits, signed }) if rng.random_bool(0.3) => {
                    let (low, high) = match signed {
                        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                        false => (0, (1i128 << bits) - 1),
                    };
                    Value::Int((value + rng.random_range(-2..3)).clamp(low, high))
                }
                (Value::Int(value), Kind::Date) if rng.random_bool(0.3) => Value::Int(value + rng.random_range(-3..4)),
                (value, _) => value,
            };
            if let Some(literal) = self.kind.literal(&value) {
                return Some(literal);
            }
        }
        match self.kind {
            Kind::Text => Some("'nothing'".into()),
            Kind::Bool => Some("true".into()),
            Kind::Float { .. } => Some("CAST('NaN' AS DOUBLE)".into()),
            Kind::Int { .. } => Some("7".into()),
            _ => None,
        }
    }

    /// A literal to compare the column with, perhaps in a `list`: one of its type, or one that it cannot hold.
    pub fn operand(&self, rng: &mut StdRng, list: bool) -> Option<String> {
        if rng.random_bool(0.75) {
            return self.literal(rng);
        }
        let rows: Vec<_> = self.table.objects.iter().flat_map(|object| &object.rows).collect();
        let row = rows.choose(rng)?;
        let value = self.table.seen(self.position, &row[self.position]);
        beside(rng, self.kind, &value, list, self.table.traits.extremes).or_else(|| self.literal(rng))
    }

    /// Whether both engines compare the columns' values exactly.
    pub fn is_comparable(&self, other: &Named<'_>) -> bool {
        let extremes = self.table.traits.extremes || other.table.traits.extremes;
        match (self.kind, other.kind) {
            (a, b) if a == b => true,
            (Kind::Int { .. }, Kind::Int { .. }) | (Kind::Float { .. }, Kind::Float { .. }) => true,
            (Kind::Int { bits: 8..=32, .. }, Kind::Float { bits: 64 })
            | (Kind::Float { bits: 64 }, Kind::Int { bits: 8..=32, .. }) => true,
            (Kind::Decimal { precision: 0..=18, .. }, Kind::Decimal { precision: 0..=18, .. } | Kind::Int { .. }) => {
                true
            }
            (Kind::Date, Kind::Timestamp { nanos, zone: false })
            | (Kind::Timestamp { nanos, zone: false }, Kind::Date) => !nanos || !extremes,
            (Kind::Timestamp { zone: a, .. }, Kind::Timestamp { zone: b, .. }) => a == b && !extremes,
            _ => false,
        }
    }
}

/// One of them.
pub fn pick<'a, T>(rng: &mut StdRng, from: &'a [T]) -> &'a T {
    from.choose(rng).expect("something to choose from")
}

/// The columns of ordered types.
pub fn flat<'a, 'b>(columns: &'b [Named<'a>]) -> Vec<&'b Named<'a>> {
    columns.iter().filter(|column| !column.kind.is_nested()).collect()
}
