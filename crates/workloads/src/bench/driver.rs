//! Queries in a session, one after the other.

use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use thermocline_database::Session;

use super::record::{Counts, Record, result_hash};
use crate::Workload;
use crate::generate::Format;

/// Fields that the records of one measurement share.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The workload.
    pub workload: Workload,
    /// Its scale factor.
    pub scale: f64,
    /// Format of its objects.
    pub format: Format,
    /// Limit of the link, in bytes a second.
    pub egress_bytes_per_s: Option<u64>,
}

impl Measurement {
    /// A record of an engine that counts nothing and reads the files themselves.
    pub(super) fn record(&self, mode: &str, (query, sql): (&str, &str), run: &'static str) -> Record {
        Record {
            workload: self.workload.name.to_owned(),
            scale: self.scale,
            format: self.format.extension().to_owned(),
            mode: mode.to_owned(),
            egress_bytes_per_s: None,
            query: query.to_owned(),
            sql: sql.to_owned(),
            run,
            seconds: 0.0,
            rows: 0,
            result_hash: None,
            counts: None,
        }
    }
}

/// Runs `queries` (name and SQL) in `session` with its settings, and passes on a record and the rows of each. Seconds
/// count from the SQL text to the last row.
///
/// # Errors
/// The first query's error.
pub async fn measure(
    session: &Session,
    measurement: &Measurement,
    queries: impl IntoIterator<Item = (&str, &str)>,
    run: &'static str,
    mut on_record: impl FnMut(Record, &[RecordBatch]) -> Result<()>,
) -> Result<()> {
    for (name, sql) in queries {
        let (settings, limits) = (session.settings(), session.database().settings().engine);
        let started = Instant::now();
        let result = session.run(sql).await.map_err(|error| error.context(format!("query {name}")))?;
        let seconds = started.elapsed().as_secs_f64();
        let record = Record {
            egress_bytes_per_s: measurement.egress_bytes_per_s,
            seconds,
            rows: result.rows() as u64,
            result_hash: Some(result_hash(sql, &result.batches)?),
            counts: Some(Counts::new(&settings, &limits, &result.stats, seconds)),
            ..measurement.record(settings.mode.name(), (name, sql), run)
        };
        on_record(record, &result.batches)?;
    }
    Ok(())
}
