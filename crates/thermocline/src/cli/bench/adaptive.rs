//! `thermocline bench adaptive`: section 6.2 of the 2023 paper.
//!
//! TPC-H Q12 and Q14 against a storage node process of one pushdown slot on a core of its own,
//! behind a limited link, over its compute power: without pushdown, with eager and with adaptive
//! pushdown; alone and both at once; the queue by pushdown amenability and by arrival. Their
//! pushable parts, Q12p and Q14p, are run alone as well, because the optimum n = k/(k+1) N is one
//! of requests and not of whole queries.

use std::collections::HashMap;

use datafusion::common::{Result, plan_datafusion_err};
use thermocline_pushdown::units::parse_rate;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::Measurement;
use thermocline_workloads::figures::{Axis, Caption, Point, Scale, lines};
use thermocline_workloads::generate::Format;

use super::super::node_process::NodeOptions;
use super::super::storage::parse_power;
use super::common::CommonArgs;
use super::contest::{Contest, Outcome, Strategy, Trial};
use super::figures::Figures;

/// Arguments of `thermocline bench adaptive`.
#[derive(Debug, clap::Args)]
pub struct AdaptiveArgs {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Shares of a core that the storage node may compute with, comma separated
    #[arg(long, value_delimiter = ',', value_parser = parse_power, default_value = "1,0.8,0.6,0.5,0.4,0.3,0.25,0.2,0.15,0.1,0.05")]
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
    #[command(flatten)]
    common: CommonArgs,
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

type Outcomes = HashMap<(Strategy, bool, &'static str), Outcome>;

/// Runs the experiment and prints a table per compute power.
///
/// # Errors
/// If an argument does not fit, a query fails, or two strategies disagree on a result.
pub async fn adaptive(mut args: AdaptiveArgs) -> Result<()> {
    if args.common.quick {
        args.scale = args.scale.min(0.02);
        args.passes = 1;
        args.compute_power = vec![0.5, 0.1];
        args.partition_size = "128KiB".to_owned();
        args.egress_limit = "20Mbps".to_owned();
    }
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale: args.scale,
        format: Format::Parquet,
        egress_bytes_per_s: Some(parse_rate(&args.egress_limit).map_err(|why| plan_datafusion_err!("{why}"))?),
    };
    let node = NodeOptions {
        egress_limit: Some(args.egress_limit),
        pushdown_slots: Some(1),
        pushback_slots: Some(args.pushback_slots),
        ..NodeOptions::default()
    };
    let figures = Figures::new(args.common.figures.as_ref())?;
    let mut queries = HashMap::from([("Q12p", Q12_PUSHABLE), ("Q14p", Q14_PUSHABLE)]);
    queries.extend(Workload::TPCH.queries.iter().filter(|(name, _)| ALONE.contains(name)).copied());
    let mut contest = Contest::new(measurement, args.common, node, &args.partition_size)?;
    let mut by_power = vec![];
    for power in args.compute_power {
        let mut outcomes = Outcomes::new();
        for strategy in Strategy::ALL {
            run(&mut contest, &queries, strategy, power, args.passes, &mut outcomes).await?;
        }
        print(power, &outcomes);
        by_power.push((power, outcomes));
    }
    contest.finish()?;
    figures.write("adaptive-seconds", || seconds_figure(contest.measurement(), &by_power))?;
    figures.write("adaptive-admitted", || admitted_figure(contest.measurement(), &by_power))
}

/// Runs every query alone, and those that belong together at once.
async fn run(
    contest: &mut Contest,
    queries: &HashMap<&'static str, &'static str>,
    strategy: Strategy,
    power: f64,
    passes: usize,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let trial = Trial { strategy, power, concurrent: false };
    let (_node, session) = contest.begin(trial).await?;
    let named = |name| (name, queries.get(name).copied().unwrap_or_default());
    for query in ALONE {
        let outcome = contest.run(&session, trial, named(query), passes).await?;
        outcomes.extend(outcome.map(|outcome| ((strategy, false, query), outcome)));
    }
    let trial = Trial { concurrent: true, ..trial };
    let mut runs: HashMap<&'static str, Vec<Outcome>> = HashMap::new();
    for [first, second] in AT_ONCE {
        for _ in 0..passes.max(1) {
            let (left, right) = tokio::join!(
                contest.measured(session.clone(), named(first), "timed"),
                contest.measured(session.clone(), named(second), "timed")
            );
            for (query, record) in [(first, left?), (second, right?)] {
                runs.entry(query).or_default().extend(contest.put(&record, trial)?);
            }
        }
    }
    for (query, runs) in runs {
        outcomes.extend(Outcome::median(runs).map(|outcome| ((strategy, true, query), outcome)));
    }
    Ok(())
}

/// Every query, and whether it is not alone.
fn cases() -> impl Iterator<Item = (&'static str, bool)> {
    ALONE.iter().map(|query| (*query, false)).chain(AT_ONCE.iter().flatten().map(|query| (*query, true)))
}

fn label(query: &str, concurrent: bool) -> String {
    if concurrent { format!("{query} at once") } else { query.to_owned() }
}

/// The admitted requests that are best if `no` and `eager` pushdown take these seconds: k/(k+1) N
/// with k = no / eager.
fn optimum(no: &Outcome, eager: &Outcome, asked: u64) -> f64 {
    let k = no.seconds / eager.seconds;
    k / (k + 1.0) * asked as f64
}

const POWER: Axis<'static> = Axis { label: "compute power of storage", scale: Scale::Log };

fn seconds_figure(measurement: &Measurement, by_power: &[(f64, Outcomes)]) -> Result<String> {
    let mut points = vec![];
    for (query, concurrent) in cases() {
        for strategy in Strategy::ALL {
            points.extend(by_power.iter().filter_map(|(power, outcomes)| {
                let outcome = outcomes.get(&(strategy, concurrent, query))?;
                Some(Point::new(label(query, concurrent), strategy.name(), *power, outcome.seconds))
            }));
        }
    }
    let caption = Caption::new("Seconds by pushdown strategy over compute power", measurement);
    lines(&caption, POWER, Axis { label: "seconds", scale: Scale::Log }, &points)
}

fn admitted_figure(measurement: &Measurement, by_power: &[(f64, Outcomes)]) -> Result<String> {
    let mut points = vec![];
    for query in ALONE {
        // How many are worth pushing is learnt, so that it may differ.
        let asked = by_power.iter().filter_map(|(_, of)| of.get(&(Strategy::AdaptivePaAware, false, query)));
        let asked = asked.map(|aware| aware.asked).max().unwrap_or_default();
        let panel = format!("{query}, N = {asked}");
        for (power, outcomes) in by_power {
            let [Some(no), Some(eager), Some(aware), Some(fifo)] =
                Strategy::ALL.map(|strategy| outcomes.get(&(strategy, false, query)))
            else {
                continue;
            };
            points.push(Point::new(&panel, "optimum k/(k+1) N", *power, optimum(no, eager, aware.asked)));
            points.push(Point::new(&panel, "admitted, PA-aware", *power, aware.admitted as f64));
            points.push(Point::new(&panel, "admitted, FIFO", *power, fifo.admitted as f64));
        }
    }
    let caption = Caption::new("Admitted pushdown requests against the optimum", measurement);
    lines(&caption, POWER, Axis { label: "requests", scale: Scale::Linear }, &points)
}

fn print(power: f64, outcomes: &Outcomes) {
    let of = |strategy, concurrent, query| outcomes.get(&(strategy, concurrent, query)).copied();
    say!("compute power {power}");
    say!(
        "  {:<14}{:>9}{:>9}{:>10}{:>9}{:>9}{:>7}{:>6}{:>10}",
        "query",
        "no",
        "eager",
        "adaptive",
        "fifo",
        "best by",
        "N",
        "n",
        "optimum"
    );
    for (query, concurrent) in cases() {
        let [Some(no), Some(eager), Some(aware), Some(fifo)] =
            Strategy::ALL.map(|strategy| of(strategy, concurrent, query))
        else {
            continue;
        };
        say!(
            "  {:<14}{:>9.3}{:>9.3}{:>10.3}{:>9.3}{:>9.2}{:>7}{:>6}{:>10.1}",
            label(query, concurrent),
            no.seconds,
            eager.seconds,
            aware.seconds,
            fifo.seconds,
            no.seconds.min(eager.seconds) / aware.seconds,
            aware.asked,
            aware.admitted,
            optimum(&no, &eager, aware.asked),
        );
    }
}
