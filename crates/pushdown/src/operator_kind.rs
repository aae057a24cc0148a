//! Kinds of operators in fragments.

use std::fmt;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// A kind of operator that a fragment may hold above its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperatorKind {
    /// Keeps the rows that pass a predicate, and of their columns those that are needed above it.
    Filter,
    /// Computes columns.
    Projection,
    /// Aggregates into states, which a final aggregate merges.
    PartialAggregate,
    /// Keeps the first rows of an order.
    TopK,
    /// Stops after a number of rows.
    Limit,
}

impl OperatorKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Filter, Self::Projection, Self::PartialAggregate, Self::TopK, Self::Limit];

    /// The kind of `operator`; `None` for one that is never part of a fragment, and for its input.
    pub fn of(operator: &dyn ExecutionPlan) -> Option<Self> {
        let is_limit = || {
            operator.downcast_ref::<LocalLimitExec>().is_some() || operator.downcast_ref::<GlobalLimitExec>().is_some()
        };
        Some(match () {
            () if operator.downcast_ref::<FilterExec>().is_some() => Self::Filter,
            () if operator.downcast_ref::<ProjectionExec>().is_some() => Self::Projection,
            () if operator.downcast_ref::<AggregateExec>().is_some() => Self::PartialAggregate,
            () if operator.downcast_ref::<SortExec>().is_some() => Self::TopK,
            () if is_limit() => Self::Limit,
            () => return None,
        })
    }
}

/// As in "runs no filters", in the singular.
impl fmt::Display for OperatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::Projection => "projection",
            Self::PartialAggregate => "partial aggregate",
            Self::TopK => "top-K",
            Self::Limit => "limit",
        })
    }
}
