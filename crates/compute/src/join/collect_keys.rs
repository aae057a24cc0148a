//! The operator below a join's build side.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use thermocline_pushdown::hash_keys;

use super::BuildKeys;
use super::build_keys::{Collected, SET_BYTES_MAX};

/// Rows between two checks for too many keys.
const CHECK_ROWS: usize = 256 << 10;

/// Passes the build side's rows through and collects their keys for the scans of the probe side
/// (PushdownDB section V-A; Enhancing Computation Pushdown section 5.1).
///
/// ```text
///   HashJoin
///     CollectKeys ---> Bloom filter - - -+
///       build side                       |
///     probe side                         v
///       HybridScan [FragmentInput -> Filter(bloom(key)) -> ...]
/// ```
#[derive(Debug)]
pub struct CollectKeysExec {
    input: Arc<dyn ExecutionPlan>,
    /// The join's keys in terms of the input's columns.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    collected: Arc<BuildKeys>,
}

impl CollectKeysExec {
    /// Collects `keys` of the rows of `input`.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        collected: Arc<BuildKeys>,
    ) -> Self {
        Self { input, keys, collected }
    }
}

impl DisplayAs for CollectKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|key| key.to_string()).collect();
        write!(f, "CollectKeysExec: keys=[{}]", keys.join(", "))
    }
}

impl ExecutionPlan for CollectKeysExec {
    fn name(&self) -> &str {
        "CollectKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in &self.keys {
            if f(key)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
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
            Ok([input]) => Ok(Arc::new(Self::new(input, self.keys.clone(), Arc::clone(&self.collected)))),
            Err(children) => plan_err!("CollectKeysExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The scans of the probe side hold the same keys.
        self.collected.reset();
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new(format!("CollectKeys[{partition}]")).register(context.memory_pool());
        let collecting = Collecting::new(self.keys.clone(), Arc::clone(&self.collected), memory);
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let rows = stream::unfold(Some((input, collecting)), |state| async move {
            let (mut input, mut collecting) = state?;
            match input.next().await {
                Some(Ok(batch)) => match collecting.add(&batch) {
                    Ok(()) => Some((Ok(batch), Some((input, collecting)))),
                    Err(error) => Some((Err(error), None)),
                },
                Some(Err(error)) => Some((Err(error), None)),
                None => {
                    collecting.finish();
                    None
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            inputs => plan_err!("CollectKeysExec has one input, not {}", inputs.len()),
        }
    }
}

/// One partition's keys so far.
struct Collecting {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    collected: Arc<BuildKeys>,
    so_far: Collected,
    rows_unchecked: usize,
    memory: MemoryReservation,
}

impl Collecting {
    fn new(keys: Vec<Arc<dyn PhysicalExpr>>, collected: Arc<BuildKeys>, memory: MemoryReservation) -> Self {
        let mut so_far = collected.empty();
        so_far.filter = so_far.filter.filter(|filter| memory.try_grow(filter.bytes()).is_ok());
        Self { keys, collected, so_far, rows_unchecked: 0, memory }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.so_far.filter.is_none() && self.so_far.set.is_none() {
            return Ok(());
        }
        let rows = batch.num_rows();
        let columns: Vec<ArrayRef> =
            self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
        self.add_to_set(&columns);
        self.add_to_filter(&columns, rows)
    }

    fn add_to_set(&mut self, columns: &[ArrayRef]) {
        let Some(mut set) = self.so_far.set.take() else {
            return;
        };
        let before = set.bytes();
        let holds = matches!(columns, [column] if set.insert(column, SET_BYTES_MAX));
        if holds && self.memory.try_grow(set.bytes() - before).is_ok() {
            self.so_far.set = Some(set);
        } else {
            self.memory.shrink(before);
        }
    }

    fn add_to_filter(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let Some(filter) = &mut self.so_far.filter else {
            return Ok(());
        };
        let (hashes, keyed) = hash_keys(columns, rows)?;
        match keyed {
            None => hashes.iter().for_each(|hash| filter.insert(*hash)),
            Some(keyed) => {
                hashes.iter().zip(keyed.iter()).filter(|(_, keyed)| *keyed).for_each(|(hash, _)| filter.insert(*hash));
            }
        }
        self.rows_unchecked += rows;
        if self.rows_unchecked >= CHECK_ROWS {
            self.rows_unchecked = 0;
            if self.collected.overflows(filter) {
                self.memory.shrink(filter.bytes());
                self.so_far.filter = None;
            }
        }
        Ok(())
    }

    fn finish(mut self) {
        self.collected.finished(std::mem::take(&mut self.so_far));
    }
}
