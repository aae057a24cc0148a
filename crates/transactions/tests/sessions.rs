//! Concurrent transactions of sessions beside each other and beside all other work: each holds the partitions that its
//! statements have needed, and none waits for ever.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Crash, Faults, SimulatedDisk};
use thermocline_transactions::types::{PartitionHash, Value, ValueRef};

const PARTITIONS: u16 = 4;

fn open(disk: &SimulatedDisk) -> RowEngine {
    let settings = Settings { partitions: PARTITIONS, seed: 3, queue_length: 50, ..Settings::default() };
    RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
}

/// A row in each partition; returns their keys in the order of the partitions.
fn filled(disk: &SimulatedDisk) -> (RowEngine, [i64; PARTITIONS as usize]) {
    let database = open(disk);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)");
    run(&mut session, "CREATE INDEX t_v ON t (v)");
    run(&mut session, "CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)");
    run(&mut session, "INSERT INTO r VALUES (1, 0)");
    run(
        &mut session,
        "CREATE PROCEDURE move(one BIGINT, other BIGINT, v BIGINT) PARTITION ON (one) LANGUAGE lua AS $$
           db.execute('UPDATE t SET v = v - $2 WHERE k = $1', one, v)
           db.execute('UPDATE t SET v = v + $2 WHERE k = $1', other, v)
         $$",
    );
    let of = |partition| {
        let is_of = |k: &i64| PartitionHash::of(ValueRef::Int(*k)).partition(PARTITIONS.into()) == partition;
        (0..).find(is_of).unwrap()
    };
    let keys = [0, 1, 2, 3].map(of);
    for k in keys {
        run(&mut session, &format!("INSERT INTO t VALUES ({k}, 0)"));
    }
    (database, keys)
}

fn disk() -> SimulatedDisk {
    SimulatedDisk::new(1, Faults::default())
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn add(session: &mut RowSession, key: i64) -> thermocline_transactions::Result<StatementResult> {
    session.execute("UPDATE t SET v = v + 1 WHERE k = $1", &[Value::Int(key)])
}

fn values(database: &RowEngine) -> Vec<i64> {
    let answer = run(&mut database.session(), "SELECT v FROM t ORDER BY k");
    let int = |row| if let ValueRef::Int(value) = answer.rows.value(row, 0) { value } else { panic!("{answer:?}") };
    (0..answer.rows.len()).map(int).collect()
}

fn sum(database: &RowEngine) -> i64 {
    values(database).iter().sum()
}

/// A session whose transaction has changed these rows.
fn holder(database: &RowEngine, keys: &[i64]) -> RowSession {
    let mut session = database.session();
    run(&mut session, "BEGIN");
    keys.iter().for_each(|key| drop(add(&mut session, *key).unwrap()));
    session
}

#[test]
fn transactions_on_different_partitions_run_side_by_side() {
    let (database, [a, b, c, d]) = filled(&disk());
    let mut one = holder(&database, &[a]);
    let mut other = holder(&database, &[b]);
    // Statements over one partition and over two, and a third transaction, all beside these.
    let mut session = database.session();
    for _ in 0..100 {
        add(&mut session, c).unwrap();
        run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE k IN ({c}, {d})"));
    }
    run(&mut session, &format!("CALL move({c}, {d}, 7)"));
    let third = holder(&database, &[d, c]);
    // In either order, including a return to one that they have, and statements that need several.
    add(&mut one, a).unwrap();
    run(&mut other, "SELECT v FROM r WHERE k = 1");
    run(&mut other, "COMMIT");
    run(&mut one, &format!("UPDATE t SET v = v + 1 WHERE k = {b}"));
    run(&mut one, "COMMIT");
    drop(third);
    assert_eq!(sum(&database), 300 + 2 + 1 + 1);
}

#[test]
fn a_statement_takes_what_it_turns_out_to_need() {
    let (database, [a, b, c, d]) = filled(&disk());
    // By procedure, which has changed a row when it finds out; by index, in all partitions; a replicated table.
    let mut session = holder(&database, &[b]);
    run(&mut session, &format!("CALL move({b}, {c}, 10)"));
    add(&mut database.session(), a).unwrap();
    run(&mut session, &format!("CALL move({c}, {b}, 3)"));
    assert_eq!(run(&mut session, "SELECT k FROM t WHERE v = 7").rows.value(0, 0), ValueRef::Int(c));
    run(&mut session, "UPDATE r SET v = v + 1 WHERE k = 1");
    run(&mut session, "COMMIT");
    let mut after = [(a, 1), (b, -6), (c, 7), (d, 0)];
    after.sort_unstable();
    assert_eq!(values(&database), after.map(|(_, value)| value));
    // A later error undoes all of it.
    let mut session = holder(&database, &[b]);
    run(&mut session, &format!("CALL move({b}, {d}, 10)"));
    let error = session.execute(&format!("INSERT INTO t VALUES ({a}, 1)"), &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "23505");
    assert_eq!(add(&mut session, b).unwrap_err().sqlstate(), "25P02");
    assert_eq!(values(&database), after.map(|(_, value)| value));
}

#[test]
fn of_two_that_wait_for_each_other_one_ends() {
    let (database, [a, _, _, d]) = filled(&disk());
    for round in 0..20 {
        let mut in_order = holder(&database, &[a]);
        let mut out_of_order = holder(&database, &[d]);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(round % 3));
                add(&mut in_order, d)
            });
            let error = add(&mut out_of_order, a).unwrap_err();
            assert_eq!(error.sqlstate(), "40P01", "{error}");
            assert!(error.to_string().contains("run it again"), "{error}");
            assert_eq!(one.join().unwrap().unwrap().affected, 1);
        });
        run(&mut in_order, "COMMIT");
        assert_eq!(add(&mut out_of_order, a).unwrap_err().sqlstate(), "25P02");
        run(&mut out_of_order, "ROLLBACK");
        assert_eq!(sum(&database), 2 * (round as i64 + 1));
    }
}

/// Many sessions with keys in any order: refused ones try again, and nothing is lost.
#[test]
fn sessions_in_any_order_all_come_to_an_end() {
    let (database, keys) = filled(&disk());
    let totals: Vec<(i64, u32)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|seed| {
                let mut session = database.session();
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed);
                    let (mut added, mut refused) = (0, 0);
                    while added < 300 {
                        run(&mut session, "BEGIN");
                        let wanted: Vec<_> = (0..3).map(|_| keys[random.random_range(0..keys.len())]).collect();
                        match wanted.iter().try_for_each(|key| add(&mut session, *key).map(drop)) {
                            Ok(()) => {
                                run(&mut session, "COMMIT");
                                added += 3;
                            }
                            Err(error) => {
                                assert_eq!(error.sqlstate(), "40P01", "{error}");
                                run(&mut session, "ROLLBACK");
                                refused += 1;
                            }
                        }
                    }
                    (added, refused)
                })
            })
            .collect();
        // Requests of no session are never refused, and end.
        let mut session = database.session();
        for round in 0..60 {
            match round % 3 {
                0 => drop(run(&mut session, &format!("UPDATE t SET v = v WHERE k IN ({}, {})", keys[3], keys[0]))),
                1 => drop(run(&mut session, "UPDATE r SET v = v + 1")),
                _ => drop(run(&mut session, "SELECT sum(v) FROM t")),
            }
        }
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(sum(&database), totals.iter().map(|(added, _)| added).sum::<i64>());
    assert!(totals.iter().any(|(_, refused)| *refused > 0), "{totals:?}");
}

#[test]
fn what_needs_all_partitions_neither_breaks_a_session_nor_hangs() {
    type Work = fn(&RowEngine);
    let works: [(&str, Work); 4] = [
        ("a definition", |database| drop(run(&mut database.session(), "ALTER TABLE r ADD COLUMN w BIGINT DEFAULT 7"))),
        ("a snapshot", |database| assert!(database.snapshot().unwrap().rows > 0)),
        ("a statement", |database| drop(run(&mut database.session(), "UPDATE r SET v = v + 1"))),
        ("a load", |database| {
            let mut load = database.session().load("t", &["k", "v"]).unwrap();
            (1000..3000).for_each(|k| load.push(&[ValueRef::Int(k), ValueRef::Int(0)]).unwrap());
            load.finish().unwrap();
        }),
    ];
    for (name, work) in works {
        let (database, [a, b, c, d]) = filled(&disk());
        let mut session = holder(&database, &[c]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| work(&database));
            std::thread::sleep(Duration::from_millis(30));
            // Other partitions go on, and the session overtakes requests that wait for it, in whatever order it asks.
            let mut other = database.session();
            for _ in 0..200 {
                add(&mut other, b).unwrap();
            }
            run(&mut other, &format!("UPDATE t SET v = v + 1 WHERE k IN ({b}, {d})"));
            assert!(!waiting.is_finished(), "{name} does not wait");
            add(&mut session, a).unwrap();
            add(&mut session, d).unwrap();
            add(&mut session, b).unwrap();
            run(&mut session, "COMMIT");
            waiting.join().unwrap();
        });
        assert_eq!(sum(&database), 202 + 4, "{name}");
        drop(session);
        database.close().unwrap();
    }
}

/// A transaction that nobody ends, beside clients that go on, and beside requests that need its partition.
#[test]
fn a_transaction_that_is_left_open_costs_its_own_partition_only() {
    let (database, [a, b, c, d]) = filled(&disk());
    let mut open = holder(&database, &[b]);
    let (is_full, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Single statements and pairs go on, whatever waits.
        let clients: Vec<_> = [[a, c], [c, d], [d, a]]
            .into_iter()
            .map(|[one, other]| {
                let mut session = database.session();
                scope.spawn(move || {
                    for _ in 0..300 {
                        add(&mut session, one).unwrap();
                        run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE k IN ({one}, {other})"));
                    }
                })
            })
            .collect();
        // More than the limit; they are refused, or wait until the end.
        let flood = scope.spawn(|| {
            let mut client = database.client();
            let pair = database.prepare("UPDATE t SET v = v + 0 WHERE k IN ($1, $2)").unwrap();
            (0..200).for_each(|tag| {
                client.submit(Arc::clone(&pair), vec![Value::Int(a), Value::Int(b)].into(), tag).unwrap();
                client.send();
            });
            let mut results = Vec::new();
            while results.len() < 200 {
                results.extend(client.receive().into_iter().map(|reply| reply.result));
                is_full.store(results.len() >= 100, Ordering::SeqCst);
            }
            assert!(is_over.load(Ordering::SeqCst), "some of them have to wait");
            let refused: Vec<_> = results.into_iter().filter_map(Result::err).collect();
            assert!(refused.iter().all(|error| error.sqlstate() == "40001"), "{refused:?}");
            refused.len()
        });
        // After those that wait: if it ran before them, it would have them all refused as prepared before a definition.
        while !is_full.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let defined = scope.spawn(|| drop(run(&mut database.session(), "CREATE INDEX r_v ON r (v)")));
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert!(!defined.is_finished(), "it needs all partitions");
        is_over.store(true, Ordering::SeqCst);
        run(&mut open, "ROLLBACK");
        let refused = flood.join().unwrap();
        // The queue is full of waiting requests, and of others of the same partition.
        assert!((100..200).contains(&refused), "{refused}");
        defined.join().unwrap();
    });
    assert_eq!(sum(&database), 3 * 300 * 3);
}

#[test]
fn who_waits_for_a_partition_can_be_stopped() {
    let (database, [a, b, c, _]) = filled(&disk());
    let mut first = holder(&database, &[b]);
    let mut second = holder(&database, &[a, c]);
    second.set_statement_timeout(Some(Duration::from_millis(30)));
    assert_eq!(add(&mut second, b).unwrap_err().sqlstate(), "57014");
    // It has given back its partitions.
    let mut session = database.session();
    run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE k IN ({a}, {c})"));
    assert_eq!(add(&mut second, a).unwrap_err().sqlstate(), "25P02");
    run(&mut second, "ROLLBACK");
    // Cancelled by another thread, and with a waiting statement over all partitions that has some of them.
    second.set_statement_timeout(None);
    let canceller = second.canceller();
    run(&mut second, "BEGIN");
    add(&mut second, c).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| second.execute("UPDATE r SET v = v + 1", &[]).unwrap_err());
        while !waiting.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            canceller.cancel();
        }
        assert_eq!(waiting.join().unwrap().sqlstate(), "57014");
    });
    // Nothing of it remains in the way.
    run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE k IN ({a}, {c})"));
    run(&mut first, "COMMIT");
    assert_eq!(sum(&database), 5);
    let mut third = holder(&database, &[a, b, c]);
    run(&mut third, "COMMIT");
}

#[test]
fn a_session_that_does_nothing_gives_all_its_partitions_back() {
    let (database, [a, b, c, d]) = filled(&disk());
    let mut session = database.session();
    session.set_idle_timeout(Duration::from_millis(30));
    run(&mut session, "BEGIN");
    for key in [c, a, d] {
        add(&mut session, key).unwrap();
    }
    run(&mut database.session(), &format!("UPDATE t SET v = v + 1 WHERE k IN ({a}, {b}, {c}, {d})"));
    assert_eq!(sum(&database), 4);
    assert_eq!(add(&mut session, b).unwrap_err().sqlstate(), "25P03");
    assert_eq!(session.execute("COMMIT", &[]).unwrap_err().sqlstate(), "25P02");
    // A transaction that waits for another is not idle.
    let mut other = holder(&database, &[b]);
    run(&mut session, "BEGIN");
    add(&mut session, a).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| add(&mut session, b));
        std::thread::sleep(Duration::from_millis(150));
        add(&mut other, b).unwrap();
        run(&mut other, "COMMIT");
        assert_eq!(waiting.join().unwrap().unwrap().affected, 1);
    });
    run(&mut session, "COMMIT");
    assert_eq!(sum(&database), 4 + 2 + 2);
}

/// Records name the partitions that the transactions had.
#[test]
fn what_sessions_did_comes_back_from_the_log() {
    let disk = disk();
    let (database, keys) = filled(&disk);
    let mut random = StdRng::seed_from_u64(5);
    let mut sessions: Vec<_> = (0..2).map(|_| database.session()).collect();
    for round in 0..120 {
        // The first has partitions 0 and 1, the second 2 and 3, both at the same time, with others in between.
        for (session, mine) in sessions.iter_mut().zip([&keys[..2], &keys[2..]]) {
            run(session, "BEGIN");
            for _ in 0..random.random_range(1..4) {
                add(session, mine[random.random_range(0..2)]).unwrap();
            }
            if random.random_bool(0.3) {
                run(session, &format!("CALL move({}, {}, 5)", mine[0], mine[1]));
            }
            if random.random_bool(0.3) {
                run(session, "SELECT v FROM r WHERE k = 1");
            }
        }
        for session in &mut sessions {
            run(session, if random.random_bool(0.8) { "COMMIT" } else { "ROLLBACK" });
        }
        if round % 40 == 20 {
            database.snapshot().unwrap();
            run(&mut sessions[0], "UPDATE r SET v = v + 1");
        }
    }
    let before = values(&database);
    drop((sessions, database));
    disk.restart(Crash::Power);
    assert_eq!(values(&open(&disk)), before);
}
