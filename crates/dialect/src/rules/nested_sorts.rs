//! Top-k sorts by nested keys.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Sorts all rows by a nested key before it applies the limit. DataFusion's sort with a limit skips rows behind its
/// current last row by an order in which NULL is the smallest value of a field.
#[derive(Debug)]
pub struct NestedSorts;

impl PhysicalOptimizerRule for NestedSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some((sort, fetch)) = node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)))
            else {
                return Ok(Transformed::no(node));
            };
            let schema = sort.input().schema();
            let is_nested = sort.expr().iter().any(|key| key.expr.data_type(&schema).is_ok_and(|of| of.is_nested()));
            if !is_nested {
                return Ok(Transformed::no(node));
            }
            let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()));
            let all: Arc<dyn ExecutionPlan> = Arc::new(all.with_preserve_partitioning(sort.preserve_partitioning()));
            Ok(Transformed::yes(match all.output_partitioning().partition_count() {
                1 => Arc::new(GlobalLimitExec::new(all, 0, Some(fetch))),
                _ => Arc::new(LocalLimitExec::new(all, fetch)) as Arc<dyn ExecutionPlan>,
            }))
        })
        .data()
    }

    fn name(&self) -> &str {
        "nested_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
