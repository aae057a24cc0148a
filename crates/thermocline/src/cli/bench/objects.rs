//! `thermocline bench objects`: cost of many objects, or many partitions of one, for a query that needs few of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::{Result as DataFusionResult, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use serde::Serialize;
use serde_json::Value;
use thermocline_database::Session;
use thermocline_workloads::bench::result_hash;

use super::super::Failure;
use super::super::workload_data::user_cache;
use super::arguments::{at_least, distinct};
use super::common::CommonArgs;
use super::sink::JsonLines;

/// Arguments of `thermocline bench objects`.
#[derive(Debug, clap::Args)]
pub struct ObjectsArgs {
    /// Numbers of objects, one table each [default: 1000,20000,200000, with --quick 100,400]
    #[arg(long, value_delimiter = ',', value_parser = at_least(1))]
    objects: Vec<usize>,
    /// Row groups of the one wide object [default: 600, with --quick 60]
    #[arg(long, value_parser = at_least(1))]
    partitions: Option<usize>,
    /// Its columns [default: 500, with --quick 50]
    #[arg(long, value_parser = at_least(COLUMNS as u64))]
    columns: Option<usize>,
    /// Timed runs of each query, after a warm-up [default: 5, with --quick 2]
    #[arg(long, value_parser = at_least(1))]
    passes: Option<usize>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Rows of each object and of each row group.
const ROWS: usize = 100;
/// Columns of the tables of many objects.
const COLUMNS: usize = 4;

/// A line of `--json`.
#[derive(Debug, Clone, Serialize)]
struct ObjectsRecord {
    workload: &'static str,
    objects: usize,
    partitions: usize,
    columns: usize,
    mode: String,
    query: String,
    seconds_min: f64,
    seconds_median: f64,
    rows: u64,
    result_hash: String,
    /// From here on, values of the timed run of median seconds.
    bytes_from_storage: u64,
    bytes_to_storage: u64,
    requests: u64,
}

/// Runs the queries and prints their seconds, with the ratio to those over the smallest number of objects.
///
/// # Errors
/// If the data cannot be made, a query fails, or two modes differ in their rows.
pub async fn objects(args: ObjectsArgs) -> Result<(), Failure> {
    args.common.refuse_own(&["mode", "partition_size"])?;
    distinct("--objects", &args.objects)?;
    let quick = args.common.quick;
    let parent = args.common.data.clone().unwrap_or_else(user_cache);
    let counts = match args.objects {
        given if !given.is_empty() => given,
        _ if quick => vec![100, 400],
        _ => vec![1000, 20_000, 200_000],
    };
    let passes = args.passes.unwrap_or(if quick { 2 } else { 5 });
    let partitions = args.partitions.unwrap_or(if quick { 60 } else { 600 });
    let columns = args.columns.unwrap_or(if quick { 50 } else { 500 });
    let mut json = JsonLines::new(args.common.json.as_ref())?;

    say!("{:<34}{:>9}{:>12}{:>12}{:>14}", "query", "objects", "min s", "median s", "us an object");
    for count in counts {
        let data = made(&parent.join(format!("objects-{count}")), |directory| {
            (0..count).try_for_each(|object| {
                let path = directory.join(format!("{object:07}.parquet"));
                write_object(&path, object..object + 1, COLUMNS)
            })
        })?;
        let session = args.common.plain_session().await?;
        let started = Instant::now();
        create(&session, "t", &data).await?;
        let created = started.elapsed().as_secs_f64();
        say!(
            "{:<34}{count:>9}{created:>12.4}{:>12}{:>14.1}",
            "CREATE EXTERNAL TABLE",
            "",
            created * 1e6 / count as f64
        );
        let day = count / 2;
        for (name, sql) in [
            ("everything pruned", "SELECT count(*), sum(c1) FROM t WHERE c0 < 0".to_owned()),
            ("one object left", format!("SELECT count(*), sum(c1) FROM t WHERE c0 = {day}")),
        ] {
            let run = Run { objects: count, partitions: count, columns: COLUMNS, passes, query: name };
            let record = run.timed(&session, &sql, &mut json).await?;
            say!(
                "{:<34}{count:>9}{:>12.4}{:>12.4}{:>14.2}",
                name,
                record.seconds_min,
                record.seconds_median,
                record.seconds_median * 1e6 / count as f64
            );
        }
    }

    let data = made(&parent.join(format!("object-{partitions}x{columns}")), |directory| {
        write_object(&directory.join("wide.parquet"), 0..partitions, columns)
    })?;
    say!();
    say!("one object of {partitions} partitions and {columns} columns");
    say!("{:<34}{:<10}{:>12}{:>12}{:>10}{:>10}", "query", "mode", "min s", "median s", "ratio", "requests");
    let session = args.common.plain_session().await?;
    // Each row group is a partition of its own.
    session.database().set("partition_size", "64KiB")?;
    create(&session, "wide", &data).await?;
    for (name, sql) in [
        ("sum of one column", "SELECT count(*), sum(c1) FROM wide WHERE c2 >= 0".to_owned()),
        ("few rows of each partition", "SELECT c0, c1, c3 FROM wide WHERE c3 = 7".to_owned()),
    ] {
        let mut first: Option<ObjectsRecord> = None;
        for mode in ["pullup", "pushdown"] {
            session.set("mode", mode)?;
            let run = Run { objects: 1, partitions, columns, passes, query: name };
            let record = run.timed(&session, &sql, &mut json).await?;
            let first = first.get_or_insert_with(|| record.clone());
            if first.result_hash != record.result_hash {
                return Err(Failure::Failed(format!("{name}: {mode} gives other rows")));
            }
            say!(
                "{name:<34}{mode:<10}{:>12.4}{:>12.4}{:>10.2}{:>10}",
                record.seconds_min,
                record.seconds_median,
                record.seconds_median / first.seconds_median,
                record.requests
            );
        }
    }
    json.flush()?;
    Ok(())
}

async fn create(session: &Session, table: &str, data: &Path) -> DataFusionResult<()> {
    let location = data.display().to_string().replace('\'', "''");
    session.run(&format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'")).await?;
    Ok(())
}

/// Fields that the records of one query share.
struct Run {
    objects: usize,
    partitions: usize,
    columns: usize,
    passes: usize,
    query: &'static str,
}

impl Run {
    async fn timed(&self, session: &Session, sql: &str, json: &mut JsonLines) -> DataFusionResult<ObjectsRecord> {
        let first = session.run(sql).await?;
        let hash = result_hash(sql, &first.batches)?;
        let mut runs = vec![];
        for _ in 0..self.passes {
            let result = session.run(sql).await?;
            if result_hash(sql, &result.batches)? != hash {
                return exec_err!("{}: a second run gives other rows", self.query);
            }
            runs.push((result.seconds, result.stats));
        }
        runs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let (Some((seconds_min, _)), Some((seconds_median, stats))) = (runs.first(), runs.get(runs.len() / 2)) else {
            return exec_err!("{}: nothing was timed", self.query);
        };
        let record = ObjectsRecord {
            workload: "objects",
            objects: self.objects,
            partitions: self.partitions,
            columns: self.columns,
            mode: session.settings().mode.name().to_owned(),
            query: self.query.to_owned(),
            seconds_min: *seconds_min,
            seconds_median: *seconds_median,
            rows: first.rows() as u64,
            result_hash: hash,
            bytes_from_storage: stats.bytes_from_storage,
            bytes_to_storage: stats.bytes_to_storage,
            requests: stats.requests,
        };
        json.put(&record, Value::Null)?;
        Ok(record)
    }
}

/// A directory that `make` fills once.
fn made(directory: &Path, make: impl FnOnce(&Path) -> DataFusionResult<()>) -> DataFusionResult<PathBuf> {
    let failed = |error: &dyn std::fmt::Display| exec_datafusion_err!("{}: {error}", directory.display());
    let data = directory.join("data");
    let complete = directory.join("complete");
    if complete.exists() {
        return Ok(data);
    }
    if directory.exists() {
        // Remains of a killed run.
        fs::remove_dir_all(directory).map_err(|error| failed(&error))?;
    }
    eprintln!("making {} ...", directory.display());
    fs::create_dir_all(&data).map_err(|error| failed(&error))?;
    make(&data)?;
    fs::write(&complete, "").map_err(|error| failed(&error))?;
    Ok(data)
}

/// One object with a row group for each of `days`: column `c0` holds the day, others the row's number
/// in its group, times the column's.
fn write_object(path: &Path, days: std::ops::Range<usize>, columns: usize) -> DataFusionResult<()> {
    let batch = |day: usize| {
        let column = |column: usize| {
            let value = |row: usize| if column == 0 { day } else { row * column } as i64;
            let values: Int64Array = (0..ROWS).map(value).map(Some).collect();
            (format!("c{column}"), Arc::new(values) as ArrayRef)
        };
        RecordBatch::try_from_iter((0..columns).map(column))
    };
    let file = File::create(path).map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))?;
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS)).build();
    let mut writer = ArrowWriter::try_new(file, batch(0)?.schema(), Some(properties))?;
    for day in days {
        writer.write(&batch(day)?)?;
    }
    writer.close()?;
    Ok(())
}
