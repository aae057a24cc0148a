//! Large tables: writes of any number of rows, queries that go to another engine, and the time for which partitions are
//! held.
//!
//! The limits are lowered to sizes that a test fills quickly. `THERMOCLINE_LARGE_ROWS=12000000 cargo test --release
//! --test large -- --nocapture` uses that many rows, which takes a few gigabytes, and prints times.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::procedure::{Context, Limits, Procedure, Registration};
use thermocline_transactions::types::{Value, ValueRef};

/// Limit on rows for a query in the row engine, and for a procedure in total.
const BOUND: u64 = 1000;

fn rows() -> i64 {
    std::env::var("THERMOCLINE_LARGE_ROWS").map_or(20_000, |rows| rows.parse().unwrap())
}

/// A procedure that changes or reads all rows.
struct All(&'static str);

impl Procedure for All {
    fn statements(&self) -> &[&str] {
        std::slice::from_ref(&self.0)
    }

    fn run(&self, context: &mut Context<'_, '_>, _arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, &[])?.into())
    }
}

fn settings() -> Settings {
    let procedures = vec![
        Registration::new("change_all()", 1, All("UPDATE t SET v = v + 1")).unwrap(),
        Registration::new("count_all()", 1, All("SELECT count(*) FROM t")).unwrap(),
    ];
    Settings {
        partitions: 2,
        seed: 1,
        memory_bytes_max: 8 << 30,
        undo_bytes_max: 4 << 30,
        limits: Limits { rows_max: BOUND, ..Limits::default() },
        query_rows_max: Some(BOUND),
        procedures,
        durable: false,
        ..Settings::default()
    }
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    let started = Instant::now();
    let answer = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    println!("{:?} {sql}", started.elapsed());
    answer
}

fn int(answer: &StatementResult) -> i64 {
    let ValueRef::Int(value) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    value
}

fn filled() -> RowEngine {
    let database = RowEngine::open(Arc::new(SimulatedDisk::new(1, Faults::default())), settings()).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT, v BIGINT NOT NULL, PRIMARY KEY (k) USING BTREE) PARTITION BY (k)");
    let first: Vec<String> = (0..1000).map(|k| format!("({k}, {})", k % 7)).collect();
    session.execute(&format!("INSERT INTO t VALUES {}", first.join(", ")), &[]).unwrap();
    let mut have = 1000;
    while have < rows() {
        let more = have.min(rows() - have).min(1_000_000);
        let again = format!("INSERT INTO t SELECT k + {have}, (k + {have}) % 7 FROM t WHERE k < {more}");
        assert_eq!(session.execute(&again, &[]).unwrap().affected, more.cast_unsigned());
        have += more;
    }
    drop(session);
    database
}

/// A query that the row engine runs however many rows it reads.
fn count(session: &mut RowSession, sql: &str) -> i64 {
    int(&session.execute_unbounded(sql.into(), &[]).unwrap_or_else(|error| panic!("{sql}: {error}")))
}

#[test]
fn writes_have_no_limit_and_say_how_long_they_held_partitions() {
    let database = filled();
    let mut session = database.session();
    let interrupt = Arc::new(Interrupt::new(None));
    let updated = session.as_one_statement(Arc::clone(&interrupt), |session| {
        session.execute("UPDATE t SET v = v + 7 WHERE v >= 0", &[])
    });
    assert_eq!(updated.unwrap().affected, rows().cast_unsigned());
    let held = interrupt.held();
    println!("{held:?} held by an UPDATE of all rows");
    assert!(held > Duration::from_micros(100), "{held:?}");
    for partition in session.statistics().unwrap().partitions {
        assert!(partition.held.longest >= held / 2, "{partition:?}");
        assert_eq!(partition.held.long > 0, partition.held.longest > Duration::from_millis(10));
    }
    let fifth = run(&mut session, "DELETE FROM t WHERE k % 5 = 0").affected;
    assert_eq!(fifth, rows().cast_unsigned() / 5);
    assert_eq!(count(&mut session, "SELECT count(*) FROM t WHERE v >= 7"), rows() - rows() / 5);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE k < 100 OR k IN (101, 102)").affected, 82);

    // A session's transaction has no limit either, and a procedure has its own.
    run(&mut session, "BEGIN");
    assert_eq!(run(&mut session, "UPDATE t SET v = 0").affected, fifth * 4 - 82);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v = 0")).cast_unsigned(), fifth * 4 - 82);
    run(&mut session, "ROLLBACK");
    for call in ["CALL change_all()", "CALL count_all()"] {
        let error = session.execute(call, &[]).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("more rows than it may")), ("57014", true), "{error}");
    }
    assert_eq!(count(&mut session, "SELECT count(*) FROM t WHERE v < 7"), 0);
}

#[test]
fn writes_are_stopped_while_they_change_rows() {
    let database = filled();
    let mut session = database.session();
    // Finding the rows takes a moment, changing all of them far longer than the timeout: it writes 80 GB.
    let slow = "length(repeat('x', 4000000 + v::INTEGER))";
    for sql in
        [format!("UPDATE t SET v = {slow} WHERE k < 20000"), format!("DELETE FROM t WHERE k < 20000 RETURNING {slow}")]
    {
        session.set_statement_timeout(Some(Duration::from_millis(200)));
        let error = session.execute(&sql, &[]).unwrap_err();
        assert_eq!(error.sqlstate(), "57014", "{sql}: {error}");
        session.set_statement_timeout(None);
        assert_eq!(count(&mut session, "SELECT count(*) FROM t WHERE v < 7"), rows(), "{sql} is rolled back");
    }
}

#[test]
fn queries_that_read_much_are_for_another_engine() {
    let database = filled();
    let mut session = database.session();
    let beyond = [
        // Refused before anything is read.
        "SELECT count(*) FROM t",
        "SELECT v, sum(k) FROM t GROUP BY v",
        "SELECT k FROM t WHERE v = 3 ORDER BY v LIMIT 3",
        "SELECT k FROM t ORDER BY v",
        "EXPLAIN SELECT sum(v) FROM t",
        // Refused after this many rows were read.
        "SELECT sum(v) FROM t WHERE k > 2",
        "SELECT sum(v) FROM t WHERE k BETWEEN 5 AND 1500 OR k IN (7, 8)",
        "SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.k < 700",
    ];
    for sql in beyond {
        let error = session.execute(sql, &[]).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("so many rows")), ("0A000", true), "{sql}: {error}");
        assert!(!session.in_transaction());
    }
    assert!(!database.session().has_failed());
    for (sql, expected) in [
        ("SELECT v FROM t WHERE k = 9", 2),
        ("SELECT count(*) FROM t WHERE k IN (1, 2, 3)", 3),
        ("SELECT sum(v) FROM t WHERE k BETWEEN 0 AND 6", 21),
        ("SELECT max(k) FROM t", rows() - 1),
        ("SELECT k FROM t ORDER BY k DESC LIMIT 3", rows() - 1),
        ("SELECT k FROM t ORDER BY k LIMIT 3 OFFSET 2", 2),
        ("SELECT k + v FROM t ORDER BY k LIMIT 1", 0),
        ("SELECT 7", 7),
    ] {
        assert_eq!(int(&run(&mut session, sql)), expected, "{sql}");
    }
    run(&mut session, "EXPLAIN SELECT k FROM t WHERE k IN (1, 2)");
    run(&mut session, "EXPLAIN UPDATE t SET v = 1");
    assert_eq!(count(&mut session, "SELECT count(*) FROM t"), rows());
    // Inside a transaction all run here, because a snapshot would lack its changes.
    run(&mut session, "BEGIN");
    run(&mut session, "INSERT INTO t VALUES (-1, 1)");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), rows() + 1);
    run(&mut session, "ROLLBACK");
}

/// Changing two partitions in parallel gives the same result as one after the other, also in replay.
#[test]
fn statements_over_all_partitions_change_them_side_by_side() {
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let settings = || Settings { durable: true, seed: 7, ..settings() };
    let database = RowEngine::open(Arc::clone(&disk) as _, settings()).unwrap();
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE w (k BIGINT PRIMARY KEY, v INTEGER NOT NULL, d BIGINT, note TEXT NOT NULL CHECK (length(note) < 30)) \
         PARTITION BY (k)",
    );
    run(&mut session, "CREATE INDEX w_note ON w (note)");
    let rows: i64 = 30_000;
    let mut load = database.session().load("w", &["k", "v", "d", "note"]).unwrap();
    for key in 0..rows {
        let [k, v, d] = [key, key % 100, key % 3].map(ValueRef::Int);
        load.push(&[k, v, d, ValueRef::Text("n")]).unwrap();
    }
    load.finish().unwrap();
    let affected = |session: &mut RowSession, sql: &str| run(session, sql).affected.cast_signed();
    assert_eq!(affected(&mut session, "UPDATE w SET v = v + 1 WHERE k % 2 = 0"), rows / 2);
    assert_eq!(
        affected(&mut session, "UPDATE w SET note = note || k::TEXT, d = NULL WHERE d > 0 AND v < 50"),
        rows / 3
    );
    // An error in one partition leaves nothing in the other.
    let error = session.execute("UPDATE w SET v = v / (k - 17)", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "22012");
    let error = session.execute("UPDATE w SET note = repeat('long', 20) WHERE k <> 29", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "23514");
    assert_eq!(affected(&mut session, "DELETE FROM w WHERE k % 5 = 1"), rows / 5);
    assert_eq!(affected(&mut session, "UPDATE w SET d = k WHERE d IS NULL OR random() < 2"), rows - rows / 5);
    let read = |session: &mut RowSession| {
        let sums = "SELECT count(*), sum(v), sum(d), sum(length(note)), min(note), max(note) FROM w";
        let answer = session.execute_unbounded(sums.into(), &[]).unwrap();
        (0..6).map(|column| answer.rows.value(0, column).to_value()).collect::<Vec<_>>()
    };
    let before = read(&mut session);
    drop(session);
    database.close().unwrap();
    let database = RowEngine::open(disk, settings()).unwrap();
    assert!(database.read_only().is_none());
    assert_eq!(read(&mut database.session()), before);
}
