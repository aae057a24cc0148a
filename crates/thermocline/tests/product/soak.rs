//! Many clients, some of them killed, against one storage node with two pushdown slots: no wrong rows, and no resources
//! held when they are gone.
//!
//! `THERMOCLINE_SOAK_SECONDS=600 THERMOCLINE_SOAK_CLIENTS=64 THERMOCLINE_TPCH_SCALE=0.1` is the long
//! run. The seed of the clients' choices is printed; `THERMOCLINE_SEED` sets it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::data;
use crate::support::topology::NodeProcess;
use arrow::array::Array;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use thermocline_database::{Database, Session};
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

const PUSHDOWN_SLOTS: &str = "2";
/// Memory that a node may keep after a soak: cached descriptions and the allocator's free memory.
const RESIDENT_GROWTH_MAX: u64 = 300 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Resident bytes of a process.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A client process with the workload's tables at the node.
fn client(definitions: &str, mode: &str, sql: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command
        .args(["sql", "--format", "csv", "--set", &format!("mode={mode}")])
        .args(["-c", definitions, "-c", sql])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Rows of a finished client, sorted: not every query has an order.
fn rows(command: &mut Command, context: &str) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{context}: {}", String::from_utf8_lossy(&output.stderr));
    sorted(&output.stdout)
}

fn sorted(output: &[u8]) -> Vec<String> {
    let mut rows: Vec<String> = std::str::from_utf8(output).unwrap().lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    killed: AtomicU64,
    queue_longest: AtomicU64,
    /// Number of status replies of the node.
    looks: AtomicU64,
}

/// One client after the other until `end`; one in four is killed while running.
fn keep_asking(
    mut rng: StdRng,
    end: Instant,
    definitions: &str,
    expected: &[(&str, &str, Vec<String>)],
    counts: &Counts,
) {
    while Instant::now() < end {
        let (name, sql, rows) = expected.choose(&mut rng).unwrap();
        let mode = *["pushdown", "pushdown", "hybrid", "pullup"].choose(&mut rng).unwrap();
        let mut command = client(definitions, mode, sql);
        if rng.random_bool(0.25) {
            let mut process = command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(rng.random_range(10..1500)));
            process.kill().unwrap();
            process.wait().unwrap();
            counts.killed.fetch_add(1, Ordering::Relaxed);
        } else {
            let output = command.output().unwrap();
            let context = format!("{name} in mode {mode}");
            assert!(output.status.success(), "{context}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(&sorted(&output.stdout), rows, "{context}");
            counts.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The node's status: queue, both kinds of slots, memory, and the longest queue allowed; `None` if it did not answer
/// within the timeout of system tables.
async fn status(observer: &Session) -> Option<[u64; 5]> {
    let sql = "SELECT queue_length, pushdown_slots_used, pushback_slots_used, memory_used, queue_max \
               FROM system.storage_nodes WHERE crosses_link";
    let result = observer.run(sql).await.unwrap();
    let batch = &result.batches[0];
    if batch.columns().iter().any(|column| column.is_null(0)) {
        return None;
    }
    Some(std::array::from_fn(|column| {
        let column = batch.column(column);
        arrow::util::display::array_value_to_string(column, 0).unwrap().parse().unwrap()
    }))
}

/// Whether the node reports that nothing waits or runs, and that no memory is held.
async fn is_idle(observer: &Session) -> bool {
    matches!(status(observer).await, Some([0, 0, 0, 0, _]))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_nothing_behind() {
    let seconds = number("THERMOCLINE_SOAK_SECONDS", 15);
    let clients = number("THERMOCLINE_SOAK_CLIENTS", 6);
    let seed = number("THERMOCLINE_SEED", rand::rng().random_range(0..1 << 40));
    println!("THERMOCLINE_SEED={seed}");

    let data = data::made(&Workload::TPCH, Format::Parquet);
    let node = NodeProcess::start(data.to_str().unwrap(), "127.0.0.1:0", &["--pushdown-slots", PUSHDOWN_SLOTS], &[]);
    let location = format!("thermocline://{}", node.address);
    let definitions = data::definitions(&Workload::TPCH, Format::Parquet, &location).join(";\n");
    let expected: Vec<_> = Workload::TPCH
        .queries
        .iter()
        .map(|(name, sql)| (*name, *sql, rows(&mut client(&definitions, "pullup", sql), name)))
        .collect();

    let observer = Database::in_memory().await.unwrap().session();
    for definition in data::definitions(&Workload::TPCH, Format::Parquet, &location) {
        observer.run(&definition).await.unwrap();
    }
    let before = resident(node.process.id());
    let counts = Counts::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (definitions, expected, counts) = (&definitions, &expected, &counts);
            let rng = StdRng::seed_from_u64(seed ^ client);
            scope.spawn(move || keep_asking(rng, end, definitions, expected, counts));
        }
        let runtime = tokio::runtime::Handle::current();
        let (observer, counts) = (&observer, &counts);
        scope.spawn(move || {
            while Instant::now() < end {
                if let Some([queue, .., queue_max]) = runtime.block_on(status(observer)) {
                    assert!(queue <= queue_max, "{queue} requests wait where {queue_max} may");
                    counts.queue_longest.fetch_max(queue, Ordering::Relaxed);
                    counts.looks.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    });

    // The system closes a killed client's connection at once; the node then drops its work.
    let patience = Instant::now() + Duration::from_secs(30);
    while !is_idle(&observer).await && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let after = resident(node.process.id());
    println!(
        "{} answered, {} killed, queue of {} at most, resident {} MiB before and {} MiB after",
        counts.answered.load(Ordering::Relaxed),
        counts.killed.load(Ordering::Relaxed),
        counts.queue_longest.load(Ordering::Relaxed),
        before >> 20,
        after >> 20
    );
    assert!(is_idle(&observer).await, "queue, slots and memory return to nothing");
    assert!(counts.looks.load(Ordering::Relaxed) > 0, "the node never told its queue");
    assert!(after <= before + RESIDENT_GROWTH_MAX, "the node grew from {before} to {after} bytes");
    assert!(counts.answered.load(Ordering::Relaxed) > 0, "no client was answered");
}
