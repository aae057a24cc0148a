//! Groups by expressions of one name.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rules, without its defects.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let theirs = EliminateGroupByConstant::new();
    let rules = Optimizer::new().rules.into_iter();
    let rules = rules.map(|rule| match rule.name() == theirs.name() {
        true => Arc::new(GroupByConstants(EliminateGroupByConstant::new())) as _,
        false => rule,
    });
    rules.collect()
}

/// Leaves keys out of a group that follow from others, unless two have one name. The rule's projection would
/// then have two columns of that name and fail: a cast is called as what it casts, as in
/// `GROUP BY x, CAST(x AS DOUBLE)`.
#[derive(Debug)]
struct GroupByConstants(EliminateGroupByConstant);

impl OptimizerRule for GroupByConstants {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan {
            let mut names = HashSet::new();
            let is_repeated = |expression: &Expr| !names.insert(expression.schema_name().to_string());
            if aggregate.group_expr.iter().chain(&aggregate.aggr_expr).any(is_repeated) {
                return Ok(Transformed::no(plan));
            }
        }
        self.0.rewrite(plan, config)
    }
}
