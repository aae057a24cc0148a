//! Filters that hash joins make while a query runs: the range, or the list, of their build keys.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal,
};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

/// A join that has not finished its build side by then is not waited for any longer: a filter can
/// save work, it must not hold up a query.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A filter that somebody above the scan is still making.
#[derive(Debug, Clone)]
pub(super) struct DynamicFilter {
    /// In terms of the table's columns.
    expression: Arc<dyn PhysicalExpr>,
    /// Whether its maker finishes it before it wants the scan's rows. A hash join does; a top-K
    /// finishes when all rows have come, so waiting for it would never end.
    awaited: bool,
}

impl DynamicFilter {
    /// `expression` (over the scan's output columns) as a filter over the table; `None` if it is an
    /// ordinary expression.
    pub(super) fn new(expression: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Option<Self>> {
        if expression.downcast_ref::<DynamicFilterPhysicalExpr>().is_none() {
            return Ok(None);
        }
        let expression = reassign_expr_columns(Arc::clone(expression), table)?;
        Ok(Some(Self { expression, awaited: false }))
    }

    /// The expression, so that its maker can see that somebody uses it.
    pub(super) fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    /// The same, waited for if its maker is among `makers` (ids of expressions).
    pub(super) fn awaited_if(&self, makers: &[u64]) -> Self {
        let awaited = self.expression.expression_id().is_some_and(|id| makers.contains(&id));
        Self { awaited, ..self.clone() }
    }

    /// Waits until the filter is final, if that can be waited for.
    pub(super) async fn ready(&self) {
        if self.awaited
            && let Some(filter) = self.expression.downcast_ref::<DynamicFilterPhysicalExpr>()
            && tokio::time::timeout(WAIT_MAX, filter.wait_complete()).await.is_err()
        {
            tracing::debug!("a join's filter did not come within {WAIT_MAX:?}");
        }
    }
}

/// What the filters say now, as an ordinary predicate over the table's columns: comparisons and
/// lists of values, which prune and travel. `None` if they say nothing of that kind.
pub(super) fn current_predicate(filters: &[DynamicFilter]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut terms = vec![];
    for filter in filters {
        let snapshot = snapshot_physical_expr(Arc::clone(&filter.expression))?;
        terms.extend(split_conjunction(&snapshot).into_iter().filter(|term| is_plain(term)).map(Arc::clone));
    }
    Ok(conjunction_opt(terms))
}

/// Whether a term is made of columns, literals, comparisons and lists only, and is not just TRUE.
fn is_plain(term: &Arc<dyn PhysicalExpr>) -> bool {
    let mut plain = term.downcast_ref::<Literal>().is_none();
    let walked = term.apply(|node| {
        let known = node.downcast_ref::<Column>().is_some()
            || node.downcast_ref::<Literal>().is_some()
            || node.downcast_ref::<BinaryExpr>().is_some()
            || node.downcast_ref::<InListExpr>().is_some()
            || node.downcast_ref::<CastExpr>().is_some();
        plain &= known;
        Ok(if known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    plain && walked.is_ok()
}
