//! `thermocline bench`: the experiments, one JSON object per query or run.

mod adaptive;
mod arguments;
mod bitmap;
mod cache_sim;
mod common;
mod contest;
mod cpu_time;
mod dashboard;
mod engine;
mod experiment;
mod figures;
mod model_map;
mod objects;
mod operators;
mod scratch;
mod sessions;
mod shift;
mod sink;
mod ssb;
mod ssb_sweep;
mod sweep;
mod tpcc;
mod tpch;
mod ycsb;

use super::Failure;

pub use arguments::rate;

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
    /// The figures and tables of FlexPushdownDB: modes, cache sizes, policies, formats, skews and bandwidths
    SsbSweep(ssb_sweep::SsbSweepArgs),
    /// TPC-H: the 22 queries, in every mode or over a storage node's compute power
    Tpch(tpch::TpchArgs),
    /// Filter, join, group-by and top-K one by one, locally and at storage
    Operators(operators::OperatorsArgs),
    /// Adaptive pushdown: Q12 and Q14 of TPC-H over a storage node's compute power
    Adaptive(adaptive::AdaptiveArgs),
    /// Selection bitmaps: five TPC-H queries over the selectivity of their filter on lineitem
    Bitmap(bitmap::BitmapArgs),
    /// A dashboard that is repeated while objects are replaced, with and without kept answers
    Dashboard(dashboard::DashboardArgs),
    /// A link that drops, or a node that becomes slow, between two queries: every mode before and after
    Shift(shift::ShiftArgs),
    /// Replacement algorithms of the segment cache, replayed over recorded or synthetic lookups, beside a bound
    CacheSim(cache_sim::CacheSimArgs),
    /// The fastest mode over bandwidths, as the runtime model expects it
    ModelMap(model_map::ModelMapArgs),
    /// Cost of many objects, and of many partitions of one, for planning and requests
    Objects(objects::ObjectsArgs),
    /// Statements by key through sessions of a database, one and many at a time
    Sessions(sessions::SessionsArgs),
    /// YCSB on the row engine: point reads and updates of 1 KB rows over skewed keys
    Ycsb(ycsb::YcsbArgs),
    /// TPC-C on the row engine: the five transactions, and the consistency conditions before and after
    Tpcc(tpcc::TpccArgs),
}

/// Runs the experiment and prints totals.
///
/// # Errors
/// If an argument is invalid or a query fails.
pub async fn bench(args: BenchArgs) -> Result<(), Failure> {
    match args.workload {
        Workload::Ssb(args) => ssb::ssb(args).await,
        Workload::SsbSweep(args) => ssb_sweep::ssb_sweep(args).await,
        Workload::Tpch(args) => tpch::tpch(args).await,
        Workload::Operators(args) => operators::operators(args).await,
        Workload::Adaptive(args) => adaptive::adaptive(args).await,
        Workload::Bitmap(args) => bitmap::bitmap(args).await,
        Workload::Dashboard(args) => dashboard::dashboard(args).await,
        Workload::Shift(args) => shift::shift(args).await,
        Workload::CacheSim(args) => cache_sim::cache_sim(&args),
        Workload::ModelMap(args) => model_map::model_map(&args),
        Workload::Objects(args) => objects::objects(args).await,
        Workload::Sessions(args) => sessions::sessions(args).await,
        Workload::Ycsb(args) => ycsb::ycsb(args),
        Workload::Tpcc(args) => tpcc::tpcc(args),
    }
}
