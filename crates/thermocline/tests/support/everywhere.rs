//! A workload's queries in every mode, cache state and topology, against DuckDB.

use std::collections::HashMap;

use thermocline_compute::{Session, SessionOptions, Settings};
use thermocline_pushdown::Mode;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

use super::data;
use super::oracle::{Oracle, Row};
use super::rows::assert_result;
use super::topology::{NodeProcess, spread};

/// Settings that must not change a result; each set is tried cold in the modes that push down.
const SWITCHES: &[&[(&str, &str)]] = &[
    &[("thermocline.bloom_filters", "off")],
    // No lists of build keys, so that Bloom filters stand in for them, in both kinds of join.
    &[("datafusion.optimizer.hash_join_inlist_pushdown_max_size", "0")],
    &[
        ("datafusion.optimizer.hash_join_inlist_pushdown_max_size", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
    ],
];

/// A workload in one format, and what DuckDB says of it.
pub struct Everywhere {
    workload: &'static Workload,
    format: Format,
    expected: HashMap<&'static str, Vec<Row>>,
}

impl Everywhere {
    /// Makes the data and asks DuckDB.
    pub fn new(workload: &'static Workload, format: Format) -> Self {
        let mut duckdb = Oracle::start();
        for view in data::duckdb_views(workload, format, data::made(workload, format)) {
            duckdb.query(&view);
        }
        let expected = workload.queries.iter().map(|(name, sql)| (*name, duckdb.query(sql))).collect();
        Self { workload, format, expected }
    }

    /// In this process, and spread over two storage node processes.
    pub async fn embedded_and_spread(&self) {
        let data = data::made(self.workload, self.format);
        self.check(data.to_str().unwrap()).await;

        let temporary = tempfile::tempdir().unwrap();
        let (left, right) = (temporary.path().join("left"), temporary.path().join("right"));
        spread(data, &[&left, &right]);
        let (left, right) = (NodeProcess::over(&left), NodeProcess::over(&right));
        self.check(&format!("thermocline://{},{}", left.address, right.address)).await;
    }

    /// All modes: cold and warm, with everything cached, then with a cache of half the working set;
    /// then each of [`SWITCHES`].
    pub async fn check(&self, location: &str) {
        let format = self.format;
        let full = self.session(location, 8 << 30).await;
        for mode in Mode::ALL {
            full.set("mode", mode.name()).unwrap();
            full.engine().cache.clear();
            for state in ["cold", "warm"] {
                self.run_all(&full, &format!("{format:?} {location} {mode} {state}")).await;
            }
        }
        // Everything that the queries need is cached now, and no byte of data may move.
        full.set("mode", "hybrid").unwrap();
        self.run_all(&full, "warming").await;
        let moved = self.run_all(&full, &format!("{format:?} {location} fully cached")).await;
        assert_eq!(moved, 0, "{location}: bytes moved with everything cached");
        let (working_set, _) = full.engine().cache.bytes();

        let half = self.session(location, working_set / 2).await;
        for mode in [Mode::Hybrid, Mode::Caching, Mode::Hybrid] {
            half.set("mode", mode.name()).unwrap();
            for policy in ["lru", "lfu"] {
                half.set("cache_policy", policy).unwrap();
                self.run_all(&half, &format!("{format:?} {location} {mode} half cached, {policy}")).await;
            }
        }
        assert!(half.engine().cache.bytes_max() <= working_set / 2, "the cache passed its limit");

        for switches in SWITCHES {
            let session = self.session(location, working_set / 2).await;
            for (name, value) in *switches {
                session.run(&format!("SET {name} = '{value}'")).await.unwrap();
            }
            for mode in [Mode::Pushdown, Mode::Hybrid] {
                session.set("mode", mode.name()).unwrap();
                self.run_all(&session, &format!("{format:?} {location} {mode} {switches:?}")).await;
            }
        }
    }

    async fn session(&self, location: &str, cache_size: usize) -> Session {
        let settings = Settings { cache_size, partition_size: 1 << 20, ..Settings::default() };
        let session = Session::open(SessionOptions { settings, ..SessionOptions::default() }).await.unwrap();
        for definition in data::definitions(self.workload, self.format, location) {
            session.run(&definition).await.unwrap();
        }
        session
    }

    /// Runs all queries, compares their rows, and returns the bytes that moved.
    async fn run_all(&self, session: &Session, context: &str) -> u64 {
        let mut moved = 0;
        for (name, sql) in self.workload.queries {
            let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context} {name}: {error}"));
            moved += result.stats.bytes_from_storage;
            assert_result(&result, self.expected[name].clone(), &format!("{context} {name}"));
        }
        moved
    }
}
