//! Comparison of no, eager and adaptive pushdown (Enhancing Computation Pushdown section 6.2): storage node processes
//! of limited compute power on a core of their own, behind a limited link.

use std::collections::HashMap;
use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use serde_json::json;
use thermocline_database::Session;
use thermocline_workloads::bench::{Measurement, Record, measure};

use super::super::failure::notice;
use super::super::node_process::{NodeOptions, NodeProcess, pin_this_process};
use super::super::workload_data::workload_data;
use super::common::CommonArgs;
use super::sink::JsonLines;

/// Pushdown strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Nothing is pushed down.
    No,
    /// The compute node pushes down everything.
    Eager,
    /// The storage node decides; it queues by pushdown amenability.
    AdaptivePaAware,
    /// The storage node decides; it queues by arrival.
    AdaptiveFifo,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::No, Self::Eager, Self::AdaptivePaAware, Self::AdaptiveFifo];

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Eager => "eager",
            Self::AdaptivePaAware => "adaptive-pa-aware",
            Self::AdaptiveFifo => "adaptive-fifo",
        }
    }
}

/// One strategy at one compute power.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// The strategy.
    pub strategy: Strategy,
    /// Compute power of the storage node, as a share of a core.
    pub power: f64,
    /// Whether other queries run at once.
    pub concurrent: bool,
}

/// The median run of one query in one trial.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Seconds.
    pub seconds: f64,
    /// Partitions to be pushed down: N.
    pub asked: u64,
    /// Partitions not pushed back: n.
    pub admitted: u64,
}

impl Outcome {
    /// The run of median seconds; `None` without runs.
    pub fn median(mut runs: Vec<Self>) -> Option<Self> {
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        runs.get(runs.len() / 2).copied()
    }
}

/// Settings that a contest sets itself.
pub const OWN_SETTINGS: [&str; 3] = ["partition_size", "mode", "partitions_in_flight"];

/// A contest between strategies over the same queries. Their results must be equal.
pub struct Contest {
    measurement: Measurement,
    common: CommonArgs,
    /// Options of every node except those set by the trial. Only adaptive strategies use its pushback slots.
    node: NodeOptions,
    data: PathBuf,
    /// Whether storage and compute have one core each.
    pinned: bool,
    sink: JsonLines,
    /// Results by query.
    hashes: HashMap<String, Option<String>>,
}

impl Contest {
    /// Creates the data with objects of `partition_size` each, and pins this process to a core.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn new(measurement: Measurement, common: CommonArgs, node: NodeOptions, partition_size: u64) -> Result<Self> {
        let Measurement { workload, scale, format, .. } = &measurement;
        let sink = JsonLines::new(common.json.as_ref())?;
        let data = workload_data(workload, common.data.clone(), *scale, *format, partition_size)?;
        let pinned = match pin_this_process(0) {
            Ok(()) => true,
            Err(why) => {
                notice(format_args!("storage and compute share their cores: {why}"));
                false
            }
        };
        Ok(Self { measurement, common, node, data, pinned, sink, hashes: HashMap::new() })
    }

    /// A node and a session for the trial.
    ///
    /// # Errors
    /// If the node does not start.
    pub async fn begin(&self, trial: Trial) -> Result<(NodeProcess, Session)> {
        let adaptive = matches!(trial.strategy, Strategy::AdaptivePaAware | Strategy::AdaptiveFifo);
        let options = NodeOptions {
            compute_power: Some(trial.power),
            pushback_slots: self.node.pushback_slots.filter(|_| adaptive),
            arbitration: (trial.strategy == Strategy::AdaptiveFifo).then(|| "fifo".to_owned()),
            core: self.pinned.then_some(1),
            ..self.node.clone()
        };
        let node = NodeProcess::start(&self.data, &options).await?;
        let Measurement { workload, format, .. } = &self.measurement;
        let session = self.common.session(workload, *format, &format!("thermocline://{}", node.address)).await?;
        // One partition per object.
        session.database().set("partition_size", "64KiB")?;
        session.set("mode", if trial.strategy == Strategy::No { "pullup" } else { "pushdown" })?;
        // Enough for the node to have a choice whenever a slot is free.
        session.set("partitions_in_flight", "32")?;
        Ok((node, session))
    }

    /// Runs a query, given by name and SQL, once to warm up and `passes` times; returns the median.
    ///
    /// # Errors
    /// If it fails or its result differs from an earlier one.
    pub async fn run(
        &mut self,
        session: &Session,
        trial: Trial,
        query: (&str, &str),
        passes: usize,
    ) -> Result<Option<Outcome>> {
        let mut runs = vec![];
        for pass in 0..=passes {
            let run = if pass == 0 { "warmup" } else { "timed" };
            let record = self.measured(session.clone(), query, run).await?;
            runs.extend(self.put(&record, trial)?);
        }
        Ok(Outcome::median(runs))
    }

    /// Runs a query, given by name and SQL, in a task of its own.
    ///
    /// # Errors
    /// If it fails.
    pub async fn measured(&self, session: Session, query: (&str, &str), run: &'static str) -> Result<Record> {
        let (name, sql) = (query.0.to_owned(), query.1.to_owned());
        let measurement = self.measurement.clone();
        let task = tokio::spawn(async move {
            let mut records = vec![];
            measure(&session, &measurement, [(name.as_str(), sql.as_str())], run, |record, _| {
                records.push(record);
                Ok(())
            })
            .await?;
            records.pop().ok_or_else(|| exec_datafusion_err!("query {name} left no record"))
        });
        task.await.map_err(|error| exec_datafusion_err!("query {}: {error}", query.0))?
    }

    /// Writes a record; returns its outcome if it was timed.
    ///
    /// # Errors
    /// If it cannot be written, or its query had another result before.
    pub fn put(&mut self, record: &Record, trial: Trial) -> Result<Option<Outcome>> {
        let known = self.hashes.entry(record.query.clone()).or_insert_with(|| record.result_hash.clone());
        if *known != record.result_hash {
            return exec_err!("query {} has another result with strategy {}", record.query, trial.strategy.name());
        }
        let asked = record.count(|counts| counts.partitions_pushdown);
        let admitted = asked - record.count(|counts| counts.partitions_pushed_back).min(asked);
        let more = json!({
            "strategy": trial.strategy.name(),
            "compute_power": trial.power,
            "concurrent": trial.concurrent,
            "pinned": self.pinned,
            "admitted": admitted,
        });
        self.sink.put(record, more)?;
        Ok((record.run == "timed").then_some(Outcome { seconds: record.seconds, asked, admitted }))
    }

    /// Fields that all records share.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// Flushes all records.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        self.sink.flush()
    }
}
