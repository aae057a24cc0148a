//! Files in the place of tables, compared with DuckDB, which understands the same paths.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Mode;

use crate::support::oracle::Oracle;
use crate::support::program::{BINARY, output_at, text};
use crate::support::rows::{assert_same, canonical};
use crate::support::s3::S3Server;
use crate::support::topology::NodeProcess;

/// A session of a database of its own.
pub(super) async fn session() -> Session {
    Database::open(OpenOptions::default(), |_| {}).await.unwrap().session()
}

/// The SQLSTATE and the text of a statement's error.
pub(super) async fn failed(session: &Session, sql: &str) -> (String, String) {
    let error = session.run(sql).await.expect_err(sql);
    (error.sqlstate().to_owned(), error.to_string())
}

/// The only value of a result.
async fn value(session: &Session, sql: &str) -> String {
    let result = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = canonical(&result);
    assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
    rows.remove(0).remove(0).unwrap_or_default()
}

/// Files as DuckDB writes them.
fn write(duckdb: &mut Oracle, folder: &Path) {
    let folder = folder.display();
    for sub in ["p/x=1", "p/deep/er", "c", "z", "mixed"] {
        fs::create_dir_all(format!("{folder}/{sub}")).unwrap();
    }
    let rows = |first: u32| {
        format!(
            "SELECT i AS id, i % 7 AS k, 'note ' || i AS note, CAST(i AS DECIMAL(10, 2)) / 4 AS price, \
             DATE '2024-01-01' + CAST(i % 300 AS INTEGER) AS day FROM range({first}, {first} + 3000) t(i)"
        )
    };
    for (path, first, options) in [
        ("Orders.2024.parquet", 0, "FORMAT parquet, ROW_GROUP_SIZE 2048"),
        ("p/a.parquet", 0, "FORMAT parquet"),
        ("p/b.parquet", 3000, "FORMAT parquet, COMPRESSION zstd"),
        ("p/x=1/c.parquet", 6000, "FORMAT parquet"),
        ("p/deep/er/d.pq", 9000, "FORMAT parquet"),
        ("c/a.csv", 0, "FORMAT csv"),
        ("c/b.csv", 3000, "FORMAT csv"),
        ("c/c.csv.gz", 6000, "FORMAT csv, COMPRESSION gzip"),
        ("c/t.tsv", 9000, "FORMAT csv, DELIMITER '\t'"),
        ("z/it''s \"a file\".csv", 0, "FORMAT csv"),
        ("z/[1].csv", 0, "FORMAT csv"),
        ("mixed/a.csv", 0, "FORMAT csv"),
        ("mixed/a.parquet", 0, "FORMAT parquet"),
    ] {
        duckdb.query(&format!("COPY ({}) TO '{folder}/{path}' ({options})", rows(first)));
    }
}

/// Queries of files below `DIR` that DuckDB understands alike.
const QUERIES: &[&str] = &[
    "SELECT * FROM 'DIR/p/a.parquet' WHERE k = 3",
    "SELECT count(*), sum(id), max(note), min(day), sum(price) FROM 'DIR/p/*.parquet'",
    "SELECT count(*), sum(id) FROM 'DIR/p/**/*.parquet'",
    "SELECT count(*), sum(id) FROM 'DIR/p/*/*.parquet'",
    "SELECT count(*), sum(id) FROM 'DIR/p/[a-b].parquet'",
    "SELECT count(*), sum(id) FROM 'DIR/p/?.parquet' t WHERE t.k IN (1, 2)",
    "SELECT k, count(*), sum(price) FROM 'DIR/c/a.csv' GROUP BY k",
    "SELECT count(*), sum(id), max(day) FROM 'DIR/c/*.csv'",
    "SELECT count(*), sum(id), max(day) FROM 'DIR/c/c.csv.gz' WHERE note LIKE '%7'",
    "SELECT count(*), sum(id), max(day) FROM 'DIR/c/t.tsv' WHERE price > 2300",
    "SELECT sum(orders.id) FROM 'DIR/Orders.2024.parquet' WHERE orders.k = 2",
    "SELECT a.id, b.note FROM 'DIR/p/a.parquet' JOIN 'DIR/p/b.parquet' ON a.id + 3000 = b.id AND a.k = 1 AND b.k < 6",
    "SELECT count(*) FROM 'DIR/p/a.parquet' JOIN 'DIR/c/b.csv' USING (k) WHERE a.id < 20 AND b.id < 3040",
    "SELECT x.id, y.id FROM 'DIR/c/a.csv' x LEFT JOIN 'DIR/c/a.csv' AS y ON x.id = y.id + 2990 WHERE x.id > 2980",
    "SELECT id FROM 'DIR/p/a.parquet' WHERE price = (SELECT max(price) FROM 'DIR/p/a.parquet')",
    "SELECT id FROM 'DIR/p/a.parquet' o WHERE EXISTS (SELECT 1 FROM 'DIR/c/a.csv' WHERE a.id = o.id AND a.id < 9)",
    "WITH w AS (SELECT * FROM 'DIR/p/a.parquet') SELECT count(*) FROM w, 'DIR/c/a.csv' c WHERE w.id = c.id",
    "SELECT count(*) FROM (SELECT id FROM 'DIR/p/a.parquet' UNION ALL SELECT id FROM 'DIR/c/a.csv') u",
    "SELECT count(*), sum(id) FROM 'DIR/z/it''s \"a file\".csv'",
    "SELECT id, note FROM 'file://DIR/p/a.parquet' ORDER BY id DESC LIMIT 3",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_as_duckdb_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start();
    write(&mut duckdb, folder.path());
    let directory = folder.path().display().to_string();
    let queries: Vec<String> = QUERIES.iter().map(|sql| sql.replace("DIR", &directory)).collect();
    let expected: Vec<_> = queries.iter().map(|sql| duckdb.query(sql)).collect();
    let session = session().await;
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        session.engine().cache().clear();
        for state in ["cold", "warm"] {
            for (sql, expected) in queries.iter().zip(&expected) {
                let context = format!("{mode} {state}: {sql}");
                let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_same(canonical(&result), expected.clone(), sql.contains("ORDER BY"), &context);
            }
        }
    }
    // What is there by its name, and a folder, which DuckDB does not read.
    let brackets = value(&session, &format!("SELECT count(*) FROM '{directory}/z/[1].csv'")).await;
    assert_eq!(brackets, "3000");
    let all = value(&session, &format!("SELECT count(*) FROM '{directory}/p'")).await;
    assert_eq!(all, "12000");
    // Tables of either kind beside files.
    for sql in [
        format!("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{directory}/p/a.parquet'"),
        "CREATE TABLE r (id BIGINT PRIMARY KEY, s TEXT)".into(),
        "INSERT INTO r VALUES (1, 'one'), (3001, 'two')".into(),
    ] {
        session.run(&sql).await.unwrap();
    }
    let joined = format!(
        "SELECT string_agg(r.s || b.k, ' ' ORDER BY r.id) FROM r JOIN '{directory}/p/*.parquet' b ON b.id = r.id"
    );
    assert_eq!(value(&session, &joined).await, "one1 two5");
    let joined = format!("SELECT count(*) FROM e JOIN '{directory}/c/a.csv' c ON e.id = c.id AND e.note = c.note");
    assert_eq!(value(&session, &joined).await, "3000");
    // A name in single quotes that a table has means the table.
    assert_eq!(value(&session, "SELECT count(*) FROM 'e'").await, "3000");
    assert_eq!(value(&session, "WITH w AS (SELECT 7 AS x) SELECT x FROM 'w'").await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_planned_pushed_down_and_cached_as_tables_are() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    let session = session().await;
    session.run(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{directory}/p'")).await.unwrap();
    session.set("mode", "hybrid").unwrap();
    let plan = async |from: &str| {
        let sql =
            format!("EXPLAIN SELECT k, sum(price) FROM {from} AS t WHERE id < 4000 GROUP BY k ORDER BY k LIMIT 3");
        let result = session.run(&sql).await.unwrap();
        let plan: Vec<String> = canonical(&result).into_iter().flatten().flatten().collect();
        plan.join("\n")
    };
    let pattern = format!("{directory}/p/**");
    let of_file = plan(&format!("'{pattern}'")).await;
    assert!(of_file.contains("HybridScanExec") && of_file.contains("AggregateExec"), "{of_file}");
    assert_eq!(of_file.replace(&pattern, "t"), plan("t").await);

    // By whichever path from its folder an object is reached, its columns are cached once.
    session.set("mode", "caching").unwrap();
    session.engine().cache().clear();
    let sum = |path: &str| format!("SELECT sum(id) FROM '{directory}/{path}'");
    let cold = session.run(&sum("p/*.parquet")).await.unwrap().stats;
    assert!(cold.segments_hit == 0 && cold.segments_admitted > 0, "{cold:?}");
    for path in ["p/*.parquet", "p/a.parquet", "p/[b].parquet"] {
        let warm = session.run(&sum(path)).await.unwrap().stats;
        assert!(warm.segments_missed == 0 && warm.segments_hit > 0, "{path}: {warm:?}");
        assert_eq!(warm.bytes_from_storage, 0, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_between_queries_are_seen_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let session = session().await;
    let from = format!("'{}/*.csv'", folder.path().display());
    fs::write(at("a.csv"), "x,y\n1,2\n").unwrap();
    let sum = format!("SELECT sum(x) FROM {from}");
    assert_eq!(value(&session, &sum).await, "1");
    // Another file.
    fs::write(at("b.csv"), "x,y\n10,2\n").unwrap();
    assert_eq!(value(&session, &sum).await, "11");
    // Other columns, and another type.
    fs::write(at("b.csv"), "x,z\n10.5,7\n").unwrap();
    assert_eq!(value(&session, &sum).await, "11.5");
    assert_eq!(value(&session, &format!("SELECT sum(z) FROM {from}")).await, "7");
    fs::remove_file(at("b.csv")).unwrap();
    assert_eq!(value(&session, &sum).await, "1");
    let (state, error) = failed(&session, &format!("SELECT z FROM {from}")).await;
    assert_eq!(state, "42703", "{error}");
    // As many rows and bytes as before.
    fs::write(at("a.csv"), "x,y\n3,2\n").unwrap();
    assert_eq!(value(&session, &sum).await, "3");
    fs::remove_file(at("a.csv")).unwrap();
    assert_eq!(failed(&session, &sum).await.0, "58P01");
    fs::write(at("a.csv"), "x\n4\n").unwrap();
    assert_eq!(value(&session, &sum).await, "4");
}

/// A file whose columns change all the time is read as it was at one moment, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_during_queries_are_never_read_with_columns_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, next) = (folder.path().join("a.csv"), folder.path().join("next"));
    fs::write(&path, "x,y\n1,2\n").unwrap();
    let session = session().await;
    let select = format!("SELECT * FROM '{}'", path.display());
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (is_over, path) = (Arc::clone(&is_over), path.clone());
        move || {
            for content in ["x,z\n1,3\n", "x,y\n1,2\n"].into_iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                fs::write(&next, content).unwrap();
                fs::rename(&next, &path).unwrap();
                std::thread::sleep(Duration::from_millis(15));
            }
        }
    });
    for round in 0..200 {
        if round % 10 == 0 {
            session.engine().cache().clear();
        }
        match session.run(&select).await {
            Ok(result) => {
                let last = result.schema.field(1).name().clone();
                let expected = if last == "y" { "2" } else { "3" };
                assert_eq!(canonical(&result), [[Some("1".to_owned()), Some(expected.to_owned())]], "{last}");
            }
            Err(error) => assert!(error.to_string().contains("changed"), "{error}"),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    fs::write(&path, "x,w\n1,4\n").unwrap();
    assert_eq!(value(&session, &format!("SELECT a.w FROM '{}'", path.display())).await, "4");
}

/// Texts beside the data are no rows of it, whichever path leads there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_files_whose_names_say_the_format_are_rows() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().display().to_string();
    for sub in ["data", "out.csv", "tabs"] {
        fs::create_dir(folder.path().join(sub)).unwrap();
    }
    for (name, content) in [
        ("data/2024.csv", "x\n1\n"),
        ("data/README.txt", "about\nnothing\n"),
        ("data/2024.tbl", "x\nwrong\n"),
        ("data/2024", "x\nwrong\n"),
        ("out.csv/a.csv", "x,y\n1,2\n"),
        ("out.csv/b.tsv", "x\ty\n3\t4\n"),
        ("tabs/a.tsv", "x\ty\n1\t2\n"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let session = session().await;
    for path in ["data", "data/*", "data/2024*", "data/**"] {
        let from = format!("FROM '{directory}/{path}'");
        assert_eq!(value(&session, &format!("SELECT sum(x) {from}")).await, "1", "{path}");
        assert_eq!(value(&session, &format!("SELECT count(*) {from}")).await, "1", "{path}");
        let result = session.run(&format!("SELECT * {from}")).await.unwrap();
        assert_eq!(canonical(&result)[0].len(), 1, "{path}");
    }
    assert_eq!(value(&session, &format!("SELECT sum(y) FROM '{directory}/out.csv'")).await, "2");
    // A view keeps the format too: what came later is not split at its delimiter.
    session.run(&format!("CREATE VIEW v AS SELECT y FROM '{directory}/tabs'")).await.unwrap();
    fs::write(folder.path().join("tabs/b.csv"), "x,y\n10,20\n").unwrap();
    fs::write(folder.path().join("tabs/c.tsv"), "x\ty\n3\t4\n").unwrap();
    assert_eq!(value(&session, "SELECT sum(y) FROM v").await, "6");
    let (state, error) = failed(&session, &format!("SELECT y FROM '{directory}/tabs'")).await;
    assert!(state == "42P16" && error.contains("several formats"), "{state} {error}");
}

/// Storages in which nothing was found are not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storages_without_a_table_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let session = session().await;
    let storages = "SELECT count(*) FROM system.storage_nodes";
    let before: usize = value(&session, storages).await.parse().unwrap();
    for number in 0..20 {
        let directory = folder.path().join(format!("{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("bad.parquet"), "no parquet at all").unwrap();
        for pattern in ["*.csv", "*.parquet"] {
            failed(&session, &format!("SELECT * FROM '{}/{pattern}'", directory.display())).await;
        }
    }
    let after: usize = value(&session, storages).await.parse().unwrap();
    assert!(after <= before + 1, "{before} {after}");
    // One with a table is.
    fs::write(folder.path().join("0/a.csv"), "x\n1\n").unwrap();
    assert_eq!(value(&session, &format!("SELECT x FROM '{}/0/*.csv'", folder.path().display())).await, "1");
    failed(&session, &format!("SELECT * FROM '{}/1/*.csv'", folder.path().display())).await;
    assert_eq!(value(&session, &format!("{storages} WHERE node LIKE '%/0'")).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    fs::write(folder.path().join("x.log"), "a b\n").unwrap();
    fs::write(folder.path().join("empty.csv"), "").unwrap();
    fs::write(folder.path().join("bad.parquet"), "no parquet at all").unwrap();
    let session = session().await;
    for (path, state, said) in [
        ("p/*.csv", "58P01", vec!["no file matches 'DIR/p/*.csv'", "looked in DIR/p"]),
        ("nowhere/*.csv", "58P01", vec!["no file matches 'DIR/nowhere/*.csv'", "looked in DIR/nowhere"]),
        ("p/no.parquet", "58P01", vec!["there is no file or directory 'DIR/p/no.parquet'", "looked in DIR/p"]),
        ("empty.csv", "58P01", vec!["'DIR/empty.csv'", "it is empty"]),
        (
            "x.log",
            "42P16",
            vec!["'DIR/x.log'", "known endings are .parquet, .pq, .csv", "STORED AS CSV LOCATION 'DIR/x.log'"],
        ),
        ("x*", "42P16", vec!["'DIR/x*'", "x.log", "LOCATION 'DIR'"]),
        ("mixed", "42P16", vec!["several formats", "a.csv and a.parquet"]),
        ("", "42P16", vec!["several formats"]),
        ("bad.parquet", "", vec!["bad.parquet"]),
    ] {
        let (found, error) = failed(&session, &format!("SELECT * FROM '{directory}/{path}'")).await;
        assert!(state.is_empty() || found == state, "{path}: {found} {error}");
        for said in said {
            let said = said.replace("DIR", &directory);
            assert!(error.contains(&said), "{path}: {said}\n{error}");
        }
        assert!(!error.contains("internal error"), "{path}: {error}");
    }
    assert_eq!(failed(&session, "SELECT * FROM ''").await.0, "42601");
    assert_eq!(failed(&session, "SELECT * FROM 'nope://x/y.csv'").await.0, "42P16");
    // Names in double quotes are tables, and files are not written.
    assert_eq!(failed(&session, &format!("SELECT * FROM \"{directory}/p/a.parquet\"")).await.0, "42P01");
    let insert = failed(&session, &format!("INSERT INTO '{directory}/c/a.csv' VALUES (1)")).await;
    assert_eq!(insert.0, "42P01", "{insert:?}");
}

/// A session that may not name a place reads nothing there, whoever has read it before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_where_locations_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    for directory in [&inside, &outside] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("a.csv"), "x\n1\n").unwrap();
    }
    std::os::unix::fs::symlink(outside.join("a.csv"), inside.join("link.csv")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("links")).unwrap();
    let database = Database::open(OpenOptions::default(), |_| {}).await.unwrap();
    let (wide, narrow) = (database.session(), database.session());
    narrow.set("allowed_locations", inside.to_str().unwrap()).unwrap();
    let read = |path: String| format!("SELECT sum(x) FROM '{path}'");
    let at = |directory: &Path, name: &str| directory.join(name).display().to_string();
    for (directory, name) in [(&inside, "a.csv"), (&inside, "a*.csv"), (&outside, "a.csv"), (&outside, "*.csv")] {
        assert_eq!(value(&wide, &read(at(directory, name))).await, "1");
    }
    for name in ["a.csv", "a*.csv", "*.csv", "**/*.csv", "../inside/a.csv"] {
        assert_eq!(value(&narrow, &read(at(&inside, name))).await, "1", "{name}");
    }
    for path in [
        at(&outside, "a.csv"),
        at(&outside, "*.csv"),
        at(&inside, "../outside/a.csv"),
        at(&inside, "../*/a.csv"),
        at(&inside, "link.csv"),
        at(&inside, "links/*.csv"),
        at(&outside, "no.csv"),
        format!("file://{}", at(&outside, "a.csv")),
        "/etc/passwd".into(),
        "/*/passwd".into(),
        "s3://bucket/x.parquet".into(),
        "thermocline://localhost:1/t".into(),
    ] {
        for sql in [
            read(path.clone()),
            format!("EXPLAIN {}", read(path.clone())),
            format!("DESCRIBE '{path}'"),
            format!("CREATE VIEW v AS SELECT * FROM '{path}'"),
            format!("PREPARE p AS {}", read(path.clone())),
        ] {
            let (state, error) = failed(&narrow, &sql).await;
            assert_eq!(state, "42501", "{sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_all_kinds_read_files() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    let session = session().await;
    let run = async |sql: &str| {
        let sql = sql.replace("DIR", &directory);
        session.run(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    run("CREATE TABLE t (PRIMARY KEY (id)) AS SELECT id, note FROM 'DIR/p/a.parquet' WHERE k = 1").await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "429");
    run("INSERT INTO t SELECT id, note FROM 'DIR/c/*.csv' WHERE k = 2 AND id > 3000").await;
    run("INSERT INTO t SELECT id, note FROM 'DIR/c/a.csv' ON CONFLICT (id) DO NOTHING").await;
    assert_eq!(value(&session, "SELECT count(*) FROM t WHERE id < 3000").await, "3000");
    run("BEGIN").await;
    run("INSERT INTO t SELECT id + 100000, note FROM 'DIR/c/a.csv' WHERE id < 10").await;
    assert_eq!(
        canonical(&run("SELECT count(*) FROM t JOIN 'DIR/c/a.csv' c ON t.id = c.id + 100000").await)[0][0].as_deref(),
        Some("10")
    );
    run("ROLLBACK").await;
    run("PREPARE p AS SELECT count(*) FROM 'DIR/p/*.parquet' WHERE id < $1").await;
    assert_eq!(value(&session, "EXECUTE p(3500)").await, "3500");
    run("COPY (SELECT id, k FROM 'DIR/c/*.csv') TO 'DIR/out/copied.parquet' STORED AS PARQUET").await;
    run("COPY (SELECT id, k FROM 'DIR/out/copied.parquet' WHERE k = 0) TO 'DIR/out/copied.csv' (FORMAT csv, HEADER)")
        .await;
    assert_eq!(value(&session, &format!("SELECT sum(k) FROM '{directory}/out/copied.csv'")).await, "0");
    let described = canonical(&run("DESCRIBE 'DIR/p/a.parquet'").await);
    let names: Vec<_> = described.iter().map(|row| row[0].clone().unwrap()).collect();
    assert_eq!(names, ["id", "k", "note", "price", "day"]);
    let explained = canonical(&run("EXPLAIN ANALYZE SELECT sum(id) FROM 'DIR/c/*.csv'").await);
    assert!(format!("{explained:?}").contains("HybridScanExec"), "{explained:?}");
    // None of this is a table.
    assert_eq!(run("SELECT * FROM information_schema.tables WHERE table_name LIKE '%/%'").await.rows(), 0);
}

/// A view reads the same files wherever the program is started, and follows them.
#[test]
fn relative_paths_are_of_the_working_directory_and_kept_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    for directory in [&here, &there] {
        fs::create_dir_all(directory.join("data")).unwrap();
    }
    fs::write(here.join("data/it's.csv"), "x\n1\n").unwrap();
    let database = folder.path().join("db");
    let rows = |at: &Path, script: &str| {
        let done = output_at(&database, at, script);
        assert!(done.status.success(), "{script}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let view = "CREATE VIEW v AS SELECT x + 1 AS y FROM 'data/*.csv' WHERE x > 0;
                CREATE VIEW w AS SELECT \"it's\".x FROM './data/it''s.csv'";
    rows(&here, view);
    assert_eq!(rows(&here, "SELECT x FROM 'data/it''s.csv'"), "x\n1\n");
    assert_eq!(rows(&there, "SELECT y FROM v; SELECT x FROM w"), "y\n2\nx\n1\n");
    fs::write(here.join("data/b.csv"), "x\n5\n").unwrap();
    assert_eq!(rows(&there, "SELECT sum(y) FROM v"), "sum\n8\n");
    let done = output_at(&database, &there, "SELECT x FROM 'data/it''s.csv'");
    let error = text(&done.stderr);
    let looked_in = format!("looked in {}/data", there.canonicalize().unwrap().display());
    assert!(!done.status.success() && error.contains(&looked_in), "{error}");
    // Files that are gone keep the database from nothing but their view.
    fs::remove_dir_all(here.join("data")).unwrap();
    let done = output_at(&database, &there, "SELECT 1; SELECT * FROM v");
    assert_eq!(text(&done.stdout), "?column?\n1\n");
    assert!(text(&done.stderr).contains("there") && !done.status.success());
    // Two quotes in a row would be read as one from the catalog.
    fs::create_dir_all(here.join("data")).unwrap();
    fs::write(here.join("data/a''b.csv"), "x\n7\n").unwrap();
    assert_eq!(rows(&here, "SELECT x FROM 'data/a''''b.csv'"), "x\n7\n");
    let done = output_at(&database, &here, "CREATE VIEW q AS SELECT x FROM 'data/a''''b.csv'");
    assert!(text(&done.stderr).contains("quotes"), "{}", text(&done.stderr));
}

/// Folders with the characters of patterns in their names, the working directory too, are meant by their names.
#[test]
fn folders_that_are_there_are_no_patterns() {
    let folder = tempfile::tempdir().unwrap();
    let (named, alike) = (folder.path().join("proj[1]"), folder.path().join("proj1"));
    for (directory, x) in [(&named, "1"), (&alike, "2")] {
        fs::create_dir_all(directory.join("data")).unwrap();
        fs::write(directory.join("data/a.csv"), format!("x\n{x}\n")).unwrap();
    }
    let database = folder.path().join("db");
    let rows = |at: &Path, script: &str| {
        let done = output_at(&database, at, script);
        assert!(done.status.success(), "{script}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let directory = folder.path().display();
    for path in ["data/*.csv", "data/a.csv", "./*/a.csv", "../proj[1]/*/*.csv", "../proj[1]/data"] {
        assert_eq!(rows(&named, &format!("SELECT x FROM '{path}'")), "x\n1\n", "{path}");
    }
    assert_eq!(rows(&alike, &format!("SELECT x FROM '{directory}/proj[1]/data/*.csv'")), "x\n1\n");
    assert_eq!(rows(&alike, &format!("SELECT sum(x) FROM '{directory}/proj*/data/*.csv'")), "sum\n3\n");
    let script = format!("SET allowed_locations = '{}'; SELECT x FROM 'data/*.csv'", named.display());
    assert!(rows(&named, &script).ends_with("x\n1\n"));
    // A view is read again with the absolute path.
    rows(&named, "CREATE VIEW v AS SELECT x FROM 'data/*.csv'");
    assert_eq!(rows(&alike, "SELECT x FROM v"), "x\n1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_find_thousands_of_files_and_look_only_where_they_lead() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for number in 0..3000 {
        let directory = data.join(format!("part={}", number % 10));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number}.csv")), format!("x\n{number}\n")).unwrap();
    }
    fs::write(data.join("top.csv"), "x\n-1\n").unwrap();
    // A directory that may not be read, unless by root, who may all: where nothing leads to, nobody looks.
    let closed = data.join("part=0/closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let session = session().await;
    let nines = (0..3000).filter(|n: &u32| n.to_string().starts_with('2') && n % 10 == 9).sum::<u32>().to_string();
    for (pattern, sum) in [
        ("part=*/*.csv", "4498500"),
        ("part=[0-1]/*.csv", "897300"),
        ("*/299?.csv", "29945"),
        ("*.csv", "-1"),
        ("part=*/2*9.csv", nines.as_str()),
    ] {
        for _ in 0..2 {
            let found = value(&session, &format!("SELECT sum(x) FROM '{}/{pattern}'", data.display())).await;
            assert_eq!(found, sum, "{pattern}");
        }
    }
    // More paths than are remembered.
    for number in 0..400 {
        let path = data.join(format!("part={}/{number}.csv", number % 10));
        assert_eq!(value(&session, &format!("SELECT x FROM '{}'", path.display())).await, number.to_string());
    }
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_buckets_have_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder.path().join("s3/lake");
    fs::create_dir_all(&bucket).unwrap();
    write(&mut Oracle::start(), &bucket);
    for (key, x) in [("run#1/a.csv", "1"), ("run/a.csv", "2"), ("a%20b/a%20b.csv", "3"), ("a b/a b.csv", "4")] {
        fs::create_dir_all(bucket.join(key).parent().unwrap()).unwrap();
        fs::write(bucket.join(key), format!("x\n{x}\n")).unwrap();
    }
    let node = NodeProcess::over(&bucket);
    let session = session().await;
    for (path, count) in [
        ("p/a.parquet", "3000"),
        ("p/*.parquet", "6000"),
        ("p/**", "12000"),
        ("p", "12000"),
        ("c/*.csv", "6000"),
        ("Orders*", "3000"),
    ] {
        let sql = format!("SELECT count(*) FROM 'thermocline://{}/{path}'", node.address);
        assert_eq!(value(&session, &sql).await, count, "{path}");
    }
    let (state, error) = failed(&session, &format!("SELECT * FROM 'thermocline://{}/q/*.csv'", node.address)).await;
    assert!(state == "58P01" && error.contains("no file matches"), "{state} {error}");

    let server = S3Server::start(&folder.path().join("s3"));
    let script = "SELECT count(*), max(a.id) FROM 's3://lake/p/a.parquet';
                  SELECT count(*) FROM 's3://lake/p/*.parquet';
                  SELECT count(*) FROM 's3://lake/*.parquet';
                  SELECT count(*) FROM 's3://lake/p/**/*.parquet';
                  SELECT count(*) FROM 's3://lake/p';
                  SELECT count(*) FROM 's3://lake/c/c.csv.gz';
                  SELECT sum(x) FROM 's3://lake/run#1/a.csv';
                  SELECT sum(x) FROM 's3://lake/run#1/*.csv';
                  SELECT sum(x) FROM 's3://lake/a%20b/a%20b.csv';
                  SELECT sum(x) FROM 's3://lake/a%20b/*';
                  SELECT sum(x) FROM 's3://lake/a b/a b.csv';
                  SELECT sum(x) FROM 's3://lake/a b';
                  SELECT count(*) FROM 's3://lake/p/no.parquet'";
    let environment = server.environment();
    // The server runs in this process.
    let done = tokio::task::spawn_blocking(move || {
        Command::new(BINARY).args(["sql", "--format", "csv", "-c", script]).envs(environment).output().unwrap()
    });
    let done = done.await.unwrap();
    let (said, error) = (text(&done.stdout), text(&done.stderr));
    let expected = "count,max\n3000,2999\ncount\n6000\ncount\n3000\ncount\n9000\ncount\n12000\ncount\n3000\n\
                    sum\n1\nsum\n1\nsum\n3\nsum\n3\nsum\n4\nsum\n4\n";
    assert_eq!(said, expected, "{error}");
    assert!(error.contains("there is no file or directory 's3://lake/p/no.parquet': looked in s3://lake/p"), "{error}");
}
