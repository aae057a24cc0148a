//! The 13 SSB queries give DuckDB's rows in every format, mode, cache state and topology.
//!
//! `THERMOCLINE_SSB_SCALE=1` runs them at scale 1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::collections::HashMap;

use support::oracle::{Oracle, Row};
use support::rows::{assert_same, canonical};
use support::s3::S3Server;
use support::topology::{NodeProcess, spread};
use support::{data, oracle};
use thermocline_compute::{Session, SessionOptions, Settings};
use thermocline_pushdown::Mode;
use thermocline_workloads::ssb::{Format, QUERIES};

fn expected(format: Format) -> HashMap<&'static str, Vec<Row>> {
    let mut duckdb = Oracle::start();
    for view in data::duckdb_views(format, data::ssb(format)) {
        duckdb.query(&view);
    }
    QUERIES.iter().map(|(name, sql)| (*name, duckdb.query(sql))).collect()
}

async fn session(format: Format, location: &str, cache_size: usize) -> Session {
    let settings = Settings { cache_size, partition_size: 1 << 20, ..Settings::default() };
    let session = Session::open(SessionOptions { settings, ..SessionOptions::default() }).await.unwrap();
    for definition in data::definitions(format, location) {
        session.run(&definition).await.unwrap();
    }
    session
}

/// All modes: cold, then with a cache of half the working set, then with all of it cached.
async fn check(format: Format, location: &str, expected: &HashMap<&'static str, Vec<oracle::Row>>) {
    let full = session(format, location, 8 << 30).await;
    for mode in Mode::ALL {
        full.set("mode", mode.name()).unwrap();
        full.engine().cache.clear();
        for state in ["cold", "warm"] {
            run_all(&full, &format!("{format:?} {location} {mode} {state}"), expected).await;
        }
    }
    // Everything that the queries need is cached now, and no byte of data may move.
    full.set("mode", "hybrid").unwrap();
    run_all(&full, "warming", expected).await;
    let moved = run_all(&full, &format!("{format:?} {location} fully cached"), expected).await;
    assert_eq!(moved, 0, "{location}: bytes moved with everything cached");
    let (working_set, _) = full.engine().cache.bytes();

    let half = session(format, location, working_set / 2).await;
    for mode in [Mode::Hybrid, Mode::Caching, Mode::Hybrid] {
        half.set("mode", mode.name()).unwrap();
        for policy in ["lru", "lfu"] {
            half.set("cache_policy", policy).unwrap();
            run_all(&half, &format!("{format:?} {location} {mode} half cached, {policy}"), expected).await;
        }
    }
    assert!(half.engine().cache.bytes_max() <= working_set / 2, "the cache passed its limit");
}

async fn run_all(session: &Session, context: &str, expected: &HashMap<&'static str, Vec<oracle::Row>>) -> u64 {
    let mut moved = 0;
    for (name, sql) in QUERIES {
        let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context} {name}: {error}"));
        moved += result.stats.bytes_from_storage;
        assert_same(canonical(&result), expected[name].clone(), false, &format!("{context} {name}"));
    }
    moved
}

async fn everywhere(format: Format) {
    let data = data::ssb(format);
    let expected = expected(format);

    check(format, data.to_str().unwrap(), &expected).await;

    let temporary = tempfile::tempdir().unwrap();
    let (left, right) = (temporary.path().join("left"), temporary.path().join("right"));
    spread(data, &[&left, &right]);
    let (left, right) = (NodeProcess::over(&left), NodeProcess::over(&right));
    check(format, &format!("thermocline://{},{}", left.address, right.address), &expected).await;

    // The folder above the data is the S3 server's root, so that the data is a bucket.
    let bucket = data.file_name().unwrap().to_str().unwrap();
    let server = S3Server::start(data.parent().unwrap());
    let node = NodeProcess::start(&format!("s3://{bucket}"), "127.0.0.1:0", &[], &server.environment());
    check(format, &format!("thermocline://{}", node.address), &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_everywhere() {
    everywhere(Format::Parquet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_everywhere() {
    everywhere(Format::Csv).await;
}
