//! Compares replacement algorithms with the bound, on synthetic traces or on a recorded one:
//! `cargo run --release -p thermocline-replay --example compare [TRACE]`.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use thermocline_replay::bound::{Effort, lower_bound, offline_plan};
use thermocline_replay::sim::{Offline, Report, algorithms, simulate};
use thermocline_replay::synthetic::Synthetic;
use thermocline_replay::trace::Trace;

/// Cache sizes in percent of the working set.
const SIZES: [u64; 4] = [10, 25, 50, 75];

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::args().nth(1) {
        compare(&path, &Trace::read(BufReader::new(File::open(&path)?))?);
        return Ok(());
    }
    compare("stationary", &Synthetic::stationary(1).trace());
    compare("drifting", &Synthetic::drifting(1).trace());
    Ok(())
}

fn compare(name: &str, trace: &Trace) {
    let mut columns = vec![];
    for percent in SIZES {
        let capacity = trace.working_set_bytes() / 100 * percent;
        let mut reports: Vec<Report> = algorithms(trace, capacity)
            .into_iter()
            .map(|mut algorithm| simulate(trace, capacity, algorithm.as_mut()))
            .collect();
        let target = reports.iter().map(Report::seconds).fold(f64::INFINITY, f64::min);
        let bound = lower_bound(trace, capacity, Effort { rounds: 3000, target });
        let fastest = reports.iter().position(|report| report.seconds() <= target).unwrap_or(0);
        let Some(mut fastest) = algorithms(trace, capacity).into_iter().nth(fastest) else { continue };
        let plan = offline_plan(trace, capacity, &bound, fastest.as_mut());
        reports.push(simulate(trace, capacity, &mut Offline::new(plan)));
        columns.push((bound.seconds, reports));
    }
    let nothing = trace.lookups.iter().flat_map(|lookup| &lookup.partitions);
    let nothing: f64 = nothing.map(|partition| partition.other_seconds).sum();
    println!("\n{name}: time relative to the bound, hit ratio, GB moved, by cache in % of the working set");
    print!("{:32}", "");
    SIZES.iter().for_each(|percent| print!("{percent:>20} %"));
    print!("\n{:32}", "bound, seconds");
    columns.iter().for_each(|(bound, _)| print!("{bound:>22.2}"));
    print!("\n{:32}", "nothing cached");
    columns.iter().for_each(|(bound, _)| print!("{:>8.3}{:14}", nothing / bound, ""));
    println!();
    let Some((_, first)) = columns.first() else { return };
    for (position, report) in first.iter().enumerate() {
        print!("{:32}", report.algorithm);
        for (bound, reports) in &columns {
            let Some(report) = reports.get(position) else { continue };
            let moved = report.bytes_moved() as f64 / 1e9;
            print!("{:>8.3} {:>5.2} {moved:>7.2}", report.seconds() / bound, report.hit_ratio());
        }
        println!();
    }
}
