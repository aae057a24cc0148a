//! `thermocline bench tpch --compute-power`: the 22 queries without, with eager and with adaptive
//! pushdown over the storage node's compute power (Enhancing Computation Pushdown section 6.2,
//! figure 6).

use datafusion::common::Result as DataFusionResult;
use thermocline_pushdown::units::parse_rate;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{AtPower, BreakEven, Measurement, geometric_mean};
use thermocline_workloads::figures::{Axis, Caption, Point, Scale, lines};

use super::super::Failure;
use super::super::node_process::NodeOptions;
use super::arguments::{check_scale, distinct};
use super::contest::{Contest, OWN_SETTINGS, Outcome, Strategy, Trial};
use super::experiment::{Queries, chosen};
use super::figures::Figures;
use super::tpch::TpchArgs;

/// Queries that `--quick` runs by default.
const QUICK_QUERIES: [&str; 4] = ["1", "6", "12", "14"];
/// The strategies of the paper's figure.
const STRATEGIES: [Strategy; 3] = [Strategy::No, Strategy::Eager, Strategy::AdaptivePaAware];

/// A query under [`STRATEGIES`] at one compute power.
struct Compared {
    query: String,
    seconds: AtPower,
    /// Outcome of adaptive pushdown.
    adaptive: Outcome,
}

/// Runs every query under every strategy at every compute power; prints a table for each power and
/// one of the powers where no and eager pushdown break even.
///
/// # Errors
/// If an argument is invalid, a query fails, or two strategies disagree on a result.
pub async fn sweep(args: TpchArgs) -> Result<(), Failure> {
    let TpchArgs { experiment: mut args, compute_power: mut powers, partition_size } = args;
    let quick = args.common.quick;
    distinct("--compute-power", &powers)?;
    powers.sort_by(|a, b| b.total_cmp(a));
    let scale = args.scale.unwrap_or(if quick { 0.01 } else { 1.0 });
    let partition_size = partition_size.unwrap_or(if quick { 128 << 10 } else { 2 << 20 });
    let egress_limit = if quick { "20Mbps" } else { "200Mbps" };
    if quick && args.queries.is_empty() {
        args.queries = QUICK_QUERIES.map(str::to_owned).to_vec();
    }
    check_scale(&Workload::TPCH, scale)?;
    args.common.refuse_own(&OWN_SETTINGS)?;
    let node = NodeOptions {
        egress_limit: args.node.egress_limit.or(Some(egress_limit.to_owned())),
        pushdown_slots: args.node.pushdown_slots.or(Some(1)),
        pushback_slots: args.node.pushback_slots.or(Some(4)),
        ..args.node
    };
    let egress = node.egress_limit.as_deref().map(parse_rate).transpose();
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale,
        format: args.format,
        egress_bytes_per_s: egress.map_err(Failure::Usage)?,
    };
    let queries = chosen(&measurement.workload, &args.queries)?;
    let figures = Figures::new(&args.figures)?;
    let mut contest = Contest::new(measurement, args.common, node, partition_size)?;
    let mut all = vec![];
    for power in powers {
        let compared = compare(&mut contest, &queries, power, args.passes).await?;
        print(power, &compared);
        all.extend(compared);
    }
    contest.finish()?;
    print_break_even(&queries, &all);
    figures.write("tpch-compute-power", || figure(contest.measurement(), &queries, &all))?;
    Ok(())
}

async fn compare(
    contest: &mut Contest,
    queries: &Queries,
    power: f64,
    passes: usize,
) -> DataFusionResult<Vec<Compared>> {
    let mut outcomes: Vec<Vec<Outcome>> = queries.iter().map(|_| vec![]).collect();
    for strategy in STRATEGIES {
        let trial = Trial { strategy, power, concurrent: false };
        let (_node, session) = contest.begin(trial).await?;
        for ((name, sql), outcomes) in queries.iter().zip(&mut outcomes) {
            outcomes.extend(contest.run(&session, trial, (name, sql), passes).await?);
        }
    }
    let compared = queries.iter().zip(outcomes).filter_map(|((query, _), outcomes)| match outcomes.as_slice() {
        [no, eager, adaptive] => Some(Compared {
            query: query.clone(),
            seconds: AtPower { power, no: no.seconds, eager: eager.seconds, adaptive: adaptive.seconds },
            adaptive: *adaptive,
        }),
        _ => None,
    });
    Ok(compared.collect())
}

fn print(power: f64, compared: &[Compared]) {
    say!("compute power {power}");
    say!("  {:<16}{:>28}{:>30}{:>13}", "", "seconds", "over those of the better", "partitions");
    say!(
        "  {:<16}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>7}{:>6}",
        "query",
        "no",
        "eager",
        "adaptive",
        "no",
        "eager",
        "adaptive",
        "N",
        "n"
    );
    // Seconds relative to the better of no and eager pushdown.
    let ratios = |at: &AtPower| [at.no, at.eager, at.adaptive].map(|seconds| seconds / at.no.min(at.eager));
    for Compared { query, seconds, adaptive } in compared {
        let [no, eager, ratio] = ratios(seconds);
        say!(
            "  {query:<16}{:>9.3}{:>9.3}{:>10.3}{no:>10.2}{eager:>10.2}{ratio:>10.2}{:>7}{:>6}",
            seconds.no,
            seconds.eager,
            seconds.adaptive,
            adaptive.asked,
            adaptive.admitted
        );
    }
    let mean = |of: fn([f64; 3]) -> f64| {
        geometric_mean(compared.iter().map(|one| of(ratios(&one.seconds)))).unwrap_or(f64::NAN)
    };
    let means = [mean(|[no, _, _]| no), mean(|[_, eager, _]| eager), mean(|[_, _, adaptive]| adaptive)];
    let [no, eager, adaptive] = means;
    say!("  {:<16}{:>28}{no:>10.2}{eager:>10.2}{adaptive:>10.2}", "geometric mean", "");
}

/// Break-even point of the query; `None` if it was not measured.
fn break_even(query: &str, all: &[Compared]) -> Option<BreakEven> {
    let measured: Vec<AtPower> = all.iter().filter(|one| one.query == query).map(|one| one.seconds).collect();
    BreakEven::find(&measured)
}

fn print_break_even(queries: &Queries, all: &[Compared]) {
    say!("where no and eager pushdown break even");
    say!("  {:<16}{:>14}{:>20}", "query", "compute power", "adaptive is faster");
    let mut speed_ups = vec![];
    for (query, _) in queries {
        match break_even(query, all) {
            Some(BreakEven::At { power, speed_up }) => {
                say!("  {query:<16}{power:>14.3}{speed_up:>18.2} x");
                speed_ups.push(speed_up);
            }
            Some(BreakEven::Below(power)) => say!("  {query:<16}{:>14}", format!("below {power}")),
            Some(BreakEven::Above(power)) => say!("  {query:<16}{:>14}", format!("above {power}")),
            None => {}
        }
    }
    if let Some(mean) = geometric_mean(speed_ups) {
        say!("  {:<16}{:>14}{mean:>18.2} x", "geometric mean", "");
    }
}

/// Seconds relative to no pushdown, as in the paper: a panel for each query and one for all.
fn figure(measurement: &Measurement, queries: &Queries, all: &[Compared]) -> DataFusionResult<String> {
    let relative = |panel: &str, at: &AtPower| {
        [("no pushdown", at.no), ("eager", at.eager), ("adaptive", at.adaptive)]
            .map(|(series, seconds)| Point::new(panel, series, at.power, seconds / at.no))
    };
    let mut points: Vec<Point<f64>> = vec![];
    for (query, _) in queries {
        let panel = match break_even(query, all) {
            Some(BreakEven::At { power, .. }) => format!("{query}, even at {power:.2}"),
            _ => query.clone(),
        };
        points.extend(all.iter().filter(|one| one.query == *query).flat_map(|one| relative(&panel, &one.seconds)));
    }
    let mut powers: Vec<f64> = all.iter().map(|one| one.seconds.power).collect();
    powers.dedup();
    for power in powers {
        let there = || all.iter().map(|one| one.seconds).filter(|at| at.power == power);
        let mean = |of: fn(AtPower) -> f64| geometric_mean(there().map(of)).unwrap_or(f64::NAN);
        let at = AtPower { power, no: mean(|at| at.no), eager: mean(|at| at.eager), adaptive: mean(|at| at.adaptive) };
        points.extend(relative("geometric mean", &at));
    }
    let caption = Caption::new("Pushdown strategies over compute power, relative to no pushdown", measurement);
    let x = Axis { label: "compute power of storage", scale: Scale::Log };
    lines(&caption, x, Axis { label: "seconds / seconds of no pushdown", scale: Scale::Log }, &points)
}
