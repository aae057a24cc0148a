//! Tables larger than memory: rows go to blocks and come back, and nobody can tell but by the memory that they take.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Error;
use thermocline_transactions::blocks::{BlockStoreSettings, Fetching, FillFactor, Merge, SamplingRate, Victims};
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::partition::WaitStatistics;
use thermocline_transactions::table::BlockStatistics;
use thermocline_transactions::types::{Value, ValueRef};

use crate::evicting::{
    LIMIT, block_bytes, create_groups, fill_groups, int, open, open_on, run, settings, text, wait_for_memory,
};
use crate::hooked::{Hooked, Operation};

#[path = "common/evicting.rs"]
mod evicting;
#[path = "common/hooked.rs"]
mod hooked;

/// Makes a table of rows of 1 KB.
fn fill(session: &mut RowSession, table: &str, rows: i64) {
    run(session, &format!("CREATE TABLE {table} (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)"), &[]);
    for k in 0..rows {
        run(session, &format!("INSERT INTO {table} VALUES ($1, $2)"), &[Value::Int(k), text(1000, k)]);
    }
}

/// Three times as many bytes of rows as memory, read and changed at random in every way.
#[test]
fn a_table_larger_than_memory_is_what_a_map_is() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    create_groups(&mut session);
    run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
    let mut model: BTreeMap<i64, (i64, Value)> = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(7);
    for k in 0..60_000 {
        let v = text(1000, k);
        run(&mut session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), Value::Int(k % 100), v.clone()]);
        model.insert(k, (k % 100, v));
    }
    assert!(block_bytes(&disk) > 40 << 20, "{} bytes in blocks", block_bytes(&disk));
    for step in 0..4000 {
        let k = rng.random_range(0..60_000);
        let known = model.get(&k).cloned();
        match step % 6 {
            0 => {
                let v = text(rng.random_range(0..2000), step);
                let affected =
                    run(&mut session, "UPDATE t SET v = $2 WHERE k = $1", &[Value::Int(k), v.clone()]).affected;
                assert_eq!(affected, u64::from(known.is_some()));
                model.entry(k).and_modify(|row| row.1 = v);
            }
            1 => {
                let affected = run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]).affected;
                assert_eq!(affected, u64::from(model.remove(&k).is_some()));
            }
            2 if known.is_none() => {
                run(&mut session, "INSERT INTO t VALUES ($1, 5, 'new')", &[Value::Int(k)]);
                model.insert(k, (5, Value::Text("new".into())));
            }
            2 => {
                let error = session.execute("INSERT INTO t VALUES ($1, 5, 'new')", &[Value::Int(k)]).unwrap_err();
                assert_eq!(error.sqlstate(), "23505");
            }
            3 => {
                let group = k % 100;
                let answer = run(&mut session, "SELECT count(*), sum(k) FROM t WHERE g = $1", &[Value::Int(group)]);
                assert_eq!(int(&answer), model.values().filter(|(g, _)| *g == group).count() as i64);
            }
            _ => {
                let answer = run(&mut session, "SELECT g, v FROM t WHERE k = $1", &[Value::Int(k)]);
                let found =
                    answer.rows.iter().map(|mut row| (row.next().unwrap().to_value(), row.next().unwrap().to_value()));
                let found: Vec<(Value, Value)> = found.collect();
                assert_eq!(found, known.map(|(g, v)| (Value::Int(g), v)).into_iter().collect::<Vec<_>>(), "row {k}");
            }
        }
        if step % 1000 == 0 {
            let memory = database.memory();
            assert!(memory.used_bytes() <= LIMIT, "{memory:?}");
        }
    }
    // By an index, over all rows, and in a transaction of several statements.
    let in_group = |group: i64| model.values().filter(|(g, _)| *g == group).count() as i64;
    assert_eq!(
        int(&run(&mut session, "SELECT count(*) FROM t WHERE g = 17 AND length(v) > 0", &[])),
        model.values().filter(|(g, v)| *g == 17 && *v != Value::Text("".into())).count() as i64
    );
    run(&mut session, "BEGIN", &[]);
    run(&mut session, "UPDATE t SET g = g + 1000 WHERE g = 17", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE g = 1017", &[])), in_group(17));
    run(&mut session, "ROLLBACK", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE g = 17", &[])), in_group(17));
    wait_for_memory(&database, LIMIT);
    // The snapshot has all rows, wherever they are, and so has the database that is made from it.
    database.snapshot().unwrap();
    drop(session);
    drop(database);
    let database = open(&disk, 512 << 20);
    let answer = run(&mut database.session(), "SELECT k, g, v FROM t ORDER BY k", &[]);
    assert_eq!(answer.rows.len(), model.len());
    for (mut row, (k, (g, v))) in answer.rows.iter().zip(&model) {
        let values: [Value; 3] = std::array::from_fn(|_| row.next().unwrap().to_value());
        assert_eq!(values, [Value::Int(*k), Value::Int(*g), v.clone()]);
    }
}

/// A session changes rows, then reads more than memory holds: what it has changed stays until it is over, and can be
/// changed back.
#[test]
fn rows_that_a_transaction_has_changed_stay() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 40_000);
    for end in ["ROLLBACK", "COMMIT"] {
        run(&mut session, "BEGIN", &[]);
        for k in (0..1000).step_by(10) {
            run(&mut session, "UPDATE t SET v = 'changed' WHERE k = $1", &[Value::Int(k)]);
        }
        for k in 1000..40_000 {
            run(&mut session, "SELECT v FROM t WHERE k = $1", &[Value::Int(k)]);
        }
        run(&mut session, end, &[]);
        let changed = (0..1000).filter(|k| {
            let answer = run(&mut session, "SELECT length(v) FROM t WHERE k = $1", &[Value::Int(*k)]);
            int(&answer) == 7
        });
        assert_eq!(changed.count(), if end == "COMMIT" { 100 } else { 0 });
    }
}

/// A procedure waits once for the evicted rows of all its statements, and does then what it would have done without.
#[test]
fn a_procedure_waits_for_the_rows_of_all_its_statements() {
    const CALLS: u64 = 100;
    let disk = SimulatedDisk::new(1, Faults::default());
    let settings = Settings { partitions: 1, ..evicting::settings(LIMIT) };
    let database = RowEngine::open(Arc::new(disk), settings).unwrap();
    let mut session = database.session();
    fill(&mut session, "t", 30_000);
    let body = "UPDATE t SET v = 'changed' WHERE k = a AND v <> ''; CALL length_of(c); \
                DELETE FROM t WHERE k = b AND v <> ''; INSERT INTO t VALUES (b, 'new'); CALL length_of(c)";
    let length = "SELECT length(v) FROM t WHERE k = c";
    run(&mut session, &format!("CREATE PROCEDURE length_of(c BIGINT) LANGUAGE sql AS $$ {length} $$"), &[]);
    run(&mut session, &format!("CREATE PROCEDURE p(a BIGINT, b BIGINT, c BIGINT) LANGUAGE sql AS $$ {body} $$"), &[]);
    wait_for_memory(&database, LIMIT);
    let waits = |session: &mut RowSession| session.statistics().unwrap().partitions[0].waits;
    let before = waits(&mut session);
    for call in 0..CALLS as i64 {
        let keys = [Value::Int(3 * call), Value::Int(3 * call + 1), Value::Int(3 * call + 2)];
        assert_eq!(int(&run(&mut session, "CALL p($1, $2, $3)", &keys)), 1000);
    }
    let after = waits(&mut session);
    assert_eq!((after.waits_total - before.waits_total, after.rows_total - before.rows_total), (CALLS, 3 * CALLS));
    let counts = "SELECT sum(CASE v WHEN 'changed' THEN 1 WHEN 'new' THEN 1000 ELSE 0 END) FROM t";
    assert_eq!(int(&run(&mut session, counts, &[])), 1001 * CALLS as i64);
}

/// Rows that are removed or replaced by their keys alone are not read, and come back if that is taken back.
#[test]
fn changes_by_keys_read_no_evicted_rows() {
    const ROWS: i64 = 30_000;
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", ROWS);
    let fails = "DELETE FROM t WHERE k = a; UPDATE t SET v = 'never' WHERE k = a + 1; SELECT 1 / (a - a)";
    run(&mut session, &format!("CREATE PROCEDURE fails(a BIGINT) LANGUAGE sql AS $$ {fails} $$"), &[]);
    wait_for_memory(&database, LIMIT);
    let evicted = |session: &mut RowSession| -> usize {
        session.statistics().unwrap().partitions.iter().flat_map(|of| &of.tables).map(|of| of.evicted_rows).sum()
    };
    let mut model: BTreeMap<i64, Value> = (0..ROWS).map(|k| (k, text(1000, k))).collect();
    let before = evicted(&mut session);
    assert!(before > 1000);
    for k in 0..100 {
        assert_eq!(run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]).affected, 1);
        assert_eq!(run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]).affected, 0);
        let (v, to) = (text(700, k), [Value::Int(k + 100), text(700, k)]);
        assert_eq!(run(&mut session, "UPDATE t SET v = $2 WHERE k = $1", &to).affected, 1);
        assert_eq!((model.remove(&k).is_some(), model.insert(k + 100, v).is_some()), (true, true));
    }
    assert_eq!(run(&mut session, "DELETE FROM t WHERE k IN (300, 301, 350, 301)", &[]).affected, 3);
    model.retain(|k, _| ![300, 301, 350].contains(k));
    let many = "UPDATE t SET v = 'many' WHERE k IN (400, 402, 404)";
    assert_eq!(run(&mut session, many, &[]).affected, 3);
    model.extend([400, 402, 404].map(|k| (k, Value::Text("many".into()))));
    assert_eq!(session.execute("CALL fails(500)", &[]).unwrap_err().sqlstate(), "22012");
    // Values of rows that do not exist are not computed, whether others are evicted or not.
    assert_eq!(run(&mut session, "UPDATE t SET v = 1 / $1 WHERE k = -1", &[Value::Int(0)]).affected, 0);
    for end in ["ROLLBACK", "COMMIT"] {
        run(&mut session, "BEGIN", &[]);
        for k in 600..610 {
            run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]);
            run(&mut session, "UPDATE t SET v = 'before' WHERE k = $1", &[Value::Int(k + 10)]);
            run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k + 10)]);
            run(&mut session, "INSERT INTO t VALUES ($1, 'again')", &[Value::Int(k)]);
            run(&mut session, "UPDATE t SET v = v || '!' WHERE k = $1", &[Value::Int(k)]);
        }
        let again = run(&mut session, "SELECT count(*) FROM t WHERE k BETWEEN 600 AND 619 AND v = 'again!'", &[]);
        assert_eq!(int(&again), 10);
        run(&mut session, end, &[]);
    }
    (600..610).for_each(|k| drop((model.insert(k, Value::Text("again!".into())), model.remove(&(k + 10)))));
    let waits = session.statistics().unwrap().partitions.iter().map(|of| of.waits).collect::<Vec<_>>();
    assert!(waits.iter().all(|waits| (waits.rows_total, waits.blocking_total) == (0, 0)), "{waits:?}");
    // What needs more of a row reads it.
    run(&mut session, "UPDATE t SET v = v || '!' WHERE k = 700", &[]);
    model.insert(700, Value::Text(format!("{}!", "y".repeat(1000)).into()));
    run(&mut session, "DELETE FROM t WHERE k = 701 AND v = 'no'", &[]);
    let rows_total = session.statistics().unwrap().partitions.iter().map(|of| of.waits.rows_total).sum::<u64>();
    assert_eq!(rows_total, 2);
    let answer = run(&mut session, "SELECT count(*) FROM t WHERE length(v) > 0", &[]);
    assert_eq!(int(&answer), model.len() as i64);
    drop(session);
    drop(database);
    let database = open(&disk, 512 << 20);
    let answer = run(&mut database.session(), "SELECT k, v FROM t ORDER BY k", &[]);
    assert_eq!(answer.rows.len(), model.len());
    for (mut row, (k, v)) in answer.rows.iter().zip(&model) {
        let values: [Value; 2] = std::array::from_fn(|_| row.next().unwrap().to_value());
        assert_eq!(values, [Value::Int(*k), v.clone()]);
    }
}

/// A transaction that waits for a row on the disk holds up nobody, and reads all the rows that it needs at once.
#[test]
fn others_run_while_rows_are_read() {
    // A row that two wait for is read once, and few rows need a second read.
    others_run_while_rows_are_read_in(1, 360);
    // Transactions over several partitions read for themselves.
    others_run_while_rows_are_read_in(2, 720);
}

fn others_run_while_rows_are_read_in(partitions: u16, most: usize) {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (open, reads) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let gate = (Arc::clone(&open), Arc::clone(&reads));
    let gated = Hooked::new(&disk, move |operation, name| {
        if operation == Operation::Read && name.starts_with("blocks-") {
            gate.1.fetch_add(1, Ordering::SeqCst);
            while !gate.0.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        Ok(())
    });
    let eviction = Some(BlockStoreSettings::default());
    let settings = Settings { memory_bytes_max: LIMIT, eviction, partitions, seed: 1, ..Settings::default() };
    let database = RowEngine::open(Arc::new(gated), settings).unwrap();
    let mut session = database.session();
    fill_groups(&mut session, 30_000, |k| k / 300);
    run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
    wait_for_memory(&database, LIMIT);
    reads.store(0, Ordering::SeqCst);
    open.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let (mut other, mut third) = (database.session(), database.session());
        // The first rows were evicted first.
        let waiting = scope.spawn(move || int(&run(&mut other, "SELECT sum(length(v)) FROM t WHERE g = 1", &[])));
        let also = scope.spawn(move || int(&run(&mut third, "SELECT sum(length(v)) FROM t WHERE g = 1", &[])));
        while reads.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        for k in 40_000..41_000 {
            run(&mut session, "INSERT INTO t VALUES ($1, -1, 'new')", &[Value::Int(k)]);
        }
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE g = -1 AND v = 'new'", &[])), 1000);
        assert!(!waiting.is_finished() && !also.is_finished());
        open.store(true, Ordering::SeqCst);
        assert_eq!((waiting.join().unwrap(), also.join().unwrap()), (300_000, 300_000));
    });
    let reads = reads.load(Ordering::SeqCst);
    assert!((300..=most).contains(&reads), "{reads}");
    let statistics = session.statistics().unwrap();
    assert!(statistics.partitions.iter().all(|partition| partition.waits.blocking_total == 0), "{statistics:?}");
    assert_eq!(waiting(&mut session), 0, "{statistics:?}");
}

/// Transactions that wait for rows, of all partitions.
fn waiting(session: &mut RowSession) -> u64 {
    let partitions = session.statistics().unwrap().partitions;
    partitions.iter().map(|partition| partition.waits.waits_total - partition.waits.waited_total).sum()
}

/// Also of transactions that need rows of one of their partitions.
#[test]
fn waits_that_are_over_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let eviction = Some(BlockStoreSettings { fetching: Some(Fetching::Asynchronous), ..Default::default() });
    let settings = Settings { eviction, ..settings(LIMIT / 2) };
    let database = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap();
    let mut session = database.session();
    fill(&mut session, "t", 30_000);
    for k in 0..400 {
        // The second was evicted, and the first is there.
        let keys = [Value::Int(29_999), Value::Int(k)];
        let sum = run(&mut session, "SELECT sum(length(v)) FROM t WHERE k = $1 OR k = $2", &keys);
        assert_eq!(int(&sum), 2000);
        assert_eq!(waiting(&mut session), 0, "{:?}", session.statistics().unwrap());
    }
    let partitions = session.statistics().unwrap().partitions;
    assert!(partitions.iter().all(|partition| partition.waits.waits_total > 0), "{partitions:?}");
}

/// A row that several statements need is one row to be read: they may look for as many as a single statement.
#[test]
fn statements_of_a_transaction_look_for_rows_together() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let settings = Settings { partitions: 1, ..evicting::settings(LIMIT) };
    let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
    let mut session = database.session();
    fill_groups(&mut session, 30_000, |k| k / 60);
    run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
    wait_for_memory(&database, LIMIT);
    // Together 1140 times a row, of which there are 120.
    let same = "SELECT sum(length(v)) FROM t WHERE g = 1;".repeat(18);
    let body = format!("{same} SELECT sum(length(v)) FROM t WHERE g = 2");
    run(&mut session, &format!("CREATE PROCEDURE sums() LANGUAGE sql AS $$ {body} $$"), &[]);
    let waits = |session: &mut RowSession| {
        let partitions = session.statistics().unwrap().partitions;
        let of = |count: fn(&WaitStatistics) -> u64| partitions.iter().map(|part| count(&part.waits)).sum::<u64>();
        [of(|waits| waits.waits_total), of(|waits| waits.rows_total), of(|waits| waits.blocking_total)]
    };
    let before = waits(&mut session);
    assert_eq!(int(&run(&mut session, "CALL sums()", &[])), 60_000);
    let after = waits(&mut session);
    let [waits, rows, blocking] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!((waits, blocking), (1, 0), "{rows} rows");
    assert!((100..=120).contains(&rows), "{rows}");
}

/// Also where no other transaction could run meanwhile.
#[test]
fn reads_that_hold_a_partition_are_eviction() {
    const SLOW: Duration = Duration::from_millis(100);
    for fetching in [Fetching::Blocking, Fetching::Asynchronous] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let slow = Arc::new(AtomicBool::new(false));
        let is_slow = Arc::clone(&slow);
        let hooked = Hooked::new(&disk, move |operation, name| {
            if operation == Operation::Read && name.starts_with("blocks-") && is_slow.load(Ordering::SeqCst) {
                std::thread::sleep(SLOW);
            }
            Ok(())
        });
        let eviction = Some(BlockStoreSettings { fetching: Some(fetching), ..Default::default() });
        let settings = Settings { memory_bytes_max: LIMIT, eviction, seed: 1, ..Settings::default() };
        let database = RowEngine::open(Arc::new(hooked), settings).unwrap();
        let mut session = database.session();
        fill(&mut session, "t", 30_000);
        wait_for_memory(&database, LIMIT);
        let held = |session: &mut RowSession| session.statistics().unwrap().partitions[0].held_by_eviction;
        let before = held(&mut session);
        slow.store(true, Ordering::SeqCst);
        if fetching == Fetching::Asynchronous {
            // It owns the partition, and waits there.
            run(&mut session, "BEGIN", &[]);
        }
        assert_eq!(int(&run(&mut session, "SELECT length(v) FROM t WHERE k = 1", &[])), 1000);
        assert!(held(&mut session).longest_since(&before) >= SLOW, "{fetching:?}");
    }
}

/// Definitions of tables with evicted rows, one of them larger than memory.
#[test]
fn definitions_reach_evicted_rows() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 3000);
    fill(&mut session, "other", 30_000);
    let before = block_bytes(&disk);
    assert!(before > 8 << 20, "{before}");
    run(&mut session, "CREATE INDEX t_v ON t (v)", &[]);
    run(&mut session, "ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 5 NOT NULL", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE w = 5", &[])), 3000);
    // Its keys alone are more than memory.
    let error = session.execute("CREATE INDEX other_v ON other (v)", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    // A transaction that needs more rows than fit is refused, and takes nothing with it.
    run(&mut session, "CREATE INDEX other_k ON other (k)", &[]);
    let error = session.execute("SELECT max(v) FROM other WHERE k BETWEEN 0 AND 30000", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    // Rows in blocks have two layouts, and then three.
    run(&mut session, "ALTER TABLE other ADD COLUMN w BIGINT DEFAULT 5 NOT NULL", &[]);
    for k in (0..30_000).step_by(100) {
        run(&mut session, "UPDATE other SET w = 6 WHERE k = $1", &[Value::Int(k)]);
    }
    for k in 30_000..33_000 {
        run(&mut session, "INSERT INTO other VALUES ($1, $2, 7)", &[Value::Int(k), text(1000, k)]);
    }
    run(&mut session, "ALTER TABLE other ADD COLUMN x TEXT DEFAULT 'x'", &[]);
    run(&mut session, "CREATE UNIQUE INDEX other_w ON other (w, k)", &[]);
    // Names and NOT NULL change where rows are in blocks.
    run(&mut session, "UPDATE other SET x = NULL WHERE k = 70", &[]);
    let not_null = "ALTER TABLE other ALTER COLUMN x SET NOT NULL";
    assert_eq!(session.execute(not_null, &[]).unwrap_err().sqlstate(), "23502");
    run(&mut session, "UPDATE other SET x = 'y' WHERE k = 70", &[]);
    run(&mut session, not_null, &[]);
    for sql in ["RENAME TO another", "RENAME COLUMN v TO y", "ALTER y DROP NOT NULL", "RENAME COLUMN y TO v"] {
        run(
            &mut session,
            &format!("ALTER TABLE {} {sql}", if sql.contains("TO a") { "other" } else { "another" }),
            &[],
        );
    }
    run(&mut session, "ALTER TABLE another RENAME TO other", &[]);
    for (w, rows) in [(5, 990), (6, 10), (7, 0)] {
        let answer = run(&mut session, "SELECT count(x) FROM other WHERE w = $1 AND k < 1000", &[Value::Int(w)]);
        assert_eq!(int(&answer), rows, "{w}");
    }
    let look = |database: &RowEngine| {
        let mut session = database.session();
        for k in 0..33_000 {
            let answer =
                run(&mut session, "SELECT length(v) + w + length(x) FROM other WHERE k = $1", &[Value::Int(k)]);
            let w = if k >= 30_000 { 7 } else { 5 + i64::from(k % 100 == 0) };
            assert_eq!(int(&answer), 1000 + w + 1, "row {k}");
        }
    };
    look(&database);
    wait_for_memory(&database, LIMIT);
    drop(session);
    database.close().unwrap();
    // Replay reaches them as well.
    let database = open(&disk, LIMIT);
    look(&database);
    let mut session = database.session();
    run(&mut session, "TRUNCATE other", &[]);
    run(&mut session, "DROP TABLE t", &[]);
    database.snapshot().unwrap();
    assert!(block_bytes(&disk) < 3 << 20, "only open segments stay: {}", block_bytes(&disk));
}

/// A session's transaction that outgrows memory has others' rows evicted.
#[test]
fn a_session_makes_room_for_its_rows() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "cold", 40_000);
    wait_for_memory(&database, LIMIT);
    fill(&mut session, "t", 0);
    run(&mut session, "BEGIN", &[]);
    for k in 0..3000 {
        run(&mut session, "INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text(1000, k)]);
    }
    run(&mut session, "COMMIT", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 1000", &[])), 3000);
}

/// Rows larger than a block, of which few fit in memory.
#[test]
fn rows_larger_than_a_block() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    for k in 0..600 {
        run(&mut session, "INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text(100_000, k)]);
    }
    assert!(block_bytes(&disk) > 30 << 20, "{} bytes in blocks", block_bytes(&disk));
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 100000", &[])), 600);
    run(&mut session, "UPDATE t SET v = 'short' WHERE k = 7", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 100000", &[])), 599);
    database.snapshot().unwrap();
    drop(session);
    drop(database);
    let database = open(&disk, LIMIT);
    assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t WHERE length(v) = 100000", &[])), 599);
}

/// A limit that is lowered at run time holds soon, although nothing else happens.
#[test]
fn a_lower_limit_evicts_at_once() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, 4 * LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 40_000);
    assert!(database.memory().table_bytes > 40 << 20);
    database.set_memory_bytes_max(LIMIT);
    wait_for_memory(&database, LIMIT * 7 / 8);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 1000", &[])), 40_000);
}

/// Statements that scan a table larger than memory read its evicted rows where they are; of those that they change,
/// each comes back.
#[test]
fn scans_leave_evicted_rows_where_they_are() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    // A join looks names up, which would bring them back.
    run(&mut session, "CREATE TABLE names (k BIGINT PRIMARY KEY, name TEXT NOT NULL) WITH (evictable = false)", &[]);
    for k in 0..26 {
        run(&mut session, "INSERT INTO names VALUES ($1, $2)", &[Value::Int(k), text(1, k)]);
    }
    fill_groups(&mut session, 50_000, |k| k % 1000);
    let mut model: BTreeMap<i64, (i64, i64)> = (0..50_000).map(|k| (k, (k % 1000, 1000))).collect();
    wait_for_memory(&database, LIMIT);
    let returned = |session: &mut RowSession| -> u64 {
        let statistics = session.statistics().unwrap();
        let tables = statistics.partitions.iter().flat_map(|partition| &partition.tables);
        tables.map(|table| table.returned_total).sum()
    };
    let before = returned(&mut session);
    let check = |session: &mut RowSession, model: &BTreeMap<i64, (i64, i64)>| {
        let answer = run(session, "SELECT count(*), sum(k), sum(length(v)), max(g) FROM t", &[]);
        let seen: Vec<String> = (0..4).map(|column| answer.rows.value(0, column).to_string()).collect();
        let sums = (model.keys().sum::<i64>(), model.values().map(|row| row.1).sum::<i64>());
        let most = model.values().map(|row| row.0).max().unwrap();
        let expected = [model.len().to_string(), sums.0.to_string(), sums.1.to_string(), most.to_string()];
        assert_eq!(seen, expected);
    };
    check(&mut session, &model);
    let joined =
        "SELECT name, count(*) FROM t JOIN names ON names.k = t.g WHERE length(v) = 1000 GROUP BY name ORDER BY 1";
    assert_eq!(run(&mut session, joined, &[]).rows.len(), 26);
    let limited = run(&mut session, "SELECT k FROM t WHERE g = 999 ORDER BY k LIMIT 3", &[]);
    assert_eq!((0..3).map(|row| limited.rows.value(row, 0)).collect::<Vec<_>>(), [999, 1999, 2999].map(ValueRef::Int));
    assert_eq!(returned(&mut session), before, "nothing comes back to be read");

    run(&mut session, "CREATE INDEX t_k ON t (k)", &[]);
    let before_limit = returned(&mut session);
    for (sql, first) in [
        ("SELECT k FROM t WHERE length(v) > 0 ORDER BY k LIMIT 10", 0),
        ("SELECT k FROM t WHERE length(v) > 0 AND k >= 5000 ORDER BY k LIMIT 10", 5000),
        ("SELECT min(k) FROM t WHERE length(v) > 0 AND k >= 10000", 10_000),
    ] {
        assert_eq!(int(&run(&mut session, sql, &[])), first, "{sql}");
    }
    let counts = |session: &mut RowSession| -> [u64; 2] {
        let statistics = session.statistics().unwrap();
        let blocks: Vec<BlockStatistics> = statistics.partitions.iter().map(|part| part.blocks.unwrap()).collect();
        [blocks.iter().map(|blocks| blocks.reads_total).sum(), blocks.iter().map(|blocks| blocks.blocks).sum()]
    };
    let [reads_before, _] = counts(&mut session);
    let looked_for = returned(&mut session) - before_limit;
    assert!(looked_for <= 3 * 2 * 20, "{looked_for} rows come back for thirty");

    assert_eq!(run(&mut session, "UPDATE t SET v = 'short' WHERE g = 7", &[]).affected, 50);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE g = 8 AND length(v) > 5", &[]).affected, 50);
    run(&mut session, "BEGIN", &[]);
    assert_eq!(run(&mut session, "UPDATE t SET g = 5000 WHERE g BETWEEN 20 AND 22", &[]).affected, 150);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE g = 5000", &[])), 150);
    run(&mut session, "ROLLBACK", &[]);
    model.values_mut().filter(|row| row.0 == 7).for_each(|row| row.1 = 5);
    model.retain(|_, row| row.0 != 8);
    check(&mut session, &model);
    assert!(returned(&mut session) - before <= 2 * 250 + 120, "those that were changed");
    let [reads, blocks] = counts(&mut session);
    // Five scans, of which three run again when the rows that they change are back.
    assert!(reads - reads_before <= 8 * blocks + 1000, "{reads} reads of {blocks} blocks, {reads_before} before");
    wait_for_memory(&database, LIMIT);
}

/// Rows that come and go leave holes in blocks. What is left of sparse ones moves, so that files keep to twice the
/// bytes of the rows in them.
#[test]
fn files_of_blocks_do_not_grow() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 40_000);
    let mut rng = StdRng::seed_from_u64(3);
    let mut most = 0;
    for round in 0..5 {
        for _ in 0..20_000 {
            let k = rng.random_range(0..40_000);
            assert_eq!(int(&run(&mut session, "SELECT length(v) FROM t WHERE k = $1", &[Value::Int(k)])), 1000);
        }
        // Two segments of each partition are left alone, and one is open.
        let rows: u64 = session.statistics().unwrap().partitions.iter().map(|part| part.blocks.unwrap().rows).sum();
        most = 2 * rows * 1100 + 2 * 3 * (1 << 20);
        let start = Instant::now();
        while block_bytes(&disk) > most {
            assert!(start.elapsed() < Duration::from_secs(60), "round {round}: {} bytes", block_bytes(&disk));
            run(&mut session, "SELECT 1", &[]);
        }
    }
    let statistics = session.statistics().unwrap();
    let written: u64 = statistics.partitions.iter().map(|part| part.blocks.unwrap().written_bytes_total).sum();
    assert!(written > most + (20 << 20), "{written} bytes written: the test shows nothing");
}

/// Directories of keys are as long as short rows are. They are no room that moving rows would free.
#[test]
fn files_of_short_rows_come_to_rest() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let fill_factor = FillFactor::of_per_mille(900).unwrap();
    let settings = Settings {
        memory_bytes_max: LIMIT / 2,
        eviction: Some(BlockStoreSettings { segment_bytes: 1 << 20, fill_factor, ..Default::default() }),
        seed: 1,
        ..Settings::default()
    };
    let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)", &[]);
    for first in (0..300_000).step_by(500) {
        let rows: Vec<String> = (first..first + 500).map(|k| format!("({k}, {k})")).collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", ")), &[]);
    }
    wait_for_memory(&database, LIMIT / 2);
    let written = |session: &mut RowSession| -> (u64, u64) {
        let statistics = session.statistics().unwrap();
        let blocks = statistics.partitions[0].blocks.unwrap();
        (blocks.written_bytes_total, blocks.file_bytes)
    };
    let (start, mut before) = (Instant::now(), written(&mut session));
    assert!(before.1 > 8 << 20, "{before:?}: files are too small to be sparse");
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = written(&mut session);
        if now == before {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{now:?} bytes written and in files, and {before:?} before");
        before = now;
    }
}

/// A database larger than memory opens within its limit: from its log, from a snapshot, and with another number of
/// partitions.
#[test]
fn a_start_keeps_the_limit() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 40_000);
    run(&mut session, "CREATE INDEX t_k ON t (k)", &[]);
    for k in (0..40_000).step_by(7) {
        run(&mut session, "UPDATE t SET v = 'changed' WHERE k = $1", &[Value::Int(k)]);
    }
    for k in (0..40_000).step_by(11) {
        run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(k)]);
    }
    drop(session);
    let look = |database: &RowEngine| {
        let memory = database.memory();
        assert!(memory.used_bytes() <= LIMIT, "{memory:?}");
        assert!(block_bytes(&disk) > 8 << 20, "{} bytes in blocks", block_bytes(&disk));
        let mut session = database.session();
        for k in 0..40_000 {
            let answer = run(&mut session, "SELECT length(v) FROM t WHERE k = $1", &[Value::Int(k)]);
            let expected = (k % 11 != 0).then_some(if k % 7 == 0 { 7 } else { 1000 });
            let found = (!answer.rows.is_empty()).then(|| int(&answer));
            assert_eq!(found, expected, "row {k}");
        }
    };
    look(&database);
    drop(database);
    let database = open(&disk, LIMIT);
    look(&database);
    database.snapshot().unwrap();
    drop(database);
    look(&open(&disk, LIMIT));
    let settings = Settings {
        memory_bytes_max: LIMIT,
        eviction: Some(BlockStoreSettings::default()),
        partitions: 3,
        repartition: true,
        ..Settings::default()
    };
    look(&RowEngine::open(Arc::new(disk.clone()), settings).unwrap());
}

/// A load of more rows than memory holds, that ends in each way.
#[test]
fn a_load_larger_than_memory() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    for fails in [true, false] {
        let mut load = session.load("t", &["k", "v"]).unwrap();
        for k in 0..40_000 {
            load.push(&[ValueRef::Int(k), text(1000, k).as_ref()]).unwrap();
        }
        assert_eq!(int(&run(&mut database.session(), "SELECT count(*) FROM t", &[])), 0);
        if fails {
            drop(load);
        } else {
            load.finish().unwrap();
        }
        assert!(database.memory().used_bytes() <= LIMIT, "{:?}", database.memory());
    }
    for k in 0..40_000 {
        let answer = run(&mut session, "SELECT length(v) FROM t WHERE k = $1", &[Value::Int(k)]);
        assert_eq!(int(&answer), 1000, "row {k}");
    }
}

/// Blocks of every size, with the rows of each or with one, of victims of each policy, and no eviction at all: the same
/// answers, and the same rows.
#[test]
fn answers_do_not_depend_on_blocks() {
    let blocks = |block_bytes, merge| {
        Some(BlockStoreSettings {
            segment_bytes: 1 << 20,
            block_bytes: Some(block_bytes),
            fetching: Some(Fetching::Asynchronous),
            merge,
            ..Default::default()
        })
    };
    let blocking = |merge| {
        blocks(16 << 10, merge).map(|settings| BlockStoreSettings { fetching: Some(Fetching::Blocking), ..settings })
    };
    let chain = |chain_sampling, merge| {
        blocks(16 << 10, merge).map(|settings| BlockStoreSettings {
            victims: Victims::Chain,
            chain_sampling,
            ..settings
        })
    };
    let mut answers = Vec::new();
    let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let simulated = || Arc::new(SimulatedDisk::new(1, Faults::default())) as Arc<dyn Disk>;
    let real = |number: usize| RealDisk::open(directories[number].path()).unwrap();
    for (eviction, disk) in [
        (None, simulated()),
        (blocks(4 << 10, Merge::Tuple), simulated()),
        (blocks(1 << 20, Merge::Tuple), simulated()),
        (blocks(4 << 10, Merge::Block), simulated()),
        (blocks(128 << 10, Merge::Block), simulated()),
        (blocking(Merge::Tuple), simulated()),
        (blocking(Merge::Block), simulated()),
        // Through io_uring, where the kernel has it.
        (blocks(64 << 10, Merge::Tuple), Arc::new(real(0))),
        (blocks(64 << 10, Merge::Block), Arc::new(real(1))),
        (blocks(64 << 10, Merge::Tuple), Arc::new(real(2).without_ring())),
        (chain(SamplingRate::default(), Merge::Tuple), simulated()),
        (chain(SamplingRate::ALL, Merge::Block), simulated()),
    ] {
        let memory_bytes_max = if eviction.is_some() { LIMIT } else { 1 << 30 };
        let log = LogSettings { synchronous_commit: false, ..LogSettings::default() };
        let settings = Settings { memory_bytes_max, eviction, partitions: 2, seed: 1, log, ..Settings::default() };
        let database = RowEngine::open(disk, settings).unwrap();
        let mut session = database.session();
        fill_groups(&mut session, 30_000, |k| k % 100);
        run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
        let mut rng = StdRng::seed_from_u64(7);
        let mut sums = 0;
        for step in 0..3000 {
            let k = Value::Int(rng.random_range(0..30_000));
            let sql = match step % 40 {
                0 => "SELECT sum(k + length(v)) FROM t WHERE g = $1 % 100",
                step if step % 4 == 1 => "UPDATE t SET g = g + 1 WHERE k = $1",
                step if step % 4 == 2 => "DELETE FROM t WHERE k = $1",
                _ => "SELECT length(v) + g FROM t WHERE k = $1",
            };
            let answer = run(&mut session, sql, &[k]);
            sums += answer.affected as i64;
            if let Some(ValueRef::Int(value)) = (!answer.rows.is_empty()).then(|| answer.rows.value(0, 0)) {
                sums += value;
            }
        }
        let rows = run(&mut session, "SELECT k, g FROM t ORDER BY k", &[]);
        let rows: Vec<Vec<Value>> = rows.rows.iter().map(|row| row.map(|value| value.to_value()).collect()).collect();
        if eviction.is_some() {
            let statistics = session.statistics().unwrap();
            let tables = statistics.partitions.iter().flat_map(|part| &part.tables);
            let (evicted, returned) = tables.fold((0, 0), |(evicted, returned), table| {
                (evicted + table.evicted_total, returned + table.returned_total)
            });
            assert!(evicted > 5000 && returned > 1000, "{eviction:?}: {evicted} rows went, {returned} came back");
        }
        answers.push((sums, rows));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

/// Memory that is full of what cannot go to blocks refuses what grows, and nothing that reads or frees: at a start
/// without eviction, and where keys alone are more than the limit.
#[test]
fn full_memory_can_be_freed() {
    let evicts = Some(BlockStoreSettings { segment_bytes: 1 << 20, ..Default::default() });
    for (eviction, key_bytes) in [(None, 10), (evicts, 800)] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let open = |limit: u64, eviction: Option<BlockStoreSettings>| {
            let settings =
                Settings { memory_bytes_max: limit, eviction, partitions: 2, seed: 1, ..Settings::default() };
            RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
        };
        let database = open(128 << 20, None);
        let mut session = database.session();
        let columns = "k BIGINT PRIMARY KEY, g TEXT NOT NULL, v TEXT NOT NULL";
        run(&mut session, &format!("CREATE TABLE t ({columns}) PARTITION BY (k)"), &[]);
        for k in 0..15_000 {
            let g = Value::Text(format!("{k:0>key_bytes$}").into());
            run(&mut session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), g, text(1000, k)]);
        }
        run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
        drop(session);
        drop(database);

        let database = open(10 << 20, eviction);
        let mut session = database.session();
        let memory = database.memory();
        assert!(memory.table_bytes > 10 << 20, "{memory:?}");
        for sql in ["INSERT INTO t VALUES (-1, 'new', 'new')", "CREATE INDEX t_v ON t (v)"] {
            let error = session.execute(sql, &[]).unwrap_err();
            assert_eq!(error.sqlstate(), "53200", "{sql}: {error}");
            for part in ["rows in memory take", "row_memory_limit", "delete rows", "drop an index"] {
                assert!(error.to_string().contains(part), "{sql}: {error}");
            }
        }
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) = 1000", &[])), 15_000);
        assert_eq!(int(&run(&mut session, "SELECT length(v) FROM t WHERE k = 17", &[])), 1000);
        assert_eq!(run(&mut session, "UPDATE t SET v = upper(v) WHERE k = 17", &[]).affected, 1);
        for k in (0..10_000).step_by(100) {
            let deleted = run(&mut session, "DELETE FROM t WHERE k BETWEEN $1 AND $1 + 99", &[Value::Int(k)]);
            assert_eq!(deleted.affected, 100);
        }
        run(&mut session, "BEGIN", &[]);
        assert_eq!(run(&mut session, "DELETE FROM t WHERE k BETWEEN 10000 AND 10099", &[]).affected, 100);
        run(&mut session, "COMMIT", &[]);
        run(&mut session, "DROP INDEX t_g", &[]);
        assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t", &[])), 4900);
        run(&mut session, "INSERT INTO t VALUES (-1, 'new', 'new')", &[]);
        run(&mut session, "TRUNCATE t", &[]);
        run(&mut session, "INSERT INTO t VALUES (1, 'new', 'new')", &[]);
        run(&mut session, "DROP TABLE t", &[]);
        assert!(database.memory().table_bytes < 1 << 20, "{:?}", database.memory());
    }
}

/// A block that is damaged names its table, its file and the row to whoever needs one of its rows.
#[test]
fn damaged_blocks_name_their_table() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "harmed", 40_000);
    wait_for_memory(&database, LIMIT);
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with("blocks-")) {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
        disk.overwrite(name, bytes);
    }
    let begin = ["BEGIN", "SELECT 1"];
    for (begins, sql) in [
        (false, "SELECT v FROM harmed WHERE k = 17"),
        (true, "SELECT v FROM harmed WHERE k = 17"),
        (false, "SELECT count(*) FROM harmed WHERE length(v) > 0"),
        (false, "DELETE FROM harmed WHERE length(v) > 0"),
        (false, "CREATE INDEX harmed_v ON harmed (v)"),
    ] {
        begin.iter().filter(|_| begins).for_each(|sql| drop(run(&mut session, sql, &[])));
        let error = session.execute(sql, &[]).unwrap_err();
        assert_eq!(error.sqlstate(), "XX001", "{sql}: {error}");
        for part in ["table \"harmed\": ", "blocks-0000"] {
            assert_eq!(error.to_string().matches(part).count(), 1, "{sql}: {error}");
        }
        if begins {
            run(&mut session, "ROLLBACK", &[]);
        }
    }
    run(&mut session, "INSERT INTO harmed VALUES (-1, 'whole')", &[]);
}

/// Where blocks find no room on the disk, whoever needs the memory is told, and everything goes on once there is room.
#[test]
fn a_full_disk_is_named() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let is_full = Arc::new(AtomicBool::new(false));
    let database = open_on(Arc::new(Hooked::full(&disk, &is_full, "blocks-")), LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 10_000);
    is_full.store(true, Ordering::Relaxed);
    let load = |session: &mut RowSession| {
        let mut load = session.load("t", &["k", "v"])?;
        (10_000..40_000).try_for_each(|k| load.push(&[ValueRef::Int(k), text(1000, k).as_ref()]))?;
        load.finish()
    };
    let insert = |session: &mut RowSession| {
        (50_000..80_000).try_for_each(|k| {
            session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(k), text(1000, k)]).map(drop)
        })
    };
    let errors = [load(&mut session).unwrap_err(), insert(&mut session).unwrap_err()];
    for error in errors {
        assert_eq!(error.sqlstate(), "53100", "{error}");
        assert!(error.to_string().contains("blocks-0000"), "{error}");
    }
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE k < 10000", &[])), 10_000);
    is_full.store(false, Ordering::Relaxed);
    assert_eq!(load(&mut session).unwrap(), 30_000);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE k < 40000 AND length(v) = 1000", &[])), 40_000);
}

/// A start on a full disk shows everything, more than memory should hold if it must, and writers are told why.
#[test]
fn a_start_on_a_full_disk_can_be_read() {
    const ROWS: i64 = 60_000;
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", ROWS);
    drop((session, database));
    let files = |disk: &SimulatedDisk| disk.list().unwrap();
    let scan = "SELECT count(*) FROM t WHERE length(v) = 1000";
    for part in ["", "blocks-"] {
        let is_full = Arc::new(AtomicBool::new(true));
        let database = open_on(Arc::new(Hooked::full(&disk, &is_full, part)), LIMIT);
        let read_only = database.read_only().unwrap().to_string();
        assert!(read_only.contains("no space is left") && read_only.contains("with room on the disk"), "{read_only}");
        let mut session = database.session();
        assert_eq!(int(&run(&mut session, scan, &[])), ROWS);
        assert_eq!(int(&run(&mut session, "SELECT length(v) FROM t WHERE k = 7", &[])), 1000);
        for sql in ["INSERT INTO t VALUES (-1, 'more')", "DELETE FROM t WHERE k = 7", "CREATE TABLE u (k BIGINT)"] {
            let error = session.execute(sql, &[]).unwrap_err();
            assert_eq!(error.sqlstate(), "53100", "{sql}: {error}");
            assert!(error.to_string().contains(&read_only), "{sql}: {error}");
        }
        drop((session, database));
        assert!(files(&disk).iter().all(|name| !name.ends_with(".tmp")), "{:?}", files(&disk));
    }
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    run(&mut session, "INSERT INTO t VALUES (-1, 'more')", &[]);
    assert_eq!(int(&run(&mut session, scan, &[])), ROWS);
    assert!(database.memory().used_bytes() <= LIMIT, "{:?}", database.memory());
}

/// A partition that grows has rows of an idle one evicted, and a start leaves room in such a database.
#[test]
fn partitions_make_room_for_each_other() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    let columns = "p BIGINT NOT NULL, k TEXT NOT NULL, v TEXT NOT NULL, PRIMARY KEY (p, k)";
    run(&mut session, &format!("CREATE TABLE t ({columns}) PARTITION BY (p)"), &[]);
    let insert = |session: &mut RowSession, p: i64, key: String, v: Value| {
        run(session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(p), Value::Text(key.into()), v]);
    };
    let rows = |session: &mut RowSession| -> Vec<usize> {
        let partitions = session.statistics().unwrap().partitions;
        partitions.iter().map(|partition| partition.tables.iter().map(|table| table.rows).sum()).collect()
    };
    // One value for each partition.
    let mut of_partition = [None, None];
    for p in 0.. {
        let before = rows(&mut session);
        insert(&mut session, p, "0".into(), text(1, p));
        let after = rows(&mut session);
        let place = (0..2).find(|place| before[*place] != after[*place]).unwrap();
        of_partition[place].get_or_insert(p);
        if of_partition.iter().all(Option::is_some) {
            break;
        }
    }
    let [idle, growing] = of_partition.map(Option::unwrap);
    for k in 1..14_000 {
        insert(&mut session, idle, k.to_string(), text(1000, k));
    }
    for k in 1..9_000 {
        // Alone, and in transactions of sessions.
        let begins = (k / 500) % 2 == 0;
        begins.then(|| run(&mut session, "BEGIN", &[]));
        insert(&mut session, growing, format!("{k:0>800}"), text(10, k));
        begins.then(|| run(&mut session, "COMMIT", &[]));
    }
    assert!(database.memory().used_bytes() <= LIMIT, "{:?}", database.memory());
    drop(session);
    drop(database);

    let database = open(&disk, LIMIT);
    assert!(database.memory().used_bytes() <= LIMIT - (2 << 20), "{:?}", database.memory());
    let mut session = database.session();
    run(&mut session, "BEGIN", &[]);
    for k in 9_000..9_100 {
        insert(&mut session, growing, format!("{k:0>800}"), text(10, k));
    }
    run(&mut session, "COMMIT", &[]);
    let count = run(&mut session, "SELECT count(*) FROM t WHERE length(v) IN (10, 1000)", &[]);
    assert_eq!(int(&count), 13_999 + 9_099);
}

/// A statement whose rows fill the memory runs, or is refused after some tries.
#[test]
fn rows_that_fill_the_memory_are_changed_or_refused() {
    let limit = 2 << 20;
    let disk = SimulatedDisk::new(1, Faults::default());
    let settings = Settings { statement_timeout: Some(Duration::from_secs(60)), ..settings(limit) };
    let database = RowEngine::open(Arc::new(disk), settings).unwrap();
    let mut session = database.session();
    fill(&mut session, "small", 100);
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    let (mut changed, mut refused) = (0, 0);
    for (k, percent) in (4..60).step_by(2).enumerate() {
        let (k, bytes) = ([Value::Int(k as i64)], limit as usize * percent / 100);
        let outcome = |result: Result<StatementResult, Error>| match result {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.sqlstate(), "53200", "{percent} %: {error}");
                false
            }
        };
        if !outcome(session.execute("INSERT INTO t VALUES ($1, $2)", &[k[0].clone(), text(bytes, 1)])) {
            refused += 1;
            continue;
        }
        // The row is the coldest by then.
        for other in 0..100 {
            run(&mut session, "UPDATE small SET v = v WHERE k = $1", &[Value::Int(other)]);
        }
        let longer = outcome(session.execute("UPDATE t SET v = v || 'x' WHERE k = $1", &k));
        (changed, refused) = (changed + usize::from(longer), refused + usize::from(!longer));
        let length = run(&mut session, "SELECT length(v) FROM t WHERE k = $1", &k);
        assert_eq!(int(&length), (bytes + usize::from(longer)) as i64, "{percent} %");
        run(&mut session, "DELETE FROM t WHERE k = $1", &k);
    }
    assert!(changed > 2 && refused > 2, "{changed} and {refused}");
}

/// Small limits take loads and statements of many rows as larger ones do.
#[test]
fn small_limits_take_many_rows() {
    for (limit, partitions) in [(8 << 20, 1), (8 << 20, 4), (8 << 20, 16), (4 << 20, 2)] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let eviction = Some(BlockStoreSettings { segment_bytes: 1 << 20, ..Default::default() });
        let undo_bytes_max = usize::try_from(limit / 4).unwrap();
        let settings =
            Settings { memory_bytes_max: limit, eviction, partitions, undo_bytes_max, seed: 1, ..Settings::default() };
        let database = RowEngine::open(Arc::new(disk.clone()), settings).unwrap();
        let mut session = database.session();
        for table in ["t", "u"] {
            let columns = "k BIGINT PRIMARY KEY, v TEXT NOT NULL";
            run(&mut session, &format!("CREATE TABLE {table} ({columns}) PARTITION BY (k)"), &[]);
        }
        for (from, to, length) in [(0, 20_000, 1000), (20_000, 20_100, 100_000)] {
            let mut load = session.load("t", &["k", "v"]).unwrap();
            (from..to).try_for_each(|k| load.push(&[ValueRef::Int(k), text(length, k).as_ref()])).unwrap();
            load.finish().unwrap_or_else(|error| panic!("{limit} bytes, {partitions} partitions: {error}"));
            assert!(database.memory().used_bytes() <= limit, "{:?}", database.memory());
        }
        for first in (0..2000).step_by(100) {
            let rows: Vec<String> = (first..first + 100).map(|k| format!("({k}, '{}')", "x".repeat(200))).collect();
            run(&mut session, &format!("INSERT INTO u VALUES {}", rows.join(", ")), &[]);
        }
        let inserted = run(&mut session, "INSERT INTO u SELECT k, v FROM t WHERE k BETWEEN 3000 AND 3499", &[]);
        assert_eq!(inserted.affected, 500);
        let lengths = run(&mut session, "SELECT sum(length(v)) FROM t", &[]);
        assert_eq!(lengths.rows.value(0, 0).to_string(), "30000000");
        let lengths = run(&mut session, "SELECT sum(length(v)) FROM u", &[]);
        assert_eq!(lengths.rows.value(0, 0).to_string(), "900000");
        assert!(database.memory().used_bytes() <= limit, "{:?}", database.memory());
    }
}

/// The number of rows that the refusal of a statement says are possible at a time.
fn advised_rows(error: &str) -> i64 {
    let advice = error.split("change ").last().unwrap_or_else(|| panic!("{error}"));
    let rows = advice.split(' ').next().unwrap();
    assert!(advice.ends_with(" rows at a time"), "{error}");
    rows.parse().unwrap_or_else(|_| panic!("{error}"))
}

/// Keys alone take more than the limit, all rows are in blocks, and programs keep as many statements as they may: what
/// frees memory works nevertheless, and so does a snapshot. An error says how many rows can go at a time.
#[test]
fn there_is_a_way_out_where_keys_alone_exceed_the_limit() {
    const ROWS: i64 = 12_000;
    const SMALL: u64 = 8 << 20;
    for way in ["DELETE", "DROP INDEX t_g", "DROP TABLE t", "TRUNCATE t", "raise the limit"] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let blocks = BlockStoreSettings { segment_bytes: 1 << 20, block_bytes: Some(4 << 10), ..Default::default() };
        let open = |limit: u64| {
            let settings = Settings {
                memory_bytes_max: limit,
                eviction: Some(blocks),
                partitions: 2,
                seed: 1,
                ..Settings::default()
            };
            RowEngine::open(Arc::new(disk.clone()), settings).unwrap()
        };
        let database = open(64 << 20);
        let mut session = database.session();
        let columns = "k BIGINT PRIMARY KEY, g TEXT NOT NULL, v TEXT NOT NULL";
        run(&mut session, &format!("CREATE TABLE t ({columns}) PARTITION BY (k)"), &[]);
        let mut load = session.load("t", &["k", "g", "v"]).unwrap();
        for k in 0..ROWS {
            let g = Value::Text(format!("{k:0>800}").into());
            load.push(&[ValueRef::Int(k), g.as_ref(), text(1000, k).as_ref()]).unwrap();
        }
        load.finish().unwrap();
        run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
        drop(session);
        database.close().unwrap();

        let database = open(SMALL);
        let mut session = database.session();
        let mut kept = Vec::new();
        while let Ok(work) = database.prepare(&format!("SELECT {} + length('{}')", kept.len(), "x".repeat(3000))) {
            kept.push(work);
            assert!(kept.len() < 10_000);
        }
        let memory = database.memory();
        assert!(
            memory.table_bytes > SMALL && memory.working_bytes("statements") > memory.reserve_bytes / 2,
            "{memory:?}"
        );
        let error = session.execute("INSERT INTO t VALUES (-1, 'new', 'new')", &[]).unwrap_err();
        assert_eq!(error.sqlstate(), "53200", "{error}");
        database.snapshot().unwrap();
        let deleted = |session: &mut RowSession, from: i64, rows: i64| {
            let parameters = [Value::Int(from), Value::Int(from + rows - 1)];
            session.execute("DELETE FROM t WHERE k BETWEEN $1 AND $2", &parameters).map(|deleted| deleted.affected)
        };
        match way {
            "DELETE" => {
                let refusal = deleted(&mut session, 0, ROWS).unwrap_err();
                assert_eq!(refusal.sqlstate(), "53200", "{refusal}");
                let mut rows = advised_rows(&refusal.to_string());
                assert!((10..ROWS).contains(&rows), "{refusal}");
                let mut from = 0;
                while from < ROWS {
                    match deleted(&mut session, from, rows) {
                        Ok(deleted) => {
                            assert_eq!(deleted as i64, rows.min(ROWS - from));
                            from += rows;
                        }
                        // What is needed next may be less, but by far not nothing.
                        Err(error) => {
                            let fewer = advised_rows(&error.to_string());
                            assert!((10..rows).contains(&fewer), "{from}, {rows}: {error}");
                            rows = fewer;
                        }
                    }
                }
                drop(kept);
            }
            "raise the limit" => database.set_memory_bytes_max(64 << 20),
            sql => {
                run(&mut session, sql, &[]);
            }
        }
        database.snapshot().unwrap();
        if way == "DROP TABLE t" {
            run(&mut session, &format!("CREATE TABLE t ({columns}) PARTITION BY (k)"), &[]);
        }
        for k in ROWS..ROWS + 10 {
            run(&mut session, "INSERT INTO t VALUES ($1, 'new', 'new')", &[Value::Int(k)]);
        }
        let count = int(&run(&mut session, "SELECT count(*) FROM t WHERE v = 'new'", &[]));
        assert_eq!(count, 10, "{way}");
    }
}

/// Requests for memory that rows take have rows evicted and wait for that, whoever makes them: reading statements,
/// parameters, results, undo.
#[test]
fn every_request_has_rows_evicted() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill(&mut session, "t", 30_000);
    let literal = "x".repeat(700_000);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (mut session, literal) = (database.session(), &literal);
            let _thread = scope.spawn(move || {
                for step in 0..10 {
                    let begins = step % 3 == 1;
                    begins.then(|| run(&mut session, "BEGIN", &[]));
                    begins.then(|| run(&mut session, "SELECT v FROM t WHERE k = $1", &[Value::Int(client)]));
                    // About five MiB while it is read.
                    let read = run(&mut session, &format!("SELECT length('{literal}') + {client}"), &[]);
                    assert_eq!(int(&read), 700_000 + client);
                    begins.then(|| run(&mut session, "COMMIT", &[]));
                    // Fills memory again.
                    for k in 0..1000 {
                        let key = 100_000 + client * 100_000 + step * 1000 + k;
                        run(&mut session, "INSERT INTO t VALUES ($1, $2)", &[Value::Int(key), text(1000, k)]);
                    }
                }
            });
        }
    });
    let long = "y".repeat(4 << 20);
    let read = run(&mut session, "SELECT length($1)", &[Value::Text(long.into())]);
    assert_eq!(int(&read), 4 << 20);
    let result = run(&mut session, "SELECT repeat('z', 1000000) FROM t WHERE k IN (1, 2, 3, 4)", &[]);
    assert_eq!(result.rows.len(), 4);
    drop(result);
    let keys: Vec<String> = (0..2000).map(|k| k.to_string()).collect();
    for begins in [false, true] {
        begins.then(|| run(&mut session, "BEGIN", &[]));
        // In parts, because each of these keys takes much while it is read.
        for keys in keys.chunks(500) {
            let sql = format!("UPDATE t SET v = upper(v) WHERE k IN ({})", keys.join(", "));
            assert_eq!(run(&mut session, &sql, &[]).affected, 500);
        }
        begins.then(|| run(&mut session, "COMMIT", &[]));
    }
}

/// A query by an index that needs far more evicted rows than it waits for at once reads what it has read again each time
/// that some of them are back: that happens a few times, not once for each thousand of them.
#[test]
fn a_query_of_many_evicted_rows_runs_again_a_few_times() {
    const ROWS: i64 = 40_000;
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE a (k BIGINT, v TEXT NOT NULL, PRIMARY KEY (k) USING BTREE) PARTITION BY (k)", &[]);
    for k in 0..ROWS {
        run(&mut session, "INSERT INTO a VALUES ($1, $2)", &[Value::Int(k), text(50, k)]);
    }
    let evicted = |session: &mut RowSession| {
        let partitions = session.statistics().unwrap().partitions;
        let tables = partitions.iter().flat_map(|part| &part.tables);
        tables.filter(|table| &*table.table.name == "a").map(|table| table.evicted_rows).sum::<usize>()
    };
    let blocking = |session: &mut RowSession| {
        session.statistics().unwrap().partitions.iter().map(|part| part.waits.blocking_total).sum::<u64>()
    };
    for (number, begin) in ["", "BEGIN"].into_iter().enumerate() {
        fill(&mut session, &format!("b{number}"), 30_000);
        assert!(evicted(&mut session) > 30_000, "{}", evicted(&mut session));
        run(&mut session, &format!("DROP TABLE b{number}"), &[]);
        let before = blocking(&mut session);
        if !begin.is_empty() {
            run(&mut session, begin, &[]);
        }
        let sum = "SELECT sum(length(v)) FROM a WHERE k >= 0";
        assert_eq!(int(&run(&mut session, sum, &[])), 50 * ROWS, "{begin}");
        let times = blocking(&mut session) - before;
        assert!(times <= 2 * 10, "{begin}: {times} times in two partitions");
        if !begin.is_empty() {
            run(&mut session, "ROLLBACK", &[]);
        }
    }
}
