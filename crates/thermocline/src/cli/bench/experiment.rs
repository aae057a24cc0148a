//! What the benches of all workloads share: data, storage node, sessions, passes.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use thermocline_compute::Session;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{parse_rate, parse_size};
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{
    DuckDb, DuckDbTables, Measurement, Record, Reference, Results, measure, measure_reference, reference_context,
};
use thermocline_workloads::figures::{Caption, Point, Quantity, bars};
use thermocline_workloads::generate::Format;

use super::super::failure::notice;
use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::workload_data;
use super::common::CommonArgs;
use super::figures::Figures;
use super::sink::Sink;

/// Scale of `--quick`, at most.
pub const QUICK_SCALE: f64 = 0.05;

/// Stored bytes of the data's objects.
pub const PARTITION_SIZE: u64 = 16 << 20;

/// Arguments of every analytic bench.
#[derive(Debug, clap::Args)]
pub struct ExperimentArgs {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// parquet or csv
    #[arg(long, default_value = "parquet")]
    pub format: String,
    /// Modes to run, comma separated or repeated
    #[arg(long, visible_alias = "mode", value_delimiter = ',', default_value = "pullup,pushdown,caching,hybrid")]
    modes: Vec<String>,
    /// Run these of the standard queries, comma separated, such as 1,6,14
    #[arg(long, value_delimiter = ',')]
    pub queries: Vec<String>,
    /// Limit of the segment cache; `half` for half of what the queries need
    #[arg(long, default_value = "4GiB")]
    cache_size: String,
    /// Cache policy: lfu or lru
    #[arg(long, default_value = "lfu")]
    policy: String,
    #[command(flatten)]
    pub node: NodeOptions,
    /// Timed passes over the queries, after one to warm up
    #[arg(long, default_value_t = 1)]
    pub passes: usize,
    /// Also run plain DataFusion and, where Python has it, DuckDB over the same files and over tables in memory
    #[arg(long)]
    reference: bool,
    /// Python interpreter with the package duckdb for --reference [default: python3, or the one of ./test]
    #[arg(long, value_name = "PYTHON", requires = "reference")]
    duckdb: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Names and SQL.
pub type Queries = Vec<(String, String)>;

/// A bench whose arguments were understood.
#[derive(Debug)]
pub struct Experiment {
    args: ExperimentArgs,
    measurement: Measurement,
    modes: Vec<Mode>,
    warmup: Queries,
    timed: Queries,
}

impl Experiment {
    /// Runs `warmup` once and `timed` in every pass.
    ///
    /// # Errors
    /// If an argument does not fit.
    pub fn new(workload: Workload, mut args: ExperimentArgs, warmup: Queries, timed: Queries) -> Result<Self> {
        if args.common.quick {
            args.scale = args.scale.min(QUICK_SCALE);
        }
        let format = parse_format(&args.format)?;
        let modes = args
            .modes
            .iter()
            .map(|mode| mode.parse().map_err(|why| plan_datafusion_err!("{why}")))
            .collect::<Result<Vec<_>>>()?;
        let egress = args.node.egress_limit.as_deref().map(parse_rate).transpose();
        let measurement = Measurement {
            workload,
            scale: args.scale,
            format,
            egress_bytes_per_s: egress.map_err(|why| plan_datafusion_err!("{why}"))?,
        };
        Ok(Self { args, measurement, modes, warmup, timed })
    }

    /// Runs the workload's standard queries, or those of `--queries`, to warm up and in every pass.
    ///
    /// # Errors
    /// If an argument does not fit.
    pub fn standard(workload: Workload, args: ExperimentArgs) -> Result<Self> {
        let queries = chosen(&workload, &args.queries)?;
        Self::new(workload, args, queries.clone(), queries)
    }

    /// Runs everything, writes the records and prints totals.
    ///
    /// # Errors
    /// The first that occurs, be it of a query, the storage node or the files.
    pub async fn run(self) -> Result<()> {
        let Self { args, measurement, modes, .. } = &self;
        let figures = Figures::new(args.common.figures.as_ref())?;
        let data = args.common.data.clone();
        let data = workload_data(&measurement.workload, data, args.scale, measurement.format, PARTITION_SIZE)?;
        let node = match args.node.is_default() {
            true => None,
            false => Some(NodeProcess::start(&data, &args.node).await?),
        };
        let location = match &node {
            Some(node) => format!("thermocline://{}", node.address),
            None => data.display().to_string(),
        };
        let mut sink = Sink::new(args.common.json.as_ref())?;
        let cache_size = match args.cache_size.as_str() {
            "half" => self.working_set(&location).await? / 2,
            size => parse_size(size).map_err(|why| plan_datafusion_err!("{why}"))? as usize,
        };
        let mut results = Results::default();
        for mode in modes {
            let session = self.session(&location).await?;
            session.set("cache_size", &cache_size.to_string())?;
            session.set("cache_policy", &args.policy)?;
            session.set("mode", mode.name())?;
            for (run, queries) in self.passes() {
                measure(&session, measurement, named(queries), run, |record, rows| {
                    results.check(&record, rows)?;
                    sink.put(record)
                })
                .await?;
            }
        }
        if args.reference {
            self.references(&data, &mut results, &mut sink).await?;
        }
        sink.finish(cache_size, self.warmup.len(), self.timed.len())?;
        for quantity in [Quantity::Seconds, Quantity::Bytes] {
            let name = format!("{}-{}", measurement.workload.name, quantity.name());
            figures.write(&name, || self.figure(quantity, sink.records()))?;
        }
        Ok(())
    }

    /// Passes of every mode: one to warm up, then the timed ones.
    fn passes(&self) -> impl Iterator<Item = (&'static str, &Queries)> {
        let timed = std::iter::repeat_n(("timed", &self.timed), self.args.passes.max(1));
        std::iter::once(("warmup", &self.warmup)).chain(timed)
    }

    /// Plain DataFusion and DuckDB over the same files, each with as many threads as a session has, which is one a core.
    async fn references(&self, data: &Path, results: &mut Results, sink: &mut Sink) -> Result<()> {
        let Self { args, measurement, .. } = self;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for reference in Reference::ALL {
            let context = reference_context(reference, measurement, data, threads).await?;
            for (run, queries) in self.passes() {
                measure_reference(reference, &context, measurement, named(queries), run, |record, rows| {
                    results.check(&record, rows)?;
                    sink.put(record)
                })
                .await?;
            }
        }
        let Some(python) = DuckDb::find(args.duckdb.as_deref())? else {
            notice(format_args!("DuckDB is not compared with: no Python here has its package; --duckdb names one"));
            return Ok(());
        };
        for tables in DuckDbTables::ALL {
            let mut duckdb = DuckDb::start(&python, tables, measurement, data, threads)?;
            for (run, queries) in self.passes() {
                duckdb.measure(measurement, named(queries), run, results, |record| sink.put(record))?;
            }
        }
        Ok(())
    }

    /// Bars of a quantity by query and mode, for the first pass and for those after it.
    fn figure(&self, quantity: Quantity, records: &[Record]) -> Result<String> {
        let points: Vec<Point<String>> = records
            .iter()
            // The others do not count bytes.
            .filter(|record| {
                let mut others = Reference::ALL.map(Reference::name).into_iter();
                let mut duckdb = DuckDbTables::ALL.map(DuckDbTables::name).into_iter();
                quantity == Quantity::Seconds
                    || !others.any(|name| name == record.mode) && !duckdb.any(|name| name == record.mode)
            })
            .map(|record| {
                let panel = if record.run == "warmup" { "first pass" } else { "passes after it, median" };
                Point::new(panel, &record.mode, &record.query, quantity.of(record))
            })
            .collect();
        let title = format!("{} by query and mode", quantity.title());
        bars(&Caption::new(title, &self.measurement), quantity.axis(), &points)
    }

    async fn session(&self, location: &str) -> Result<Session> {
        self.args.common.session(&self.measurement.workload, self.measurement.format, location).await
    }

    /// Bytes that the queries' segments take when all of them are cached.
    async fn working_set(&self, location: &str) -> Result<usize> {
        let session = self.session(location).await?;
        session.set("cache_size", "1TiB")?;
        session.set("mode", "caching")?;
        for (_, sql) in &self.warmup {
            session.run(sql).await?;
        }
        Ok(session.engine().cache.bytes().0)
    }
}

/// The format of this name.
///
/// # Errors
/// If there is none.
pub fn parse_format(name: &str) -> Result<Format> {
    match name.to_ascii_lowercase().as_str() {
        "parquet" => Ok(Format::Parquet),
        "csv" => Ok(Format::Csv),
        other => plan_err!("unknown format '{other}': expected parquet or csv"),
    }
}

/// The standard queries named in `wanted`, with or without the `Q`; all of them if it is empty.
///
/// # Errors
/// If the workload has no query of a name.
pub fn chosen(workload: &Workload, wanted: &[String]) -> Result<Queries> {
    let owned = |(name, sql): &(&str, &str)| ((*name).to_owned(), (*sql).to_owned());
    if wanted.is_empty() {
        return Ok(workload.queries.iter().map(owned).collect());
    }
    wanted
        .iter()
        .map(|wanted| {
            let number = wanted.trim().trim_start_matches(['Q', 'q']);
            let found = workload.queries.iter().find(|(name, _)| name.strip_prefix('Q') == Some(number));
            found.map(owned).ok_or_else(|| {
                let names: Vec<&str> = workload.queries.iter().map(|(name, _)| *name).collect();
                plan_datafusion_err!("{} has no query '{wanted}'; there are {}", workload.name, names.join(", "))
            })
        })
        .collect()
}

fn named(queries: &Queries) -> impl Iterator<Item = (&str, &str)> {
    queries.iter().map(|(name, sql)| (name.as_str(), sql.as_str()))
}
