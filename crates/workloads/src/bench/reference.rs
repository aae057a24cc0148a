//! Plain DataFusion on the same files, or the same rows in memory, to measure the cost of our own layers.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use futures::FutureExt;
use futures::future::BoxFuture;
use thermocline_dialect::rules::{Averages, register_operators};

use super::driver::Measurement;
use super::memory_table::MemoryTable;
use super::record::{Record, result_hash};
use crate::generate::{Format, schema};

/// Source of plain DataFusion's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Tables read into memory beforehand, pruned like files.
    Memory,
    /// The files, with its default settings.
    Files,
    /// Parquet files, with filters evaluated while decoding (`pushdown_filters`).
    FilesPushdownFilters,
}

impl Reference {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Files, Self::FilesPushdownFilters];

    /// The record's `mode`.
    pub fn name(self) -> &'static str {
        match self {
            Reference::Memory => "datafusion-memory",
            Reference::Files => "datafusion-files",
            Reference::FilesPushdownFilters => "datafusion-files-pushdown-filters",
        }
    }
}

/// Runs `queries`, each once, in plain DataFusion over the tables of `context`, and passes on a record and the rows of
/// each. Seconds count from the SQL text to the last row.
///
/// # Errors
/// The first query's error.
pub async fn measure_reference(
    reference: Reference,
    context: &SessionContext,
    measurement: &Measurement,
    queries: impl IntoIterator<Item = (&str, &str)>,
    run: &'static str,
    mut on_record: impl FnMut(Record, &[RecordBatch]) -> Result<()>,
) -> Result<()> {
    for (name, sql) in queries {
        let started = Instant::now();
        let batches = rows(context, sql).await?;
        let seconds = started.elapsed().as_secs_f64();
        let record = Record {
            seconds,
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            result_hash: Some(result_hash(sql, &batches)?),
            ..measurement.record(reference.name(), (name, sql), run)
        };
        on_record(record, &batches)?;
    }
    Ok(())
}

/// The rows of a query.
fn rows<'a>(context: &'a SessionContext, sql: &'a str) -> BoxFuture<'a, Result<Vec<RecordBatch>>> {
    async { context.sql(sql).await?.collect().await }.boxed()
}

/// The workload's tables below `data` in plain DataFusion, with as many partitions as a session has.
///
/// # Errors
/// If a file cannot be read.
pub fn reference_context<'a>(
    reference: Reference,
    measurement: &'a Measurement,
    data: &'a Path,
    target_partitions: usize,
) -> BoxFuture<'a, Result<SessionContext>> {
    context(reference, measurement, data, target_partitions).boxed()
}

/// [`reference_context`], compiled here alone.
async fn context(
    reference: Reference,
    measurement: &Measurement,
    data: &Path,
    target_partitions: usize,
) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(target_partitions);
    config.options_mut().execution.parquet.pushdown_filters = reference == Reference::FilesPushdownFilters;
    // Without these, Q1, Q8 and Q14 of TPC-H give other digits.
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(Averages::new(sum_udaf()))];
    rules.extend(Analyzer::new().rules);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_analyzer_rules(rules).build();
    let context = SessionContext::new_with_state(state);
    register_operators(&context)?;
    for table in measurement.workload.tables {
        let folder = format!("{}/{table}/", data.display());
        match measurement.format {
            Format::Parquet => {
                context.register_parquet(table.name(), &folder, ParquetReadOptions::default()).await?;
            }
            Format::Csv => {
                let schema = schema(*table);
                context.register_csv(table.name(), &folder, CsvReadOptions::new().schema(&schema)).await?;
            }
        }
        if reference == Reference::Memory {
            let frame = context.table(table.name()).await?;
            let schema = Arc::clone(frame.schema().inner());
            let partitions = frame.collect_partitioned().await?;
            context.deregister_table(table.name())?;
            context.register_table(table.name(), Arc::new(MemoryTable::new(schema, partitions)?))?;
        }
    }
    Ok(context)
}
