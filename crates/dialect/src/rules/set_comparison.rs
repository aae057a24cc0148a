//! Unique column names for subqueries of `ANY` and `ALL`.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

/// Name of the subquery's column, which no statement can use.
const NAME: &str = "__item";

/// Renames the column of a subquery behind `ANY` or `ALL`.
///
/// The optimizer refers to that column and the outer expression by name. If both come from the same table, as in `c >
/// ALL (SELECT c FROM t)` over `t`, it would compare the column with itself.
#[derive(Debug)]
pub struct SetComparisonNames;

impl AnalyzerRule for SetComparisonNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| node.map_expressions(|expression| expression.transform_up(named)))
            .data()
    }

    fn name(&self) -> &str {
        "set_comparison_names"
    }
}

fn named(expression: Expr) -> Result<Transformed<Expr>> {
    match expression {
        Expr::SetComparison(mut comparison) if comparison.subquery.subquery.schema().fields().len() == 1 => {
            comparison.subquery.subquery = Arc::new(with_own_name(&comparison.subquery.subquery)?.build()?);
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The rows of a subquery of one column under [`NAME`]. A subquery alias is no alternative: the optimizer fails on an
/// alias that hides a correlation.
pub(super) fn with_own_name(subquery: &LogicalPlan) -> Result<LogicalPlanBuilder> {
    let column = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    LogicalPlanBuilder::from(subquery.clone()).project([column.alias(NAME)])
}
