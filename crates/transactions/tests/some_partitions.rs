//! Statements over some of the partitions: run, logged, and replayed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::types::{PartitionHash, Value, ValueRef};

fn open(disk: &SimulatedDisk) -> RowEngine {
    let settings = Settings { partitions: 5, seed: 3, ..Settings::default() };
    RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
}

fn rows(session: &mut RowSession) -> Vec<String> {
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

/// A procedure that holds its partition until the test lets it go on.
struct Hold {
    holds: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Procedure for Hold {
    fn statements(&self) -> &[&str] {
        &[]
    }

    fn run(&self, _: &mut Context<'_, '_>, _: &[Value]) -> Result<StatementResult> {
        // In replay nothing listens or holds it any more.
        if self.holds.send(()).is_ok() {
            let _ = self.go_on.lock().unwrap().recv();
        }
        Ok(StatementResult::default())
    }
}

/// Two partitions with a procedure `hold(k)`; also returns a receiver that says when it runs, and a sender that ends
/// it.
fn open_held(disk: &SimulatedDisk) -> (RowEngine, Receiver<()>, Sender<()>) {
    let ((holds, held), (release, go_on)) = (channel(), channel());
    let hold = Hold { holds, go_on: Mutex::new(go_on) };
    let hold = Registration::new("hold(k BIGINT) PARTITION ON (k)", 1, hold).unwrap();
    let settings = Settings { partitions: 2, seed: 3, procedures: vec![hold], ..Settings::default() };
    (RowEngine::open(Arc::new(disk.clone()), settings).unwrap(), held, release)
}

/// A key of each of two partitions.
fn keys() -> [i64; 2] {
    [0, 1].map(|partition| {
        let is_of = |k: &i64| PartitionHash::of(ValueRef::Int(*k)).partition(2) == partition;
        (1..).find(is_of).unwrap()
    })
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_partition_serves_others_while_one_that_it_is_to_meet_is_busy() {
    let disk = SimulatedDisk::new(3, Faults::default());
    let (database, held, release) = open_held(&disk);
    let [busy, free] = keys();
    let mut session = database.session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)", &[]).unwrap();
    session.execute(&format!("INSERT INTO t VALUES ({busy}, 0), ({free}, 0)"), &[]).unwrap();
    session
        .execute(
            "CREATE PROCEDURE both(a BIGINT, b BIGINT, c BIGINT) PARTITION ON (a, b, c) LANGUAGE sql AS \
             'UPDATE t SET v = v + 1 WHERE k IN ($1, $2) RETURNING v'",
            &[],
        )
        .unwrap();

    const MEETINGS: i64 = 40;
    let mut client = database.client();
    client.submit(database.procedure("hold").unwrap(), [Value::Int(busy)].into(), 0).unwrap();
    client.send();
    held.recv_timeout(LONG).unwrap();
    let both = database.procedure("both").unwrap();
    for tag in 1..=MEETINGS {
        client.submit(Arc::clone(&both), [Value::Int(busy), Value::Int(free), Value::Null].into(), tag as u64).unwrap();
    }
    client.send();
    // After the requests in its queue and before them in time; it does not see rows of the other partition.
    let (sender, answers) = channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut session = database.session();
            for _ in 0..10 {
                let sql = format!("UPDATE t SET v = v + 100 WHERE k = {free} RETURNING v");
                let answer = session.execute(&sql, &[]).unwrap();
                sender.send(answer.rows.value(0, 0).to_value()).unwrap();
            }
        });
        let served: Vec<_> = (0..10).map_while(|_| answers.recv_timeout(LONG).ok()).collect();
        release.send(()).unwrap();
        assert_eq!(served, (1..=10).map(|count| Value::Int(100 * count)).collect::<Vec<_>>());
    });
    let mut replies = Vec::new();
    while replies.len() < 1 + MEETINGS as usize {
        replies.extend(client.receive());
    }
    for reply in replies.into_iter().filter(|reply| reply.tag > 0) {
        let rows = reply.result.unwrap().rows;
        let found: Vec<_> = (0..rows.len()).map(|row| rows.value(row, 0).to_value()).collect();
        let tag = reply.tag as i64;
        let mut expected = vec![Value::Int(tag), Value::Int(1000 + tag)];
        if found.first() != expected.first() {
            expected.reverse();
        }
        assert_eq!(found, expected);
    }
    assert_eq!(database.restarts(), 0, "each call said what it needed");
    drop((session, client, held, release));
    drop(database);
    let (database, held, _) = open_held(&disk);
    drop(held);
    let answer = database.session().execute("SELECT v FROM t ORDER BY v", &[]).unwrap();
    let found: Vec<_> = (0..answer.rows.len()).map(|row| answer.rows.value(row, 0).to_value()).collect();
    assert_eq!(found, [Value::Int(MEETINGS), Value::Int(1000 + MEETINGS)]);
}
