//! Bugs that panic: waiters get an error, nobody waits for ever, and acknowledged rows are there afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Disk, Faults, SimulatedDisk};
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::types::{Value, ValueRef};

use crate::hooked::{Hooked, Operation};

#[path = "common/hooked.rs"]
mod hooked;

/// Inserts a row, then panics.
struct Panics;

impl Procedure for Panics {
    fn statements(&self) -> &[&str] {
        &["INSERT INTO t VALUES ($1)"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        context.execute(0, arguments)?;
        panic!("on purpose")
    }
}

/// Inserts a row.
struct Inserts;

impl Procedure for Inserts {
    fn statements(&self) -> &[&str] {
        &["INSERT INTO t VALUES ($1)"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

fn open(disk: Arc<dyn Disk>) -> RowEngine {
    let procedures = vec![
        Registration::new("panics(k BIGINT) PARTITION ON (k)", 1, Panics).unwrap(),
        Registration::new("panics_everywhere(k BIGINT)", 1, Panics).unwrap(),
        Registration::new("inserts_everywhere(k BIGINT)", 1, Inserts).unwrap(),
        Registration::new("inserts(k BIGINT) PARTITION ON (k)", 1, Inserts).unwrap(),
    ];
    RowEngine::open(disk, Settings { partitions: 2, seed: 1, procedures, ..Settings::default() }).unwrap()
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn count(database: &RowEngine) -> i64 {
    let answer = run(&mut database.session(), "SELECT count(*) FROM t");
    let ValueRef::Int(count) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    count
}

/// A database with ten rows, some of them in each partition.
fn filled(disk: Arc<dyn Disk>) -> RowEngine {
    let database = open(disk);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    run(&mut session, "CREATE PROCEDURE calls(k BIGINT) PARTITION ON (k) LANGUAGE lua AS $$ db.call('panics', k) $$");
    (0..10).for_each(|key| drop(run(&mut session, &format!("INSERT INTO t VALUES ({key})"))));
    drop(session);
    database
}

/// Every request is refused with this message, at once.
fn is_stopped(database: &RowEngine, message: &str) {
    let mut session = database.session();
    session.set_statement_timeout(Some(Duration::from_secs(60)));
    let mut refused = |sql: &str| {
        let error = session.execute(sql, &[]).unwrap_err();
        assert!(error.to_string().contains(message), "{sql}: {error}");
    };
    for key in 20..30 {
        refused(&format!("INSERT INTO t VALUES ({key})"));
        refused(&format!("SELECT k FROM t WHERE k = {key}"));
    }
    refused("SELECT count(*) FROM t");
    refused("CREATE TABLE u (k BIGINT PRIMARY KEY)");
    run(&mut session, "BEGIN");
    assert!(session.execute("SELECT k FROM t", &[]).unwrap_err().to_string().contains(message));
    assert!(database.snapshot().unwrap_err().to_string().contains(message));
}

#[test]
fn a_procedure_that_panics_stops_the_engine_and_everybody_is_told() {
    for sql in ["CALL panics(11)", "CALL panics_everywhere(11)", "CALL calls(11)", "BEGIN"] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let database = filled(Arc::new(disk.clone()));
        let mut waiting = database.client();
        let inserts = database.procedure("inserts").unwrap();
        let mut session = database.session();
        if sql == "BEGIN" {
            run(&mut session, sql);
            run(&mut session, "INSERT INTO t VALUES (10)");
        }
        std::thread::scope(|scope| {
            // After the session's transaction, in the queue of a partition that stops.
            let others = scope.spawn(|| {
                (100..140).for_each(|key| {
                    waiting.submit(Arc::clone(&inserts), vec![Value::Int(key)].into(), 0).unwrap();
                });
                waiting.send();
                let mut results = Vec::new();
                while results.len() < 40 {
                    results.extend(waiting.receive().into_iter().map(|reply| reply.result));
                }
                results.iter().filter(|result| result.is_ok()).count()
            });
            let sql = if sql == "BEGIN" { "CALL panics(11)" } else { sql };
            let error = session.execute(sql, &[]).unwrap_err();
            assert_eq!((error.sqlstate(), error.to_string().contains("on purpose")), ("XX000", true), "{sql}: {error}");
            let acknowledged = others.join().unwrap();
            is_stopped(&database, "on purpose");
            drop(session);
            drop(database);
            // The row before the panic is in no log; acknowledged rows are.
            let rows = count(&open(Arc::new(disk)));
            assert_eq!(rows, 10 + i64::try_from(acknowledged).unwrap(), "{sql}");
        });
    }
}

#[test]
fn transactions_of_the_same_batch_are_not_lost() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = filled(Arc::new(disk.clone()));
    let (inserts, panics) = (database.procedure("inserts").unwrap(), database.procedure("panics").unwrap());
    let mut client = database.client();
    // Keys of one partition, so that they run in this order.
    for (tag, work, key) in [(0, &inserts, 50), (1, &panics, 50), (2, &inserts, 50)] {
        client.submit(Arc::clone(work), vec![Value::Int(key)].into(), tag).unwrap();
    }
    client.send();
    let mut results = std::collections::BTreeMap::new();
    while results.len() < 3 {
        results.extend(client.receive().into_iter().map(|reply| (reply.tag, reply.result)));
    }
    assert!(results[&0].is_ok(), "{results:?}");
    drop((client, database));
    assert_eq!(count(&open(Arc::new(disk))), 11);
}

#[test]
fn transactions_of_the_same_meeting_are_told() {
    for turn in 0..20 {
        let disk = SimulatedDisk::new(turn, Faults::default());
        let database = filled(Arc::new(disk.clone()));
        let [inserts, panics] =
            ["inserts_everywhere", "panics_everywhere"].map(|name| database.procedure(name).unwrap());
        let mut client = database.client();
        for key in 50..90 {
            let work = if key == 70 + turn as i64 { &panics } else { &inserts };
            client.submit(Arc::clone(work), vec![Value::Int(key)].into(), 0).unwrap();
        }
        client.send();
        let mut results = Vec::new();
        while results.len() < 40 {
            results.extend(client.receive().into_iter().map(|reply| reply.result));
        }
        let acknowledged = results.iter().filter(|result| result.is_ok()).count() as i64;
        drop((client, database));
        assert_eq!(count(&open(Arc::new(disk))), 10 + acknowledged);
    }
}

/// Panics in this operation on files with this in their names, once `armed`.
fn panicking(disk: &SimulatedDisk, armed: &Arc<AtomicBool>, operation: Operation, part: &'static str) -> Arc<dyn Disk> {
    let armed = Arc::clone(armed);
    Arc::new(Hooked::new(disk, move |now, name| {
        assert!(!(armed.load(Ordering::Relaxed) && now == operation && name.contains(part)), "on purpose");
        Ok(())
    }))
}

#[test]
fn a_panic_of_the_logs_thread_is_told_to_all_who_wait() {
    for synchronous in [true, false] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let armed = Arc::new(AtomicBool::new(false));
        let mut settings = Settings { partitions: 2, seed: 1, ..Settings::default() };
        settings.log.synchronous_commit = synchronous;
        let database = RowEngine::open(panicking(&disk, &armed, Operation::Append, "log-"), settings).unwrap();
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
        database.snapshot().unwrap();
        armed.store(true, Ordering::Relaxed);
        // Far from the keys that are tried afterwards: the number of inserts before the news arrives is random.
        let mut key = 1000;
        let error = loop {
            match session.execute("INSERT INTO t VALUES ($1)", &[Value::Int(key)]) {
                Ok(_) if !synchronous => key += 1,
                result => break result.unwrap_err(),
            }
        };
        assert!(error.to_string().contains("the log's thread panicked"), "{error}");
        is_stopped(&database, "the log's thread panicked");
        drop(session);
        drop(database);
        assert_eq!(count(&RowEngine::open(Arc::new(disk), Settings::default()).unwrap()), 0);
    }
}

#[test]
fn a_panic_of_the_snapshots_thread_leaves_the_rest_at_work() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let armed = Arc::new(AtomicBool::new(true));
    let database = filled(panicking(&disk, &armed, Operation::Create, ".rows"));
    assert!(database.snapshot().is_err());
    let error = database.snapshot().unwrap_err();
    assert!(error.to_string().contains("the snapshots' thread panicked"), "{error}");
    assert_eq!(database.snapshot_status().error, Some(error));
    run(&mut database.session(), "INSERT INTO t VALUES (10)");
    drop(database);
    assert_eq!(count(&open(Arc::new(disk))), 11);
}
