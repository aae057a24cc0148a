//! Sizes of batches between the operators of a plan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use crate::scan::with_batches_of;

/// A plan whose operators gather no more than `rows` rows in a batch, and its context. Operators count the rows of a
/// batch and not their bytes, and what they gather is charged to nobody: with long rows it has to be few.
pub(super) fn in_batches_of(
    rows: usize,
    plan: Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    // The others ask the context.
    let filters = plan.transform_up(|node| match node.downcast_ref::<FilterExec>() {
        Some(filter) => Ok(Transformed::yes(Arc::new(filter.with_batch_size(rows)?) as Arc<dyn ExecutionPlan>)),
        None => Ok(Transformed::no(node)),
    });
    Ok((filters.data()?, with_batches_of(rows, context)))
}
