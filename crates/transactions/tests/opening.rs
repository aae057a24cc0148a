//! Opening in two steps: locking a directory, and reading its contents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{Opening, RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::{Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::interrupt::{Cause, Interrupt};
use thermocline_transactions::types::{Value, ValueRef};

use crate::hooked::{Hooked, Operation};

#[path = "common/hooked.rs"]
mod hooked;

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

/// Rows in a snapshot, and as many records after it.
fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let database = RowEngine::open(disk(&directory), settings()).unwrap();
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

/// Who looks at what is there may hold a lock that others wait for.
#[test]
fn the_device_is_measured_when_all_is_read() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let measured = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&measured);
    let hooked = Hooked::new(&disk, move |operation, _| {
        count.fetch_add(usize::from(operation == Operation::Measure), Ordering::SeqCst);
        Ok(())
    });
    let settings = Settings { eviction: Some(BlockStoreSettings::default()), ..settings() };
    let opening = Opening::new(Arc::new(hooked), settings).unwrap();
    assert_eq!((opening.partitions(), opening.bytes().unwrap(), measured.load(Ordering::SeqCst)), (2, 0, 0));
    opening.finish(&mut |_| {}).unwrap().close().unwrap();
    assert_eq!(measured.load(Ordering::SeqCst), 1);
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
    for (from, to, state) in [("format 3", "format 9", "55006"), ("position", "positron", "XX001")] {
        std::fs::write(&path, manifest.replace(from, to)).unwrap();
        assert_eq!(Opening::new(disk(&directory), settings()).unwrap_err().sqlstate(), state, "{from}");
    }
    let none = Opening::new(disk(&directory), Settings { partitions: 0, ..settings() });
    assert_eq!(none.unwrap_err().sqlstate(), "22023");
}

#[test]
fn rows_of_many_partitions_are_loaded_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let settings = || Settings { partitions: 5, ..settings() };
    let database = RowEngine::open(disk(&directory), settings()).unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) PARTITION BY (k)", &[]).unwrap();
    // A replicated table, and a small one with a second index.
    session.execute("CREATE TABLE u (k BIGINT PRIMARY KEY, v VARCHAR(20))", &[]).unwrap();
    session.execute("CREATE TABLE w (k BIGINT PRIMARY KEY, v BIGINT) PARTITION BY (k)", &[]).unwrap();
    session.execute("CREATE INDEX w_v ON w (v, k DESC)", &[]).unwrap();
    for (table, rows) in [("t", 30_000), ("u", 30_000), ("w", 20)] {
        let mut load = session.load(table, &["k", "v"]).unwrap();
        for k in 0..rows {
            let text = k.to_string();
            let v = if table == "u" { ValueRef::Text(&text) } else { ValueRef::Int(k * 7919 % 1000) };
            load.push(&[ValueRef::Int(k), v]).unwrap();
        }
        assert_eq!(load.finish().unwrap(), rows.cast_unsigned());
    }
    session.execute("ALTER TABLE u ADD COLUMN w BIGINT", &[]).unwrap();
    session.execute("DELETE FROM t WHERE v < 100", &[]).unwrap();
    let sums = |database: &RowEngine| {
        let mut session = database.session();
        let mut said = Vec::new();
        for sql in [
            "SELECT count(*), sum(k), sum(v) FROM t",
            "SELECT count(*), sum(k), max(v) FROM u",
            "SELECT k, v FROM w ORDER BY v",
        ] {
            let answer = session.execute(sql, &[]).unwrap();
            for row in 0..answer.rows.len() {
                said.push(answer.rows.row(row).map(|value| value.to_string()).collect::<Vec<_>>().join(" "));
            }
        }
        said
    };
    let before = sums(&database);
    database.snapshot().unwrap();
    drop(session);
    database.close().unwrap();
    let mut progress = Vec::new();
    let database = RowEngine::open_with_progress(disk(&directory), settings(), &mut |now| progress.push(*now)).unwrap();
    assert_eq!(sums(&database), before);
    let last = progress.last().unwrap();
    assert_eq!((last.rows, last.rows_total), (27_000 + 30_000 + 20, 27_000 + 30_000 + 20));
    assert!(progress.windows(2).all(|pair| pair[0].rows <= pair[1].rows));
    let mut session = database.session();
    for partition in session.statistics().unwrap().partitions {
        assert!(partition.tables.iter().any(|table| table.rows == 30_000), "{partition:?}");
    }
    drop(session);
    database.close().unwrap();
    assert!(RowEngine::check(disk(&directory), Vec::new(), &mut |_| {}).unwrap().is_sound());

    // Damage in the file of any partition is reported, and no thread remains.
    let rows = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let rows: Vec<_> = rows.filter(|path| path.extension().is_some_and(|extension| extension == "rows")).collect();
    assert_eq!(rows.len(), 5);
    for path in rows {
        let bytes = std::fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let error = RowEngine::open(disk(&directory), settings()).unwrap_err().to_string();
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(error.contains(&format!("{name}, offset ")) && error.ends_with("a chunk is damaged"), "{error}");
        std::fs::write(&path, bytes).unwrap();
    }
    let database = RowEngine::open(disk(&directory), settings()).unwrap();
    assert_eq!(sums(&database), before);
}

/// A file may be longer than any disk: recovery does not read it to its end.
#[test]
fn a_segment_that_somebody_has_made_longer_is_no_reason_to_read_for_ever() {
    const LONG: u64 = 1 << 40;
    let directory = filled();
    let segment = files(&directory).into_iter().rev().find(|(name, _)| name.starts_with("log-")).unwrap();
    let (path, bytes) = (directory.path().join(&segment.0), segment.1);
    let longer = |start: &[u8]| {
        std::fs::write(&path, start).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(LONG).unwrap();
    };
    let start = std::time::Instant::now();
    // After its end; after a group, whole or torn; in place of all groups, and of the header.
    for (cut, rows) in [(bytes.len(), 200), (bytes.len() / 2, 100), (300, 100), (64, 100), (0, 100)] {
        longer(&bytes[..cut]);
        let database = RowEngine::open(disk(&directory), settings()).unwrap();
        let cause = database.read_only().unwrap_or_else(|| panic!("{cut}")).cause.to_string();
        assert!(cause.contains(&format!("{}, offset ", segment.0)), "{cause}");
        assert!(cause.contains("to the end of the file, and are no records"), "{cause}");
        let counted = database.session().execute("SELECT count(*) FROM t", &[]).unwrap();
        let Value::Int(counted) = counted.rows.row(0).next().unwrap().to_value() else { panic!("a count") };
        assert!((rows..=200).contains(&counted), "{cut}: {counted}");
        drop(database);
        let report = RowEngine::check(disk(&directory), Vec::new(), &mut |_| {}).unwrap();
        assert!(!report.is_sound(), "{report}");
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    std::fs::write(&path, bytes).unwrap();
    let database = RowEngine::open(disk(&directory), settings()).unwrap();
    assert!(database.read_only().is_none());
}
