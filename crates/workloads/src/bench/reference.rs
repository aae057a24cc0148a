//! Plain DataFusion on the same files or the same rows in memory: what our own layers cost.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::MemTable;
use datafusion::common::Result;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};

use super::driver::Measurement;
use super::record::{Record, result_hash};
use crate::generate::{Format, schema};

/// Where plain DataFusion gets its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Tables read into memory beforehand.
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

/// Runs `queries` over the workload's tables below `data`, each once, in plain DataFusion.
///
/// # Errors
/// The first query's that fails.
pub async fn measure_reference(
    reference: Reference,
    measurement: &Measurement,
    data: &Path,
    queries: impl IntoIterator<Item = (&str, &str)>,
    run: &'static str,
    mut on_record: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let context = context(reference, measurement, data).await?;
    for (name, sql) in queries {
        let started = Instant::now();
        let batches = context.sql(sql).await?.collect().await?;
        on_record(Record {
            seconds: started.elapsed().as_secs_f64(),
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            result_hash: result_hash(&batches)?,
            ..measurement.record(reference.name(), name, run)
        })?;
    }
    Ok(())
}

async fn context(reference: Reference, measurement: &Measurement, data: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    config.options_mut().execution.parquet.pushdown_filters = reference == Reference::FilesPushdownFilters;
    let context = SessionContext::new_with_config(config);
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
            context.register_table(table.name(), Arc::new(MemTable::try_new(schema, partitions)?))?;
        }
    }
    Ok(context)
}
