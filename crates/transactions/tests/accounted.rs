//! Memory of statements is charged, refused with a reason, and given back: one test for each kind, at small limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::Error;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::types::{Value, ValueRef};

const LIMIT: u64 = 16 << 20;
const ROWS: i64 = 2000;

fn open() -> (RowEngine, RowSession) {
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let settings = Settings { memory_bytes_max: LIMIT, partitions: 1, ..Settings::default() };
    let database = RowEngine::open(disk, settings).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    for key in 0..ROWS {
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), Value::Text("value".into())]).unwrap();
    }
    (database, session)
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]))
}

fn int(answer: &StatementResult) -> i64 {
    let ValueRef::Int(value) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    value
}

/// Checks that the error says that there is no memory for this, and where the limit is set.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, what: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{what}: {error}");
    for part in [what, "row_memory_limit"] {
        assert!(error.to_string().contains(part), "\"{error}\" does not say \"{part}\"");
    }
}

/// Waits until a kind of working memory is at most this.
fn wait_for(database: &RowEngine, kind: &str, most: u64) {
    let start = Instant::now();
    while database.memory().working_bytes(kind) > most {
        assert!(start.elapsed() < Duration::from_secs(30), "{kind}: {:?}", database.memory());
        std::thread::yield_now();
    }
}

#[test]
fn a_statement_that_needs_too_much_says_what_for_and_leaves_nothing() {
    let (database, mut session) = open();
    let literal = format!("SELECT length('{}')", "x".repeat(3 << 20));
    let list = format!("SELECT count(*) FROM t WHERE k IN (1{})", ", 2".repeat(100_000));
    for (sql, what) in [
        ("SELECT count(*) FROM t GROUP BY v || repeat('x', 5000) || k", "groups"),
        ("SELECT count(DISTINCT v || repeat('x', 5000) || k) FROM t", "groups"),
        ("SELECT k, min(repeat(v, 1000)) FROM t GROUP BY k", "groups"),
        ("SELECT DISTINCT repeat('x', 5000) || k FROM t", "a result"),
        ("SELECT k, repeat('x', 5000) FROM t ORDER BY v, k DESC", "a result"),
        ("SELECT repeat('x', 10000000)", "texts"),
        ("SELECT length(repeat('x', 3000000) || repeat('y', 3000000))", "texts"),
        ("SELECT length(concat(repeat('x', 3000000), repeat('y', 3000000)))", "texts"),
        ("SELECT length(lpad('x', 3000000, 'ä'))", "texts"),
        ("SELECT 'x' LIKE repeat('y', 3000000)", "texts"),
        ("UPDATE t SET v = CASE WHEN k = 1999 THEN repeat('x', 10000000) ELSE v || 'x' END", "texts"),
        ("UPDATE t SET v = v || 'x' RETURNING repeat(v, 2000)", "a result"),
        ("INSERT INTO t SELECT k + 10000, repeat(v, 2000) FROM t", "a result"),
        (&literal, "reading a statement"),
        (&list, "reading a statement"),
    ] {
        refused(session.execute(sql, &[]), what);
        assert_eq!(database.memory().working_bytes("queries"), 0, "{what}: {:?}", database.memory());
        wait_for(&database, "results", 0);
    }
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v = 'value'")), ROWS);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), ROWS);
    // Processed one after the other, each row may need memory that all of them together could not have.
    assert_eq!(run(&mut session, "SELECT k FROM t WHERE length(repeat(v, 100000)) = 500000").rows.len(), 2000);
    assert_eq!(run(&mut session, "SELECT k FROM t ORDER BY repeat(v, 1000), k LIMIT 5").rows.len(), 5);
}

#[test]
fn a_result_is_charged_until_it_is_dropped() {
    let (database, mut session) = open();
    let answer = run(&mut session, "SELECT k, repeat('x', 1000) FROM t");
    let held = answer.rows.memory_bytes() as u64;
    assert!(held > 2 << 20);
    let told = database.memory().working_bytes("results");
    assert!((held..held + (128 << 10)).contains(&told), "{told} of {held}");
    drop(answer);
    wait_for(&database, "results", 0);
}

#[test]
fn ten_thousand_prepared_statements_take_bounded_memory() {
    let (database, mut session) = open();
    let statements = || database.memory().working_bytes("statements");
    for number in 0..10_000 {
        run(&mut session, &format!("SELECT {number} + length('{}')", "x".repeat(number % 3000)));
        assert!(statements() <= LIMIT / 64 + (8 << 10), "{number}: {:?}", database.memory());
    }
    // Kept statements are refused at some point, and nobody else's are.
    let mut kept = Vec::new();
    let error = loop {
        let number = kept.len();
        match database.prepare(&format!("SELECT {number} + length('{}')", "x".repeat(3000))) {
            Ok(work) => kept.push(work),
            Err(error) => break error,
        }
        assert!(number < 10_000, "{:?}", database.memory());
    };
    refused(Err::<(), _>(error), "prepared statements");
    assert!(kept.len() > 300 && statements() <= LIMIT / 4, "{} {:?}", kept.len(), database.memory());
    kept.truncate(kept.len() - 1);
    run(&mut session, "SELECT v FROM t WHERE k = 1");
    drop(kept);
    drop(session);
    assert_eq!(statements(), 0);
}

#[test]
fn procedures_are_charged() {
    let (database, mut session) = open();
    let text = "x".repeat(200_000);
    let mut made = 0;
    let error = loop {
        let sql = format!("CREATE PROCEDURE p{made}() LANGUAGE sql AS 'SELECT length(''{text}'')'");
        match session.execute(&sql, &[]) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100, "{:?}", database.memory());
    };
    refused(Err::<(), _>(error), "procedures");
    assert!(made >= 3 && database.memory().working_bytes("statements") > 1 << 20, "{made} {:?}", database.memory());
    assert_eq!(int(&run(&mut session, &format!("CALL p{}()", made - 1))), 200_000);
    for number in 0..made {
        run(&mut session, &format!("DROP PROCEDURE p{number}"));
    }
    drop(session);
    wait_for(&database, "statements", 0);
}

#[test]
fn scripts_share_the_memory() {
    let (database, mut session) = open();
    for sql in [
        "CREATE PROCEDURE strings(k BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
            db.execute('UPDATE t SET v = $1 WHERE k = $2', 'changed', k)
            local t = {}
            pcall(function() for i = 1, 1000 do t[i] = string.rep('x', 10000) .. i end end)
            return 'went on'
         $$",
        "CREATE PROCEDURE queries(k BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
            local t = {}
            pcall(function() for i = 1, 100 do t[i] = db.query('SELECT k, repeat(v, 20) FROM t') end end)
            return 'went on'
         $$",
        "CREATE PROCEDURE rows_of(k BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
            local t, text = {}, string.rep('x', 100000)
            for i = 1, 100 do t[i] = { text } end
            return db.rows({ 'a' }, t)
         $$",
    ] {
        run(&mut session, sql);
    }
    refused(session.execute("CALL strings(1)", &[]), "what the procedure holds");
    refused(session.execute("CALL queries(1)", &[]), "a result");
    refused(session.execute("CALL rows_of(1)", &[]), "a result");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v = 'changed'")), 0);
    wait_for(&database, "lua", 3 << 20);
    wait_for(&database, "results", 0);
}

#[test]
fn what_a_transaction_logs_is_charged_before_it_is_written() {
    let (database, mut session) = open();
    run(&mut session, "BEGIN");
    for key in 0..40 {
        let text = Value::Text("x".repeat(200_000).into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(10_000 + key), text]).unwrap();
    }
    refused(session.execute("COMMIT", &[]), "a transaction's record in the log");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), ROWS);
    run(&mut session, "BEGIN");
    for key in 0..10 {
        let text = Value::Text("x".repeat(200_000).into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(10_000 + key), text]).unwrap();
    }
    run(&mut session, "COMMIT");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), ROWS + 10);
    assert!(database.memory().used_bytes() <= LIMIT, "{:?}", database.memory());
}

/// Rows that are deleted here and there leave holes, which partitions close when they have nothing else to do.
#[test]
fn memory_of_rows_deleted_here_and_there_comes_back() {
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let settings = Settings { memory_bytes_max: 256 << 20, partitions: 2, ..Settings::default() };
    let database = RowEngine::open(disk, settings).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    for key in 0..40_000 {
        session
            .execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), Value::Text("v".repeat(1000).into())])
            .unwrap();
    }
    let before = database.memory().table_bytes;
    run(&mut session, "DELETE FROM t WHERE k % 3 <> 0");
    let start = Instant::now();
    // The index keeps its size; an arena in each partition and one row in 32 may stay.
    while database.memory().table_bytes > before / 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "{before}: {:?}", database.memory());
        std::thread::yield_now();
    }
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 1000 AND k % 3 = 0")), 13_334);
}
