//! Projections that compute texts, some rows at a time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

/// Bytes of texts that a projection computes at a time, about.
const SLICE_BYTES: usize = 1 << 20;
/// Rows of the first slice, when it is not known yet how long texts become.
const FIRST_ROWS: usize = 1;
/// Growth of a slice over the one before.
const GROWTH_MAX: usize = 8;

/// The plan with projections that compute texts, or other values of variable length, for about a mebibyte at a time.
///
/// ```text
/// batches --Slices--> some rows --projection--> about a mebibyte --Measured-->
///             ^                                                        |
///             +----------------- rows of the next slice ---------------+
/// ```
///
/// The rows of a batch say nothing of the bytes that are made of them: `repeat('x', 100000)` makes 800 MB of 8192
/// numbers. For loads into row tables, which take the rows one by one.
///
/// # Errors
/// If a projection cannot be built again.
pub(super) fn in_slices(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(projection) = node.downcast_ref::<ProjectionExec>().filter(|projection| makes_texts(projection))
        else {
            return Ok(Transformed::no(node));
        };
        let partitions = projection.input().output_partitioning().partition_count();
        let rows: Arc<[AtomicUsize]> = (0..partitions).map(|_| AtomicUsize::new(FIRST_ROWS)).collect();
        let input = SlicesExec { input: Arc::clone(projection.input()), rows: Arc::clone(&rows), role: Role::Slices };
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let input = Arc::clone(&node).replace_children(vec![Arc::new(input)], options)?;
        Ok(Transformed::yes(Arc::new(SlicesExec { input, rows, role: Role::Measures }) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// Whether it computes values of variable length.
fn makes_texts(projection: &ProjectionExec) -> bool {
    let schema = projection.schema();
    let made = projection.expr().iter().zip(schema.fields());
    made.into_iter().any(|(part, field)| {
        !part.expr.is::<Column>() && !field.data_type().is_primitive() && !is_flag(field.data_type())
    })
}

fn is_flag(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_))
}

/// Bytes of a column's values, without those of other rows in the same buffers.
pub fn value_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Cuts its input.
    Slices,
    /// Says how many rows come next.
    Measures,
}

/// One of the two ends of a projection in slices.
#[derive(Debug)]
struct SlicesExec {
    input: Arc<dyn ExecutionPlan>,
    /// Rows of the next slice of each partition.
    rows: Arc<[AtomicUsize]>,
    role: Role,
}

/// Rows of the slice after one of `rows` rows that made these bytes.
fn next_rows(rows: usize, bytes: usize) -> usize {
    let fitting = SLICE_BYTES.saturating_mul(rows) / bytes.max(1);
    fitting.clamp(1, rows.saturating_mul(GROWTH_MAX).max(1))
}

impl DisplayAs for SlicesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlicesExec: {:?}", self.role)
    }
}

impl ExecutionPlan for SlicesExec {
    fn name(&self) -> &'static str {
        "SlicesExec"
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

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self { input, rows: Arc::clone(&self.rows), role: self.role })),
            Err(children) => plan_err!("SlicesExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, rows) = (self.schema(), Arc::clone(&self.rows));
        let input = self.input.execute(partition, context)?;
        let next = move || rows.get(partition).map_or(FIRST_ROWS, |rows| rows.load(Ordering::Relaxed).max(1));
        if self.role == Role::Slices {
            let slices = stream::try_unfold((input, None::<RecordBatch>), move |(mut input, rest)| {
                let rows = next();
                async move {
                    let batch = match rest {
                        Some(rest) => rest,
                        None => match input.try_next().await? {
                            Some(batch) => batch,
                            None => return Ok(None),
                        },
                    };
                    let rest = batch.num_rows().checked_sub(rows).filter(|left| *left > 0);
                    let rest = rest.map(|left| batch.slice(rows, left));
                    let slice = batch.slice(0, rows.min(batch.num_rows()));
                    Ok(Some((slice, (input, rest))))
                }
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices.boxed())));
        }
        let rows = Arc::clone(&self.rows);
        let measured = input.inspect_ok(move |batch| {
            if let Some(rows) = rows.get(partition).filter(|_| batch.num_rows() > 0) {
                let bytes = batch.columns().iter().map(value_bytes).sum();
                rows.store(next_rows(batch.num_rows(), bytes), Ordering::Relaxed);
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, measured.boxed())))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn slices_grow_to_a_mebibyte_and_shrink_at_once() {
        assert_eq!(next_rows(1, 10), 8);
        assert_eq!(next_rows(8, 8 * 2000), 64);
        assert_eq!(next_rows(4096, 4096 * 2000), 524);
        assert_eq!(next_rows(64, 64 * 700_000), 1);
        assert_eq!(next_rows(1, 5 << 20), 1);
        assert_eq!(next_rows(1, 0), 8);
    }

    #[tokio::test]
    async fn a_projection_of_long_texts_makes_few_of_them_at_a_time() {
        let numbers = Int64Array::from_iter_values(0..5000);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap();
        let context = SessionContext::new();
        context.register_batch("numbers", batch).unwrap();
        for (length, bytes_max) in [(10, 1 << 20), (2000, 3 << 19), (700_000, 1_400_000)] {
            let rows = if length > 100_000 { 20 } else { 5000 };
            let sql = format!("SELECT n, repeat('x', {length}) AS v FROM numbers WHERE n < {rows}");
            let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let plan = in_slices(plan).unwrap();
            let partitions = plan.output_partitioning().partition_count();
            let mut seen = Vec::new();
            for partition in 0..partitions {
                let mut batches = plan.execute(partition, context.task_ctx()).unwrap();
                while let Some(batch) = batches.next().await {
                    let batch = batch.unwrap();
                    let bytes: usize = batch.columns().iter().map(value_bytes).sum();
                    assert!(bytes <= bytes_max, "{length}: {bytes}");
                    seen.extend(batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().iter().copied());
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..rows).collect::<Vec<i64>>(), "{length}");
        }
    }

    #[test]
    fn only_projections_that_compute_texts_are_cut() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Utf8, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringArray::from(vec!["a"]))]).unwrap();
        let source: Arc<dyn ExecutionPlan> = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap();
        let column = Arc::new(Column::new("v", 0)) as Arc<dyn PhysicalExpr>;
        let kept = ProjectionExec::try_new(vec![(column, "w".to_owned())], source).unwrap();
        assert!(!makes_texts(&kept));
        let kept: Arc<dyn ExecutionPlan> = Arc::new(kept);
        assert_eq!(in_slices(Arc::clone(&kept)).unwrap().name(), kept.name());
    }
}
