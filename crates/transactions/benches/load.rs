//! Bulk loads: rows a second, effect on other sessions, memory, and the time of opening afterwards.
//!
//! ```text
//! cargo bench -p thermocline-transactions --bench load -- [ROWS] [PARTITIONS]
//! ```
//!
//! Rows are lines of TPC-H's `lineitem`, cut down: a key of two columns in ascending order, five numbers, two dates
//! and three texts, about 100 bytes. The log is on the disk of `BENCH_DIRECTORY` (default: the current directory).
//! Beside the load one session reads and updates rows of another table by key, one at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot go on stops")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thermocline_transactions::database::{Opening, RowEngine, RowSession, Settings, SnapshotSettings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::types::{Decimal, Value, ValueRef};

const OTHERS: i64 = 100_000;

/// Kilobytes under this name in the process's status.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Processor time of this process in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn settings(partitions: u16) -> Settings {
    Settings {
        partitions,
        memory_bytes_max: 16 << 30,
        snapshots: SnapshotSettings { interval: None, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

fn open(directory: &Path, partitions: u16) -> RowEngine {
    let disk = Arc::new(RealDisk::open_or_create(directory.to_path_buf()).unwrap());
    RowEngine::open(disk, settings(partitions)).unwrap()
}

/// Runs point statements until told to stop; returns their times in microseconds, sorted.
fn others(database: &RowEngine, stop: &AtomicBool) -> Vec<u64> {
    let mut session = database.session();
    let (mut took, mut random) = (Vec::new(), 1_i64);
    while !stop.load(Ordering::Relaxed) {
        random = random * 48_271 % 0x7fff_ffff;
        let start = Instant::now();
        let key = [Value::Int(random % OTHERS)];
        let sql = match random % 2 {
            0 => "UPDATE others SET v = v + 1 WHERE k = $1",
            _ => "SELECT v FROM others WHERE k = $1",
        };
        session.execute(sql, &key).unwrap();
        took.push(start.elapsed().as_micros() as u64);
    }
    took.sort_unstable();
    took
}

fn tell(name: &str, took: &[u64], seconds: f64) {
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(0);
    println!(
        "{name}: {:.0} a second, p50 {} us, p99 {} us, p99.9 {} us, longest {} us",
        took.len() as f64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        took.last().unwrap_or(&0)
    );
}

fn load(session: &mut RowSession, rows: i64) {
    let mut load = session
        .load(
            "lines",
            &[
                "o", "l", "part", "supplier", "quantity", "price", "discount", "ship", "receipt", "flag", "mode",
                "comment",
            ],
        )
        .unwrap();
    for row in 0..rows {
        let units = |units: i64| ValueRef::Decimal(Decimal::new(units.into(), 2).unwrap());
        let values = [
            ValueRef::Int(row / 4),
            ValueRef::Int(row % 4),
            ValueRef::Int(row * 7919 % 200_000),
            ValueRef::Int(row * 104_729 % 10_000),
            units(row % 5000),
            units(row * 31 % 10_000_000),
            units(row % 11),
            ValueRef::Date((8000 + row % 2500) as i32),
            ValueRef::Date((8010 + row % 2500) as i32),
            ValueRef::Text("N"),
            ValueRef::Text(["AIR", "RAIL", "SHIP", "TRUCK"].get((row % 4) as usize).unwrap()),
            ValueRef::Text("carefully final requests"),
        ];
        load.push(&values).unwrap();
    }
    assert_eq!(load.finish().unwrap(), rows as u64);
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<i64>().ok());
    let (rows, partitions) = (arguments.next().unwrap_or(6_000_000), arguments.next().unwrap_or(2) as u16);
    let place = std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into());
    let directory = tempfile::tempdir_in(place).unwrap();
    for definition in ["o BIGINT NOT NULL, l INTEGER NOT NULL,", "o BIGINT NOT NULL, l INTEGER NOT NULL, "] {
        let is_partitioned = !definition.ends_with(' ');
        let path = directory.path().join(if is_partitioned { "partitioned" } else { "replicated" });
        if !is_partitioned && partitions == 1 {
            break;
        }
        let by = |column| if is_partitioned { format!("PARTITION BY ({column})") } else { String::new() };
        let database = open(&path, partitions);
        let mut session = database.session();
        let columns =
            "part INTEGER, supplier INTEGER, quantity DECIMAL(15, 2), price DECIMAL(15, 2), discount DECIMAL(15, 2), \
                       ship DATE, receipt DATE, flag CHAR(1), mode VARCHAR(10), comment VARCHAR(44), PRIMARY KEY (o, l)"
                .replace("CHAR(1)", "VARCHAR(1)");
        session.execute(&format!("CREATE TABLE lines ({definition} {columns}) {}", by("o")), &[]).unwrap();
        session.execute(&format!("CREATE TABLE others (k BIGINT PRIMARY KEY, v BIGINT) {}", by("k")), &[]).unwrap();
        let mut fill = session.load("others", &["k", "v"]).unwrap();
        (0..OTHERS).for_each(|k| fill.push(&[ValueRef::Int(k), ValueRef::Int(0)]).unwrap());
        fill.finish().unwrap();
        let stop = AtomicBool::new(false);
        let alone = std::thread::scope(|scope| {
            let others = scope.spawn(|| others(&database, &stop));
            std::thread::sleep(Duration::from_secs(3));
            stop.store(true, Ordering::Relaxed);
            others.join().unwrap()
        });
        for is_alone in [true, false] {
            stop.store(is_alone, Ordering::Relaxed);
            let before = (Instant::now(), processor_seconds(), database.memory_bytes());
            let took = std::thread::scope(|scope| {
                let others = scope.spawn(|| others(&database, &stop));
                load(&mut session, rows);
                stop.store(true, Ordering::Relaxed);
                others.join().unwrap()
            });
            let seconds = before.0.elapsed().as_secs_f64();
            let processor = processor_seconds() - before.1;
            println!(
                "{rows} rows, {partitions} partitions, partitioned: {is_partitioned}, alone: {is_alone}: {seconds:.1} s, \
                 {:.0} rows a second, {processor:.1} s of processor, {:.0} rows a second and core; tables {:.0} MB, at most \
                 {:.0} MB resident",
                rows as f64 / seconds,
                rows as f64 / processor,
                (database.memory_bytes() - before.2) as f64 / 1e6,
                status("VmHWM") as f64 / 1e3
            );
            if !is_alone {
                tell("others alone", &alone, 3.0);
                tell("others beside it", &took, seconds);
            }
            if is_alone {
                session.execute("DROP TABLE lines", &[]).unwrap();
                session.execute(&format!("CREATE TABLE lines ({definition} {columns}) {}", by("o")), &[]).unwrap();
            }
        }
        drop(session);
        let closing = Instant::now();
        database.close().unwrap();
        let opening = Instant::now();
        let disk = Arc::new(RealDisk::open_or_create(path.clone()).unwrap());
        let opened = Opening::new(disk, settings(partitions)).unwrap();
        let first = opening.elapsed();
        drop(opened.finish(&mut |_| {}).unwrap());
        println!(
            "closing {:.1} s; opening: statements without row tables after {:.3} s, all after {:.1} s",
            (opening - closing).as_secs_f64(),
            first.as_secs_f64(),
            opening.elapsed().as_secs_f64()
        );
        std::fs::remove_dir_all(&path).unwrap();
    }
}
