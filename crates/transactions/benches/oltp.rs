//! TPC-C and YCSB, with the workloads' own tables, procedures and clients, without the analytic engine's build.
//!
//! `cargo bench -p thermocline-transactions --bench oltp -- [OPTION=VALUE]...`
//!
//! - `workload=tpcc|ycsb`, `language=rust|lua`, `log=on|off`, `partitions=1`, `memory=8192` MiB, with a log beyond that
//!   blocks of evicted rows unless `eviction=off`
//! - `in_flight=256` calls of a client, `warm=1` seconds before the `seconds=5` that count
//! - `calls=N` for as many calls and no time: of TPC-C NewOrders and nothing else, of YCSB those of the mix
//! - TPC-C: `warehouses=2`, `remote=on|off`, `small=on` for tables of a tenth; `check=off` to leave out the consistency
//!   conditions at the end
//! - YCSB: `rows=1000000` of 1 KB, `mix=100/0,50/50` and `skew=0.75,1.25` to be run one after the other
//!
//! To count the instructions of a call without hardware counters, subtract two runs of different lengths.
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null oltp-... small=on log=off calls=1000
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null oltp-... small=on log=off calls=3000
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
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, Settings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::procedure::Registration;

use oltp::{Call, Calls, DriveOptions, Language, Measured, drive};
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
#[path = "../../workloads/src/ycsb/mod.rs"]
mod ycsb;

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

/// Runs this many calls of one client, with 64 in flight.
fn count(database: &RowEngine, procedures: &[&str], calls: &mut dyn Calls, all: u64) {
    let works: Vec<_> = procedures.iter().map(|name| database.procedure(name).unwrap()).collect();
    let mut client = database.client();
    let (mut left, mut on_their_way, start) = (all, 0, Instant::now());
    while left > 0 || on_their_way > 0 {
        while on_their_way < 64 && left > 0 {
            let call = calls.next_call();
            client.submit(Arc::clone(&works[call.procedure]), call.arguments, 0).unwrap();
            (on_their_way, left) = (on_their_way + 1, left - 1);
        }
        client.send();
        for reply in client.receive() {
            // One NewOrder in a hundred is rolled back on purpose.
            drop(reply.result);
            on_their_way -= 1;
        }
    }
    println!("{all} calls: {:.0} a second", all as f64 / start.elapsed().as_secs_f64());
}

fn open(directory: &Path, arguments: &Arguments, procedures: Vec<Registration>) -> RowEngine {
    let settings = Settings {
        partitions: arguments.number("partitions", 1) as u16,
        memory_bytes_max: arguments.number("memory", 8192) << 20,
        durable: arguments.is_on("log", "on"),
        eviction: arguments.is_on("eviction", "on").then(BlockStoreSettings::default),
        procedures,
        seed: 1,
        ..Settings::default()
    };
    RowEngine::open(Arc::new(RealDisk::open(directory).unwrap()), settings).unwrap()
}

fn run(database: &RowEngine, arguments: &Arguments, procedures: &[&str], clients: Vec<Box<dyn Calls>>) -> Measured {
    let options = DriveOptions {
        in_flight: arguments.number("in_flight", 256) as usize,
        warm_up: Duration::from_secs(arguments.number("warm", 1)),
        timed: Duration::from_secs(arguments.number("seconds", 5)),
    };
    drive(database, procedures, clients, options).unwrap()
}

/// Rows of a table in memory.
fn live_rows(database: &RowEngine, name: &str) -> usize {
    let statistics = database.session().statistics().unwrap();
    let tables = statistics.partitions.iter().flat_map(|partition| &partition.tables);
    tables.filter(|table| &*table.table.name == name).map(|table| table.live_rows).sum()
}

/// What eviction did, and the memory of the process.
fn eviction(measured: &Measured) -> String {
    let (counts, each) = (measured.eviction, |count: u64| measured.per_second(count) / 1000.0);
    format!(
        "{:.1} thousand rows evicted a second, {:.1} read back, {:.2} blocking reads; partitions held for {:.1} ms at most; \
         {} MiB resident",
        each(counts.evicted_rows),
        each(counts.returned_rows),
        each(counts.blocking),
        counts.held_us_max as f64 / 1000.0,
        measured.rss_max_bytes.unwrap_or_default() >> 20
    )
}

fn run_tpcc(directory: &Path, arguments: &Arguments, language: Language) {
    let remote = if arguments.is_on("remote", "off") { Remote::Standard } else { Remote::Never };
    let warehouses = arguments.number("warehouses", 2) as u32;
    let scale = match arguments.is_on("small", "off") {
        true => Scale { warehouses, items: 10_000, customers: 300 },
        false => Scale::standard(warehouses),
    };
    let database = open(directory, arguments, tpcc::registrations(language).unwrap());
    tpcc::define(&mut database.session(), language).unwrap();
    let partitions = arguments.number("partitions", 1);
    tpcc::load(&database, scale, partitions as usize).unwrap();
    let mut terminals: Vec<Terminal> = (0..partitions).map(|number| Terminal::new(scale, remote, 1, number)).collect();
    if let Some(calls) = arguments.0.get("calls") {
        let mut draw = || Call { procedure: 0, arguments: terminals[0].arguments(Transaction::NewOrder) };
        let mut drawn = Drawn { calls: (0..500).map(|_| draw()).collect(), next: 0 };
        count(&database, &Transaction::PROCEDURES[..1], &mut drawn, calls.parse().unwrap());
        return;
    }
    let clients = terminals.drain(..).map(|terminal| Box::new(terminal) as Box<dyn Calls>).collect();
    let measured = run(&database, arguments, &Transaction::PROCEDURES, clients);
    let rate = |count| measured.per_second(count) / 1000.0;
    println!(
        "{:.1} thousand transactions a second, {:.1} thousand of them NewOrder; {} restarts; {}",
        rate(measured.committed()),
        rate(measured.tallies[0].committed),
        measured.restarts,
        eviction(&measured)
    );
    if !arguments.is_on("check", "on") {
        return;
    }
    check(&database, scale, &Condition::always());
}

fn run_ycsb(directory: &Path, arguments: &Arguments, language: Language) {
    let rows = arguments.number("rows", 1_000_000);
    let database = open(directory, arguments, ycsb::registrations(language).unwrap());
    ycsb::define(&mut database.session(), ycsb::FIELD_BYTES, language).unwrap();
    ycsb::load(&database, rows, ycsb::FIELD_BYTES, 1).unwrap();
    let procedures = ycsb::procedures(language);
    let procedures: Vec<&str> = procedures.iter().map(String::as_str).collect();
    for exponent in arguments.get("skew", "0.99").split(',').map(|text| text.parse::<f64>().unwrap()) {
        for mix in arguments.get("mix", "50/50").split(',').map(|text| text.parse::<ycsb::Mix>().unwrap()) {
            let skew = ycsb::Skew { exponent, scrambled: true };
            let client = |seed| ycsb::YcsbCalls::new((rows, ycsb::FIELD_BYTES), skew, mix, language, seed);
            if let Some(calls) = arguments.0.get("calls") {
                let mut of = client(0);
                let mut drawn = Drawn { calls: (0..5000).map(|_| of.next_call()).collect(), next: 0 };
                count(&database, &procedures, &mut drawn, calls.parse().unwrap());
                continue;
            }
            let clients = (0..arguments.number("partitions", 1)).map(|seed| Box::new(client(seed)) as Box<dyn Calls>);
            let measured = run(&database, arguments, &procedures, clients.collect());
            let live = live_rows(&database, ycsb::TABLE) as u64;
            let weight =
                |ranks: std::ops::RangeInclusive<u64>| -> f64 { ranks.map(|rank| (rank as f64).powf(-exponent)).sum() };
            // As if the most popular rows were in memory.
            let least = measured.committed() as f64 * weight(live + 1..=rows) / weight(1..=rows);
            println!(
                "skew {exponent}, {mix}: {:.1} thousand transactions a second; {:.2} times the fewest rows read back; {}",
                measured.per_second(measured.committed()) / 1000.0,
                measured.eviction.returned_rows as f64 / least,
                eviction(&measured)
            );
        }
    }
}

fn main() {
    let pairs = std::env::args().skip(1).filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let arguments = Arguments(pairs.collect());
    let language: Language = arguments.get("language", "rust").parse().unwrap();
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    match arguments.get("workload", "tpcc").as_str() {
        "tpcc" => run_tpcc(directory.path(), &arguments, language),
        "ycsb" => run_ycsb(directory.path(), &arguments, language),
        other => panic!("workload={other}: tpcc or ycsb"),
    }
}
