//! Policies that choose the rows to be evicted: they differ in what is in memory, and in nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Error;
use thermocline_transactions::blocks::{
    BlockFiles, BlockStore, BlockStoreSettings, BlockWrites, Merge, SamplingRate, Victims,
};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::ids::DatabaseId;
use thermocline_transactions::sql::{Outcome, Prepared};
use thermocline_transactions::table::TupleId;
use thermocline_transactions::types::Value;

use crate::common::RowSession;

mod common;

/// A session whose rows are evicted so; `None` for not at all.
fn session(eviction: Option<BlockStoreSettings>, partitions: u32) -> RowSession {
    let mut session = RowSession::new(partitions);
    if let Some(settings) = eviction {
        let disk = SimulatedDisk::new(1, Faults::default());
        let files = BlockFiles::open(Arc::new(disk), None).unwrap();
        for member in &mut session.members {
            let (id, to) = (member.partition.id(), (BlockWrites::at_once(), member.partition.budget()));
            let blocks = BlockStore::new(Arc::clone(&files), DatabaseId(7), id, settings, to);
            member.partition.set_blocks(Box::new(blocks));
            member.partition.set_victims(settings.victims, settings.chain_sampling);
        }
    }
    session
}

/// Runs a statement, again when the rows are back that it needs.
fn run(session: &mut RowSession, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome, Error> {
    loop {
        match session.execute(prepared, parameters) {
            Err(Error::Evicted) => {
                for (partition, transaction) in session.members.iter_mut().map(|member| member.split()) {
                    partition.bring_back_wanted(transaction).unwrap();
                }
            }
            result => {
                session.members.iter_mut().for_each(|member| member.partition.unpin());
                return result;
            }
        }
    }
}

/// The same statements with each policy and without eviction: the same answers, and the same hashes of all states.
#[test]
fn states_do_not_depend_on_victims() {
    let settings = |victims, chain_sampling, merge| {
        Some(BlockStoreSettings {
            segment_bytes: 1 << 16,
            block_bytes: Some(4 << 10),
            merge,
            victims,
            chain_sampling,
            ..Default::default()
        })
    };
    for seed in 0..4 {
        println!("seed {seed}");
        let mut all = Vec::new();
        for eviction in [
            None,
            settings(Victims::Sampled, SamplingRate::default(), Merge::Tuple),
            settings(Victims::Chain, SamplingRate::default(), Merge::Tuple),
            settings(Victims::Chain, "0.3".parse().unwrap(), Merge::Block),
            settings(Victims::Chain, SamplingRate::ALL, Merge::Tuple),
        ] {
            let mut session = session(eviction, 2);
            for sql in [
                "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v TEXT NOT NULL) PARTITION BY (k)",
                "CREATE TABLE hot (k BIGINT PRIMARY KEY, n BIGINT NOT NULL) PARTITION BY (k)",
                "CREATE TABLE stays (k BIGINT PRIMARY KEY, n BIGINT) PARTITION BY (k) WITH (evictable = false)",
                "CREATE INDEX t_g ON t (g)",
            ] {
                session.run(sql).unwrap();
            }
            let statements = [
                ("INSERT INTO t VALUES ($1, $1 % 40, repeat('x', 200))", 2000),
                ("INSERT INTO hot VALUES ($1, 1)", 50),
                ("INSERT INTO stays VALUES ($1, 1)", 50),
                ("UPDATE hot SET n = n + 1 WHERE k = $1", 50),
                ("UPDATE stays SET n = n + 1 WHERE k = $1", 50),
                ("UPDATE t SET v = repeat('y', 50) WHERE k = $1", 2000),
                ("UPDATE t SET g = g + 1 WHERE k = $1", 2000),
                ("DELETE FROM t WHERE k = $1", 2000),
                ("SELECT length(v) + g FROM t WHERE k = $1", 2000),
                ("SELECT sum(k + length(v)) FROM t WHERE g = $1", 40),
            ];
            let statements = statements.map(|(sql, keys)| (Prepared::new(&session.schema, sql).unwrap(), keys));
            let (mut rng, mut evictions) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(seed));
            let mut answers = Vec::new();
            for step in 0..3000 {
                let k: i64 = if rng.random_bool(0.5) { rng.random_range(0..2000) } else { rng.random_range(0..50) };
                let number = if rng.random_bool(0.3) { 0 } else { rng.random_range(0..statements.len()) };
                let (prepared, keys) = &statements[number];
                let result = run(&mut session, prepared, &[Value::Int(k % keys)]);
                answers.push(format!("{result:?}"));
                if eviction.is_some() && step % 7 == 0 {
                    for member in &mut session.members {
                        let bytes = evictions.random_range(1..8000);
                        member.partition.evict(bytes, usize::MAX).unwrap();
                    }
                }
                if step % 500 == 0 {
                    session.check();
                }
            }
            session.check();
            let hashes: Vec<_> =
                session.members.iter().map(|member| member.partition.state_hashes().unwrap()).collect();
            if eviction.is_some() {
                let tables = session.members.iter().flat_map(|member| member.partition.tables());
                let (evicted, returned) = tables
                    .map(|table| table.eviction_totals())
                    .fold((0, 0), |(out, back), table| (out + table.0, back + table.1));
                assert!(evicted > 1000 && returned > 300, "{eviction:?}: {evicted} rows went, {returned} came back");
            }
            all.push((answers, hashes));
            let budget = Arc::clone(session.members[0].partition.budget());
            for table in ["t", "hot", "stays"] {
                session.run(&format!("DROP TABLE {table}")).unwrap();
            }
            assert_eq!(budget.used(), 0, "{eviction:?}");
        }
        assert!(all.iter().all(|one| *one == all[0]));
    }
}

/// The chain of a table in which all transactions are sampled is its order of use, whatever is evicted of it.
#[test]
fn the_chain_gives_up_what_was_used_least_recently() {
    let settings =
        BlockStoreSettings { victims: Victims::Chain, chain_sampling: SamplingRate::ALL, ..Default::default() };
    let mut session = session(Some(settings), 1);
    // The table may be made while transactions are sampled already.
    session.run("CREATE TABLE stays (k BIGINT PRIMARY KEY) WITH (evictable = false)").unwrap();
    session.run("INSERT INTO stays VALUES (1)").unwrap();
    session.run("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL)").unwrap();
    let prepared = |session: &RowSession, sql: &str| Prepared::new(&session.schema, sql).unwrap();
    let insert = prepared(&session, "INSERT INTO t VALUES ($1, repeat('x', 92))");
    let read = prepared(&session, "SELECT length(v) FROM t WHERE k = $1");
    let write = prepared(&session, "UPDATE t SET v = repeat('y', 92) WHERE k = $1");
    let delete = prepared(&session, "DELETE FROM t WHERE k = $1");
    let run = |session: &mut RowSession, prepared: &Prepared, k: i64| {
        run(session, prepared, &[Value::Int(k)]).unwrap();
    };
    let live = |session: &RowSession| -> Vec<u32> {
        let table = session.members[0].partition.tables().last().unwrap();
        table.scan().filter(|id| table.block_place(*id).is_none()).map(|TupleId(id)| id).collect()
    };
    // The first row of a table has id 0, so ids are keys.
    for k in 0..20 {
        run(&mut session, &insert, k);
    }
    run(&mut session, &read, 3);
    run(&mut session, &write, 0);
    run(&mut session, &delete, 7);
    // Takes at least one row each time: as many as rows, because they are longer than this.
    let evict = |session: &mut RowSession| session.members[0].partition.evict(1, usize::MAX).unwrap();
    for _ in 0..4 {
        assert_eq!(evict(&mut session), 1);
    }
    assert_eq!(live(&session), [0, 3, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    // A row that came back is the last to go.
    run(&mut session, &read, 2);
    for _ in 0..13 {
        assert_eq!(evict(&mut session), 1);
    }
    assert_eq!(live(&session), [0, 2, 3]);
    let order: Vec<Vec<u32>> = (0..3).map(|_| (evict(&mut session), live(&session)).1).collect();
    assert_eq!(order, [vec![0, 2], vec![2], vec![]]);
    assert_eq!(evict(&mut session), 0);
    session.check();
}

/// Rows that each have one transaction long after they were inserted, as the orders of TPC-C have, beside those of a
/// smaller table that all transactions use: what waits stays, and what is done goes.
#[test]
fn rows_of_a_queue_stay_until_they_are_taken() {
    const WAITING: i64 = 2000;
    let mut session = session(Some(BlockStoreSettings::default()), 1);
    session.run("CREATE TABLE queue (k BIGINT PRIMARY KEY, done BOOLEAN NOT NULL, v TEXT NOT NULL)").unwrap();
    session.run("CREATE TABLE hot (k BIGINT PRIMARY KEY, n BIGINT NOT NULL, v TEXT NOT NULL)").unwrap();
    let prepared = |session: &RowSession, sql: &str| Prepared::new(&session.schema, sql).unwrap();
    let put = prepared(&session, "INSERT INTO queue VALUES ($1, false, repeat('x', 80))");
    let look = prepared(&session, "SELECT done FROM queue WHERE k = $1");
    let take = prepared(&session, "UPDATE queue SET done = true WHERE k = $1");
    let read = prepared(&session, "SELECT n FROM hot WHERE k = $1");
    let write = prepared(&session, "UPDATE hot SET n = n + 1 WHERE k = $1");
    for k in 0..1000 {
        let insert = prepared(&session, "INSERT INTO hot VALUES ($1, 0, repeat('y', 300))");
        run(&mut session, &insert, &[Value::Int(k)]).unwrap();
    }
    let live_bytes = |session: &RowSession| -> usize {
        session.members[0].partition.tables().zip([100, 320]).map(|(table, bytes)| table.live_rows() * bytes).sum()
    };
    let hot_bytes = live_bytes(&session);
    let mut rng = StdRng::seed_from_u64(3);
    for k in 0..30_000 {
        run(&mut session, &put, &[Value::Int(k)]).unwrap();
        for statement in [&look, &take].into_iter().filter(|_| k >= WAITING) {
            run(&mut session, statement, &[Value::Int(k - WAITING)]).unwrap();
        }
        let hot = Value::Int(rng.random_range(0..1000));
        for statement in [&read, &write] {
            run(&mut session, statement, std::slice::from_ref(&hot)).unwrap();
        }
        // Memory for three times as many rows as wait.
        while live_bytes(&session) > hot_bytes + 6000 * 100 {
            assert!(session.members[0].partition.evict(4096, usize::MAX).unwrap() > 0);
        }
    }
    let totals: Vec<_> = session.members[0].partition.tables().map(|table| table.eviction_totals()).collect();
    let [(done, of_queue), (_, of_hot)] = totals[..] else { panic!("{totals:?}") };
    assert!(done > 20_000 && of_queue < 30 && of_hot < 1000, "{totals:?}");
}
