//! Databases written by earlier versions still open.
//!
//! `v1`, `v2` ... hold one for each released format: `rows`, as left by a killed process, and in `answers.txt` the
//! results of queries then. A released format is never written again; the command
//!
//! ```text
//! THERMOCLINE_FORMAT=v3 cargo test -p thermocline-transactions --test formats -- --ignored write
//! ```
//!
//! writes one in the current format, from `content.sql`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use thermocline_transactions::Semantics;
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, SnapshotSettings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::ids::{Micros, Sequence};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::recovery::Progress;
use thermocline_transactions::snapshot::Manifest;

/// Maximum bytes of a database, because it stays in the repository for ever.
const BYTES_MAX: u64 = 100 << 10;

const QUERIES: [&str; 7] = [
    "SELECT * FROM types ORDER BY k",
    "SELECT * FROM accounts ORDER BY id",
    "SELECT id FROM accounts WHERE owner = 'Ada Lovelace'",
    "SELECT * FROM countries ORDER BY code",
    "SELECT code FROM countries WHERE name = 'Deutschland'",
    "SELECT * FROM late ORDER BY a, b",
    "SELECT count(*), sum(balance) FROM accounts",
];

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

fn settings() -> Settings {
    // 2024-02-29 12:30:45.5, plus a millisecond for each reading.
    let clock = AtomicI64::new(1_709_209_845_500_000);
    Settings {
        partitions: 2,
        eviction: Some(BlockStoreSettings::default()),
        seed: 7,
        log: LogSettings { segment_bytes: 3000, room_bytes: 1000, ..LogSettings::default() },
        snapshots: SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() },
        clock: Box::new(move || Micros(clock.fetch_add(1000, Ordering::Relaxed))),
        ..Settings::default()
    }
}

fn open(directory: &Path) -> (RowEngine, Progress) {
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let mut last = Progress::default();
    let database = RowEngine::open_with_progress(disk, settings(), &mut |progress| last = *progress);
    (database.unwrap_or_else(|error| panic!("{}: {error}", directory.display())), last)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != "lock") {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn answers(session: &mut RowSession) -> String {
    let mut text = String::new();
    for sql in QUERIES {
        let answer = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
        writeln!(text, "{sql}").unwrap();
        for number in 0..answer.rows.len() {
            let row: Vec<_> = answer.rows.row(number).map(|value| value.to_string()).collect();
            writeln!(text, "    {}", row.join(" | ")).unwrap();
        }
    }
    text
}

/// Evicts all rows.
fn evict(database: &RowEngine) {
    let live = || -> usize {
        let partitions = database.session().statistics().unwrap().partitions;
        partitions.iter().flat_map(|partition| &partition.tables).map(|table| table.live_rows).sum()
    };
    database.set_memory_bytes_max(1);
    while live() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    database.set_memory_bytes_max(u64::MAX);
}

/// Not a test: writes a database in the current format.
#[test]
#[ignore = "writes into the repository"]
fn write() {
    let name = std::env::var("THERMOCLINE_FORMAT").expect("THERMOCLINE_FORMAT names the directory, such as v3");
    let target = formats().join(name);
    assert!(!target.exists(), "{} is there already", target.display());
    let directory = tempfile::tempdir().unwrap();
    let (database, _) = open(directory.path());
    let mut session = database.session();
    let content = fs::read_to_string(formats().join("content.sql")).unwrap();
    for statement in content.split("\n;\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        if statement.starts_with("-- snapshot") {
            evict(&database);
            database.snapshot().unwrap();
        }
        session.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let answers = answers(&mut session);
    // While it is open: neither the log nor its last segment has been ended.
    copy(directory.path(), &target.join("rows"));
    fs::write(target.join("answers.txt"), answers).unwrap();
}

#[test]
fn every_released_format_opens() {
    let mut found = 0;
    for entry in fs::read_dir(formats()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        found += 1;
        let (name, from) = (entry.file_name(), entry.path().join("rows"));
        let bytes: u64 = fs::read_dir(&from).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes < BYTES_MAX, "{name:?} has {bytes} bytes");
        let expected = fs::read_to_string(entry.path().join("answers.txt")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        copy(&from, directory.path());
        let manifest = Manifest::read(&RealDisk::open(&from).unwrap(), Sequence(14)).unwrap();
        let is_current = manifest.semantics == Semantics::CURRENT;

        let (database, progress) = open(directory.path());
        assert!(progress.rows > 0 && progress.records > 0, "{name:?}: a snapshot and a log behind it: {progress:?}");
        let mut session = database.session();
        assert_eq!(answers(&mut session), expected, "{name:?}");
        // The database remains usable, with its procedures and indexes.
        session.execute("CALL open_account(99, 'Sofja Kowalewskaja', 1)", &[]).unwrap();
        session.execute("CALL transfer(99, 1, 0.5)", &[]).unwrap();
        let error = session.execute("INSERT INTO countries VALUES ('d2', 'Deutschland')", &[]).unwrap_err();
        assert_eq!(error.sqlstate(), "23505", "{name:?}: {error}");
        let changed = session.execute("SELECT owner, balance FROM accounts WHERE id = 99", &[]).unwrap();
        drop(session);
        database.close().unwrap();

        let (database, progress) = open(directory.path());
        // What ran with older semantics is in a snapshot by now.
        assert!(is_current || progress.records <= 2, "{name:?}: only the two calls are replayed: {progress:?}");
        let again = database.session().execute("SELECT owner, balance FROM accounts WHERE id = 99", &[]).unwrap();
        assert_eq!(
            (again.rows.value(0, 0).to_string(), &again),
            ("SOFJA KOWALEWSKAJA".to_owned(), &changed),
            "{name:?}"
        );
        database.close().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let report = RowEngine::check(Arc::new(disk), vec![], &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{name:?}: {report}");
    }
    assert!(found > 0, "no format in {}", formats().display());
}
