//! Computed keys of correlated subqueries with aggregates.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::all_columns;

/// Makes a column of an expression that a correlated subquery with aggregates compares with an outer value, as in
/// `(SELECT max(v) FROM y WHERE CAST(y.n AS DOUBLE) = x.d)`. To join the subquery, DataFusion groups it by the columns
/// of the condition: by `y.n`, of which several values may be the same DOUBLE and yield several rows. Expressions other
/// than casts it cannot join at all.
#[derive(Debug)]
pub struct CorrelatedKeys;

impl AnalyzerRule for CorrelatedKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| node.map_subqueries(with_keys)).data()
    }

    fn name(&self) -> &str {
        "correlated_keys"
    }
}

fn with_keys(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Subquery(subquery) = node else { return Ok(Transformed::no(node)) };
    if subquery.outer_ref_columns.is_empty()
        || !subquery.subquery.exists(|node| Ok(matches!(node, LogicalPlan::Aggregate(_))))?
    {
        return Ok(Transformed::no(LogicalPlan::Subquery(subquery)));
    }
    let keyed = subquery.subquery.as_ref().clone().transform_up(|node| match node {
        LogicalPlan::Filter(filter) => keyed(filter),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(keyed.update_data(|plan| LogicalPlan::Subquery(subquery.with_plan(Arc::new(plan)))))
}

/// Puts the keys into a projection below the filter, and a projection of the original columns above it.
fn keyed(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let columns = all_columns(filter.input.schema());
    let mut keys = vec![];
    let mut key_of = |side: Box<Expr>, outside: &Expr| {
        let is_key = !matches!(*side, Expr::Column(_))
            && side.any_column_refs()
            && !side.contains_outer()
            && !side.is_volatile()
            && outside.contains_outer()
            && !outside.any_column_refs();
        if !is_key {
            return side;
        }
        let name = format!("__correlated_key_{}", keys.len());
        keys.push(side.alias(name.clone()));
        Box::new(Expr::Column(Column::from_name(name)))
    };
    let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter().map(|condition| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let left = key_of(left, &right);
            let right = key_of(right, &left);
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
        }
        condition => condition,
    });
    let conditions: Vec<_> = conditions.collect();
    let Some(condition) = conjunction(conditions).filter(|_| !keys.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let below = Arc::unwrap_or_clone(filter.input);
    let plan = LogicalPlanBuilder::from(below)
        .project(columns.iter().cloned().chain(keys))?
        .filter(condition)?
        .project(columns)?
        .build()?;
    Ok(Transformed::yes(plan))
}
