//! Moments and local times: the clock of statements, and zones that move values.

use crate::support::oracle::Oracle;
use crate::support::rows::canonical;
use crate::support::topology::NodeProcess;
use thermocline_database::{Database, OpenOptions};
use thermocline_pushdown::Mode;

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_has_a_time_of_its_own() {
    let session = Database::open(OpenOptions::default(), |_| {}).await.unwrap().session();
    session.run("CREATE VIEW clock AS SELECT now() AS t").await.unwrap();
    let mut last = String::new();
    for sql in ["SELECT now()", "SELECT current_timestamp", "SELECT t FROM clock", "SELECT max(now()) FROM clock"] {
        for _ in 0..2 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            let now = canonical(&session.run(sql).await.unwrap())[0][0].clone().unwrap();
            assert!(now > last, "{sql}: {now} is not after {last}");
            last = now;
        }
    }
    let same = session.run("SELECT bool_and(t = now()) FROM clock, (SELECT now() AS u) x WHERE u = t").await.unwrap();
    assert_eq!(canonical(&same), [[Some("true".to_owned())]]);
}

/// Predicates over a local time `ts` and a moment `z`.
const PREDICATES: [&str; 8] = [
    "ts::timestamptz >= timestamptz '1970-01-01 00:00:00'",
    "ts::timestamptz = timestamptz '1970-01-01 02:00:00'",
    "ts::timestamptz IN (timestamptz '1970-01-01 00:00:00', timestamptz '1970-01-02 00:00:00')",
    "ts::timestamptz::timestamp = ts",
    "ts < timestamptz '1970-01-01 06:00:00+00'",
    "z > timestamp '1970-01-01 06:00:00'",
    "z::timestamp > timestamp '1970-01-01 00:00:00'",
    "z::timestamp BETWEEN timestamp '1970-01-01 00:00:00' AND timestamp '1970-01-01 12:00:00'",
];

/// What a filter keeps is what the SELECT list shows as true, on whichever side it is evaluated.
#[tokio::test(flavor = "multi_thread")]
async fn filters_see_the_zone_that_values_are_shown_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    Oracle::start().query(&format!(
        "COPY (SELECT i AS id, TIMESTAMP '1970-01-01' + INTERVAL (i - 48) HOUR AS ts,
                      (TIMESTAMP '1970-01-01' + INTERVAL (i - 48) HOUR) AT TIME ZONE 'UTC' AS z FROM range(96) r(i))
         TO '{}' (FORMAT parquet)",
        path.display()
    ));
    let node = NodeProcess::start(directory.path().to_str().unwrap(), "127.0.0.1:0", &[], &[]);
    for zone in ["UTC", "Asia/Kolkata", "America/New_York"] {
        let session = Database::open(OpenOptions::default(), |_| {}).await.unwrap().session();
        session.run(&format!("SET TIME ZONE '{zone}'")).await.unwrap();
        let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}'", node.address);
        session.run(&create).await.unwrap();
        session.run("CREATE VIEW v AS SELECT id, ts, ts::timestamptz AS z FROM t").await.unwrap();
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            for (from, predicate) in ["t", "v"].into_iter().flat_map(|from| PREDICATES.map(|it| (from, it))) {
                let shown = session.run(&format!("SELECT id, {predicate} FROM {from} ORDER BY id")).await.unwrap();
                let is_true = |row: &Vec<Option<String>>| row[1].as_deref() == Some("true");
                let shown: Vec<_> =
                    canonical(&shown).into_iter().filter(is_true).map(|row| vec![row[0].clone()]).collect();
                let sql = format!("SELECT id FROM {from} WHERE {predicate} ORDER BY id");
                assert_eq!(canonical(&session.run(&sql).await.unwrap()), shown, "{zone} {mode}: {sql}");
            }
        }
    }
}
