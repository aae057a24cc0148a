//! `thermocline bench bitmap`: selection bitmaps against pushdown without them, over the share of
//! `lineitem` that five TPC-H queries select (Enhancing Computation Pushdown section 6.3.1).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_datafusion_err, plan_err};
use thermocline_compute::{Session, SessionOptions};
use thermocline_pushdown::units::{format_size, parse_rate};
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, measure};
use thermocline_workloads::generate::{Format, create_table_sql};
use thermocline_workloads::tpch::{SELECTIVITY_QUERIES, SelectivityQuery};

use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::workload_data;

/// Stored bytes of the data's objects.
const PARTITION_SIZE: u64 = 16 << 20;
/// Scale of `--quick`, at most.
const QUICK_SCALE: f64 = 0.05;

/// Arguments of `thermocline bench bitmap`.
#[derive(Debug, clap::Args)]
pub struct BitmapArgs {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// parquet or csv
    #[arg(long, default_value = "parquet")]
    format: String,
    /// Queries to run: some of Q3, Q4, Q12, Q14 and Q19, comma separated
    #[arg(long, value_delimiter = ',', default_value = "3,4,12,14,19")]
    queries: Vec<String>,
    /// Shares of lineitem to select; 0 stands for the smallest share that is not nothing
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")]
    selectivities: Vec<f64>,
    /// Limit of the storage node's link
    #[arg(long, default_value = "1Gbps")]
    egress_limit: String,
    /// Let joins thin lineitem by Bloom filters or lists of their keys, with and without bitmaps;
    /// otherwise only the filter whose selectivity varies does
    #[arg(long)]
    join_filters: bool,
    /// Timed executions of each query
    #[arg(long, default_value_t = 1)]
    passes: usize,
    /// Small data and few selectivities: under a minute
    #[arg(long)]
    quick: bool,
    /// Where the generated data is kept between runs [default: a folder of the user's cache]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Write one JSON object an execution to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Which columns of `lineitem` the cache holds, so on which side the bitmap is made.
#[derive(Debug, Clone, Copy)]
enum Direction {
    /// The output's columns that are not the predicate's: the bitmap comes from storage.
    Storage,
    /// The predicate's columns: the bitmap goes to storage.
    Compute,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Storage => "storage",
            Direction::Compute => "compute",
        }
    }

    fn cached(self, query: &SelectivityQuery) -> Vec<&'static str> {
        match self {
            Direction::Storage => {
                query.output.iter().filter(|column| !query.predicate.contains(column)).copied().collect()
            }
            Direction::Compute => query.predicate.to_vec(),
        }
    }
}

/// One session, the columns of `lineitem` that its cache is to hold, and what is measured with it.
struct Side {
    session: Session,
    bitmaps: bool,
}

/// Runs the experiment.
///
/// # Errors
/// If an argument does not fit, a query fails, or bitmaps change a result.
pub async fn bitmap(mut args: BitmapArgs) -> Result<()> {
    if args.quick {
        args.scale = args.scale.min(QUICK_SCALE);
        args.selectivities = vec![0.0, 0.5, 0.9];
    }
    let format = match args.format.to_ascii_lowercase().as_str() {
        "parquet" => Format::Parquet,
        "csv" => Format::Csv,
        other => return plan_err!("unknown format '{other}': expected parquet or csv"),
    };
    let queries = args.queries.iter().map(|name| query_named(name)).collect::<Result<Vec<_>>>()?;
    if let Some(share) = args.selectivities.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return plan_err!("a selectivity of {share} is not between 0 and 1");
    }
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale: args.scale,
        format,
        egress_bytes_per_s: Some(parse_rate(&args.egress_limit).map_err(|why| plan_datafusion_err!("{why}"))?),
    };
    let mut output = Output::new(args.json.as_deref())?;
    let data = workload_data(&measurement.workload, args.data.clone(), args.scale, format, PARTITION_SIZE)?;
    let options = NodeOptions { egress_limit: Some(args.egress_limit.clone()), ..NodeOptions::default() };
    let node = NodeProcess::start(&data, &options).await?;
    let location = format!("thermocline://{}", node.address);

    let mut sides = vec![];
    for bitmaps in [false, true] {
        let session = session(&location, format).await?;
        if !args.join_filters {
            session.set("bloom_filters", "off")?;
            session.run("SET datafusion.optimizer.hash_join_inlist_pushdown_max_size = '0'").await?;
        }
        // A node that hands work back would hide what bitmaps save.
        session.set("pushback", "off")?;
        session.set("bitmaps", if bitmaps { "on" } else { "off" })?;
        sides.push(Side { session, bitmaps });
    }
    let local = session(&data.display().to_string(), format).await?;
    output.header();
    for query in queries {
        let shares = shares(&local, query).await?;
        for direction in [Direction::Storage, Direction::Compute] {
            for wanted in &args.selectivities {
                let Some((bound, selectivity)) = nearest(&shares, *wanted) else {
                    return exec_err!("lineitem is empty");
                };
                let sql = query.sql(bound);
                let mut executions = vec![];
                for side in &sides {
                    executions.push(side.run(&measurement, query, direction, &sql, args.passes.max(1)).await?);
                }
                output.put(direction, selectivity, &executions)?;
            }
        }
    }
    output.finish()
}

impl Side {
    /// Fills the cache, runs the query once to warm up, and then `passes` times; the records in
    /// the order of execution.
    async fn run(
        &self,
        measurement: &Measurement,
        query: &SelectivityQuery,
        direction: Direction,
        sql: &str,
        passes: usize,
    ) -> Result<Vec<(bool, Record)>> {
        let mut records = vec![];
        for pass in 0..=passes {
            self.prepare(query, direction).await?;
            let run = if pass == 0 { "warmup" } else { "timed" };
            measure(&self.session, measurement, [(query.name, sql)], run, |record| {
                records.push((self.bitmaps, record));
                Ok(())
            })
            .await?;
        }
        Ok(records)
    }

    /// The paper's preparation: the cache holds what the query needs of the other tables and, for
    /// bitmaps, one part of what it needs of `lineitem`. There is no room for more.
    async fn prepare(&self, query: &SelectivityQuery, direction: Direction) -> Result<()> {
        let session = &self.session;
        session.engine().cache.clear();
        session.set("mode", "caching")?;
        session.set("cache_size", "1TiB")?;
        let of_lineitem = if self.bitmaps { direction.cached(query) } else { vec![] };
        // Several uses, so that the columns that are missing do not displace these.
        for _ in 0..3 {
            read_columns(session, "lineitem", &of_lineitem).await?;
            for (table, columns) in query.others {
                read_columns(session, table, columns).await?;
            }
        }
        let (bytes, _) = session.engine().cache.bytes();
        session.set("cache_size", &bytes.to_string())?;
        session.set("mode", "hybrid")
    }
}

async fn read_columns(session: &Session, table: &str, columns: &[&str]) -> Result<()> {
    if !columns.is_empty() {
        let calls: Vec<String> = columns.iter().map(|column| format!("max({column})")).collect();
        session.run(&format!("SELECT {} FROM {table}", calls.join(", "))).await?;
    }
    Ok(())
}

async fn session(location: &str, format: Format) -> Result<Session> {
    let session = Session::open(SessionOptions::default()).await?;
    for table in Workload::TPCH.tables {
        session.run(&create_table_sql(*table, format, &format!("{location}/{table}"))).await?;
    }
    Ok(session)
}

fn query_named(name: &str) -> Result<&'static SelectivityQuery> {
    let number = name.trim().trim_start_matches(['Q', 'q']);
    SELECTIVITY_QUERIES
        .iter()
        .find(|query| query.name.strip_prefix('Q') == Some(number))
        .ok_or_else(|| plan_datafusion_err!("bench bitmap has no query '{name}'; there are Q3, Q4, Q12, Q14 and Q19"))
}

/// The values of the query's measure and the share of `lineitem` with a larger one, in the order of
/// the values.
async fn shares(session: &Session, query: &SelectivityQuery) -> Result<Vec<(i64, f64)>> {
    let sql = format!(
        "SELECT CAST({} AS BIGINT) AS x, count(*) AS n FROM lineitem GROUP BY x ORDER BY x DESC",
        query.measure
    );
    let result = session.run(&sql).await?;
    let mut counts: Vec<(i64, u64)> = vec![];
    for batch in &result.batches {
        let [values, rows] = batch.columns() else { continue };
        let (values, rows) = (values.as_primitive::<Int64Type>(), rows.as_primitive::<Int64Type>());
        counts.extend(values.values().iter().zip(rows.values()).map(|(value, rows)| (*value, *rows as u64)));
    }
    let total: u64 = counts.iter().map(|(_, rows)| rows).sum();
    let mut larger = 0;
    Ok(counts
        .into_iter()
        .map(|(value, rows)| {
            let share = larger as f64 / total as f64;
            larger += rows;
            (value, share)
        })
        .collect())
}

/// The bound that selects closest to `wanted` of the rows, but not none, and what it selects.
fn nearest(shares: &[(i64, f64)], wanted: f64) -> Option<(i64, f64)> {
    let distance = |share: f64| (share - wanted).abs();
    shares
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .min_by(|(_, a), (_, b)| distance(*a).total_cmp(&distance(*b)))
        .copied()
}

/// Where records go, and the table of what they say.
struct Output {
    json: Option<BufWriter<File>>,
}

impl Output {
    fn new(path: Option<&Path>) -> Result<Self> {
        let json = path
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
            })
            .transpose()?;
        Ok(Self { json })
    }

    fn header(&self) {
        println!(
            "{:<6}{:<9}{:>8}{:>14}{:>14}{:>8}{:>10}{:>10}{:>8}{:>9}",
            "query",
            "bitmap",
            "share",
            "plain bytes",
            "bitmap bytes",
            "fewer",
            "plain s",
            "bitmap s",
            "faster",
            "columns"
        );
    }

    /// Writes the records of one query and prints the fastest without and with bitmaps.
    fn put(&mut self, direction: Direction, selectivity: f64, executions: &[Vec<(bool, Record)>]) -> Result<()> {
        let all = executions.iter().flatten();
        if let Some(json) = &mut self.json {
            for (bitmaps, record) in all.clone() {
                let failed = |error: &dyn std::fmt::Display| exec_datafusion_err!("{error}");
                let mut line = serde_json::to_value(record).map_err(|error| failed(&error))?;
                if let Some(fields) = line.as_object_mut() {
                    fields.insert("direction".into(), direction.name().into());
                    fields.insert("selectivity".into(), selectivity.into());
                    fields.insert("bitmaps".into(), (*bitmaps).into());
                }
                writeln!(json, "{line}").map_err(|error| failed(&error))?;
            }
        }
        let fastest = |wanted: bool| {
            all.clone()
                .filter(|(bitmaps, record)| *bitmaps == wanted && record.run == "timed")
                .map(|(_, record)| record)
                .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
        };
        let (Some(plain), Some(bitmap)) = (fastest(false), fastest(true)) else {
            return exec_err!("nothing was timed");
        };
        if plain.result_hash != bitmap.result_hash {
            return exec_err!("{} has other rows with bitmaps, at selectivity {selectivity}", plain.query);
        }
        let moved = |record: &Record| record.bytes_from_storage + record.bytes_to_storage;
        let fewer = |before: u64, after: u64| {
            if before == 0 { "-".to_owned() } else { format!("{:.0}%", 100.0 - 100.0 * after as f64 / before as f64) }
        };
        println!(
            "{:<6}{:<9}{:>8.4}{:>14}{:>14}{:>8}{:>10.3}{:>10.3}{:>8.2}{:>9}",
            plain.query,
            direction.name(),
            selectivity,
            format_size(moved(plain)),
            format_size(moved(bitmap)),
            fewer(moved(plain), moved(bitmap)),
            plain.seconds,
            bitmap.seconds,
            plain.seconds / bitmap.seconds,
            fewer(plain.columns_scanned, bitmap.columns_scanned),
        );
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if let Some(json) = &mut self.json {
            json.flush().map_err(|error| exec_datafusion_err!("{error}"))?;
        }
        Ok(())
    }
}
