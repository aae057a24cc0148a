//! Queries of another engine see whole tables as of one moment, while transactions go on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, TableReader};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::reader::{ReadRequest, ReadStep, RowSink};
use thermocline_transactions::schema::TableDefinition;
use thermocline_transactions::table::Row;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

type Rows = Arc<Mutex<Vec<String>>>;

struct Collect {
    rows: Rows,
    columns: usize,
    /// Maximum rows that it accepts.
    most: usize,
}

impl RowSink for Collect {
    fn row(&mut self, row: Row<'_>) -> Result<()> {
        let mut rows = self.rows.lock().unwrap();
        if rows.len() >= self.most {
            return Err(thermocline_transactions::Error::OutOfMemory("the sink is full".into()));
        }
        let values: Vec<_> = (0..self.columns).map(|column| row.value(column).to_string()).collect();
        rows.push(values.join(" "));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn open(partitions: u16) -> RowEngine {
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let eviction = Some(BlockStoreSettings { segment_bytes: 1 << 14, ..Default::default() });
    RowEngine::open(disk, Settings { partitions, eviction, ..Settings::default() }).unwrap()
}

/// Has all rows evicted that nobody holds.
fn evict(database: &RowEngine, session: &mut RowSession) {
    database.set_memory_bytes_max(0);
    let mut live = || {
        let statistics = session.statistics().unwrap();
        statistics.partitions.iter().flat_map(|partition| &partition.tables).map(|table| table.live_rows).sum::<usize>()
    };
    while live() > 0 {
        std::thread::yield_now();
    }
    database.set_memory_bytes_max(1 << 30);
}

fn run(session: &mut RowSession, sql: &str) {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn request(database: &RowEngine, table: &str, rows: &Rows, most: usize) -> ReadRequest {
    let table: Arc<TableDefinition> = Arc::clone(database.schema().table(table).unwrap());
    let (rows, columns) = (Arc::clone(rows), table.columns.len());
    let sink = move |_: PartitionId| Box::new(Collect { rows: Arc::clone(&rows), columns, most }) as Box<dyn RowSink>;
    ReadRequest { table, sink: Box::new(sink) }
}

fn all(session: &mut RowSession, table: &str) -> Vec<String> {
    let answer = session.execute(&format!("SELECT * FROM {table} ORDER BY k"), &[]).unwrap();
    answer.rows.iter().map(|row| row.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")).collect()
}

fn sorted(rows: &Rows) -> Vec<String> {
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort_by_key(|row| row.split(' ').next().unwrap().parse::<i64>().unwrap());
    rows
}

#[test]
fn tables_are_read_as_they_were_when_reading_began() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let database = open(1 + (seed % 3) as u16);
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
        run(&mut session, "CREATE TABLE u (k BIGINT PRIMARY KEY, v TEXT)");
        let change = |session: &mut RowSession, random: &mut StdRng| {
            let (table, key) = (if random.random() { "t" } else { "u" }, random.random_range(0..200));
            let text = "x".repeat(random.random_range(0..40));
            run(
                session,
                &match random.random_range(0..4) {
                    0 => format!("DELETE FROM {table} WHERE k = {key}"),
                    1 => format!("DELETE FROM {table} WHERE k BETWEEN {key} AND {}", key + 3),
                    2 => format!("UPDATE {table} SET v = '{text}' WHERE k = {key}"),
                    _ => format!(
                        "INSERT INTO {table} VALUES ({key}, '{text}') ON CONFLICT (k) DO UPDATE SET v = 'again'"
                    ),
                },
            );
        };
        for _ in 0..300 {
            change(&mut session, &mut random);
        }
        let (t, u) = (Rows::default(), Rows::default());
        if seed % 4 == 1 {
            evict(&database, &mut session);
        }
        let before = (all(&mut session, "t"), all(&mut session, "u"));
        let requests = vec![request(&database, "t", &t, usize::MAX), request(&database, "u", &u, usize::MAX)];
        let readers = session.read_tables(requests).unwrap();
        assert_eq!(readers[1].len(), 1, "a replicated table is read once");
        let mut readers: Vec<TableReader> = readers.into_iter().flatten().collect();
        // A column added meanwhile is invisible to the reader.
        let widen = random.random_range(0..60);
        for step in 0..60 {
            if seed % 2 == 1 && random.random_ratio(1, 10) {
                evict(&database, &mut session);
            }
            for _ in 0..random.random_range(0..10) {
                change(&mut session, &mut random);
            }
            if step == widen {
                run(&mut session, "ALTER TABLE t ADD COLUMN more BIGINT DEFAULT 7");
            }
            let which = random.random_range(0..readers.len());
            readers[which].step(random.random_range(1..20)).unwrap();
        }
        for reader in &mut readers {
            while reader.step(50).unwrap() == ReadStep::More {}
            assert_eq!(reader.step(1).unwrap(), ReadStep::Done);
        }
        assert_eq!((sorted(&t), sorted(&u)), before, "seed {seed}");
    }
}

#[test]
fn what_ends_a_reading() {
    let database = open(2);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    (0..50).for_each(|k| run(&mut session, &format!("INSERT INTO t VALUES ({k})")));
    let rows = Rows::default();

    // A sink that accepts no more fails the reader, and no transaction.
    let mut readers = session.read_tables(vec![request(&database, "t", &rows, 10)]).unwrap().remove(0);
    run(&mut session, "DELETE FROM t");
    assert_eq!(rows.lock().unwrap().len(), 10);
    let mut errors = readers.iter_mut().filter_map(|reader| reader.step(100).err());
    assert!(errors.any(|error| error.sqlstate() == "53200"));
    rows.lock().unwrap().clear();

    // Changes are not reported once a reader is gone.
    run(&mut session, "INSERT INTO t VALUES (1)");
    drop(session.read_tables(vec![request(&database, "t", &rows, 10)]).unwrap());
    run(&mut session, "DELETE FROM t");
    assert!(rows.lock().unwrap().is_empty());

    run(&mut session, "INSERT INTO t VALUES (1)");
    let mut readers = session.read_tables(vec![request(&database, "t", &rows, 10)]).unwrap().remove(0);
    let again = request(&database, "t", &rows, 10);
    run(&mut session, "DROP TABLE t");
    assert_eq!(readers[0].step(1).unwrap_err().sqlstate(), "40001");
    assert_eq!(session.read_tables(vec![again]).unwrap_err().sqlstate(), "40001");
}

#[test]
fn a_database_is_closed_while_it_is_read() {
    let database = open(2);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    (0..50).for_each(|k| run(&mut session, &format!("INSERT INTO t VALUES ({k})")));
    let rows = Rows::default();
    let mut readers = session.read_tables(vec![request(&database, "t", &rows, 100)]).unwrap().remove(0);
    drop(session);
    database.close().unwrap();
    let error = readers[0].step(1).unwrap_err();
    assert_eq!((error.sqlstate(), error.to_string().as_str()), ("57014", "cancelled: the database is closed"));
    assert!(rows.lock().unwrap().is_empty());
}

#[test]
fn a_transaction_reads_its_own_changes() {
    let database = open(2);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    run(&mut session, "INSERT INTO t VALUES (1, 'a'), (2, 'b')");
    run(&mut session, "BEGIN");
    run(&mut session, "UPDATE t SET v = 'c' WHERE k = 2");
    run(&mut session, "INSERT INTO t VALUES (3, 'd')");
    let rows = Rows::default();
    let mut readers = session.read_tables(vec![request(&database, "t", &rows, 10)]).unwrap().remove(0);
    assert_eq!(sorted(&rows), ["1 a", "2 c", "3 d"]);
    assert_eq!(readers[0].step(1).unwrap(), ReadStep::Done);
    let statistics = session.statistics().unwrap();
    assert!(statistics.partitions.iter().map(|partition| partition.undo_bytes).sum::<usize>() > 0);
    run(&mut session, "ROLLBACK");
    session.read_tables(vec![request(&database, "t", &rows, 10)]).unwrap().remove(0).iter_mut().for_each(|reader| {
        reader.step(10).unwrap();
    });
    assert_eq!(sorted(&rows), ["1 a", "2 b"]);
}

#[test]
fn statistics_add_up() {
    let database = open(2);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    run(&mut session, "CREATE TABLE u (k BIGINT PRIMARY KEY, v TEXT)");
    (0..50).for_each(|k| run(&mut session, &format!("INSERT INTO t VALUES ({k}, 'x')")));
    run(&mut session, "INSERT INTO u VALUES (1, NULL)");
    let statistics = session.statistics().unwrap();
    let tables = || statistics.partitions.iter().flat_map(|partition| &partition.tables);
    let rows = |name: &str| tables().filter(|table| &*table.table.name == name).map(|table| table.rows).sum::<usize>();
    assert_eq!((rows("t"), rows("u")), (50, 2), "every partition has the rows of a replicated table");
    let bytes: usize = tables().map(|table| table.memory.total()).sum();
    assert_eq!(bytes as u64, statistics.memory_bytes);
    assert_eq!(statistics.memory_bytes_max, 1 << 30);
}

/// A call that waits in a session until it is stopped.
type Stopped<'a> = &'a dyn Fn(&mut RowSession) -> Error;

/// Outside of a transaction, at the start of one, and inside.
#[test]
fn who_waits_or_reads_for_too_long_is_stopped() {
    let database = open(2);
    let mut holder = database.session();
    run(&mut holder, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    run(&mut holder, "INSERT INTO t VALUES (1), (2), (3)");
    let rows = Rows::default();
    let (read, look): (Stopped<'_>, Stopped<'_>) = (
        &|session| session.read_tables(vec![request(&database, "t", &rows, 10)]).map(|_| ()).unwrap_err(),
        &|session| session.statistics().map(|_| ()).unwrap_err(),
    );
    run(&mut holder, "BEGIN");
    run(&mut holder, "DELETE FROM t WHERE k = 3");
    for (begin, waits) in [(false, read), (false, look), (true, read)] {
        let mut session = database.session();
        if begin {
            run(&mut session, "BEGIN");
        }
        session.set_statement_timeout(Some(Duration::from_millis(30)));
        let error = waits(&mut session);
        assert_eq!((error.sqlstate(), error.to_string().contains("timeout of 30ms")), ("57014", true), "{error}");
        session.set_statement_timeout(None);
        let canceller = session.canceller();
        let over = AtomicBool::new(false);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                    canceller.cancel();
                }
            });
            let error = waits(&mut session);
            over.store(true, Ordering::Relaxed);
            error
        });
        assert_eq!((error.sqlstate(), error.to_string().contains("user's request")), ("57014", true), "{error}");
    }
    let error = holder.as_one_statement(Arc::new(Interrupt::new(Some(Duration::from_millis(30)))), |holder| {
        std::thread::sleep(Duration::from_millis(40));
        Ok(read(holder))
    });
    assert_eq!(error.unwrap().sqlstate(), "57014");
    assert!(rows.lock().unwrap().is_empty(), "what was stopped reads nothing");
    assert_eq!(holder.execute("SELECT 1", &[]).unwrap_err().sqlstate(), "25P02");
    run(&mut holder, "ROLLBACK");
    assert_eq!(all(&mut holder, "t"), ["1", "2", "3"]);
}

/// Counts rows, of which it needs no value.
struct Count(Arc<Mutex<usize>>);

impl RowSink for Count {
    fn row(&mut self, _: Row<'_>) -> Result<()> {
        self.count().map(drop)
    }

    fn count(&mut self) -> Result<bool> {
        *self.0.lock().unwrap() += 1;
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Rows are counted as of the beginning, whatever changes meanwhile, and no block is read.
#[test]
fn rows_that_are_counted_are_not_read() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let database = open(1 + (seed % 3) as u16);
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
        for k in 0..500 {
            run(&mut session, &format!("INSERT INTO t VALUES ({k}, 'some')"));
        }
        evict(&database, &mut session);
        let reads = |session: &mut RowSession| -> u64 {
            let statistics = session.statistics().unwrap();
            statistics.partitions.iter().map(|of| of.blocks.unwrap().reads_total).sum()
        };
        let before = reads(&mut session);
        let counted = Arc::new(Mutex::new(0));
        let rows = Arc::clone(&counted);
        let sink = move |_: PartitionId| Box::new(Count(Arc::clone(&rows))) as Box<dyn RowSink>;
        let table = Arc::clone(database.schema().table("t").unwrap());
        let readers = session.read_tables(vec![ReadRequest { table, sink: Box::new(sink) }]).unwrap();
        let mut readers: Vec<TableReader> = readers.into_iter().flatten().collect();
        let changes = seed % 2 == 1;
        while let Some(mut reader) = readers.pop() {
            if reader.step(random.random_range(1..50)).unwrap() != ReadStep::Done {
                readers.push(reader);
            }
            if changes {
                let key = random.random_range(0..1000);
                run(&mut session, &format!("DELETE FROM t WHERE k = {key}"));
                run(
                    &mut session,
                    &format!("INSERT INTO t VALUES ({}, 'new')", 1000 + random.random_range(0..1_i64 << 40)),
                );
            }
        }
        assert_eq!(*counted.lock().unwrap(), 500, "seed {seed}");
        if !changes {
            assert_eq!(reads(&mut session), before);
        }
    }
}

#[test]
fn blocks_of_long_rows_are_few_at_a_time_and_counted() {
    const ROW_BYTES: usize = 1 << 20;
    const ROWS: usize = 24;
    let database = open(1);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    for key in 0..ROWS {
        let values = [Value::Int(key as i64), Value::Text("x".repeat(ROW_BYTES).into())];
        session.execute("INSERT INTO t VALUES ($1, $2)", &values).unwrap();
    }
    evict(&database, &mut session);
    database.set_memory_bytes_max(64 << 20);
    let rows = Rows::default();
    let readers = session.read_tables(vec![request(&database, "t", &rows, usize::MAX)]).unwrap();
    let counted = || database.memory().working_bytes("queries") as usize;
    let before = counted();
    let mut most = 0;
    for mut reader in readers.into_iter().flatten() {
        let mut seen = 0;
        while reader.step(1024).unwrap() != ReadStep::Done {
            most = most.max(counted() - before);
            let now = rows.lock().unwrap().len();
            assert!(now <= seen + 2, "{now} rows after {seen}");
            seen = now;
        }
    }
    assert!((ROW_BYTES..=2 * ROW_BYTES).contains(&most), "{most} bytes of blocks");
    assert_eq!(counted(), before, "they are gone with the reading");
    assert_eq!(rows.lock().unwrap().len(), ROWS);
    // The row engine's own scan, whose blocks are gone with the statement.
    let sum = session.execute("SELECT count(*), sum(length(v)) FROM t", &[]).unwrap();
    assert_eq!(sum.rows.value(0, 1).to_string(), (ROWS * ROW_BYTES).to_string());
    assert_eq!(counted(), before);
}
