//! Queries of a workload in every mode, cache state and topology, compared with DuckDB.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Mode;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

use super::data;
use super::oracle::{Oracle, Row};
use super::rows::assert_result;
use super::topology::{NodeProcess, spread};

/// Settings that must not change a result; each set is tried cold in the modes that push down.
const SWITCHES: &[&[(&str, &str)]] = &[
    &[("thermocline.bitmaps", "off")],
    &[("thermocline.bloom_filters", "off")],
    &[("thermocline.bloom_filters", "off"), ("thermocline.bitmaps", "off")],
    // Without lists of build keys, so that Bloom filters replace them, in both kinds of join.
    &[("datafusion.optimizer.hash_join_inlist_pushdown_max_size", "0")],
    &[
        ("datafusion.optimizer.hash_join_inlist_pushdown_max_size", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
    ],
];

/// Share of its pushdowns that a storage node pushes back, for the two nodes of a run.
const PUSHBACK: &[[&str; 2]] = &[["all", "half"], ["half", "none"]];

/// A workload in one format, and DuckDB's results.
pub struct Everywhere {
    workload: &'static Workload,
    format: Format,
    options: OpenOptions,
    expected: HashMap<&'static str, Vec<Row>>,
}

impl Everywhere {
    /// Generates the data and queries DuckDB.
    pub fn new(workload: &'static Workload, format: Format) -> Self {
        let mut duckdb = Oracle::start();
        for view in data::duckdb_views(workload, format, data::made(workload, format)) {
            duckdb.query(&view);
        }
        let expected = workload.queries.iter().map(|(name, sql)| (*name, duckdb.query(sql))).collect();
        Self { workload, format, options: OpenOptions::default(), expected }
    }

    /// The same with databases that are opened with `options`.
    pub fn with_options(self, options: OpenOptions) -> Self {
        Self { options, ..self }
    }

    /// In this process, and spread over two storage node processes.
    pub async fn embedded_and_spread(&self) {
        let data = data::made(self.workload, self.format);
        self.check(data.to_str().unwrap()).await;

        let temporary = tempfile::tempdir().unwrap();
        let roots = ["left", "right"].map(|name| temporary.path().join(name));
        spread(data, &roots.each_ref().map(PathBuf::as_path));
        let nodes = roots.each_ref().map(|root| NodeProcess::over(root));
        self.check(&location(&nodes)).await;
        self.indexed(&location(&nodes)).await;
        for pushback in PUSHBACK {
            let start = |root: &Path, share| {
                NodeProcess::start(root.to_str().unwrap(), "127.0.0.1:0", &["--pushback", share], &[])
            };
            let [left, right] = &roots;
            let nodes = [start(left, pushback[0]), start(right, pushback[1])];
            self.pushed_back(&location(&nodes), pushback).await;
        }
    }

    /// All modes and cache states; then random cache contents and each of [`SWITCHES`].
    async fn check(&self, location: &str) {
        let half = self.modes(location).await;
        for seed in 1..=2 {
            let context = format!("{:?} {location} random cache content of seed {seed}", self.format);
            self.random_cache(&half, seed, &context).await;
        }
        let cache_max = half.engine().cache().limit();
        for switches in SWITCHES {
            let session = self.session(location, cache_max).await;
            for (name, value) in *switches {
                session.run(&format!("SET {name} = '{value}'")).await.unwrap();
            }
            for mode in [Mode::Pushdown, Mode::Hybrid] {
                session.set("mode", mode.name()).unwrap();
                self.run_all(&session, &format!("{:?} {location} {mode} {switches:?}", self.format)).await;
            }
        }
    }

    /// All modes: cold and warm, with everything cached, then with a cache of half the working set.
    /// Returns the session with that cache.
    pub async fn modes(&self, location: &str) -> Session {
        let format = self.format;
        let full = self.session(location, 8 << 30).await;
        for mode in Mode::ALL {
            full.set("mode", mode.name()).unwrap();
            full.engine().cache().clear();
            for state in ["cold", "warm"] {
                self.run_all(&full, &format!("{format:?} {location} {mode} {state}")).await;
            }
        }
        // All needed columns are cached now, so no byte of data may move.
        full.set("mode", "hybrid").unwrap();
        self.run_all(&full, "warming").await;
        let sums = self.run_all(&full, &format!("{format:?} {location} fully cached")).await;
        assert_eq!(sums.bytes_from_storage, 0, "{location}: bytes moved with everything cached");
        let (working_set, _) = full.engine().cache().bytes();

        let half = self.session(location, working_set / 2).await;
        for (mode, policy) in [
            (Mode::Hybrid, "lru"),
            (Mode::Caching, "lfu"),
            (Mode::Hybrid, "wlfu"),
            (Mode::Auto, "gdsf"),
            (Mode::Caching, "gdsf"),
            (Mode::Auto, "lfu"),
        ] {
            half.set("mode", mode.name()).unwrap();
            half.database().set("cache_policy", policy).unwrap();
            self.run_all(&half, &format!("{format:?} {location} {mode} half cached, {policy}")).await;
        }
        assert!(half.engine().cache().bytes_max() <= working_set / 2, "the cache passed its limit");
        half
    }

    /// Caches the columns of random queries, then runs all queries in the modes that mix cached with pushed.
    async fn random_cache(&self, session: &Session, seed: u64, context: &str) {
        let mut rng = StdRng::seed_from_u64(seed);
        let half = self.workload.queries.len() / 2;
        for mode in [Mode::Hybrid, Mode::Pushdown] {
            session.engine().cache().clear();
            session.set("mode", "caching").unwrap();
            for (_, sql) in self.workload.queries.choose_multiple(&mut rng, half) {
                session.run(sql).await.unwrap();
            }
            session.set("mode", mode.name()).unwrap();
            self.run_all(session, &format!("{context} {mode}")).await;
        }
    }

    /// With an index on some columns, used and not used.
    async fn indexed(&self, location: &str) {
        let session = self.session(location, 64 << 20).await;
        for (n, (table, column)) in indexed_columns(self.workload).iter().enumerate() {
            session.run(&format!("CREATE INDEX i{n} ON {table} ({column})")).await.unwrap();
        }
        for (indexes, mode) in [("on", Mode::Pushdown), ("on", Mode::Hybrid), ("off", Mode::Pushdown)] {
            session.set("indexes", indexes).unwrap();
            session.set("mode", mode.name()).unwrap();
            self.run_all(&session, &format!("{:?} {location} {mode} indexes {indexes}", self.format)).await;
        }
    }

    /// With nodes that push back a share of their fragments.
    async fn pushed_back(&self, location: &str, share: &[&str; 2]) {
        // Such a small cache that even the mode that prefers it pushes.
        let session = self.session(location, 256 << 10).await;
        for mode in [Mode::Pushdown, Mode::Hybrid] {
            session.set("mode", mode.name()).unwrap();
            let context = format!("{:?} {location} {mode} pushback {share:?}", self.format);
            let sums = self.run_all(&session, &context).await;
            assert!(sums.pushed_back > 0, "{context}: nothing was pushed back");
        }
    }

    async fn session(&self, location: &str, cache_size: usize) -> Session {
        let options = self.options.clone().with("cache_size", cache_size).with("partition_size", "1MiB");
        let session = Database::open(options, |_| {}).await.unwrap().session();
        for definition in data::definitions(self.workload, self.format, location) {
            session.run(&definition).await.unwrap();
        }
        session
    }

    /// Runs all queries, compares their rows, and sums up their costs.
    async fn run_all(&self, session: &Session, context: &str) -> Sums {
        let mut sums = Sums::default();
        for (name, sql) in self.workload.queries {
            let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context} {name}: {error}"));
            sums.bytes_from_storage += result.stats.bytes_from_storage;
            sums.pushed_back += result.stats.partitions_pushed_back;
            assert_result(&result, self.expected[name].clone(), &format!("{context} {name}"));
        }
        sums
    }
}

/// Costs of several queries together.
#[derive(Default)]
struct Sums {
    bytes_from_storage: u64,
    /// Partitions that a node pushed back.
    pushed_back: u64,
}

/// The table's location on these nodes.
fn location(nodes: &[NodeProcess; 2]) -> String {
    format!("thermocline://{},{}", nodes[0].address, nodes[1].address)
}

/// Columns that the workload's queries compare with constants or with keys of a join.
fn indexed_columns(workload: &Workload) -> &'static [(&'static str, &'static str)] {
    if workload.name == Workload::SSB.name {
        return &[("lineorder", "lo_partkey"), ("lineorder", "lo_orderdate"), ("part", "p_brand1")];
    }
    &[
        ("lineitem", "l_partkey"),
        ("lineitem", "l_shipdate"),
        ("orders", "o_orderdate"),
        ("part", "p_size"),
        ("part", "p_brand"),
        ("customer", "c_mktsegment"),
    ]
}
