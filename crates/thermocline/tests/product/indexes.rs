//! `CREATE INDEX` over both formats: DuckDB's rows with indexes on and off, and fewer bytes read.

use std::path::Path;
use std::time::Duration;

use crate::support::oracle::Oracle;
use crate::support::rows::{assert_same, canonical};
use crate::support::s3::S3Server;
use crate::support::topology::NodeProcess;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::{Mode, Route};

const COLUMNS: &str =
    "(id BIGINT, k INT, m DECIMAL(12, 2), d DATE, t TIMESTAMP(6), s VARCHAR, f DOUBLE, b BOOLEAN, pad VARCHAR)";
const INDEXED: [&str; 7] = ["id", "k", "m", "d", "t", "s", "f"];

/// DuckDB's rows `first..last`, every 13th value NULL, with texts that CSV must quote.
fn source(first: u32, last: u32) -> String {
    format!(
        "SELECT i AS id, \
           CASE WHEN i % 13 = 0 THEN NULL ELSE ((i * 7919) % 2000)::INT END AS k, \
           CASE WHEN i % 13 = 1 THEN NULL ELSE (((i * 31) % 20000 - 10000) / 100.0)::DECIMAL(12, 2) END AS m, \
           CASE WHEN i % 13 = 2 THEN NULL ELSE DATE '1992-01-01' + ((i * 17) % 3000)::INT END AS d, \
           CASE WHEN i % 13 = 3 THEN NULL ELSE TIMESTAMP '2001-01-01' + INTERVAL (i * 61) SECOND END AS t, \
           CASE WHEN i % 13 = 4 THEN NULL WHEN i % 500 = 5 THEN '' \
                ELSE 'say \"' || (i * 3) % 4000 || E'\",\n' || repeat('x', i % 90) END AS s, \
           CASE WHEN i % 13 = 6 THEN NULL ELSE (i % 4001 - 2000) / 8.0 END AS f, \
           i % 3 = 0 AS b, \
           md5(i::VARCHAR) AS pad \
         FROM range({first}, {last}) r(i)"
    )
}

/// Writes one object in both formats. The Parquet object has pages of 250 rows with a page index, so that some can be
/// skipped; DuckDB's has one page per column and row group.
fn write_object(duckdb: &mut Oracle, root: &Path, name: &str, first: u32, last: u32) {
    let [parquet, csv] = ["parquet", "csv"].map(|format| {
        std::fs::create_dir_all(root.join(format)).unwrap();
        root.join(format!("{format}/{name}.{format}"))
    });
    let rows = source(first, last);
    duckdb.query(&format!("COPY ({rows}) TO '{}' (FORMAT csv, HEADER, FORCE_QUOTE (s), NULLSTR '')", csv.display()));
    let aside = tempfile::tempdir().unwrap();
    let plain = aside.path().join("rows.parquet");
    duckdb.query(&format!("COPY ({rows}) TO '{}' (FORMAT parquet)", plain.display()));
    let batches = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(plain).unwrap()).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(8192))
        .set_data_page_row_count_limit(250)
        .set_write_batch_size(250)
        .set_dictionary_enabled(false)
        .build();
    let file = std::fs::File::create(parquet).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches.schema().clone(), Some(properties)).unwrap();
    for batch in batches.build().unwrap() {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
}

fn duckdb_view(duckdb: &mut Oracle, root: &Path) {
    duckdb.query(&format!(
        "CREATE OR REPLACE VIEW t AS SELECT * FROM read_parquet('{}/parquet/*.parquet')",
        root.display()
    ));
}

/// Three objects of 20 000 rows.
fn data(duckdb: &mut Oracle) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for part in 0..3 {
        write_object(duckdb, root.path(), &format!("part-{part}"), part * 20_000, (part + 1) * 20_000);
    }
    duckdb_view(duckdb, root.path());
    root
}

fn definition(format: &str, location: &str) -> String {
    format!("CREATE EXTERNAL TABLE t {COLUMNS} STORED AS {format} LOCATION '{location}/{format}'")
}

async fn session(directory: Option<&Path>) -> Session {
    let options = OpenOptions { directory: directory.map(Path::to_owned), ..OpenOptions::default() };
    let options = options.with("partition_size", 300_000);
    Database::open(options, |_| {}).await.unwrap().session()
}

async fn run(session: &Session, sql: &str) -> QueryResult {
    session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Checks that the statement fails and the message contains every part.
async fn fails(session: &Session, sql: &str, parts: &[&str]) {
    let error = session.run(sql).await.expect_err(sql).to_string();
    for part in parts {
        assert!(error.contains(part), "{sql}\nsaid: {error}\nwithout: {part}");
    }
}

/// The row of one index in `system.indexes`: objects, indexed, stale.
async fn counts(session: &Session, name: &str) -> [String; 3] {
    let sql = format!("SELECT objects, objects_indexed, objects_stale FROM system.indexes WHERE index_name = '{name}'");
    let rows = canonical(&run(session, &sql).await);
    assert_eq!(rows.len(), 1, "{sql}");
    [0, 1, 2].map(|column| rows[0][column].clone().unwrap_or_else(|| "NULL".into()))
}

/// Waits until the background task has indexed all of `objects`; a timeout fails the test.
async fn caught_up(session: &Session, name: &str, objects: &str) {
    for _ in 0..1200 {
        run(session, "SELECT count(*) FROM t WHERE id = 1").await;
        let [all, indexed, stale] = counts(session, name).await;
        if [all.as_str(), indexed.as_str(), stale.as_str()] == [objects, objects, "0"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("index {name} is not kept up: {:?}", counts(session, name).await);
}

const QUERIES: &[&str] = &[
    "SELECT * FROM t WHERE id = 12345",
    "SELECT id, s FROM t WHERE k = 77",
    "SELECT count(*), sum(m), min(d), max(s) FROM t WHERE k IN (1, 5, 1999, NULL)",
    "SELECT id, m FROM t WHERE m = 12.34",
    "SELECT id FROM t WHERE m BETWEEN -99.99 AND -99.9 AND k > 100",
    "SELECT b, count(*), avg(f) FROM t WHERE d = DATE '1994-05-06' GROUP BY b",
    "SELECT id, pad FROM t WHERE t >= TIMESTAMP '2001-02-12 00:00:00' AND t < TIMESTAMP '2001-02-12 01:00:00'",
    "SELECT id, s FROM t WHERE s = E'say \"297\",\\nxxxxxxxxx'",
    "SELECT id, s FROM t WHERE s IN ('', E'say \"3\",\\nx', 'nobody says so')",
    "SELECT count(*) FROM t WHERE s > E'say \"99' AND s < E'say \"991'",
    "SELECT id, f FROM t WHERE f = -250.0 OR f = 250 OR f = 0",
    "SELECT id FROM t WHERE f > 249.9",
    "SELECT id, k FROM t WHERE k = 500 AND m IS NULL",
    "SELECT id FROM t WHERE k = NULL",
    "SELECT count(*) FROM t WHERE k IS NULL AND id < 100",
    "SELECT id, k FROM t WHERE k >= 1998 ORDER BY id DESC LIMIT 7",
    "SELECT count(*), sum(id) FROM t WHERE id IN (3, 30, 300, 3000, 30000, 59999, 60000, -1, 7, 8, 9, 10, 11)",
    "SELECT count(*) FROM t WHERE NOT (k <> 42)",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.k WHERE b.id BETWEEN 100 AND 110",
    "SELECT count(*) FROM t WHERE k > 100",
    "SELECT count(*), max(pad) FROM t",
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_duckdbs_with_indexes_on_and_off() {
    let mut duckdb = Oracle::start();
    let root = data(&mut duckdb);
    let node = NodeProcess::over(root.path());
    let expected: Vec<_> = QUERIES.iter().map(|sql| duckdb.query(sql)).collect();
    let places = [
        (root.path().display().to_string(), &Mode::ALL[..]),
        (format!("thermocline://{}", node.address), &[Mode::Hybrid, Mode::Pushdown]),
    ];
    for (location, modes) in places {
        for format in ["parquet", "csv"] {
            let session = session(None).await;
            run(&session, &definition(format, &location)).await;
            for column in INDEXED {
                run(&session, &format!("CREATE INDEX by_{column} ON t ({column})")).await;
                assert_eq!(counts(&session, &format!("by_{column}")).await, ["3", "3", "0"]);
            }
            let mut indexed = 0;
            for mode in modes {
                for indexes in ["on", "off"] {
                    session.engine().cache().clear();
                    session.set("mode", mode.name()).unwrap();
                    session.set("indexes", indexes).unwrap();
                    for (sql, expected) in QUERIES.iter().zip(&expected) {
                        let context = format!("{format} at {location}, mode {mode}, indexes {indexes}: {sql}");
                        let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                        assert_same(canonical(&result), expected.clone(), sql.contains("ORDER BY"), &context);
                        if indexes == "on" {
                            indexed += result.stats.partitions_indexed;
                        } else {
                            assert_eq!(result.stats.partitions_indexed, 0, "{context}");
                        }
                    }
                }
            }
            assert!(indexed > 100, "{format} at {location}: {indexed} partitions were read through an index");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn selective_queries_read_less() {
    let mut duckdb = Oracle::start();
    let root = data(&mut duckdb);
    for format in ["parquet", "csv"] {
        let session = session(None).await;
        run(&session, &definition(format, &root.path().display().to_string())).await;
        run(&session, "CREATE INDEX by_k ON t (k)").await;
        run(&session, "CREATE INDEX by_s ON t (s)").await;
        for mode in ["pushdown", "hybrid"] {
            session.set("mode", mode).unwrap();
            for sql in [
                "SELECT id, pad FROM t WHERE k = 77",
                "SELECT count(*), max(pad) FROM t WHERE s = E'say \"297\",\\nxxxxxxxxx'",
            ] {
                session.engine().cache().clear();
                session.set("indexes", "off").unwrap();
                let without = run(&session, sql).await.stats;
                session.engine().cache().clear();
                session.set("indexes", "on").unwrap();
                let with = run(&session, sql).await.stats;
                let context = format!("{format}, {mode}: {sql}\nwith {with:?}\nwithout {without:?}");
                assert!(with.partitions_indexed > 0, "{context}");
                assert_eq!(with.partitions_indexed, with.partitions(Route::Pushdown), "{context}");
                if mode == "pushdown" {
                    assert!(with.bytes_scanned * 2 < without.bytes_scanned, "{context}");
                } else {
                    // Instead of loading whole columns for a few rows.
                    assert!(with.bytes_from_storage * 2 < without.bytes_from_storage, "{context}");
                    assert_eq!(with.segments_admitted, 0, "{context}");
                }
            }
        }
        session.set("mode", "hybrid").unwrap();
        session.engine().cache().clear();
        let plan = run(&session, "EXPLAIN ANALYZE SELECT pad FROM t WHERE k = 77").await;
        let text = format!("{:?}", canonical(&plan));
        assert!(text.contains("partitions_indexed=") && text.contains("index_bytes_read="), "{text}");
        // Cached columns are used, with or without an index.
        session.set("mode", "caching").unwrap();
        run(&session, "SELECT k, pad FROM t").await;
        session.set("mode", "hybrid").unwrap();
        let cached = run(&session, "SELECT pad FROM t WHERE k = 77").await.stats;
        assert_eq!((cached.bytes_from_storage, cached.partitions_indexed), (0, 0), "{cached:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_follow_their_objects() {
    let mut duckdb = Oracle::start();
    let root = data(&mut duckdb);
    let sql = "SELECT id, k, pad FROM t WHERE k = 77";
    for format in ["parquet", "csv"] {
        let directory = tempfile::tempdir().unwrap();
        let location = root.path().display().to_string();
        let session = session(Some(directory.path())).await;
        run(&session, &definition(format, &location)).await;
        run(&session, "CREATE INDEX by_k ON t (k)").await;
        session.set("mode", "pushdown").unwrap();

        // Overwritten, added and removed: correct at once, indexed again later.
        write_object(&mut duckdb, root.path(), "part-1", 100_000, 115_000);
        write_object(&mut duckdb, root.path(), "part-9", 200_000, 201_000);
        for other in ["parquet", "csv"] {
            let _ = std::fs::remove_file(root.path().join(format!("{other}/part-2.{other}")));
        }
        duckdb_view(&mut duckdb, root.path());
        let expected = duckdb.query(sql);
        assert!(!expected.is_empty());
        assert_same(canonical(&run(&session, sql).await), expected.clone(), false, format);
        caught_up(&session, "by_k", "3").await;
        let result = run(&session, sql).await;
        assert_same(canonical(&result), expected.clone(), false, format);
        assert_eq!(result.stats.partitions_indexed, result.stats.partitions(Route::Pushdown), "{:?}", result.stats);

        // Damaged on disk: correct at once, rebuilt later.
        let files = std::fs::read_dir(root.path().join(format!("{format}/.thermocline/index"))).unwrap();
        for file in files {
            let file = file.unwrap().path();
            let whole = std::fs::read(&file).unwrap();
            std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        }
        let result = run(&session, sql).await;
        assert_same(canonical(&result), expected.clone(), false, format);
        assert_eq!(result.stats.partitions_indexed, 0);
        caught_up(&session, "by_k", "3").await;

        // A session that opens the database later finds all indexes.
        drop(session);
        let reopened = self::session(Some(directory.path())).await;
        assert_eq!(counts(&reopened, "by_k").await, ["3", "3", "0"]);
        reopened.set("mode", "pushdown").unwrap();
        let result = run(&reopened, sql).await;
        assert_same(canonical(&result), expected.clone(), false, format);
        assert!(result.stats.partitions_indexed > 0);
        let catalog = std::fs::read_to_string(directory.path().join("catalog.sql")).unwrap();
        assert!(catalog.contains("CREATE INDEX by_k ON t (k);"), "{catalog}");

        // A table goes with its indexes.
        run(&reopened, "DROP TABLE t").await;
        assert_eq!(run(&reopened, "SELECT * FROM system.indexes").await.rows(), 0);
        let catalog = std::fs::read_to_string(directory.path().join("catalog.sql")).unwrap();
        assert!(!catalog.contains("INDEX"), "{catalog}");
        for part in 0..3 {
            write_object(&mut duckdb, root.path(), &format!("part-{part}"), part * 20_000, (part + 1) * 20_000);
        }
        for other in ["parquet", "csv"] {
            std::fs::remove_file(root.path().join(format!("{other}/part-9.{other}"))).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_index_objects() {
    let mut duckdb = Oracle::start();
    let root = data(&mut duckdb);
    let node = NodeProcess::over(root.path());
    let sql = "SELECT id, pad FROM t WHERE k = 77";
    let expected = duckdb.query(sql);
    let (a, b) = (session(None).await, session(None).await);
    for session in [&a, &b] {
        run(session, &definition("csv", &format!("thermocline://{}", node.address))).await;
        session.set("mode", "pushdown").unwrap();
    }
    let (one, two) = tokio::join!(a.run("CREATE INDEX by_k ON t (k)"), b.run("CREATE INDEX also_by_k ON t (k)"));
    one.unwrap();
    two.unwrap();
    for session in [&a, &b] {
        let result = run(session, sql).await;
        assert_same(canonical(&result), expected.clone(), false, sql);
        assert!(result.stats.partitions_indexed > 0);
    }
    // One session drops an index that both use: the other works on, and gets it rebuilt.
    run(&a, "DROP INDEX by_k").await;
    let result = run(&b, sql).await;
    assert_same(canonical(&result), expected.clone(), false, sql);
    assert_eq!(counts(&b, "also_by_k").await, ["3", "0", "0"]);
    run(&b, "CREATE INDEX IF NOT EXISTS also_by_k ON t (k)").await;
    run(&b, "DROP INDEX also_by_k").await;
    run(&b, "CREATE INDEX also_by_k ON t (k)").await;
    assert_eq!(counts(&b, "also_by_k").await, ["3", "3", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_indexed_is_named() {
    let mut duckdb = Oracle::start();
    let root = data(&mut duckdb);
    let session = session(None).await;
    run(&session, &definition("parquet", &root.path().display().to_string())).await;
    run(&session, "CREATE INDEX by_k ON t (k)").await;
    fails(&session, "CREATE INDEX by_k ON t (m)", &["by_k", "already exists"]).await;
    run(&session, "CREATE INDEX IF NOT EXISTS by_k ON t (m)").await;
    fails(&session, "CREATE INDEX i ON nowhere (k)", &["index i", "table \"nowhere\" does not exist"]).await;
    fails(&session, "CREATE INDEX i ON t (nothing)", &["index i", "no column 'nothing'", "pad"]).await;
    fails(&session, "DROP INDEX i", &["index \"i\" does not exist"]).await;
    run(&session, "DROP INDEX IF EXISTS i").await;
    fails(&session, "CREATE INDEX i ON t (k, m)", &["2 columns"]).await;

    duckdb.query(&format!(
        "COPY (SELECT [i] AS l FROM range(10) r(i)) TO '{}/list.parquet' (FORMAT parquet)",
        root.path().display()
    ));
    run(
        &session,
        &format!("CREATE EXTERNAL TABLE lists STORED AS PARQUET LOCATION '{}/list.parquet'", root.path().display()),
    )
    .await;
    fails(&session, "CREATE INDEX i ON lists (l)", &["column 'l'", "cannot be indexed"]).await;

    // No place for an index: ROOT is not writable (even for root: a file is in the way).
    let blocked = tempfile::tempdir().unwrap();
    write_object(&mut duckdb, blocked.path(), "part-0", 0, 100);
    std::fs::write(blocked.path().join(".thermocline"), "").unwrap();
    let node = NodeProcess::over(blocked.path());
    run(&session, "DROP TABLE t").await;
    run(&session, &definition("parquet", &format!("thermocline://{}", node.address))).await;
    fails(&session, "CREATE INDEX i ON t (k)", &[&node.address, ".thermocline", "--index-dir"]).await;
    assert_eq!(run(&session, "SELECT * FROM system.indexes").await.rows(), 0);
    let elsewhere = tempfile::tempdir().unwrap();
    let arguments = ["--index-dir", elsewhere.path().to_str().unwrap()];
    let node = NodeProcess::start(blocked.path().to_str().unwrap(), "127.0.0.1:0", &arguments, &[]);
    run(&session, "DROP TABLE t").await;
    run(&session, &definition("parquet", &format!("thermocline://{}", node.address))).await;
    run(&session, "CREATE INDEX i ON t (k)").await;
    assert_eq!(counts(&session, "i").await, ["1", "1", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_indexed_at_their_nodes() {
    let mut duckdb = Oracle::start();
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("lake");
    for part in 0..2 {
        write_object(&mut duckdb, &bucket, &format!("part-{part}"), part * 20_000, (part + 1) * 20_000);
    }
    duckdb_view(&mut duckdb, &bucket);
    let s3 = S3Server::start(root.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let without = NodeProcess::start("s3://lake", "127.0.0.1:0", &[], &s3.environment());
    let arguments = ["--index-dir", elsewhere.path().to_str().unwrap()];
    let with = NodeProcess::start("s3://lake", "127.0.0.1:0", &arguments, &s3.environment());
    let sql = "SELECT id, pad FROM t WHERE k = 77";
    let expected = duckdb.query(sql);
    for format in ["parquet", "csv"] {
        let session = session(None).await;
        session.set("mode", "pushdown").unwrap();
        run(&session, &definition(format, &format!("thermocline://{}", without.address))).await;
        fails(&session, "CREATE INDEX i ON t (k)", &[&without.address, "s3://lake", "--index-dir"]).await;
        run(&session, "DROP TABLE t").await;
        run(&session, &definition(format, &format!("thermocline://{}", with.address))).await;
        run(&session, "CREATE INDEX i ON t (k)").await;
        let result = run(&session, sql).await;
        assert_same(canonical(&result), expected.clone(), false, format);
        assert!(result.stats.partitions_indexed > 0, "{:?}", result.stats);
    }
}
