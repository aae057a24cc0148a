//! `thermocline bench ssb`.

use thermocline_workloads::Workload;
use thermocline_workloads::ssb::{BatchQuery, batch, reshuffle};

use super::super::Failure;
use super::super::storage::parse_power;
use super::arguments::{at_least, number};
use super::experiment::{Experiment, ExperimentArgs, Queries};

/// Arguments of `thermocline bench ssb`.
#[derive(Debug, clap::Args)]
pub struct SsbArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Compute power of a running fragment, as a share of a core
    #[arg(long, value_parser = parse_power)]
    compute_power: Option<f64>,
    /// Run a random batch of this many queries instead of the 13: once to warm up, once reshuffled
    #[arg(long, conflicts_with = "queries", value_parser = at_least(1))]
    batch: Option<usize>,
    /// Skew of the batch over years
    #[arg(long, default_value_t = 2.0, requires = "batch", value_parser = exponent)]
    theta: f64,
    /// Seed of the batch
    #[arg(long, default_value_t = 1, requires = "batch")]
    seed: u64,
}

fn exponent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0, "exponent")
}

/// Runs the standard queries, or a batch.
///
/// # Errors
/// If an argument is invalid or a query fails.
pub async fn ssb(args: SsbArgs) -> Result<(), Failure> {
    let SsbArgs { mut experiment, compute_power, batch: batch_size, theta, seed } = args;
    experiment.node.compute_power = compute_power;
    let Some(n) = batch_size else {
        return Experiment::standard(Workload::SSB, experiment)?.run().await;
    };
    let first = batch(n, theta, seed);
    let again = reshuffle(&first, seed.wrapping_add(1));
    let pairs =
        |batch: Vec<BatchQuery>| -> Queries { batch.into_iter().map(|query| (query.name, query.sql)).collect() };
    Experiment::new(Workload::SSB, experiment, pairs(first), pairs(again))?.run().await
}
