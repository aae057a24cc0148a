//! Runs the simulator for many seeds, or one again.
//!
//! ```text
//! simulate --seeds 10000            seeds 0 to 9999: counts of what happened, or the first failure
//! simulate --seeds 100 --from 7000  seeds 7000 to 7099
//! simulate --seconds 60             as many as fit, from 0 or --from on
//! simulate --seed 4711              this one
//! simulate --bug torn-tail-not-cut --seeds 100    with an error put in, which has to be found
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use thermocline_simulator::{Bug, Counts, Failure, Simulation};

struct Options {
    from: u64,
    seeds: u64,
    seconds: Option<u64>,
    bug: Option<Bug>,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { from: 0, seeds: u64::MAX, seconds: None, bug: None };
    while let Some(name) = arguments.next() {
        let text = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || text.parse::<u64>().map_err(|_| format!("{name} {text}: not a number"));
        match name.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--seconds" => options.seconds = Some(number()?),
            "--seed" => (options.from, options.seeds) = (number()?, 1),
            "--bug" => options.bug = Some(text.parse()?),
            _ => return Err(format!("{name}: there are --seeds, --from, --seconds, --seed and --bug")),
        }
    }
    if options.seeds == u64::MAX && options.seconds.is_none() {
        options.seeds = 1000;
    }
    Ok(options)
}

fn run(options: &Options) -> Result<Counts, Failure> {
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut counts = Counts::default();
    for seed in (options.from..).take(usize::try_from(options.seeds).unwrap_or(usize::MAX)) {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let simulation = Simulation::new(seed);
        counts.add(&options.bug.map_or(Simulation::new(seed), |bug| simulation.with_bug(bug)).run()?);
    }
    Ok(counts)
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(counts) => {
            print!("{counts}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            let bug = Bug::ALL.iter().find(|(bug, _)| Some(*bug) == options.bug);
            let bug = bug.map_or(String::new(), |(_, name)| format!(" --bug {name}"));
            println!("again with: simulate --seed {}{bug}", failure.seed);
            ExitCode::FAILURE
        }
    }
}
