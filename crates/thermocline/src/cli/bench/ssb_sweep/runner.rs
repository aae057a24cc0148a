//! Runs configurations, each against a storage node process of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use thermocline_database::Session;
use thermocline_pushdown::units::format_size;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, measure};
use thermocline_workloads::figures::bit_rate;
use thermocline_workloads::generate::Format;
use thermocline_workloads::ssb::{BatchQuery, reshuffle};

use super::super::super::failure::notice;
use super::super::super::node_process::{NodeOptions, NodeProcess, pin_this_process};
use super::super::super::workload_data::workload_data;
use super::super::common::CommonArgs;
use super::super::cpu_time::cpu_seconds;
use super::super::experiment::trace_header;
use super::super::scratch::ScratchDirectory;
use super::super::sink::{JsonLines, or_dash};
use super::configuration::{BELADY, BatchKind, Configuration};
use super::outcome::{Outcome, median_of};
use super::record::Shared;

/// What all configurations have in common.
#[derive(Debug)]
pub struct RunOptions {
    pub scale: f64,
    /// Queries of a batch.
    pub batch_size: usize,
    pub seed: u64,
    /// Timed batches of a configuration.
    pub passes: usize,
    /// Stored bytes of a Parquet object.
    pub partition_size: u64,
    pub common: CommonArgs,
}

/// Stored bytes of a CSV object with as many rows as a Parquet object of one byte.
const CSV_BYTES: u64 = 5;
/// Cores of this process and of storage nodes.
const COMPUTE_CORE: usize = 0;
const STORAGE_CORE: usize = 1;

/// Timed batches by configuration.
#[derive(Debug, Default)]
pub struct Outcomes(Vec<(Configuration, Vec<Outcome>)>);

impl Outcomes {
    /// The timed batches of a configuration; none if it has not run.
    pub fn of(&self, configuration: &Configuration) -> &[Outcome] {
        self.0.iter().find(|(known, _)| known == configuration).map_or(&[], |(_, passes)| passes)
    }
}

/// Runs configurations once each. Results of a query must be equal in all of them.
pub struct Runner {
    options: RunOptions,
    data: HashMap<Format, PathBuf>,
    /// Whether storage and compute have one core each.
    pinned: bool,
    /// Cores of this process.
    cores: usize,
    json: JsonLines,
    /// Results by SQL.
    hashes: HashMap<String, Option<String>>,
    /// Bytes of all segments that a batch needs.
    working_sets: Vec<(BatchKind, Format, usize)>,
    outcomes: Outcomes,
}

impl Runner {
    /// Creates the data in `formats`, then pins this process to a core.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn new(options: RunOptions, formats: &[Format]) -> Result<Self> {
        let mut data = HashMap::new();
        for format in formats {
            let partition_size = match format {
                Format::Parquet => options.partition_size,
                Format::Csv => options.partition_size * CSV_BYTES,
            };
            let folder = options.common.data.clone();
            data.insert(*format, workload_data(&Workload::SSB, folder, options.scale, *format, partition_size)?);
        }
        // It replaces what is there, once the data are.
        let json = JsonLines::new(options.common.json.as_ref())?;
        let pinned = match pin_this_process(COMPUTE_CORE) {
            Ok(()) => true,
            Err(why) => {
                notice(format_args!("storage and compute share their cores: {why}"));
                false
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            options,
            data,
            pinned,
            cores,
            json,
            hashes: HashMap::new(),
            working_sets: vec![],
            outcomes: Outcomes::default(),
        })
    }

    /// Measures the bytes of all segments that a batch needs, with the skew that its cache sizes refer to.
    ///
    /// # Errors
    /// If a query fails.
    pub async fn measure_working_set(&mut self, batch: BatchKind, format: Format, theta: f64) -> Result<()> {
        if self.working_set(batch, format).is_some() {
            return Ok(());
        }
        let queries = batch.queries(self.options.batch_size, theta, self.options.seed);
        let location = self.data(format)?.display().to_string();
        let texts = queries.iter().map(|query| query.sql.as_str());
        let bytes = self.options.common.working_set(&Workload::SSB, format, &location, texts).await?;
        say!("working set of the {} batch, {}: {}", batch.name(), format.extension(), format_size(bytes as u64));
        self.working_sets.push((batch, format, bytes));
        Ok(())
    }

    /// Bytes of all segments that a batch needs; `None` if it was not measured.
    pub fn working_set(&self, batch: BatchKind, format: Format) -> Option<usize> {
        let known = self.working_sets.iter().find(|(of, in_format, _)| (*of, *in_format) == (batch, format));
        known.map(|(_, _, bytes)| *bytes)
    }

    /// Timed batches so far.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Cores of this process.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Runs a configuration: a storage node and a session, the batch to warm up, and the reshuffled batch in every
    /// pass. Prints a line.
    ///
    /// # Errors
    /// If a query fails or has another result than before, or a record cannot be written.
    pub async fn run(&mut self, configuration: &Configuration) -> Result<()> {
        let Configuration { batch, theta, format, link, cache, .. } = configuration;
        let node = NodeOptions {
            egress_limit: Some(format!("{link}B/s")),
            core: self.pinned.then_some(STORAGE_CORE),
            ..NodeOptions::default()
        };
        let working_set = cache.as_ref().and_then(|_| self.working_set(*batch, *format));
        let cache_bytes = match (cache, working_set) {
            (Some(cache), Some(bytes)) => (bytes as f64 * cache.share) as usize,
            _ => 0,
        };
        let measurement = Measurement {
            workload: Workload::SSB,
            scale: self.options.scale,
            format: *format,
            egress_bytes_per_s: Some(*link),
        };
        let shared = Shared {
            configuration,
            measurement: &measurement,
            seed: self.options.seed,
            cache_bytes,
            working_set_bytes: working_set,
            cores_compute: self.cores,
            pinned: self.pinned,
        };
        let warmup = batch.queries(self.options.batch_size, *theta, self.options.seed);
        let timed = reshuffle(&warmup, self.options.seed.wrapping_add(1));
        let mut scratch = None;
        let mut policy = cache.as_ref().map(|cache| cache.policy.clone());
        if policy.as_deref() == Some(BELADY) {
            let all = std::iter::once(&warmup).chain(std::iter::repeat_n(&timed, self.options.passes));
            let directory = ScratchDirectory::new(&std::env::temp_dir())?;
            let trace = directory.path().join("trace.jsonl");
            self.record(&trace, (&node, configuration, cache_bytes), &measurement, all.flatten()).await?;
            policy = Some(format!("{BELADY}:{}", trace.display()));
            scratch = Some(directory);
        }
        let (node, session) = self.begin(&node, configuration, cache_bytes, policy.as_deref()).await?;
        // The trace was read when the policy was set.
        drop(scratch);
        self.batch(&session, &shared, &warmup, 0).await?;
        let mut passes = vec![];
        for pass in 1..=self.options.passes {
            let of_both = || (cpu_seconds(std::process::id()), node.id().and_then(cpu_seconds));
            let (compute, storage) = of_both();
            let mut outcome = self.batch(&session, &shared, &timed, pass).await?;
            let (compute_after, storage_after) = of_both();
            let since = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
            outcome.cpu_seconds_compute = since(compute, compute_after);
            outcome.cpu_seconds_storage = since(storage, storage_after);
            self.json.put(&shared.batch(&outcome), shared.more("batch", pass))?;
            passes.push(outcome);
        }
        self.json.flush()?;
        print(configuration, &passes);
        self.outcomes.0.push((configuration.clone(), passes));
        Ok(())
    }

    /// Starts a storage node, and a session over its tables.
    async fn begin(
        &self,
        node: &NodeOptions,
        Configuration { format, mode, .. }: &Configuration,
        cache_bytes: usize,
        policy: Option<&str>,
    ) -> Result<(NodeProcess, Session)> {
        let node = NodeProcess::start(self.data(*format)?, node).await?;
        let session = self.session(*format, &format!("thermocline://{}", node.address)).await?;
        session.database().set("cache_size", &cache_bytes.to_string())?;
        if let Some(policy) = policy {
            session.database().set("cache_policy", policy)?;
        }
        session.set("mode", mode.name())?;
        session.set("cached_answers", "off")?;
        Ok((node, session))
    }

    /// Records the lookups of `queries` in the segment cache in a run of their own.
    async fn record(
        &self,
        trace: &Path,
        (node, configuration, cache_bytes): (&NodeOptions, &Configuration, usize),
        measurement: &Measurement,
        queries: impl Iterator<Item = &BatchQuery>,
    ) -> Result<()> {
        let (_node, session) = self.begin(node, configuration, cache_bytes, None).await?;
        let failed = |error| exec_datafusion_err!("trace {}: {error}", trace.display());
        let resources = session.engine().resources();
        resources.record_trace(trace, &trace_header(measurement)).map_err(failed)?;
        for query in queries {
            session.run(&query.sql).await?;
        }
        resources.end_trace().map_err(failed)
    }

    /// Runs a batch and writes its records; number 0 is the warm-up.
    async fn batch(
        &mut self,
        session: &Session,
        shared: &Shared<'_>,
        queries: &[BatchQuery],
        pass: usize,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let queries = queries.iter().map(|query| (query.name.as_str(), query.sql.as_str()));
        let run = if pass == 0 { "warmup" } else { "timed" };
        let more = shared.more("query", pass);
        measure(session, shared.measurement, queries, run, |record, _| {
            check(&mut self.hashes, &record)?;
            outcome.add(&record);
            self.json.put(&record, more.clone())
        })
        .await?;
        Ok(outcome)
    }

    async fn session(&self, format: Format, location: &str) -> Result<Session> {
        self.options.common.session(&Workload::SSB, format, location).await
    }

    fn data(&self, format: Format) -> Result<&Path> {
        let folder = self.data.get(&format);
        folder.map(PathBuf::as_path).ok_or_else(|| exec_datafusion_err!("there is no {} data", format.extension()))
    }
}

/// Checks that a query has the result that it had before, in whatever configuration.
fn check(hashes: &mut HashMap<String, Option<String>>, record: &Record) -> Result<()> {
    let known = hashes.entry(record.sql.clone()).or_insert_with(|| record.result_hash.clone());
    match *known == record.result_hash {
        true => Ok(()),
        false => exec_err!(
            "{} has other rows than before, in {} over {}: {}",
            record.query,
            record.mode,
            record.format,
            record.sql
        ),
    }
}

/// Prints the titles of [`print()`]'s columns.
pub fn print_titles() {
    say!(
        "{:<18}{:>6} {:<8}{:>12} {:<10}{:<8}{:>6}{:>10}{:>12}{:>9}{:>9}",
        "batch",
        "theta",
        "format",
        "link",
        "mode",
        "policy",
        "cache",
        "seconds",
        "bytes",
        "compute",
        "storage"
    );
}

/// Prints a configuration with the medians over its passes: elapsed seconds, bytes moved, CPU seconds.
fn print(configuration: &Configuration, passes: &[Outcome]) {
    let Configuration { batch, theta, format, link, mode, cache } = configuration;
    let bytes = median_of(passes, |pass| Some(pass.bytes_moved() as f64));
    say!(
        "{:<18}{theta:>6} {:<8}{:>12} {:<10}{:<8}{:>6}{:>10}{:>12}{:>9}{:>9}",
        batch.name(),
        format.extension(),
        bit_rate(*link),
        mode.name(),
        or_dash(cache.as_ref().map(|cache| cache.policy.clone())),
        or_dash(cache.as_ref().map(|cache| cache.share.to_string())),
        or_dash(median_of(passes, |pass| Some(pass.seconds_total())).map(|seconds| format!("{seconds:.3}"))),
        or_dash(bytes.map(|bytes| format_size(bytes as u64))),
        or_dash(median_of(passes, |pass| pass.cpu_seconds_compute).map(|seconds| format!("{seconds:.2}"))),
        or_dash(median_of(passes, |pass| pass.cpu_seconds_storage).map(|seconds| format!("{seconds:.2}"))),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rows_are_an_error() {
        let record = |mode: &str, hash: &str| Record {
            workload: "ssb".into(),
            scale: 1.0,
            format: "parquet".into(),
            mode: mode.into(),
            egress_bytes_per_s: None,
            query: "Q2.1".into(),
            sql: "SELECT 1".into(),
            run: "timed",
            seconds: 0.5,
            rows: 1,
            result_hash: Some(hash.into()),
            counts: None,
        };
        let mut hashes = HashMap::new();
        check(&mut hashes, &record("pullup", "a")).unwrap();
        check(&mut hashes, &record("hybrid", "a")).unwrap();
        let error = check(&mut hashes, &record("pushdown", "b")).unwrap_err().to_string();
        assert!(error.contains("Q2.1 has other rows than before, in pushdown over parquet"), "{error}");
        check(&mut hashes, &Record { sql: "SELECT 2".into(), ..record("pushdown", "b") }).unwrap();
    }
}
