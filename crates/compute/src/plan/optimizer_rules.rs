//! DataFusion's optimizer rules, without their defects.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules of the logical optimizer in their order, with ours in the place of those that they wrap.
pub(crate) fn optimizer_rules() -> Vec<Rule> {
    let ours: [Rule; 2] =
        [Arc::new(GroupByConstants(EliminateGroupByConstant::new())), Arc::new(CrossJoins(EliminateCrossJoin::new()))];
    let rules = Optimizer::new().rules.into_iter();
    rules.map(|rule| ours.iter().find(|our| our.name() == rule.name()).cloned().unwrap_or(rule)).collect()
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

/// Joins in the place of cross joins, unless a join takes NULLs for equal: the rule gives all joins of a
/// chain the way of its last one. Such joins are made of conditions only after the rule's first pass, which has
/// found the cross joins by then.
#[derive(Debug)]
struct CrossJoins(EliminateCrossJoin);

impl OptimizerRule for CrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut takes_nulls = false;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Join(join) = node {
                takes_nulls |= join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull;
            }
            Ok(if takes_nulls { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if takes_nulls {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}
