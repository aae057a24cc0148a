//! Clients of other databases for YCSB and TPC-C: the rows and calls of `thermocline bench ycsb` and `bench tpcc`, one
//! call at a time on each of many connections.
//!
//! ```text
//! YcsbCalls --Call--> drive: one thread a connection --Connection--> MariaDB, PostgreSQL, memcached, RocksDB
//! Terminal  --Call-->   |                            --procedure---> MariaDB, PostgreSQL
//!                       |
//!                       +--> Measured --> TransactionRecord, a line of JSON
//! ```
//!
//! `bench/peers/oltp.py` starts the servers. RocksDB is a library, of the feature `rocksdb`.

mod arguments;
mod drive;
mod load;
mod mariadb;
mod memcached;
mod peer;
mod postgresql;
mod record;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tpcc_peers;

#[allow(
    dead_code,
    unused_imports,
    unfulfilled_lint_expectations,
    reason = "clients need a part of these files, which expect the lints of a library"
)]
#[path = "../../../../crates/workloads/src/oltp"]
mod oltp {
    mod drive;
    mod inserts;
    mod language;
    mod latencies;
    mod measured;
    mod record;
    mod resident;
    mod scan;

    pub use drive::{Call, Calls, DriveOptions, drive};
    pub use inserts::Inserts;
    pub use language::Language;
    pub use latencies::Latencies;
    pub use measured::{Measured, Moment, Tally};
    pub use record::TransactionRecord;
    pub use resident::Resident;
    pub use scan::Scan;
}

#[allow(dead_code, unused_imports, reason = "clients need a part of these files")]
#[path = "../../../../crates/workloads/src/ycsb/mod.rs"]
mod ycsb;

#[allow(dead_code, unused_imports, reason = "clients need a part of these files")]
#[path = "../../../../crates/workloads/src/tpcc/mod.rs"]
mod tpcc;

use std::process::ExitCode;

use clap::Parser;
use thermocline_transactions::random::Random;

use arguments::{Arguments, Workload};
use drive::{Client, RowCaller, drive};
use oltp::{Calls, Language};
use peer::Failure;
use record::{Records, ycsb_record};
use ycsb::{KeyChooser, Skew, YcsbCalls};

/// Procedures of a client of YCSB in SQL: one that reads, one for each field that updates it.
const YCSB_PROCEDURES: usize = ycsb::FIELDS + 1;

/// Seed that no client has: theirs are their numbers.
const SEED_OF_PRELOAD: u64 = u64::MAX;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = match arguments.workload {
        Workload::Ycsb => ycsb_run,
        Workload::Tpcc => tpcc_peers::run,
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every mix at every skew over one table.
fn ycsb_run(arguments: &Arguments) -> Result<(), Failure> {
    let peer = arguments.peer()?;
    if arguments.load {
        load::load(&*peer, arguments.rows, arguments.connections)?;
        peer.settle()?;
        // All skews have the same hot keys; the lowest has the most of others.
        let exponent = arguments.skew.iter().copied().fold(f64::INFINITY, f64::min);
        let keys = KeyChooser::new(arguments.rows, Skew { exponent, scrambled: !arguments.unscrambled });
        let mut random = Random::new(SEED_OF_PRELOAD);
        peer.preload(arguments.rows, &mut || keys.draw(&mut random))?;
    }
    let engine = peer.engine()?;
    let mut records = Records::new(arguments)?;
    for mix in &arguments.mix {
        for exponent in &arguments.skew {
            let skew = Skew { exponent: *exponent, scrambled: !arguments.unscrambled };
            // The seeds of `thermocline bench ycsb`. In SQL, a call's procedure is the number of its statement.
            let calls = |number| YcsbCalls::new((arguments.rows, ycsb::FIELD_BYTES), skew, *mix, Language::Sql, number);
            let client = |number| {
                let caller = RowCaller::new(peer.connect()?);
                Ok::<Client, Failure>((Box::new(calls(number)) as Box<dyn Calls>, Box::new(caller)))
            };
            let clients = (0..arguments.connections as u64).map(client).collect::<Result<Vec<_>, _>>()?;
            let data_bytes = peer.data_bytes()?;
            let driven = drive(clients, YCSB_PROCEDURES, arguments.warm_up(), arguments.timed())?;
            records.put(&ycsb_record(arguments, &engine, (*mix, skew), data_bytes, &driven))?;
        }
    }
    Ok(())
}
