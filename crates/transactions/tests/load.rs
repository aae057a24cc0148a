//! Bulk loads: all rows or none, hidden until they end, beside other transactions and across crashes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{Load, RowEngine, RowSession, Settings, SnapshotSettings};
use thermocline_transactions::disk::{Crash, Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::interrupt::{Cause, Interrupt};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::reader::{ReadRequest, ReadStep, RowSink};
use thermocline_transactions::table::Row;
use thermocline_transactions::types::{Value, ValueRef};

fn settings(partitions: u16) -> Settings {
    Settings {
        partitions,
        seed: 5,
        log: LogSettings { segment_bytes: 100_000, room_bytes: 0, ..LogSettings::default() },
        snapshots: SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

fn simulated() -> Arc<SimulatedDisk> {
    Arc::new(SimulatedDisk::new(1, Faults::default()))
}

fn open(disk: &Arc<SimulatedDisk>, partitions: u16) -> RowEngine {
    RowEngine::open(Arc::clone(disk) as Arc<dyn Disk>, settings(partitions)).unwrap()
}

fn run(session: &mut RowSession, sql: &str) {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn one(session: &mut RowSession, sql: &str) -> i64 {
    let answer = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match answer.rows.value(0, 0) {
        ValueRef::Int(value) => value,
        ValueRef::Decimal(value) => value.to_string().parse().unwrap(),
        ValueRef::Null => 0,
        other => panic!("{sql}: {other:?}"),
    }
}

/// A table with a unique index and another one, with the rows 0, -1, ... -9.
fn create(session: &mut RowSession, partition_by: &str) {
    let columns = "k BIGINT PRIMARY KEY, u BIGINT NOT NULL, g INTEGER, t TEXT DEFAULT 'none' CHECK (t <> 'bad')";
    run(session, &format!("CREATE TABLE t ({columns}) {partition_by}"));
    run(session, "CREATE INDEX t_g ON t (g)");
    if partition_by.is_empty() {
        run(session, "CREATE UNIQUE INDEX t_u ON t (u)");
    }
    for k in 0..10 {
        run(session, &format!("INSERT INTO t VALUES ({}, {}, {k}, 'first')", -k, -k));
    }
}

const BY_K: &str = "PARTITION BY (k)";

fn push(load: &mut Load, k: i64) -> Result<()> {
    load.push(&[ValueRef::Int(k), ValueRef::Int(k), ValueRef::Int(k % 10)])
}

fn begin(session: &mut RowSession) -> Load {
    session.load("t", &["k", "u", "g"]).unwrap()
}

/// Rows that a session of its own sees in the table, by every way to read it.
fn seen(database: &RowEngine) -> i64 {
    let mut session = database.session();
    let rows = one(&mut session, "SELECT count(*) FROM t");
    assert_eq!(one(&mut session, "SELECT count(*) FROM t WHERE k >= -100"), rows, "by range");
    let by_g: i64 = (0..10).map(|g| one(&mut session, &format!("SELECT count(*) FROM t WHERE g = {g}"))).sum();
    assert_eq!(by_g, rows, "by another index");
    assert_eq!(one(&mut session, "SELECT count(*) FROM t a JOIN t b ON a.k = b.k"), rows, "by look-ups of a join");
    let some = one(&mut session, "SELECT count(*) FROM t WHERE k BETWEEN 1 AND 3 AND k + 0 > 0");
    assert_eq!(one(&mut session, "SELECT count(*) FROM t WHERE k IN (1, 2, 3)"), some, "by several keys");
    let first = one(&mut session, "SELECT count(*) FROM t WHERE k = 1");
    assert_eq!(first, i64::from(rows > 10), "by key");
    let statistics = session.statistics().unwrap();
    let table = |partition: usize| statistics.partitions[partition].tables[0].rows as i64;
    let counted: i64 = match statistics.partitions[0].tables[0].table.partition_by {
        Some(_) => (0..statistics.partitions.len()).map(table).sum(),
        None => table(0),
    };
    assert_eq!(counted, rows, "in the statistics");
    rows
}

#[test]
fn rows_are_there_at_once_when_the_load_is_over_and_not_before() {
    for (partitions, by) in [(1, BY_K), (3, BY_K), (1, ""), (2, "")] {
        let disk = simulated();
        let database = open(&disk, partitions);
        let mut session = database.session();
        create(&mut session, by);
        let mut load = begin(&mut session);
        for k in 1..=5000 {
            push(&mut load, k).unwrap();
            if k % 2500 == 0 {
                assert_eq!(seen(&database), 10, "{partitions} {by}");
            }
        }
        assert_eq!(load.finish().unwrap(), 5000);
        assert_eq!(seen(&database), 5010);
        assert_eq!(one(&mut session, "SELECT count(*) FROM t WHERE t = 'none'"), 5000, "the default");
        run(&mut session, "UPDATE t SET t = 'changed' WHERE k = 17");
        run(&mut session, "DELETE FROM t WHERE k = 18");
        drop(session);
        drop(database);
        disk.restart(Crash::Process);
        let database = open(&disk, partitions);
        assert_eq!(seen(&database), 5009);
        assert!(database.read_only().is_none(), "the log is replayed to its end");
    }
}

#[test]
fn nothing_is_left_of_a_load_that_fails() {
    for (partitions, by) in [(1, BY_K), (3, BY_K), (2, "")] {
        let disk = simulated();
        let database = open(&disk, partitions);
        let mut session = database.session();
        create(&mut session, by);
        let text = |k, text| [ValueRef::Int(k), ValueRef::Int(k), ValueRef::Text(text)];
        for (wrong, state) in [
            (text(-3, "its key is there"), "23505"),
            (text(2000, "its key is there twice"), "23505"),
            (text(9999, "bad"), "23514"),
            ([ValueRef::Null, ValueRef::Int(1), ValueRef::Null], "23502"),
            ([ValueRef::Text("x"), ValueRef::Int(1), ValueRef::Null], "42804"),
        ] {
            let mut load = session.load("t", &["k", "u", "t"]).unwrap();
            (1..=3000).for_each(|k| load.push(&text(k, "good")).unwrap());
            let failed = load.push(&wrong).and_then(|()| load.finish().map(drop));
            assert_eq!(failed.unwrap_err().sqlstate(), state);
            assert_eq!(seen(&database), 10);
        }
        let mut load = begin(&mut session);
        (1..=3000).for_each(|k| push(&mut load, k).unwrap());
        drop(load);
        assert_eq!(seen(&database), 10);
        // Their ids and keys are free again.
        run(&mut session, "INSERT INTO t VALUES (1, 1, 1, 'second')");
        assert_eq!(seen(&database), 11);
        drop(session);
        drop(database);
        disk.restart(Crash::Process);
        assert_eq!(seen(&open(&disk, partitions)), 11);
    }
}

#[test]
fn a_load_without_rows_or_into_nothing() {
    let database = open(&simulated(), 2);
    let mut session = database.session();
    create(&mut session, BY_K);
    assert_eq!(begin(&mut session).finish().unwrap(), 0);
    for (table, columns, state) in
        [("nowhere", &["k"][..], "42P01"), ("t", &["x"], "42703"), ("t", &["k", "u", "k"], "42701")]
    {
        assert_eq!(session.load(table, columns).unwrap_err().sqlstate(), state);
    }
    run(&mut session, "BEGIN");
    assert_eq!(session.load("t", &["k"]).unwrap_err().sqlstate(), "25001");
    run(&mut session, "ROLLBACK");
    let mut load = session.load("t", &["k"]).unwrap();
    assert_eq!(load.push(&[ValueRef::Int(1), ValueRef::Int(1)]).unwrap_err().sqlstate(), "XX000");
    assert!(load.finish().is_err(), "after an error");
    assert_eq!(seen(&database), 10);
}

#[test]
fn keys_of_hidden_rows_are_taken_and_definitions_wait() {
    let database = open(&simulated(), 2);
    let mut session = database.session();
    create(&mut session, BY_K);
    let mut load = begin(&mut session);
    (1..=3000).for_each(|k| push(&mut load, k).unwrap());
    let mut other = database.session();
    for sql in [
        "INSERT INTO t VALUES (1, 1, 1, 'other')",
        "INSERT INTO t VALUES (1, 1, 1, 'other') ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1, 1, 1, 'other') ON CONFLICT (k) DO UPDATE SET u = 7",
    ] {
        assert_eq!(other.execute(sql, &[]).unwrap_err().sqlstate(), "40001", "{sql}");
    }
    run(&mut other, "INSERT INTO t VALUES (100000, 1, 1, 'other')");
    run(&mut other, "DELETE FROM t WHERE k = 100000");
    for sql in [
        "UPDATE t SET u = 1 WHERE k = 1",
        "DELETE FROM t WHERE k = 1",
        "DELETE FROM t WHERE k > 0",
        "UPDATE t SET u = 1 WHERE g = 1 AND k > 0",
    ] {
        assert_eq!(other.execute(sql, &[]).unwrap().affected, 0, "{sql}");
    }
    for sql in ["DROP TABLE t", "CREATE INDEX t_t ON t (t)", "DROP INDEX t_g", "ALTER TABLE t ADD COLUMN x BIGINT"] {
        assert_eq!(other.execute(sql, &[]).unwrap_err().sqlstate(), "55006", "{sql}");
    }
    run(&mut other, "CREATE TABLE another (k BIGINT PRIMARY KEY)");
    assert_eq!(load.finish().unwrap(), 3000);
    run(&mut other, "CREATE INDEX t_t ON t (t)");
    assert_eq!(seen(&database), 3010);
    run(&mut other, "DROP TABLE t");
}

#[test]
fn a_table_that_changes_before_the_first_row_ends_the_load() {
    let database = open(&simulated(), 2);
    let mut session = database.session();
    create(&mut session, BY_K);
    for sql in ["ALTER TABLE t ADD COLUMN x BIGINT", "DROP TABLE t"] {
        let mut load = begin(&mut session);
        run(&mut session, sql);
        let failed = (1..=3000).try_for_each(|k| push(&mut load, k)).and_then(|()| load.finish().map(drop));
        assert_eq!(failed.unwrap_err().sqlstate(), "55006", "{sql}");
    }
}

#[test]
fn loads_of_the_same_keys_wait_for_each_other() {
    let database = open(&simulated(), 2);
    let mut session = database.session();
    create(&mut session, BY_K);
    for kept in [false, true] {
        let mut first = begin(&mut session);
        (1..=1000).for_each(|k| push(&mut first, k).unwrap());
        let mut second = begin(&mut session);
        let done = std::thread::scope(|scope| {
            // Keys that the first one has sent already: otherwise each might have a key that the other needs.
            let done = scope.spawn(move || {
                (1..=100).try_for_each(|k| push(&mut second, k))?;
                second.finish()
            });
            std::thread::sleep(Duration::from_millis(50));
            match kept {
                true => assert_eq!(first.finish().unwrap(), 1000),
                false => drop(first),
            }
            done.join().unwrap()
        });
        match kept {
            false => assert_eq!(done.unwrap(), 100),
            true => assert_eq!(done.unwrap_err().sqlstate(), "23505"),
        }
        assert_eq!(seen(&database), if kept { 1010 } else { 110 });
        run(&mut session, "DELETE FROM t WHERE k > 0");
    }
}

#[test]
fn a_load_is_stopped_as_a_statement_is() {
    let database = open(&simulated(), 2);
    let mut session = database.session();
    create(&mut session, BY_K);
    let interrupt = Arc::new(Interrupt::new(None));
    let mut load = session.as_one_statement(Arc::clone(&interrupt), |session| Ok(begin(session))).unwrap();
    (1..=1000).for_each(|k| push(&mut load, k).unwrap());
    interrupt.stop(Cause::User);
    let stopped = (1001..=10_000).try_for_each(|k| push(&mut load, k)).and_then(|()| load.finish().map(drop));
    assert_eq!(stopped.unwrap_err().sqlstate(), "57014");
    assert_eq!(seen(&database), 10);
}

/// Keys that a reader received.
struct Keys(Arc<Mutex<Vec<i64>>>);

impl RowSink for Keys {
    fn row(&mut self, row: Row<'_>) -> Result<()> {
        if let ValueRef::Int(key) = row.value(0) {
            self.0.lock().unwrap().push(key);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_sees_the_rows_of_when_it_began() {
    for kept in [true, false] {
        let database = open(&simulated(), 2);
        let mut session = database.session();
        create(&mut session, BY_K);
        // Free ids among those of the load.
        run(&mut session, "DELETE FROM t WHERE k = -3");
        let mut load = begin(&mut session);
        (1..=2000).for_each(|k| push(&mut load, k).unwrap());
        let keys = Arc::new(Mutex::new(Vec::new()));
        let table = Arc::clone(database.schema().table("t").unwrap());
        let sunk = Arc::clone(&keys);
        let sink = move |_| Box::new(Keys(Arc::clone(&sunk))) as Box<dyn RowSink>;
        let request = ReadRequest { table, sink: Box::new(sink) };
        let mut readers = session.read_tables(vec![request]).unwrap().pop().unwrap();
        run(&mut session, "INSERT INTO t VALUES (5000, 1, 1, 'later')");
        (2001..=4000).for_each(|k| push(&mut load, k).unwrap());
        match kept {
            true => assert_eq!(load.finish().unwrap(), 4000),
            false => drop(load),
        }
        for reader in &mut readers {
            while reader.step(100).unwrap() != ReadStep::Done {}
        }
        let mut keys = std::mem::take(&mut *keys.lock().unwrap());
        keys.sort_unstable();
        assert_eq!(keys, [-9, -8, -7, -6, -5, -4, -2, -1, 0], "{kept}");
    }
}

#[test]
fn a_snapshot_in_the_middle_holds_what_is_hidden() {
    for (partitions, by) in [(1, BY_K), (2, BY_K), (2, "")] {
        for kept in [true, false] {
            let disk = simulated();
            let database = open(&disk, partitions);
            let mut session = database.session();
            create(&mut session, by);
            let mut load = begin(&mut session);
            (1..=3000).for_each(|k| push(&mut load, k).unwrap());
            let mut other = begin(&mut session);
            (10_001..=13_000).for_each(|k| push(&mut other, k).unwrap());
            database.snapshot().unwrap();
            (3001..=4000).for_each(|k| push(&mut load, k).unwrap());
            if kept {
                load.finish().unwrap();
                run(&mut session, "UPDATE t SET t = 'changed' WHERE k BETWEEN 2990 AND 3010");
            } else {
                drop(load);
                run(&mut session, "INSERT INTO t VALUES (1, 1, 1, 'again')");
            }
            // The other load is cut off.
            disk.crash_after(Some(0));
            drop(other);
            drop(session);
            drop(database);
            disk.restart(Crash::Power);
            for _ in 0..2 {
                let database = open(&disk, partitions);
                assert!(database.read_only().is_none());
                assert_eq!(seen(&database), if kept { 4010 } else { 11 }, "{partitions} {by} {kept}");
                let mut session = database.session();
                run(&mut session, "INSERT INTO t VALUES (10001, 10001, 1, 'again')");
                run(&mut session, "DELETE FROM t WHERE k = 10001");
                drop(session);
                drop(database);
                disk.restart(Crash::Process);
            }
        }
    }
}

/// A load, other transactions and a snapshot; the disk may end it anywhere. Returns whether the load was kept, if
/// known, and the others' acknowledged rows.
fn scenario(database: &RowEngine) -> (Option<bool>, BTreeSet<i64>) {
    let mut acknowledged = BTreeSet::new();
    let mut session = database.session();
    let mut insert = |k: i64| {
        let row = [Value::Int(k), Value::Int(k)];
        if database.session().execute("INSERT INTO t VALUES ($1, $2, 1, 'other')", &row).is_ok() {
            acknowledged.insert(k);
        }
    };
    let Ok(mut load) = session.load("t", &["k", "u", "g"]) else { return (Some(false), acknowledged) };
    let mut pushed = Ok(());
    for k in 1..=1200 {
        pushed = pushed.and_then(|()| push(&mut load, k));
        if k % 400 == 0 {
            insert(100_000 + k);
        }
        if k == 700 {
            // An error of it, if any, comes from the disk.
            let _ = database.snapshot();
        }
    }
    let kept = match pushed.and_then(|()| load.finish()) {
        Ok(rows) => {
            assert_eq!(rows, 1200);
            Some(true)
        }
        // It may have become durable before the disk failed.
        Err(_) => None,
    };
    // Several, so that the disk may also end it after the load.
    (200_000..200_008).for_each(&mut insert);
    (kept, acknowledged)
}

#[test]
fn a_crash_anywhere_leaves_all_rows_or_none() {
    let (mut all, mut none, mut crash_after) = (0, 0, 0);
    loop {
        let disk = simulated();
        let partitions = 1 + (crash_after % 2) as u16;
        let database = open(&disk, partitions);
        create(&mut database.session(), if crash_after % 3 == 0 { "" } else { BY_K });
        disk.crash_after(Some(crash_after));
        let (kept, acknowledged) = scenario(&database);
        let crashed = disk.crashed();
        disk.crash_after(None);
        drop(database);
        disk.restart(if crash_after % 2 == 0 { Crash::Power } else { Crash::Process });
        for _ in 0..2 {
            let database = open(&disk, partitions);
            assert!(database.read_only().is_none(), "after {crash_after} operations");
            let mut session = database.session();
            let loaded = one(&mut session, "SELECT count(*) FROM t WHERE k BETWEEN 1 AND 1200");
            match kept {
                Some(kept) => assert_eq!(loaded, if kept { 1200 } else { 0 }, "after {crash_after} operations"),
                None => assert!(loaded == 0 || loaded == 1200, "{loaded} rows after {crash_after} operations"),
            }
            for k in &acknowledged {
                assert_eq!(one(&mut session, &format!("SELECT count(*) FROM t WHERE k = {k}")), 1);
            }
            if loaded == 0 {
                none += 1
            } else {
                all += 1
            }
            // Ids continue as replay will assign them.
            run(&mut session, "INSERT INTO t VALUES (300000, 300000, 1, 'after')");
            run(&mut session, "DELETE FROM t WHERE k = 300000");
            drop(session);
            drop(database);
            disk.restart(Crash::Process);
        }
        if !crashed {
            break;
        }
        crash_after += 1;
    }
    assert!(all > 2 && none > 20, "{all} {none}");
}

#[test]
fn loads_beside_others_against_a_model() {
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let partitions = 1 + (seed % 3) as u16;
        let disk = simulated();
        let mut database = open(&disk, partitions);
        create(&mut database.session(), if seed % 2 == 0 { BY_K } else { "" });
        let mut model: BTreeSet<i64> = (-9..=0).collect();
        for round in 0..6 {
            let mut keys: Vec<i64> = (0..random.random_range(0..2000)).map(|_| random.random_range(1..4000)).collect();
            let distinct: BTreeSet<i64> = keys.iter().copied().collect();
            if random.random_bool(0.7) {
                keys = distinct.iter().copied().collect();
            }
            keys.shuffle(&mut random);
            let mut session = database.session();
            let mut load = begin(&mut session);
            let mut failed = false;
            let mut taken: BTreeSet<i64> = BTreeSet::new();
            for (place, k) in keys.iter().enumerate() {
                failed = failed || push(&mut load, *k).is_err();
                taken.insert(*k);
                if place % 100 == 50 {
                    let other = random.random_range(1..4000);
                    let row = [Value::Int(other), Value::Int(other)];
                    let inserted = session.execute("INSERT INTO t VALUES ($1, $2, 1, 'other')", &row);
                    match inserted {
                        Ok(_) => assert!(model.insert(other)),
                        Err(error) if error.sqlstate() == "23505" => assert!(model.contains(&other)),
                        Err(error) => {
                            assert_eq!(error.sqlstate(), "40001");
                            assert!(taken.contains(&other));
                        }
                    }
                    let other = random.random_range(1..4000);
                    let deleted = session.execute("DELETE FROM t WHERE k = $1", &[Value::Int(other)]).unwrap().affected;
                    assert_eq!(deleted == 1, model.remove(&other));
                }
            }
            let kept = !failed && random.random_bool(0.8) && load.finish().is_ok();
            if kept {
                assert_eq!(keys.len(), distinct.len(), "of a key twice there is one at most");
                model.extend(distinct);
            }
            let rows = session.execute("SELECT k FROM t ORDER BY k", &[]).unwrap().rows;
            let rows: Vec<i64> = (0..rows.len()).map(|row| rows.value(row, 0).to_string().parse().unwrap()).collect();
            assert_eq!(rows, model.iter().copied().collect::<Vec<_>>(), "seed {seed}, round {round}");
            if random.random_bool(0.3) {
                database.snapshot().unwrap();
            }
            drop(session);
            if random.random_bool(0.5) {
                drop(database);
                disk.restart(Crash::Process);
                database = open(&disk, partitions);
                assert!(database.read_only().is_none());
            }
        }
        drop(database);
        disk.restart(Crash::Process);
        let report = RowEngine::check(disk.clone(), vec![], &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn others_run_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
    let database = RowEngine::open(disk as Arc<dyn Disk>, settings(2)).unwrap();
    let mut session = database.session();
    create(&mut session, BY_K);
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = database.session();
            while !stop.load(Ordering::Relaxed) {
                run(&mut session, "UPDATE t SET u = u + 1 WHERE k = 0");
                ran.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut load = begin(&mut session);
        let before = ran.load(Ordering::Relaxed);
        for k in 1.. {
            push(&mut load, k).unwrap();
            // Until others have run many times.
            if k % 1000 == 0 && ran.load(Ordering::Relaxed) > before + 20 && k >= 20_000 {
                assert_eq!(load.finish().unwrap(), k as u64);
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(one(&mut session, "SELECT u FROM t WHERE k = 0") as u64, ran.into_inner());
}
