//! The leaves of a fragment: a placeholder while it is described, a stream while it runs.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};

/// The leaf of a described fragment: the needed columns, wherever they will come from.
///
/// It cannot run; [`Fragment::instantiate`](crate::Fragment::instantiate) replaces it.
#[derive(Debug)]
pub struct FragmentInputExec {
    properties: Arc<PlanProperties>,
    /// Statistics of the rows for the compute node's optimizer; they do not travel.
    statistics: Arc<Statistics>,
}

impl FragmentInputExec {
    /// A leaf that will yield batches of `schema`.
    pub fn new(schema: SchemaRef) -> Self {
        let statistics = Statistics::new_unknown(&schema);
        Self::with_statistics(schema, statistics)
    }

    /// A leaf that will yield batches of `schema`, with statistics for the operators above it.
    pub fn with_statistics(schema: SchemaRef, statistics: Statistics) -> Self {
        Self { properties: single_partition(schema), statistics: Arc::new(statistics) }
    }
}

/// A leaf that yields one given stream, once.
pub struct StreamInputExec {
    properties: Arc<PlanProperties>,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl StreamInputExec {
    /// A leaf over `stream`, which the first `execute` takes.
    pub fn new(stream: SendableRecordBatchStream) -> Self {
        Self { properties: single_partition(stream.schema()), stream: Mutex::new(Some(stream)) }
    }
}

impl fmt::Debug for StreamInputExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamInputExec")
    }
}

fn single_partition(schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(
        PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative),
    )
}

macro_rules! leaf {
    ($type:ident, $label:expr, |$leaf:ident| $execute:expr, |$stats_of:ident| $statistics:expr) => {
        impl DisplayAs for $type {
            fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names: Vec<_> = self.schema().fields().iter().map(|f| f.name().clone()).collect();
                write!(f, "{}: columns=[{}]", $label, names.join(", "))
            }
        }

        impl ExecutionPlan for $type {
            fn name(&self) -> &str {
                $label
            }

            fn properties(&self) -> &Arc<PlanProperties> {
                &self.properties
            }

            fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
                vec![]
            }

            fn apply_expressions(
                &self,
                _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
            ) -> Result<TreeNodeRecursion> {
                Ok(TreeNodeRecursion::Continue)
            }

            fn replace_children(
                self: Arc<Self>,
                _: Vec<Arc<dyn ExecutionPlan>>,
                _: ReplaceChildrenOptions,
            ) -> Result<Arc<dyn ExecutionPlan>> {
                Ok(self)
            }

            fn with_new_children(
                self: Arc<Self>,
                children: Vec<Arc<dyn ExecutionPlan>>,
            ) -> Result<Arc<dyn ExecutionPlan>> {
                self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
            }

            fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
                let $leaf = self;
                $execute
            }

            fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
                let $stats_of = self;
                Ok($statistics)
            }
        }
    };
}

leaf!(
    FragmentInputExec,
    "FragmentInput",
    |_leaf| internal_err!("a fragment's input was executed before it was given a partition"),
    |leaf| Arc::clone(&leaf.statistics)
);

leaf!(
    StreamInputExec,
    "StreamInput",
    |leaf| {
        let mut stream = leaf.stream.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match stream.take() {
            Some(stream) => Ok(stream),
            None => internal_err!("a fragment's input stream was executed twice"),
        }
    },
    |leaf| Arc::new(Statistics::new_unknown(&leaf.schema()))
);
