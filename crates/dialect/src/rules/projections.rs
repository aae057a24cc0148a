//! Projection pushdown and filters.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, remove_unnecessary_projections, try_embed_projection};

/// Pushes projections down, but no computations below a filter: they would apply to rows that the filter removes, and
/// `SELECT id, a / (b + id) ... WHERE b > 0` would fail with a division by zero.
///
/// DataFusion's rule does that. It still runs where nothing is computed above a filter; among others, it moves parts of
/// join filters out of nested loops.
#[derive(Debug)]
pub(super) struct Projections(pub(super) ProjectionPushdown);

impl PhysicalOptimizerRule for Projections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut has_filters, mut computes) = (false, false);
        plan.apply(|node| {
            has_filters |= node.is::<FilterExec>();
            computes |= node.downcast_ref::<ProjectionExec>().is_some_and(is_computed);
            Ok(TreeNodeRecursion::Continue)
        })?;
        match has_filters && computes {
            true => plan.transform_down(pushed).data(),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn pushed(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
        && let Some(filter) = projection.input().downcast_ref::<FilterExec>()
        && is_computed(projection)
    {
        let embedded = try_embed_projection(projection, filter)?;
        return Ok(embedded.map_or_else(|| Transformed::no(Arc::clone(&plan)), Transformed::yes));
    }
    remove_unnecessary_projections(plan)
}

/// Whether it computes anything.
fn is_computed(projection: &ProjectionExec) -> bool {
    projection.expr().iter().any(|part| !part.expr.is::<Column>())
}
