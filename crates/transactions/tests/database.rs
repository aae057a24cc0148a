//! Databases in directories: created, filled, closed or killed, opened again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_transactions::{Error, Result};

struct Deposit;

impl Procedure for Deposit {
    fn statements(&self) -> &[&str] {
        &["UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

fn settings() -> Settings {
    let deposit = Registration::new("deposit(id BIGINT, amount DECIMAL(10, 2)) PARTITION ON (id)", 1, Deposit);
    Settings { partitions: 2, seed: 7, procedures: vec![deposit.unwrap()], ..Settings::default() }
}

fn open(directory: &Path) -> Result<RowEngine> {
    RowEngine::open(Arc::new(RealDisk::open_or_create(directory)?), settings())
}

fn state(result: Result<StatementResult>) -> String {
    result.map_or_else(|error| error.sqlstate().to_owned(), |_| "ok".to_owned())
}

fn int(answer: &StatementResult) -> i64 {
    match answer.rows.value(0, 0) {
        ValueRef::Int(value) => value,
        other => panic!("{other:?}"),
    }
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn what_was_done_is_there_when_it_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance DECIMAL(10, 2) NOT NULL) PARTITION BY (id)",
    );
    run(
        &mut session,
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT DEFAULT uuid()::text, at TIMESTAMP DEFAULT now())",
    );
    for id in 0..20 {
        session
            .execute("INSERT INTO accounts VALUES ($1, $2)", &[Value::Int(id), Value::Text("10.50".into())])
            .unwrap();
    }
    run(&mut session, "INSERT INTO notes (id) VALUES (1), (2)");
    let answer = session.execute("CALL deposit($1, 1.5)", &[Value::Int(3)]).unwrap();
    assert_eq!(answer.rows.value(0, 0).to_string(), "12.00");
    run(&mut session, "UPDATE accounts SET balance = balance * 2 WHERE id < 10");
    run(&mut session, "ALTER TABLE accounts ADD COLUMN kind TEXT DEFAULT 'current'");
    run(&mut session, "DELETE FROM accounts WHERE id = 19");

    run(&mut session, "BEGIN");
    run(&mut session, "INSERT INTO accounts VALUES (100, 1, 'session')");
    run(&mut session, "UPDATE notes SET text = 'both' WHERE id = 2");
    run(&mut session, "COMMIT");
    run(&mut session, "BEGIN");
    run(&mut session, "DELETE FROM accounts");
    run(&mut session, "ROLLBACK");

    let questions =
        ["SELECT * FROM accounts ORDER BY id", "SELECT * FROM notes ORDER BY id", "SELECT sum(balance) FROM accounts"];
    let before: Vec<_> = questions.iter().map(|sql| run(&mut session, sql)).collect();
    assert_eq!(before[0].rows.len(), 20);
    assert_eq!(&*before[0].columns[2].name, "kind");
    let identity = database.identity();
    drop(session);
    database.close().unwrap();

    let database = open(directory.path()).unwrap();
    assert_eq!(database.identity(), identity);
    let mut session = database.session();
    let after: Vec<_> = questions.iter().map(|sql| run(&mut session, sql)).collect();
    assert_eq!(before, after);
    run(&mut session, "INSERT INTO accounts VALUES (19, 0, NULL)");
}

#[test]
fn without_a_log_nothing_is_left_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let open = |durable| {
        let disk = Arc::new(RealDisk::open_or_create(directory.path()).unwrap());
        RowEngine::open(disk, Settings { durable, ..settings() })
    };
    for _ in 0..2 {
        let database = open(false).unwrap();
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
        run(&mut session, "INSERT INTO t VALUES (1), (2), (3)");
        run(&mut session, "BEGIN");
        run(&mut session, "DELETE FROM t WHERE k = 1");
        run(&mut session, "COMMIT");
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), 2);
        drop(session);
        database.close().unwrap();
    }
    let database = open(true).unwrap();
    run(&mut database.session(), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    database.close().unwrap();
    let error = open(false).unwrap_err();
    assert!(error.to_string().contains("cannot be opened without one"), "{error}");
    run(&mut open(true).unwrap().session(), "INSERT INTO t VALUES (1)");
}

#[test]
fn errors_and_transactions_of_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut session = database.session();
    let mut other = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) PARTITION BY (k)");
    let mut of = |sql: &str| state(session.execute(sql, &[]));
    for (sql, expected) in [
        ("COMMIT", "25P01"),
        ("ROLLBACK", "25P01"),
        ("SELEC 1", "42601"),
        ("SELECT * FROM u", "42P01"),
        ("CALL nobody()", "42883"),
        ("CALL deposit(1)", "42883"),
        ("CALL deposit(1, 'x')", "22P02"),
        ("CALL deposit(1, random())", "0A000"),
        ("CALL deposit(1, 1)", "42P01"),
        ("CREATE PROCEDURE deposit() LANGUAGE sql AS ''", "42723"),
        ("INSERT INTO t SELECT k + 10, v FROM t WHERE k = 1 LIMIT 1", "0A000"),
        ("INSERT INTO t VALUES (1, 1)", "ok"),
        ("BEGIN", "ok"),
        ("BEGIN", "25001"),
        ("INSERT INTO t VALUES (2, 2)", "ok"),
        ("INSERT INTO t VALUES (1, 2)", "23505"),
        ("SELECT * FROM t", "25P02"),
        ("COMMIT", "25P02"),
        ("COMMIT", "25P01"),
        ("BEGIN", "ok"),
        ("INSERT INTO t VALUES (3, 3)", "ok"),
        ("SELECT * FROM nothing", "42P01"),
        ("INSERT INTO t VALUES (4, 4)", "25P02"),
        ("ROLLBACK", "ok"),
        ("BEGIN", "ok"),
        ("INSERT INTO t VALUES (5, 5)", "ok"),
        ("DROP TABLE t", "25001"),
        ("COMMIT", "25P02"),
    ] {
        assert_eq!(of(sql), expected, "{sql}");
    }
    assert_eq!(int(&run(&mut other, "SELECT count(*) FROM t")), 1);
    // A statement prepared before a definition uses the new schema.
    assert_eq!(run(&mut other, "SELECT * FROM t").rows.width(), 2);
    run(&mut session, "ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 7");
    assert_eq!(run(&mut other, "SELECT * FROM t").rows.width(), 3);
    run(&mut session, "DROP TABLE t");
    assert_eq!(state(other.execute("SELECT * FROM t", &[])), "42P01");
    let work = database.prepare("SELECT 1").unwrap();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    assert!(matches!(database.client().call(work, [].into()), Err(Error::Retry(_))));
}

#[test]
fn one_process_at_a_time_and_all_procedures_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    assert_eq!(open(directory.path()).unwrap_err().sqlstate(), "55006");
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance DECIMAL(10, 2) NOT NULL) PARTITION BY (id)",
    );
    run(&mut session, "INSERT INTO accounts VALUES (1, 1)");
    run(&mut session, "CALL deposit(1, 1)");
    drop((session, database));
    let bare = Settings { procedures: Vec::new(), ..settings() };
    let error = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), bare).unwrap_err();
    assert!(error.to_string().contains("deposit"), "{error}");
    drop(open(directory.path()).unwrap());
}

#[test]
fn a_transaction_of_more_than_a_record_is_kept_whole_or_not_at_all() {
    const ROWS: i64 = 80;
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let settings = Settings { undo_bytes_max: 256 << 20, ..settings() };
        RowEngine::open(Arc::new(RealDisk::open_or_create(directory.path()).unwrap()), settings).unwrap()
    };
    let state = |database: &RowEngine| {
        let answer = run(&mut database.session(), "SELECT count(*), sum(length(v)), sum(k * u), min(v) FROM t");
        answer.rows.row(0).map(|value| value.to_string().chars().take(20).collect()).collect::<Vec<String>>()
    };
    let database = open();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, u BIGINT NOT NULL, v TEXT)");
    run(&mut session, "CREATE UNIQUE INDEX t_u ON t (u)");
    run(&mut session, "BEGIN");
    let megabyte: Box<str> = "a".repeat(1_000_000).into();
    for k in 0..ROWS {
        session.execute("INSERT INTO t VALUES ($1, $1, $2)", &[Value::Int(k), Value::Text(megabyte.clone())]).unwrap();
    }
    run(&mut session, "COMMIT");
    drop(session);
    let filled = state(&database);
    database.close().unwrap();

    // The first and the last row of a transaction of many records exchange their keys in a unique index.
    let database = open();
    assert_eq!(state(&database), filled);
    let mut session = database.session();
    run(&mut session, "BEGIN");
    run(&mut session, "UPDATE t SET u = -1 WHERE k = 0");
    run(&mut session, "UPDATE t SET v = 'b' || v");
    run(&mut session, "UPDATE t SET u = 0 WHERE k = 79");
    run(&mut session, "UPDATE t SET u = 79 WHERE k = 0");
    run(&mut session, "COMMIT");
    drop(session);
    let changed = state(&database);
    assert_ne!(changed, filled);
    database.close().unwrap();
    let database = open();
    assert_eq!(state(&database), changed);
    run(&mut database.session(), "DELETE FROM t WHERE k < 40");
    database.close().unwrap();
    let database = open();
    run(&mut database.session(), "INSERT INTO t VALUES (0, -1, 'x')");
    assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t")), ROWS / 2 + 1);
}

const DIRECTORY: &str = "THERMOCLINE_TEST_DIRECTORY";

/// Not a test: the body of the process that is killed.
#[test]
#[ignore = "run by the test of kill -9"]
fn writer() {
    let directory = std::env::var(DIRECTORY).unwrap();
    let database = open(Path::new(&directory)).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    let first = run(&mut session, "SELECT coalesce(max(k), 0) + 1 FROM t");
    for key in int(&first).. {
        let parameters = [Value::Int(key), Value::Text("v".repeat(100).into())];
        session.execute("INSERT INTO t VALUES ($1, $2)", &parameters).unwrap();
        println!("committed {key}");
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut committed = lines.filter_map(|line| line.strip_prefix("committed ")?.parse::<i64>().ok());
        let mut last = committed.nth(round * 10).unwrap();
        child.kill().unwrap();
        // Its output before it was killed counts.
        last = committed.last().unwrap_or(last);
        child.wait().unwrap();
        let database = open(directory.path()).unwrap();
        let answer = run(&mut database.session(), "SELECT count(*), max(k), min(length(v)) FROM t");
        let row: Vec<_> = answer.rows.row(0).collect();
        let ValueRef::Int(count) = row[0] else { panic!("{row:?}") };
        assert!(count == last || count == last + 1, "{count} rows, {last} acknowledged");
        assert_eq!(row[1..], [ValueRef::Int(count), ValueRef::Int(100)]);
    }
}
