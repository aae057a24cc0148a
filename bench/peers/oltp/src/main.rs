//! Clients of other databases for YCSB: the rows, keys and mixes of `thermocline bench ycsb`, one call at a time on
//! each of many connections.
//!
//! ```text
//! YcsbCalls --Call--> drive: one thread a connection --Connection--> MariaDB, PostgreSQL, memcached, RocksDB
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
    pub use measured::{Measured, Tally};
    pub use record::TransactionRecord;
    pub use resident::Resident;
    pub use scan::Scan;
}

#[allow(dead_code, unused_imports, reason = "clients need a part of these files")]
#[path = "../../../../crates/workloads/src/ycsb/mod.rs"]
mod ycsb;

use std::process::ExitCode;

use clap::Parser;
use thermocline_transactions::random::Random;

use arguments::Arguments;
use drive::drive;
use oltp::{Calls, Language};
use peer::Failure;
use record::{Records, record};
use ycsb::{KeyChooser, Skew, YcsbCalls};

/// Seed that no client has: theirs are their numbers.
const SEED_OF_PRELOAD: u64 = u64::MAX;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every mix at every skew over one table.
fn run(arguments: &Arguments) -> Result<(), Failure> {
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
    let mut records = Records::new(arguments.json.as_deref())?;
    for mix in &arguments.mix {
        for exponent in &arguments.skew {
            let skew = Skew { exponent: *exponent, scrambled: !arguments.unscrambled };
            // The seeds of `thermocline bench ycsb`. In SQL, a call's procedure is the number of its statement.
            let calls = |number| YcsbCalls::new((arguments.rows, ycsb::FIELD_BYTES), skew, *mix, Language::Sql, number);
            let clients = (0..arguments.connections as u64).map(|number| Box::new(calls(number)) as Box<dyn Calls>);
            let data_bytes = peer.data_bytes()?;
            let driven = drive(&*peer, clients.collect(), arguments.warm_up(), arguments.timed())?;
            records.put(&record(arguments, &engine, *mix, skew, data_bytes, &driven))?;
        }
    }
    Ok(())
}
