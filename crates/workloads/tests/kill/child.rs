//! The process that is killed: a database, and clients that print the answers that they get.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use thermocline_transactions::Result;
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::error::Class;
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::procedure::Registration;
use thermocline_transactions::recovery::Progress;
use thermocline_workloads::{tpcc, ycsb};

use super::clients::{CLIENTS, IN_FLIGHT, Languages, SCALE, Workload, calls, rows, told};
use super::number;

pub const DIRECTORY: &str = "THERMOCLINE_KILL_DIRECTORY";
pub const PROCESS: &str = "THERMOCLINE_KILL_PROCESS";
pub const LANGUAGES: &str = "THERMOCLINE_KILL_LANGUAGES";
pub const LOAD: &str = "THERMOCLINE_KILL_LOAD";
pub const EARLY: &str = "THERMOCLINE_KILL_EARLY";

/// Bytes of memory for whole tables as results.
pub const MEMORY_TO_COMPARE: u64 = 4 << 30;

pub fn registrations(languages: Languages) -> Vec<Registration> {
    let mut registrations = ycsb::registrations(languages.ycsb).unwrap();
    registrations.extend(tpcc::registrations(languages.tpcc).unwrap());
    registrations
}

pub fn settings(languages: Languages) -> Settings {
    Settings {
        partitions: 2,
        procedures: registrations(languages),
        memory_bytes_max: number("THERMOCLINE_KILL_MEMORY_MIB", 1024) << 20,
        eviction: Some(BlockStoreSettings { segment_bytes: 1 << 20, ..Default::default() }),
        log: LogSettings { segment_bytes: 100_000, ..LogSettings::default() },
        // Snapshots often and quick enough that many are complete, and many are interrupted.
        snapshots: SnapshotSettings { log_bytes: 300_000, time_percent: 50, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

/// Answers long before anything is written, which the test must detect.
fn settings_that_lose(languages: Languages) -> Settings {
    let log = LogSettings { synchronous_commit: false, commit_interval_us: 500_000, ..LogSettings::default() };
    Settings { log, ..settings(languages) }
}

/// Recovers a database within its limit, and has the limit raised then, so that whole tables can be results.
pub fn open_to_compare(
    directory: &Path,
    languages: Languages,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RowEngine> {
    let disk = Arc::new(RealDisk::open(directory)?);
    let database = RowEngine::open_with_progress(disk, settings(languages), progress)?;
    database.set_memory_bytes_max(MEMORY_TO_COMPARE);
    Ok(database)
}

/// Makes the tables of both workloads, and fills them.
pub fn load(database: &RowEngine, languages: Languages) -> Result<()> {
    let mut session = database.session();
    ycsb::define(&mut session, ycsb::FIELD_BYTES, languages.ycsb)?;
    tpcc::define(&mut session, languages.tpcc)?;
    ycsb::load(database, rows(), ycsb::FIELD_BYTES, 2)?;
    tpcc::load(database, SCALE, 2)
}

/// Clients that never stop. With `early`, they are answered too early.
pub fn run(directory: &Path, process: u64, languages: Languages, loads: bool, early: bool) {
    // A thread that panics, also one of the engine, ends the process: the parent notices.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    // The test harness's output may lack a line end.
    say("\nstarted\n");
    let settings = if early { settings_that_lose(languages) } else { settings(languages) };
    let database = RowEngine::open(Arc::new(RealDisk::open(directory).unwrap()), settings).unwrap();
    say("recovered\n");
    if loads {
        load(&database, languages).unwrap();
        say("loaded\n");
    }
    say("running\n");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let database = &database;
            scope.spawn(move || work(database, client, process, languages));
        }
    });
}

/// A single write, so that all lines before the last are whole. If nobody reads them, this process has nothing left to
/// do.
fn say(lines: &str) {
    std::io::stdout().lock().write_all(lines.as_bytes()).unwrap();
}

/// Makes new calls only after the lines about earlier ones are written.
fn work(database: &RowEngine, client: usize, process: u64, languages: Languages) {
    let procedures = Workload::of(client).procedures(languages);
    let works: Vec<_> = procedures.iter().map(|name| database.procedure(name).unwrap()).collect();
    let mut calls = calls(client, process, languages);
    let mut connection = database.client();
    let mut on_their_way = HashMap::new();
    let (mut next, mut free) = (0, IN_FLIGHT);
    loop {
        for number in next..next + free as u64 {
            let call = calls.next_call();
            on_their_way.insert(number, call.procedure);
            connection.submit(Arc::clone(&works[call.procedure]), call.arguments, number).unwrap();
        }
        next += free as u64;
        connection.send();
        let replies = connection.receive();
        free = replies.len();
        let lines = replies.into_iter().map(|reply| {
            let (number, procedure) = (reply.tag, on_their_way.remove(&reply.tag).unwrap());
            match reply.result {
                Ok(answer) => format!("{client} {number} committed {}\n", told(client, procedure, &answer)),
                Err(error) if [Class::Raised.sqlstate(), "40001"].contains(&error.sqlstate()) => {
                    format!("{client} {number} refused {}\n", error.sqlstate())
                }
                Err(error) => panic!("client {client}, call {number} of {}: {error}", procedures[procedure]),
            }
        });
        say(&lines.collect::<String>());
    }
}
