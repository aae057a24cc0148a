//! The scan of a row table as an operator of DataFusion's plans.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::TryStreamExt;
use thermocline_transactions::database::TableReader;
use thermocline_transactions::reader::ReadStep;
use tokio::sync::OnceCell;

use super::outbox::Outbox;
use super::snapshot::Registered;
use crate::bridge::{blocking, external};

/// Rows that a partition scans between two transactions: well below a millisecond.
const STEP_ROWS: u32 = 2048;
/// Delay before the next attempt on a busy partition.
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// Scan of a row table as of the query's snapshot.
///
/// It has one output partition for each executor partition. Rows are streamed; pending batches, and old versions of
/// rows that change during the scan, are charged to the query.
#[derive(Debug, Clone)]
pub struct RowScanExec {
    from: Registered,
    rows: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Whether the plan runs repeatedly, as in the recursive part of a query; the first run keeps the rows for the
    /// others.
    repeats: bool,
    kept: Arc<Vec<OnceCell<Vec<RecordBatch>>>>,
}

impl RowScanExec {
    /// A scan of about `rows` rows.
    pub fn new(from: Registered, rows: usize) -> Self {
        let partitions = from.request.outboxes.len();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&from.request.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let kept = Arc::new((0..partitions).map(|_| OnceCell::new()).collect());
        let metrics = ExecutionPlanMetricsSet::new();
        Self { from, rows, properties: Arc::new(properties), metrics, repeats: false, kept }
    }

    /// Reads the rows of a partition; possible once.
    fn read(&self, partition: usize) -> Result<impl futures::Stream<Item = Result<RecordBatch>> + Send + use<>> {
        let outbox = self.from.request.outboxes.get(partition).cloned();
        let outbox = outbox.ok_or_else(|| exec_datafusion_err!("there is no partition {partition} of a row scan"))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let reading = Reading { from: self.from.clone(), partition, outbox, reader: None, begun: false };
        Ok(futures::stream::try_unfold((reading, metrics), |(mut reading, metrics)| async move {
            let batch = reading.next().await?;
            Ok(batch.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (reading, metrics))
            }))
        }))
    }
}

/// State of reading a partition.
struct Reading {
    from: Registered,
    partition: usize,
    outbox: Arc<Outbox>,
    /// `None` before the start, and when all rows are in the outbox.
    reader: Option<TableReader>,
    begun: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.outbox.take() {
                return Ok(Some(batch));
            }
            if !self.begun {
                self.reader = self.from.snapshot.reader(self.from.place, self.partition).await?;
                self.begun = true;
                continue;
            }
            let Some(mut reader) = self.reader.take() else { return Ok(None) };
            let stepped = blocking(move || {
                let step = reader.step(STEP_ROWS);
                (reader, step)
            });
            let (reader, step) = stepped.await?;
            match step.map_err(external)? {
                ReadStep::More => self.reader = Some(reader),
                ReadStep::Busy => {
                    self.reader = Some(reader);
                    tokio::time::sleep(BUSY_WAIT).await;
                }
                ReadStep::Done => {}
            }
        }
    }
}

impl DisplayAs for RowScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.from.request.schema.fields().iter().map(|field| field.name().as_str());
        let columns = columns.collect::<Vec<_>>().join(", ");
        let table = &self.from.request.table;
        // Rows are counted where they are.
        let evicted =
            if table.evictable && !self.from.request.columns.is_empty() { ", may touch evicted rows" } else { "" };
        write!(f, "RowScanExec: table={}, columns=[{columns}]{evicted}", table.name)
    }
}

impl ExecutionPlan for RowScanExec {
    fn name(&self) -> &'static str {
        "RowScanExec"
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

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { repeats: true, ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        if !self.repeats {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, self.read(partition)?)));
        }
        let scan = self.clone();
        let rows = async move {
            let kept = scan.kept.get(partition);
            let kept = kept.ok_or_else(|| exec_datafusion_err!("there is no partition {partition} of a row scan"))?;
            let batches = kept.get_or_try_init(|| async { scan.read(partition)?.try_collect().await }).await?;
            Ok::<_, DataFusionError>(futures::stream::iter(batches.clone().into_iter().map(Ok)))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(rows).try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let partitions = self.from.request.outboxes.len().max(1);
        let rows = if args.partition().is_some() { self.rows / partitions } else { self.rows };
        // Estimated at planning, before the snapshot begins.
        statistics.num_rows = Precision::Inexact(rows);
        Ok(Arc::new(statistics))
    }
}
