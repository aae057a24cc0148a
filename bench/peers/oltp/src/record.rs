//! Lines of JSON, with the fields of `thermocline bench ycsb --json`.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::arguments::{Arguments, PeerName};
use crate::drive::Driven;
use crate::oltp::TransactionRecord;
use crate::peer::Failure;
use crate::ycsb::{FIELD_BYTES, Mix, Skew, row_bytes};

/// A record, and what only peers have.
#[derive(Debug, Serialize)]
pub struct PeerRecord {
    /// Fields of Thermocline's records.
    #[serde(flatten)]
    record: TransactionRecord,
    /// Share of reads that memcached answered; `null` without memcached or reads.
    cache_hits_share: Option<f64>,
}

/// The record of a run.
pub fn record(
    arguments: &Arguments,
    engine: &str,
    mix: Mix,
    skew: Skew,
    data_bytes: u64,
    driven: &Driven,
) -> PeerRecord {
    let record = TransactionRecord {
        workload: "ycsb",
        engine: engine.to_owned(),
        mix: mix.to_string(),
        skew: Some(skew.exponent),
        data_bytes,
        memory_limit_bytes: arguments.memory_limit_bytes,
        procedures: if arguments.is_embedded() { "rust" } else { "sql" }.to_owned(),
        log: true,
        synchronous_commit: true,
        clients: arguments.connections,
        in_flight: 1,
        rows: Some(arguments.rows),
        row_bytes: Some(row_bytes(FIELD_BYTES)),
        scrambled: Some(skew.scrambled),
        ..TransactionRecord::default()
    };
    let own = [std::process::id()];
    let processes = if arguments.is_embedded() { own.as_slice() } else { &arguments.server };
    let has_cache = arguments.peer == PeerName::MariaDbMemcached && driven.reads > 0;
    PeerRecord {
        record: TransactionRecord { rss_max_bytes: resident(processes), ..record.with(&driven.measured) },
        cache_hits_share: has_cache.then(|| driven.hits as f64 / driven.reads as f64),
    }
}

/// Maximum resident memory of these processes since their start; `None` if the system does not report it.
fn resident(processes: &[u32]) -> Option<u64> {
    let of_one = |process| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    };
    if processes.is_empty() { None } else { processes.iter().map(of_one).sum() }
}

/// Sink of records, which prints a line for each.
pub struct Records {
    file: Option<File>,
}

impl Records {
    /// Writes to this file, if there is one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(path: Option<&Path>) -> Result<Self, Failure> {
        println!("{:<8}{:>6}{:>12}{:>10}{:>10}{:>10}{:>8}", "mix", "skew", "tx/s", "p50 us", "p99 us", "p99.9", "hits");
        Ok(Self { file: path.map(File::create).transpose()? })
    }

    /// Writes and prints a record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: &PeerRecord) -> Result<(), Failure> {
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            file.write_all(&line)?;
        }
        let PeerRecord { record, cache_hits_share } = record;
        println!(
            "{:<8}{:>6}{:>12.0}{:>10.0}{:>10.0}{:>10.0}{:>8}",
            record.mix,
            record.skew.unwrap_or_default(),
            record.transactions_per_s,
            record.p50_us,
            record.p99_us,
            record.p999_us,
            cache_hits_share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}")),
        );
        Ok(())
    }
}
