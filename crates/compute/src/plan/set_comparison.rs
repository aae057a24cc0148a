//! The rule that gives the rows of `ANY` and `ALL` a name of their own.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

/// Qualifier of the subquery's column. It is free in every statement: none can name it.
const QUALIFIER: &str = "__set";

/// Qualifies the column of a subquery behind `ANY` or `ALL`.
///
/// The optimizer compares that column with the outer expression by names. Where both come from the same
/// table, as in `c > ALL (SELECT c FROM t)` over `t`, they would be one column, compared with itself.
#[derive(Debug)]
pub(crate) struct SetComparisonNames;

impl AnalyzerRule for SetComparisonNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| node.map_expressions(|expression| expression.transform_up(qualified)))
            .data()
    }

    fn name(&self) -> &str {
        "set_comparison_names"
    }
}

fn qualified(expression: Expr) -> Result<Transformed<Expr>> {
    match expression {
        Expr::SetComparison(mut comparison) if comparison.subquery.subquery.schema().fields().len() == 1 => {
            let subquery = LogicalPlanBuilder::from(comparison.subquery.subquery.as_ref().clone());
            comparison.subquery.subquery = Arc::new(subquery.alias(QUALIFIER)?.build()?);
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        other => Ok(Transformed::no(other)),
    }
}
