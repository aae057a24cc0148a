//! Replicated tables, and sessions' transactions over some of the partitions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Value, ValueRef};

const PARTITIONS: u16 = 3;

fn open(disk: &SimulatedDisk) -> RowEngine {
    let settings = Settings { partitions: PARTITIONS, seed: 3, ..Settings::default() };
    RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
}

fn run(session: &mut RowSession, sql: &str) -> Rows {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

/// Result on each copy. Reads of replicated tables go to the partitions in turn.
fn copies(database: &RowEngine, sql: &str) -> Vec<Rows> {
    let work = database.prepare(sql).unwrap();
    let mut client = database.client();
    (0..PARTITIONS).map(|_| client.call(Arc::clone(&work), [].into()).unwrap().rows).collect()
}

fn equal(database: &RowEngine) -> Rows {
    let mut copies = copies(database, "SELECT * FROM r ORDER BY k");
    assert!(copies.windows(2).all(|pair| pair[0] == pair[1]), "copies differ: {copies:?}");
    let statistics = database.session().statistics().unwrap();
    let tables = statistics.partitions.iter().flat_map(|partition| &partition.tables);
    let rows: Vec<usize> = tables.filter(|table| &*table.table.name == "r").map(|table| table.rows).collect();
    assert_eq!(rows, [copies[0].len(); PARTITIONS as usize]);
    copies.pop().unwrap()
}

#[test]
fn copies_are_alike_whatever_is_done_to_them() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut database = open(&disk);
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE r (k BIGINT PRIMARY KEY, v DOUBLE PRECISION DEFAULT random(), u TEXT DEFAULT uuid(), \
         n BIGINT CHECK (n < 90))",
    );
    run(&mut session, "CREATE UNIQUE INDEX r_n ON r (n)");
    run(&mut session, "CREATE TABLE p (k BIGINT PRIMARY KEY, r BIGINT NOT NULL) PARTITION BY (k)");
    for k in 0..30 {
        run(&mut session, &format!("INSERT INTO p VALUES ({k}, {})", k % 10));
    }
    let mut random = StdRng::seed_from_u64(1);
    let mut errors = 0;
    for round in 0..400 {
        let (k, n) = (random.random_range(0..20), random.random_range(0..100));
        let begin = random.random_bool(0.2);
        if begin {
            run(&mut session, "BEGIN");
        }
        let sql = match random.random_range(0..6) {
            0 => format!("INSERT INTO r (k, n) VALUES ({k}, {n})"),
            1 => format!("INSERT INTO r (k, n) VALUES ({k}, {n}), ({}, {})", k + 1, n + 1),
            2 => format!("INSERT INTO r (k, n) VALUES ({k}, {n}) ON CONFLICT (k) DO UPDATE SET v = random()"),
            3 => format!("UPDATE r SET v = random(), u = uuid() WHERE k % 3 = {}", k % 3),
            4 => format!("UPDATE r SET n = {n} WHERE k = {k}"),
            _ => format!("DELETE FROM r WHERE k = {k}"),
        };
        match session.execute(&sql, &[]) {
            Ok(_) => {}
            Err(error) if matches!(error.sqlstate(), "23505" | "23514") => errors += 1,
            Err(error) => panic!("{sql}: {error}"),
        }
        if begin {
            let commit = random.random_bool(0.5);
            // After an error there is nothing to commit.
            let _ = session.execute(if commit { "COMMIT" } else { "ROLLBACK" }, &[]);
        }
        let rows = equal(&database);
        if round % 100 == 50 {
            database.snapshot().unwrap();
        }
        if round % 100 == 99 {
            drop(session);
            database.close().unwrap();
            database = open(&disk);
            assert_eq!(equal(&database), rows, "recovered");
            session = database.session();
        }
    }
    assert!(errors > 20, "{errors}");
    // Joined on each partition with that partition's rows.
    let joined = run(&mut session, "SELECT count(*) FROM p JOIN r ON r.k = p.r");
    let ValueRef::Int(joined) = joined.value(0, 0) else { panic!("a count") };
    let there = run(&mut session, "SELECT count(*) FROM r WHERE k < 10");
    assert_eq!(ValueRef::Int(joined / 3), there.value(0, 0));
}

#[test]
fn readers_of_a_copy_never_go_back() {
    let database = open(&SimulatedDisk::new(1, Faults::default()));
    let mut session = database.session();
    run(&mut session, "CREATE TABLE r (k BIGINT PRIMARY KEY, n BIGINT NOT NULL)");
    run(&mut session, "INSERT INTO r VALUES (1, 0)");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..500 {
                run(&mut session, "UPDATE r SET n = n + 1 WHERE k = 1");
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let work = database.prepare("SELECT n FROM r WHERE k = $1").unwrap();
                let (mut client, mut last) = (database.client(), 0);
                while last < 500 {
                    let rows = client.call(Arc::clone(&work), vec![Value::Int(1)].into()).unwrap().rows;
                    let ValueRef::Int(seen) = rows.value(0, 0) else { panic!("a number") };
                    assert!(seen >= last, "{seen} after {last}");
                    last = seen;
                }
            });
        }
        writer.join().unwrap();
    });
}
