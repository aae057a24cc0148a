//! Expressions for which DataFusion returns wrong results.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, SkipType};
use datafusion::optimizer::AnalyzerRule;

use thermocline_pushdown::{external, sql_type, user_err};
use thermocline_types::{Class, DataType as SqlType};

use super::expressions::columns_of;

/// Rejects expressions that would give wrong rows: correlated subqueries that DataFusion decorrelates to inequivalent
/// joins, and `min` and `max` of nested values, which it cannot order. Also rejects `min` and `max` of UUID and JSONB,
/// as in PostgreSQL 15, and `count` of several arguments, which would count rows without any NULL.
#[derive(Debug)]
pub struct Unsupported;

impl AnalyzerRule for Unsupported {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Subquery(subquery) = node {
                correlated(subquery, Place::Lateral)?;
            }
            node.apply_expressions(|expression| expression.apply(|part| check(part, node)))
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "unsupported"
    }
}

/// Context of a subquery.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In EXISTS, IN, ANY or ALL.
    Condition,
    /// As a value.
    Scalar,
    Lateral,
}

fn check(part: &Expr, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
    match part {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => correlated(subquery, Place::Condition)?,
        Expr::ScalarSubquery(subquery) => correlated(subquery, Place::Scalar)?,
        Expr::AggregateFunction(function) => extreme(function.func.name(), &function.params.args, node)?,
        Expr::WindowFunction(function) => extreme(function.fun.name(), &function.params.args, node)?,
        _ => {}
    }
    Ok(TreeNodeRecursion::Continue)
}

fn extreme(function: &str, args: &[Expr], node: &LogicalPlan) -> Result<()> {
    let has_order = |of: &DataType| match of {
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => false,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            !item.data_type().is_nested()
        }
        _ => true,
    };
    match args {
        [value] if matches!(function, "min" | "max") => match value.get_type(&columns_of(node)) {
            // As in PostgreSQL 15, although both types are ordered.
            Ok(of) => match sql_type(&of) {
                Some(of @ (SqlType::Uuid | SqlType::Jsonb)) => {
                    let message = format!("function {function}({of}) does not exist");
                    Err(external(Class::UndefinedFunction.error(message)))
                }
                None if !has_order(&of) => {
                    user_err!(Unsupported, "{function}({value}): there is no {function} of {of}")
                }
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        },
        [_, _, ..] if function == "count" => {
            let message = format!("function count with {} arguments does not exist", args.len());
            Err(external(Class::UndefinedFunction.error(message)))
        }
        _ => Ok(()),
    }
}

fn correlated(subquery: &Subquery, place: Place) -> Result<()> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(());
    }
    refers_outside(&subquery.subquery, place).map(|_| ())
}

/// Whether the operator or one below it has outer references.
fn refers_outside(node: &LogicalPlan, place: Place) -> Result<bool> {
    let mut below = vec![];
    for input in node.inputs() {
        below.push(refers_outside(input, place)?);
    }
    let is_below = below.contains(&true);
    let is_own = node.expressions().iter().any(Expr::contains_outer);
    let is_total = |node: &LogicalPlan| matches!(node, LogicalPlan::Aggregate(total) if total.group_expr.is_empty());
    match node {
        node if is_below && is_total(node) && place == Place::Condition => user_err!(
            Unsupported,
            "an aggregate without GROUP BY in a correlated subquery of EXISTS, IN, ANY or ALL; compare with a scalar \
             subquery, as in (SELECT count(*) ...) > 0"
        ),
        LogicalPlan::Filter(having) if is_below && is_total(&having.input) && place == Place::Lateral => {
            user_err!(Unsupported, "HAVING without GROUP BY in a correlated LATERAL subquery; filter its rows outside")
        }
        LogicalPlan::Limit(limit) if is_below && !matches!(limit.get_skip_type()?, SkipType::Literal(0)) => {
            user_err!(Unsupported, "OFFSET in a correlated subquery")
        }
        LogicalPlan::Window(_) if is_below => user_err!(Unsupported, "a window function in a correlated subquery"),
        LogicalPlan::Join(join) => {
            let sides = (below.first() == Some(&true), below.get(1) == Some(&true));
            let is_optional = match join.join_type {
                JoinType::Left => sides.1 || is_own,
                JoinType::Right => sides.0 || is_own,
                JoinType::Full => sides.0 || sides.1 || is_own,
                _ => false,
            };
            match is_optional {
                true => {
                    user_err!(Unsupported, "a column from outside on the optional side of an outer join in a subquery")
                }
                false => Ok(is_below || is_own),
            }
        }
        _ => Ok(is_below || is_own),
    }
}
