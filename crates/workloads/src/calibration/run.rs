//! Queries over some partitions of a table, as the engine runs them.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use thermocline_compute::{
    AnalyticEngine, PartitionSample, QuerySettings, QueryStats, StatementOptions, default_config,
};
use thermocline_dialect::parse;
use thermocline_pushdown::Mode;

/// One execution.
#[derive(Debug)]
pub(super) struct Executed {
    /// Seconds from the SQL text to the last row.
    pub(super) seconds: f64,
    /// Rows of the result.
    pub(super) rows: u64,
    /// Counters of the scan.
    pub(super) stats: QueryStats,
}

/// Runs queries with settings under which a mode takes only its own routes: no bitmaps, indexes, kept answers or pushback.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    engine: &'a AnalyticEngine,
    settings: QuerySettings,
}

impl<'a> Runs<'a> {
    /// Runs queries of `engine`, in everything else with `settings`.
    pub(super) fn new(engine: &'a AnalyticEngine, settings: &QuerySettings) -> Self {
        let settings = QuerySettings {
            bitmaps: false,
            cached_answers: false,
            indexes: false,
            pushback: false,
            ..settings.clone()
        };
        Self { engine, settings }
    }

    /// The engine.
    pub(super) fn engine(&self) -> &'a AnalyticEngine {
        self.engine
    }

    /// Runs a query over some partitions in a mode, and drops its rows.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) async fn run(&self, sql: &str, mode: Mode, sample: &PartitionSample) -> Result<Executed> {
        let mut rows = 0;
        let started = Instant::now();
        let stats = self.each(sql, mode, sample, |batch| rows += batch.num_rows() as u64).await?;
        Ok(Executed { seconds: started.elapsed().as_secs_f64(), rows, stats })
    }

    /// Runs a query over some partitions in a mode, and passes its rows on.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) async fn each(
        &self,
        sql: &str,
        mode: Mode,
        sample: &PartitionSample,
        mut on_batch: impl FnMut(RecordBatch),
    ) -> Result<QueryStats> {
        let mut config = default_config(None);
        config.options_mut().extensions.insert(QuerySettings { mode, ..self.settings.clone() });
        let sample = Arc::new(sample.clone());
        let begin = move |config: &mut SessionConfig| config.set_extension(Arc::clone(&sample));
        let options = StatementOptions { begin: Some(Arc::new(begin)), ..StatementOptions::new(config) };
        let statement = parse(sql)?.pop().ok_or_else(|| exec_datafusion_err!("there is no statement in '{sql}'"))?;
        let mut stream = self.engine.stream(statement, &options).await?;
        while let Some(batch) = stream.rows.try_next().await? {
            on_batch(batch);
        }
        Ok(stream.stats())
    }
}
