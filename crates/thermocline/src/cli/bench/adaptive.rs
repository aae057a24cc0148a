//! `thermocline bench adaptive`: section 6.2 of Enhancing Computation Pushdown.
//!
//! TPC-H Q12 and Q14 against a storage node process with one pushdown slot on a core of its own, behind a limited link,
//! over its compute power: without pushdown, with eager and with adaptive pushdown; alone and both at once; the queue
//! by pushdown amenability and by arrival. Their pushable parts, Q12p and Q14p, also run alone, because the optimum n =
//! k/(k+1) N applies to requests and not to whole queries.

use std::collections::HashMap;

use datafusion::common::Result as DataFusionResult;
use thermocline_pushdown::units::parse_rate;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::Measurement;
use thermocline_workloads::figures::{Axis, Caption, Point, Scale, lines};
use thermocline_workloads::generate::Format;

use super::super::Failure;
use super::super::node_process::NodeOptions;
use super::super::storage::parse_power;
use super::arguments::{at_least, check_scale, distinct, partition_size, rate};
use super::common::CommonArgs;
use super::contest::{Contest, OWN_SETTINGS, Outcome, Strategy, Trial};
use super::figures::{Figures, FiguresArgs};

/// Arguments of `thermocline bench adaptive`.
#[derive(Debug, clap::Args)]
pub struct AdaptiveArgs {
    /// Scale factor [default: 1, with --quick 0.02]
    #[arg(long)]
    scale: Option<f64>,
    /// Compute powers of the storage node, as shares of a core, comma separated [default: 1 to 0.05 in 11 steps, with
    /// --quick 0.5,0.1]
    #[arg(long, value_delimiter = ',', value_parser = parse_power)]
    compute_power: Vec<f64>,
    /// Limit of the storage node's link [default: 200Mbps, with --quick 20Mbps]
    #[arg(long, value_parser = rate)]
    egress_limit: Option<String>,
    /// Stored bytes of an object, which is one partition [default: 2MiB, with --quick 128KiB]
    #[arg(long, value_parser = partition_size)]
    partition_size: Option<u64>,
    /// Concurrent transfers after pushbacks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pushback_slots: u32,
    /// Timed runs of each query, after a warm-up; the median counts [default: 3, with --quick 1]
    #[arg(long, value_parser = at_least(1))]
    passes: Option<usize>,
    #[command(flatten)]
    figures: FiguresArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Compute powers.
const POWERS: [f64; 11] = [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05];
/// Compute powers with `--quick`.
const QUICK_POWERS: [f64; 2] = [0.5, 0.1];

/// The scan of Q12 that may be pushed down.
const Q12_PUSHABLE: &str = "select l_shipmode, l_orderkey from lineitem where l_shipmode in ('MAIL', 'SHIP') \
    and l_commitdate < l_receiptdate and l_shipdate < l_commitdate \
    and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'";
/// The scan of Q14 that may be pushed down.
const Q14_PUSHABLE: &str = "select l_partkey, l_extendedprice, l_discount from lineitem \
    where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'";
/// Queries that run alone, and queries that run at once.
const ALONE: [&str; 4] = ["Q12", "Q14", "Q12p", "Q14p"];
const AT_ONCE: [[&str; 2]; 2] = [["Q12", "Q14"], ["Q12p", "Q14p"]];

type Outcomes = HashMap<(Strategy, bool, &'static str), Outcome>;

/// Runs the experiment and prints a table per compute power.
///
/// # Errors
/// If an argument is invalid, a query fails, or two strategies disagree on a result.
pub async fn adaptive(args: AdaptiveArgs) -> Result<(), Failure> {
    let quick = args.common.quick;
    let scale = args.scale.unwrap_or(if quick { 0.02 } else { 1.0 });
    let passes = args.passes.unwrap_or(if quick { 1 } else { 3 });
    let partition_size = args.partition_size.unwrap_or(if quick { 128 << 10 } else { 2 << 20 });
    let egress_limit = args.egress_limit.unwrap_or_else(|| if quick { "20Mbps" } else { "200Mbps" }.to_owned());
    let powers = match args.compute_power {
        given if !given.is_empty() => given,
        _ if quick => QUICK_POWERS.to_vec(),
        _ => POWERS.to_vec(),
    };
    distinct("--compute-power", &powers)?;
    check_scale(&Workload::TPCH, scale)?;
    args.common.refuse_own(&OWN_SETTINGS)?;
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale,
        format: Format::Parquet,
        egress_bytes_per_s: Some(parse_rate(&egress_limit).map_err(Failure::Usage)?),
    };
    let node = NodeOptions {
        egress_limit: Some(egress_limit),
        pushdown_slots: Some(1),
        pushback_slots: Some(args.pushback_slots),
        ..NodeOptions::default()
    };
    let figures = Figures::new(&args.figures)?;
    let mut queries = HashMap::from([("Q12p", Q12_PUSHABLE), ("Q14p", Q14_PUSHABLE)]);
    queries.extend(Workload::TPCH.queries.iter().filter(|(name, _)| ALONE.contains(name)).copied());
    let mut contest = Contest::new(measurement, args.common, node, partition_size)?;
    let mut by_power = vec![];
    for power in powers {
        let mut outcomes = Outcomes::new();
        for strategy in Strategy::ALL {
            run(&mut contest, &queries, strategy, power, passes, &mut outcomes).await?;
        }
        print(power, &outcomes);
        by_power.push((power, outcomes));
    }
    contest.finish()?;
    figures.write("adaptive-seconds", || seconds_figure(contest.measurement(), &by_power))?;
    figures.write("adaptive-admitted", || admitted_figure(contest.measurement(), &by_power))?;
    Ok(())
}

/// Runs every query alone, and those that run at once.
async fn run(
    contest: &mut Contest,
    queries: &HashMap<&'static str, &'static str>,
    strategy: Strategy,
    power: f64,
    passes: usize,
    outcomes: &mut Outcomes,
) -> DataFusionResult<()> {
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
        for _ in 0..passes {
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

/// Every query, and whether it runs at once with others.
fn cases() -> impl Iterator<Item = (&'static str, bool)> {
    ALONE.iter().map(|query| (*query, false)).chain(AT_ONCE.iter().flatten().map(|query| (*query, true)))
}

fn label(query: &str, concurrent: bool) -> String {
    if concurrent { format!("{query} at once") } else { query.to_owned() }
}

/// The optimal number of admitted requests if `no` and `eager` pushdown take these seconds: k/(k+1) N with k = no /
/// eager.
fn optimum(no: &Outcome, eager: &Outcome, asked: u64) -> f64 {
    let k = no.seconds / eager.seconds;
    k / (k + 1.0) * asked as f64
}

const POWER: Axis<'static> = Axis { label: "compute power of storage", scale: Scale::Log };

fn seconds_figure(measurement: &Measurement, by_power: &[(f64, Outcomes)]) -> DataFusionResult<String> {
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

fn admitted_figure(measurement: &Measurement, by_power: &[(f64, Outcomes)]) -> DataFusionResult<String> {
    let mut points = vec![];
    for query in ALONE {
        // The number worth pushing is learnt, so it may differ.
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
