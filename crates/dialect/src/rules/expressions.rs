//! Rewriting of expressions with known column types.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Operator};

/// Replaces every expression of a plan, including subqueries, by the result of `rewrite`, unless that is `None`; inner
/// expressions come first. Columns keep their names.
///
/// # Errors
/// If an operator rejects its new expressions.
pub fn with_expressions(plan: LogicalPlan, rewrite: impl Fn(&Expr, &DFSchema) -> Option<Expr>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| rewrite_expressions(node, |part, schema| Ok(rewrite(part, schema)))).data()
}

/// [`with_expressions`] for a single operator.
///
/// # Errors
/// Errors of `rewrite`, and if the operator rejects its new expressions.
pub(super) fn rewrite_expressions(
    node: LogicalPlan,
    rewrite: impl Fn(&Expr, &DFSchema) -> Result<Option<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = columns_of(&node);
    map_named(node, |expression| {
        expression
            .transform_up(|part| Ok(rewrite(&part, &schema)?.map_or_else(|| Transformed::no(part), Transformed::yes)))
    })
}

/// Maps each expression of one operator. Columns keep their names.
///
/// # Errors
/// Errors of `map`, and if the operator rejects its new expressions.
pub(super) fn map_named(
    node: LogicalPlan,
    mut map: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expression| {
        let name = names.save(&expression);
        let mapped = map(expression)?;
        Ok(match mapped.transformed {
            true => mapped.update_data(|expression| name.restore(expression)),
            false => mapped,
        })
    })
}

/// Replaces the keys of a Sort or a DISTINCT ON by the results of `key`, unless they are `None`.
pub(super) fn with_sort_keys(
    mut node: LogicalPlan,
    key: impl Fn(&Expr, &DFSchema) -> Option<Expr>,
) -> Transformed<LogicalPlan> {
    let schema = columns_of(&node);
    let sorts = match &mut node {
        LogicalPlan::Sort(sort) => Some(&mut sort.expr),
        LogicalPlan::Distinct(Distinct::On(distinct)) => distinct.sort_expr.as_mut(),
        _ => None,
    };
    let mut is_changed = false;
    for sort in sorts.into_iter().flatten() {
        if let Some(other) = key(&sort.expr, &schema) {
            sort.expr = other;
            is_changed = true;
        }
    }
    Transformed::new_transformed(node, is_changed)
}

/// All columns of a schema, as expressions.
pub(super) fn all_columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// The schema that the expressions of an operator read.
pub(super) fn columns_of(node: &LogicalPlan) -> DFSchemaRef {
    match node.inputs().as_slice() {
        [] => Arc::clone(node.schema()),
        [input] => Arc::clone(input.schema()),
        inputs => Arc::new(merge_schema(inputs)),
    }
}

/// Whether the operator compares two values.
pub fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
