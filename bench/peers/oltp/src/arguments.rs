use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::mariadb::MariaDb;
use crate::memcached::Cached;
use crate::peer::{Address, Failure, Peer};
use crate::postgresql::PostgreSql;
use crate::tpcc::Scale;
use crate::tpcc_peers::TpccPeer;
use crate::ycsb::Mix;

/// YCSB or TPC-C over connections to another database.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Arguments {
    /// Workload
    #[arg(long, default_value = "ycsb")]
    pub workload: Workload,
    /// Database under test
    #[arg(long)]
    pub peer: PeerName,
    /// Unix socket of the database; for PostgreSQL, the directory of its socket
    #[arg(long, value_name = "PATH", required_unless_present_any = ["port", "directory"])]
    pub socket: Option<PathBuf>,
    /// TCP port of 127.0.0.1, or the number in the name of PostgreSQL's socket
    #[arg(long)]
    pub port: Option<u16>,
    /// Directory of the database, for rocksdb and rocksdb-row-cache
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// User of the database
    #[arg(long, default_value = "root")]
    pub user: String,
    /// Database that has the tables; created in MariaDB if missing [default: the workload's name]
    #[arg(long)]
    pub database: Option<String>,
    /// Unix socket of memcached, for mariadb-memcached
    #[arg(long, value_name = "PATH")]
    pub memcached_socket: Option<PathBuf>,
    /// TCP port of memcached on 127.0.0.1
    #[arg(long)]
    pub memcached_port: Option<u16>,
    /// Rows of YCSB's table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rows: u64,
    /// Percentages of reads and updates, such as 90/10, or the core workloads A, B, C; comma separated
    #[arg(long, value_delimiter = ',', default_value = "50/50")]
    pub mix: Vec<Mix>,
    /// Exponents of the Zipf distribution of keys, comma separated; 0 is uniform
    #[arg(long, value_delimiter = ',', default_value = "0.99", value_parser = parse_exponent)]
    pub skew: Vec<f64>,
    /// Make hot keys neighbours instead of spreading them over the table
    #[arg(long)]
    pub unscrambled: bool,
    /// Warehouses of TPC-C
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub warehouses: u32,
    /// Load a hundredth of the rows of each warehouse
    #[arg(long)]
    pub reduced: bool,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 10.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Unmeasured seconds before them
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    pub warm_up: f64,
    /// Connections, each with a thread and one call in flight
    #[arg(long, default_value_t = 32, value_parser = parse_connections)]
    pub connections: usize,
    /// Create the tables, insert their rows and fill memcached first
    #[arg(long)]
    pub load: bool,
    /// Memory limit of the servers in bytes, for the records; that of RocksDB itself
    #[arg(long, default_value_t = 0)]
    pub memory_limit_bytes: u64,
    /// Process of a server whose resident memory is recorded; may be repeated
    #[arg(long, value_name = "PID")]
    pub server: Vec<u32>,
    /// Write one JSON object per run to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Point reads and updates over skewed keys.
    Ycsb,
    /// The five transactions of TPC-C, and its consistency conditions after them.
    Tpcc,
}

impl Workload {
    /// Its name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ycsb => "ycsb",
            Self::Tpcc => "tpcc",
        }
    }
}

/// A database that this program has a client of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PeerName {
    /// MariaDB.
    #[value(name = "mariadb")]
    MariaDb,
    /// MariaDB behind memcached.
    #[value(name = "mariadb-memcached")]
    MariaDbMemcached,
    /// PostgreSQL.
    #[value(name = "postgresql")]
    PostgreSql,
    /// RocksDB in this process.
    #[value(name = "rocksdb")]
    RocksDb,
    /// RocksDB whose row cache has most of the memory.
    #[value(name = "rocksdb-row-cache")]
    RocksDbRowCache,
}

impl Arguments {
    /// The database under test.
    ///
    /// # Errors
    /// If an address is missing.
    pub fn peer(&self) -> Result<Box<dyn Peer>, Failure> {
        match self.peer {
            PeerName::MariaDb => Ok(Box::new(self.mariadb()?)),
            PeerName::MariaDbMemcached => {
                let memcached = Address::new(self.memcached_socket.clone(), self.memcached_port);
                let memcached = memcached.ok_or("--memcached-socket or --memcached-port is missing")?;
                Ok(Box::new(Cached::new(self.mariadb()?, memcached)))
            }
            PeerName::PostgreSql => Ok(Box::new(self.postgresql())),
            PeerName::RocksDb | PeerName::RocksDbRowCache => {
                self.embedded(self.directory.as_deref().ok_or("--directory is missing")?)
            }
        }
    }

    /// The database under test, for TPC-C.
    ///
    /// # Errors
    /// If an address is missing, or it has no procedures.
    pub fn tpcc_peer(&self) -> Result<Box<dyn TpccPeer>, Failure> {
        match self.peer {
            PeerName::MariaDb => Ok(Box::new(self.mariadb()?)),
            PeerName::PostgreSql => Ok(Box::new(self.postgresql())),
            _ => Err("TPC-C has procedures for mariadb and postgresql only".into()),
        }
    }

    fn database(&self) -> &str {
        self.database.as_deref().unwrap_or(self.workload.name())
    }

    fn mariadb(&self) -> Result<MariaDb, Failure> {
        let address = Address::new(self.socket.clone(), self.port).ok_or("--socket or --port is missing")?;
        Ok(MariaDb::new(&address, &self.user, self.database()))
    }

    fn postgresql(&self) -> PostgreSql {
        PostgreSql::new(self.socket.clone(), self.port, &self.user, self.database())
    }

    #[cfg(feature = "rocksdb")]
    fn embedded(&self, directory: &Path) -> Result<Box<dyn Peer>, Failure> {
        let has_row_cache = self.peer == PeerName::RocksDbRowCache;
        Ok(Box::new(crate::rocksdb::RocksDb::open(directory, self.memory_limit_bytes, has_row_cache, self.load)?))
    }

    #[cfg(not(feature = "rocksdb"))]
    fn embedded(&self, _: &Path) -> Result<Box<dyn Peer>, Failure> {
        Err("this program was built without the feature rocksdb".into())
    }

    /// Whether the database is in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.peer, PeerName::RocksDb | PeerName::RocksDbRowCache)
    }

    /// Size of TPC-C's data.
    pub const fn scale(&self) -> Scale {
        if self.reduced { Scale::reduced(self.warehouses) } else { Scale::standard(self.warehouses) }
    }

    /// Time that is not counted.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }

    /// Time that is counted.
    pub fn timed(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn parse_exponent(text: &str) -> Result<f64, String> {
    number(text, 10.0, "exponent")
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    number(text, 86_400.0, "number of seconds")
}

fn number(text: &str, max: f64, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=max).contains(number));
    number.ok_or_else(|| format!("\"{text}\" is no {what} from 0 to {max}"))
}

fn parse_connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| format!("\"{text}\" is no number of connections from 1 to 1024"))
}
