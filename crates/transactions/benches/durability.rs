//! Cost of durability: speed of replaying a log relative to writing it, and what snapshots take from concurrent
//! transactions.
//!
//! ```text
//! cargo bench -p thermocline-transactions --bench durability -- recovery [TRANSACTIONS] [ROWS]
//! cargo bench -p thermocline-transactions --bench durability -- snapshot [ROWS] [SECONDS]
//! ```
//!
//! On two partitions, with the log on the disk of `BENCH_DIRECTORY` (default: the current directory) and
//! group commit; a row is a key, a counter and 100 bytes of text. A transaction is a procedure in Rust: one
//! in two changes a row, the others read one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on stops"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings, StatementResult, Work};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::engine::Client;
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::recovery::Progress;
use thermocline_transactions::types::Value;

const PARTITIONS: u16 = 2;
const WINDOW: u64 = 512;

struct Add;

impl Procedure for Add {
    fn statements(&self) -> &[&str] {
        &["UPDATE items SET n = n + $2 WHERE id = $1"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

struct Get;

impl Procedure for Get {
    fn statements(&self) -> &[&str] {
        &["SELECT n, text FROM items WHERE id = $1"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

fn open(directory: &Path, progress: &mut dyn FnMut(&Progress)) -> RowEngine {
    let procedures = vec![
        Registration::new("add(id BIGINT, n BIGINT) PARTITION ON (id)", 1, Add).unwrap(),
        Registration::new("get(id BIGINT) PARTITION ON (id)", 1, Get).unwrap(),
    ];
    let snapshots = SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() };
    let settings =
        Settings { partitions: PARTITIONS, procedures, snapshots, memory_bytes_max: 8 << 30, ..Settings::default() };
    RowEngine::open_with_progress(Arc::new(RealDisk::open(directory).unwrap()), settings, progress).unwrap()
}

/// Submits calls and takes their results, `WINDOW` at a time, until `next` has none.
fn drive(mut client: Client<Work>, mut next: impl FnMut() -> Option<(Arc<Work>, Box<[Value]>)>, done: &AtomicU64) {
    let (mut open, mut more) = (0, true);
    while more || open > 0 {
        while more && open < WINDOW {
            match next() {
                Some((work, arguments)) => client.submit(work, arguments, 0).unwrap(),
                None => more = false,
            }
            open += u64::from(more);
        }
        client.send();
        if open > 0 {
            for reply in client.receive() {
                reply.result.unwrap();
                open -= 1;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn fill(database: &RowEngine, rows: i64) {
    let mut session = database.session();
    session
        .execute(
            "CREATE TABLE items (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, text TEXT NOT NULL) PARTITION BY (id)",
            &[],
        )
        .unwrap();
    let insert = database.prepare("INSERT INTO items VALUES ($1, 0, $2)").unwrap();
    let text: Box<str> = "t".repeat(100).into();
    let mut ids = 0..rows;
    let next = || Some((Arc::clone(&insert), vec![Value::Int(ids.next()?), Value::Text(text.clone())].into()));
    drive(database.client(), next, &AtomicU64::new(0));
}

/// One client thread for each partition. `wanted` returns whether there is one more transaction.
fn load(database: &RowEngine, rows: i64, reads: bool, wanted: impl Fn() -> bool + Sync, done: &AtomicU64) {
    let (add, get) = (database.procedure("add").unwrap(), database.procedure("get").unwrap());
    std::thread::scope(|scope| {
        for seed in 0..u64::from(PARTITIONS) {
            let (add, get, wanted, client) = (&add, &get, &wanted, database.client());
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                let next = || {
                    if !wanted() {
                        return None;
                    }
                    let id = Value::Int(random.random_range(0..rows));
                    let read = reads && random.random_bool(0.5);
                    Some(if read {
                        (Arc::clone(get), vec![id].into())
                    } else {
                        (Arc::clone(add), vec![id, Value::Int(1)].into())
                    })
                };
                drive(client, next, done);
            });
        }
    });
}

fn recovery(transactions: u64, rows: i64) {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let database = open(directory.path(), &mut |_| {});
    fill(&database, rows);
    database.snapshot().unwrap();
    let (left, done) = (AtomicU64::new(transactions), AtomicU64::new(0));
    let start = Instant::now();
    let wanted = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    load(&database, rows, false, wanted, &done);
    let ran = start.elapsed().as_secs_f64();
    let sum = database.session().execute("SELECT sum(n) FROM items", &[]).unwrap();
    drop(database);
    let (mut last, mut loaded) = (Progress::default(), None);
    let start = Instant::now();
    let database = open(directory.path(), &mut |progress| {
        if progress.log_bytes_total > 0 {
            loaded.get_or_insert_with(|| start.elapsed());
        }
        last = *progress;
    });
    let loaded = loaded.unwrap_or_default().as_secs_f64();
    let replayed = start.elapsed().as_secs_f64() - loaded;
    let again = database.session().execute("SELECT sum(n) FROM items", &[]).unwrap();
    assert_eq!((sum.rows, last.records), (again.rows, transactions));
    let (run_rate, replay_rate) = (transactions as f64 / ran, transactions as f64 / replayed);
    println!("ran {transactions} transactions in {ran:.1} s: {run_rate:.0}/s");
    println!("loaded {} rows of the snapshot in {loaded:.1} s", last.rows);
    println!("replayed {} records, {} MB, in {replayed:.1} s: {replay_rate:.0}/s", last.records, last.log_bytes >> 20);
    println!("replay against run: {:.2}", replay_rate / run_rate);
}

/// Single reads of one partition after the other, one at a time; returns the time of each in microseconds.
fn probe(database: &RowEngine, rows: i64, stop: &AtomicBool) -> Vec<u64> {
    let get = database.procedure("get").unwrap();
    let (mut client, mut random, mut took) = (database.client(), StdRng::seed_from_u64(99), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        client.call(Arc::clone(&get), vec![Value::Int(random.random_range(0..rows))].into()).unwrap();
        took.push(u64::try_from(start.elapsed().as_micros()).unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
    took.sort_unstable();
    took
}

fn snapshot(rows: i64, seconds: u64) {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let database = open(directory.path(), &mut |_| {});
    fill(&database, rows);
    database.snapshot().unwrap();
    let mut rates = [Vec::new(), Vec::new()];
    let (mut latencies, mut reports) = ([Vec::new(), Vec::new()], Vec::new());
    // In turns, so that other load on the machine affects both.
    for round in 0..6 {
        let with = round % 2 == 1;
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| load(&database, rows, true, || !stop.load(Ordering::Relaxed), &done));
            let probes = scope.spawn(|| probe(&database, rows, &stop));
            if with {
                while start.elapsed() < Duration::from_secs(seconds) {
                    reports.push(database.snapshot().unwrap());
                }
            } else {
                std::thread::sleep(Duration::from_secs(seconds));
            }
            rates[usize::from(with)].push(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
            stop.store(true, Ordering::Relaxed);
            latencies[usize::from(with)].extend(probes.join().unwrap());
        });
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    for (name, number) in [("without", 0), ("with", 1)] {
        let latencies = &mut latencies[number];
        latencies.sort_unstable();
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
        println!(
            "{name} snapshots: {:.0} transactions/s, a read takes {:.2} ms at p50, {:.2} at p99, {:.2} at p99.9, {:.2} at most",
            mean(&rates[number]),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    for report in &reports {
        let step = report.pause_max.as_secs_f64() * 1000.0;
        println!(
            "  {} rows, {} MB in {:.1} s, longest step {step:.2} ms",
            report.rows,
            report.bytes >> 20,
            report.duration.as_secs_f64()
        );
    }
    println!("throughput with snapshots against without: {:.3}", mean(&rates[1]) / mean(&rates[0]));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    match arguments.first().map(String::as_str) {
        Some("snapshot") => snapshot(number(1, 1_000_000).cast_signed(), number(2, 10)),
        Some("recovery") => recovery(number(1, 5_000_000), number(2, 100_000).cast_signed()),
        // Smoke test.
        _ => {
            recovery(20_000, 1000);
            snapshot(5000, 1);
        }
    }
}
