//! A table in memory that is pruned by min/max, like the same rows in files.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::{SortOptions, concat_batches, sort_to_indices};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::pruning::PrunableStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, DFSchema, DataFusionError, Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::stream;

/// Rows that are kept or pruned together; about as many as in DuckDB.
const CHUNK_ROWS: usize = 122_880;

/// Rows in memory with the smallest and largest value of each column in every [`CHUNK_ROWS`]. DataFusion's own table in
/// memory has none, and so would read data sorted by date completely for one year, unlike the same data in Parquet
/// files.
#[derive(Debug)]
pub(super) struct MemoryTable {
    schema: SchemaRef,
    chunks: Vec<Arc<Chunk>>,
}

/// Some rows and their statistics.
#[derive(Debug)]
struct Chunk {
    batches: Vec<RecordBatch>,
    statistics: Arc<Statistics>,
}

impl Chunk {
    fn new(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        let all = concat_batches(schema, &batches)?;
        let columns = all.columns().iter().map(|column| {
            let first = |descending| {
                let options = SortOptions { descending, nulls_first: false };
                let first = sort_to_indices(column, Some(options), Some(1))?;
                Ok::<_, DataFusionError>(match first.values().first() {
                    Some(row) => Precision::Exact(ScalarValue::try_from_array(column, *row as usize)?),
                    None => Precision::Absent,
                })
            };
            Ok(ColumnStatistics {
                null_count: Precision::Exact(column.null_count()),
                min_value: first(false)?,
                max_value: first(true)?,
                ..ColumnStatistics::new_unknown()
            })
        });
        let statistics = Statistics {
            num_rows: Precision::Exact(all.num_rows()),
            // Files with text do not report it either. A join then decides by rows; by bytes, it would take a small
            // dimension of wide rows for too large to be collected, and hash the fact table instead.
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect::<Result<_>>()?,
        };
        Ok(Self { batches, statistics: Arc::new(statistics) })
    }
}

impl MemoryTable {
    /// A table of these batches, in the order of their partitions.
    ///
    /// # Errors
    /// If they do not have the schema.
    pub(super) fn new(schema: SchemaRef, partitions: Vec<Vec<RecordBatch>>) -> Result<Self> {
        let mut chunks = vec![];
        for partition in partitions {
            let mut batches = vec![];
            let mut rows = 0;
            for batch in partition {
                rows += batch.num_rows();
                batches.push(batch);
                if rows >= CHUNK_ROWS {
                    chunks.push(Arc::new(Chunk::new(&schema, std::mem::take(&mut batches))?));
                    rows = 0;
                }
            }
            if rows > 0 {
                chunks.push(Arc::new(Chunk::new(&schema, batches)?));
            }
        }
        Ok(Self { schema, chunks })
    }
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let mut chunks = self.chunks.clone();
        if let Some(filter) = conjunction(filters.iter().cloned()) {
            let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
            let predicate = state.create_physical_expr(filter, &schema)?;
            chunks = kept(&chunks, &predicate, &self.schema);
        }
        // As many partitions as the plan wants, each with a stretch of the table.
        let partitions = state.config().target_partitions().clamp(1, chunks.len().max(1));
        let each = chunks.len().div_ceil(partitions).max(1);
        let mut partitions: Vec<Vec<Arc<Chunk>>> = chunks.chunks(each).map(<[_]>::to_vec).collect();
        if partitions.is_empty() {
            partitions.push(vec![]);
        }
        let schema = Arc::new(self.schema.project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let statistics =
            Statistics::try_merge_iter(chunks.iter().map(|chunk| chunk.statistics.as_ref()), &self.schema)?;
        Ok(Arc::new(MemoryScanExec {
            table: Arc::clone(&self.schema),
            schema,
            columns: columns.clone(),
            partitions,
            dynamic: vec![],
            properties: Arc::new(properties),
            statistics: Arc::new(statistics.project(Some(&columns))),
        }))
    }
}

/// The chunks that may have a row that passes `predicate`, which refers to the table's columns.
fn kept(chunks: &[Arc<Chunk>], predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Vec<Arc<Chunk>> {
    let all = || chunks.to_vec();
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
    let Ok(pruning) = builder.try_build(Arc::clone(predicate)) else { return all() };
    let statistics = chunks.iter().map(|chunk| Arc::clone(&chunk.statistics)).collect();
    let Ok(keep) = pruning.prune(&PrunableStatistics::new(statistics, Arc::clone(schema))) else { return all() };
    chunks.iter().zip(keep).filter(|(_, keep)| *keep).map(|(chunk, _)| Arc::clone(chunk)).collect()
}

/// Scan of a [`MemoryTable`], which also applies the dynamic filters that joins make while the query runs.
#[derive(Debug, Clone)]
struct MemoryScanExec {
    table: SchemaRef,
    schema: SchemaRef,
    columns: Vec<usize>,
    partitions: Vec<Vec<Arc<Chunk>>>,
    /// In terms of the table's columns.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
}

impl MemoryScanExec {
    /// The partition's chunks that the filters keep at present.
    fn kept_now(&self, partition: usize) -> Result<Vec<Arc<Chunk>>> {
        let mut chunks = self.partitions.get(partition).cloned().unwrap_or_default();
        for filter in &self.dynamic {
            chunks = kept(&chunks, &snapshot_physical_expr(Arc::clone(filter))?, &self.table);
        }
        Ok(chunks)
    }
}

impl DisplayAs for MemoryScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: usize = self.partitions.iter().map(Vec::len).sum();
        write!(f, "MemoryScanExec: chunks={chunks}, dynamic filters={}", self.dynamic.len())
    }
}

impl ExecutionPlan for MemoryScanExec {
    fn name(&self) -> &'static str {
        "MemoryScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.dynamic {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // The operator above keeps applying its filters.
        let answers = result.parent_filters.iter().map(|_| PushedDown::No).collect();
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if phase != FilterPushdownPhase::Post || result.parent_filters.is_empty() {
            return Ok(propagation);
        }
        let mut scan = self.clone();
        for offered in &result.parent_filters {
            scan.dynamic.push(reassign_expr_columns(Arc::clone(&offered.filter), &self.table)?);
        }
        Ok(propagation.with_updated_node(Arc::new(scan)))
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.clone();
        // A join has made its filter before it requests the first row.
        let mut batches = None;
        let rows = stream::poll_fn(move |_| {
            std::task::Poll::Ready(match &mut batches {
                Some(batches) => next(batches, &scan.columns),
                None => match scan.kept_now(partition) {
                    Ok(chunks) => {
                        let all = chunks.into_iter().flat_map(|chunk| chunk.batches.clone());
                        next(batches.insert(all.collect::<Vec<_>>().into_iter()), &scan.columns)
                    }
                    Err(error) => Some(Err(error)),
                },
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&self.statistics),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema)),
        })
    }
}

fn next(batches: &mut std::vec::IntoIter<RecordBatch>, columns: &[usize]) -> Option<Result<RecordBatch>> {
    batches.next().map(|batch| Ok(batch.project(columns)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

    use super::*;

    /// Rows of the dimension: few enough for a join to collect, with many more bytes than it would.
    const DIMENSION_ROWS: usize = 50_000;

    fn batch(rows: usize, width: usize) -> RecordBatch {
        let keys: Int64Array = (0..rows).map(|row| Some((row % DIMENSION_ROWS) as i64)).collect();
        let texts: StringArray = (0..rows).map(|row| Some(format!("{row:0width$}"))).collect();
        let columns = [("key", Arc::new(keys) as ArrayRef), ("text", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// The joins in a query's plan, with their mode and sides.
    async fn joins(context: &SessionContext, sql: &str) -> Vec<String> {
        let plan = context.sql(&format!("EXPLAIN FORMAT INDENT {sql}")).await.unwrap().collect().await.unwrap();
        let plan = pretty_format_batches(&plan).unwrap().to_string();
        let lines = plan.lines().filter(|line| line.contains("JoinExec:"));
        lines.map(|line| line.trim_matches(['|', ' ']).to_owned()).collect()
    }

    #[tokio::test]
    async fn joins_are_planned_as_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let config = SessionConfig::new().with_target_partitions(2);
        let [memory, files] = [(), ()].map(|()| SessionContext::new_with_config(config.clone()));
        for (name, rows, width) in [("fact", 300_000, 1), ("dimension", DIMENSION_ROWS, 200)] {
            let batch = batch(rows, width);
            let path = folder.path().join(format!("{name}.parquet"));
            let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            files.register_parquet(name, path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
            let rows = files.table(name).await.unwrap();
            let schema = Arc::clone(rows.schema().inner());
            let table = MemoryTable::new(schema, rows.collect_partitioned().await.unwrap()).unwrap();
            memory.register_table(name, Arc::new(table)).unwrap();
        }
        let sql = "SELECT f.text, count(*) FROM fact f, dimension d WHERE f.key = d.key AND d.text <> '7' GROUP BY 1";
        let expected = joins(&files, sql).await;
        assert!(expected.len() == 1 && expected.iter().all(|join| join.contains("mode=CollectLeft")), "{expected:?}");
        assert_eq!(joins(&memory, sql).await, expected);
    }
}
