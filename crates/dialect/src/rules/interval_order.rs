//! Comparison of intervals.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::interval_length;

use super::expressions::{compares, rewrite_expressions, with_sort_keys};

/// Compares and sorts intervals by their lengths. Runs after type coercion.
#[derive(Debug)]
pub struct IntervalOrder;

impl AnalyzerRule for IntervalOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            node @ (LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_))) => {
                let rewritten = rewrite_expressions(node, by_length)?;
                let is_rewritten = rewritten.transformed;
                let sorted = with_sort_keys(rewritten.data, sort_key);
                Ok(Transformed::new_transformed(sorted.data, is_rewritten || sorted.transformed))
            }
            node => rewrite_expressions(node, by_length),
        })
        .data()
    }

    fn name(&self) -> &str {
        "interval_order"
    }
}

fn sort_key(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    is_interval(of, schema).then(|| interval_length(of.clone()))
}

fn by_length(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let boxed = |of: &Expr| Box::new(interval_length(of.clone()));
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && is_interval(left, schema) && is_interval(right, schema) =>
        {
            Some(Expr::BinaryExpr(BinaryExpr::new(boxed(left), *op, boxed(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_interval(expr, schema) => {
            Some(Expr::Between(Between::new(boxed(expr), *negated, boxed(low), boxed(high))))
        }
        Expr::InList(InList { expr, list, negated }) if is_interval(expr, schema) => {
            let list = list.iter().cloned().map(interval_length).collect();
            Some(Expr::InList(InList::new(boxed(expr), list, *negated)))
        }
        _ => None,
    })
}

fn is_interval(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| of == DataType::Interval(IntervalUnit::MonthDayNano))
}
