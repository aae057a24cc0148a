//! Subqueries outside of filters.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_fn::scalar_subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{all_columns, rewrite_expressions};
use super::in_subqueries::as_exists;

/// Rewrites `EXISTS` and `IN (SELECT ...)` in projections to counts, and computes subqueries of aggregates, windows and
/// sorts in a projection below them. DataFusion supports the former in filters only, and scalar subqueries in filters
/// and projections only.
#[derive(Debug)]
pub struct SubqueryValues;

impl AnalyzerRule for SubqueryValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(_) => counted(node),
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => computed_below(node),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "subquery_values"
    }
}

/// Rewrites `EXISTS` and `IN (SELECT ...)` of a projection to counts.
fn counted(projection: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_expressions(projection, |part, schema| match part {
        Expr::InSubquery(of) if of.subquery.subquery.schema().fields().len() == 1 => {
            Ok(Some(with_counts(as_exists(of.clone(), schema)?)?))
        }
        Expr::Exists(_) => Ok(Some(with_counts(part.clone())?)),
        _ => Ok(None),
    })
}

fn with_counts(expression: Expr) -> Result<Expr> {
    let counts = expression.transform_up(|part| match part {
        Expr::Exists(exists) => {
            let rows = LogicalPlanBuilder::from(exists.subquery.subquery.as_ref().clone());
            let rows = rows.aggregate(Vec::<Expr>::new(), [cast(count(lit(1_i64)), DataType::Int64)]);
            let rows = scalar_subquery(Arc::new(rows?.build()?));
            let none = lit(0_i64);
            Ok(Transformed::yes(if exists.negated { rows.eq(none) } else { rows.gt(none) }))
        }
        part => Ok(Transformed::no(part)),
    });
    counts.data()
}

/// Moves the subqueries of an operator with one input to a projection below it.
fn computed_below(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut subqueries = vec![];
    node.apply_expressions(|expression| {
        expression.apply(|part| {
            let is_subquery = subquery_of(part).is_some();
            if is_subquery && !subqueries.contains(part) {
                subqueries.push(part.clone());
            }
            Ok(if is_subquery { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
        })
    })?;
    let inputs = node.inputs();
    let (false, [input]) = (subqueries.is_empty(), inputs.as_slice()) else {
        return Ok(Transformed::no(node));
    };
    let name = |position: usize| format!("__subquery_{position}");
    let computed = subqueries.iter().enumerate().map(|(position, subquery)| subquery.clone().alias(name(position)));
    let below = match input {
        // Sort keys need not be selected.
        LogicalPlan::Projection(projection) if !subqueries.iter().all(|of| knows_outside(input.schema(), of)) => {
            let below = LogicalPlanBuilder::from(projection.input.as_ref().clone());
            below.project(projection.expr.iter().cloned().chain(computed))?.build()?
        }
        _ => LogicalPlanBuilder::from((*input).clone())
            .project(all_columns(input.schema()).into_iter().chain(computed))?
            .build()?,
    };
    let below = counted(below)?.data;
    let visible = all_columns(node.schema());
    let node = rewrite_expressions(node, |part, _| {
        let position = subqueries.iter().position(|subquery| subquery == part);
        Ok(position.map(|position| Expr::Column(Column::from_name(name(position)))))
    })?;
    let expressions = node.data.expressions();
    let node = node.data.with_new_exprs(expressions, vec![below])?;
    // Sorts and windows pass on their input columns, so the added ones are removed.
    let node = match node {
        LogicalPlan::Aggregate(_) => node,
        node => LogicalPlanBuilder::from(node).project(visible)?.build()?,
    };
    Ok(Transformed::yes(node))
}

/// Whether all outer columns of a subquery are present.
fn knows_outside(columns: &DFSchema, of: &Expr) -> bool {
    let is_known = |column: &Expr| match column {
        Expr::OuterReferenceColumn(_, column) => columns.has_column(column),
        _ => true,
    };
    subquery_of(of).is_none_or(|subquery| subquery.outer_ref_columns.iter().all(is_known))
}

fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        _ => None,
    }
}
