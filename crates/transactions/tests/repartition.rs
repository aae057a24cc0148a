//! Changing the number of partitions of a database with rows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_transactions::Result;
use thermocline_transactions::database::{Opening, RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::{Crash, Disk, Faults, SimulatedDisk};
use thermocline_transactions::types::Value;

const QUERIES: [&str; 4] = [
    "SELECT k, n, v FROM numbers ORDER BY k",
    "SELECT name, v FROM names ORDER BY name",
    "SELECT k, v FROM everywhere ORDER BY k",
    "SELECT k FROM numbers WHERE n BETWEEN 10 AND 20 ORDER BY n, k",
];

/// Settings with this number of partitions for the database, or with `None` its own.
fn settings(partitions: Option<u16>) -> Settings {
    Settings {
        partitions: partitions.unwrap_or(7),
        repartition: partitions.is_some(),
        seed: 3,
        snapshots: SnapshotSettings { interval: None, closing_log_bytes: u64::MAX, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

fn open(disk: &SimulatedDisk, partitions: Option<u16>) -> Result<RowEngine> {
    RowEngine::open(Arc::new(disk.clone()), settings(partitions))
}

/// Tables of every kind, some rows in a snapshot and some after it.
fn filled(disk: &SimulatedDisk, with_snapshot: bool) {
    let database = RowEngine::open(Arc::new(disk.clone()), Settings { partitions: 2, ..settings(None) }).unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE numbers (k BIGINT PRIMARY KEY, n INTEGER NOT NULL, v BIGINT) PARTITION BY (k)",
        "CREATE INDEX numbers_n ON numbers (n)",
        "CREATE TABLE names (name VARCHAR(20) PRIMARY KEY, v DECIMAL(10, 2)) PARTITION BY (name)",
        "CREATE TABLE everywhere (k BIGINT PRIMARY KEY, v BIGINT)",
        "CREATE TABLE empty (k BIGINT PRIMARY KEY) PARTITION BY (k)",
    ] {
        session.execute(sql, &[]).unwrap();
    }
    for k in 0..60 {
        session
            .execute("INSERT INTO numbers VALUES ($1, $2, $3)", &[k.into(), (k * 7 % 30).into(), (k * k).into()])
            .unwrap();
        session.execute("INSERT INTO names VALUES ($1, 1.25)", &[format!("name {k}").as_str().into()]).unwrap();
        session.execute("INSERT INTO everywhere VALUES ($1, 1)", &[k.into()]).unwrap();
        if k == 40 && with_snapshot {
            database.snapshot().unwrap();
        }
    }
    session.execute("DELETE FROM numbers WHERE k % 5 = 0", &[]).unwrap();
    drop(session);
    database.close().unwrap();
}

fn content(database: &RowEngine) -> Vec<String> {
    let mut session = database.session();
    let mut lines = Vec::new();
    for sql in QUERIES {
        let answer = session.execute(sql, &[]).unwrap();
        let row = |row| answer.rows.row(row).map(|value| value.to_string()).collect::<Vec<_>>().join(" ");
        lines.extend((0..answer.rows.len()).map(row));
    }
    lines
}

fn is_sound(disk: &SimulatedDisk) {
    let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
fn a_database_gets_other_partitions_and_goes_on() {
    for with_snapshot in [false, true] {
        let disk = SimulatedDisk::new(1, Faults::default());
        filled(&disk, with_snapshot);
        let mut expected = content(&open(&disk, None).unwrap());
        let mut key = 1000_i64;
        for (wanted, partitions) in
            [(None, 2), (Some(2), 2), (Some(5), 5), (None, 5), (Some(1), 1), (Some(3), 3), (None, 3)]
        {
            is_sound(&disk);
            let opening = Opening::new(Arc::new(disk.clone()), settings(wanted)).unwrap();
            assert_eq!(opening.partitions(), partitions);
            let database = opening.finish(&mut |_| {}).unwrap();
            assert_eq!((database.identity().partitions, database.read_only()), (partitions, None));
            assert_eq!(content(&database), expected, "{wanted:?}");
            let mut session = database.session();
            let statistics = session.statistics().unwrap();
            assert_eq!(statistics.partitions.len(), usize::from(partitions));
            // Each has some rows of a partitioned table, and all of a replicated one.
            for partition in &statistics.partitions {
                let rows: Vec<_> = partition.tables.iter().map(|table| table.rows).collect();
                assert!(rows[0] > 0 && rows[1] > 0 && rows[2] == 60, "{rows:?}");
            }
            // Rows written now are there the next time, after a log with another number.
            key += 1;
            session.execute("INSERT INTO numbers VALUES ($1, 15, 0)", &[key.into()]).unwrap();
            session.execute("UPDATE names SET v = v + 1 WHERE name < 'name 3'", &[]).unwrap();
            drop(session);
            expected = content(&database);
            if partitions == 1 {
                database.snapshot().unwrap();
            }
            database.close().unwrap();
        }
        is_sound(&disk);
    }
}

/// Power loss, or the end of the process, in the middle of any operation: the old number or the new, and all rows.
#[test]
fn a_crash_leaves_the_old_partitions_or_the_new() {
    let mut seen = BTreeSet::new();
    for (seed, with_snapshot) in [(1, true), (2, false), (3, true)] {
        let mut operations = 0;
        loop {
            let disk = SimulatedDisk::new(seed * 1000 + operations, Faults::default());
            filled(&disk, with_snapshot);
            let expected = content(&open(&disk, None).unwrap());
            disk.crash_after(Some(operations));
            let opened = open(&disk, Some(3));
            let crashed = disk.crashed();
            assert_eq!(opened.is_err(), crashed, "operation {operations}: {opened:?}");
            drop(opened);
            disk.restart(if operations % 3 == 0 { Crash::Process } else { Crash::Power });
            is_sound(&disk);
            let database = open(&disk, None).unwrap();
            let partitions = database.identity().partitions;
            assert!(database.read_only().is_none(), "operation {operations}: {:?}", database.read_only());
            assert_eq!(content(&database), expected, "seed {seed}, operation {operations}");
            seen.insert((crashed, partitions));
            drop(database);
            // Again, and now nothing fails.
            let database = open(&disk, Some(3)).unwrap();
            assert_eq!((database.identity().partitions, content(&database)), (3, expected));
            drop(database);
            is_sound(&disk);
            if !crashed {
                break;
            }
            operations += 1;
        }
        assert!(operations > 20, "{operations}");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(false, 3), (true, 2), (true, 3)]);
}

#[test]
fn what_cannot_be_written_leaves_the_old_partitions() {
    let disk = SimulatedDisk::new(5, Faults::default());
    filled(&disk, true);
    let expected = content(&open(&disk, None).unwrap());
    let mut failed = 0;
    for rate in [1, 4, 16, 64] {
        for _ in 0..20 {
            disk.set_faults(Faults { full: rate, ..Faults::default() });
            let opened = open(&disk, Some(3));
            disk.set_faults(Faults::default());
            match opened {
                Ok(database) => assert_eq!(content(&database), expected),
                Err(error) => {
                    assert_eq!(error.sqlstate(), "53100", "{error}");
                    failed += 1;
                }
            }
            let database = open(&disk, Some(2)).unwrap();
            assert_eq!((database.identity().partitions, content(&database)), (2, expected.clone()));
        }
    }
    assert!(failed > 10, "{failed}");
}

/// Nothing is written to a damaged database.
#[test]
fn a_database_that_can_only_be_read_keeps_its_partitions() {
    let disk = SimulatedDisk::new(5, Faults::default());
    filled(&disk, true);
    let last = disk.list().unwrap().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let mut bytes = thermocline_transactions::disk::read_file(&disk, &last, 1 << 30).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.overwrite(&last, bytes);
    let operations = disk.operations();
    let database = open(&disk, Some(3)).unwrap();
    assert!(database.read_only().is_some());
    assert_eq!((database.identity().partitions, disk.operations()), (2, operations));
    let rows = database.session().execute("SELECT count(*) FROM numbers", &[]).unwrap();
    assert!(matches!(rows.rows.row(0).next().unwrap().to_value(), Value::Int(41..60)));
}
