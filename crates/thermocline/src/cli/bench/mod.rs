//! `thermocline bench`: the experiments, one JSON object a query.

mod adaptive;
mod bitmap;
mod common;
mod contest;
mod experiment;
mod figures;
mod operators;
mod sink;
mod ssb;
mod sweep;
mod tpch;

use datafusion::common::Result;

/// Arguments of `thermocline bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, clap::Subcommand)]
enum Workload {
    /// The Star Schema Benchmark: the 13 queries, or a skewed random batch
    Ssb(ssb::SsbArgs),
    /// TPC-H: the 22 queries, in every mode or over a storage node's compute power
    Tpch(tpch::TpchArgs),
    /// Filter, join, group-by and top-K one by one, here and at storage
    Operators(operators::OperatorsArgs),
    /// Adaptive pushdown: Q12 and Q14 of TPC-H over a storage node's compute power
    Adaptive(adaptive::AdaptiveArgs),
    /// Selection bitmaps: five TPC-H queries over the selectivity of their filter on lineitem
    Bitmap(bitmap::BitmapArgs),
}

/// Runs the experiment and prints totals.
///
/// # Errors
/// If an argument does not fit or a query fails.
pub async fn bench(args: BenchArgs) -> Result<()> {
    match args.workload {
        Workload::Ssb(args) => ssb::ssb(args).await,
        Workload::Tpch(args) => tpch::tpch(args).await,
        Workload::Operators(args) => operators::operators(args).await,
        Workload::Adaptive(args) => adaptive::adaptive(args).await,
        Workload::Bitmap(args) => bitmap::bitmap(args).await,
    }
}
