//! Statements that need no more of a row than its key answer from the index, also where the row is in a block.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Disk, Faults, SimulatedDisk};
use thermocline_transactions::types::{Error, Value};

const ROWS: i64 = 2000;

fn open(disk: &SimulatedDisk, eviction: bool) -> RowEngine {
    let eviction = eviction.then(|| BlockStoreSettings { segment_bytes: 1 << 20, ..Default::default() });
    let settings = Settings { memory_bytes_max: 64 << 20, eviction, partitions: 2, seed: 1, ..Settings::default() };
    RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
}

fn fill(session: &mut RowSession) {
    let columns = "k BIGINT PRIMARY KEY, a INTEGER, b TEXT, d DECIMAL(9, 2) NOT NULL, f DOUBLE PRECISION, x BIGINT, \
                   u BIGINT, v TEXT NOT NULL";
    for sql in [
        &format!("CREATE TABLE t ({columns}) PARTITION BY (k)"),
        "CREATE INDEX t_ab ON t (a, b DESC)",
        "CREATE INDEX t_d ON t (d DESC, k)",
        "CREATE INDEX t_f ON t (f, k)",
        "CREATE INDEX t_x ON t USING HASH (x)",
        "CREATE UNIQUE INDEX t_u ON t (u, k)",
        "CREATE TABLE groups (a INTEGER PRIMARY KEY, name TEXT NOT NULL) WITH (evictable = false)",
    ] {
        session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for k in 0..ROWS {
        let sql = "INSERT INTO t VALUES ($1, CASE WHEN $1 % 10 = 0 THEN NULL ELSE $1 % 50 END, \
                   CASE WHEN $1 % 7 = 0 THEN NULL ELSE 'b' || ($1 % 13) END, $1 % 100 / 4.0, \
                   $3, CASE WHEN $1 % 9 = 0 THEN NULL ELSE $1 / 3 END, \
                   CASE WHEN $1 % 4 = 0 THEN NULL ELSE $1 % 5 END, $2)";
        let f = Value::Float(if k % 2 == 0 { -0.0 } else { f64::from(i32::try_from(k).unwrap()) / 8.0 });
        session.execute(sql, &[Value::Int(k), Value::Text("v".repeat(500).into()), f]).unwrap();
    }
    for a in 0..60 {
        session.execute("INSERT INTO groups VALUES ($1, 'group ' || $1)", &[Value::Int(a)]).unwrap();
    }
}

/// Rows of `t` in memory and in blocks, those that came back, and reads of blocks.
fn counts(session: &mut RowSession) -> [u64; 4] {
    let mut counts = [0; 4];
    for partition in session.statistics().unwrap().partitions {
        for table in partition.tables.iter().filter(|table| &*table.table.name == "t") {
            counts[0] += table.live_rows as u64;
            counts[1] += table.evicted_rows as u64;
            counts[2] += table.returned_total;
        }
        counts[3] += partition.blocks.map_or(0, |blocks| blocks.reads_total);
    }
    counts
}

/// Has all rows go to blocks.
fn evict_all(database: &RowEngine, session: &mut RowSession) {
    database.set_memory_bytes_max(64 << 10);
    let start = Instant::now();
    while counts(session)[0] > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", counts(session));
        std::thread::sleep(Duration::from_millis(1));
    }
    database.set_memory_bytes_max(64 << 20);
}

fn answer(session: &mut RowSession, sql: &str, parameters: &[Value]) -> Result<(Vec<Vec<Value>>, u64), Error> {
    let answer = session.execute(sql, parameters)?;
    Ok((answer.rows.iter().map(|row| row.map(|value| value.to_value()).collect()).collect(), answer.affected))
}

const COVERED: &[&str] = &[
    // Complete keys.
    "SELECT k FROM t WHERE k = 17",
    "SELECT 1 FROM t WHERE k = 17",
    "SELECT k FROM t WHERE k = -1",
    "SELECT k + 1, k FROM t WHERE k = 17 AND k % 2 = 1",
    "SELECT count(*) FROM t WHERE k = 17",
    "SELECT count(*) FROM t WHERE k IN (1, 5, 7, 100000)",
    "SELECT k FROM t WHERE k IN (1, 5, 7, 100000) AND k > 1",
    "SELECT count(*), min(x) FROM t WHERE x = 8",
    "SELECT x FROM t WHERE x IN (5, 6, 7)",
    // Conditions that use up the key.
    "SELECT count(*) FROM t WHERE f = 0",
    // Beginnings of keys, ranges, and NULLs.
    "SELECT a, b FROM t WHERE a = 11 ORDER BY a, b DESC",
    "SELECT a, b FROM t WHERE a = 11 ORDER BY b",
    "SELECT count(*), count(b), count(DISTINCT b), max(b) FROM t WHERE a = 11",
    "SELECT b, count(*) FROM t WHERE a IN (11, 12, 13) GROUP BY b HAVING count(*) > 3 ORDER BY 2, 1",
    "SELECT a, count(*) FROM t WHERE a BETWEEN 10 AND 15 GROUP BY a ORDER BY a",
    "SELECT a, count(*) FROM t WHERE a > 47 AND b IS NULL GROUP BY a ORDER BY a",
    "SELECT DISTINCT b FROM t WHERE a BETWEEN 40 AND 45 ORDER BY b",
    "SELECT u, k FROM t WHERE u >= 0 AND k > 1990 ORDER BY u DESC, k",
    "SELECT count(*) FROM t WHERE a = 11 AND b LIKE 'b1%'",
    "SELECT d, k FROM t WHERE d > 20 ORDER BY d DESC, k LIMIT 10",
    "SELECT d, k FROM t WHERE d > 20 ORDER BY d, k DESC LIMIT 10 OFFSET 7",
    "SELECT d FROM t ORDER BY d DESC LIMIT 3",
    "SELECT max(d), min(d) FROM t WHERE d < 13.5",
    "SELECT max(d) FROM t",
    "SELECT u, k FROM t WHERE u = 3 ORDER BY k DESC LIMIT 5",
    "SELECT k FROM t WHERE f > 20 ORDER BY k",
    // No column at all.
    "SELECT count(*) FROM t",
    "SELECT 7 FROM t LIMIT 3",
    // Joins that need no more.
    "SELECT a.k, b.k FROM t a JOIN t b ON b.k = a.k WHERE a.k IN (3, 4, 5)",
    "SELECT a.k, b.k FROM t a LEFT JOIN t b ON b.k = a.k AND b.k > 4 WHERE a.k IN (3, 4, 5)",
    "SELECT name, b FROM t JOIN groups ON groups.a = t.a WHERE t.a = 11 ORDER BY b",
    // Keys that exist already.
    "INSERT INTO t VALUES (17, 1, 'b', 1, 1, 1, 1, 'v')",
    "INSERT INTO t VALUES (17, 1, 'b', 1, 1, 1, 1, 'v') ON CONFLICT DO NOTHING",
    // Rows that the key excludes from a change.
    "UPDATE t SET v = 'x' WHERE k = 17 AND k % 2 = 0",
    "DELETE FROM t WHERE a = 11 AND b LIKE 'c%'",
];

#[test]
fn keys_answer_for_evicted_rows() {
    let (disk, other) = (SimulatedDisk::new(1, Faults::default()), SimulatedDisk::new(1, Faults::default()));
    let (database, in_memory) = (open(&disk, true), open(&other, false));
    let (mut session, mut expected) = (database.session(), in_memory.session());
    fill(&mut session);
    fill(&mut expected);
    evict_all(&database, &mut session);
    let before = counts(&mut session);
    assert_eq!(before[..2], [0, ROWS as u64]);
    for sql in COVERED {
        let expected = answer(&mut expected, sql, &[]);
        assert!(expected.as_ref().err().is_none_or(|error| error.sqlstate() == "23505"), "{sql}: {expected:?}");
        assert_eq!(answer(&mut session, sql, &[]), expected, "{sql}");
        assert_eq!(counts(&mut session), before, "{sql}");
    }
    // Several runs of one statement, and a statement in a transaction.
    for k in -5..50 {
        let sql = "SELECT k FROM t WHERE k = $1";
        assert_eq!(answer(&mut session, sql, &[Value::Int(k)]), answer(&mut expected, sql, &[Value::Int(k)]), "{k}");
    }
    for sql in ["BEGIN", "SELECT count(*) FROM t WHERE a = 11", "SELECT k FROM t WHERE k = 3", "COMMIT"] {
        assert_eq!(answer(&mut session, sql, &[]), answer(&mut expected, sql, &[]), "{sql}");
    }
    assert_eq!(counts(&mut session), before);
    // Zeros have a sign in the row and none in the key.
    let sql = "SELECT f, k FROM t WHERE f <= 1 ORDER BY k LIMIT 20";
    let signs = |answer: Result<(Vec<Vec<Value>>, u64), Error>| -> Vec<u64> {
        let rows = answer.unwrap().0.into_iter();
        rows.map(|row| if let Value::Float(f) = row[0] { f.to_bits() } else { panic!("{row:?}") }).collect()
    };
    let found = signs(answer(&mut session, sql, &[]));
    assert_eq!(found, signs(answer(&mut expected, sql, &[])));
    assert!(found.contains(&(-0.0_f64).to_bits()));
    assert!(counts(&mut session)[3] > before[3], "such columns are read");
    // Some rows are back, others are not.
    for k in (0..ROWS).step_by(3) {
        answer(&mut session, "SELECT v FROM t WHERE k = $1", &[Value::Int(k)]).unwrap();
    }
    let before = counts(&mut session);
    assert!(before[0] > 600 && before[1] > 500, "{before:?}");
    for sql in COVERED {
        assert_eq!(answer(&mut session, sql, &[]), answer(&mut expected, sql, &[]), "{sql}");
    }
    assert_eq!(counts(&mut session), before);
}

/// What the keys answer does not depend on the blocks, which may be damaged.
#[test]
fn keys_answer_for_damaged_blocks() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, true);
    let mut session = database.session();
    fill(&mut session);
    evict_all(&database, &mut session);
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with("blocks-")) {
        let length = disk.open(name).unwrap().length().unwrap();
        disk.overwrite(name, vec![7; usize::try_from(length).unwrap()]);
    }
    assert!(answer(&mut session, "SELECT v FROM t WHERE k = 17", &[]).is_err());
    assert_eq!(answer(&mut session, "SELECT k FROM t WHERE k = 17", &[]).unwrap().0, [[Value::Int(17)]]);
    assert_eq!(answer(&mut session, "SELECT count(*) FROM t", &[]).unwrap().0, [[Value::Int(ROWS)]]);
}
