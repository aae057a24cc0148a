//! `SELECT`.
//!
//! ```text
//! walk (plan) -> rows: outputs, sort keys ------------------+-> distinct -> sort -> offset, limit
//!             -> groups: keys, aggregates -> having, outputs +
//! ```
//!
//! Over several partitions the walks follow each other into the same rows or groups, in the order of
//! the partitions, so that there is nothing to merge and sums of floats are always the same.

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
    /// What must hold where there is no table.
    pub filter: Vec<Expr>,
    pub routing: Routing,
    pub group: Option<Group>,
    /// Values of a row of the result, then those that only sort it.
    pub outputs: Vec<Expr>,
    /// How many of the outputs are in the result.
    pub visible: usize,
    pub distinct: bool,
    pub order: Vec<SortKey>,
    /// Whether one partition's rows come in that order.
    pub ordered: bool,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// Whether it is at most one row, found by its key, whose values are the result.
    pub point: bool,
}

/// `GROUP BY`, or aggregates over all rows.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Over the frame of the tables. Outputs and `having` see their values, and behind them those of the
    /// aggregates, as computed values.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
    /// Whether the first row decides: MIN or MAX of what the index sorts by.
    pub first_only: bool,
}
