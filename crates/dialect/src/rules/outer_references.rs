//! Types of outer references in correlated subqueries.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::expressions::columns_of;

/// Updates outer references of correlated subqueries to the current types of their columns. They still have the types
/// from planning, before the branches of a UNION or CASE got a common type.
///
/// # Errors
/// If an operator of a subquery rejects the types.
pub(super) fn with_current_types(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let mut has_subqueries = false;
        node.apply_subqueries(|_| {
            has_subqueries = true;
            Ok(TreeNodeRecursion::Stop)
        })?;
        let node = match has_subqueries {
            true => {
                let schema = columns_of(&node);
                node.map_subqueries(|subquery| refreshed(subquery, &schema))?
            }
            false => Transformed::no(node),
        };
        node.transform_data(lateral)
    })
}

/// Updates a join whose right side may refer to its left side.
fn lateral(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
    if !is_lateral(&join.right) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let outside = join.left.schema();
    let right = Arc::unwrap_or_clone(join.right).transform_down(|node| match node {
        // Nested subqueries have their own outer schema.
        LogicalPlan::Subquery(_) => {
            refreshed(node, outside).map(|node| Transformed::new(node.data, node.transformed, TreeNodeRecursion::Jump))
        }
        node => Ok(Transformed::no(node)),
    })?;
    join.right = Arc::new(right.data);
    let node = LogicalPlan::Join(join);
    Ok(if right.transformed { Transformed::yes(node) } else { Transformed::no(node) })
}

/// Whether a side of a join is a subquery, possibly under an alias.
fn is_lateral(mut side: &LogicalPlan) -> bool {
    loop {
        side = match (side, side.inputs().as_slice()) {
            (LogicalPlan::Subquery(_), _) => return true,
            (_, [input]) => input,
            _ => return false,
        };
    }
}

fn refreshed(node: LogicalPlan, outside: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Subquery(subquery) = node else { return Ok(Transformed::no(node)) };
    let is_current = subquery.outer_ref_columns.iter().all(|column| current(column, outside).is_none());
    if is_current {
        return Ok(Transformed::no(LogicalPlan::Subquery(subquery)));
    }
    let refresh = |part: Expr| {
        Ok(match current(&part, outside) {
            Some(part) => Transformed::yes(part),
            None => Transformed::no(part),
        })
    };
    let outer_ref_columns = subquery.outer_ref_columns.into_iter().map(|column| Ok(refresh(column)?.data));
    let outer_ref_columns = outer_ref_columns.collect::<Result<_>>()?;
    let plan = Arc::unwrap_or_clone(subquery.subquery).transform_down_up(
        |node| match node {
            LogicalPlan::Subquery(_) => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
            node => Ok(Transformed::no(node)),
        },
        |node| match node {
            LogicalPlan::Subquery(_) => Ok(Transformed::no(node)),
            node => {
                let node = node.map_expressions(|expression| expression.transform_up(refresh))?;
                node.map_data(LogicalPlan::recompute_schema)
            }
        },
    )?;
    let subquery = Subquery { subquery: Arc::new(plan.data), outer_ref_columns, spans: subquery.spans };
    Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
}

/// The reference with the current type of its column; `None` if nothing changes, or it is not a reference.
fn current(expression: &Expr, outside: &DFSchema) -> Option<Expr> {
    let Expr::OuterReferenceColumn(field, column) = expression else { return None };
    let now = outside.field_from_column(column).ok()?;
    (now.data_type() != field.data_type()).then(|| Expr::OuterReferenceColumn(Arc::clone(now), column.clone()))
}
