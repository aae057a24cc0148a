//! Statements over all of a large table, beside steady work by key on the same partitions.
//!
//! ```text
//! cargo bench -p thermocline-transactions --bench large -- [ROWS] [TRANSACTIONS A SECOND]
//! ```
//!
//! On two partitions, with the log on the disk of `BENCH_DIRECTORY` (default: the current directory) and group commit;
//! a row is a key, a group, a number and 40 bytes of text. The work by key is YCSB's A over uniform keys: one in two
//! reads the text of a row, the others write it. It is due at a fixed rate whether or not the partitions answer, and
//! its time counts from when it was due, so that waiting behind a statement counts. Each statement begins a second
//! after that work and ends a second before it.
//!
//! Queries read like those of the analytic engine: a snapshot, in steps between the transactions; the bench sums it up
//! row by row. UPDATE and DELETE run in the row engine, and hold their partitions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on stops"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings, TableReader};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::reader::{ReadRequest, ReadStep, RowSink};
use thermocline_transactions::table::Row;
use thermocline_transactions::types::{Value, ValueRef};

const PARTITIONS: u16 = 2;
const WINDOW: u64 = 4096;
/// Rows of a step, the same number as the analytic engine's.
const STEP_ROWS: u32 = 2048;
const GROUPS: i64 = 1000;
const MARGIN: Duration = Duration::from_secs(1);

fn text(random: &mut StdRng) -> Value {
    Value::Text(format!("{:040}", random.random::<u64>()).into())
}

fn open() -> (RowEngine, tempfile::TempDir) {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let snapshots = SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() };
    let settings = Settings {
        partitions: PARTITIONS,
        snapshots,
        queue_length: 1 << 16,
        memory_bytes_max: 16 << 30,
        undo_bytes_max: 4 << 30,
        ..Settings::default()
    };
    (RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap(), directory)
}

fn fill(database: &RowEngine, rows: i64) {
    let create = "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL, field VARCHAR(100) NOT NULL) \
                  PARTITION BY (k)";
    database.session().execute(create, &[]).unwrap();
    let insert = database.prepare("INSERT INTO t VALUES ($1, $2, $3, $4)").unwrap();
    let (mut client, mut random) = (database.client(), StdRng::seed_from_u64(1));
    let (mut next, mut open) = (0, 0);
    while next < rows || open > 0 {
        while next < rows && open < WINDOW {
            let values = [Value::Int(next), Value::Int(next % GROUPS), Value::Int(1), text(&mut random)];
            client.submit(Arc::clone(&insert), values.into(), 0).unwrap();
            (next, open) = (next + 1, open + 1);
        }
        client.send();
        for reply in client.receive() {
            reply.result.unwrap();
            open -= 1;
        }
    }
}

/// The work by key, `rate` a second, until it is to stop; returns times in microseconds, ascending.
fn work_by_key(database: &RowEngine, rows: i64, rate: f64, stop: &AtomicBool) -> Vec<u64> {
    let read = database.prepare("SELECT field FROM t WHERE k = $1").unwrap();
    let write = database.prepare("UPDATE t SET field = $2 WHERE k = $1").unwrap();
    let (mut client, mut random) = (database.client(), StdRng::seed_from_u64(2));
    let (mut sent, mut took) = (0_u64, Vec::new());
    let start = Instant::now();
    let due = |number: u64| Duration::from_secs_f64(number as f64 / rate);
    while !stop.load(Ordering::Relaxed) || (took.len() as u64) < sent {
        let more = !stop.load(Ordering::Relaxed);
        while more && due(sent) <= start.elapsed() && sent - (took.len() as u64) < WINDOW {
            let key = Value::Int(random.random_range(0..rows));
            if random.random_bool(0.5) {
                client.submit(Arc::clone(&read), vec![key].into(), sent).unwrap();
            } else {
                client.submit(Arc::clone(&write), vec![key, text(&mut random)].into(), sent).unwrap();
            }
            sent += 1;
        }
        client.send();
        if took.len() as u64 == sent {
            std::thread::sleep(due(sent).saturating_sub(start.elapsed()));
            continue;
        }
        for reply in client.receive() {
            reply.result.unwrap();
            took.push(u64::try_from((start.elapsed() - due(reply.tag)).as_micros()).unwrap());
        }
    }
    took.sort_unstable();
    took
}

/// Sums of the selected column by the grouping column.
type Sums = HashMap<i64, i64, foldhash::fast::FixedState>;

/// Sums up one column, or counts rows without one, by another column if there is one.
struct Sum {
    column: Option<usize>,
    by: Option<usize>,
    sums: Sums,
    all: Arc<Mutex<Sums>>,
}

impl RowSink for Sum {
    fn row(&mut self, row: Row<'_>) -> Result<()> {
        let int = |column: Option<usize>, none: i64| match column.map(|column| row.value(column)) {
            Some(ValueRef::Int(value)) => value,
            Some(other) => panic!("{other} is no integer"),
            None => none,
        };
        *self.sums.entry(int(self.by, 0)).or_default() += int(self.column, 1);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let mut all = self.all.lock();
        self.sums.drain().for_each(|(group, sum)| *all.entry(group).or_default() += sum);
        Ok(())
    }
}

/// Reads all rows in steps; returns the sums, and the longest time of a step, including the wait for its turn.
fn query(database: &RowEngine, column: Option<usize>, by: Option<usize>) -> (Sums, Duration) {
    let all = Arc::new(Mutex::new(Sums::default()));
    let inner = Arc::clone(&all);
    let sink = move |_: PartitionId| {
        Box::new(Sum { column, by, sums: Sums::default(), all: Arc::clone(&inner) }) as Box<dyn RowSink>
    };
    let table = Arc::clone(database.schema().table("t").unwrap());
    let readers = database.session().read_tables(vec![ReadRequest { table, sink: Box::new(sink) }]).unwrap();
    let read = |mut reader: TableReader| {
        let mut longest = Duration::ZERO;
        loop {
            let begun = Instant::now();
            match reader.step(STEP_ROWS).unwrap() {
                ReadStep::Done => return longest.max(begun.elapsed()),
                ReadStep::More => longest = longest.max(begun.elapsed()),
                ReadStep::Busy => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    };
    let longest = std::thread::scope(|scope| {
        let threads: Vec<_> = readers.into_iter().flatten().map(|reader| scope.spawn(|| read(reader))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    let sums = std::mem::take(&mut *all.lock());
    (sums, longest)
}

/// Runs a statement; returns its rows and for how long it held its partitions.
fn statement(database: &RowEngine, sql: &str) -> (u64, Duration) {
    let interrupt = Arc::new(Interrupt::new(None));
    let mut session = database.session();
    let changed = session.as_one_statement(Arc::clone(&interrupt), |session| session.execute(sql, &[]));
    (changed.unwrap().affected, interrupt.held())
}

/// Runs `work` beside the work by key and prints its result.
fn beside(database: &RowEngine, rows: i64, rate: f64, what: &str, work: impl FnOnce() -> String) {
    let stop = AtomicBool::new(false);
    let (said, seconds, took) = std::thread::scope(|scope| {
        let by_key = scope.spawn(|| work_by_key(database, rows, rate, &stop));
        std::thread::sleep(MARGIN);
        let start = Instant::now();
        let said = work();
        let seconds = start.elapsed().as_secs_f64();
        std::thread::sleep(MARGIN);
        stop.store(true, Ordering::Relaxed);
        (said, seconds, by_key.join().unwrap())
    });
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!("{what}: {seconds:.2} s; {said}");
    println!(
        "  {} transactions by key took {:.2} ms at p50, {:.2} at p99, {:.2} at p99.9, {:.2} at most",
        took.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let held = |database: &RowEngine| {
        let partitions = database.session().statistics().unwrap().partitions;
        partitions.iter().map(|partition| partition.held.longest).max().unwrap_or_default()
    };
    println!("  longest hold of a partition since the start: {:.2} ms", held(database).as_secs_f64() * 1e3);
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u32>().ok());
    // Smoke test.
    let (rows, rate) = (numbers.next().unwrap_or(50_000).into(), numbers.next().unwrap_or(1000).into());
    let (database, _directory) = open();
    let start = Instant::now();
    fill(&database, rows);
    let seconds = start.elapsed().as_secs_f64();
    let bytes = database.memory_bytes();
    println!("{rows} rows, {} MB, filled in {seconds:.1} s", bytes >> 20);
    let beside = |what: &str, work: &dyn Fn() -> String| beside(&database, rows, rate, what, work);
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    beside("nothing", &|| {
        std::thread::sleep(Duration::from_secs(8));
        "as it is".into()
    });
    for (what, column, by) in [("count(*)", None, None), ("sum(v)", Some(2), None), ("sum(v) by g", Some(2), Some(1))] {
        beside(what, &|| {
            let (sums, longest) = query(&database, column, by);
            assert_eq!(sums.values().sum::<i64>(), rows);
            format!("{} groups; the longest step took {:.2} ms", sums.len(), milliseconds(longest))
        });
    }
    for sql in ["UPDATE t SET v = v + 1 WHERE k % 5 = 0", "DELETE FROM t WHERE k % 5 = 1"] {
        beside(sql, &|| {
            let (changed, held) = statement(&database, sql);
            assert_eq!(changed.cast_signed(), (rows + 4 - i64::from(sql.starts_with("DELETE"))) / 5);
            format!("{changed} rows changed; its partitions were held for {:.0} ms", milliseconds(held))
        });
    }
}
