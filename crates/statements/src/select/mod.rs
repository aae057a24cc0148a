//! `SELECT`.
//!
//! ```text
//! walk (plan) -> rows: outputs, sort keys ------------------+-> distinct -> sort -> offset, limit
//!             -> groups: keys, aggregates -> having, outputs +
//! ```
//!
//! Several partitions are walked one after the other, in order, into the same rows or groups, so nothing needs merging
//! and sums of floats are deterministic.

mod aggregate;
mod bind;
mod cost;
mod from;
mod run;
mod sort;

pub(crate) use bind::{bind_select, outputs};
pub(crate) use from::bind_table;
pub(crate) use run::push_outputs;
pub(crate) use sort::SortKey;

use super::bind::Aggregate;
use super::expression::Expr;
use super::plan::{Routing, Step};

/// A planned query.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub steps: Vec<Step>,
    /// Conditions of a query without tables.
    pub filter: Vec<Expr>,
    pub routing: Routing,
    pub group: Option<Group>,
    /// Result columns, then hidden sort keys.
    pub outputs: Vec<Expr>,
    /// Number of outputs in the result.
    pub visible: usize,
    pub distinct: bool,
    pub order: Vec<SortKey>,
    /// Whether the rows of a single partition come in that order.
    pub ordered: bool,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// Whether the result is at most one row, found by key, without further processing.
    pub point: bool,
}

/// `GROUP BY`, or aggregates over all rows.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Expressions over the tables. Outputs and `having` read the values of the keys, then of the aggregates, as
    /// computed values.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
    /// Whether the first row suffices: MIN or MAX of the column that the index sorts by.
    pub first_only: bool,
}
