//! Join order.

use std::sync::Arc;

use thermocline_tables::schema::TableDefinition;
use thermocline_types::{Error, Result};

use super::access::{Access, Choice, OrderColumn, choose};
use super::{Needs, Step, conjuncts};
use crate::expression::Expr;

/// A table of FROM, in written order; its position is its slot.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub table: Arc<TableDefinition>,
    /// `LEFT JOIN`.
    pub outer: bool,
    /// The conjuncts of ON.
    pub on: Vec<Expr>,
}

/// The steps of a nested loop.
#[derive(Debug, Clone)]
pub(crate) struct JoinPlan {
    pub steps: Vec<Step>,
    /// Whether rows come in the wanted order.
    pub ordered: bool,
}

/// Finds a join order in which an index finds every table but the first. `order` is the wanted order: columns of one
/// slot.
pub(crate) fn plan_joins(
    tables: &[Joined],
    condition: Option<Expr>,
    order: Option<(usize, &[OrderColumn])>,
) -> Result<JoinPlan> {
    let filters: Vec<Expr> = condition.map(conjuncts).unwrap_or_default();
    if tables.iter().any(|table| table.outer) {
        let sequence: Vec<usize> = (0..tables.len()).collect();
        return in_sequence(tables, &filters, &sequence, order);
    }
    // For inner joins, ON is equivalent to WHERE.
    let filters: Vec<Expr> = tables.iter().flat_map(|table| table.on.iter().cloned()).chain(filters).collect();
    let bare: Vec<Joined> = tables.iter().map(|table| Joined { on: Vec::new(), ..table.clone() }).collect();
    let of_slot = |slot: usize| order.filter(|(of, _)| *of == slot).map(|(_, columns)| columns);
    let mut starts: Vec<(u32, usize)> = bare
        .iter()
        .enumerate()
        .map(|(slot, table)| (choose(&table.table, slot, &filters, 0, of_slot(slot)).score, slot))
        .collect();
    starts.sort_by_key(|(score, slot)| (std::cmp::Reverse(*score), *slot));
    let mut failure = None;
    for (_, start) in starts {
        match in_sequence(&bare, &filters, &greedy(&bare, &filters, start), order) {
            Ok(plan) => return Ok(plan),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(JoinPlan { steps: Vec::new(), ordered: true }),
        Some(error) => Err(error),
    }
}

/// Greedy join order: from `start`, next is always the table with the best access path.
fn greedy(tables: &[Joined], filters: &[Expr], start: usize) -> Vec<usize> {
    let mut sequence = vec![start];
    let mut known: u32 = 1 << start;
    while sequence.len() < tables.len() {
        let rest = tables.iter().enumerate().filter(|(slot, _)| known >> slot & 1 == 0);
        let best = rest
            .map(|(slot, table)| (choose(&table.table, slot, filters, known, None).score, slot))
            .max_by_key(|(score, slot)| (*score, std::cmp::Reverse(*slot)));
        let Some((_, slot)) = best else { break };
        sequence.push(slot);
        known |= 1 << slot;
    }
    sequence
}

fn in_sequence(
    tables: &[Joined],
    filters: &[Expr],
    sequence: &[usize],
    order: Option<(usize, &[OrderColumn])>,
) -> Result<JoinPlan> {
    let mut steps = Vec::with_capacity(sequence.len());
    let mut placed = vec![false; filters.len()];
    let mut known: u32 = 0;
    let mut ordered = order.is_none_or(|(_, columns)| columns.is_empty());
    for &slot in sequence {
        let Some(joined) = tables.get(slot) else { continue };
        let now_known = known | 1 << slot;
        // Match conditions: ON, and for inner joins the terms of WHERE that can be evaluated by now.
        let mut on = joined.on.clone();
        let mut behind = Vec::new();
        for (filter, placed) in filters.iter().zip(&mut placed) {
            if !*placed && filter.slots() & !now_known == 0 {
                *placed = true;
                if joined.outer { behind.push(filter.clone()) } else { on.push(filter.clone()) }
            }
        }
        let wanted = match order {
            Some((of, columns)) if of == slot && steps.is_empty() => Some(columns),
            _ => None,
        };
        let Choice { access, used, ordered: in_order, .. } = choose(&joined.table, slot, &on, known, wanted);
        if access == Access::Scan && !steps.is_empty() {
            return Err(Error::unsupported(format_args!("a join without an index on table \"{}\"", joined.table.name)));
        }
        if wanted.is_some() && in_order {
            ordered = true;
        }
        let mut position = 0;
        on.retain(|_| {
            position += 1;
            !used.contains(&(position - 1))
        });
        let table = Arc::clone(&joined.table);
        steps.push(Step { slot, table, access, outer: joined.outer, on, filter: behind, needs: Needs::Row });
        known = now_known;
    }
    Ok(JoinPlan { steps, ordered })
}
