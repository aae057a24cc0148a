//! DataFusion's logical optimizer rules, without their defects.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::batch_limits::BatchLimits;
use super::date_bounds::DateBounds;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules of the logical optimizer in order: rules with a defect skip the plans that trigger it, and our rules that
/// need folded constants follow `simplify_expressions`.
pub fn optimizer_rules() -> Vec<Rule> {
    let rules = Optimizer::new().rules.into_iter();
    rules
        .flat_map(|rule| match rule.name() {
            "simplify_expressions" => vec![rule, Arc::new(DateBounds) as Rule, Arc::new(BatchLimits)],
            "eliminate_group_by_constant" => vec![Unless::of(rule, repeats_names)],
            "eliminate_cross_join" => vec![Unless::of(rule, joins_nulls)],
            _ => vec![rule],
        })
        .collect()
}

/// A rule that skips the plans that trigger its defect.
#[derive(Debug)]
struct Unless {
    rule: Rule,
    is_defective: fn(&LogicalPlan) -> Result<bool>,
}

impl Unless {
    fn of(rule: Rule, is_defective: fn(&LogicalPlan) -> Result<bool>) -> Rule {
        Arc::new(Self { rule, is_defective })
    }
}

impl OptimizerRule for Unless {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match (self.is_defective)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Whether two columns of an aggregate have the same name, such as a column and its cast in `GROUP BY x, CAST(x AS
/// DOUBLE)`. The rule that removes redundant keys would fail on the projection that it adds.
#[expect(clippy::unnecessary_wraps, reason = "it is one of two")]
fn repeats_names(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(false) };
    let mut names = HashSet::new();
    let is_repeated = |expression: &Expr| !names.insert(expression.schema_name().to_string());
    Ok(aggregate.group_expr.iter().chain(&aggregate.aggr_expr).any(is_repeated))
}

/// Whether an inner join treats NULLs as equal. The rule that turns cross joins into joins applies the NULL equality of
/// the last join of a chain to all. Joins that treat NULLs as equal arise from conditions only after the first pass of
/// the rule, which has handled the cross joins by then.
fn joins_nulls(plan: &LogicalPlan) -> Result<bool> {
    let mut takes_nulls = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            takes_nulls |= join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull;
        }
        Ok(if takes_nulls { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(takes_nulls)
}
