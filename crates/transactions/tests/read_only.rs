//! Databases that cannot be recovered to their last record: they open, show the state before it, report the reason, and
//! can be restored as a new database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use thermocline_transactions::database::{Notice, RowEngine, RowSession, Settings, SnapshotSettings, StatementResult};
use thermocline_transactions::disk::{Crash, Disk, Faults, SimulatedDisk, read_file};
use thermocline_transactions::ids::Sequence;
use thermocline_transactions::log::{LogSettings, Next, Opened, SegmentReader, list_segments};
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::snapshot::list_snapshots;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result, Semantics};

/// A number that a procedure adds and the log does not hold.
#[derive(Clone, Default)]
struct Noise(Arc<AtomicI64>);

impl Procedure for Noise {
    fn statements(&self) -> &[&str] {
        &["UPDATE t SET v = v + $2 WHERE k = $1"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let noise = self.0.load(Ordering::Relaxed);
        assert!(noise >= 0, "a negative noise");
        Ok(context.execute(0, &[arguments[0].clone(), Value::Int(noise)])?.into())
    }
}

fn settings(noise: &Noise) -> Settings {
    Settings {
        partitions: 2,
        seed: 3,
        log: LogSettings { segment_bytes: 2000, room_bytes: 500, ..LogSettings::default() },
        snapshots: SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() },
        procedures: procedures(noise),
        ..Settings::default()
    }
}

fn procedures(noise: &Noise) -> Vec<Registration> {
    vec![Registration::new("noise(k BIGINT) PARTITION ON (k)", 1, noise.clone()).unwrap()]
}

fn open(disk: &SimulatedDisk, noise: &Noise) -> RowEngine {
    RowEngine::open(Arc::new(disk.clone()), settings(noise)).unwrap()
}

fn run(session: &mut RowSession, sql: &str) -> String {
    let answer = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let row = |number| answer.rows.row(number).map(|value| value.to_string()).collect::<Vec<_>>().join(" ");
    (0..answer.rows.len()).map(row).collect::<Vec<_>>().join(", ")
}

fn last_record(disk: &SimulatedDisk) -> u64 {
    let last = *list_segments(disk).unwrap().last().unwrap();
    let Opened::Reader(mut reader) = SegmentReader::open(disk, last, None).unwrap() else { panic!("no header") };
    while let Next::Group(_) = reader.next_group().unwrap() {}
    reader.next_sequence().0 - 1
}

fn files(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| (name.clone(), read_file(disk, &name, 1 << 30).unwrap());
    disk.list().unwrap().into_iter().map(read).collect()
}

const TABLE: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, n TEXT) PARTITION BY (k)";

/// A snapshot, records after it, a record that does something else when `noise` differs, and records after that; also
/// returns the sequence of that record.
fn database(noise: &Noise) -> (SimulatedDisk, u64) {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, noise);
    let mut session = database.session();
    run(&mut session, TABLE);
    run(&mut session, "CREATE INDEX t_v ON t (v)");
    run(
        &mut session,
        "CREATE PROCEDURE peek(x BIGINT) PARTITION ON (x) LANGUAGE lua AS
         $$ return db.value('SELECT v FROM t WHERE k = $1', x) $$",
    );
    run(
        &mut session,
        "CREATE PROCEDURE poke(x BIGINT) PARTITION ON (x) LANGUAGE lua AS
         $$ db.execute('UPDATE t SET v = v + 1 WHERE k = $1', x) $$",
    );
    for k in 0..20 {
        run(&mut session, &format!("INSERT INTO t VALUES ({k}, {k}, 'first {k}')"));
    }
    database.snapshot().unwrap();
    for k in 0..20 {
        run(&mut session, &format!("UPDATE t SET v = v + 100 WHERE k = {k}"));
    }
    run(&mut session, "CALL noise(3)");
    let record = last_record(&disk);
    run(&mut session, "INSERT INTO t VALUES (100, 100, 'behind')");
    run(&mut session, "UPDATE t SET n = 'behind'");
    drop(session);
    database.close().unwrap();
    assert!(list_segments(&disk).unwrap().len() > 2);
    (disk, record)
}

const STATE: &str = "SELECT count(*), sum(v), max(k), min(n) FROM t";
const BEFORE: &str = "20 2190 19 first 0";

#[test]
fn a_record_that_does_something_else_leaves_the_state_before_it_to_be_read() {
    let noise = Noise::default();
    let (disk, record) = database(&noise);
    let written = files(&disk);
    noise.0.store(7, Ordering::Relaxed);

    let database = open(&disk, &noise);
    let read_only = database.read_only().unwrap().clone();
    assert_eq!(read_only.until, Sequence(record - 1));
    let text = read_only.to_string();
    for part in [
        format!("log record {record} of transaction "),
        "(procedure \"noise\"; partition ".to_owned(),
        "changes other rows than when it ran first".to_owned(),
        format!("It shows the state of log record {}", record - 1),
        format!("'thermocline restore DB NEWDB --until {}'", record - 1),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    let mut session = database.session();
    assert_eq!(run(&mut session, STATE), BEFORE);
    assert_eq!(run(&mut session, "SELECT k FROM t WHERE v = 103"), "3", "by index");
    assert_eq!(run(&mut session, "CALL peek(4)"), "104");
    run(&mut session, "EXPLAIN DELETE FROM t");
    run(&mut session, "BEGIN");
    assert_eq!(run(&mut session, STATE), BEFORE);
    run(&mut session, "COMMIT");
    let refused = |error: Error, what: &str| {
        assert_eq!(error.sqlstate(), "25006", "{what}: {error}");
        assert!(error.to_string().contains(&text), "{what}: {error}");
    };
    for sql in [
        "INSERT INTO t VALUES (200, 1, '')",
        "UPDATE t SET v = 1",
        "UPDATE t SET v = 1 WHERE k = -5",
        "DELETE FROM t WHERE k = 1",
        "INSERT INTO t SELECT k + 1000, v, n FROM t",
        "CALL poke(1)",
        "CALL noise(1)",
        "CREATE TABLE u (k BIGINT PRIMARY KEY)",
        "CREATE INDEX t_n ON t (n)",
        "ALTER TABLE t ADD COLUMN w BIGINT",
        "DROP TABLE t",
        "DROP PROCEDURE peek",
        "CREATE OR REPLACE PROCEDURE peek() LANGUAGE sql AS ''",
    ] {
        refused(session.execute(sql, &[]).unwrap_err(), sql);
    }
    run(&mut session, "BEGIN");
    refused(session.execute("DELETE FROM t", &[]).unwrap_err(), "in a transaction");
    assert_eq!(session.execute("SELECT 1", &[]).unwrap_err().sqlstate(), "25P02");
    run(&mut session, "ROLLBACK");
    refused(database.prepare("DELETE FROM t").unwrap_err(), "a client");
    let call = database.procedure("noise").unwrap();
    refused(database.client().call(call, [Value::Int(1)].into()).unwrap_err(), "a client's call");
    refused(database.snapshot().unwrap_err(), "a snapshot");
    refused(database.backup(&SimulatedDisk::new(2, Faults::default())).unwrap_err(), "a backup");
    assert_eq!(run(&mut session, STATE), BEFORE);
    drop(session);
    database.close().unwrap();
    assert_eq!(files(&disk), written, "nothing is changed");

    // The same at the next opening, and whole again with the procedure unchanged.
    assert_eq!(open(&disk, &noise).read_only(), Some(&read_only));
    let report = RowEngine::check(Arc::new(disk.clone()), procedures(&noise), &mut |_| {}).unwrap();
    assert!(report.problems.len() == 1 && report.problems[0].contains("changes other rows"), "{report}");
    noise.0.store(0, Ordering::Relaxed);
    let database = open(&disk, &noise);
    assert_eq!(database.read_only(), None);
    assert_eq!(run(&mut database.session(), STATE), "21 2290 100 behind");
}

#[test]
fn a_procedure_that_panics_when_it_is_replayed() {
    let noise = Noise::default();
    let (disk, record) = database(&noise);
    noise.0.store(-1, Ordering::Relaxed);
    let database = open(&disk, &noise);
    let read_only = database.read_only().unwrap();
    assert_eq!(read_only.until, Sequence(record - 1));
    assert!(read_only.to_string().contains(&format!("log record {record} panicked: a negative noise")), "{read_only}");
    assert_eq!(run(&mut database.session(), STATE), BEFORE);
}

#[test]
fn a_procedure_that_is_not_registered_is_the_programs_fault_and_no_difference() {
    let noise = Noise::default();
    let (disk, _) = database(&noise);
    let settings = Settings { procedures: Vec::new(), ..settings(&noise) };
    let error = RowEngine::open(Arc::new(disk), settings).unwrap_err();
    assert_eq!(error.sqlstate(), "55006");
    assert!(error.to_string().contains("procedure \"noise\", which the program has not registered"), "{error}");
}

fn restore(from: &SimulatedDisk, noise: &Noise, until: u64) -> Result<SimulatedDisk> {
    let into = SimulatedDisk::new(9, Faults::default());
    let from: Arc<dyn Disk> = Arc::new(from.clone());
    RowEngine::restore_until(&from, Arc::new(into.clone()), procedures(noise), Sequence(until), &mut |_| {})?;
    into.restart(Crash::Power);
    Ok(into)
}

#[test]
fn the_state_up_to_a_record_becomes_a_database() {
    let noise = Noise::default();
    let (disk, record) = database(&noise);
    let last = last_record(&disk);
    let snapshot = list_snapshots(&disk).unwrap()[0].0;
    let written = files(&disk);
    // Going back to any record after the snapshot, in an undamaged database.
    for until in [snapshot, snapshot + 7, record, last] {
        let restored = restore(&disk, &noise, until).unwrap();
        let report = RowEngine::check(Arc::new(restored.clone()), procedures(&noise), &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{until}: {report}");
        let database = open(&restored, &noise);
        assert_eq!(database.read_only(), None);
        let mut session = database.session();
        let state = run(&mut session, STATE);
        match until {
            _ if until == last => assert_eq!(state, "21 2290 100 behind"),
            _ if until == snapshot => assert_eq!(state, "20 190 19 first 0"),
            _ if until == record => assert_eq!(state, BEFORE),
            _ => assert_eq!(state, "20 890 19 first 0"),
        }
    }
    noise.0.store(7, Ordering::Relaxed);
    let restored = restore(&disk, &noise, record - 1).unwrap();
    let database = open(&restored, &noise);
    let mut session = database.session();
    assert_eq!(run(&mut session, STATE), BEFORE);
    run(&mut session, "CALL noise(3)");
    run(&mut session, "CALL poke(3)");
    run(&mut session, "UPDATE t SET n = 'again' WHERE k = 0");
    drop(session);
    database.close().unwrap();
    let database = open(&restored, &noise);
    assert_eq!(database.read_only(), None);
    assert_eq!(run(&mut database.session(), STATE), "20 2198 19 again");

    for (until, sqlstate, said) in [
        (record, "XX001", "changes other rows than when it ran first"),
        (0, "22023", "numbered from 1"),
        (snapshot - 1, "22023", "is gone: the newest snapshot is of record"),
        (last + 1, "XX001", "changes other rows"),
    ] {
        let error = restore(&disk, &noise, until).unwrap_err();
        assert!(error.sqlstate() == sqlstate && error.to_string().contains(said), "{until}: {error}");
    }
    noise.0.store(0, Ordering::Relaxed);
    let error = restore(&disk, &noise, last + 1).unwrap_err().to_string();
    assert_eq!(error, format!("there is no log record {}: the last one is {last}", last + 1));
    let full = SimulatedDisk::new(9, Faults::default());
    full.overwrite("something", vec![1]);
    let until = Sequence(last);
    let from: Arc<dyn Disk> = Arc::new(disk.clone());
    let error = RowEngine::restore_until(&from, Arc::new(full), procedures(&noise), until, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("is not empty: it has something"), "{error}");
    let empty = SimulatedDisk::new(9, Faults::default());
    assert!(restore(&empty, &noise, 1).unwrap_err().to_string().contains("nothing to restore"));
    assert_eq!(files(&disk), written, "nothing is changed");
}

/// Place and bytes of a text in the log.
fn find(disk: &SimulatedDisk, text: &str) -> (String, usize, Vec<u8>) {
    for name in disk.list().unwrap().into_iter().filter(|name| name.starts_with("log-")) {
        let bytes = read_file(disk, &name, 1 << 20).unwrap();
        if let Some(place) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            return (name, place, bytes);
        }
    }
    panic!("no {text}");
}

#[test]
fn a_flipped_bit_inside_a_literal() {
    let noise = Noise::default();
    for bit in 0..8 {
        let (disk, _) = database(&noise);
        // The seventh of the updates after the snapshot.
        let (name, place, mut bytes) = find(&disk, "UPDATE t SET v = v + 100 WHERE k = 6");
        bytes[place + 21] ^= 1 << bit;
        disk.overwrite(&name, bytes);
        let damaged = files(&disk);
        let snapshot = list_snapshots(&disk).unwrap()[0].0;

        let database = open(&disk, &noise);
        let read_only = database.read_only().unwrap().clone();
        assert_eq!(read_only.until, Sequence(snapshot + 6), "bit {bit}: {read_only}");
        let text = read_only.to_string();
        assert!(text.contains(&format!("{name}, offset ")) && text.contains("a log record is damaged"), "{text}");
        let mut session = database.session();
        assert_eq!(run(&mut session, STATE), "20 790 19 first 0", "bit {bit}");
        assert_eq!(session.execute("UPDATE t SET v = 0", &[]).unwrap_err().sqlstate(), "25006");
        drop(session);
        database.close().unwrap();
        assert_eq!(files(&disk), damaged, "nothing is changed");
        assert!(!RowEngine::check(Arc::new(disk.clone()), procedures(&noise), &mut |_| {}).unwrap().is_sound());

        let restored = restore(&disk, &noise, snapshot + 6).unwrap();
        let database = open(&restored, &noise);
        assert_eq!(run(&mut database.session(), STATE), "20 790 19 first 0");
        run(&mut database.session(), "INSERT INTO t VALUES (50, 0, 'goes on')");
        let error = restore(&disk, &noise, snapshot + 7).unwrap_err();
        assert!(error.to_string().contains(&format!("cannot be reached: {name}, offset")), "{error}");
    }
}

#[test]
fn a_damaged_snapshot_is_no_state() {
    let noise = Noise::default();
    let (disk, _) = database(&noise);
    let name = disk.list().unwrap().into_iter().find(|name| name.ends_with("00001.rows")).unwrap();
    let mut bytes = read_file(&disk, &name, 1 << 20).unwrap();
    let place = bytes.len() - 5;
    bytes[place] ^= 4;
    disk.overwrite(&name, bytes);
    let error = RowEngine::open(Arc::new(disk), settings(&noise)).unwrap_err();
    assert!(error.sqlstate() == "XX001" && error.to_string().contains(&name), "{error}");
}

/// Makes these the semantics of a log.
fn set_semantics(disk: &SimulatedDisk, semantics: u32) {
    for segment in list_segments(disk).unwrap() {
        let name = segment.file_name();
        let mut bytes = read_file(disk, &name, 1 << 20).unwrap();
        bytes[48..52].copy_from_slice(&semantics.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        disk.overwrite(&name, bytes);
    }
}

/// Its digests are of the newer kind, so the first record differs. Logs written by earlier versions are in `formats`.
#[test]
fn a_difference_in_a_log_of_older_semantics_is_said_to_be_perhaps_of_that() {
    let noise = Noise::default();
    let (disk, _) = database(&noise);
    set_semantics(&disk, 1);
    let database = open(&disk, &noise);
    let read_only = database.read_only().unwrap();
    assert_eq!(read_only.older, Some(Semantics::FIRST));
    let said = format!("version 1 of the engine's semantics, and this program has version {}", Semantics::CURRENT);
    assert!(read_only.to_string().contains(&said), "{read_only}");
}

#[test]
fn a_database_of_newer_semantics_is_refused() {
    let noise = Noise::default();
    let (disk, _) = database(&noise);
    set_semantics(&disk, 1000);
    let written = files(&disk);
    let error = RowEngine::open(Arc::new(disk.clone()), settings(&noise)).unwrap_err();
    assert_eq!(error.sqlstate(), "55006");
    let text = error.to_string();
    assert!(text.contains("version 1000 of the engine's semantics") && text.contains("it has version "), "{text}");
    assert_eq!(files(&disk), written, "nothing is changed");
}

#[test]
fn closing_takes_a_snapshot_when_the_log_is_long() {
    let noise = Noise::default();
    for (closing_log_bytes, taken) in [(1000, true), (1 << 20, false), (u64::MAX, false)] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let mut settings = settings(&noise);
        settings.snapshots.closing_log_bytes = closing_log_bytes;
        let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
        let mut session = database.session();
        run(&mut session, TABLE);
        run(&mut session, "INSERT INTO t VALUES (1, 1, '')");
        // Many times the memory of the tables.
        while database.snapshot_status().log_bytes < 40 * database.memory_bytes().min(10_000) {
            run(&mut session, "UPDATE t SET v = v + 1");
        }
        let state = run(&mut session, STATE);
        drop(session);
        database.close().unwrap();
        assert_eq!(!list_snapshots(&disk).unwrap().is_empty(), taken, "{closing_log_bytes}");
        assert_eq!(run(&mut open(&disk, &noise).session(), STATE), state);
    }
    // With large tables and a short log, the next start replays faster than it would load a snapshot.
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut settings = settings(&noise);
    settings.snapshots.closing_log_bytes = 1000;
    let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
    let mut session = database.session();
    run(&mut session, TABLE);
    run(&mut session, "INSERT INTO t SELECT 1, 1, repeat('x', 1000) || 'y'");
    for k in 2..2000 {
        run(&mut session, &format!("INSERT INTO t SELECT {k}, v, n FROM t WHERE k = 1"));
    }
    drop(session);
    database.snapshot().unwrap();
    let first = list_snapshots(&disk).unwrap();
    let mut session = database.session();
    (0..20).for_each(|_| drop(run(&mut session, "UPDATE t SET v = v + 1 WHERE k = 5")));
    assert!(database.snapshot_status().log_bytes > 1000);
    drop(session);
    database.close().unwrap();
    assert_eq!(list_snapshots(&disk).unwrap(), first);
}

#[test]
fn a_failed_snapshot_is_told_to_the_program() {
    let noise = Noise::default();
    let disk = SimulatedDisk::new(1, Faults::default());
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let notices = Arc::new(move |notice: &Notice| {
        assert!(matches!(notice, Notice::SnapshotFailed(Error::DiskFull(_))), "{notice}");
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mut settings = Settings { notices, ..settings(&noise) };
    settings.snapshots.closing_log_bytes = 1;
    let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
    run(&mut database.session(), TABLE);
    let mut session = database.session();
    (0..50).for_each(|k| drop(run(&mut session, &format!("INSERT INTO t VALUES ({k}, 1, '')"))));
    disk.set_faults(Faults { full: 1, ..Faults::default() });
    let error = database.snapshot().unwrap_err();
    assert_eq!(error.sqlstate(), "53100");
    let status = database.snapshot_status();
    assert_eq!((status.failed_total, status.error, told.load(Ordering::Relaxed)), (1, Some(error), 1));
}
