//! Parts shared by the transactional benches: the row engine in this process, its log on the disk, and the table of
//! measurements.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use serde_json::Value;
use thermocline_pushdown::units::{format_size, parse_size, size_within};
use thermocline_transactions::blocks::{BlockStoreSettings, Fetching, Merge, SamplingRate, Victims};
use thermocline_transactions::database::{RowEngine, Settings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::procedure::{Limits, Registration};
use thermocline_workloads::oltp::{DriveOptions, TransactionRecord};

use super::super::Failure;
use super::super::workload_data::user_cache;
use super::arguments::{distinct, number};
use super::scratch::ScratchDirectory;
use super::sink::{JsonLines, or_dash};

/// Arguments of every transactional bench.
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArgs {
    /// Use small data and short runs, under a minute, unless other arguments say otherwise
    #[arg(long)]
    pub quick: bool,
    /// Executor partitions, comma separated; runs one database for each
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub partitions: Vec<u16>,
    /// Run with a command log: on, off, or both
    #[arg(long, value_delimiter = ',', default_value = "on")]
    pub log: Vec<OnOff>,
    /// Make results wait until the log is on the disk: on or off
    #[arg(long, default_value = "on")]
    synchronous_commit: OnOff,
    /// Client threads [default: the number of partitions]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: Option<u16>,
    /// Calls that each client has in flight
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    in_flight: u32,
    /// Measured seconds of each run [default: 10, with --quick 1]
    #[arg(long, value_parser = parse_seconds_measured)]
    seconds: Option<f64>,
    /// Unmeasured seconds before them [default: 2, with --quick 0.3]
    #[arg(long, value_parser = parse_seconds)]
    warm_up: Option<f64>,
    /// Memory for rows and indexes
    #[arg(long, default_value = "4GiB", value_parser = parse_size)]
    memory_limit: u64,
    /// Evict cold rows to blocks where they would exceed the memory: on or off. Needs a log
    #[arg(long, default_value = "on")]
    eviction: OnOff,
    /// Bytes of rows in a block
    #[arg(long, default_value = "64KiB", value_parser = parse_block_size)]
    block_size: usize,
    /// How a transaction gets evicted rows: it is undone and runs again later (asynchronous), or its partition waits
    /// (blocking)
    #[arg(long, default_value = "asynchronous")]
    fetch: Fetching,
    /// What comes back with an evicted row: nothing else (tuple), or its block
    #[arg(long, default_value = "tuple")]
    merge: Merge,
    /// Which rows are evicted first: those used least often lately (sampled), or those used least recently (chain)
    #[arg(long, default_value = "sampled")]
    victims: Victims,
    /// Share of the transactions whose reads and writes move rows in the chain, above 0 and up to 1
    #[arg(long, default_value = "0.01")]
    chain_sampling: SamplingRate,
    /// Create databases in this directory, and remove them again [default: a folder of the user's cache]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write one JSON object per run to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// `on` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOff(pub bool);

impl FromStr for OnOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self(true)),
            "off" => Ok(Self(false)),
            _ => Err(format!("\"{text}\" is neither on nor off")),
        }
    }
}

impl fmt::Display for OnOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

fn parse_block_size(text: &str) -> Result<usize, String> {
    size_within(parse_size(text)?, BlockStoreSettings::BLOCK_BYTES, text).map(|bytes| bytes as usize)
}

const SECONDS_MAX: f64 = 86_400.0;

fn parse_seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0, SECONDS_MAX, "number of seconds")
}

/// [`parse_seconds`] without 0, for which nothing would be measured.
fn parse_seconds_measured(text: &str) -> Result<f64, String> {
    number(text, 0.001, SECONDS_MAX, "number of seconds")
}

impl EngineArgs {
    /// Refuses lists with duplicates.
    ///
    /// # Errors
    /// If there are duplicates.
    pub fn check(&self) -> Result<(), Failure> {
        distinct("--partitions", &self.partitions)?;
        distinct("--log", &self.log)
    }

    /// Duration and load of the clients.
    pub fn drive(&self) -> DriveOptions {
        let (warm_up, timed) = if self.quick { (0.3, 1.0) } else { (2.0, 10.0) };
        let [warm_up, timed] =
            [self.warm_up.unwrap_or(warm_up), self.seconds.unwrap_or(timed)].map(Duration::from_secs_f64);
        DriveOptions { in_flight: self.in_flight as usize, warm_up, timed }
    }

    /// Client threads for this many partitions.
    pub fn clients(&self, partitions: u16) -> usize {
        self.clients.unwrap_or(partitions).into()
    }

    fn blocks(&self) -> BlockStoreSettings {
        BlockStoreSettings {
            block_bytes: Some(self.block_size),
            fetching: Some(self.fetch),
            merge: self.merge,
            victims: self.victims,
            chain_sampling: self.chain_sampling,
            ..BlockStoreSettings::default()
        }
    }

    /// An empty database in a directory of its own, which is removed with it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn database(&self, partitions: u16, log: OnOff, procedures: Vec<Registration>) -> Result<Scratch> {
        let directory = ScratchDirectory::new(&self.directory.clone().unwrap_or_else(user_cache))?;
        let in_flight = self.clients(partitions).saturating_mul(self.in_flight as usize);
        let defaults = Settings::default();
        let settings = Settings {
            partitions,
            memory_bytes_max: self.memory_limit,
            eviction: self.eviction.0.then(|| self.blocks()),
            queue_length: in_flight.max(defaults.queue_length),
            durable: log.0,
            log: LogSettings { synchronous_commit: self.synchronous_commit.0, ..LogSettings::default() },
            // Checks after a long run read more than a user's statement should.
            limits: Limits { rows_max: u64::MAX, ..Limits::default() },
            procedures,
            ..defaults
        };
        let disk = RealDisk::open(directory.path().to_owned()).map_err(failed)?;
        let database = RowEngine::open(Arc::new(disk), settings).map_err(failed)?;
        Ok(Scratch { database, _directory: directory })
    }

    /// Takes a snapshot of the loaded data, so that no snapshot of it is taken during the measurement.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn settle(&self, database: &RowEngine, log: OnOff) -> Result<()> {
        if log.0 {
            database.snapshot().map_err(failed)?;
        }
        Ok(())
    }

    /// Fields of a record that describe the measurement.
    pub fn record(
        &self,
        workload: &'static str,
        database: &RowEngine,
        partitions: u16,
        log: OnOff,
    ) -> TransactionRecord {
        TransactionRecord {
            workload,
            engine: format!("thermocline {}", env!("CARGO_PKG_VERSION")),
            data_bytes: database.memory_bytes(),
            evicts: log.0 && self.eviction.0,
            block_bytes: self.block_size,
            fetching: self.fetch.name(),
            merge: self.merge.name(),
            victims: self.victims.name(),
            chain_sampling: self.chain_sampling.share(),
            memory_limit_bytes: self.memory_limit,
            partitions,
            log: log.0,
            synchronous_commit: log.0 && self.synchronous_commit.0,
            clients: self.clients(partitions),
            in_flight: self.in_flight as usize,
            ..TransactionRecord::default()
        }
    }
}

/// A database that is removed with its files on drop.
pub struct Scratch {
    pub database: RowEngine,
    _directory: ScratchDirectory,
}

/// An error of the row engine.
pub fn failed(error: thermocline_transactions::Error) -> DataFusionError {
    exec_datafusion_err!("{error}")
}

/// Sink of records, which prints a line for each.
pub struct Table {
    json: JsonLines,
    records: Vec<TransactionRecord>,
}

impl Table {
    /// Writes to the file `json`, if there is one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(json: Option<&PathBuf>) -> Result<Self> {
        let json = JsonLines::new(json)?;
        say!(
            "{:<8}{:>6}{:>6}{:>5}{:>5}{:>10}{:>10}{:>9}{:>9}{:>9}{:>8}{:>9}{:>9}{:>11}",
            "mix",
            "skew",
            "procs",
            "log",
            "part",
            "tx/s",
            "NewOrd/s",
            "growth",
            "p50 us",
            "p99 us",
            "p99.9",
            "aborts",
            "restarts",
            "rss max"
        );
        Ok(Self { json, records: Vec::new() })
    }

    /// Writes and prints a record. Growth is the throughput relative to the first run that differs only in the number
    /// of partitions.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: TransactionRecord) -> Result<()> {
        self.json.put(&record, Value::Null)?;
        self.json.flush()?;
        let alike = |other: &&TransactionRecord| {
            (&other.mix, other.skew, &other.procedures, other.log, other.remote, other.scrambled)
                == (&record.mix, record.skew, &record.procedures, record.log, record.remote, record.scrambled)
        };
        let growth = self.records.iter().find(alike).map(|first| record.transactions_per_s / first.transactions_per_s);
        say!(
            "{:<8}{:>6}{:>6}{:>5}{:>5}{:>10.0}{:>10}{:>9}{:>9.0}{:>9.0}{:>8.0}{:>9}{:>9}{:>11}",
            record.mix,
            or_dash(record.skew.map(|skew| skew.to_string())),
            record.procedures,
            OnOff(record.log).to_string(),
            record.partitions,
            record.transactions_per_s,
            or_dash(record.new_orders_per_s.map(|rate| format!("{rate:.0}"))),
            or_dash(growth.map(|growth| format!("{growth:.2}"))),
            record.p50_us,
            record.p99_us,
            record.p999_us,
            record.aborts,
            record.restarts,
            or_dash(record.rss_max_bytes.map(format_size)),
        );
        if let Some(scans) = record.scans {
            let each = or_dash(record.scan_seconds.map(|seconds| format!("{seconds:.2} s")));
            let before = self.records.last().map_or(f64::NAN, |before| before.transactions_per_s);
            let share = record.transactions_per_s / before;
            say!(
                "        beside {scans} scans of the whole table, {each} each: {share:.2} of the transactions without"
            );
        }
        self.records.push(record);
        Ok(())
    }
}
