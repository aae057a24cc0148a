//! Kinds of operators in fragments.

use std::fmt;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::Fragment;

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

impl Fragment {
    /// Kinds of its operators, from its input upwards. A filter that stops after a number of rows is a limit, too.
    pub fn operator_kinds(&self) -> Vec<OperatorKind> {
        let mut kinds = vec![];
        for operator in self.chain().into_iter().rev() {
            let kind = OperatorKind::of(operator.as_ref());
            kinds.extend(kind);
            if kind == Some(OperatorKind::Filter) && operator.fetch().is_some() {
                kinds.push(OperatorKind::Limit);
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::filter::FilterExecBuilder;

    use super::*;

    #[test]
    fn a_filter_with_a_limit_is_both() {
        let columns = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let scan = Fragment::scan(columns);
        assert_eq!(scan.operator_kinds(), []);
        let filter = |fetch| {
            let filter = FilterExecBuilder::new(lit(true), Arc::clone(scan.root())).with_fetch(fetch).build().unwrap();
            scan.with_operator(&(Arc::new(filter) as Arc<dyn ExecutionPlan>)).unwrap()
        };
        assert_eq!(filter(None).operator_kinds(), [OperatorKind::Filter]);
        assert_eq!(filter(Some(5)).operator_kinds(), [OperatorKind::Filter, OperatorKind::Limit]);
    }
}
