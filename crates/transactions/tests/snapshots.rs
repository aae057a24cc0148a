//! Snapshots and backups while transactions run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use thermocline_transactions::Error;
use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::{Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::types::{Value, ValueRef};

use crate::hooked::{Hooked, Operation};

#[path = "common/hooked.rs"]
mod hooked;

const ACCOUNTS: i64 = 300;
const BALANCE: i64 = 1000;

fn settings() -> Settings {
    Settings {
        partitions: 3,
        seed: 11,
        log: LogSettings { segment_bytes: 20_000, ..LogSettings::default() },
        snapshots: SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

fn int(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int(value) => value,
        ValueRef::Decimal(value) => value.to_string().parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn one(database: &RowEngine, sql: &str) -> i64 {
    let answer = database.session().execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    int(answer.rows.value(0, 0))
}

/// Two tables of accounts whose total never changes.
fn fill(database: &RowEngine) {
    let mut session = database.session();
    for table in ["a", "b"] {
        let sql = format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, t TEXT) PARTITION BY (id)");
        session.execute(&sql, &[]).unwrap();
        for id in 0..ACCOUNTS {
            let text = Value::Text("x".repeat(50).into());
            let sql = format!("INSERT INTO {table} VALUES ($1, $2, $3)");
            session.execute(&sql, &[Value::Int(id), Value::Int(BALANCE), text]).unwrap();
        }
    }
    let transfer = "CREATE PROCEDURE transfer(x BIGINT, y BIGINT, n BIGINT) LANGUAGE sql AS \
                    'UPDATE a SET v = v - $3 WHERE id = $1; UPDATE b SET v = v + $3 WHERE id = $2'";
    session.execute(transfer, &[]).unwrap();
    session.execute("CREATE TABLE r (id BIGINT PRIMARY KEY)", &[]).unwrap();
    session.execute("INSERT INTO r VALUES (1), (2), (3)", &[]).unwrap();
}

/// Ends the load even when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads that move money between the tables, and rows of no value in and out, until told to stop.
fn load<'scope>(
    scope: &'scope Scope<'scope, '_>,
    database: &'scope RowEngine,
    stop: &'scope AtomicBool,
    ran: &'scope AtomicU64,
) {
    for worker in 0..2 {
        scope.spawn(move || {
            let mut session = database.session();
            let mut random = worker * 7 + 1;
            while !stop.load(Ordering::Relaxed) {
                random = (random * 48271) % 0x7fff_ffff;
                let (from, to) = (random % ACCOUNTS, (random / ACCOUNTS) % ACCOUNTS);
                let id = 1000 + random % 100;
                let result = match random % 4 {
                    0 => session.execute("INSERT INTO a VALUES ($1, 0, '') ON CONFLICT DO NOTHING", &[Value::Int(id)]),
                    1 => session.execute("DELETE FROM a WHERE id = $1", &[Value::Int(id)]),
                    _ => session.execute("CALL transfer($1, $2, 3)", &[Value::Int(from), Value::Int(to)]),
                };
                result.unwrap();
                ran.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

const SUM: i64 = 2 * ACCOUNTS * BALANCE;

fn sum(database: &RowEngine) -> i64 {
    one(database, "SELECT sum(v) FROM a") + one(database, "SELECT sum(v) FROM b")
}

#[test]
fn snapshots_under_load_replace_each_other_and_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
    let database = RowEngine::open(Arc::clone(&disk) as Arc<dyn Disk>, settings()).unwrap();
    fill(&database);
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        load(scope, &database, &stop, &ran);
        let _stop = Stop(&stop);
        let mut before = None;
        for _ in 0..5 {
            let seen = ran.load(Ordering::Relaxed);
            while ran.load(Ordering::Relaxed) < seen + 200 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let report = database.snapshot().unwrap();
            assert!(before.is_none_or(|before| before < report.position));
            assert!(report.rows >= (2 * ACCOUNTS + 3).cast_unsigned() && report.rows < 800, "{report:?}");
            before = Some(report.position);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let status = database.snapshot_status();
    assert_eq!((status.taken_total, status.failed_total, status.error), (5, 0, None));
    let last = database.snapshot().unwrap();
    assert_eq!(sum(&database), SUM);
    let rows = one(&database, "SELECT count(*) FROM a");
    database.close().unwrap();

    let names = disk.list().unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".manifest")).count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(".rows")).count(), 3, "{names:?}");
    assert!(names.iter().filter(|name| name.starts_with("log")).count() <= 2, "{names:?}");

    let mut replayed = 0;
    let database =
        RowEngine::open_with_progress(disk, settings(), &mut |progress| replayed = progress.records).unwrap();
    assert_eq!((replayed, last.duration > Duration::ZERO), (0, true));
    assert_eq!((sum(&database), one(&database, "SELECT count(*) FROM a")), (SUM, rows));
    assert_eq!(one(&database, "SELECT count(*) FROM r"), 3);
    // Nothing has changed, so it is the same snapshot.
    assert_eq!(database.snapshot().unwrap().position, last.position);
}

#[test]
fn the_log_does_not_grow_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
    let snapshots = SnapshotSettings { log_bytes: 200_000, interval: None, ..SnapshotSettings::default() };
    let database = RowEngine::open(Arc::clone(&disk) as Arc<dyn Disk>, Settings { snapshots, ..settings() }).unwrap();
    fill(&database);
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        load(scope, &database, &stop, &ran);
        let _stop = Stop(&stop);
        let start = Instant::now();
        while database.snapshot_status().taken_total < 3 && start.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(database.snapshot_status().taken_total >= 3);
    drop(database);
    let first = disk.list().unwrap().into_iter().find(|name| name.starts_with("log")).unwrap();
    assert_ne!(first, "log-00000000000000000001", "it is still there");
    assert_eq!(sum(&RowEngine::open(disk, settings()).unwrap()), SUM);

    let snapshots = SnapshotSettings {
        log_bytes: u64::MAX,
        interval: Some(Duration::from_millis(50)),
        ..SnapshotSettings::default()
    };
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let database = RowEngine::open(disk, Settings { snapshots, ..settings() }).unwrap();
    fill(&database);
    let start = Instant::now();
    while database.snapshot_status().taken_total == 0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(database.snapshot_status().taken_total > 0, "none by time");
}

#[test]
fn writing_rests_while_transactions_run() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let wrote = Arc::new(AtomicU64::new(0));
    let writes = Arc::clone(&wrote);
    let slow = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Append && name.ends_with(".rows") {
            std::thread::sleep(Duration::from_millis(5));
            writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut settings = settings();
    (settings.snapshots.time_percent, settings.snapshots.write_percent) = (100, 10);
    let database = RowEngine::open(Arc::new(slow), settings).unwrap();
    fill(&database);
    let mut session = database.session();
    session.execute("CREATE TABLE big (id BIGINT PRIMARY KEY, t TEXT) PARTITION BY (id)", &[]).unwrap();
    for id in 0..200 {
        let text = Value::Text("x".repeat(20_000).into());
        session.execute("INSERT INTO big VALUES ($1, $2)", &[Value::Int(id), text]).unwrap();
    }
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        load(scope, &database, &stop, &ran);
        let _stop = Stop(&stop);
        let report = database.snapshot().unwrap();
        let writes = u32::try_from(wrote.load(Ordering::Relaxed)).unwrap();
        assert!(writes > 15, "{writes}");
        // Without pauses it takes 5 ms a write, with them ten times as long except for the last ones.
        assert!(report.duration > Duration::from_millis(25) * writes, "{writes} writes, {:?}", report.duration);
    });
}

/// Rows change faster than the disk writes them, everywhere in the table.
#[test]
fn a_snapshot_finishes_while_all_rows_change() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let slow = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Append && name.ends_with(".rows") {
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    });
    let mut settings = settings();
    settings.partitions = 2;
    settings.snapshots.memory_bytes_max = 600_000;
    let database = RowEngine::open(Arc::new(slow), settings).unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE big (id BIGINT PRIMARY KEY, n BIGINT, t TEXT) PARTITION BY (id)", &[]).unwrap();
    let text = "x".repeat(20_000);
    let mut load = session.load("big", &["id", "n", "t"]).unwrap();
    (0..1000).for_each(|id| load.push(&[ValueRef::Int(id), ValueRef::Int(0), ValueRef::Text(&text)]).unwrap());
    load.finish().unwrap();
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (database, stop, ran) = (&database, &stop, &ran);
            scope.spawn(move || {
                let mut session = database.session();
                let mut id = worker * 500;
                while !stop.load(Ordering::Relaxed) {
                    id = (id + 7) % 1000;
                    session.execute("UPDATE big SET n = n + 1 WHERE id = $1", &[Value::Int(id)]).unwrap();
                    ran.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        for _ in 0..3 {
            let seen = ran.load(Ordering::Relaxed);
            let report = database.snapshot().unwrap();
            assert_eq!(report.rows, 1000);
            assert!(ran.load(Ordering::Relaxed) > seen, "nothing ran meanwhile");
            let status = database.snapshot_status();
            assert_eq!((status.failed_total, status.error), (0, None));
        }
    });
    drop(session);
    let ran = ran.into_inner() as i64;
    database.close().unwrap();
    let database = RowEngine::open(Arc::new(disk), self::settings()).unwrap();
    assert_eq!(one(&database, "SELECT sum(n) FROM big"), ran);
}

/// A step of the copy may be in the queue of a partition that waits for the copy.
#[test]
fn a_snapshot_that_is_given_up_holds_up_nobody() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let full = Arc::new(AtomicBool::new(false));
    let (fails, writes) = (Arc::clone(&full), AtomicU64::new(0));
    let failing = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Append && name.ends_with(".rows") && fails.load(Ordering::Relaxed) {
            // Time for transactions to change more than may wait. The header, the first chunk, and some more.
            std::thread::sleep(Duration::from_millis(20));
            if writes.fetch_add(1, Ordering::Relaxed) % 6 == 5 {
                return Err(Error::Io("the disk is gone".into()));
            }
        }
        Ok(())
    });
    let mut settings = settings();
    settings.partitions = 1;
    settings.snapshots.memory_bytes_max = 0;
    let database = RowEngine::open(Arc::new(failing), settings).unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE big (id BIGINT PRIMARY KEY, n BIGINT, t TEXT) PARTITION BY (id)", &[]).unwrap();
    let text = "x".repeat(300_000);
    let mut load = session.load("big", &["id", "n", "t"]).unwrap();
    (0..100).for_each(|id| load.push(&[ValueRef::Int(id), ValueRef::Int(0), ValueRef::Text(&text)]).unwrap());
    load.finish().unwrap();
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (database, stop, ran) = (&database, &stop, &ran);
            scope.spawn(move || {
                let mut session = database.session();
                let mut id = worker * 12;
                while !stop.load(Ordering::Relaxed) {
                    id = (id + 7) % 100;
                    session.execute("UPDATE big SET n = n + 1 WHERE id = $1", &[Value::Int(id)]).unwrap();
                    ran.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        for _ in 0..10 {
            full.store(true, Ordering::Relaxed);
            let error = database.snapshot().unwrap_err();
            assert_eq!(error.sqlstate(), "58030", "{error}");
            let seen = ran.load(Ordering::Relaxed);
            while ran.load(Ordering::Relaxed) < seen + 50 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        full.store(false, Ordering::Relaxed);
        database.snapshot().unwrap();
    });
}

#[test]
fn a_full_disk_fails_the_snapshot_and_nothing_else() {
    for part in [".sql", ".rows", ".manifest"] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let full = Arc::new(AtomicBool::new(false));
        let failing = Hooked::full(&disk, &full, part);
        let database = RowEngine::open(Arc::new(failing), settings()).unwrap();
        fill(&database);
        let first = database.snapshot().unwrap();
        let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            load(scope, &database, &stop, &ran);
            let _stop = Stop(&stop);
            while ran.load(Ordering::Relaxed) < 50 {
                std::thread::sleep(Duration::from_millis(1));
            }
            full.store(true, Ordering::Relaxed);
            let error = database.snapshot().unwrap_err();
            assert_eq!(error.sqlstate(), "53100", "{part}: {error}");
            let status = database.snapshot_status();
            assert_eq!((status.failed_total, status.error), (1, Some(error)), "{part}");
            assert_eq!(status.last.unwrap().position, first.position);
            let names = disk.list().unwrap();
            let left = names.iter().filter(|name| name.starts_with("snapshot")).count();
            assert_eq!(left, 5, "{part}: the first one and nothing of the other: {names:?}");
            // Transactions go on.
            let seen = ran.load(Ordering::Relaxed);
            while ran.load(Ordering::Relaxed) < seen + 50 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let rows = one(&database, "SELECT count(*) FROM a");
        drop(database);
        full.store(false, Ordering::Relaxed);
        let database = RowEngine::open(Arc::new(disk), settings()).unwrap();
        assert_eq!((sum(&database), one(&database, "SELECT count(*) FROM a")), (SUM, rows), "{part}");
        assert!(database.snapshot().unwrap().position > first.position);
    }
}

#[test]
fn a_segment_that_cannot_be_removed_does_not_stop_the_log() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let refuse = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&refuse);
    let hooked = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Remove && name.starts_with("log-") && refuses.load(Ordering::Relaxed) {
            return Err(Error::Io("cannot remove: not permitted".into()));
        }
        Ok(())
    });
    let segments = || disk.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
    let database = RowEngine::open(Arc::new(hooked), settings()).unwrap();
    fill(&database);
    let before = segments();
    assert!(before > 3);
    database.snapshot().unwrap();
    let wait = |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| database.snapshot_status().log_error.is_some());
    assert_eq!(one(&database, "INSERT INTO a VALUES (-1, 0, '') RETURNING id"), -1);
    assert!(segments() >= before);
    // A segment removed by hand is not missed.
    refuse.store(false, Ordering::Relaxed);
    let first = disk.list().unwrap().into_iter().find(|name| name.starts_with("log-")).unwrap();
    disk.remove(&first).unwrap();
    database.snapshot().unwrap();
    wait(&|| segments() == 1 && database.snapshot_status().log_error.is_none());
    assert_eq!(one(&database, "DELETE FROM a WHERE id = -1 RETURNING id"), -1);
    database.close().unwrap();
    assert_eq!(sum(&RowEngine::open(Arc::new(disk), settings()).unwrap()), SUM);
}

/// Only the snapshot waits while the disk unlinks a segment, and no commit.
#[test]
fn removing_segments_does_not_hold_up_the_log() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (removing, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (removes, commits) = (Arc::clone(&removing), Arc::clone(&committed));
    let hooked = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Remove && name.starts_with("log-") {
            removes.store(true, Ordering::Relaxed);
            let start = Instant::now();
            while !commits.load(Ordering::Relaxed) {
                if start.elapsed() > Duration::from_secs(60) {
                    return Err(Error::Io("nothing was committed meanwhile".into()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    });
    let database = RowEngine::open(Arc::new(hooked), settings()).unwrap();
    fill(&database);
    std::thread::scope(|scope| {
        let snapshot = scope.spawn(|| database.snapshot());
        while !removing.load(Ordering::Relaxed) {
            assert!(!snapshot.is_finished(), "nothing was removed");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(one(&database, "INSERT INTO a VALUES (-1, 0, '') RETURNING id"), -1);
        committed.store(true, Ordering::Relaxed);
        snapshot.join().unwrap().unwrap();
    });
    assert_eq!(database.snapshot_status().log_error, None);
}

#[test]
fn a_running_database_is_backed_up() {
    let database = RowEngine::open(Arc::new(SimulatedDisk::new(1, Faults::default())), settings()).unwrap();
    fill(&database);
    let (stop, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    let copy = SimulatedDisk::new(2, Faults::default());
    std::thread::scope(|scope| {
        load(scope, &database, &stop, &ran);
        let _stop = Stop(&stop);
        while ran.load(Ordering::Relaxed) < 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let manifest = database.backup(&copy).unwrap();
        assert!(manifest.position.0 > 600);
        stop.store(true, Ordering::Relaxed);
        assert!(database.backup(&copy).unwrap_err().to_string().contains("not empty"));
    });
    assert_eq!(sum(&RowEngine::open(Arc::new(copy), settings()).unwrap()), SUM);
}
