//! Random queries over random tables give DuckDB's rows: over objects that differ in types and layout, in every mode,
//! for every cache content, at an embedded node and at two storage node processes, before and after tables and objects
//! change.
//!
//! A data set is drawn from a seed: tables ([`schema`]) of objects ([`objects`]) that store one logical value
//! ([`values`]) in many ways, and steps ([`case`]) of queries ([`draw`]) and changes. The oracle gets the values from
//! one clean file, never from the objects. A failing case is shrunk ([`shrink`]) and printed as a script.
//!
//! Without variables [`SEEDS`] are run. `THERMOCLINE_SEED=n` replays one data set; `THERMOCLINE_ROUNDS=n` draws n of
//! them, from `THERMOCLINE_SEED` on or from a random seed; `THERMOCLINE_QUERIES=n` sets the queries of each;
//! `THERMOCLINE_FAILURES=n` continues until n data sets have failed. The long run is `THERMOCLINE_ROUNDS=200
//! THERMOCLINE_QUERIES=100`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod arrays;
mod case;
mod csv;
mod draw;
mod literals;
mod named;
mod objects;
mod predicates;
mod query;
mod run;
mod schema;
mod shrink;
mod stored;
#[path = "../support/mod.rs"]
mod support;
mod values;

use rand::Rng;

use case::{Case, Step};
use run::{Failure, Seen, What};
use support::oracle::Oracle;

/// Seeds of a run without variables: bounded, and always the same. Between them they take every route;
/// `THERMOCLINE_ROUNDS` draws others.
const SEEDS: &[u64] = &[32, 33, 48, 51, 88, 113];
/// Queries of a data set.
const QUERIES: usize = 25;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text}, no number")))
}

/// Runs a seed's case; returns a description of its failure.
async fn round(seed: u64, queries: usize, duckdb: &mut Oracle, seen: &mut Seen) -> Result<(), String> {
    let case = Case::draw(seed, queries);
    let Err(failure) = run::run(&case, duckdb, seen).await else { return Ok(()) };
    // The shrunk case may fail for another reason.
    println!("{}", said(&case, &failure));
    let (case, failure) = shrink::shrink(case, failure, duckdb).await;
    Err(format!("THERMOCLINE_SEED={seed}\n{}{}", case.script(), said(&case, &failure)))
}

/// The query that failed, and its failure.
fn said(case: &Case, failure: &Failure) -> String {
    let what = match &failure.what {
        What::Rows(how) => how,
        What::Error(error) => error,
        What::Stall => "no answer",
    };
    let query = match case.steps.get(failure.step) {
        Some(Step::Query(query, _)) => query.duckdb(),
        _ => String::new(),
    };
    format!("-- DuckDB: {query}\n-- {what}")
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_equal_duckdb() {
    let mut duckdb = Oracle::start();
    let mut seen = Seen::default();
    let queries = number("THERMOCLINE_QUERIES").map_or(QUERIES, |queries| queries as usize);
    let seeds: Vec<u64> = match (number("THERMOCLINE_SEED"), number("THERMOCLINE_ROUNDS")) {
        (None, None) => SEEDS.to_vec(),
        (first, rounds) => {
            let first = first.unwrap_or_else(|| rand::rng().random_range(0..1 << 40));
            (first..first + rounds.unwrap_or(1)).collect()
        }
    };
    let failures_max = number("THERMOCLINE_FAILURES").unwrap_or(1) as usize;
    let mut failures = vec![];
    for seed in &seeds {
        println!("THERMOCLINE_SEED={seed}");
        if let Err(why) = round(*seed, queries, &mut duckdb, &mut seen).await {
            println!("{why}");
            failures.push(why);
            if failures.len() >= failures_max {
                break;
            }
        }
    }
    println!("{seen:?}");
    assert!(failures.is_empty(), "{} data sets failed:\n{}", failures.len(), failures.join("\n\n"));
    if seeds.len() < SEEDS.len() {
        return;
    }
    // A test that exercises nothing finds nothing.
    assert!(seen.bloom_filters > 0, "no query had a Bloom filter");
    if seeds.len() >= 100 {
        assert!(seen.bitmap_bytes_to_storage > 0, "no bitmap went to storage");
        assert!(seen.bitmap_bytes_from_storage > 0, "no bitmap came from storage");
    }
    assert!(seen.routes.values().all(|partitions| *partitions > 0), "a route was never taken: {:?}", seen.routes);
    assert!(seen.refused * 20 < seen.queries, "DuckDB refused {} of {} queries", seen.refused, seen.queries);
    assert!(seen.empty * 2 < seen.queries, "{} of {} queries have no rows", seen.empty, seen.queries);
}
