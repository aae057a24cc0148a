//! Many concurrent sessions of one database: rows are right, limits hold, and settings do not leak between sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_result, canonical};
use thermocline_database::{Action, Database, OpenOptions, Session};

/// Concurrent sessions.
const SESSIONS: i64 = 300;
/// Rounds of each.
const ROUNDS: i64 = 4;
/// Less than the queries' working set.
const CACHE_SIZE: usize = 600_000;

const QUERIES: [&str; 4] = [
    "SELECT g, count(*), sum(v), min(s), max(s) FROM t GROUP BY g ORDER BY g",
    "SELECT count(*), sum(v) FROM t WHERE v % 1000 = 7 AND g < 5",
    "SELECT a.g, count(*) FROM t a JOIN (SELECT DISTINCT g FROM t WHERE v < 100) b ON a.g = b.g WHERE a.v < 5000 \
     GROUP BY a.g ORDER BY a.g",
    "SELECT v, s FROM t ORDER BY v DESC, s LIMIT 10",
];

async fn run(session: &Session, sql: &str) -> Vec<Row> {
    let result = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    canonical(&result)
}

fn one(rows: &[Row]) -> &str {
    rows[0][0].as_deref().unwrap()
}

fn objects(directory: &Path, duckdb: &mut Oracle) {
    for object in 0..6 {
        duckdb.query(&format!(
            "COPY (SELECT i AS v, i % 11 AS g, md5((i % 997)::VARCHAR) AS s FROM range({}, {}) r(i))
             TO '{}' (FORMAT parquet, ROW_GROUP_SIZE 4096)",
            object * 20_000,
            (object + 1) * 20_000,
            directory.join(format!("{object}.parquet")).display()
        ));
    }
    duckdb.query(&format!("CREATE VIEW t AS SELECT * FROM read_parquet('{}/*.parquet')", directory.display()));
}

/// A query of the analytic engine sees the changes of its transaction.
async fn sees_its_transaction(session: &Session, number: i64) {
    loop {
        run(session, "BEGIN").await;
        run(session, &format!("UPDATE own SET n = -1 WHERE k = {number}")).await;
        let inside = session.run(&format!("SELECT n, count(*) OVER () FROM own WHERE k = {number}")).await;
        run(session, "ROLLBACK").await;
        match inside {
            Ok(inside) => return assert_eq!(one(&canonical(&inside)), "-1", "session {number}"),
            // Another transaction holds a partition that it needs, and needs one that it holds.
            Err(error) => assert_eq!(error.action(), Action::Retry, "session {number}: {error}"),
        }
    }
}

/// Work of one session: its own settings, queries of objects, its own rows, and one shared row.
async fn work(session: Session, number: i64, expected: BTreeMap<&'static str, Vec<Row>>) {
    let mode = ["hybrid", "caching", "pushdown", "pullup"][number as usize % 4];
    let switch = ["on", "off"][number as usize / 4 % 2];
    let batch = 100 + number;
    let timeout = format!("{}s", 600 + number);
    for (name, value) in
        [("mode", mode), ("bitmaps", switch), ("bloom_filters", switch), ("statement_timeout", timeout.as_str())]
    {
        run(&session, &format!("SET {name} = '{value}'")).await;
    }
    run(&session, &format!("SET datafusion.execution.batch_size = {batch}")).await;
    run(&session, &format!("INSERT INTO own VALUES ({number}, 0)")).await;
    run(&session, "PREPARE mine AS SELECT n FROM own WHERE k = $1").await;
    for round in 0..ROUNDS {
        let sql = QUERIES[(number + round) as usize % QUERIES.len()];
        let result = session.run(sql).await.unwrap_or_else(|error| panic!("session {number}: {sql}: {error}"));
        assert_result(&result, expected[sql].clone(), &format!("session {number}, {mode}: {sql}"));
        run(&session, &format!("UPDATE own SET n = n + {number} WHERE k = {number}")).await;
        run(&session, "UPDATE shared SET n = n + 1 WHERE k = 0").await;
        // Its own rows, by key and over both engines.
        let own = run(&session, &format!("EXECUTE mine({number})")).await;
        assert_eq!(one(&own), ((round + 1) * number).to_string(), "session {number}");
        let both = format!("SELECT count(*) FROM t JOIN own ON t.v = own.k WHERE own.k = {number}");
        assert_eq!(one(&run(&session, &both).await), "1", "session {number}");
        if number % 10 == 0 {
            sees_its_transaction(&session, number).await;
        }
    }
    // Its settings are its own, and unaffected by others.
    for (name, value) in [("mode", mode), ("bitmaps", switch), ("statement_timeout", timeout.as_str())] {
        let seen =
            run(&session, &format!("SELECT source FROM system.settings WHERE name = 'thermocline.{name}'")).await;
        assert_eq!(one(&seen), "session");
        let shown = run(&session, &format!("SHOW {name}")).await;
        let shown = shown[0][0].clone().unwrap();
        assert!(shown == value || shown == format!("{}min", (600 + number) / 60), "session {number}: {name} {shown}");
    }
    assert_eq!(one(&run(&session, "SHOW datafusion.execution.batch_size").await), batch.to_string());
    session.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_of_one_database() {
    let (directory, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut duckdb = Oracle::start();
    objects(data.path(), &mut duckdb);
    let expected: BTreeMap<_, _> = QUERIES.iter().map(|sql| (*sql, duckdb.query(sql))).collect();
    let options = OpenOptions { directory: Some(directory.path().join("db")), ..OpenOptions::default() };
    let options = options.with("cache_size", CACHE_SIZE).with("partition_size", "64KiB").with("queries_in_flight", 7);
    let database = Database::open(options, |_| {}).await.unwrap();
    let first = database.session();
    let location = data.path().display();
    for sql in [
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'"),
        "CREATE TABLE own (k BIGINT PRIMARY KEY, n BIGINT) PARTITION BY (k)".to_owned(),
        "CREATE TABLE shared (k BIGINT PRIMARY KEY, n BIGINT) PARTITION BY (k)".to_owned(),
        "INSERT INTO shared VALUES (0, 0)".to_owned(),
    ] {
        run(&first, &sql).await;
    }
    let sessions: Vec<_> =
        (0..SESSIONS).map(|number| tokio::spawn(work(database.session(), number, expected.clone()))).collect();
    for session in sessions {
        session.await.unwrap();
    }
    assert_eq!(one(&run(&first, "SELECT n FROM shared").await), (SESSIONS * ROUNDS).to_string());
    let sum: i64 = (0..SESSIONS).map(|number| number * ROUNDS).sum();
    assert_eq!(one(&run(&first, "SELECT sum(n) FROM own").await), sum.to_string());
    assert_eq!(one(&run(&first, "SHOW mode").await), "auto", "nobody's setting is another's");
    // There is one cache, whose limit held, and one list of queries.
    let cache = first.engine().cache();
    assert!(cache.bytes().0 > 0 && cache.bytes_max() <= CACHE_SIZE, "{} bytes at most", cache.bytes_max());
    let failed = run(&first, "SELECT count(*) FROM system.queries WHERE error NOT LIKE '%run it again%'").await;
    assert_eq!(one(&failed), "0");
    first.close().await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_wait_for_their_turn_no_longer_than_they_may() {
    let database = Database::open(OpenOptions::default().with("queries_in_flight", 1), |_| {}).await.unwrap();
    let (first, second) = (database.session(), database.session());
    let statement =
        thermocline_database::Statement::parse("SELECT * FROM generate_series(1, 100000000)").unwrap().remove(0);
    // It keeps its turn while its rows may be read.
    let rows = first.stream(statement).await.unwrap();
    second.set("statement_timeout", "200ms").unwrap();
    let error = second.run("SELECT 1").await.unwrap_err();
    assert_eq!(error.sqlstate(), "57014", "{error}");
    second.set("statement_timeout", "1min").unwrap();
    let waiting = tokio::spawn(async move { second.run("SELECT 1").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "it did not wait");
    // Queries of system tables do not wait.
    let third = database.session();
    assert_eq!(
        one(&run(&third, "SELECT count(*) FROM system.settings WHERE name LIKE '%queries_in_flight'").await),
        "1"
    );
    drop(rows);
    assert_eq!(waiting.await.unwrap().unwrap().rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_closed_stays_closed() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { directory: Some(directory.path().to_owned()), ..OpenOptions::default() };
    let database = Database::open(options.clone(), |_| {}).await.unwrap();
    let (first, second) = (database.session(), database.session());
    run(&first, "CREATE TABLE t (k BIGINT PRIMARY KEY)").await;
    run(&second, "INSERT INTO t VALUES (1)").await;
    first.close().await.unwrap();
    second.close().await.unwrap();
    database.close().await.unwrap();
    for session in [&first, &second, &database.session()] {
        assert!(session.run("INSERT INTO t VALUES (2)").await.is_err());
    }
    drop((first, second, database));
    let database = Database::open(options, |_| {}).await.unwrap();
    assert_eq!(one(&run(&database.session(), "SELECT count(*) FROM t").await), "1");
}

#[tokio::test]
async fn settings_of_a_database_are_kept_and_given_ones_take_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { directory: Some(directory.path().to_owned()), ..OpenOptions::default() };
    let database = Database::open(options.clone(), |_| {}).await.unwrap();
    let (one_session, other) = (database.session(), database.session());
    for sql in [
        "ALTER DATABASE SET cache_size = '3MiB'",
        "ALTER DATABASE SET thermocline.mode = 'caching'",
        "ALTER DATABASE SET statement_timeout = '7min'",
        // Decided at opening.
        "CREATE TABLE r (k BIGINT PRIMARY KEY)",
        "ALTER DATABASE SET commit_interval = '3ms'",
    ] {
        run(&one_session, sql).await;
    }
    // Shared settings change at once, session settings for later sessions.
    assert_eq!(one(&run(&other, "SHOW cache_size").await), "3MiB");
    assert_eq!(other.engine().cache().limit(), 3 << 20);
    assert_eq!(one(&run(&other, "SHOW mode").await), "auto");
    assert_eq!(one(&run(&database.session(), "SHOW mode").await), "caching");
    assert_eq!(one(&run(&other, "SHOW commit_interval").await), "200us");
    for (sql, state) in [
        ("ALTER DATABASE SET cache_size = 'much'", "22023"),
        ("ALTER DATABASE SET nothing = 1", "42704"),
        ("SET cache_size = '1GiB'", "55P02"),
        ("ALTER DATABASE SET commit_interval = 'never'", "22023"),
    ] {
        let error = other.run(sql).await.unwrap_err();
        assert_eq!(error.sqlstate(), state, "{sql}: {error}");
    }
    drop((one_session, other));
    database.close().await.unwrap();
    drop(database);

    let database = Database::open(options.clone().with("mode", "pullup"), |_| {}).await.unwrap();
    let session = database.session();
    let settings =
        "SELECT replace(name, 'thermocline.', ''), value, source FROM system.settings WHERE source <> 'default'";
    let expected = [
        ["cache_size", "3MiB", "database"],
        ["commit_interval", "3ms", "database"],
        ["mode", "pullup", "command line"],
        ["statement_timeout", "7min", "database"],
    ];
    let seen = run(&session, &format!("{settings} ORDER BY name")).await;
    assert_eq!(seen, expected.map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
    run(&session, "ALTER DATABASE RESET ALL").await;
    assert_eq!(one(&run(&session, "SHOW cache_size").await), "1GiB");
    assert_eq!(one(&run(&database.session(), "SHOW mode").await), "pullup", "what was given stays");
    drop(session);
    database.close().await.unwrap();
    drop(database);

    // An invalid line that somebody wrote into the file is named.
    std::fs::write(directory.path().join("settings.sql"), "-- mine\nALTER DATABASE SET cachesize = '1GiB';\n").unwrap();
    let error = Database::open(options, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("settings.sql, line 2") && error.contains("did you mean cache_size"), "{error}");
}

/// `docs/settings.md` has every setting with its default, values and description, and no other.
#[tokio::test]
async fn every_setting_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut documented: Vec<Vec<String>> = vec![];
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        documented
            .push(line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned()).collect());
    }
    let sql =
        "SELECT replace(name, 'thermocline.', ''), default_value, unit, description FROM system.settings ORDER BY 1";
    let mut settings = run(&Database::in_memory().await.unwrap().session(), sql).await;
    for row in &mut settings {
        match row[0].as_deref().unwrap() {
            "executor_partitions" => row[1] = Some("one per core".to_owned()),
            "queries_in_flight" => row[1] = Some("16 per core".to_owned()),
            "temporary_directory" | "tenant" => row[1] = Some("(empty)".to_owned()),
            _ => {}
        }
    }
    documented.sort();
    let settings: Vec<Vec<String>> = settings.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
    assert_eq!(documented, settings);
}
