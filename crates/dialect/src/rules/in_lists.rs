//! `IN` lists with columns.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, not};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::with_expressions;

/// Rewrites `IN (...)` to single comparisons if an item contains a column. DataFusion evaluates the items over no rows
/// to find out whether they are constant, and takes CASE for a constant.
#[derive(Debug)]
pub struct InLists;

impl AnalyzerRule for InLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, one_by_one)
    }

    fn name(&self) -> &str {
        "in_lists"
    }
}

fn one_by_one(expression: &Expr, _: &DFSchema) -> Option<Expr> {
    let Expr::InList(InList { expr, list, negated }) = expression else { return None };
    if !list.iter().any(Expr::any_column_refs) {
        return None;
    }
    let any = list.iter().map(|item| expr.as_ref().clone().eq(item.clone())).reduce(Expr::or)?;
    Some(if *negated { not(any) } else { any })
}
