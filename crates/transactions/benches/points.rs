//! Point reads and updates of 1 KB rows, half and half: by the table's functions alone, and through
//! procedures in Rust, SQL and Lua.
//!
//! `cargo bench -p thermocline-transactions --bench points -- [ROWS] [SECONDS] [procedures]`

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
use thermocline_transactions::database::{RowEngine, Settings, StatementResult};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::engine::{
    Client, CommitWaiters, Executor, Executors, Heads, Journal, NoJournal, Options, Program, Ran, WAITS_MAX,
};
use thermocline_transactions::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_transactions::log::{Batch, Collector, Head as LogHead, LogEnd, LogSettings, LogThread, Writer};
use thermocline_transactions::partition::{Member, Participants, Partition, Scope};
use thermocline_transactions::procedure::{Context, Procedure, Registration};
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
        has_row_key: false,
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

    fn participants(&self, arguments: &[Value]) -> Result<Participants> {
        Ok(Participants::One(PartitionHash::of(arguments[0].as_ref())))
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

fn drive<P: Program>(mut client: Client<P>, programs: [Arc<P>; 2], seed: u64, rows: i64, time: Duration) -> u64 {
    const WINDOW: usize = 1024;
    let mut rng = StdRng::seed_from_u64(seed);
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
    let commit_waiters = CommitWaiters::new(partitions.into());
    let log = log.then(|| {
        let settings = LogSettings::default();
        let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
        let writer = Writer::new(
            disk,
            Identity { database: DatabaseId(1), partitions },
            settings.segment_bytes,
            LogEnd::empty(),
        );
        let released = Arc::clone(&commit_waiters);
        let told = Box::new(move |sequence| released.released(sequence));
        LogThread::start(Collector::new(settings, Sequence(1)), writer, Arc::new(Budget::unlimited()), told).unwrap()
    });
    let journal: Arc<dyn Journal> = match &log {
        Some(log) => Arc::new(log.handle()),
        None => Arc::new(NoJournal),
    };
    let options = Options {
        queue_length: 4096,
        results_bytes_max: 64 << 20,
        idle_max: Duration::from_secs(60),
        first_transaction: TransactionId(1),
        seed: 1,
        waits_max: WAITS_MAX,
        clock: Box::new(|| Micros(1)),
    };
    let engine = Executors::start(options, load(partitions, rows), journal, commit_waiters).unwrap();
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..u64::from(partitions))
            .map(|seed| {
                let client = engine.client();
                let programs = [Arc::new(Point::Read), Arc::new(Point::Update)];
                scope.spawn(move || drive(client, programs, seed, rows, time))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let rate = done as f64 / start.elapsed().as_secs_f64();
    assert_eq!(engine.stop().len(), partitions as usize);
    rate
}

const READ: &str = "SELECT * FROM usertable WHERE key = $1";

/// One statement for each field; `$2` is the new value.
fn updates() -> [&'static str; FIELDS] {
    [
        "UPDATE usertable SET field0 = $2 WHERE key = $1",
        "UPDATE usertable SET field1 = $2 WHERE key = $1",
        "UPDATE usertable SET field2 = $2 WHERE key = $1",
        "UPDATE usertable SET field3 = $2 WHERE key = $1",
        "UPDATE usertable SET field4 = $2 WHERE key = $1",
        "UPDATE usertable SET field5 = $2 WHERE key = $1",
        "UPDATE usertable SET field6 = $2 WHERE key = $1",
        "UPDATE usertable SET field7 = $2 WHERE key = $1",
        "UPDATE usertable SET field8 = $2 WHERE key = $1",
        "UPDATE usertable SET field9 = $2 WHERE key = $1",
    ]
}

struct RustRead;

impl Procedure for RustRead {
    fn statements(&self) -> &[&str] {
        &[READ]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

struct RustUpdate([&'static str; FIELDS]);

impl Procedure for RustUpdate {
    fn statements(&self) -> &[&str] {
        &self.0
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let Value::Int(field) = arguments[1] else { unreachable!() };
        Ok(context.execute(field as usize - 1, &[arguments[0].clone(), arguments[2].clone()])?.into())
    }
}

/// A database of the default settings, on the real disk.
fn procedures(language: &str, partitions: u16, rows: i64, time: Duration, durable: bool) -> f64 {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let registered = vec![
        Registration::new("rust_read(key BIGINT) PARTITION ON (key)", 1, RustRead).unwrap(),
        Registration::new(
            "rust_update(key BIGINT, field BIGINT, value TEXT) PARTITION ON (key)",
            1,
            RustUpdate(updates()),
        )
        .unwrap(),
    ];
    let settings =
        Settings { partitions, memory_bytes_max: 16 << 30, procedures: registered, durable, ..Settings::default() };
    let database = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap();
    let mut session = database.session();
    let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field} VARCHAR(100)")).collect();
    let lua_updates: Vec<String> = updates().iter().map(|update| format!("'{update}'")).collect();
    for sql in [
        format!("CREATE TABLE usertable (key BIGINT PRIMARY KEY, {}) PARTITION BY (key)", fields.join(", ")),
        format!(
            "CREATE PROCEDURE lua_read(key BIGINT) PARTITION ON (key) LANGUAGE lua AS $$
               return db.query('{READ}', key)
             $$"
        ),
        format!(
            "CREATE PROCEDURE lua_touch(key BIGINT) PARTITION ON (key) LANGUAGE lua AS $$
               local row, bytes = db.row('{READ}', key), 0
               for i = 0, 9 do bytes = bytes + #row['field' .. i] end
               return bytes
             $$"
        ),
        format!(
            "CREATE PROCEDURE lua_update(key BIGINT, field BIGINT, value TEXT) PARTITION ON (key) LANGUAGE lua AS $$
               local updates = {{ {} }}
               db.execute(updates[field], key, value)
             $$",
            lua_updates.join(", ")
        ),
        format!("CREATE PROCEDURE sql_read(key BIGINT) PARTITION ON (key) LANGUAGE sql AS $$ {READ} $$"),
        "CREATE PROCEDURE sql_update(key BIGINT, field BIGINT, value TEXT) PARTITION ON (key) LANGUAGE sql AS $$
               UPDATE usertable SET field0 = value WHERE usertable.key = $1 AND field > 0
             $$"
        .to_owned(),
    ] {
        session.execute(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let mut client = database.client();
    let insert = database.prepare("INSERT INTO usertable VALUES ($1, $2, $2, $2, $2, $2, $2, $2, $2, $2, $2)").unwrap();
    let text = Value::Text("x".repeat(100).into());
    let keys: Vec<i64> = (0..rows).collect();
    for chunk in keys.chunks(1000) {
        for key in chunk {
            client.submit(Arc::clone(&insert), [Value::Int(*key), text.clone()].into(), 0).unwrap();
        }
        client.send();
        let mut done = 0;
        while done < chunk.len() {
            for reply in client.receive() {
                reply.result.unwrap();
                done += 1;
            }
        }
    }
    let read = if language == "lua_touch" { "lua_touch".to_owned() } else { format!("{language}_read") };
    let update = format!("{}_update", language.trim_end_matches("_touch"));
    let programs = [database.procedure(&read).unwrap(), database.procedure(&update).unwrap()];
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..u64::from(partitions))
            .map(|seed| {
                let (client, programs) = (database.client(), programs.clone());
                scope.spawn(move || drive(client, programs, seed, rows, time))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let only_procedures = std::env::args().any(|argument| argument == "procedures");
    let rows = numbers.first().copied().unwrap_or(200_000) as i64;
    let time = Duration::from_secs(numbers.get(1).copied().unwrap_or(3));
    if !only_procedures {
        println!("no threads, no log: {:.0} transactions/s", alone(rows, time));
        for partitions in [1, 2] {
            for log in [false, true] {
                let rate = threads(partitions, rows, time, log);
                println!("{partitions} partitions, log {}: {rate:.0} transactions/s", if log { "on" } else { "off" });
            }
        }
    }
    for (partitions, log) in [(1, false), (1, true), (2, true)] {
        for language in ["rust", "sql", "lua", "lua_touch"] {
            let rate = procedures(language, partitions, rows, time, log);
            let log = if log { "on" } else { "off" };
            println!("{partitions} partitions, log {log}, procedures in {language}: {rate:.0} transactions/s");
        }
    }
}
