//! The rule that compares intervals as SQL does.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::interval_length;

use super::expressions::{compares, rewrite_expressions};

/// Compares and sorts intervals by their lengths. Types are coerced before.
#[derive(Debug)]
pub(crate) struct IntervalOrder;

impl AnalyzerRule for IntervalOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                let mut is_changed = false;
                for key in &mut sort.expr {
                    if is_interval(&key.expr, &schema) {
                        key.expr = interval_length(key.expr.clone());
                        is_changed = true;
                    }
                }
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
            }
            node => rewrite_expressions(node, by_length),
        })
        .data()
    }

    fn name(&self) -> &str {
        "interval_order"
    }
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
