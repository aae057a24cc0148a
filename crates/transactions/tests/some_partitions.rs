//! Statements over some of several partitions: run, logged, and run again from the log.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::database::{Database, Session, Settings};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::types::Value;

fn open(disk: &SimulatedDisk) -> Database {
    let settings = Settings { partitions: 5, seed: 3, ..Settings::default() };
    Database::open(Arc::new(disk.clone()), settings).unwrap()
}

fn rows(session: &mut Session) -> Vec<String> {
    let answer = session.execute("SELECT k, v, at FROM t ORDER BY k", &[]).unwrap();
    let row = |row| answer.rows.row(row).map(|value| value.to_string()).collect::<Vec<_>>().join(" ");
    (0..answer.rows.len()).map(row).collect()
}

#[test]
fn what_some_partitions_did_comes_back_from_the_log() {
    let disk = SimulatedDisk::new(3, Faults::default());
    let mut random = StdRng::seed_from_u64(3);
    let database = open(&disk);
    let mut session = database.session();
    let create = "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, at DOUBLE PRECISION DEFAULT random()) \
                  PARTITION BY (k)";
    session.execute(create, &[]).unwrap();
    let mut affected = 0;
    for _ in 0..300 {
        let [one, mut other, third] = [0; 3].map(|_| random.random_range(0..60_i64));
        // One statement changes no row twice.
        other += i64::from(one == other);
        let sql = match random.random_range(0..5) {
            0 => format!(
                "INSERT INTO t (k, v) VALUES ({one}, 1), ({other}, 2) ON CONFLICT (k) DO UPDATE SET v = t.v + 1"
            ),
            1 => format!("UPDATE t SET v = v + 1, at = random() WHERE k IN ({one}, {other}, {third})"),
            2 => format!("UPDATE t SET v = -v WHERE k = {one} OR k = {other} AND v > 0"),
            3 => format!("DELETE FROM t WHERE k IN ({one}, {other}) AND v % 7 = 3"),
            _ => format!("INSERT INTO t (k, v) VALUES ({third}, 9) ON CONFLICT DO NOTHING"),
        };
        affected += session.execute(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).affected;
    }
    assert!(affected > 200, "{affected}");
    assert_eq!(database.restarts(), 0, "each statement said what it needed");
    let before = rows(&mut session);
    assert!(before.len() > 20, "{before:?}");
    let all: Vec<String> = (0..60).map(|k| k.to_string()).collect();
    let listed = format!("SELECT count(*) FROM t WHERE k IN ({})", all.join(", "));
    assert_eq!(session.execute(&listed, &[]).unwrap().rows.value(0, 0), Value::Int(before.len() as i64).as_ref());
    drop((session, database));
    let database = open(&disk);
    assert_eq!(rows(&mut database.session()), before);
}
