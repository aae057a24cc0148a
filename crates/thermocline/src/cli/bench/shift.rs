//! `thermocline bench shift`: a link that drops, or a node that becomes slow, between two queries of a batch.

use thermocline_database::Session;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::parse_rate;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, Results, measure};
use thermocline_workloads::generate::Format;
use thermocline_workloads::ssb::batch;

use super::super::Failure;
use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::workload_data;
use super::arguments::{at_least, check_scale, format, number, rate};
use super::common::CommonArgs;
use super::experiment::{PARTITION_SIZE, QUICK_SCALE, Queries};
use super::sink::JsonLines;

/// Skew of the batch over years.
const THETA: f64 = 2.0;

/// Arguments of `thermocline bench shift`.
#[derive(Debug, clap::Args)]
pub struct ShiftArgs {
    /// Scale factor [default: 1, with --quick 0.05]
    #[arg(long)]
    scale: Option<f64>,
    /// parquet or csv
    #[arg(long, default_value = "parquet", value_parser = format)]
    format: Format,
    /// Queries of each phase [default: 20, with --quick 4]
    #[arg(long, value_parser = at_least(1))]
    queries: Option<usize>,
    /// Limit of the segment cache in percent of the queries' working set
    #[arg(long, default_value_t = 50.0, value_parser = percent)]
    cache: f64,
    /// Limit of the storage node's link before it drops to a tenth
    #[arg(long, default_value = "1Gbps", value_parser = rate)]
    egress_limit: String,
    #[command(flatten)]
    common: CommonArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0, "percentage")
}

/// What changes between two queries.
#[derive(Debug, Clone, Copy)]
enum Shift {
    /// The link drops to a tenth.
    Link,
    /// The node has a tenth of its compute power left.
    Power,
}

impl Shift {
    const ALL: [Self; 2] = [Self::Link, Self::Power];

    fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Power => "power",
        }
    }

    /// Options of the node after it.
    fn after(self, before: &NodeOptions, bytes_per_s: u64) -> NodeOptions {
        match self {
            Self::Link => NodeOptions { egress_limit: Some(format!("{}bps", bytes_per_s * 8 / 10)), ..before.clone() },
            Self::Power => NodeOptions { compute_power: Some(0.1), ..before.clone() },
        }
    }
}

/// Phases of a run, of equally many queries.
const PHASES: [&str; 4] = ["cold", "before", "adapting", "after"];
/// The last phase before the change.
const LAST_BEFORE: &str = "before";

/// Runs every mode through both changes, and prints seconds by phase.
///
/// # Errors
/// If an argument is invalid, a query fails, or two runs of one differ.
pub async fn shift(args: ShiftArgs) -> Result<(), Failure> {
    let quick = args.common.quick;
    let scale = args.scale.unwrap_or(if quick { QUICK_SCALE } else { 1.0 });
    let per_phase = args.queries.unwrap_or(if quick { 4 } else { 20 });
    check_scale(&Workload::SSB, scale)?;
    args.common.refuse_own(&["mode", "cache_size"])?;
    let bytes_per_s = parse_rate(&args.egress_limit).map_err(Failure::Usage)?;
    let measurement =
        Measurement { workload: Workload::SSB, scale, format: args.format, egress_bytes_per_s: Some(bytes_per_s) };
    let data = workload_data(&Workload::SSB, args.common.data.clone(), scale, args.format, PARTITION_SIZE)?;
    let before = NodeOptions { egress_limit: Some(args.egress_limit.clone()), ..NodeOptions::default() };
    let mut json = JsonLines::new(args.common.json.as_ref())?;
    for shift in Shift::ALL {
        let mut node = NodeProcess::start(&data, &before).await?;
        let location = format!("thermocline://{}", node.address);
        let phases = phases(per_phase);
        let texts = phases.iter().flat_map(|(_, queries)| queries).map(|(_, sql)| sql.as_str());
        let working_set = args.common.working_set(&Workload::SSB, args.format, &location, texts).await?;
        let cache_size = (working_set as f64 * args.cache / 100.0) as u64;
        let mut sessions = vec![];
        for mode in Mode::ALL {
            let session = args.common.session(&Workload::SSB, args.format, &location).await?;
            session.database().set("cache_size", &cache_size.to_string())?;
            session.set("mode", mode.name())?;
            sessions.push((mode, session));
        }
        say!("{}: {per_phase} queries in each phase, cache of {:.1} MB", shift.name(), cache_size as f64 / 1e6);
        say!("  {:<10}{}", "phase", Mode::ALL.map(|mode| format!("{:>12}", mode.name())).concat());
        let mut results = Results::default();
        let mut last = vec![];
        for (phase, queries) in &phases {
            let seconds = run(&sessions, &measurement, (shift, phase), queries, &mut results, &mut json).await?;
            say!("  {phase:<10}{}", seconds.iter().map(|seconds| format!("{seconds:>12.3}")).collect::<String>());
            if *phase == LAST_BEFORE {
                node = node.restart(&data, &shift.after(&before, bytes_per_s)).await?;
            }
            last = seconds;
        }
        let of = |is_auto: bool| {
            let modes = sessions.iter().zip(&last).filter(|((mode, _), _)| (*mode == Mode::Auto) == is_auto);
            modes.map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min)
        };
        say!("  auto takes {:.3} x as long as the best other mode in the last phase", of(true) / of(false));
    }
    json.flush()?;
    Ok(())
}

/// Queries by phase.
fn phases(per_phase: usize) -> Vec<(&'static str, Queries)> {
    let mut queries = batch(per_phase * PHASES.len(), THETA, 1).into_iter().map(|query| (query.name, query.sql));
    PHASES.into_iter().map(|phase| (phase, queries.by_ref().take(per_phase).collect())).collect()
}

/// Runs a phase in all sessions, which take turns by query; returns their seconds.
async fn run(
    sessions: &[(Mode, Session)],
    measurement: &Measurement,
    (shift, phase): (Shift, &str),
    queries: &Queries,
    results: &mut Results,
    json: &mut JsonLines,
) -> Result<Vec<f64>, Failure> {
    let mut seconds = vec![0.0; sessions.len()];
    for (name, sql) in queries {
        for ((_, session), sum) in sessions.iter().zip(&mut seconds) {
            let put = |record: Record, rows: &[_]| {
                results.check(&record, rows)?;
                *sum += record.seconds;
                json.put(&record, serde_json::json!({ "shift": shift.name(), "phase": phase }))
            };
            measure(session, measurement, [(name.as_str(), sql.as_str())], "timed", put).await?;
        }
    }
    Ok(seconds)
}
