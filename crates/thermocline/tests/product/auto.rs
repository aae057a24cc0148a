//! Mode `auto` over a link: what it moves, what it keeps, and that its rows are those of every other mode.

use std::path::Path;

use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use tempfile::TempDir;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::{Mode, Route};

const OBJECTS: usize = 6;
const ROWS: usize = 60_000;

/// Rows of the object with this number, in its `version`-th form.
fn object(duckdb: &mut Oracle, directory: &Path, number: usize, version: usize) {
    let path = directory.join(format!("{number}.parquet"));
    duckdb.query(&format!(
        "COPY (SELECT i AS id, (i * 7 + {version}) % 1000 AS k, i % 12 AS g, ((i * 31) % 100000) / 4.0 AS price,
                      'comment number ' || (i * 7919) % 1000003 || repeat('.', i % 40) AS note
               FROM range({first}, {first} + {ROWS}) r(i))
         TO '{}' (FORMAT parquet, ROW_GROUP_SIZE 20000)",
        path.display(),
        first = number * ROWS
    ));
}

struct Place {
    directory: TempDir,
    /// The storage node, as long as the test runs.
    _node: NodeProcess,
    session: Session,
    duckdb: Oracle,
}

impl Place {
    /// A table `t` behind a node that sends so many bits a second.
    async fn over(egress_limit: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut duckdb = Oracle::start();
        (0..OBJECTS).for_each(|number| object(&mut duckdb, directory.path(), number, 0));
        duckdb.query(&format!("CREATE VIEW t AS FROM read_parquet('{}/*.parquet')", directory.path().display()));
        let root = directory.path().to_str().unwrap().to_owned();
        let node = NodeProcess::start(&root, "127.0.0.1:0", &["--egress-limit", egress_limit], &[]);
        let session = Database::open(OpenOptions::default(), |_| {}).await.unwrap().session();
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}'", node.address);
        session.run(&sql).await.unwrap();
        Self { directory, _node: node, session, duckdb }
    }

    async fn run(&mut self, sql: &str) -> QueryResult {
        let expected: Vec<Row> = self.duckdb.query(sql);
        let result = self.session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_same(canonical(&result), expected, sql.contains("ORDER BY"), sql);
        result
    }
}

const DASHBOARD: [&str; 6] = [
    "SELECT g, count(*), sum(price), max(note) FROM t WHERE k < 300 GROUP BY g",
    "SELECT count(*) FROM t WHERE note LIKE '%99%'",
    "SELECT id, price FROM t WHERE k = 17 AND g = 3",
    "SELECT id, note FROM t ORDER BY price DESC, id LIMIT 25",
    "SELECT min(note), max(note) FROM t",
    "SELECT a.g, count(*) FROM t a JOIN t b ON a.id = b.id WHERE b.k = 5 GROUP BY a.g",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_query_over_a_slow_link_does_not_fill_the_cache_first() {
    let mut place = Place::over("50Mbps").await;
    assert_eq!(place.session.settings().mode, Mode::Auto, "it is the default");
    let sql = "SELECT max(note) FROM t";
    let auto = place.run(sql).await.stats;
    let stored: u64 =
        std::fs::read_dir(place.directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(auto.bytes_from_storage < stored / 3, "{auto:?} of {stored}");
    assert!(auto.partitions(Route::Pushdown) > 0, "{auto:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_dashboard_moves_only_what_changed() {
    let mut place = Place::over("100Mbps").await;
    for sql in DASHBOARD {
        place.run(sql).await;
    }
    for round in 1..4 {
        let changed = round % OBJECTS;
        object(&mut place.duckdb, place.directory.path(), changed, round);
        for sql in DASHBOARD {
            let again = place.run(sql).await.stats;
            let moved = again.partitions(Route::Pushdown) + again.partitions(Route::Load);
            let at_hand = again.partitions(Route::Answered) + again.partitions(Route::Local);
            assert!(at_hand > 0, "{sql}: {again:?}");
            // Rows that have changed change the filter that a join's build side makes for its probe side.
            if !sql.contains("JOIN") {
                assert!(moved <= 3, "round {round}: {sql}: {again:?}");
                let unchanged = place.run(sql).await.stats;
                assert_eq!(unchanged.bytes_from_storage, 0, "round {round}: {sql}: {unchanged:?}");
            }
        }
    }
    let kept = "SELECT count(*) > 0, count(*) FILTER (WHERE benefit > 0) > 0 FROM system.segments
                WHERE kind = 'answer' AND column_name IS NULL AND length(fragment) = 64";
    let kept = canonical(&place.session.run(kept).await.unwrap());
    assert_eq!(kept, [vec![Some("true".to_owned()), Some("true".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_only_where_they_may_be() {
    let mut place = Place::over("100Mbps").await;
    for (mode, cached_answers) in [("auto", "off"), ("hybrid", "on"), ("pushdown", "on"), ("caching", "on")] {
        place.session.set("mode", mode).unwrap();
        place.session.set("cached_answers", cached_answers).unwrap();
        place.session.engine().cache().clear();
        for sql in DASHBOARD.iter().chain(&DASHBOARD) {
            let stats = place.run(sql).await.stats;
            assert_eq!(stats.partitions(Route::Answered), 0, "{mode} {cached_answers}: {sql}");
        }
    }
}

impl Place {
    async fn answers_kept(&self) -> usize {
        let sql = "SELECT 1 FROM system.segments WHERE kind = 'answer'";
        self.session.run(sql).await.unwrap().rows()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_kept_when_it_is_asked_for_again() {
    let mut place = Place::over("50Mbps").await;
    // A thousandth of it is less than the notes of a partition take.
    place.session.database().set("cache_size", "50MiB").unwrap();
    let small = "SELECT count(*) FROM t WHERE note LIKE '%99%'";
    place.run(small).await;
    let of_small = place.answers_kept().await;
    assert!(of_small > 0, "small answers are kept at once");
    let large = "SELECT id, note FROM t WHERE k < 300";
    place.run(large).await;
    assert_eq!(place.answers_kept().await, of_small, "nobody knows whether it comes back");
    place.run(large).await;
    assert!(place.answers_kept().await > of_small, "it came back");
    let third = place.run(large).await.stats;
    assert!(third.partitions(Route::Answered) > 0, "{third:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_duckdbs_with_any_limit_of_the_cache() {
    let mut place = Place::over("1Gbps").await;
    for limit in ["0", "64KiB", "1MiB", "1GiB"] {
        place.session.database().set("cache_size", limit).unwrap();
        for sql in DASHBOARD.iter().chain(&DASHBOARD).chain(&DASHBOARD) {
            place.run(sql).await;
        }
        let cache = place.session.engine().cache();
        let (cached, loading) = cache.bytes();
        assert!(cached + loading <= cache.limit(), "{cached} and {loading} of {limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_and_times_can_be_seen() {
    let mut place = Place::over("50Mbps").await;
    let text = |result: &QueryResult| canonical(result).into_iter().flatten().flatten().collect::<Vec<_>>().join("\n");
    let before = text(&place.session.run("EXPLAIN SELECT max(note) FROM t WHERE k < 900").await.unwrap());
    for part in ["expected_seconds=[pushdown=", "load=", "chosen="] {
        assert!(before.contains(part), "{before}");
    }
    let after = text(&place.session.run("EXPLAIN ANALYZE SELECT max(note) FROM t WHERE k < 900").await.unwrap());
    for part in ["took=", "time_network=", "time_storage=", "time_decode=", "time_compute=", "time_waiting="] {
        assert!(after.contains(part), "{part}: {after}");
    }
    place.run("SELECT count(*) FROM t WHERE note < 'd'").await;
    let times = "SELECT network_seconds > 0 AND storage_seconds > 0 AND computing_seconds >= 0
                        AND decoding_seconds > 0 AND waiting_seconds >= 0 AND partitions_answered = 0
                 FROM system.queries WHERE sql LIKE 'SELECT count(*) FROM t WHERE note%'";
    assert_eq!(canonical(&place.session.run(times).await.unwrap()), [vec![Some("true".to_owned())]]);
}

/// Small row groups of a partition are fetched together, whoever fetches them.
#[tokio::test(flavor = "multi_thread")]
async fn row_groups_of_a_partition_do_not_cost_a_request_each() {
    let directory = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start();
    let path = directory.path().join("t.parquet");
    duckdb.query(&format!(
        "COPY (SELECT i AS id, (i * 7) % 1000 AS k, 'note ' || (i * 7919) % 1000003 AS note FROM range(200000) r(i))
         TO '{}' (FORMAT parquet, ROW_GROUP_SIZE 2048)",
        path.display()
    ));
    duckdb.query(&format!("CREATE VIEW t AS FROM read_parquet('{}')", path.display()));
    let node = NodeProcess::start(directory.path().to_str().unwrap(), "127.0.0.1:0", &[], &[]);
    let session = Database::open(OpenOptions::default(), |_| {}).await.unwrap().session();
    let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}'", node.address);
    session.run(&create).await.unwrap();
    for sql in ["SELECT sum(k), max(note) FROM t WHERE id % 3 = 1", "SELECT k, count(*), min(note) FROM t GROUP BY k"] {
        let expected: Vec<Row> = duckdb.query(sql);
        for mode in [Mode::Pullup, Mode::Caching, Mode::Hybrid, Mode::Auto] {
            session.engine().cache().clear();
            session.set("mode", mode.name()).unwrap();
            for _ in 0..2 {
                let result = session.run(sql).await.unwrap();
                assert_same(canonical(&result), expected.clone(), false, sql);
                // 98 row groups of at most three columns, some megabytes.
                assert!(result.stats.requests < 30, "{mode}: {sql}: {:?}", result.stats);
            }
        }
    }
}
