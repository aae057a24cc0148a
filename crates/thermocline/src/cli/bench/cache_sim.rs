//! `thermocline bench cache-sim`: replacement algorithms over traces, relative to the best that any of them could do.

use std::path::{Path, PathBuf};

use thermocline_replay::bound::{Effort, lower_bound, offline_plan};
use thermocline_replay::sim::{Offline, Report, algorithms, algorithms_of_forms, simulate};
use thermocline_replay::synthetic::Synthetic;
use thermocline_replay::trace::Trace;

use super::super::Failure;
use super::arguments::{distinct, number};

/// Rounds in which the bound is improved.
const ROUNDS: usize = 3000;
/// The same with `--quick`.
const QUICK_ROUNDS: usize = 200;
/// Lookups of a synthetic trace with `--quick`.
const QUICK_LOOKUPS: usize = 100;

/// Arguments of `thermocline bench cache-sim`.
#[derive(Debug, clap::Args)]
pub struct CacheSimArgs {
    /// Traces recorded with `bench ssb --trace` or `bench tpch --trace` [default: a stationary and a drifting synthetic
    /// one]
    traces: Vec<PathBuf>,
    /// Cache sizes in percent of all segments, comma separated
    #[arg(long, value_delimiter = ',', default_value = "10,25,50,75", value_parser = percent)]
    sizes: Vec<f64>,
    /// Seed of synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Short synthetic traces and a looser bound
    #[arg(long)]
    quick: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0, "percentage")
}

/// Replays every trace under every algorithm, and prints a table of each.
///
/// # Errors
/// If a trace cannot be read.
pub fn cache_sim(args: &CacheSimArgs) -> Result<(), Failure> {
    distinct("--sizes", &args.sizes)?;
    if args.traces.is_empty() {
        let short = |synthetic: Synthetic| match args.quick {
            true => Synthetic { lookups: QUICK_LOOKUPS, ..synthetic },
            false => synthetic,
        };
        compare("stationary, synthetic", &short(Synthetic::stationary(args.seed)).trace(), args);
        compare("drifting, synthetic", &short(Synthetic::drifting(args.seed)).trace(), args);
    }
    for path in &args.traces {
        compare(&path.display().to_string(), &read(path)?, args);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Trace, Failure> {
    Trace::open(path).map_err(|error| Failure::Failed(format!("trace {}: {error}", path.display())))
}

/// Reports of all algorithms at one cache size. After the one that knows the future come those that keep stored bytes as
/// well, for which the bound is none.
struct AtSize {
    bound_seconds: f64,
    reports: Vec<Report>,
}

fn at_size(trace: &Trace, percent: f64, rounds: usize) -> AtSize {
    let capacity = (trace.working_set_bytes() as f64 / 100.0 * percent) as u64;
    let run =
        |mut algorithm: Box<dyn thermocline_replay::sim::Algorithm>| simulate(trace, capacity, algorithm.as_mut());
    let mut reports: Vec<Report> = algorithms(trace, capacity).into_iter().map(run).collect();
    let target = reports.iter().map(Report::seconds).fold(f64::INFINITY, f64::min);
    let bound = lower_bound(trace, capacity, Effort { rounds, target });
    let fastest = reports.iter().position(|report| report.seconds() <= target).unwrap_or(0);
    if let Some(mut fastest) = algorithms(trace, capacity).into_iter().nth(fastest) {
        let plan = offline_plan(trace, capacity, &bound, fastest.as_mut());
        reports.push(simulate(trace, capacity, &mut Offline::new(plan)));
    }
    reports.extend(algorithms_of_forms(trace).into_iter().map(run));
    AtSize { bound_seconds: bound.seconds, reports }
}

fn compare(name: &str, trace: &Trace, args: &CacheSimArgs) {
    let rounds = if args.quick { QUICK_ROUNDS } else { ROUNDS };
    let columns: Vec<AtSize> = args.sizes.iter().map(|percent| at_size(trace, *percent, rounds)).collect();
    let megabytes = trace.working_set_bytes() as f64 / 1e6;
    say!("{name}: {} lookups over {} segments of {megabytes:.1} MB", trace.lookups.len(), trace.segments.len());
    say!("time relative to the bound, hit ratio, GB moved, by cache in % of all segments");
    let row = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>24}")).collect();
        say!("  {label:<30}{cells}");
    };
    row("", args.sizes.iter().map(|percent| format!("{percent} %")).collect());
    row("bound, seconds", columns.iter().map(|column| format!("{:.3}", column.bound_seconds)).collect());
    let Some(first) = columns.first() else { return };
    for (position, report) in first.reports.iter().enumerate() {
        let cell = |column: &AtSize| {
            let report = column.reports.get(position)?;
            let seconds = report.seconds() / column.bound_seconds.max(f64::MIN_POSITIVE);
            let moved = report.bytes_moved() as f64 / 1e9;
            Some(format!("{seconds:.3}  {:.2} {moved:>8.3}", report.hit_ratio()))
        };
        row(&report.algorithm, columns.iter().filter_map(cell).collect());
    }
}
