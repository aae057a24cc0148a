//! INTERSECT ALL and EXCEPT ALL.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::all_columns;

/// Respects the multiplicity of rows in INTERSECT ALL and EXCEPT ALL by numbering equal rows. DataFusion only checks
/// whether a row exists on the right side.
#[derive(Debug)]
pub struct SetCounts;

/// The column with the number of a row among equal rows.
const COPY: &str = "thermocline_copy";

impl AnalyzerRule for SetCounts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_multiset(&join) => Ok(Transformed::yes(counted(join)?)),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "set_counts"
    }
}

/// Whether the join is INTERSECT or EXCEPT: during planning, no other join treats NULL keys as equal.
pub(super) fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
}

/// The join with other sides.
pub(super) fn rejoined(join: Join, left: Arc<LogicalPlan>, right: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let Join { on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let joined = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    Ok(LogicalPlan::Join(joined))
}

/// Whether the join is a set operation with ALL; without ALL, its left side is distinct.
fn is_multiset(join: &Join) -> bool {
    is_set_operation(join) && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn counted(mut join: Join) -> Result<LogicalPlan> {
    let columns = all_columns(join.left.schema());
    let (left, left_copy) = numbered(&join.left)?;
    let (right, right_copy) = numbered(&join.right)?;
    join.on.push((left_copy, right_copy));
    LogicalPlanBuilder::from(rejoined(join, left, right)?).project(columns)?.build()
}

/// A side with the number of each row among equal rows.
fn numbered(side: &Arc<LogicalPlan>) -> Result<(Arc<LogicalPlan>, Expr)> {
    let copy = row_number().partition_by(all_columns(side.schema())).build()?.alias(COPY);
    let numbered = LogicalPlanBuilder::from(Arc::clone(side)).window([copy])?.build()?;
    Ok((Arc::new(numbered), Expr::Column(Column::from_name(COPY))))
}
