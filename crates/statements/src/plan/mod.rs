//! Planning: access paths, join order, and partitions.

mod access;
mod ahead;
mod explain;
mod join;
mod key;
mod needs;
mod participants;
mod point;
mod spans;
mod terms;
mod union;
mod walk;

use std::sync::Arc;

use thermocline_tables::schema::TableDefinition;

use super::expression::Expr;

pub(crate) use access::{Access, Bounds, KeyPart, KeyRange, OrderColumn, PartValues};
pub(crate) use ahead::read_ahead;
pub(crate) use explain::{Work, explain_steps};
pub(crate) use join::{Joined, plan_joins};
pub(crate) use needs::{Needs, note_needs};
pub(crate) use participants::{PartitionKey, Routing};
pub(crate) use point::Points;
pub(crate) use walk::{Loop, all_hold, find_rows, find_rows_by_block, walk};

/// One table of a nested loop.
///
/// ```text
/// row of the steps before -> access: key or range of an index, or all -> on -> filter -> next step
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Slot of its rows in the frame.
    pub slot: usize,
    pub table: Arc<TableDefinition>,
    pub access: Access,
    /// `LEFT JOIN`: without a match, one row of NULLs.
    pub outer: bool,
    /// Match conditions.
    pub on: Vec<Expr>,
    /// Conditions behind an outer join, which also apply to the row of NULLs.
    pub filter: Vec<Expr>,
    /// What the statement needs of its rows.
    pub needs: Needs,
}

/// The top-level conjuncts of a condition.
pub fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::And(terms) => terms.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}
