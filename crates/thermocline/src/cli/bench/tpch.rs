//! `thermocline bench tpch`.

use thermocline_workloads::Workload;

use super::super::Failure;
use super::super::storage::parse_power;
use super::arguments::partition_size;
use super::experiment::{Experiment, ExperimentArgs};
use super::sweep::sweep;

/// Arguments of `thermocline bench tpch`.
#[derive(Debug, clap::Args)]
pub struct TpchArgs {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Instead of modes, compare no, eager and adaptive pushdown at these compute powers of the storage node, as shares
    /// of a core, such as 1,0.5,0.25,0.1,0.05
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        value_parser = parse_power,
        conflicts_with_all = ["modes", "cache_size", "policy", "reference", "arbitration"]
    )]
    pub compute_power: Vec<f64>,
    /// Stored bytes of an object, which is one partition, with --compute-power [default: 2MiB, with --quick 128KiB]
    #[arg(long, requires = "compute_power", value_parser = partition_size)]
    pub partition_size: Option<u64>,
}

/// Runs the 22 queries, or some of them.
///
/// # Errors
/// If an argument is invalid or a query fails.
pub async fn tpch(args: TpchArgs) -> Result<(), Failure> {
    match args.compute_power.is_empty() {
        true => Experiment::standard(Workload::TPCH, args.experiment)?.run().await,
        false => sweep(args).await,
    }
}
