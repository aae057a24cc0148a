//! Columns on the left of comparisons.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{compares, with_expressions};

/// Turns `constant < column` into `column > constant`. DataFusion merges conditions on one column, and confuses a
/// constant that occurs on both sides: it simplifies `a = 1 AND 1 = a` to FALSE. Runs after type coercion.
#[derive(Debug)]
pub struct ColumnsFirst;

impl AnalyzerRule for ColumnsFirst {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, turned)
    }

    fn name(&self) -> &str {
        "columns_first"
    }
}

fn turned(expression: &Expr, _: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else { return None };
    let is_constant = |of: &Expr| !of.any_column_refs() && !of.is_volatile();
    let is_turned = compares(*op) && matches!(right.as_ref(), Expr::Column(_)) && is_constant(left);
    let op = op.swap().filter(|_| is_turned)?;
    Some(Expr::BinaryExpr(BinaryExpr::new(right.clone(), op, left.clone())))
}
