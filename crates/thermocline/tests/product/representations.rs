//! Columns that mode `auto` keeps decoded or as stored bytes: the rows are DuckDB's whatever is kept, and a small cache of
//! stored bytes saves what one of decoded columns cannot.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use tempfile::TempDir;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Route;

const OBJECTS: usize = 3;
const ROWS: usize = 30_000;

/// Rows of the object with this number, in its `version`-th form: dictionaries, NULLs, text, nested columns; in row groups
/// of 10 000 rows.
fn object(duckdb: &mut Oracle, directory: &Path, number: usize, version: usize) {
    let path = directory.join(format!("{number}.parquet"));
    duckdb.query(&format!(
        "COPY (SELECT i AS id, (i * 7 + {version}) % 50 AS k, CASE WHEN i % 3 > 0 THEN i % 12 END AS g,
                      ((i * 31) % 400) / 4.0 AS price,
                      CASE WHEN i % 5 > 0 THEN 'comment ' || (i * 7919) % 211 || repeat('.', i % 40) END AS note,
                      CASE WHEN i % 7 > 0 THEN [i % 4, i % 9, NULL] END AS tags,
                      {{'x': i % 13, 'y': CASE WHEN i % 2 = 0 THEN 'even' END}} AS s
               FROM range({first}, {first} + {ROWS}) r(i))
         TO '{}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 10000)",
        path.display(),
        first = number * ROWS
    ));
}

struct Place {
    directory: TempDir,
    node: NodeProcess,
    duckdb: Oracle,
    /// What DuckDB answers, until an object is replaced.
    expected: HashMap<String, Vec<Row>>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut duckdb = Oracle::start();
        (0..OBJECTS).for_each(|number| object(&mut duckdb, directory.path(), number, 0));
        duckdb.query(&format!("CREATE VIEW t AS FROM read_parquet('{}/*.parquet')", directory.path().display()));
        let root = directory.path().to_str().unwrap().to_owned();
        let node = NodeProcess::start(&root, "127.0.0.1:0", &["--egress-limit", "400Mbps"], &[]);
        Self { directory, node, duckdb, expected: HashMap::new() }
    }

    /// A session of a database of its own, with partitions of so many stored bytes.
    async fn session(&self, partition_size: &str, settings: &[(&str, &str)]) -> Session {
        let options = OpenOptions::default().with("partition_size", partition_size);
        let session = Database::open(options, |_| {}).await.unwrap().session();
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}'", self.node.address);
        session.run(&sql).await.unwrap();
        settings.iter().for_each(|(name, value)| session.set(name, value).unwrap());
        session
    }

    async fn run(&mut self, session: &Session, sql: &str) -> QueryResult {
        let result = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        self.check(sql, &result);
        result
    }

    fn check(&mut self, sql: &str, result: &QueryResult) {
        let duckdb = &mut self.duckdb;
        let expected = self.expected.entry(sql.to_owned()).or_insert_with(|| duckdb.query(sql));
        assert_same(canonical(result), expected.clone(), sql.contains("ORDER BY"), sql);
    }

    /// Bytes that all of `queries` moved.
    async fn pass(&mut self, session: &Session, queries: &[&str]) -> u64 {
        let mut moved = 0;
        for sql in queries {
            moved += self.run(session, sql).await.stats.bytes_from_storage;
        }
        moved
    }

    fn replace(&mut self, number: usize, version: usize) {
        object(&mut self.duckdb, self.directory.path(), number, version);
        self.expected.clear();
    }
}

/// Queries that need all rows of some columns, so that nothing is gained at storage if only filters may go there.
const WHOLE: [&str; 6] = [
    "SELECT sum(id), sum(k) FROM t",
    "SELECT g, count(*), sum(price) FROM t GROUP BY g",
    "SELECT min(note), max(note), count(note) FROM t",
    "SELECT sum(array_length(tags)), sum(tags[2]) FROM t",
    "SELECT s['y'], sum(s['x']), sum(k) FROM t GROUP BY s['y']",
    "SELECT k, count(note) FROM t GROUP BY k",
];

/// Queries of all kinds.
const MIXED: [&str; 8] = [
    "SELECT g, count(*), sum(price), max(note) FROM t WHERE k < 20 GROUP BY g",
    "SELECT count(*) FROM t WHERE note LIKE '%99%'",
    "SELECT id, price, note FROM t WHERE k = 17 AND g = 3",
    "SELECT id, note FROM t ORDER BY price DESC, id LIMIT 25",
    "SELECT a.g, count(*) FROM t a JOIN t b ON a.id = b.id WHERE b.k = 5 GROUP BY a.g",
    "SELECT count(*), sum(s['x']) FROM t WHERE s['y'] = 'even' AND tags[1] = 2",
    "SELECT count(*) FROM t",
    "SELECT id, tags[2], s['x'] FROM t WHERE id % 1000 = 7",
];

const ONLY_COLUMNS: [(&str, &str); 2] = [("pushdown_operators", "filters"), ("cached_answers", "off")];

async fn representations(session: &Session) -> Vec<String> {
    let sql = "SELECT DISTINCT representation FROM system.segments WHERE kind = 'column' ORDER BY 1";
    canonical(&session.run(sql).await.unwrap()).into_iter().flatten().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarter_of_the_decoded_columns_room_holds_all_of_their_stored_bytes() {
    let mut place = Place::new();
    let decoded = place.session("64KiB", &[&ONLY_COLUMNS[..], &[("cached_representations", "decoded")]].concat()).await;
    place.pass(&decoded, &WHOLE).await;
    assert_eq!(place.pass(&decoded, &WHOLE).await, 0, "all of it fits");
    let (working_set, _) = decoded.engine().cache().bytes();
    let quarter = (working_set / 4).to_string();

    let mut moved = HashMap::new();
    for representations in ["decoded", "both", "stored"] {
        let settings = [&ONLY_COLUMNS[..], &[("cached_representations", representations)]].concat();
        let session = place.session("64KiB", &settings).await;
        session.database().set("cache_size", &quarter).unwrap();
        place.pass(&session, &WHOLE).await;
        let passes = [place.pass(&session, &WHOLE).await, place.pass(&session, &WHOLE).await];
        moved.insert(representations, passes);
        let cache = session.engine().cache();
        assert!(cache.bytes_max() <= cache.limit(), "{representations}");
    }
    // On a busy machine, the link may be probed again meanwhile.
    const PROBE: u64 = 2 << 20;
    let [second, third] = moved["both"];
    assert!(second.saturating_sub(PROBE) * 3 <= moved["decoded"][0], "{moved:?}");
    assert!(third.saturating_sub(PROBE) * 10 <= moved["decoded"][1], "{moved:?}");
    assert_eq!(moved["stored"], [0, 0], "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_bytes_are_decoded_here_and_nothing_moves() {
    let mut place = Place::new();
    // A partition has all three row groups of an object.
    let session = place.session("16MiB", &[&ONLY_COLUMNS[..], &[("cached_representations", "stored")]].concat()).await;
    place.pass(&session, &WHOLE).await;
    assert_eq!(representations(&session).await, ["stored"]);
    let (stored, _) = session.engine().cache().bytes();
    for sql in WHOLE {
        let stats = place.run(&session, sql).await.stats;
        assert_eq!(stats.partitions(Route::Local), OBJECTS as u64, "{sql}: {stats:?}");
        assert_eq!(stats.bytes_from_storage, 0, "{sql}: {stats:?}");
    }
    let explained = session.run(&format!("EXPLAIN {}", WHOLE[2])).await.unwrap();
    let explained = canonical(&explained).into_iter().flatten().flatten().collect::<String>();
    assert!(explained.contains(&format!("routes=[local={OBJECTS}]")), "{explained}");

    // A third of the columns is there as stored bytes, and the rest comes.
    session.engine().cache().clear();
    place.run(&session, "SELECT sum(k) FROM t").await;
    let all = "SELECT sum(k), max(note), sum(price) FROM t";
    let stats = place.run(&session, all).await.stats;
    assert!(stats.bytes_from_storage > 0);
    assert_eq!((stats.segments_hit, stats.segments_missed), (OBJECTS as u64, 2 * OBJECTS as u64), "{stats:?}");
    assert_eq!(place.run(&session, all).await.stats.bytes_from_storage, 0);

    // What is used again is decoded once and for all where there is room.
    session.set("cached_representations", "both").unwrap();
    place.pass(&session, &WHOLE).await;
    place.pass(&session, &WHOLE).await;
    let decoded = "SELECT sum(bytes) FROM system.segments WHERE representation = 'decoded'";
    let decoded = canonical(&session.run(decoded).await.unwrap())[0][0].clone().unwrap();
    assert!(decoded.parse::<usize>().unwrap() > 2 * stored, "{decoded} decoded, {stored} stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_duckdbs_in_every_representation_mode_and_size() {
    let mut place = Place::new();
    for representations in ["decoded", "stored", "both"] {
        for (limit, partition_size) in [("0", "16MiB"), ("100KiB", "64KiB"), ("700KiB", "16MiB"), ("1GiB", "64KiB")] {
            for modes in [["auto", "hybrid"], ["caching", "auto"]] {
                let settings = [("cached_representations", representations)];
                let session = place.session(partition_size, &settings).await;
                session.database().set("cache_size", limit).unwrap();
                for mode in modes {
                    session.set("mode", mode).unwrap();
                    place.pass(&session, &WHOLE[2..5]).await;
                    place.pass(&session, &MIXED).await;
                    session.set("pushdown_operators", "filters").unwrap();
                }
                let cache = session.engine().cache();
                assert!(cache.bytes_max() <= cache.limit(), "{representations} in {limit}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_object_is_read_again_and_no_other() {
    let mut place = Place::new();
    let settings = [&ONLY_COLUMNS[..], &[("cached_representations", "stored")]].concat();
    let session = place.session("16MiB", &settings).await;
    let first = place.pass(&session, &WHOLE).await;
    for version in 1..4 {
        place.replace(version % OBJECTS, version);
        let again = place.pass(&session, &WHOLE).await;
        assert!(again > 0 && again * 2 < first, "{again} of {first}");
        assert_eq!(place.pass(&session, &WHOLE).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_may_change_while_stored_bytes_are_decoded() {
    let mut place = Place::new();
    let session = place.session("64KiB", &ONLY_COLUMNS).await;
    place.pass(&session, &WHOLE).await;
    let database = session.database().clone();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let session = database.session();
            ONLY_COLUMNS.iter().for_each(|(name, value)| session.set(name, value).unwrap());
            tokio::spawn(async move {
                let mut results = vec![];
                for step in 0..12 {
                    let sql = WHOLE[(task + step) % WHOLE.len()];
                    results.push((sql, session.run(sql).await.unwrap()));
                }
                results
            })
        })
        .collect();
    for limit in ["300KiB", "0", "2MiB", "64KiB", "1MiB", "500KiB"] {
        database.set("cache_size", limit).unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    for task in tasks {
        for (sql, result) in task.await.unwrap() {
            place.check(sql, &result);
        }
    }
    let cache = session.engine().cache();
    let (cached, loading) = cache.bytes();
    assert!(cached <= cache.limit() && loading == 0, "{cached} and {loading} of {}", cache.limit());
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_other_policies_keep_decoded_columns() {
    let mut place = Place::new();
    let session = place.session("64KiB", &ONLY_COLUMNS).await;
    session.database().set("cache_size", "500KiB").unwrap();
    place.pass(&session, &WHOLE).await;
    assert!(representations(&session).await.contains(&"stored".to_owned()), "they compete for little room");
    session.database().set("cache_policy", "lru").unwrap();
    session.engine().cache().clear();
    place.pass(&session, &WHOLE).await;
    assert_eq!(representations(&session).await, ["decoded"]);

    let text = tempfile::tempdir().unwrap();
    std::fs::write(text.path().join("0.csv"), "a,b\n1,2\n3,4\n").unwrap();
    let node = NodeProcess::start(text.path().to_str().unwrap(), "127.0.0.1:0", &[], &[]);
    session.set("cached_representations", "stored").unwrap();
    let location = format!("thermocline://{}", node.address);
    session
        .run(&format!("CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '{location}' OPTIONS (has_header 'true')"))
        .await
        .unwrap();
    session.engine().cache().clear();
    for mode in ["caching", "auto", "auto", "auto"] {
        session.set("mode", mode).unwrap();
        session.run("SELECT sum(a), sum(b) FROM u").await.unwrap();
    }
    assert_eq!(representations(&session).await, ["decoded"]);
    let unknown = session.set("cached_representations", "encoded").unwrap_err().to_string();
    assert!(unknown.contains("both, decoded or stored"), "{unknown}");
}
