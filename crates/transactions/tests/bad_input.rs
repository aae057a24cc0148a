//! Inputs that the engine refuses: directories that cannot be used, rows and values that cannot be stored. The error
//! names the problem and its place, and acknowledged rows stay.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_transactions::{Error, Result};

use crate::hooked::{Hooked, Operation};

#[path = "common/hooked.rs"]
mod hooked;

fn open(path: &Path) -> Result<RowEngine> {
    RowEngine::open(Arc::new(RealDisk::open(path)?), Settings::default())
}

fn in_memory() -> RowEngine {
    RowEngine::open(Arc::new(SimulatedDisk::new(1, Faults::default())), Settings::default()).unwrap()
}

fn run(session: &mut RowSession, sql: &str) {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn count(database: &RowEngine, table: &str) -> i64 {
    let answer = database.session().execute(&format!("SELECT count(*) FROM {table}"), &[]).unwrap();
    let ValueRef::Int(count) = answer.rows.value(0, 0) else { panic!("a count") };
    count
}

/// Checks that the error's message has these parts, and returns its SQLSTATE.
fn refused<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) -> String {
    let error = result.unwrap_err();
    for part in parts {
        assert!(error.to_string().contains(part), "\"{error}\" does not say \"{part}\"");
    }
    error.sqlstate().to_owned()
}

#[test]
fn directories_that_are_not_there_or_not_for_writing() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    assert_eq!(refused(open(&missing), &["missing", "does not exist"]), "55006");
    assert_eq!(refused(RealDisk::open_or_create(missing.join("deeper")), &["missing", "does not exist"]), "55006");
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(refused(open(&file), &["file", "not a directory"]), "55006");
    // Not even root can create files there.
    if Path::new("/sys/kernel").is_dir() {
        assert_eq!(refused(open(Path::new("/sys/kernel")), &["/sys/kernel"]), "55006");
    }
}

/// Environment variable with the task and directory of a child process.
const CHILD: &str = "THERMOCLINE_BAD_INPUT_CHILD";

/// Runs [`child`] in another process, which `shell` starts as `"$0"`; returns its output.
fn in_another_process(shell: &str, directory: &Path) -> String {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", shell]).arg(program).env(CHILD, directory);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const RUN: &str = r#"exec "$0" --exact --nocapture child"#;

/// Inserts rows of a tenth of a megabyte until there are a hundred or an error occurs; only for [`in_another_process`].
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let database = match open(Path::new(&directory)) {
        Ok(database) => database,
        Err(error) => return println!("cannot open: {} {error}", error.sqlstate()),
    };
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)");
    let text = Value::Text("x".repeat(100_000).into());
    for key in 0..100 {
        if let Err(error) = session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), text.clone()]) {
            return println!("acknowledged {key}: {} {error}", error.sqlstate());
        }
    }
    println!("acknowledged 100: ok");
}

#[test]
fn one_database_at_a_time_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let path = directory.path().display().to_string();
    assert_eq!(refused(open(directory.path()), &[&path, "has it open"]), "55006");
    let told = in_another_process(RUN, directory.path());
    let holder = format!("cannot open: 55006 cannot open {path}: process {} has it open", std::process::id());
    assert!(told.contains(&holder), "{told}");
    drop(database);
    let told = in_another_process(RUN, directory.path());
    assert!(told.contains("acknowledged 100: ok"), "{told}");
    assert_eq!(count(&open(directory.path()).unwrap(), "t"), 100);
}

#[test]
fn a_file_that_must_not_grow_stops_the_log_and_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    // About two megabytes, in blocks of 512 bytes. SIGXFSZ would end the process before the error.
    let told = in_another_process(&format!("trap '' XFSZ; ulimit -f 4000; {RUN}"), directory.path());
    let line = told.lines().find_map(|line| line.split("acknowledged ").nth(1)).unwrap_or_else(|| panic!("{told}"));
    let (acknowledged, error) = line.split_once(": ").unwrap();
    for part in ["58030", "log-00000000000000000001", "would be larger than"] {
        assert!(error.contains(part), "\"{error}\" does not say \"{part}\"");
    }
    let acknowledged: i64 = acknowledged.parse().unwrap();
    assert!((5..30).contains(&acknowledged), "{acknowledged}");
    let database = open(directory.path()).unwrap();
    assert_eq!(count(&database, "t"), acknowledged);
    run(&mut database.session(), "INSERT INTO t VALUES (1000, 'more')");
}

#[test]
fn something_else_is_where_the_log_would_be() {
    let directory = tempfile::tempdir().unwrap();
    let name = "log-00000000000000000001";
    fs::create_dir(directory.path().join(name)).unwrap();
    let database = open(directory.path()).unwrap();
    let mut session = database.session();
    let created = session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY)", &[]);
    assert_eq!(refused(created, &[name, "exists already"]), "58030");
    assert_eq!(refused(session.execute("SELECT 1", &[]), &[name]), "58030");
    drop((session, database));
    fs::remove_dir(directory.path().join(name)).unwrap();
    run(&mut open(directory.path()).unwrap().session(), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
}

/// Removes all files with this in their names.
fn remove(directory: &Path, part: &str) {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of_part: Vec<_> = names.filter(|path| path.display().to_string().contains(part)).collect();
    assert!(!of_part.is_empty(), "{part}");
    of_part.iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// Messages when the snapshot remains to be shown.
const SHOWN: &[&str] = &["the log is missing", "the database is read-only"];

#[test]
fn files_that_somebody_has_deleted_are_missed() {
    // With a snapshot or without one, the files to delete, and the expected messages.
    for (snapshot, part, says) in [
        (false, "log-", &["the log is missing"][..]),
        (true, "log-", SHOWN),
        (true, ".manifest", &["the beginning of the log is missing"]),
        (true, "snapshot-", &["the beginning of the log is missing"]),
        (true, ".rows", &[".rows", "does not exist"]),
        (true, ".sql", &[".sql", "does not exist"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut small = Settings::default();
        small.log.segment_bytes = 1000;
        let database = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), small).unwrap();
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY)");
        (0..50).for_each(|key| run(&mut session, &format!("INSERT INTO t VALUES ({key})")));
        if snapshot {
            database.snapshot().unwrap();
        }
        drop(session);
        database.close().unwrap();
        remove(directory.path(), part);
        let before: Vec<_> = RealDisk::open(directory.path()).unwrap().list().unwrap();
        match says == SHOWN {
            true => {
                let database = open(directory.path()).unwrap();
                refused(database.session().execute("DELETE FROM t", &[]), says);
                assert_eq!(count(&database, "t"), 50);
                database.close().unwrap();
            }
            false => drop(refused(open(directory.path()), says)),
        }
        assert_eq!(RealDisk::open(directory.path()).unwrap().list().unwrap(), before, "{part}: as it was");
        let disk = RealDisk::open(directory.path()).unwrap();
        match RowEngine::check(Arc::new(disk), vec![], &mut |_| {}) {
            Ok(report) => assert!(report.problems.iter().any(|problem| problem.contains(says[0])), "{part}: {report}"),
            Err(error) => assert!(error.to_string().contains(says[0]), "{part}: {error}"),
        }
    }
}

#[test]
fn a_new_database_that_was_ended_before_its_first_record_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let identity = open(directory.path()).unwrap().identity();
    let database = open(directory.path()).unwrap();
    assert_eq!(database.identity(), identity);
    run(&mut database.session(), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    drop(database);
    let database = open(directory.path()).unwrap();
    assert_eq!((database.identity(), count(&database, "t")), (identity, 0));
}

#[test]
fn files_of_a_newer_version() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    run(&mut database.session(), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    drop(database);
    // The version follows the magic in all versions.
    let log = directory.path().join("log-00000000000000000001");
    let before = fs::read(&log).unwrap();
    let mut newer = before.clone();
    newer[8] = 200;
    fs::write(&log, newer).unwrap();
    let says = ["log-00000000000000000001", "version 200", "newer", "up to version 2"];
    assert_eq!(refused(open(directory.path()), &says), "55006");
    fs::write(&log, before).unwrap();
    let control = directory.path().join("control");
    let before = fs::read_to_string(&control).unwrap();
    fs::write(&control, before.replace("format 3", "format 9")).unwrap();
    assert_eq!(refused(open(directory.path()), &["control", "version 9", "newer", "up to version 3"]), "55006");
    fs::write(&control, before).unwrap();

    let database = open(directory.path()).unwrap();
    run(&mut database.session(), "INSERT INTO t VALUES (1)");
    let position = database.snapshot().unwrap().position;
    drop(database);
    let manifest = directory.path().join(format!("snapshot-{:020}.manifest", position.0));
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("format 3", "format 7")).unwrap();
    assert_eq!(refused(open(directory.path()), &[".manifest", "version 7", "newer", "up to version 3"]), "55006");
    fs::write(&manifest, text).unwrap();
    assert_eq!(count(&open(directory.path()).unwrap(), "t"), 1);
}

#[test]
fn a_full_disk_stops_the_log_and_loses_nothing_acknowledged() {
    for synchronous in [true, false] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let full = Arc::new(AtomicBool::new(false));
        let failing: Arc<dyn Disk> = Arc::new(Hooked::full(&disk, &full, "log-"));
        let mut settings = Settings { partitions: 2, ..Settings::default() };
        settings.log.synchronous_commit = synchronous;
        let database = RowEngine::open(failing, settings).unwrap();
        let mut session = database.session();
        run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)");
        for key in 0..50 {
            run(&mut session, &format!("INSERT INTO t VALUES ({key})"));
        }
        database.snapshot().unwrap();
        full.store(true, Ordering::Relaxed);
        let mut acknowledged = 50;
        let error = loop {
            match session.execute("INSERT INTO t VALUES ($1)", &[Value::Int(acknowledged)]) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.sqlstate(), "53100", "{error}");
        assert!(!synchronous || acknowledged == 50, "{acknowledged}");
        for sql in ["INSERT INTO t VALUES (1000)", "SELECT count(*) FROM t", "CREATE TABLE u (k BIGINT PRIMARY KEY)"] {
            assert_eq!(session.execute(sql, &[]).unwrap_err().sqlstate(), "53100", "{sql}");
        }
        assert_eq!(database.snapshot().unwrap_err().sqlstate(), "53100");
        drop((session, database));
        full.store(false, Ordering::Relaxed);
        let database = RowEngine::open(Arc::new(disk), Settings::default()).unwrap();
        assert_eq!(count(&database, "t"), 50);
    }
}

#[test]
fn a_disk_without_place_for_room_still_takes_the_log() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let asked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&asked);
    let failing = Hooked::new(&disk, move |operation, _| {
        if operation != Operation::MakeRoom {
            return Ok(());
        }
        noted.store(true, Ordering::Relaxed);
        Err(Error::DiskFull("no space is left".into()))
    });
    let database = RowEngine::open(Arc::new(failing), Settings::default()).unwrap();
    run(&mut database.session(), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    (0..20).for_each(|key| run(&mut database.session(), &format!("INSERT INTO t VALUES ({key})")));
    drop(database);
    assert!(asked.load(Ordering::Relaxed));
    assert_eq!(count(&RowEngine::open(Arc::new(disk), Settings::default()).unwrap(), "t"), 20);
}

#[test]
fn rows_that_are_too_large() {
    let database = in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)");
    let text = |bytes: usize| [Value::Int(1), Value::Text("x".repeat(bytes).into())];
    let error = session.execute("INSERT INTO t VALUES ($1, $2)", &text(3 << 20));
    assert_eq!(refused(error, &["table \"t\"", "bytes, more than"]), "54000");
    session.execute("INSERT INTO t VALUES ($1, $2)", &text(100_000)).unwrap();
    // Growth by an update, also in a procedure and in a session's transaction.
    for _ in 0..4 {
        run(&mut session, "UPDATE t SET v = v || v");
    }
    assert_eq!(refused(session.execute("UPDATE t SET v = v || v", &[]), &["table \"t\"", "bytes"]), "54000");
    let answer = session.execute("SELECT length(v) FROM t", &[]).unwrap();
    assert_eq!(answer.rows.value(0, 0), ValueRef::Int(1_600_000));
    // Keys have a limit of their own.
    run(&mut session, "CREATE TABLE u (k TEXT PRIMARY KEY)");
    let error = session.execute("INSERT INTO u VALUES ($1)", &text(3000)[1..]);
    assert_eq!(refused(error, &["u"]), "54000");
    assert_eq!(count(&database, "u"), 0);
}

#[test]
fn statements_and_values_that_do_not_fit() {
    let database = in_memory();
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE t (k BIGINT PRIMARY KEY, s SMALLINT, d DECIMAL(5, 2), v VARCHAR(3), b BOOLEAN, \
         a DATE, f DOUBLE PRECISION, n BIGINT NOT NULL DEFAULT 0)",
    );
    run(&mut session, "INSERT INTO t VALUES (1, 1, 1.5, 'abc', true, '2024-02-29', 1.5)");
    for (sql, state, parts) in [
        (
            "CREATE TABLE u (a BIGINT UNIQUE) WITH (replicated = false)",
            "42P16",
            &["u_a_key", "WITH (replicated = true)"][..],
        ),
        ("CREATE TABLE u (a BIGINT PRIMARY KEY, a TEXT)", "42701", &["a"]),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY)", "42P07", &["t"]),
        ("CREATE TABLE u (a BIGINT PRIMARY KEY, b TEXT) PARTITION BY (b)", "42P16", &["b"]),
        ("INSERT INTO t (k, s) VALUES (2, 40000)", "22003", &["s"]),
        ("INSERT INTO t (k, d) VALUES (2, 1000)", "22003", &["d"]),
        ("INSERT INTO t (k, v) VALUES (2, 'abcd')", "22001", &["v"]),
        ("INSERT INTO t (k, a) VALUES (2, '2023-02-29')", "22007", &["2023-02-29"]),
        ("INSERT INTO t (k, s) VALUES (2, 'many')", "22P02", &["many"]),
        ("INSERT INTO t (k, b) VALUES (2, 7)", "42804", &["b"]),
        ("INSERT INTO t (k) VALUES (9223372036854775808)", "22003", &[]),
        ("INSERT INTO t (k, n) VALUES (2, NULL)", "23502", &["n"]),
        ("INSERT INTO t (k) VALUES (1)", "23505", &["t"]),
        ("INSERT INTO t (k, nothing) VALUES (2, 1)", "42703", &["nothing"]),
        ("INSERT INTO t (k, s) VALUES (2)", "42601", &[]),
        ("UPDATE t SET n = 9223372036854775807 + k", "22003", &[]),
        ("UPDATE t SET n = k / (k - 1)", "22012", &["division by zero"]),
        ("UPDATE t SET s = s * 30000 * 2", "22003", &[]),
        ("UPDATE t SET nothing = 1", "42703", &["nothing"]),
        ("SELECT k + v FROM t", "42883", &["BIGINT + VARCHAR(3)"]),
        ("SELECT * FROM t WHERE v", "42804", &[]),
        ("SELECT nothing FROM t", "42703", &["nothing"]),
        ("SELECT k FROM t GROUP BY s", "42803", &["k"]),
        ("SELECT f('x') FROM t", "0A000", &["function f"]),
        ("SELECT k FROM t LIMIT -1", "22023", &[]),
        ("DELETE FROM nothing", "42P01", &["nothing"]),
        ("SELECT 'unfinished", "42601", &[]),
    ] {
        let result = session.execute(sql, &[]);
        assert_eq!(result.as_ref().map_or_else(|error| error.sqlstate(), |_| "ok"), state, "{sql}: {result:?}");
        refused(result, parts);
    }
    for (parameters, state) in [
        (&[Value::Int(2)][..], "42P02"),
        (&[Value::Int(2), Value::Text("x".into())], "22P02"),
        (&[Value::Int(2), Value::Int(1 << 40)], "22003"),
        (&[Value::Null, Value::Int(1)], "23502"),
    ] {
        let result = session.execute("INSERT INTO t (k, s) VALUES ($1, $2)", parameters);
        let found = result.as_ref().map_or_else(|error| error.sqlstate(), |_| "ok").to_owned();
        assert_eq!(found, state, "{parameters:?}: {result:?}");
    }
    assert_eq!(count(&database, "t"), 1);
}
