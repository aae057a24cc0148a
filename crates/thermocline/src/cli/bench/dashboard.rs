//! `thermocline bench dashboard`: the same queries again and again while some objects are replaced, with and without kept
//! answers.

use std::path::{Path, PathBuf};

use datafusion::common::{Result as DataFusionResult, exec_datafusion_err};
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
use super::experiment::{QUICK_SCALE, Queries};
use super::sink::JsonLines;

/// Stored bytes of an object: small enough that a few are a small share.
const OBJECT_SIZE: u64 = 2 << 20;
/// The same with `--quick`.
const QUICK_OBJECT_SIZE: u64 = 128 << 10;
/// Queries of the random batch beside the 13.
const RANDOM_QUERIES: usize = 7;

/// Arguments of `thermocline bench dashboard`.
#[derive(Debug, clap::Args)]
pub struct DashboardArgs {
    /// Scale factor [default: 1, with --quick 0.05]
    #[arg(long)]
    scale: Option<f64>,
    /// parquet or csv
    #[arg(long, default_value = "parquet", value_parser = format)]
    format: Format,
    /// Times that all queries are run [default: 10, with --quick 3]
    #[arg(long, value_parser = at_least(1))]
    rounds: Option<usize>,
    /// Percent of the fact table's objects that are replaced between rounds, at least one object
    #[arg(long, default_value_t = 2.0, value_parser = percent)]
    replaced: f64,
    /// Limit of the segment cache in percent of the queries' working set
    #[arg(long, default_value_t = 25.0, value_parser = percent)]
    cache: f64,
    /// Limit of the storage node's link
    #[arg(long, default_value = "1Gbps", value_parser = rate)]
    egress_limit: String,
    #[command(flatten)]
    common: CommonArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0, "percentage")
}

/// A session with the setting of its kept answers.
struct Contender {
    cached_answers: &'static str,
    session: Session,
}

/// Sums of one round.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    seconds: f64,
    bytes: u64,
}

/// Runs the rounds and prints a table of them.
///
/// # Errors
/// If an argument is invalid, a query fails, or two runs of one differ.
pub async fn dashboard(args: DashboardArgs) -> Result<(), Failure> {
    let quick = args.common.quick;
    let scale = args.scale.unwrap_or(if quick { QUICK_SCALE } else { 1.0 });
    let rounds = args.rounds.unwrap_or(if quick { 3 } else { 10 });
    check_scale(&Workload::SSB, scale)?;
    args.common.refuse_own(&["mode", "cache_size", "cached_answers"])?;
    let egress = parse_rate(&args.egress_limit).map_err(Failure::Usage)?;
    let measurement =
        Measurement { workload: Workload::SSB, scale, format: args.format, egress_bytes_per_s: Some(egress) };
    let object_size = if quick { QUICK_OBJECT_SIZE } else { OBJECT_SIZE };
    let data = workload_data(&Workload::SSB, args.common.data.clone(), scale, args.format, object_size)?;
    let options = NodeOptions { egress_limit: Some(args.egress_limit.clone()), ..NodeOptions::default() };
    let node = NodeProcess::start(&data, &options).await?;
    let location = format!("thermocline://{}", node.address);
    let queries = queries();
    let texts = queries.iter().map(|(_, sql)| sql.as_str());
    let working_set = args.common.working_set(&Workload::SSB, args.format, &location, texts).await?;
    let cache_size = (working_set as f64 * args.cache / 100.0) as u64;

    let mut contenders = vec![];
    for cached_answers in ["off", "on"] {
        let session = args.common.session(&Workload::SSB, args.format, &location).await?;
        session.database().set("cache_size", &cache_size.to_string())?;
        session.set("mode", Mode::Auto.name())?;
        session.set("cached_answers", cached_answers)?;
        contenders.push(Contender { cached_answers, session });
    }
    let mut objects = Objects::of(&data.join("lineorder"))?;
    let replaced = ((objects.paths.len() as f64 * args.replaced / 100.0).ceil() as usize).max(1);
    let mut json = JsonLines::new(args.common.json.as_ref())?;
    let mut results = Results::default();
    say!(
        "{} queries, {rounds} rounds; {replaced} of {} objects replaced after each; cache of {:.1} MB",
        queries.len(),
        objects.paths.len(),
        cache_size as f64 / 1e6
    );
    say!("  {:>5}{:>26}{:>26}{:>16}", "", "without kept answers", "with", "answers");
    say!("  {:>5}{:>12}{:>14}{:>12}{:>14}{:>13} MB", "round", "seconds", "MB moved", "seconds", "MB moved", "");
    let mut totals = [Round::default(); 2];
    for round in 1..=rounds {
        let mut sums = [Round::default(); 2];
        let mut turns: Vec<_> = contenders.iter().zip(&mut sums).collect();
        // Who is first in a round is last in the next one.
        if round % 2 == 0 {
            turns.reverse();
        }
        for (contender, sum) in turns {
            *sum = contender.round(&measurement, &queries, round, &mut results, &mut json).await?;
        }
        let answers: f64 = contenders.iter().map(|contender| answer_bytes(&contender.session)).sum::<usize>() as f64;
        let [without, with] = sums;
        print(&round.to_string(), without, with, &format!("{:.3}", answers / 1e6));
        for (total, sum) in totals.iter_mut().zip(sums) {
            total.seconds += sum.seconds;
            total.bytes += sum.bytes;
        }
        if round < rounds {
            objects.replace(replaced)?;
        }
    }
    let [without, with] = totals;
    print("all", without, with, "");
    let ratio = |a: f64, b: f64| a / b.max(f64::MIN_POSITIVE);
    say!(
        "kept answers: {:.2} x fewer bytes, {:.2} x as fast",
        ratio(without.bytes as f64, with.bytes as f64),
        ratio(without.seconds, with.seconds)
    );
    json.flush()?;
    Ok(())
}

fn print(label: &str, without: Round, with: Round, answers: &str) {
    let megabytes = |round: Round| round.bytes as f64 / 1e6;
    say!(
        "  {label:>5}{:>12.3}{:>14.3}{:>12.3}{:>14.3}{answers:>16}",
        without.seconds,
        megabytes(without),
        with.seconds,
        megabytes(with)
    );
}

/// The 13 queries and some of a random batch.
fn queries() -> Queries {
    let standard = Workload::SSB.queries.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()));
    let random = batch(RANDOM_QUERIES, 2.0, 1).into_iter().enumerate();
    standard.chain(random.map(|(number, query)| (format!("{}-{number}", query.name), query.sql))).collect()
}

/// Bytes of kept answers in the cache.
fn answer_bytes(session: &Session) -> usize {
    let segments = session.engine().cache().segments().into_iter();
    segments.filter(|segment| segment.key.kind.fragment().is_some()).map(|segment| segment.bytes).sum()
}

impl Contender {
    /// Runs all queries once; results must be those of every other run.
    async fn round(
        &self,
        measurement: &Measurement,
        queries: &Queries,
        round: usize,
        results: &mut Results,
        json: &mut JsonLines,
    ) -> DataFusionResult<Round> {
        let mut sum = Round::default();
        let named = queries.iter().map(|(name, sql)| (name.as_str(), sql.as_str()));
        let more = serde_json::json!({ "round": round, "cached_answers": self.cached_answers });
        let put = |record: Record, rows: &[_]| {
            results.check(&record, rows)?;
            sum.seconds += record.seconds;
            sum.bytes += record.bytes_moved().unwrap_or_default();
            json.put(&record, more.clone())
        };
        measure(&self.session, measurement, named, "timed", put).await?;
        Ok(sum)
    }
}

/// Objects that are replaced in turn.
struct Objects {
    paths: Vec<PathBuf>,
    next: usize,
}

impl Objects {
    /// All files of a directory, by name.
    fn of(directory: &Path) -> DataFusionResult<Self> {
        let failed = |error: std::io::Error| exec_datafusion_err!("{}: {error}", directory.display());
        let entries = std::fs::read_dir(directory).map_err(failed)?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed)?;
        paths.sort();
        Ok(Self { paths, next: 0 })
    }

    /// Puts new versions with the same rows in place of the next `count` objects.
    fn replace(&mut self, count: usize) -> DataFusionResult<()> {
        for _ in 0..count {
            let Some(path) = self.paths.get(self.next % self.paths.len().max(1)) else { return Ok(()) };
            let copy = path.with_extension("new");
            std::fs::copy(path, &copy)
                .and_then(|_| std::fs::rename(&copy, path))
                .map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))?;
            self.next += 1;
        }
        Ok(())
    }
}
