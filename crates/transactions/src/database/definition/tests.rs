//! Indexes built beside transactions, with the definition stepped by the test.

use thermocline_durability::disk::{Crash, Disk, Faults, SimulatedDisk};
use thermocline_durability::log::LogSettings;
use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::Cause;
use thermocline_machine::random::Random;
use thermocline_types::{Value, ValueRef};

use super::*;
use crate::database::{RowEngine, RowSession, Settings, SnapshotSettings};

const PARTITIONS: u16 = 3;
/// Enough rows for several steps in each partition.
const ROWS: i64 = 20_000;
const ROWS_OF_A_STEP: i64 = 2048;

fn settings() -> Settings {
    Settings {
        partitions: PARTITIONS,
        seed: 5,
        log: LogSettings { room_bytes: 0, ..LogSettings::default() },
        snapshots: SnapshotSettings { log_bytes: u64::MAX, interval: None, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

fn open(disk: &SimulatedDisk) -> RowEngine {
    RowEngine::open(Arc::new(disk.clone()) as Arc<dyn Disk>, settings()).unwrap()
}

fn disk() -> SimulatedDisk {
    SimulatedDisk::new(1, Faults::default())
}

fn run(session: &mut RowSession, sql: &str) -> u64 {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).affected
}

fn state(session: &mut RowSession, sql: &str) -> String {
    session.execute(sql, &[]).unwrap_err().sqlstate().to_owned()
}

fn count(session: &mut RowSession, sql: &str) -> i64 {
    let answer = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let ValueRef::Int(count) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    count
}

/// A table, partitioned or replicated, with rows of `v` = `k`.
fn filled(disk: &SimulatedDisk, by: &str) -> RowEngine {
    let database = open(disk);
    let mut session = database.session();
    run(&mut session, &format!("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, s TEXT) {by}"));
    let mut load = session.load("t", &["k", "v", "s"]).unwrap();
    for k in 0..ROWS {
        load.push(&[ValueRef::Int(k), ValueRef::Int(k), ValueRef::Text("s")]).unwrap();
    }
    load.finish().unwrap();
    drop(session);
    database
}

const BY_K: &str = "PARTITION BY (k)";

fn definition(database: &RowEngine, sql: &str) -> Definition {
    let shared = database.shared();
    Definition::new(&shared.catalog, &shared.handle, sql, None)
}

/// Takes one step, then waits like a thread.
fn step(database: &RowEngine, definition: &mut Definition) -> Option<Result<()>> {
    match definition.step() {
        Step::Go => None,
        Step::Wait(wait) => {
            wait.sleep(database.shared().handle.clock());
            None
        }
        Step::Over(result) => Some(result),
    }
}

/// A definition that has begun an index, and fills none of it before its next step.
fn begun(database: &RowEngine, sql: &str) -> Definition {
    let mut definition = definition(database, sql);
    while !definition.is_filling() {
        assert!(step(database, &mut definition).is_none(), "{sql} is over");
    }
    definition
}

fn end(database: &RowEngine, mut definition: Definition) -> Result<()> {
    loop {
        if let Some(result) = step(database, &mut definition) {
            return result;
        }
    }
}

/// Checks the invariants of all partitions, including builds.
fn check(database: &RowEngine) {
    for id in 0..PARTITIONS {
        database.shared().handle.visit(PartitionId(id), |member| member.partition.check()).unwrap().unwrap();
    }
}

fn has_index(database: &RowEngine) -> bool {
    database.schema().index("t_v").is_some()
}

/// Compares rows found by the index with rows found without it.
fn compare(database: &RowEngine) {
    let mut session = database.session();
    assert!(has_index(database));
    let rows = count(&mut session, "SELECT count(*) FROM t");
    assert_eq!(count(&mut session, "SELECT count(*) FROM t WHERE v >= -1000000"), rows);
    for v in (0..ROWS).step_by(977) {
        let by = |column: &str| format!("SELECT count(*) FROM t WHERE {column} BETWEEN {v} AND {}", v + 100);
        assert_eq!(count(&mut session, &by("v")), count(&mut session, &by("v + 0")), "{v}");
    }
}

/// Some statements of a few rows each, over all partitions.
fn write(random: &mut Random, session: &mut RowSession) {
    let key = |random: &mut Random| Value::Int(random.below(ROWS.unsigned_abs()).cast_signed());
    for _ in 0..8 {
        let (k, v) = (key(random), key(random));
        let sql = match random.below(7) {
            // Compiled updates: integers in place, and columns of fixed width.
            0 => "UPDATE t SET v = v + 1 WHERE k = $1 AND $2 > -1",
            1 | 2 => "UPDATE t SET v = $2 WHERE k = $1",
            3 => "UPDATE t SET s = s || 'longer', v = $2 WHERE k = $1",
            4 => "DELETE FROM t WHERE k = $1 AND $2 > -1",
            5 => "INSERT INTO t VALUES ($1, $2, 'new') ON CONFLICT (k) DO UPDATE SET s = 'old'",
            _ => "INSERT INTO t VALUES ($1 + 1000000, $2, 'new') ON CONFLICT (k) DO NOTHING",
        };
        session.execute(sql, &[k, v]).unwrap();
    }
    if random.one_in(3) {
        run(session, "BEGIN");
        let (k, v) = (key(random), key(random));
        session.execute("UPDATE t SET v = $2 WHERE k >= $1 AND k < $1 + 50", &[k, v]).unwrap();
        run(session, if random.one_in(2) { "ROLLBACK" } else { "COMMIT" });
    }
}

#[test]
fn writers_run_between_the_steps_of_an_index() {
    for (by, sql) in [
        (BY_K, "CREATE INDEX t_v ON t (v)"),
        (BY_K, "CREATE INDEX t_v ON t USING HASH (v)"),
        ("", "CREATE INDEX t_v ON t (v DESC)"),
        (BY_K, "CREATE UNIQUE INDEX t_v ON t (v, k)"),
    ] {
        let disk = disk();
        let database = filled(&disk, by);
        let (mut session, mut random) = (database.session(), Random::new(1));
        let mut definition = begun(&database, sql);
        let (mut steps, mut result) = (0, None);
        while result.is_none() {
            result = step(&database, &mut definition);
            steps += 1;
            // These end although the definition takes no step: only one of its steps can hold them up.
            write(&mut random, &mut session);
            if steps % 4 == 0 {
                check(&database);
            }
        }
        assert_eq!(result, Some(Ok(())));
        let of_a_partition = if by.is_empty() { ROWS } else { ROWS / i64::from(PARTITIONS) };
        assert!(steps > of_a_partition / ROWS_OF_A_STEP, "{steps}");
        check(&database);
        compare(&database);
        (0..20).for_each(|_| write(&mut random, &mut session));
        check(&database);
        drop((session, definition));
        drop(database);
        let database = open(&disk);
        assert!(database.read_only().is_none(), "the log is replayed to its end");
        check(&database);
        compare(&database);
    }
}

#[test]
fn a_crash_while_an_index_is_built_leaves_none() {
    crash_at_every_step("CREATE INDEX t_v ON t (v)", has_index);
}

#[test]
fn a_crash_while_a_column_is_added_leaves_none() {
    let sql = "ALTER TABLE t ADD COLUMN x BIGINT NOT NULL DEFAULT 1";
    let is_made = |database: &RowEngine| database.schema().table("t").unwrap().column("x").is_ok();
    crash_at_every_step(sql, is_made);
}

fn crash_at_every_step(sql: &str, is_made: impl Fn(&RowEngine) -> bool) {
    let mut made = 0;
    for steps in 0.. {
        let disk = disk();
        let database = filled(&disk, BY_K);
        let (mut session, mut random) = (database.session(), Random::new(steps));
        let mut definition = definition(&database, sql);
        let mut result = None;
        for taken in 0..steps {
            result = step(&database, &mut definition);
            if result.is_some() {
                break;
            }
            write(&mut random, &mut session);
            if taken == steps / 2 && steps % 3 == 0 {
                database.snapshot().unwrap();
            }
        }
        let rows = count(&mut session, "SELECT count(*) FROM t");
        disk.crash_after(Some(0));
        drop((session, definition));
        drop(database);
        disk.restart(Crash::Power);
        let database = open(&disk);
        assert!(database.read_only().is_none());
        check(&database);
        let mut session = database.session();
        assert_eq!(count(&mut session, "SELECT count(*) FROM t"), rows);
        match result {
            Some(result) => {
                result.unwrap();
                assert!(is_made(&database), "it was acknowledged");
                made += 1;
            }
            // Its record may be there, like that of any unanswered statement.
            None if is_made(&database) => {}
            None => assert_eq!(run(&mut session, sql), 0),
        }
        check(&database);
        if has_index(&database) {
            compare(&database);
        }
        if made > 1 {
            break;
        }
    }
}

#[test]
fn writers_run_between_the_steps_of_a_new_column() {
    for (by, sql) in [
        (BY_K, "ALTER TABLE t ADD COLUMN x TEXT NOT NULL DEFAULT 'there'"),
        ("", "ALTER TABLE t ADD COLUMN x BIGINT DEFAULT 1"),
    ] {
        let disk = disk();
        let database = filled(&disk, by);
        let (mut session, mut random) = (database.session(), Random::new(1));
        run(&mut session, "CREATE INDEX t_v ON t (v)");
        let mut definition = begun(&database, sql);
        assert_eq!(state(&mut session, "CREATE INDEX t_s ON t (s)"), "55006");
        let (mut steps, mut result) = (0, None);
        while result.is_none() {
            result = step(&database, &mut definition);
            steps += 1;
            write(&mut random, &mut session);
            if steps % 4 == 0 {
                check(&database);
            }
        }
        assert_eq!(result, Some(Ok(())));
        drop(definition);
        let count_filled = "SELECT count(*) FROM t WHERE x IS NOT NULL";
        let rows = count(&mut session, "SELECT count(*) FROM t WHERE s <> 'new'");
        assert!(count(&mut session, count_filled) >= rows);
        assert_eq!(run(&mut session, "UPDATE t SET x = NULL WHERE k = -1"), 0);
        run(&mut session, "UPDATE t SET x = DEFAULT WHERE k < 100");
        check(&database);
        compare(&database);
        let filled_rows = count(&mut session, count_filled);
        drop(session);
        drop(database);
        let database = open(&disk);
        assert!(database.read_only().is_none(), "the log is replayed to its end");
        check(&database);
        compare(&database);
        assert_eq!(count(&mut database.session(), count_filled), filled_rows);
    }
}

#[test]
fn a_column_that_is_stopped_or_has_no_memory_is_gone() {
    let disk = disk();
    let database = filled(&disk, BY_K);
    let (before, sql) = (database.memory_bytes(), "ALTER TABLE t ADD COLUMN x BIGINT NOT NULL DEFAULT 1");
    let mut stopped = begun(&database, sql);
    (0..6).for_each(|_| assert!(step(&database, &mut stopped).is_none()));
    check(&database);
    assert!(database.memory_bytes() > before, "it is charged as it grows");
    drop(stopped);
    check(&database);
    assert_eq!(database.memory_bytes(), before);
    let budget = &database.shared().budget;
    budget.set_limit(before + before / 4, 0);
    let mut session = database.session();
    let error = session.execute(sql, &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    check(&database);
    assert_eq!(database.memory_bytes(), before);
    budget.set_limit(u64::MAX, 0);
    run(&mut session, sql);
    assert_eq!(count(&mut session, "SELECT count(*) FROM t WHERE x = 1"), ROWS);
}

#[test]
fn other_definitions_of_the_table_are_refused_and_those_of_others_run() {
    let database = filled(&disk(), BY_K);
    let mut session = database.session();
    run(&mut session, "CREATE INDEX t_s ON t (s)");
    let definition = begun(&database, "CREATE INDEX t_v ON t (v)");
    for sql in [
        "DROP TABLE t",
        "TRUNCATE t",
        "ALTER TABLE t ADD COLUMN x BIGINT",
        "CREATE INDEX t_x ON t (v, s)",
        "CREATE INDEX t_v ON t (v)",
        "DROP INDEX t_s",
    ] {
        assert_eq!(state(&mut session, sql), "55006", "{sql}");
    }
    let mut load = session.load("t", &["k", "v"]).unwrap();
    let row = |k| [ValueRef::Int(k), ValueRef::Int(k)];
    let loaded = (ROWS..2 * ROWS).try_for_each(|k| load.push(&row(k))).and_then(|()| load.finish().map(drop));
    assert_eq!(loaded.unwrap_err().sqlstate(), "55006");
    run(&mut session, "CREATE TABLE u (k BIGINT PRIMARY KEY)");
    run(&mut session, "CREATE INDEX u_k ON u (k)");
    run(&mut session, "DROP TABLE u");
    end(&database, definition).unwrap();
    check(&database);
    compare(&database);
    // No index is begun while rows are loaded.
    let mut load = session.load("t", &["k", "v"]).unwrap();
    (ROWS..ROWS + 3000).for_each(|k| load.push(&row(k)).unwrap());
    assert_eq!(state(&mut database.session(), "CREATE INDEX t_x ON t (v, s)"), "55006");
    assert_eq!(load.finish().unwrap(), 3000);
    for sql in ["DROP INDEX t_s", "ALTER TABLE t ADD COLUMN x BIGINT", "CREATE INDEX t_x ON t (v, x)", "DROP TABLE t"] {
        run(&mut session, sql);
    }
}

#[test]
fn an_index_that_is_stopped_is_gone_with_its_memory() {
    let database = filled(&disk(), BY_K);
    let shared = database.shared();
    let before = database.memory_bytes();
    let interrupt = Arc::new(Interrupt::new(None));
    let sql = "CREATE INDEX t_v ON t (v)";
    let mut stopped = Definition::new(&shared.catalog, &shared.handle, sql, Some(&interrupt));
    while !stopped.is_filling() {
        assert!(step(&database, &mut stopped).is_none());
    }
    (0..6).for_each(|_| assert!(step(&database, &mut stopped).is_none()));
    check(&database);
    assert!(database.memory_bytes() > before, "it is charged as it grows");
    assert!(interrupt.stop(Cause::User), "it is in no partition");
    assert_eq!(end(&database, stopped).unwrap_err().sqlstate(), "57014");
    check(&database);
    assert_eq!(database.memory_bytes(), before);
    // A definition that is dropped.
    let mut vanishes = begun(&database, sql);
    (0..6).for_each(|_| assert!(step(&database, &mut vanishes).is_none()));
    drop(vanishes);
    check(&database);
    assert_eq!(database.memory_bytes(), before);
    let mut session = database.session();
    session.set_statement_timeout(Some(std::time::Duration::ZERO));
    assert_eq!(state(&mut session, sql), "57014");
    session.set_statement_timeout(None);
    run(&mut session, sql);
    compare(&database);
    run(&mut session, "DROP INDEX t_v");
    assert_eq!(database.memory_bytes(), before);
}

#[test]
fn a_violation_counts_when_it_is_committed() {
    let database = filled(&disk(), "");
    let (mut session, sql) = (database.session(), "CREATE UNIQUE INDEX t_v ON t (v)");
    let mut definition = begun(&database, sql);
    (0..6).for_each(|_| assert!(step(&database, &mut definition).is_none()));
    // A row behind the cursor, and one that the cursor has not reached.
    for v in [7, ROWS - 1] {
        run(&mut session, "BEGIN");
        run(&mut session, &format!("UPDATE t SET v = {v} WHERE k = 8"));
        run(&mut session, "ROLLBACK");
    }
    // Two rows exchange their keys.
    run(&mut session, "UPDATE t SET v = 17 - v WHERE k IN (8, 9)");
    check(&database);
    end(&database, definition).unwrap();
    compare(&database);
    assert_eq!(state(&mut session, "UPDATE t SET v = 7 WHERE k = 8"), "23505");
    run(&mut session, "DROP INDEX t_v");
    for (v, late) in [(7, false), (ROWS - 1, false), (7, true)] {
        let before = database.memory_bytes();
        let mut definition = begun(&database, sql);
        let steps = if late { ROWS } else { 6 };
        for _ in 0..steps {
            if late && !definition.is_filling() {
                // All rows have been visited, and the index is not part of the table yet.
                break;
            }
            assert!(step(&database, &mut definition).is_none());
        }
        run(&mut session, &format!("UPDATE t SET v = {v} WHERE k = 100"));
        let error = end(&database, definition).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains(&format!("({v})"))), ("23505", true), "{error}");
        run(&mut session, "UPDATE t SET v = 100 WHERE k = 100");
        check(&database);
        assert_eq!(database.memory_bytes(), before);
        assert!(!has_index(&database));
    }
}

#[test]
fn an_index_of_a_database_that_closes_ends_with_an_error() {
    for steps in 0..12 {
        let disk = disk();
        let database = filled(&disk, BY_K);
        let mut definition = begun(&database, "CREATE INDEX t_v ON t (v)");
        let ends = (0..steps).any(|_| step(&database, &mut definition).is_some());
        assert!(!ends);
        drop(database);
        let ended = loop {
            match definition.step() {
                Step::Go => {}
                Step::Wait(wait) => wait.sleep(&thermocline_machine::Clock::real()),
                Step::Over(result) => break result,
            }
        };
        let error = ended.unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
        drop(definition);
        let database = open(&disk);
        check(&database);
        assert!(!has_index(&database));
    }
}
