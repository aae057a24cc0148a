//! `thermocline bench`: the experiments, one JSON object a query.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err, plan_datafusion_err};
use thermocline_compute::{Session, SessionOptions};
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{format_size, parse_rate, parse_size};
use thermocline_workloads::bench::{Measurement, Record, Reference, measure, measure_reference};
use thermocline_workloads::ssb::{Format, QUERIES, TABLES, batch, create_table_sql, reshuffle};

use super::node_process::NodeProcess;
use super::ssb_data::ssb_data;

/// Arguments of `thermocline bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, clap::Subcommand)]
enum Workload {
    /// The Star Schema Benchmark: the 13 queries, or a skewed random batch
    Ssb(SsbArgs),
}

#[derive(Debug, clap::Args)]
struct SsbArgs {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// parquet or csv
    #[arg(long, default_value = "parquet")]
    format: String,
    /// Modes to run, comma separated
    #[arg(long, value_delimiter = ',', default_value = "pullup,pushdown,caching,hybrid")]
    modes: Vec<String>,
    /// Limit of the segment cache; `half` for half of what the queries need
    #[arg(long, default_value = "4GiB")]
    cache_size: String,
    /// Cache policy: lfu or lru
    #[arg(long, default_value = "lfu")]
    policy: String,
    /// Limit of the storage node's link, such as 1Gbps; without it the node is in this process
    #[arg(long)]
    egress_limit: Option<String>,
    /// Run a random batch of this many queries instead of the 13: once to warm up, once reshuffled
    #[arg(long)]
    batch: Option<usize>,
    /// Skew of the batch over years
    #[arg(long, default_value_t = 2.0)]
    theta: f64,
    /// Seed of the batch
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Timed passes over the 13 queries, after one to warm up
    #[arg(long, default_value_t = 1)]
    passes: usize,
    /// Also run plain DataFusion over the same files and over tables in memory
    #[arg(long)]
    reference: bool,
    /// Small data and few queries: under a minute
    #[arg(long)]
    quick: bool,
    /// Where the generated data is kept between runs [default: a folder of the user's cache]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Write one JSON object a query to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the experiment and prints totals.
///
/// # Errors
/// If an argument does not fit or a query fails.
pub async fn bench(args: BenchArgs) -> Result<()> {
    let Workload::Ssb(args) = args.workload;
    ssb(args).await
}

async fn ssb(mut args: SsbArgs) -> Result<()> {
    if args.quick {
        args.scale = args.scale.min(0.05);
        args.batch = args.batch.map(|n| n.min(10));
    }
    let format = match args.format.to_ascii_lowercase().as_str() {
        "parquet" => Format::Parquet,
        "csv" => Format::Csv,
        other => return Err(plan_datafusion_err!("unknown format '{other}': expected parquet or csv")),
    };
    let modes = args
        .modes
        .iter()
        .map(|mode| mode.parse::<Mode>().map_err(|why| plan_datafusion_err!("{why}")))
        .collect::<Result<Vec<_>>>()?;
    let egress = args
        .egress_limit
        .as_deref()
        .map(|rate| parse_rate(rate).map_err(|why| plan_datafusion_err!("{why}")))
        .transpose()?;
    let data = ssb_data(args.data.clone(), args.scale, format, 16 << 20)?;
    let node = match &args.egress_limit {
        Some(rate) => Some(NodeProcess::start(&data, Some(rate)).await?),
        None => None,
    };
    let location = match &node {
        Some(node) => format!("thermocline://{}", node.address),
        None => data.display().to_string(),
    };
    let measurement = Measurement {
        workload: "ssb".into(),
        scale: args.scale,
        format: args.format.to_ascii_lowercase(),
        egress_bytes_per_s: egress,
    };
    let mut sink = Sink::new(args.json.as_ref())?;

    let (warmup, timed) = queries(&args);
    let cache_size = match args.cache_size.as_str() {
        "half" => working_set(&location, format, &warmup).await? / 2,
        size => parse_size(size).map_err(|why| plan_datafusion_err!("{why}"))? as usize,
    };
    for mode in modes {
        let session = session(&location, format).await?;
        session.set("cache_size", &cache_size.to_string())?;
        session.set("cache_policy", &args.policy)?;
        session.set("mode", mode.name())?;
        measure(&session, &measurement, named(&warmup), "warmup", |record| sink.put(record)).await?;
        for _ in 0..args.passes.max(1) {
            measure(&session, &measurement, named(&timed), "timed", |record| sink.put(record)).await?;
        }
    }
    if args.reference {
        for reference in [Reference::Memory, Reference::Files, Reference::FilesPushdownFilters] {
            for run in std::iter::once("warmup").chain((0..args.passes.max(1)).map(|_| "timed")) {
                measure_reference(reference, &measurement, &data, format, named(&timed), run, |record| {
                    sink.put(record)
                })
                .await?;
            }
        }
    }
    sink.finish(cache_size)
}

type Queries = Vec<(String, String)>;

/// What to run first and what to time.
fn queries(args: &SsbArgs) -> (Queries, Queries) {
    match args.batch {
        None => {
            let all: Queries = QUERIES.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect();
            (all.clone(), all)
        }
        Some(n) => {
            let first = batch(n, args.theta, args.seed);
            let again = reshuffle(&first, args.seed.wrapping_add(1));
            let pairs = |batch: Vec<thermocline_workloads::ssb::BatchQuery>| {
                batch.into_iter().map(|query| (query.name, query.sql)).collect()
            };
            (pairs(first), pairs(again))
        }
    }
}

fn named(queries: &Queries) -> impl Iterator<Item = (&str, &str)> {
    queries.iter().map(|(name, sql)| (name.as_str(), sql.as_str()))
}

async fn session(location: &str, format: Format) -> Result<Session> {
    let session = Session::open(SessionOptions::default()).await?;
    for table in TABLES {
        session.run(&create_table_sql(table, format, &format!("{location}/{table}"))).await?;
    }
    Ok(session)
}

/// Bytes that the queries' segments take when all of them are cached.
async fn working_set(location: &str, format: Format, queries: &Queries) -> Result<usize> {
    let session = session(location, format).await?;
    session.set("cache_size", "1TiB")?;
    session.set("mode", "caching")?;
    for (_, sql) in queries {
        session.run(sql).await?;
    }
    Ok(session.engine().cache.bytes().0)
}

/// Where records go, and their sums by mode and run.
struct Sink {
    json: Option<BufWriter<File>>,
    totals: Vec<Total>,
}

struct Total {
    mode: String,
    run: &'static str,
    queries: u64,
    seconds: f64,
    bytes: u64,
    dollars: f64,
}

impl Sink {
    fn new(json: Option<&PathBuf>) -> Result<Self> {
        let json = json
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
            })
            .transpose()?;
        Ok(Self { json, totals: vec![] })
    }

    fn put(&mut self, record: Record) -> Result<()> {
        if let Some(json) = &mut self.json {
            let line = serde_json::to_string(&record).map_err(|error| exec_datafusion_err!("{error}"))?;
            writeln!(json, "{line}").map_err(|error| exec_datafusion_err!("{error}"))?;
        }
        let total = match self.totals.iter_mut().find(|total| total.mode == record.mode && total.run == record.run) {
            Some(total) => total,
            None => {
                self.totals.push(Total {
                    mode: record.mode.clone(),
                    run: record.run,
                    queries: 0,
                    seconds: 0.0,
                    bytes: 0,
                    dollars: 0.0,
                });
                let Some(total) = self.totals.last_mut() else { return Ok(()) };
                total
            }
        };
        total.queries += 1;
        total.seconds += record.seconds;
        total.bytes += record.bytes_from_storage + record.bytes_to_storage;
        total.dollars += record.dollars;
        Ok(())
    }

    fn finish(mut self, cache_size: usize) -> Result<()> {
        if let Some(json) = &mut self.json {
            json.flush().map_err(|error| exec_datafusion_err!("{error}"))?;
        }
        println!("cache of {}", format_size(cache_size as u64));
        println!("{:<34}{:<8}{:>8}{:>10}{:>14}{:>12}", "mode", "run", "queries", "seconds", "bytes moved", "dollars");
        for total in &self.totals {
            println!(
                "{:<34}{:<8}{:>8}{:>10.3}{:>14}{:>12.6}",
                total.mode,
                total.run,
                total.queries,
                total.seconds,
                format_size(total.bytes),
                total.dollars
            );
        }
        Ok(())
    }
}
