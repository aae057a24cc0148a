//! TPC-C, with the workload's own tables, procedures and terminals, without the analytic engine's build.
//!
//! `cargo bench -p thermocline-transactions --bench tpcc -- [OPTION=VALUE]...`
//!
//! - `calls=N`: this many NewOrders and nothing else; without it, the standard mix for `seconds=5`
//! - `language=rust|lua`, `log=on|off`, `partitions=1`, `warehouses=2`, `remote=on|off`
//! - `small=on`: tables of a tenth
//!
//! To count the instructions of a NewOrder without hardware counters, subtract two runs of different lengths.
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null tpcc-... small=on log=off calls=1000
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null tpcc-... small=on log=off calls=3000
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    dead_code,
    unused_imports,
    missing_docs,
    unreachable_pub,
    reason = "a bench that cannot go on fails, and takes what it needs of the workloads' files"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::database::{RowEngine, Settings};
use thermocline_transactions::disk::RealDisk;

use oltp::{Call, Calls, DriveOptions, Language, drive};
use tpcc::{Condition, Remote, Scale, Terminal, Transaction};

#[path = "../../workloads/src/oltp"]
mod oltp {
    mod drive;
    mod inserts;
    mod language;
    mod latencies;
    mod measured;
    mod resident;

    pub use drive::{Call, Calls, DriveOptions, drive};
    pub use inserts::Inserts;
    pub use language::Language;
    pub use latencies::Latencies;
    pub use measured::{Measured, Tally};
    pub use resident::Resident;
}

#[path = "../../workloads/src/tpcc/mod.rs"]
mod tpcc;

struct Arguments(HashMap<String, String>);

impl Arguments {
    fn get(&self, name: &str, otherwise: &str) -> String {
        self.0.get(name).map_or(otherwise, String::as_str).to_owned()
    }

    fn number(&self, name: &str, otherwise: u64) -> u64 {
        self.0.get(name).map_or(otherwise, |text| text.parse().unwrap())
    }

    fn is_on(&self, name: &str, otherwise: &str) -> bool {
        self.get(name, otherwise) == "on"
    }
}

/// Calls drawn once and submitted repeatedly, so that drawing is not measured.
struct Drawn {
    calls: Vec<Call>,
    next: usize,
}

impl Calls for Drawn {
    fn next_call(&mut self) -> Call {
        self.next += 1;
        self.calls[(self.next - 1) % self.calls.len()].clone()
    }
}

fn check(database: &RowEngine, scale: Scale, conditions: &[Condition]) {
    assert_eq!(tpcc::violations(&mut database.session(), scale, conditions).unwrap(), []);
}

/// Runs this many of the same calls on one client, with 64 in flight.
fn count(database: &RowEngine, mut calls: Drawn, mut left: u64) {
    let work = database.procedure(Transaction::PROCEDURES[0]).unwrap();
    let mut client = database.client();
    let mut on_their_way = 0;
    let (start, all) = (Instant::now(), left);
    while left > 0 || on_their_way > 0 {
        while on_their_way < 64 && left > 0 {
            client.submit(Arc::clone(&work), calls.next_call().arguments, 0).unwrap();
            (on_their_way, left) = (on_their_way + 1, left - 1);
        }
        client.send();
        for reply in client.receive() {
            // One in a hundred is rolled back on purpose.
            drop(reply.result);
            on_their_way -= 1;
        }
    }
    println!("{all} NewOrders: {:.0} a second", all as f64 / start.elapsed().as_secs_f64());
}

fn main() {
    let pairs = std::env::args().skip(1).filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let arguments = Arguments(pairs.collect());
    let language: Language = arguments.get("language", "rust").parse().unwrap();
    let partitions = arguments.number("partitions", 1) as u16;
    let remote = if arguments.is_on("remote", "off") { Remote::Standard } else { Remote::Never };
    let warehouses = arguments.number("warehouses", 2) as u32;
    let scale = match arguments.is_on("small", "off") {
        true => Scale { warehouses, items: 10_000, customers: 300 },
        false => Scale::standard(warehouses),
    };
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let settings = Settings {
        partitions,
        memory_bytes_max: 8 << 30,
        durable: arguments.is_on("log", "on"),
        procedures: tpcc::registrations(language).unwrap(),
        seed: 1,
        ..Settings::default()
    };
    let database = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap();
    tpcc::define(&mut database.session(), language).unwrap();
    tpcc::load(&database, scale, partitions.into()).unwrap();
    let mut terminals: Vec<Terminal> =
        (0..u64::from(partitions)).map(|number| Terminal::new(scale, remote, 1, number)).collect();

    if let Some(calls) = arguments.0.get("calls") {
        let mut draw = || Call { procedure: 0, arguments: terminals[0].arguments(Transaction::NewOrder) };
        let drawn = Drawn { calls: (0..500).map(|_| draw()).collect(), next: 0 };
        count(&database, drawn, calls.parse().unwrap());
        return;
    }
    let options = DriveOptions {
        in_flight: 256,
        warm_up: Duration::from_secs(1),
        timed: Duration::from_secs(arguments.number("seconds", 5)),
    };
    let clients = terminals.drain(..).map(|terminal| Box::new(terminal) as Box<dyn Calls>).collect();
    let measured = drive(&database, &Transaction::PROCEDURES, clients, options).unwrap();
    check(&database, scale, &Condition::always());
    let rate = |count| measured.per_second(count) / 1000.0;
    println!(
        "{:.1} thousand transactions a second, {:.1} thousand of them NewOrder; {} restarts",
        rate(measured.committed()),
        rate(measured.tallies[0].committed),
        measured.restarts
    );
}
