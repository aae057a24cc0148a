//! Parts shared by the benches of all workloads: data, storage node, sessions, passes.

use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result as DataFusionResult;
use datafusion::prelude::SessionContext;
use thermocline_database::Session;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{parse_rate, parse_size};
use thermocline_replay::trace::Header;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{
    DuckDb, DuckDbTables, Measurement, Record, Reference, Results, measure, measure_reference, reference_context,
};
use thermocline_workloads::figures::{Caption, Point, Quantity, bars};
use thermocline_workloads::generate::Format;

use super::super::Failure;
use super::super::failure::notice;
use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::workload_data;
use super::arguments::{at_least, check_scale, check_trace, distinct, format, policy};
use super::common::CommonArgs;
use super::figures::{Figures, FiguresArgs};
use super::sink::Sink;

/// Maximum scale with `--quick`.
pub const QUICK_SCALE: f64 = 0.05;

/// Stored bytes of the data's objects.
pub const PARTITION_SIZE: u64 = 16 << 20;

/// Arguments of every analytic bench.
#[derive(Debug, clap::Args)]
pub struct ExperimentArgs {
    /// Scale factor [default: 1, with --quick 0.05; over compute power 0.01]
    #[arg(long)]
    pub scale: Option<f64>,
    /// parquet or csv
    #[arg(long, default_value = "parquet", value_parser = format)]
    pub format: Format,
    /// Modes to run, comma separated or repeated
    #[arg(long, visible_alias = "mode", value_delimiter = ',', default_value = "pullup,pushdown,caching,hybrid,auto")]
    modes: Vec<Mode>,
    /// Run only these standard queries, comma separated, such as 1,6,14
    #[arg(long, value_delimiter = ',')]
    pub queries: Vec<String>,
    /// Limit of the segment cache; `half` for half of the queries' working set
    #[arg(long, default_value = "4GiB", value_parser = cache_size)]
    cache_size: CacheSize,
    /// Cache policy: lru, lfu, wlfu, gdsf or belady:FILE, with a trace in FILE
    #[arg(long, default_value = "lfu", value_parser = policy)]
    policy: String,
    #[command(flatten)]
    pub node: NodeOptions,
    /// Timed passes over the queries, after a warm-up; in each, the modes take turns
    #[arg(long, default_value_t = 1, value_parser = at_least(1))]
    pub passes: usize,
    /// Run each query in a database of its own, in which nothing is cached, known or learnt; the storage node goes on
    #[arg(long, conflicts_with_all = ["reference", "trace"])]
    cold: bool,
    /// Also run plain DataFusion and, if Python has it, DuckDB, over the same files and over tables in memory; they
    /// take turns with the modes, so all tables in memory exist at once
    #[arg(long)]
    reference: bool,
    /// Python interpreter with the package duckdb, for --reference [default: python3, or the one of ./test]
    #[arg(long, value_name = "PYTHON", requires = "reference")]
    duckdb: Option<PathBuf>,
    /// Record all lookups in the segment cache in this file, for `bench cache-sim`; with one mode, which caches
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FiguresArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Limit of the segment cache.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CacheSize {
    /// Half of the queries' working set.
    Half,
    /// This many bytes.
    Bytes(usize),
}

fn cache_size(text: &str) -> Result<CacheSize, String> {
    match text {
        "half" => Ok(CacheSize::Half),
        size => Ok(CacheSize::Bytes(parse_size(size)? as usize)),
    }
}

/// Names and SQL.
pub type Queries = Vec<(String, String)>;

/// A bench with validated arguments.
#[derive(Debug)]
pub struct Experiment {
    args: ExperimentArgs,
    measurement: Measurement,
    warmup: Queries,
    timed: Queries,
}

impl Experiment {
    /// Runs `warmup` once and `timed` in every pass.
    ///
    /// # Errors
    /// If an argument is invalid.
    pub fn new(workload: Workload, args: ExperimentArgs, warmup: Queries, timed: Queries) -> Result<Self, Failure> {
        let scale = args.scale.unwrap_or(if args.common.quick { QUICK_SCALE } else { 1.0 });
        check_scale(&workload, scale)?;
        distinct("--modes", &args.modes)?;
        if args.trace.is_some() && !matches!(args.modes.as_slice(), [mode] if mode.caches()) {
            let why = "--trace records one mode, and one that caches: give --modes auto, hybrid or caching";
            return Err(Failure::Usage(why.to_owned()));
        }
        if args.trace.is_some() && args.trace == args.common.json {
            return Err(Failure::Usage("--trace and --json name the same file".to_owned()));
        }
        args.common.refuse_own(&["mode", "cache_size", "cache_policy"])?;
        check_trace(&args.policy, &workload, scale, args.format)?;
        let egress = args.node.egress_limit.as_deref().map(parse_rate).transpose();
        let measurement =
            Measurement { workload, scale, format: args.format, egress_bytes_per_s: egress.map_err(Failure::Usage)? };
        Ok(Self { args, measurement, warmup, timed })
    }

    /// Runs the workload's standard queries, or those of `--queries`, to warm up and in every pass.
    ///
    /// # Errors
    /// If an argument is invalid.
    pub fn standard(workload: Workload, args: ExperimentArgs) -> Result<Self, Failure> {
        let queries = chosen(&workload, &args.queries)?;
        Self::new(workload, args, queries.clone(), queries)
    }

    /// Runs everything, writes the records and prints totals. In each pass, all modes and all other engines take turns,
    /// so that other load on the machine affects all of them.
    ///
    /// # Errors
    /// The first error, whether of a query, the storage node or the files.
    pub async fn run(self) -> Result<(), Failure> {
        let Self { args, measurement, .. } = &self;
        let python = if args.reference { self.python()? } else { None };
        let figures = Figures::new(&args.figures)?;
        let data = args.common.data.clone();
        let data = workload_data(&measurement.workload, data, measurement.scale, measurement.format, PARTITION_SIZE)?;
        let node = match args.node.is_default() {
            true => None,
            false => Some(NodeProcess::start(&data, &args.node).await?),
        };
        let location = match &node {
            Some(node) => format!("thermocline://{}", node.address),
            None => data.display().to_string(),
        };
        let mut sink = Sink::new(args.common.json.as_ref())?;
        let cache_size = match args.cache_size {
            CacheSize::Half => self.working_set(&location).await? / 2,
            CacheSize::Bytes(bytes) => bytes,
        };
        let place = Place { location: &location, cache_size };
        let mut contenders = vec![];
        for mode in &args.modes {
            if args.cold {
                contenders.push(Contender::Cold(*mode));
                continue;
            }
            let session = self.session(&place, *mode).await?;
            if let Some(path) = &args.trace {
                self.record(path, &session)?;
            }
            contenders.push(Contender::Session(session));
        }
        if args.reference {
            contenders.extend(self.references(&data, python.as_deref()).await?);
        }
        let mut results = Results::default();
        for (run, queries) in self.passes() {
            for contender in &mut contenders {
                contender.pass(&self, &place, run, queries, &mut results, &mut sink).await?;
            }
        }
        for contender in &contenders {
            if let (Some(path), Contender::Session(session)) = (&args.trace, contender) {
                session.engine().resources().end_trace().map_err(|error| of_trace(path, &error))?;
            }
        }
        sink.print(cache_size, self.warmup.len(), self.timed.len());
        for quantity in [Quantity::Seconds, Quantity::Bytes] {
            let name = format!("{}-{}", measurement.workload.name, quantity.name());
            figures.write(&name, || self.figure(quantity, sink.records()))?;
        }
        Ok(())
    }

    /// Begins to record the lookups of `session`.
    fn record(&self, path: &Path, session: &Session) -> Result<(), Failure> {
        let header = trace_header(&self.measurement);
        session.engine().resources().record_trace(path, &header).map_err(|error| of_trace(path, &error))
    }

    /// Passes: one to warm up, then the timed ones.
    fn passes(&self) -> impl Iterator<Item = (&'static str, &Queries)> {
        let timed = std::iter::repeat_n(("timed", &self.timed), self.args.passes);
        std::iter::once(("warmup", &self.warmup)).chain(timed)
    }

    /// Python with DuckDB, or a notice that it is missing.
    fn python(&self) -> Result<Option<PathBuf>, Failure> {
        let python = DuckDb::find(self.args.duckdb.as_deref()).map_err(|error| match Failure::from(error) {
            Failure::Failed(message) => Failure::Usage(format!("--duckdb: {message}")),
            other => other,
        })?;
        if python.is_none() {
            notice(format_args!("DuckDB is not compared with: no Python here has its package; --duckdb names one"));
        }
        Ok(python)
    }

    /// Plain DataFusion and DuckDB over the same files, each with as many threads as a session: one per core.
    async fn references(&self, data: &Path, python: Option<&Path>) -> DataFusionResult<Vec<Contender>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut contenders = vec![];
        for reference in Reference::ALL {
            let context = reference_context(reference, &self.measurement, data, threads).await?;
            contenders.push(Contender::DataFusion(reference, context));
        }
        for tables in DuckDbTables::ALL {
            let started = python.map(|python| DuckDb::start(python, tables, &self.measurement, data, threads));
            contenders.extend(started.transpose()?.map(Contender::DuckDb));
        }
        Ok(contenders)
    }

    /// Bars of a quantity by query and mode, for the first pass and for those after it.
    fn figure(&self, quantity: Quantity, records: &[Record]) -> DataFusionResult<String> {
        let points: Vec<Point<String>> = records
            .iter()
            .filter_map(|record| {
                let panel = if record.run == "warmup" { "first pass" } else { "passes after it, median" };
                Some(Point::new(panel, &record.mode, &record.query, quantity.of(record)?))
            })
            .collect();
        let title = format!("{} by query and mode", quantity.title());
        bars(&Caption::new(title, &self.measurement), quantity.axis(), &points)
    }

    /// A session of a new database, with the tables.
    async fn session(&self, place: &Place<'_>, mode: Mode) -> DataFusionResult<Session> {
        let Measurement { workload, format, .. } = &self.measurement;
        let session = self.args.common.session(workload, *format, place.location).await?;
        session.database().set("cache_size", &place.cache_size.to_string())?;
        session.database().set("cache_policy", &self.args.policy)?;
        session.set("mode", mode.name())?;
        Ok(session)
    }

    /// Bytes that the queries' segments take when all of them are cached.
    async fn working_set(&self, location: &str) -> DataFusionResult<usize> {
        let Measurement { workload, format, .. } = &self.measurement;
        let queries = self.warmup.iter().map(|(_, sql)| sql.as_str());
        self.args.common.working_set(workload, *format, location, queries).await
    }
}

/// First line of a trace of the measured queries.
pub fn trace_header(measurement: &Measurement) -> Header {
    let Measurement { workload, scale, format, egress_bytes_per_s } = measurement;
    Header::new(workload.name, *scale, format.extension(), *egress_bytes_per_s)
}

fn of_trace(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("trace {}: {error}", path.display()))
}

/// Location of the data, and the limit of a segment cache.
struct Place<'a> {
    location: &'a str,
    cache_size: usize,
}

/// Engine or mode that runs the queries.
enum Contender {
    Session(Session),
    /// A mode in which each query has a session of its own.
    Cold(Mode),
    DataFusion(Reference, SessionContext),
    DuckDb(DuckDb),
}

impl Contender {
    /// Runs the queries, each once. All results must equal those of the first contender.
    async fn pass(
        &mut self,
        experiment: &Experiment,
        place: &Place<'_>,
        run: &'static str,
        queries: &[(String, String)],
        results: &mut Results,
        sink: &mut Sink,
    ) -> DataFusionResult<()> {
        let measurement = &experiment.measurement;
        let queries = named(queries);
        let mut put = |record: Record, rows: &[RecordBatch]| {
            results.check(&record, rows)?;
            sink.put(record)
        };
        match self {
            Self::Session(session) => measure(session, measurement, queries, run, put).await,
            Self::Cold(mode) => {
                for query in queries {
                    let session = experiment.session(place, *mode).await?;
                    measure(&session, measurement, [query], run, &mut put).await?;
                }
                Ok(())
            }
            Self::DataFusion(reference, context) => {
                measure_reference(*reference, context, measurement, queries, run, put).await
            }
            Self::DuckDb(duckdb) => duckdb.measure(measurement, queries, run, results, |record| sink.put(record)),
        }
    }
}

/// The standard queries named in `wanted`, with or without the `Q`; all of them if it is empty.
///
/// # Errors
/// If the workload has no query of a name, or one is named twice.
pub fn chosen(workload: &Workload, wanted: &[String]) -> Result<Queries, Failure> {
    let owned = |(name, sql): &(&str, &str)| ((*name).to_owned(), (*sql).to_owned());
    if wanted.is_empty() {
        return Ok(workload.queries.iter().map(owned).collect());
    }
    let queries = wanted
        .iter()
        .map(|wanted| {
            let number = wanted.trim().trim_start_matches(['Q', 'q']);
            let found = workload.queries.iter().find(|(name, _)| name.strip_prefix('Q') == Some(number));
            found.map(owned).ok_or_else(|| {
                let names: Vec<&str> = workload.queries.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                Failure::Usage(format!("{} has no query '{wanted}'; there are {names}", workload.name))
            })
        })
        .collect::<Result<Queries, Failure>>()?;
    distinct("--queries", &queries.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
    Ok(queries)
}

fn named(queries: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    queries.iter().map(|(name, sql)| (name.as_str(), sql.as_str()))
}
