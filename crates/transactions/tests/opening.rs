//! Opening in two steps: taking a directory, and reading what is in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use thermocline_transactions::database::{Database, Opening, Settings, SnapshotSettings};
use thermocline_transactions::disk::{Disk, RealDisk};
use thermocline_transactions::interrupt::{Cause, Interrupt};
use thermocline_transactions::types::{Value, ValueRef};

fn settings() -> Settings {
    Settings {
        partitions: 2,
        snapshots: SnapshotSettings {
            log_bytes: u64::MAX,
            interval: None,
            closing_log_bytes: u64::MAX,
            ..SnapshotSettings::default()
        },
        ..Settings::default()
    }
}

fn disk(directory: &tempfile::TempDir) -> Arc<dyn Disk> {
    Arc::new(RealDisk::open(directory.path()).unwrap())
}

fn files(directory: &tempfile::TempDir) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> =
        entries.filter(|path| name(path) != "lock").map(|path| (name(&path), std::fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

/// Rows in a snapshot, and as many records behind it.
fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(disk(&directory), settings()).unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) PARTITION BY (k)", &[]).unwrap();
    for k in 0..200 {
        session.execute("INSERT INTO t VALUES ($1, 0)", &[Value::Int(k)]).unwrap();
        if k == 99 {
            database.snapshot().unwrap();
        }
    }
    drop(session);
    database.close().unwrap();
    directory
}

#[test]
fn what_is_there_is_known_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let opening = Opening::new(disk(&directory), settings()).unwrap();
    assert_eq!((opening.partitions(), opening.bytes().unwrap()), (2, 0), "of a new one the settings say it");
    drop(opening);
    let directory = filled();
    let opening = Opening::new(disk(&directory), Settings { partitions: 7, ..settings() }).unwrap();
    assert_eq!(opening.partitions(), 2);
    assert!(opening.bytes().unwrap() > 10_000);
    let taken = Opening::new(disk(&directory), settings()).unwrap_err();
    assert_eq!(taken.sqlstate(), "55006", "{taken}");
    let mut rows = 0;
    let database = opening.finish(&mut |progress| rows = progress.rows).unwrap();
    assert_eq!(rows, 100);
    let answer = database.session().execute("SELECT count(*) FROM t", &[]).unwrap();
    assert_eq!(answer.rows.value(0, 0), ValueRef::Int(200));
}

#[test]
fn recovery_is_stopped_anywhere_and_changes_nothing() {
    let directory = filled();
    let before = files(&directory);
    let mut calls = 0;
    loop {
        let interrupt = Arc::new(Interrupt::new(None));
        let opening = Opening::new(disk(&directory), settings()).unwrap().with_interrupt(&interrupt);
        let mut left = calls;
        let finished = opening.finish(&mut |_| {
            if left == 0 {
                interrupt.stop(Cause::User);
            }
            left -= 1;
        });
        match finished {
            Err(error) => assert_eq!(error.sqlstate(), "57014", "{error}"),
            Ok(database) => {
                let answer = database.session().execute("SELECT count(*) FROM t", &[]).unwrap();
                assert_eq!(answer.rows.value(0, 0), ValueRef::Int(200));
                break;
            }
        }
        assert!(files(&directory) == before, "after {calls} reports");
        calls += 1;
    }
    assert!(calls > 50, "{calls}");
}

#[test]
fn what_cannot_be_opened_is_refused_before_it_is_read() {
    let directory = filled();
    let name = files(&directory).into_iter().map(|(name, _)| name).find(|name| name.ends_with(".manifest")).unwrap();
    let path = directory.path().join(name);
    let manifest = std::fs::read_to_string(&path).unwrap();
    for (from, to, state) in [("format 2", "format 9", "55006"), ("position", "positron", "XX001")] {
        std::fs::write(&path, manifest.replace(from, to)).unwrap();
        assert_eq!(Opening::new(disk(&directory), settings()).unwrap_err().sqlstate(), state, "{from}");
    }
    let none = Opening::new(disk(&directory), Settings { partitions: 0, ..settings() });
    assert_eq!(none.unwrap_err().sqlstate(), "22023");
}
