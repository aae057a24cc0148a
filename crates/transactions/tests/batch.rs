//! A batch equals its runs one after the other: the same rows, changes and errors.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod common;

use common::{NOW, RowSession};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::partition::Scope;
use thermocline_transactions::sql::{Batch, Environment, Outcome, Prepared};
use thermocline_transactions::types::{Value, ValueRef};

const DEFINITIONS: [&str; 5] = [
    "CREATE TABLE hashed (a BIGINT, b VARCHAR(8) NOT NULL, c INTEGER, PRIMARY KEY (a) USING HASH) PARTITION BY (a)",
    "CREATE TABLE ordered (a BIGINT, b VARCHAR(8) NOT NULL, c INTEGER, PRIMARY KEY (a)) PARTITION BY (a)",
    "CREATE TABLE texts (b TEXT, c INTEGER, PRIMARY KEY (b) USING HASH) PARTITION BY (b)",
    "CREATE TABLE everywhere (a INTEGER, b VARCHAR(8) NOT NULL, PRIMARY KEY (a) USING HASH)",
    "CREATE INDEX by_c ON hashed (c)",
];

/// Statements with a key as `$1`, text as `$2` and a small number or NULL as `$3`; each uses some of them.
const STATEMENTS: [(&str, &str); 19] = [
    ("k", "SELECT * FROM hashed WHERE a = $1"),
    ("k", "SELECT b, c FROM ordered WHERE a = $1"),
    ("t", "SELECT c, b FROM texts WHERE b = $1"),
    ("k", "SELECT b FROM everywhere WHERE a = $1"),
    ("k", "SELECT count(*), sum(c), max(b) FROM hashed WHERE a = $1"),
    ("kn", "SELECT a, c FROM ordered WHERE a > $1 AND c <> $2 ORDER BY c, a LIMIT 3"),
    ("n", "SELECT DISTINCT b FROM hashed WHERE c = $1 ORDER BY b"),
    ("k", "SELECT h.b, e.b FROM hashed h JOIN everywhere e ON e.a = h.c WHERE h.a = $1"),
    ("n", "SELECT h.a, e.b FROM hashed h LEFT JOIN everywhere e ON e.a = h.c WHERE h.c > $1 ORDER BY h.a"),
    ("n", "SELECT h.a, e.b FROM hashed h JOIN everywhere e ON e.a = 60 / h.c WHERE h.c <> 0 AND h.c > $1 ORDER BY 1"),
    ("kn", "UPDATE hashed SET c = coalesce(c, 0) + $2 WHERE a = $1 RETURNING a, c, b"),
    ("ktn", "UPDATE ordered SET b = $2, c = $3 WHERE a = $1"),
    ("nt", "UPDATE everywhere SET b = $2 WHERE a = $1 RETURNING b"),
    ("ktn", "INSERT INTO hashed VALUES ($1, $2, $3)"),
    ("ktn", "INSERT INTO ordered VALUES ($1, $2, $3) RETURNING $2, c, a + $1"),
    ("ktn", "INSERT INTO ordered VALUES ($1, $2, $3) ON CONFLICT (a) DO UPDATE SET c = ordered.c + 1 RETURNING c"),
    ("tn", "INSERT INTO texts VALUES ($1, $2) ON CONFLICT DO NOTHING"),
    ("k", "DELETE FROM hashed WHERE a = $1 RETURNING *"),
    ("t", "DELETE FROM texts WHERE b = $1"),
];

fn parameters(rng: &mut StdRng, kinds: &str) -> Vec<Value> {
    let mut value = |kind| match kind {
        'k' => Value::Int(rng.random_range(0..300)),
        't' => Value::from("abcdefgh".get(..rng.random_range(0..=8)).unwrap()),
        'n' if rng.random_bool(0.1) => Value::Null,
        'n' => Value::Int(rng.random_range(0..20)),
        other => panic!("no kind {other}"),
    };
    kinds.chars().map(&mut value).collect()
}

/// Runs a transaction over all partitions.
fn run<T>(session: &mut RowSession, run: impl FnOnce(&mut Scope<'_>, &Environment) -> Result<T>) -> Result<T> {
    let environment = Environment::new(NOW, 1, 10_000_000);
    let result = run(&mut Scope::new(&mut session.members), &environment);
    for member in &mut session.members {
        let (partition, transaction) = member.split();
        if result.is_ok() {
            partition.commit(transaction);
        } else {
            partition.abort(transaction).unwrap();
        }
    }
    result
}

fn filled(partitions: u32, rng: &mut StdRng) -> RowSession {
    let mut session = RowSession::new(partitions);
    DEFINITIONS.iter().for_each(|definition| session.define(definition).unwrap());
    for (kinds, sql) in [
        ("ktn", "INSERT INTO hashed VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"),
        ("ktn", "INSERT INTO ordered VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"),
        ("tn", "INSERT INTO texts VALUES ($1, $2) ON CONFLICT DO NOTHING"),
        ("kt", "INSERT INTO everywhere VALUES ($1 % 25, $2) ON CONFLICT DO NOTHING"),
    ] {
        let prepared = Prepared::new(&session.schema, sql).unwrap();
        for _ in 0..200 {
            session.execute(&prepared, &parameters(rng, kinds)).unwrap();
        }
    }
    session
}

fn hashes(session: &RowSession) -> Vec<String> {
    session.members.iter().map(|member| format!("{:?}", member.partition.state_hashes().unwrap())).collect()
}

#[test]
fn a_batch_is_its_runs_one_after_the_other() {
    let mut failed = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        let partitions = 1 + u32::try_from(seed % 3).unwrap();
        let (mut one_by_one, mut batches) = (
            filled(partitions, &mut StdRng::seed_from_u64(seed)),
            filled(partitions, &mut StdRng::seed_from_u64(seed)),
        );
        let mut rng = StdRng::seed_from_u64(1000 + seed);
        for _ in 0..40 {
            let (kinds, sql) = STATEMENTS[rng.random_range(0..STATEMENTS.len())];
            let prepared = Prepared::new(&batches.schema, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let sets: Vec<_> = (0..rng.random_range(0..40)).map(|_| parameters(&mut rng, kinds)).collect();
            let expected = run(&mut one_by_one, |scope, environment| {
                sets.iter().map(|set| prepared.run(scope, environment, set)).collect::<Result<Vec<Outcome>>>()
            });
            let borrowed = rng.random_bool(0.5);
            let refs: Vec<Vec<ValueRef<'_>>> = sets.iter().map(|set| set.iter().map(Value::as_ref).collect()).collect();
            let batch = run(&mut batches, |scope, environment| match borrowed {
                true => prepared.run_batch_borrowed(scope, environment, &refs),
                false => prepared.run_batch(scope, environment, &sets),
            });
            match (&expected, &batch) {
                (Ok(outcomes), Ok(batch)) => same(sql, outcomes, batch),
                (Err(expected), Err(error)) => {
                    assert_eq!(expected.to_string(), error.to_string(), "{sql}");
                    failed += 1;
                }
                (expected, batch) => panic!("{sql}: {expected:?}, as a batch {batch:?}"),
            }
            assert_eq!(hashes(&one_by_one), hashes(&batches), "{sql}");
        }
        batches.check();
    }
    assert!(failed > 10, "only {failed} batches failed");
}

fn same(sql: &str, outcomes: &[Outcome], batch: &Batch) {
    assert_eq!(batch.runs(), outcomes.len(), "{sql}");
    assert_eq!(batch.outcome.affected, outcomes.iter().map(|outcome| outcome.affected).sum::<u64>(), "{sql}");
    for (run, outcome) in outcomes.iter().enumerate() {
        let rows = batch.rows_of(run);
        assert_eq!(rows.len(), outcome.rows.len(), "{sql}");
        for (row, expected) in rows.zip(outcome.rows.iter()) {
            assert!(batch.outcome.rows.row(row).eq(expected), "{sql}: row {row}");
        }
    }
    assert!(batch.rows_of(outcomes.len()).is_empty());
}
