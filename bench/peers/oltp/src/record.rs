//! Lines of JSON, with the fields of `thermocline bench ycsb --json` and `bench tpcc --json`.

use std::fs::{self, File};
use std::io::Write;

use serde::Serialize;

use crate::arguments::{Arguments, PeerName, Workload};
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

/// The record of a run of YCSB.
pub fn ycsb_record(
    arguments: &Arguments,
    engine: &str,
    (mix, skew): (Mix, Skew),
    data_bytes: u64,
    driven: &Driven,
) -> PeerRecord {
    let has_cache = arguments.peer == PeerName::MariaDbMemcached && driven.reads > 0;
    let record = TransactionRecord {
        mix: mix.to_string(),
        skew: Some(skew.exponent),
        rows: Some(arguments.rows),
        row_bytes: Some(row_bytes(FIELD_BYTES)),
        scrambled: Some(skew.scrambled),
        ..record(arguments, engine, data_bytes, driven)
    };
    PeerRecord { record, cache_hits_share: has_cache.then(|| driven.hits as f64 / driven.reads as f64) }
}

/// The record of a run of TPC-C, with other warehouses in the transactions as the standard says.
pub fn tpcc_record(arguments: &Arguments, engine: &str, data_bytes: u64, driven: &Driven) -> PeerRecord {
    let measured = &driven.measured;
    let new_orders = measured.tallies.first().map(|tally| measured.per_second(tally.committed));
    let record = TransactionRecord {
        mix: "remote".to_owned(),
        warehouses: Some(arguments.warehouses),
        remote: Some(true),
        new_orders_per_s: new_orders,
        ..record(arguments, engine, data_bytes, driven)
    };
    PeerRecord { record, cache_hits_share: None }
}

/// What records of all workloads have.
fn record(arguments: &Arguments, engine: &str, data_bytes: u64, driven: &Driven) -> TransactionRecord {
    let own = [std::process::id()];
    let processes = if arguments.is_embedded() { own.as_slice() } else { &arguments.server };
    let record = TransactionRecord {
        workload: arguments.workload.name(),
        engine: engine.to_owned(),
        data_bytes,
        memory_limit_bytes: arguments.memory_limit_bytes,
        procedures: if arguments.is_embedded() { "rust" } else { "sql" }.to_owned(),
        log: true,
        synchronous_commit: true,
        clients: arguments.connections,
        in_flight: 1,
        ..TransactionRecord::default()
    };
    TransactionRecord { rss_max_bytes: resident(processes), ..record.with(&driven.measured) }
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
    /// Writes to the file of the arguments, if there is one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let own = match arguments.workload {
            Workload::Ycsb => ["mix", "skew", "hits"],
            Workload::Tpcc => ["warehouses", "NewOrd/s", "restarts"],
        };
        println!("{}", line(own.map(str::to_owned), ["tx/s", "p50 us", "p99 us", "p99.9"].map(str::to_owned)));
        Ok(Self { file: arguments.json.as_ref().map(File::create).transpose()? })
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
        let own = match record.warehouses {
            None => [
                record.mix.clone(),
                or_dash(record.skew.map(|skew| skew.to_string())),
                or_dash(cache_hits_share.map(|share| format!("{share:.2}"))),
            ],
            Some(warehouses) => [
                warehouses.to_string(),
                or_dash(record.new_orders_per_s.map(|rate| format!("{rate:.0}"))),
                record.restarts.to_string(),
            ],
        };
        let rates = [record.transactions_per_s, record.p50_us, record.p99_us, record.p999_us];
        println!("{}", line(own, rates.map(|rate| format!("{rate:.0}"))));
        Ok(())
    }
}

/// A line of the table: two cells of the workload's own, those of all, and the third of its own.
fn line([first, second, last]: [String; 3], [rate, p50, p99, p999]: [String; 4]) -> String {
    format!("{first:<10}{second:>10}{rate:>12}{p50:>10}{p99:>10}{p999:>10}{last:>10}")
}

fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}
