//! Statements that scan tables larger than memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, RowSession};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::reader::{ReadRequest, ReadStep, RowSink};
use thermocline_transactions::table::{BlockStatistics, Row};
use thermocline_transactions::types::Value;

use crate::evicting::{LIMIT, create_groups, fill_groups, int, open, run, text, wait_for_memory};

#[path = "common/evicting.rs"]
mod evicting;

/// What the blocks of all partitions hold, and what was read of them since the start: bytes of blocks, bytes read.
fn bytes(session: &mut RowSession) -> [u64; 2] {
    let statistics = session.statistics().unwrap();
    let blocks: Vec<BlockStatistics> = statistics.partitions.iter().map(|part| part.blocks.unwrap()).collect();
    [blocks.iter().map(|blocks| blocks.block_bytes).sum(), blocks.iter().map(|blocks| blocks.read_bytes_total).sum()]
}

/// Rows that have come back since the start.
fn returned(session: &mut RowSession) -> u64 {
    let statistics = session.statistics().unwrap();
    statistics.partitions.iter().flat_map(|partition| &partition.tables).map(|table| table.returned_total).sum()
}

/// A query that needs no values.
struct Counted;

impl RowSink for Counted {
    fn row(&mut self, _: Row<'_>) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Changes rows at random, so that neighbours are in different blocks when they are evicted again.
fn shuffle(session: &mut RowSession, rows: i64, changes: usize) {
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..changes {
        let k = Value::Int(rng.random_range(0..rows));
        assert_eq!(run(session, "UPDATE t SET v = v || 'x' WHERE k = $1", &[k]).affected, 1);
    }
}

fn shuffled(rows: i64) -> (SimulatedDisk, RowEngine) {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    fill_groups(&mut session, rows, |k| k % 1000);
    shuffle(&mut session, rows, 30_000);
    wait_for_memory(&database, LIMIT);
    drop(session);
    (disk, database)
}

/// A statement that looks for rows to change reads each block once, in whatever order rows are there, and a query in a
/// transaction, which needs the rows in their order, no more than a page for each.
#[test]
fn shuffled_rows_are_read_once() {
    let rows = 60_000;
    let (_disk, database) = shuffled(rows);
    let mut session = database.session();
    let before_returned = returned(&mut session);
    for sql in [
        "UPDATE t SET v = 'new' WHERE g = -1",
        "DELETE FROM t WHERE g = -1",
        "DELETE FROM t WHERE length(v) = 17 AND g < 500",
        "UPDATE t SET g = g + 1 WHERE v = 'none'",
    ] {
        let [held, before] = bytes(&mut session);
        assert!(held > 30 << 20, "{held} bytes in blocks");
        assert_eq!(run(&mut session, sql, &[]).affected, 0);
        let read = bytes(&mut session)[1] - before;
        assert!(read <= held + held / 5, "{sql}: {read} bytes read of {held}");
    }
    let [held, before] = bytes(&mut session);
    run(&mut session, "BEGIN", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE length(v) >= 1000", &[])), rows);
    run(&mut session, "COMMIT", &[]);
    let read = bytes(&mut session)[1] - before;
    assert!(read <= 8 * held, "{read} bytes read of {held}");
    assert_eq!(returned(&mut session), before_returned, "nothing comes back");
}

/// Rows that a statement deletes for what it has read of them do not come back for that: so there may be more of them
/// than memory. All of it is undone by a rollback, and replayed from the log.
#[test]
fn more_rows_than_memory_are_deleted() {
    let rows = 15_000;
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    create_groups(&mut session);
    for k in 0..rows {
        run(&mut session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), Value::Int(k % 1000), text(4000, k)]);
    }
    shuffle(&mut session, rows, 10_000);
    run(&mut session, "CREATE UNIQUE INDEX t_gk ON t (g, k)", &[]);
    let count = |session: &mut RowSession, condition: &str| {
        int(&run(session, &format!("SELECT count(*) FROM t WHERE {condition}"), &[]))
    };
    run(&mut session, "BEGIN", &[]);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE length(v) >= 1000 AND g < 100", &[]).affected, rows as u64 / 10);
    assert_eq!(count(&mut session, "k >= 0"), rows * 9 / 10);
    run(&mut session, "INSERT INTO t VALUES (0, 0, 'again')", &[]);
    run(&mut session, "ROLLBACK", &[]);
    assert_eq!(count(&mut session, "k >= 0"), rows);
    assert_eq!(count(&mut session, "g = 20"), rows / 1000);

    // A query that is over keeps no row from going.
    let table = Arc::clone(database.schema().table("t").unwrap());
    let sink = |_: PartitionId| Box::new(Counted) as Box<dyn RowSink>;
    for mut reader in
        session.read_tables(vec![ReadRequest { table, sink: Box::new(sink) }]).unwrap().into_iter().flatten()
    {
        while reader.step(1000).unwrap() != ReadStep::Done {}
    }
    let (before, deleted) = (returned(&mut session), rows as u64 * 9 / 10);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE length(v) >= 1000 AND k % 10 < 9", &[]).affected, deleted);
    assert!(returned(&mut session) - before < 1000, "{} rows came back", returned(&mut session) - before);
    assert_eq!([count(&mut session, "k >= 0"), count(&mut session, "g = 20")], [rows / 10, 0]);
    assert_eq!(count(&mut session, "g = 29"), rows / 1000);
    run(&mut session, "INSERT INTO t VALUES (0, 0, 'again')", &[]);
    drop(session);
    drop(database);

    let database = open(&disk, LIMIT);
    let mut session = database.session();
    assert_eq!([count(&mut session, "k >= 0"), count(&mut session, "g = 20")], [rows / 10 + 1, 0]);
    assert_eq!(run(&mut session, "DELETE FROM t", &[]).affected, rows as u64 / 10 + 1);
    assert_eq!(count(&mut session, "k >= 0"), 0);
}

/// Rows of which few fit in memory are looked at by statements that change few of them, and deleted.
#[test]
fn few_rows_of_many_bytes_are_looked_at() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    create_groups(&mut session);
    for k in 0..50 {
        run(&mut session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), Value::Int(k % 5), text(700_000, k)]);
    }
    for sql in ["UPDATE t SET g = 7 WHERE v = 'none'", "DELETE FROM t WHERE length(v) < 10"] {
        assert_eq!(run(&mut session, sql, &[]).affected, 0, "{sql}");
    }
    assert_eq!(run(&mut session, "UPDATE t SET g = 7 WHERE length(v) = 700000 AND k IN (3, 44)", &[]).affected, 2);
    assert_eq!(run(&mut session, "UPDATE t SET g = 8 WHERE g + 1 = 8", &[]).affected, 2);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE length(v) = 700000 AND g < 5", &[]).affected, 48);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t WHERE g = 8", &[])), 2);
}

/// Of several rows for which a condition fails, it is the same one that is told, wherever the rows are.
#[test]
fn errors_do_not_depend_on_where_rows_are() {
    let told: Vec<Vec<String>> = [LIMIT, 1 << 30]
        .map(|limit| {
            let disk = SimulatedDisk::new(1, Faults::default());
            let database = open(&disk, limit);
            let mut session = database.session();
            fill_groups(&mut session, 40_000, |k| k % 1000);
            shuffle(&mut session, 40_000, 10_000);
            for k in [39_000, 5, 20_000, 17, 38_000] {
                let v = Value::Text(format!("no number {k}").into());
                run(&mut session, "UPDATE t SET v = $2 WHERE k = $1", &[Value::Int(k), v]);
            }
            // The newest rows stay in memory.
            run(&mut session, "UPDATE t SET v = repeat('1', 1000) WHERE k BETWEEN 21000 AND 23000", &[]);
            ["UPDATE t SET g = 1 WHERE", "DELETE FROM t WHERE"]
                .map(|start| {
                    let sql = format!("{start} length(v) < 900 AND CAST(v AS BIGINT) = 7");
                    let error = session.execute(&sql, &[]).unwrap_err();
                    assert_eq!(error.sqlstate(), "22P02", "{error}");
                    error.to_string()
                })
                .to_vec()
        })
        .to_vec();
    assert_eq!(told[0], told[1]);
}

/// Rows that statements have found by reading a table: a start does not read it as many times again, because closing
/// takes a snapshot.
#[test]
fn scans_are_not_repeated_by_the_next_start() {
    let rows = 40_000;
    let (disk, database) = shuffled(rows);
    let mut session = database.session();
    let mut model: BTreeMap<i64, i64> = (0..rows).map(|k| (k, k % 1000)).collect();
    database.snapshot().unwrap();
    for k in 0..20 {
        let sql = "UPDATE t SET g = -1 WHERE length(v) > 0 AND k + 0 = $1";
        assert_eq!(run(&mut session, sql, &[Value::Int(k)]).affected, 1);
        model.insert(k, -1);
    }
    let [held, _] = bytes(&mut session);
    drop(session);
    database.close().unwrap();
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    let [_, read] = bytes(&mut session);
    assert!(read <= 3 * held, "{read} bytes read of {held}");
    assert_eq!(int(&run(&mut session, "SELECT sum(g) FROM t", &[])), model.values().sum::<i64>());
}
