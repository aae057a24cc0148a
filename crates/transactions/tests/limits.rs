//! Timeouts, cancellation, full queues and full memory: refused callers get an error, and others go on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::procedure::{Context, Limits, Procedure, Registration};
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_transactions::{Class, Result};

use crate::hooked::{Hooked, Operation};

#[path = "common/hooked.rs"]
mod hooked;

/// Waits for a given time without checking interrupts, like a procedure that computes.
struct Busy;

impl Procedure for Busy {
    fn statements(&self) -> &[&str] {
        &[]
    }

    fn run(&self, _context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let Value::Int(milliseconds) = arguments[0] else { return Err(Class::Procedure.error("a number")) };
        std::thread::sleep(Duration::from_millis(milliseconds.cast_unsigned()));
        Ok(StatementResult::default())
    }
}

/// Reads all pairs of rows, and changes one first.
struct Long;

impl Procedure for Long {
    fn statements(&self) -> &[&str] {
        &["UPDATE t SET v = -1 WHERE k = 1", "SELECT count(*) FROM t a, r b, r c WHERE b.v > a.v AND c.v > b.v"]
    }

    fn run(&self, context: &mut Context<'_, '_>, _arguments: &[Value]) -> Result<StatementResult> {
        context.execute(0, &[])?;
        Ok(context.execute(1, &[])?.into())
    }
}

/// Changes all rows, ignores the result, then changes one.
struct Careless;

impl Procedure for Careless {
    fn statements(&self) -> &[&str] {
        &["UPDATE t SET v = v + 1", "UPDATE t SET v = -1 WHERE k = 1"]
    }

    fn run(&self, context: &mut Context<'_, '_>, _arguments: &[Value]) -> Result<StatementResult> {
        let _ignored = context.execute(0, &[]);
        let _ignored = context.execute(1, &[]);
        Ok(StatementResult::default())
    }
}

/// Calls it and ignores its result as well.
struct CallsCareless;

impl Procedure for CallsCareless {
    fn statements(&self) -> &[&str] {
        &[]
    }

    fn run(&self, context: &mut Context<'_, '_>, _arguments: &[Value]) -> Result<StatementResult> {
        let _ignored = context.call("careless", &[]);
        Ok(StatementResult::default())
    }
}

fn settings() -> Settings {
    let procedures = vec![
        Registration::new("busy(milliseconds BIGINT) PARTITION ON (milliseconds)", 1, Busy).unwrap(),
        Registration::new("long()", 1, Long).unwrap(),
        Registration::new("careless()", 1, Careless).unwrap(),
        Registration::new("calls_careless()", 1, CallsCareless).unwrap(),
    ];
    // So high that only an interrupt can end it.
    let limits = Limits { rows_max: u64::MAX, instructions_max: u64::MAX, ..Limits::default() };
    Settings { partitions: 2, seed: 1, procedures, limits, ..Settings::default() }
}

fn open(settings: Settings) -> RowEngine {
    RowEngine::open(Arc::new(SimulatedDisk::new(1, Faults::default())), settings).unwrap()
}

fn filled() -> RowEngine {
    let database = open(settings());
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)");
    for k in 0..3000 {
        session.execute("INSERT INTO t VALUES ($1, $1)", &[Value::Int(k)]).unwrap();
    }
    run(&mut session, "CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)");
    run(&mut session, "CREATE INDEX r_v ON r (v)");
    for k in 0..1000 {
        session.execute("INSERT INTO r VALUES ($1, $1)", &[Value::Int(k)]).unwrap();
    }
    run(&mut session, SPIN);
    drop(session);
    database
}

/// A session whose transaction has changed a row and keeps its partition.
fn holder(database: &RowEngine) -> RowSession {
    let mut holder = database.session();
    run(&mut holder, "BEGIN");
    run(&mut holder, "UPDATE t SET v = 7 WHERE k = 1");
    holder
}

fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn int(answer: &StatementResult) -> i64 {
    let ValueRef::Int(value) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    value
}

const LONG: &str = "SELECT count(*) FROM t a, r b, r c WHERE b.v > a.v AND c.v > b.v";

/// Changes a row, then loops for ever without a statement.
const SPIN: &str = "CREATE PROCEDURE spin(k BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
    db.execute('UPDATE t SET v = -1 WHERE k = $1', k)
    while true do pcall(function() while true do end end) end
$$";

#[test]
fn statements_procedures_and_transactions_are_timed_out() {
    let database = filled();
    let mut session = database.session();
    session.set_statement_timeout(Some(Duration::from_millis(50)));
    for sql in [LONG, "CALL long()", "CALL spin(1)"] {
        let start = Instant::now();
        let error = session.execute(sql, &[]).unwrap_err();
        assert_eq!(error.sqlstate(), "57014", "{error}");
        assert!(error.to_string().contains("timeout of 50ms"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v < 0")), 0, "rolled back");
    }
    run(&mut session, "BEGIN");
    run(&mut session, "UPDATE t SET v = -1 WHERE k = 2");
    assert_eq!(session.execute(LONG, &[]).unwrap_err().sqlstate(), "57014");
    // Its partitions are free again.
    assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t WHERE v < 0")), 0);
    assert_eq!(session.execute("SELECT 1", &[]).unwrap_err().sqlstate(), "25P02");
    run(&mut session, "ROLLBACK");
    session.set_statement_timeout(None);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t a, r b WHERE a.k = b.k")), 1000);
}

#[test]
fn who_waits_too_long_for_partitions_gives_up() {
    let database = filled();
    let mut holder = holder(&database);
    let mut session = database.session();
    session.set_statement_timeout(Some(Duration::from_millis(30)));
    for sql in ["UPDATE t SET v = 8 WHERE k = 1", "UPDATE t SET v = 8", "SELECT sum(v) FROM t"] {
        assert_eq!(session.execute(sql, &[]).unwrap_err().sqlstate(), "57014", "{sql}");
    }
    run(&mut session, "BEGIN");
    assert_eq!(session.execute("SELECT 1 FROM t WHERE k = 1", &[]).unwrap_err().sqlstate(), "57014");
    run(&mut session, "ROLLBACK");
    run(&mut holder, "COMMIT");
    // The abandoned transaction never ran, and the partitions are whole.
    session.set_statement_timeout(Some(Duration::from_secs(30)));
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v = 8 AND k <> 8")), 0);
    assert_eq!(int(&run(&mut session, "SELECT v FROM t WHERE k = 1")), 7);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), 3000);
    run(&mut session, "BEGIN");
    run(&mut session, "DELETE FROM t WHERE k = 1");
    run(&mut session, "COMMIT");
    drop((holder, session));
    database.close().unwrap();
}

#[test]
fn another_thread_cancels() {
    let database = filled();
    for (begin, sql) in
        [(false, LONG), (false, "CALL long()"), (false, "CALL spin(1)"), (true, LONG), (true, "CALL spin(1)")]
    {
        let mut session = database.session();
        let canceller = session.canceller();
        assert!(!canceller.cancel(), "nothing runs");
        if begin {
            run(&mut session, "BEGIN");
            run(&mut session, "UPDATE t SET v = -1 WHERE k = 3");
        }
        let error = std::thread::scope(|scope| {
            let running = scope.spawn(|| session.execute(sql, &[]).unwrap_err());
            while !running.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                canceller.cancel();
            }
            running.join().unwrap()
        });
        assert_eq!((error.sqlstate(), error.to_string().contains("user's request")), ("57014", true), "{error}");
        if begin {
            run(&mut session, "ROLLBACK");
        }
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v < 0")), 0);
    }
    // One that waits behind another's transaction, and one that waits to begin.
    let mut holder = holder(&database);
    for begin in [false, true] {
        let mut session = database.session();
        let canceller = session.canceller();
        if begin {
            run(&mut session, "BEGIN");
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| session.execute("UPDATE t SET v = 9 WHERE k = 1", &[]).unwrap_err());
            while !waiting.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                canceller.cancel();
            }
            assert_eq!(waiting.join().unwrap().sqlstate(), "57014");
        });
    }
    run(&mut holder, "COMMIT");
    assert_eq!(int(&run(&mut holder, "SELECT count(*) FROM t WHERE v = 9 AND k = 9")), 1, "it was 9 before");
    assert_eq!(int(&run(&mut holder, "SELECT count(*) FROM t")), 3000);
}

/// Replay has no limits: a procedure that continued after a limit would do more there.
#[test]
fn a_procedure_in_rust_cannot_go_on_after_an_error() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let limits = Limits { rows_max: 500, ..Limits::default() };
    let database = RowEngine::open(Arc::new(disk.clone()), Settings { limits, ..settings() }).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)");
    for k in 0..1000 {
        session.execute("INSERT INTO t VALUES ($1, $1)", &[Value::Int(k)]).unwrap();
    }
    for sql in ["CALL careless()", "CALL calls_careless()"] {
        let error = session.execute(sql, &[]).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("more rows than it may")), ("57014", true), "{error}");
    }
    drop((session, database));
    let database = RowEngine::open(Arc::new(disk), settings()).unwrap();
    assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t WHERE v = k")), 1000);
}

#[test]
fn a_definition_is_timed_out_and_cancelled() {
    let database = filled();
    let mut holder = holder(&database);
    let mut session = database.session();
    session.set_statement_timeout(Some(Duration::from_millis(30)));
    let sql = "CREATE INDEX t_v ON t (v)";
    let error = session.execute(sql, &[]).unwrap_err();
    assert_eq!((error.sqlstate(), error.to_string().contains("timeout of 30ms")), ("57014", true), "{error}");
    session.set_statement_timeout(None);
    std::thread::scope(|scope| {
        let canceller = session.canceller();
        let waiting = scope.spawn(move || session.execute(sql, &[]).unwrap_err());
        // This one waits for the first definition, and not for the partitions.
        let mut other = database.session();
        other.set_statement_timeout(Some(Duration::from_millis(50)));
        assert_eq!(other.execute("DROP TABLE t", &[]).unwrap_err().sqlstate(), "57014");
        while !waiting.is_finished() {
            canceller.cancel();
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(waiting.join().unwrap().to_string().contains("user's request"));
    });
    run(&mut holder, "COMMIT");
    // None of them took effect.
    run(&mut holder, sql);
    assert_eq!(int(&run(&mut holder, "SELECT count(*) FROM t")), 3000);
}

#[test]
fn a_definition_before_the_first_statement_of_a_transaction_does_no_harm() {
    let database = filled();
    let mut holder = holder(&database);
    std::thread::scope(|scope| {
        let defined = scope.spawn(|| run(&mut database.session(), "CREATE INDEX t_v ON t (v)"));
        std::thread::sleep(Duration::from_millis(50));
        // Planned with the new schema, and run with the old one.
        let late = scope.spawn(|| {
            let mut session = database.session();
            run(&mut session, "BEGIN");
            let answer = run(&mut session, "SELECT count(*) FROM t WHERE v = 7");
            run(&mut session, "COMMIT");
            answer
        });
        std::thread::sleep(Duration::from_millis(50));
        run(&mut holder, "COMMIT");
        defined.join().unwrap();
        assert_eq!(int(&late.join().unwrap()), 2);
    });
}

#[test]
fn a_session_that_does_nothing_loses_its_transaction() {
    let database = filled();
    let mut session = database.session();
    session.set_idle_timeout(Duration::from_millis(30));
    run(&mut session, "BEGIN");
    run(&mut session, "UPDATE t SET v = -1 WHERE k = 3");
    let start = Instant::now();
    assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t WHERE v < 0")), 0);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(session.execute("SELECT 1 FROM t", &[]).unwrap_err().sqlstate(), "25P03");
    assert_eq!(session.execute("COMMIT", &[]).unwrap_err().sqlstate(), "25P02");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v < 0")), 0);
}

#[test]
fn a_full_queue_says_busy() {
    let database = open(Settings { partitions: 1, queue_length: 10, ..settings() });
    let work = database.procedure("busy").unwrap();
    let mut client = database.client();
    for tag in 0..100 {
        client.submit(Arc::clone(&work), vec![Value::Int(if tag == 0 { 100 } else { 0 })].into(), tag).unwrap();
        client.send();
    }
    let mut results = Vec::new();
    while results.len() < 100 {
        results.extend(client.receive().into_iter().map(|reply| reply.result));
    }
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(!refused.is_empty() && refused.len() < 100);
    for error in refused {
        assert_eq!((error.sqlstate(), error.to_string().contains("retry")), ("40001", true), "{error}");
    }
}

#[test]
fn requests_that_wait_take_bounded_memory() {
    let database = open(Settings { memory_bytes_max: 4 << 20, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    let (busy, insert) =
        (database.procedure("busy").unwrap(), database.prepare("SELECT k FROM t WHERE k = $1 AND v = $2").unwrap());
    let mut client = database.client();
    for key in 0..20 {
        client.submit(Arc::clone(&busy), vec![Value::Int(100 + key)].into(), 0).unwrap();
    }
    client.send();
    let text: Box<str> = "x".repeat(500_000).into();
    for key in 0..20 {
        client.submit(Arc::clone(&insert), vec![Value::Int(key), Value::Text(text.clone())].into(), 1).unwrap();
        client.send();
        assert!(database.memory().used_bytes() <= 4 << 20, "{:?}", database.memory());
    }
    assert!(database.memory().working_bytes("queues") > 1 << 20, "{:?}", database.memory());
    let mut results = Vec::new();
    while results.len() < 40 {
        results.extend(client.receive());
    }
    let refused = results.iter().filter(|reply| reply.tag == 1 && reply.result.is_err()).count();
    assert!((5..20).contains(&refused), "{refused}");
    // The items taken out last are charged until the partition takes more.
    let start = Instant::now();
    while database.memory().working_bytes("queues") >= 1 << 20 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", database.memory());
        std::thread::yield_now();
    }
}

#[test]
fn requests_that_wait_leave_memory_to_rows() {
    let database = open(Settings { memory_bytes_max: 8 << 20, partitions: 1, queue_length: 1 << 20, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)");
    let insert = database.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
    let mut client = database.client();
    client.submit(database.procedure("busy").unwrap(), vec![Value::Int(500)].into(), 0).unwrap();
    client.send();
    let text: Box<str> = "x".repeat(1000).into();
    let (rows, mut replies) = (10_000, Vec::new());
    for key in 0..rows {
        client.submit(Arc::clone(&insert), vec![Value::Int(key), Value::Text(text.clone())].into(), 1).unwrap();
    }
    client.send();
    while replies.len() <= rows as usize {
        replies.extend(client.receive());
    }
    // All that were taken in found room; the others can be sent again.
    let (taken, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.result.is_ok());
    assert!(taken.len() > 1000 && refused.len() > 1000, "{} and {}", taken.len(), refused.len());
    for refusal in refused {
        assert_eq!(refusal.result.as_ref().unwrap_err().sqlstate(), "40001", "{:?}", refusal.result);
    }
}

#[test]
fn requests_for_all_partitions_take_bounded_memory() {
    let database = open(Settings { memory_bytes_max: 4 << 20, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE r (k BIGINT PRIMARY KEY, v TEXT)");
    run(&mut session, "BEGIN");
    run(&mut session, "SELECT count(*) FROM r");
    let delete = database.prepare("DELETE FROM r WHERE v = $1").unwrap();
    let mut client = database.client();
    let text: Box<str> = "x".repeat(500_000).into();
    for _ in 0..20 {
        client.submit(Arc::clone(&delete), vec![Value::Text(text.clone())].into(), 0).unwrap();
        client.send();
        assert!(database.memory().used_bytes() <= 4 << 20, "{:?}", database.memory());
    }
    run(&mut session, "COMMIT");
    let mut results = Vec::new();
    while results.len() < 20 {
        results.extend(client.receive().into_iter().map(|reply| reply.result));
    }
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!((5..20).contains(&refused.len()), "{results:?}");
    assert!(refused.iter().all(|error| error.sqlstate() == "40001"), "{refused:?}");
}

/// A disk whose log syncs only while the gate is open.
fn gated(open: &Arc<AtomicBool>) -> Arc<Hooked> {
    let open = Arc::clone(open);
    let disk = SimulatedDisk::new(1, Faults::default());
    Arc::new(Hooked::new(&disk, move |operation, name| {
        while operation == Operation::Sync && name.contains("log-") && !open.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }))
}

#[test]
fn results_that_wait_for_a_slow_disk_take_bounded_memory() {
    let (limit, results_max) = (64 << 20, 8 << 20);
    let gate = Arc::new(AtomicBool::new(true));
    let small = Settings { memory_bytes_max: limit, queue_length: 50, results_bytes_max: results_max, ..settings() };
    let database = RowEngine::open(gated(&gate), Settings { partitions: 1, ..small }).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    for k in 0..100 {
        let text = Value::Text("x".repeat(10_000).into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text]).unwrap();
    }
    let write = database.prepare("UPDATE t SET v = 'y' WHERE k = $1").unwrap();
    let read = database.prepare("SELECT * FROM t").unwrap();
    let mut client = database.client();
    gate.store(false, Ordering::Relaxed);
    client.submit(write, vec![Value::Int(1)].into(), 0).unwrap();
    client.send();
    for tag in 1..200 {
        client.submit(Arc::clone(&read), Box::default(), tag).unwrap();
        client.send();
        std::thread::sleep(Duration::from_millis(1));
        assert!(database.memory().used_bytes() <= limit, "{:?}", database.memory());
    }
    // A megabyte each: eight, and those of the batch that was still running.
    let waiting = database.memory().working_bytes("results");
    assert!((results_max as u64..2 * results_max as u64 + (8 << 20)).contains(&waiting), "{waiting}");
    gate.store(true, Ordering::Relaxed);
    let mut results = Vec::new();
    while results.len() < 200 {
        // Results are charged to the client until it drops them.
        results.extend(client.receive().into_iter().map(|reply| reply.result.map(drop)));
    }
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!((50..190).contains(&refused.len()), "{}", refused.len());
    assert!(refused.iter().all(|error| error.sqlstate() == "40001"), "{refused:?}");
    run(&mut session, "SELECT 1");
    assert_eq!(database.memory().working_bytes("results"), 0);
}

#[test]
fn results_that_nobody_receives_take_bounded_memory() {
    let most = 4 << 20;
    let settings = Settings { partitions: 1, queue_length: 50, results_bytes_max: most, ..settings() };
    let database = open(settings);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    for k in 0..10 {
        let text = Value::Text("x".repeat(10_000).into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text]).unwrap();
    }
    let results = || usize::try_from(database.memory().working_bytes("results")).unwrap();
    // Rows read, rows written, and errors.
    let all = "SELECT * FROM t";
    for (sql, bytes) in [(all, 100_000), ("UPDATE t SET v = v RETURNING *", 100_000), ("SELECT 1 / (k - k) FROM t", 20)]
    {
        let work = database.prepare(sql).unwrap();
        let mut client = database.client();
        let mut sent = 0;
        let refused = loop {
            match client.submit(Arc::clone(&work), Box::default(), sent) {
                Ok(()) => client.send(),
                Err(refused) => break refused,
            }
            sent += 1;
            assert!(sent < 2_000_000, "{sql}: {}", results());
        };
        assert_eq!((refused.sqlstate(), refused.to_string().contains("wait to be received")), ("40001", true));
        // Plus those under way: a full queue, one that the partition had taken, as much as may wait for the log, and as
        // much as is handed over at once.
        let under_way = 120 * (bytes + 200) + most + (1 << 20);
        assert!((most..most + under_way).contains(&results()), "{sql}: {}", results());
        // Others are not affected, once its requests have run.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(run(&mut session, "SELECT k FROM t WHERE k = 1").rows.len(), 1);
        let mut received = 0;
        while received < sent {
            received += client.receive().len() as u64;
        }
        assert_eq!(results(), 0, "{sql}");
        client.submit(work, Box::default(), 0).unwrap();
        client.send();
        client.receive();
        client.submit(database.prepare(all).unwrap(), Box::default(), 0).unwrap();
        client.send();
        drop(client);
        let left = Instant::now();
        while results() > 0 {
            assert!(left.elapsed() < Duration::from_secs(30), "{sql}: of a client that has left nothing is kept");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_session_goes_on_after_an_answer_that_it_gave_up() {
    let database = open(Settings { results_bytes_max: 1, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)");
    run(&mut session, "INSERT INTO t VALUES (1, 1)");
    let mut holder = holder(&database);
    session.set_statement_timeout(Some(Duration::from_millis(30)));
    assert_eq!(session.execute("SELECT v FROM t WHERE k = 1", &[]).unwrap_err().sqlstate(), "57014");
    run(&mut holder, "COMMIT");
    // The answer to the first comes now.
    std::thread::sleep(Duration::from_millis(50));
    session.set_statement_timeout(None);
    assert_eq!(int(&run(&mut session, "SELECT v FROM t WHERE k = 1")), 7);
}

#[test]
fn a_result_that_finds_no_memory_fails_before_anything_is_kept() {
    let database = open(Settings { partitions: 1, memory_bytes_max: 16 << 20, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    run(&mut session, "CREATE TABLE n (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)");
    run(&mut session, "INSERT INTO n VALUES (1, 0)");
    let sql = "CREATE PROCEDURE p(below BIGINT) LANGUAGE sql AS
               'UPDATE n SET v = v + 1; SELECT v, v || v FROM t WHERE k < $1'";
    run(&mut session, sql);
    for k in 0..40 {
        let text = Value::Text("x".repeat(100_000).into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text]).unwrap();
    }
    // Twelve megabytes besides the rows.
    let error = session.execute("CALL p(40)", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    assert_eq!(int(&run(&mut session, "SELECT v FROM n")), 0);
    assert_eq!(run(&mut session, "CALL p(4)").rows.len(), 4);
    assert_eq!(int(&run(&mut session, "SELECT v FROM n")), 1);
}

#[test]
fn without_synchronous_commit_nobody_waits_for_the_disk() {
    let gate = Arc::new(AtomicBool::new(true));
    let mut settings = settings();
    settings.log.synchronous_commit = false;
    let database = RowEngine::open(gated(&gate), settings).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    gate.store(false, Ordering::Relaxed);
    for key in 0..20 {
        session.set_statement_timeout(Some(Duration::from_secs(20)));
        session.execute("INSERT INTO t VALUES ($1)", &[Value::Int(key)]).unwrap();
        // The log's thread is in its sync by then.
        std::thread::sleep(Duration::from_millis(2));
    }
    run(&mut session, "BEGIN");
    run(&mut session, "INSERT INTO t VALUES (100)");
    run(&mut session, "COMMIT");
    run(&mut session, "CREATE TABLE u (k BIGINT PRIMARY KEY)");
    gate.store(true, Ordering::Relaxed);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), 21);
    drop(session);
    database.close().unwrap();
}

#[test]
fn full_memory_refuses_inserts_and_nothing_else() {
    let limit = 16 << 20;
    let database = open(Settings { memory_bytes_max: limit, ..settings() });
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    run(&mut session, "CREATE INDEX t_v ON t (v)");
    let mut key = 0;
    let error = loop {
        let text = Value::Text(format!("{key:0>1000}").into());
        match session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), text]) {
            Ok(_) => key += 1,
            Err(error) => break error,
        }
        assert!(database.memory().used_bytes() <= limit, "{:?}", database.memory());
    };
    assert_eq!(error.sqlstate(), "53200", "{error}");
    assert!(error.to_string().contains("table \"t\""), "{error}");
    assert!(key > 3000, "{key}");
    let full = database.memory();
    assert!(full.table_bytes > limit * 3 / 4 && full.reserve_bytes == limit / 16, "{full:?}");
    // The parts add up to the whole.
    let statistics = session.statistics().unwrap();
    let tables: Vec<_> = statistics.partitions.iter().flat_map(|partition| &partition.tables).collect();
    assert_eq!(tables.iter().map(|table| table.memory.total() as u64).sum::<u64>(), full.table_bytes);
    assert_eq!(tables.iter().map(|table| table.rows as i64).sum::<i64>(), key);

    // Reads of every kind, an update in place, a session's transaction, and deletes.
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE v LIKE '%7'")), (key + 2) / 10);
    assert_eq!(run(&mut session, "SELECT k FROM t ORDER BY v DESC LIMIT 5").rows.len(), 5);
    run(&mut session, "BEGIN");
    assert_eq!(int(&run(&mut session, "SELECT max(k) FROM t")), key - 1);
    run(&mut session, "DELETE FROM t WHERE k < 100");
    run(&mut session, "COMMIT");
    run(&mut session, "UPDATE t SET v = v WHERE k = 200");
    run(&mut session, "DELETE FROM t WHERE k < 500");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t")), key - 500);
    for key in 0..300 {
        let text = Value::Text(format!("{key:0>1000}").into());
        session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), text]).unwrap();
    }
    // A transaction that changes too much is rolled back with an error.
    let error = session.execute("UPDATE t SET v = v || 'x'", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) > 1000")), 0);
    assert!(database.memory().used_bytes() <= limit, "{:?}", database.memory());
    // A snapshot works at the limit.
    database.snapshot().unwrap();
}
