//! `thermocline bench adaptive`: section 6.2 of the 2023 paper.
//!
//! TPC-H Q12 and Q14 against a storage node process of one pushdown slot on a core of its own,
//! behind a limited link, over its compute power: without pushdown, with eager and with adaptive
//! pushdown; alone and both at once; the queue by pushdown amenability and by arrival. Their
//! pushable parts, Q12p and Q14p, are run alone as well, because the optimum n = k/(k+1) N is one
//! of requests and not of whole queries.

use std::collections::HashMap;
use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_datafusion_err};
use serde_json::json;
use thermocline_compute::{Session, SessionOptions};
use thermocline_pushdown::units::{parse_rate, parse_size};
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, measure};
use thermocline_workloads::generate::{Format, create_table_sql};

use super::super::failure::notice;
use super::super::node_process::{NodeOptions, NodeProcess, pin_this_process};
use super::super::workload_data::workload_data;
use super::sink::JsonLines;

/// Arguments of `thermocline bench adaptive`.
#[derive(Debug, clap::Args)]
pub struct AdaptiveArgs {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Shares of a core that the storage node may compute with, comma separated
    #[arg(long, value_delimiter = ',', default_value = "1,0.8,0.6,0.5,0.4,0.3,0.25,0.2,0.15,0.1,0.05")]
    compute_power: Vec<f64>,
    /// Limit of the storage node's link
    #[arg(long, default_value = "200Mbps")]
    egress_limit: String,
    /// Stored bytes of an object, each of which is a partition
    #[arg(long, default_value = "2MiB")]
    partition_size: String,
    /// Transfers after a pushback at once
    #[arg(long, default_value_t = 4)]
    pushback_slots: u32,
    /// Timed runs of each, after one to warm up; the median counts
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Small data and few runs: under a minute
    #[arg(long)]
    quick: bool,
    /// Where the generated data is kept between runs [default: a folder of the user's cache]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Write one JSON object a query to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The scan of Q12 that may be pushed down.
const Q12_PUSHABLE: &str = "select l_shipmode, l_orderkey from lineitem where l_shipmode in ('MAIL', 'SHIP') \
    and l_commitdate < l_receiptdate and l_shipdate < l_commitdate \
    and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'";
/// The scan of Q14 that may be pushed down.
const Q14_PUSHABLE: &str = "select l_partkey, l_extendedprice, l_discount from lineitem \
    where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'";
/// What runs alone, and what runs at once.
const ALONE: [&str; 4] = ["Q12", "Q14", "Q12p", "Q14p"];
const AT_ONCE: [[&str; 2]; 2] = [["Q12", "Q14"], ["Q12p", "Q14p"]];

/// Who decides on pushdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Strategy {
    /// Nobody: nothing is pushed down.
    No,
    /// The compute node: everything is.
    Eager,
    /// The storage node, its queue by pushdown amenability.
    AdaptivePaAware,
    /// The storage node, its queue by arrival.
    AdaptiveFifo,
}

impl Strategy {
    const ALL: [Self; 4] = [Self::No, Self::Eager, Self::AdaptivePaAware, Self::AdaptiveFifo];

    fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Eager => "eager",
            Self::AdaptivePaAware => "adaptive-pa-aware",
            Self::AdaptiveFifo => "adaptive-fifo",
        }
    }
}

/// The median run of one query under one strategy.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    seconds: f64,
    /// N.
    asked: u64,
    /// n.
    admitted: u64,
}

type Outcomes = HashMap<(Strategy, bool, &'static str), Outcome>;

struct Bench {
    args: AdaptiveArgs,
    measurement: Measurement,
    data: PathBuf,
    queries: HashMap<&'static str, &'static str>,
    /// Whether storage and compute have a core each.
    pinned: bool,
    sink: JsonLines,
    /// Results by query, which must not depend on the strategy.
    hashes: HashMap<String, String>,
}

/// Runs the experiment and prints a table per compute power.
///
/// # Errors
/// If an argument does not fit, a query fails, or two strategies disagree on a result.
pub async fn adaptive(mut args: AdaptiveArgs) -> Result<()> {
    let wrong = |why: String| plan_datafusion_err!("{why}");
    if args.quick {
        args.scale = args.scale.min(0.02);
        args.passes = 1;
        args.compute_power = vec![0.5, 0.1];
        args.partition_size = "128KiB".to_owned();
        args.egress_limit = "20Mbps".to_owned();
    }
    let partition_size = parse_size(&args.partition_size).map_err(wrong)?;
    let egress = parse_rate(&args.egress_limit).map_err(wrong)?;
    let data = workload_data(&Workload::TPCH, args.data.clone(), args.scale, Format::Parquet, partition_size)?;
    let mut queries = HashMap::from([("Q12p", Q12_PUSHABLE), ("Q14p", Q14_PUSHABLE)]);
    queries.extend(Workload::TPCH.queries.iter().filter(|(name, _)| ALONE.contains(name)).copied());
    let pinned = match pin_this_process(0) {
        Ok(()) => true,
        Err(why) => {
            notice(format_args!("storage and compute share their cores: {why}"));
            false
        }
    };
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale: args.scale,
        format: Format::Parquet,
        egress_bytes_per_s: Some(egress),
    };
    let sink = JsonLines::new(args.json.as_ref())?;
    let mut bench = Bench { args, measurement, data, queries, pinned, sink, hashes: HashMap::new() };
    for power in bench.args.compute_power.clone() {
        let mut outcomes = Outcomes::new();
        for strategy in Strategy::ALL {
            bench.run(strategy, power, &mut outcomes).await?;
        }
        print(power, &outcomes);
    }
    bench.sink.flush()
}

impl Bench {
    async fn run(&mut self, strategy: Strategy, power: f64, outcomes: &mut Outcomes) -> Result<()> {
        let options = NodeOptions {
            egress_limit: Some(self.args.egress_limit.clone()),
            compute_power: Some(power),
            pushdown_slots: Some(1),
            pushback_slots: match strategy {
                Strategy::No | Strategy::Eager => None,
                Strategy::AdaptivePaAware | Strategy::AdaptiveFifo => Some(self.args.pushback_slots),
            },
            arbitration: (strategy == Strategy::AdaptiveFifo).then(|| "fifo".to_owned()),
            core: self.pinned.then_some(1),
        };
        let node = NodeProcess::start(&self.data, &options).await?;
        let session = session(&node).await?;
        session.set("mode", if strategy == Strategy::No { "pullup" } else { "pushdown" })?;
        // Enough that the node has a choice whenever a slot is free.
        session.set("partitions_in_flight", "32")?;
        for query in ALONE {
            let mut runs = vec![];
            for pass in 0..=self.args.passes.max(1) {
                let run = if pass == 0 { "warmup" } else { "timed" };
                let record = self.measured(session.clone(), query, run).await?;
                runs.extend(self.put(record, strategy, power, false)?);
            }
            outcomes.extend(median(runs).map(|outcome| ((strategy, false, query), outcome)));
        }
        let mut runs: HashMap<&'static str, Vec<Outcome>> = HashMap::new();
        for [first, second] in AT_ONCE {
            for _ in 0..self.args.passes.max(1) {
                let (left, right) = tokio::join!(
                    self.measured(session.clone(), first, "timed"),
                    self.measured(session.clone(), second, "timed")
                );
                for (query, record) in [(first, left?), (second, right?)] {
                    runs.entry(query).or_default().extend(self.put(record, strategy, power, true)?);
                }
            }
        }
        for (query, runs) in runs {
            outcomes.extend(median(runs).map(|outcome| ((strategy, true, query), outcome)));
        }
        Ok(())
    }

    /// Runs a query in a task of its own.
    async fn measured(&self, session: Session, query: &'static str, run: &'static str) -> Result<Record> {
        let sql = self.queries.get(query).copied().unwrap_or_default();
        let measurement = self.measurement.clone();
        let task = tokio::spawn(async move {
            let mut records = vec![];
            measure(&session, &measurement, [(query, sql)], run, |record| {
                records.push(record);
                Ok(())
            })
            .await?;
            records.pop().ok_or_else(|| exec_datafusion_err!("query {query} left no record"))
        });
        task.await.map_err(|error| exec_datafusion_err!("query {query}: {error}"))?
    }

    /// Writes a record; its outcome if it was timed.
    fn put(&mut self, record: Record, strategy: Strategy, power: f64, concurrent: bool) -> Result<Option<Outcome>> {
        let known = self.hashes.entry(record.query.clone()).or_insert_with(|| record.result_hash.clone());
        if *known != record.result_hash {
            return exec_err!("query {} has another result with strategy {}", record.query, strategy.name());
        }
        let asked = record.partitions_pushdown;
        let admitted = asked - record.partitions_pushed_back.min(asked);
        let outcome = (record.run == "timed").then_some(Outcome { seconds: record.seconds, asked, admitted });
        self.sink.put(
            &record,
            json!({
                "strategy": strategy.name(),
                "compute_power": power,
                "concurrent": concurrent,
                "pinned": self.pinned,
                "admitted": admitted,
            }),
        )?;
        Ok(outcome)
    }
}

async fn session(node: &NodeProcess) -> Result<Session> {
    let session = Session::open(SessionOptions::default()).await?;
    // One object, one partition.
    session.set("partition_size", "64KiB")?;
    for table in Workload::TPCH.tables {
        let location = format!("thermocline://{}/{table}", node.address);
        session.run(&create_table_sql(*table, Format::Parquet, &location)).await?;
    }
    Ok(session)
}

fn median(mut runs: Vec<Outcome>) -> Option<Outcome> {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    runs.get(runs.len() / 2).copied()
}

fn print(power: f64, outcomes: &Outcomes) {
    let of = |strategy, concurrent, query| outcomes.get(&(strategy, concurrent, query)).copied();
    println!("compute power {power}");
    println!(
        "  {:<14}{:>9}{:>9}{:>10}{:>9}{:>9}{:>7}{:>6}{:>10}",
        "query", "no", "eager", "adaptive", "fifo", "best by", "N", "n", "optimum"
    );
    let cases = ALONE.iter().map(|query| (*query, false)).chain(AT_ONCE.iter().flatten().map(|query| (*query, true)));
    for (query, concurrent) in cases {
        let [Some(no), Some(eager), Some(aware), Some(fifo)] =
            Strategy::ALL.map(|strategy| of(strategy, concurrent, query))
        else {
            continue;
        };
        let label = if concurrent { format!("{query} at once") } else { query.to_owned() };
        let k = no.seconds / eager.seconds;
        println!(
            "  {label:<14}{:>9.3}{:>9.3}{:>10.3}{:>9.3}{:>9.2}{:>7}{:>6}{:>10.1}",
            no.seconds,
            eager.seconds,
            aware.seconds,
            fifo.seconds,
            no.seconds.min(eager.seconds) / aware.seconds,
            aware.asked,
            aware.admitted,
            k / (k + 1.0) * aware.asked as f64,
        );
    }
}
