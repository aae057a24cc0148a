//! The operator below the build side of a nested loop join.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, plan_err, resources_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

/// Starts its input anew when it is executed a second time.
///
/// A nested loop join whose build side does not fit in memory executes that side again, to write it to
/// disk. Operators that hand out their rows once (a scan's partitions, a repartition's channels) have
/// none left then, and some panic; a copy of the plan in its first state has.
///
/// Of all joins but inner ones the second run is refused. Every partition of the probe side then decides
/// by itself which rows of the build side have found no match, and DataFusion 55 was seen to lose rows of
/// a RIGHT SEMI join as well.
#[derive(Debug)]
pub struct RestartableExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether a second run gives a right result.
    restarts: bool,
    /// Set by the first run.
    has_run: AtomicBool,
}

impl RestartableExec {
    /// Puts the operator below the build sides of all nested loop joins in `plan`.
    ///
    /// # Errors
    /// If a join does not take it as its input.
    pub(crate) fn below_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
            let restarts = *join.join_type() == JoinType::Inner;
            let left = Arc::new(Self { input: left, restarts, has_run: AtomicBool::new(false) });
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(vec![left, right], options)?))
        })
        .data()
    }
}

impl DisplayAs for RestartableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RestartableExec")
    }
}

impl ExecutionPlan for RestartableExec {
    fn name(&self) -> &str {
        "RestartableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self { input, restarts: self.restarts, has_run: AtomicBool::new(false) })),
            Err(children) => plan_err!("RestartableExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // The join takes one partition, so a second call is a second run.
        if !self.has_run.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        if !self.restarts {
            return resources_err!(
                "the smaller side of a join without an equality does not fit in memory: raise query_memory_limit"
            );
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, context)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            inputs => plan_err!("RestartableExec has one input, not {}", inputs.len()),
        }
    }
}
