//! The line of `--json` for a timed batch, and the fields that it shares with the lines of queries.

use serde::Serialize;
use serde_json::{Value, json};
use thermocline_workloads::bench::Measurement;

use super::configuration::Configuration;
use super::outcome::Outcome;

/// What the records of one configuration share.
#[derive(Debug, Clone)]
pub struct Shared<'a> {
    pub configuration: &'a Configuration,
    pub measurement: &'a Measurement,
    pub seed: u64,
    /// Limit of the cache.
    pub cache_bytes: usize,
    /// Bytes of all segments that the batch needs; `None` in modes that cache nothing.
    pub working_set_bytes: Option<usize>,
    /// Cores of this process.
    pub cores_compute: usize,
    /// Whether storage and compute have one core each.
    pub pinned: bool,
}

/// A timed batch. Fields are added, never renamed.
#[derive(Debug, Serialize)]
pub struct BatchRecord {
    workload: &'static str,
    scale: f64,
    format: &'static str,
    mode: &'static str,
    /// `None` in modes that cache nothing.
    policy: Option<String>,
    cache_bytes: usize,
    egress_bytes_per_s: u64,
    run: &'static str,
    queries: usize,
    seconds: f64,
    bytes_from_storage: u64,
    bytes_to_storage: u64,
    cores_compute: usize,
    cpu_seconds_compute: Option<f64>,
    cpu_seconds_storage: Option<f64>,
    /// Elapsed seconds times cores.
    cpu_seconds_compute_dedicated: f64,
    dollars: f64,
}

impl Shared<'_> {
    /// The record of a timed batch.
    pub fn batch(&self, outcome: &Outcome) -> BatchRecord {
        let Configuration { format, link, mode, cache, .. } = self.configuration;
        BatchRecord {
            workload: self.measurement.workload.name,
            scale: self.measurement.scale,
            format: format.extension(),
            mode: mode.name(),
            policy: cache.as_ref().map(|cache| cache.policy.clone()),
            cache_bytes: self.cache_bytes,
            egress_bytes_per_s: *link,
            run: "timed",
            queries: outcome.seconds.len(),
            seconds: outcome.seconds_total(),
            bytes_from_storage: outcome.bytes_from_storage,
            bytes_to_storage: outcome.bytes_to_storage,
            cores_compute: self.cores_compute,
            cpu_seconds_compute: outcome.cpu_seconds_compute,
            cpu_seconds_storage: outcome.cpu_seconds_storage,
            cpu_seconds_compute_dedicated: outcome.cpu_seconds_dedicated(self.cores_compute),
            dollars: outcome.dollars,
        }
    }

    /// Fields of every line; `kind` is `query` or `batch`, `pass` counts timed batches from 1 and is 0 in the warm-up.
    pub fn more(&self, kind: &str, pass: usize) -> Value {
        json!({
            "kind": kind,
            "batch": self.configuration.batch.name(),
            "theta": self.configuration.theta,
            "seed": self.seed,
            "pass": pass,
            "cache_share": self.configuration.cache.as_ref().map(|cache| cache.share),
            "working_set_bytes": self.working_set_bytes,
            "pinned": self.pinned,
        })
    }
}
