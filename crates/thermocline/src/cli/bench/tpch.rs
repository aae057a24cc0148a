//! `thermocline bench tpch`.

use datafusion::common::Result;
use thermocline_workloads::Workload;

use super::super::storage::parse_power;
use super::experiment::{Experiment, ExperimentArgs};
use super::sweep::sweep;

/// Arguments of `thermocline bench tpch`.
#[derive(Debug, clap::Args)]
pub struct TpchArgs {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Instead of modes, compare no, eager and adaptive pushdown at these shares of a core that the
    /// storage node may compute with, such as 1,0.5,0.25,0.1,0.05
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        value_parser = parse_power,
        conflicts_with_all = ["modes", "cache_size", "policy", "reference", "arbitration"]
    )]
    pub compute_power: Vec<f64>,
    /// Stored bytes of an object, each of which is a partition, over compute power
    #[arg(long, default_value = "2MiB", requires = "compute_power")]
    pub partition_size: String,
}

/// Runs the 22 queries, or some of them.
///
/// # Errors
/// If an argument does not fit or a query fails.
pub async fn tpch(args: TpchArgs) -> Result<()> {
    match args.compute_power.is_empty() {
        true => Experiment::standard(Workload::TPCH, args.experiment)?.run().await,
        false => sweep(args).await,
    }
}
