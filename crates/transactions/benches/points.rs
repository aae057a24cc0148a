//! Point reads and updates of 1 KB rows, half and half, through procedures in Rust.
//!
//! `cargo bench -p thermocline-transactions --bench points -- [ROWS] [SECONDS]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot go on fails"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::engine::{
    Client, Engine, Executor, Heads, Journal, NoJournal, Options, Program, Ran, Releases, Route,
};
use thermocline_transactions::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_transactions::log::{Batch, Collector, Head as LogHead, LogEnd, LogSettings, LogThread, Writer};
use thermocline_transactions::partition::{Member, Partition, Scope};
use thermocline_transactions::schema::{
    Change, ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId,
};
use thermocline_transactions::table::Budget;
use thermocline_transactions::types::{DataType, PartitionHash, Value, ValueRef};

const TABLE: TableId = TableId(0);
const FIELDS: usize = 10;

fn definition() -> Arc<TableDefinition> {
    let column =
        |name: String, data_type| ColumnDefinition { name: name.into(), data_type, nullable: false, default: None };
    let key = column("key".into(), DataType::BigInt);
    let fields = (0..FIELDS).map(|number| column(format!("field{number}"), DataType::Varchar(100)));
    Arc::new(TableDefinition {
        id: TABLE,
        name: "usertable".into(),
        columns: [key].into_iter().chain(fields).collect(),
        indexes: vec![IndexDefinition {
            id: IndexId::PRIMARY,
            name: "usertable_pkey".into(),
            kind: IndexKind::Hash,
            unique: true,
            columns: vec![IndexColumn { column: 0, descending: false }],
        }],
        partition_by: Some(0),
        evictable: true,
        checks: Vec::new(),
    })
}

enum Point {
    /// All fields of a row.
    Read,
    /// Another value for one field.
    Update,
}

impl Program for Point {
    type Outcome = Vec<u8>;

    fn route(&self, arguments: &[Value]) -> Result<Route> {
        Ok(Route::One(PartitionHash::of(arguments[0].as_ref())))
    }

    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<Vec<u8>> {
        let Value::Int(key) = arguments[0] else { unreachable!() };
        let (partition, transaction) = scope.any()?;
        let id = partition.table(TABLE)?.find(IndexId::PRIMARY, &(key ^ i64::MIN).to_be_bytes())?.unwrap();
        match self {
            Self::Read => {
                let row = partition.table(TABLE)?.row(id)?;
                let mut out = Vec::with_capacity(100 * FIELDS);
                for field in 1..=FIELDS {
                    let ValueRef::Text(text) = row.value(field) else { unreachable!() };
                    out.extend_from_slice(text.as_bytes());
                }
                Ok(out)
            }
            Self::Update => {
                let Value::Int(field) = arguments[1] else { unreachable!() };
                partition.update(TABLE, id, &[(field as usize, arguments[2].as_ref())], transaction)?;
                Ok(Vec::new())
            }
        }
    }

    fn record(&self, batch: &mut Batch, head: &LogHead<'_>, arguments: &[Value]) -> Result<()> {
        batch.call(head, "update", 1, arguments)
    }
}

fn arguments(rng: &mut StdRng, rows: i64, update: bool) -> Box<[Value]> {
    let key = Value::Int(rng.random_range(0..rows));
    if !update {
        return [key].into();
    }
    let letter = rng.random_range(b'a'..=b'z');
    let text = String::from_utf8(vec![letter; 100]).unwrap();
    [key, Value::Int(rng.random_range(1..=FIELDS as i64)), Value::Text(text.into())].into()
}

fn load(partitions: u16, rows: i64) -> Vec<Member> {
    let budget = Arc::new(Budget::new(16 << 30));
    let mut members: Vec<Member> = (0..partitions)
        .map(|id| {
            let mut partition = Partition::new(PartitionId(id), partitions.into(), Arc::clone(&budget), 1);
            partition.define(&Change::CreateTable(definition())).unwrap();
            Member::new(partition, 64 << 20)
        })
        .collect();
    let text = "x".repeat(100);
    for key in 0..rows {
        let owner = PartitionHash::of(ValueRef::Int(key)).partition(partitions.into());
        let (partition, transaction) = members[owner as usize].split();
        let mut values = vec![ValueRef::Text(&text); FIELDS + 1];
        values[0] = ValueRef::Int(key);
        partition.insert(TABLE, &values, transaction).unwrap();
        partition.commit(transaction);
    }
    members
}

/// One partition without threads and log.
fn alone(rows: i64, time: Duration) -> f64 {
    let mut executor = Executor::new(load(1, rows).remove(0), Heads::new(TransactionId(1), 1, 1));
    let mut rng = StdRng::seed_from_u64(1);
    let calls: Vec<_> = (0..200_000).map(|call| (call % 2 == 0, arguments(&mut rng, rows, call % 2 == 0))).collect();
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < time {
        for (update, arguments) in &calls {
            let program = if *update { Point::Update } else { Point::Read };
            assert!(matches!(executor.run(&program, arguments, Micros(1)), Ran::Done(Ok(_))));
            if executor.batch.bytes() > 1 << 20 {
                executor.batch.clear();
            }
        }
        done += calls.len();
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn drive(mut client: Client<Point>, seed: u64, rows: i64, time: Duration) -> u64 {
    const WINDOW: usize = 1024;
    let mut rng = StdRng::seed_from_u64(seed);
    let programs = [Arc::new(Point::Read), Arc::new(Point::Update)];
    let (start, mut done, mut open) = (Instant::now(), 0, 0);
    while start.elapsed() < time || open > 0 {
        if start.elapsed() < time {
            while open < WINDOW {
                let update = rng.random_bool(0.5);
                client
                    .submit(Arc::clone(&programs[usize::from(update)]), arguments(&mut rng, rows, update), 0)
                    .unwrap();
                open += 1;
            }
            client.send();
        }
        for reply in client.receive() {
            reply.result.unwrap();
            open -= 1;
            done += 1;
        }
    }
    done
}

fn threads(partitions: u16, rows: i64, time: Duration, log: bool) -> f64 {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let releases = Releases::new(partitions.into());
    let log = log.then(|| {
        let settings = LogSettings::default();
        let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
        let writer = Writer::new(
            disk,
            Identity { database: DatabaseId(1), partitions },
            settings.segment_bytes,
            LogEnd::empty(),
        );
        let released = Arc::clone(&releases);
        let told = Box::new(move |sequence| released.released(sequence));
        LogThread::start(Collector::new(settings, Sequence(1)), writer, Arc::new(Budget::unlimited()), told).unwrap()
    });
    let journal: Arc<dyn Journal> = match &log {
        Some(log) => Arc::new(log.handle()),
        None => Arc::new(NoJournal),
    };
    let options = Options {
        queue_length: 4096,
        idle_max: Duration::from_secs(60),
        first_transaction: TransactionId(1),
        seed: 1,
        clock: Box::new(|| Micros(1)),
    };
    let engine = Engine::start(options, load(partitions, rows), journal, releases).unwrap();
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..u64::from(partitions))
            .map(|seed| {
                let client = engine.client();
                scope.spawn(move || drive(client, seed, rows, time))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let rate = done as f64 / start.elapsed().as_secs_f64();
    assert_eq!(engine.stop().len(), partitions as usize);
    rate
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let rows = numbers.first().copied().unwrap_or(200_000) as i64;
    let time = Duration::from_secs(numbers.get(1).copied().unwrap_or(3));
    println!("no threads, no log: {:.0} transactions/s", alone(rows, time));
    for partitions in [1, 2] {
        for log in [false, true] {
            let rate = threads(partitions, rows, time, log);
            println!("{partitions} partitions, log {}: {rate:.0} transactions/s", if log { "on" } else { "off" });
        }
    }
}
