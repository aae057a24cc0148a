//! Arguments of `thermocline bench ssb-sweep`, and its course.

use datafusion::common::Result as DataFusionResult;
use thermocline_database::cache_policy_names;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::parse_rate;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

use super::super::super::Failure;
use super::super::arguments::{
    at_least, check_scale, check_trace, distinct, format, number, partition_size, policy, rate,
};
use super::super::common::CommonArgs;
use super::super::figures::{Figures, FiguresArgs};
use super::axes::Axes;
use super::chart::{Chart, charts};
use super::configuration::{BELADY, Configuration};
use super::drawing::{Setup, line_chart, speed_up_bars, speed_up_configurations};
use super::experiments::{Figure, Table};
use super::runner::{RunOptions, Runner, print_titles};
use super::tables::{print_table, table_configurations};

/// A cache policy, or Belady's, whose trace the sweep records.
fn policy_or_belady(text: &str) -> Result<String, String> {
    if text.eq_ignore_ascii_case(BELADY) { Ok(BELADY.to_owned()) } else { policy(text) }
}

/// Arguments of `thermocline bench ssb-sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SsbSweepArgs {
    /// Figures of the paper to reproduce, comma separated [default: all, or none with --table]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    figure: Vec<Figure>,
    /// Tables of the paper to reproduce, comma separated [default: all, or none with --figure]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    table: Vec<Table>,
    /// Scale factor [default: 1, with --quick 0.02]
    #[arg(long)]
    scale: Option<f64>,
    /// Queries of a random batch, which runs once to warm up and reshuffled in every timed pass [default: 50, with
    /// --quick 4]
    #[arg(long, value_parser = at_least(1))]
    batch: Option<usize>,
    /// Seed of the batches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Timed passes of every configuration; figures and tables show the median
    #[arg(long, default_value_t = 1, value_parser = at_least(1))]
    passes: usize,
    /// Format where formats are not compared: parquet or csv
    #[arg(long, default_value = "parquet", value_parser = format)]
    format: Format,
    /// Modes to compare, comma separated or repeated [default: all]
    #[arg(long, visible_alias = "mode", value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Cache policies to compare, comma separated or repeated; belady knows the future from a run before [default: all]
    #[arg(long, value_delimiter = ',', value_parser = policy_or_belady)]
    policies: Vec<String>,
    /// Cache policy where policies are not compared
    #[arg(long, default_value = "lfu", value_parser = policy)]
    policy: String,
    /// Cache sizes to compare, as shares of the batch's working set [default: 0 to 0.75 in steps of 0.125, and 1; with
    /// --quick 0,0.375,1]
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = share)]
    cache_shares: Vec<f64>,
    /// Cache size where it does not vary, as a share of the batch's working set
    #[arg(long, value_name = "SHARE", default_value_t = 0.375, value_parser = share)]
    cache_share: f64,
    /// Skews to compare [default: 0 to 2.5 in steps of 0.5, with --quick 0,2]
    #[arg(long, value_delimiter = ',', value_parser = exponent)]
    thetas: Vec<f64>,
    /// Skew where it does not vary; policies over bandwidth are compared without skew
    #[arg(long, default_value_t = 2.0, value_parser = exponent)]
    theta: f64,
    /// Limit of the storage node's link where it does not vary [default: 1Gbps, with --quick 200Mbps]
    #[arg(long, value_parser = rate)]
    egress_limit: Option<String>,
    /// Limits to compare, as multiples of it [default: 0.2,0.5,1,2,5, with --quick 1,5]
    #[arg(long, value_name = "MULTIPLES", value_delimiter = ',', value_parser = multiple)]
    egress_multiples: Vec<f64>,
    /// Stored bytes of a Parquet object, which is one partition; five times as many for CSV [default: 1MiB, with --quick
    /// 64KiB]
    #[arg(long, value_parser = partition_size)]
    partition_size: Option<u64>,
    #[command(flatten)]
    figures: FiguresArgs,
    #[command(flatten)]
    common: CommonArgs,
}

const EXAMPLES: &str = "\
Reproduces section 7 of \"FlexPushdownDB: Hybrid Pushdown and Caching in a Cloud DBMS\". Every configuration starts a
storage node process behind a limited link; with two or more cores, storage and compute have one each. Configurations
that several figures and tables share run once. All results of a query must be equal.

Examples:
  thermocline bench ssb-sweep --figure 7 --json records.json --figures DIR
  thermocline bench ssb-sweep --figure 11,12 --policies lfu,lru --passes 3 --figures DIR
  thermocline bench ssb-sweep --table all --set price_transferred_gb=0.09
  thermocline bench ssb-sweep --quick --figures DIR";

const CACHE_SHARES: [f64; 8] = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0];
const QUICK_CACHE_SHARES: [f64; 3] = [0.0, 0.375, 1.0];
const THETAS: [f64; 6] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5];
const QUICK_THETAS: [f64; 2] = [0.0, 2.0];
const EGRESS_MULTIPLES: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 5.0];
const QUICK_EGRESS_MULTIPLES: [f64; 2] = [1.0, 5.0];

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0, "share")
}

fn exponent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0, "exponent")
}

fn multiple(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1000.0, "multiple")
}

/// The given values, or all of the others.
fn or_all<T>(given: Vec<T>, all: impl IntoIterator<Item = T>) -> Vec<T> {
    if given.is_empty() { all.into_iter().collect() } else { given }
}

/// What to reproduce.
struct Chosen {
    charts: Vec<Chart>,
    speed_ups: bool,
    tables: Vec<Table>,
}

impl Chosen {
    fn new(axes: &Axes, figures: &[Figure], tables: &[Table]) -> Self {
        let (figures, tables) = match (figures, tables) {
            ([], []) => (Figure::chosen(&[Figure::All]), Table::chosen(&[Table::All])),
            (figures, tables) => (Figure::chosen(figures), Table::chosen(tables)),
        };
        Self {
            charts: figures.iter().flat_map(|figure| charts(axes, *figure)).collect(),
            speed_ups: figures.contains(&Figure::SpeedUps),
            tables,
        }
    }

    /// Configurations of all of it, each once, in the order in which they run.
    fn configurations(&self, axes: &Axes) -> Vec<Configuration> {
        let cells = self.charts.iter().flat_map(|chart| &chart.cells);
        let mut wanted: Vec<Configuration> = cells.map(|cell| cell.configuration.clone()).collect();
        if self.speed_ups {
            wanted.extend(speed_up_configurations(axes));
        }
        if !self.tables.is_empty() {
            wanted.extend(table_configurations(axes));
        }
        let mut once: Vec<Configuration> = vec![];
        for configuration in wanted {
            if !once.contains(&configuration) {
                once.push(configuration);
            }
        }
        once
    }
}

impl SsbSweepArgs {
    fn axes(&self) -> Result<Axes, Failure> {
        let quick = self.common.quick;
        let link = self.egress_limit.as_deref().unwrap_or(if quick { "200Mbps" } else { "1Gbps" });
        let default = |quick_values: &[f64], values: &[f64]| if quick { quick_values } else { values }.to_vec();
        let axes = Axes {
            modes: or_all(self.modes.clone(), Mode::ALL),
            policies: or_all(
                self.policies.clone(),
                cache_policy_names().into_iter().chain([BELADY]).map(str::to_owned),
            ),
            policy: self.policy.clone(),
            cache_shares: or_all(self.cache_shares.clone(), default(&QUICK_CACHE_SHARES, &CACHE_SHARES)),
            cache_share: self.cache_share,
            thetas: or_all(self.thetas.clone(), default(&QUICK_THETAS, &THETAS)),
            theta: self.theta,
            link: parse_rate(link).map_err(Failure::Usage)?,
            link_multiples: or_all(self.egress_multiples.clone(), default(&QUICK_EGRESS_MULTIPLES, &EGRESS_MULTIPLES)),
            format: self.format,
        };
        distinct("--modes", &axes.modes)?;
        distinct("--policies", &axes.policies)?;
        distinct("--cache-shares", &axes.cache_shares)?;
        distinct("--thetas", &axes.thetas)?;
        distinct("--egress-multiples", &axes.link_multiples)?;
        Ok(axes)
    }
}

/// Runs the configurations of the chosen figures and tables.
///
/// # Errors
/// If an argument is invalid, a query fails, or two configurations disagree on a result.
pub async fn ssb_sweep(args: SsbSweepArgs) -> Result<(), Failure> {
    let quick = args.common.quick;
    let axes = args.axes()?;
    let scale = args.scale.unwrap_or(if quick { 0.02 } else { 1.0 });
    check_scale(&Workload::SSB, scale)?;
    args.common.refuse_own(&["mode", "cache_size", "cache_policy", "cached_answers"])?;
    for policy in axes.policies.iter().chain([&axes.policy]) {
        check_trace(policy, &Workload::SSB, scale, axes.format)?;
    }
    let chosen = Chosen::new(&axes, &args.figure, &args.table);
    let figures = Figures::new(&args.figures)?;
    let options = RunOptions {
        scale,
        batch_size: args.batch.unwrap_or(if quick { 4 } else { 50 }),
        seed: args.seed,
        passes: args.passes,
        partition_size: args.partition_size.unwrap_or(if quick { 64 << 10 } else { 1 << 20 }),
        common: args.common,
    };
    let setup = Setup { scale, batch_size: options.batch_size };
    let runner = run(options, &axes, &chosen.configurations(&axes)).await?;
    let outcomes = runner.outcomes();
    // Tables need no file that may fail.
    for table in chosen.tables {
        print_table(table, &axes, outcomes, runner.cores());
    }
    for chart in &chosen.charts {
        figures.write(&format!("ssb-figure-{}", chart.name), || line_chart(setup, chart, outcomes))?;
    }
    if chosen.speed_ups {
        figures.write("ssb-figure-9", || speed_up_bars(setup, &axes, outcomes))?;
    }
    Ok(())
}

async fn run(options: RunOptions, axes: &Axes, configurations: &[Configuration]) -> DataFusionResult<Runner> {
    let mut formats: Vec<Format> = vec![];
    for configuration in configurations {
        if !formats.contains(&configuration.format) {
            formats.push(configuration.format);
        }
    }
    let mut runner = Runner::new(options, &formats)?;
    for Configuration { batch, format, cache, .. } in configurations {
        if cache.is_some() {
            runner.measure_working_set(*batch, *format, axes.theta_of_working_set(*batch)).await?;
        }
    }
    say!("{} configurations; seconds, bytes and CPU seconds are of a timed batch", configurations.len());
    print_titles();
    for configuration in configurations {
        runner.run(configuration).await?;
    }
    Ok(runner)
}
