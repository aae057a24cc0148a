//! Snapshots of tables larger than memory: they refer to blocks, and a start reads none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use thermocline_transactions::backup::restore;
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Crash, Disk, Faults, SimulatedDisk};
use thermocline_transactions::types::Value;

use crate::evicting::{LIMIT, block_bytes, int, open, run, text};

#[path = "common/evicting.rs"]
mod evicting;

const ROWS: i64 = 40_000;

fn create(session: &mut RowSession) {
    run(session, "CREATE TABLE t (k BIGINT PRIMARY KEY, g INTEGER, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    run(session, "CREATE INDEX t_g ON t (g)", &[]);
}

/// Rows of about 1 KB; every seventh has no group.
fn insert(session: &mut RowSession, keys: impl Iterator<Item = i64>) {
    for k in keys {
        let g = if k % 7 == 0 { Value::Null } else { Value::Int(k % 1000) };
        run(session, "INSERT INTO t (k, g, v) VALUES ($1, $2, $3)", &[Value::Int(k), g, text(1000, k)]);
    }
}

/// A database whose rows are in blocks for the most part.
fn filled(disk: &SimulatedDisk) -> RowEngine {
    let database = open(disk, LIMIT);
    let mut session = database.session();
    create(&mut session);
    insert(&mut session, 0..ROWS);
    database
}

/// All rows as text, read in the order of keys and by both indexes.
fn content(database: &RowEngine) -> Vec<String> {
    let mut session = database.session();
    let mut rows = Vec::new();
    for from in (0..2 * ROWS).step_by(2000) {
        let bounds = [Value::Int(from), Value::Int(from + 2000)];
        let answer = run(&mut session, "SELECT * FROM t WHERE k >= $1 AND k < $2 ORDER BY k", &bounds);
        rows.extend(answer.rows.iter().map(|row| row.map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" ")));
    }
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t", &[])), rows.len() as i64);
    for g in (1..1000).step_by(97) {
        let by_index = int(&run(&mut session, "SELECT count(k) FROM t WHERE g = $1", &[Value::Int(g)]));
        let by_scan = rows.iter().filter(|row| row.split(' ').nth(1) == Some(&format!("Int({g})"))).count();
        assert_eq!(by_index, by_scan as i64, "group {g}");
    }
    rows
}

fn bytes_of(disk: &SimulatedDisk, prefix: &str) -> u64 {
    let names = disk.list().unwrap().into_iter().filter(|name| name.starts_with(prefix));
    names.map(|name| disk.open(&name).unwrap().length().unwrap()).sum()
}

fn evicted(database: &RowEngine) -> (u64, u64) {
    let statistics = database.session().statistics().unwrap();
    let blocks = statistics.partitions.iter().map(|part| part.blocks.unwrap());
    blocks.fold((0, 0), |(rows, reads), blocks| (rows + blocks.rows, reads + blocks.reads_total))
}

#[test]
fn a_snapshot_copies_no_evicted_row_and_a_start_reads_none() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = filled(&disk);
    let (rows, reads) = evicted(&database);
    assert!(rows > 20_000, "{rows}");
    database.snapshot().unwrap();
    assert_eq!(evicted(&database).1, reads, "the snapshot has read blocks");
    assert!(bytes_of(&disk, "snapshot-") < 25 << 20, "{} bytes", bytes_of(&disk, "snapshot-"));
    let expected = content(&database);
    // Rows leave their blocks, which stay for the snapshot, and half of them are gone.
    let mut session = database.session();
    for k in (0..ROWS).step_by(2) {
        run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]);
    }
    insert(&mut session, (0..ROWS).step_by(2));
    assert_eq!(content(&database), expected);
    drop((session, database));
    disk.restart(Crash::Power);

    let database = open(&disk, LIMIT);
    assert_eq!(content(&database), expected);
    database.snapshot().unwrap();
    drop(database);
    let database = open(&disk, LIMIT);
    let (rows, reads) = evicted(&database);
    assert!(rows > 20_000 && reads == 0, "{rows} rows evicted, {reads} reads");
    assert!(database.memory().used_bytes() <= LIMIT);
    assert_eq!(content(&database), expected);

    // What no snapshot refers to any more is removed.
    database.snapshot().unwrap();
    let live = 1100 * evicted(&database).0;
    assert!(block_bytes(&disk) < 2 * live + (10 << 20), "{} bytes for {live}", block_bytes(&disk));
    let mut session = database.session();
    run(&mut session, "TRUNCATE t", &[]);
    database.snapshot().unwrap();
    assert!(block_bytes(&disk) < 3 << 20, "{} bytes for no row", block_bytes(&disk));
}

/// Files that stay for a snapshot alone go when the database is closed, however few bytes of log have made them useless.
#[test]
fn blocks_of_a_dropped_table_do_not_outlast_the_end() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = filled(&disk);
    database.snapshot().unwrap();
    run(&mut database.session(), "DROP TABLE t", &[]);
    assert!(block_bytes(&disk) > 16 << 20, "{} bytes that the snapshot needs", block_bytes(&disk));
    database.close().unwrap();
    assert!(block_bytes(&disk) < 3 << 20, "{} bytes for no row", block_bytes(&disk));
}

/// The same database after a snapshot and a start, which have all of its rows.
fn started_from_a_snapshot(disk: &SimulatedDisk, database: RowEngine) -> RowEngine {
    let expected = content(&database);
    database.snapshot().unwrap();
    drop(database);
    let database = open(disk, LIMIT);
    assert_eq!(content(&database), expected);
    database
}

/// Columns that rows in blocks do not have, and indexes whose keys are in no directory.
#[test]
fn definitions_and_rows_in_blocks_outlast_a_start() {
    let disk = SimulatedDisk::new(2, Faults::default());
    let database = filled(&disk);
    let mut session = database.session();
    run(&mut session, "ALTER TABLE t ADD COLUMN a BIGINT DEFAULT 5 NOT NULL", &[]);
    insert(&mut session, ROWS..ROWS + 10_000);
    run(&mut session, "ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'some'", &[]);
    run(&mut session, "UPDATE t SET a = 6, b = 'other' WHERE k = 77", &[]);
    run(&mut session, "DROP INDEX t_g", &[]);
    run(&mut session, "CREATE INDEX t_gk ON t (g, k)", &[]);
    drop(session);
    let database = started_from_a_snapshot(&disk, database);
    // Blocks with the later columns, beside those without.
    let mut session = database.session();
    insert(&mut session, ROWS + 10_000..ROWS + 15_000);
    run(&mut session, "ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 9", &[]);
    drop(session);
    started_from_a_snapshot(&disk, database);
}

/// Each way in which a database with rows in blocks can be opened or copied.
#[test]
fn the_same_rows_wherever_they_go() {
    let disk = SimulatedDisk::new(3, Faults::default());
    let database = filled(&disk);
    let mut session = database.session();
    // A layout of rows in blocks, which means nothing where they are not.
    run(&mut session, "ALTER TABLE t ADD COLUMN a BIGINT DEFAULT 5 NOT NULL", &[]);
    run(&mut session, "CREATE TABLE everywhere (k BIGINT PRIMARY KEY, v TEXT NOT NULL)", &[]);
    for k in 0..15_000 {
        run(&mut session, "INSERT INTO everywhere VALUES ($1, $2)", &[Value::Int(k), text(1000, k)]);
    }
    let replicated = |database: &RowEngine| {
        let mut session = database.session();
        let sum = run(&mut session, "SELECT sum(length(v) + k) FROM everywhere", &[]);
        format!("{:?}", sum.rows.value(0, 0))
    };
    let look = |database: &RowEngine| (content(database), replicated(database));
    let expected = look(&database);
    let there = SimulatedDisk::new(4, Faults::default());
    let manifest = database.backup(&there).unwrap();
    assert!(!manifest.references.segments.is_empty());
    // Later rows are in the log.
    insert(&mut session, ROWS..ROWS + 100);
    let later = look(&database);
    drop((session, database));

    let restored = SimulatedDisk::new(5, Faults::default());
    restore(&there, &restored).unwrap();
    assert_eq!(look(&open(&restored, LIMIT)), expected, "a backup");
    let until = Arc::new(SimulatedDisk::new(6, Faults::default()));
    let from: Arc<dyn Disk> = Arc::new(disk.clone());
    RowEngine::restore_until(&from, until.clone(), Vec::new(), manifest.position.next(), &mut |_| {}).unwrap();
    assert_eq!(look(&open(&until, LIMIT)).0.len(), expected.0.len() + 1, "up to a record");
    let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report}");
    let settings = |partitions, eviction| Settings {
        memory_bytes_max: if eviction { LIMIT } else { u64::MAX },
        eviction: eviction.then(BlockStoreSettings::default),
        partitions,
        repartition: true,
        ..Settings::default()
    };
    for (partitions, eviction) in [(2, false), (3, true), (1, true)] {
        let database = RowEngine::open(Arc::new(disk.clone()), settings(partitions, eviction)).unwrap();
        assert_eq!(look(&database), later, "{partitions} partitions, eviction {eviction}");
        if !eviction {
            database.snapshot().unwrap();
            assert_eq!(block_bytes(&disk), 0, "all rows are in the snapshot");
        }
    }
}

/// Damage of files to which the snapshot refers: it is found, and named.
#[test]
fn a_damaged_block_is_named() {
    let disk = SimulatedDisk::new(7, Faults::default());
    let database = filled(&disk);
    database.snapshot().unwrap();
    drop(database);
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("blocks-")).unwrap();
    let file = disk.open(&name).unwrap();
    let mut whole = vec![0; file.length().unwrap() as usize];
    file.read_at(0, &mut whole).unwrap();
    let fails = |what: &str| {
        let settings =
            Settings { memory_bytes_max: LIMIT, eviction: Some(BlockStoreSettings::default()), ..Settings::default() };
        let error = RowEngine::open(Arc::new(disk.clone()), settings).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains(what), "{error}");
        let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains(&name)), "{report}");
    };
    disk.overwrite(&name, whole[..whole.len() / 2].to_vec());
    fails("bytes");
    disk.remove(&name).unwrap();
    fails("missing");
    fails(" rows of table \"t\" are in it");
    // One row in the first block: it alone cannot be read.
    let mut damaged = whole.clone();
    damaged[4096 + 500] ^= 1;
    disk.overwrite(&name, damaged);
    let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
    let named = [&name, "block ", " at byte 4096 of table \"t\" is damaged"];
    assert!(named.iter().all(|part| report.problems[0].contains(part)), "{report}");
    let database = open(&disk, LIMIT);
    // A backup would have the damage, too. What is there of it does not open.
    let there = SimulatedDisk::new(8, Faults::default());
    let error = database.backup(&there).unwrap_err().to_string();
    assert!(named.iter().all(|part| error.contains(part)), "{error}");
    let error = RowEngine::open(Arc::new(there), Settings::default()).unwrap_err().to_string();
    assert!(error.contains("a backup into this directory was interrupted"), "{error}");
    let mut session = database.session();
    let mut failed = 0;
    for k in 0..ROWS {
        match session.execute("SELECT length(v) FROM t WHERE k = $1", &[Value::Int(k)]) {
            Ok(answer) => assert_eq!(int(&answer), 1000),
            Err(error) => {
                assert!(error.sqlstate() == "XX001" && error.to_string().contains(&name), "{error}");
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 1);
    // Snapshots do not read blocks.
    database.snapshot().unwrap();
    drop((session, database));
    disk.overwrite(&name, whole);
    assert_eq!(content(&open(&disk, LIMIT)).len(), ROWS as usize);
}

/// From damage to a whole table: a check names the keys of the lost rows; once they are deleted by key, scans work.
#[test]
fn lost_rows_are_named_and_deleted() {
    let disk = SimulatedDisk::new(7, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    for k in 0..ROWS {
        run(&mut session, "INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text(1000, k)]);
    }
    drop(session);
    database.snapshot().unwrap();
    drop(database);
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("blocks-")).unwrap();
    let file = disk.open(&name).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    // The header of the first block, the length of its first row, and the text of its third.
    for at in [4096, 4096 + 28, 4096 + 28 + 2500] {
        bytes[at] ^= 1;
    }
    disk.overwrite(&name, bytes);

    let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
    let (_, keys) = report.problems[0].split_once("with the keys ").unwrap_or_else(|| panic!("{report}"));
    let mut keys: Vec<i64> = keys.split(", ").map(|key| key.trim_matches(['(', ')']).parse().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys.len(), 2, "{report}");

    let database = open(&disk, LIMIT);
    let mut session = database.session();
    let scan = "SELECT count(*) FROM t WHERE length(v) = 1000";
    let error = session.execute(scan, &[]).unwrap_err();
    let text = error.to_string();
    assert!(error.sqlstate() == "XX001" && text.contains("table \"t\": ") && text.contains(&name), "{error}");
    assert!(text.contains("'thermocline check' names the keys"), "{error}");
    let by_key = "SELECT length(v) FROM t WHERE k = $1";
    let lost: Vec<i64> = (0..ROWS).filter(|k| session.execute(by_key, &[Value::Int(*k)]).is_err()).collect();
    assert_eq!(lost, keys);
    for key in &keys {
        assert_eq!(run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(*key)]).affected, 1);
    }
    let left = ROWS - keys.len() as i64;
    assert_eq!(int(&run(&mut session, scan, &[])), left);
    drop((session, database));
    for snapshot in [false, true] {
        let database = open(&disk, LIMIT);
        assert_eq!(int(&run(&mut database.session(), scan, &[])), left);
        if snapshot {
            database.snapshot().unwrap();
        }
    }
    let report = RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap();
    assert!(!report.to_string().contains("with the key"), "{report}");
}
