//! `thermocline bench tpch`.

use datafusion::common::Result;
use thermocline_workloads::Workload;

use super::experiment::{Experiment, ExperimentArgs};

/// Arguments of `thermocline bench tpch`.
#[derive(Debug, clap::Args)]
pub struct TpchArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Runs the 22 queries, or some of them.
///
/// # Errors
/// If an argument does not fit or a query fails.
pub async fn tpch(args: TpchArgs) -> Result<()> {
    Experiment::standard(Workload::TPCH, args.experiment)?.run().await
}
