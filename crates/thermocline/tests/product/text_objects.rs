//! CSV objects as they occur: compressed, quoted, with zones and with text that means NULL; and entries of a location
//! that are not read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::compression::{COMPRESSIONS, gzip, in_members, zstd};
use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Mode;
use thermocline_storage::{NodeConfig, PushbackPolicy};

async fn session(partition_size: &str, pushback: PushbackPolicy) -> Session {
    let embedded = NodeConfig { pushback, ..NodeConfig::default() };
    let options = OpenOptions { embedded, ..OpenOptions::default() }.with("partition_size", partition_size);
    Database::open(options, |_| {}).await.unwrap().session()
}

async fn fresh() -> Session {
    session("16MiB", PushbackPolicy::Adaptive).await
}

/// Random records, some with line breaks within quotes.
fn text(seed: u64, first: u64, rows: u64) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut text = "id,k,price,day,note\n".to_owned();
    for id in first..first + rows {
        let k = rng.random_range(0..50);
        let price = if rng.random_bool(0.1) { String::new() } else { format!("{}.25", rng.random_range(0..1000)) };
        let day = format!("2024-{:02}-{:02}", rng.random_range(1..13), rng.random_range(1..29));
        let note = match rng.random_range(0..4) {
            0 => String::new(),
            1 => format!("\"two\nlines, {k}\""),
            2 => "\"said \"\"so\"\"\"".to_owned(),
            _ => format!("note {}", rng.random_range(0..1_000_000)),
        };
        writeln!(text, "{id},{k},{price},{day},{note}").unwrap();
    }
    text
}

/// Queries that take every route over text.
const QUERIES: &[&str] = &[
    "SELECT count(*) FROM t",
    "SELECT * FROM t WHERE id % 97 = 3",
    "SELECT id, note FROM t WHERE k = 7 AND note LIKE '%e%'",
    "SELECT k, count(*), sum(price), min(day), max(note) FROM t GROUP BY k",
    "SELECT id, price FROM t WHERE price IS NULL AND day < DATE '2024-03-01'",
    "SELECT id, price, note FROM t ORDER BY price DESC NULLS LAST, id LIMIT 20",
    "SELECT a.id, b.note FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.k = 3 AND b.k < 25",
    "SELECT id, k FROM t WHERE id IN (5, 1500, 2500, 6001)",
];

/// Every query in every mode, cold, warm and half cached.
async fn check(session: &Session, expected: &[Vec<Row>], context: &str) {
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        session.engine().cache().clear();
        for state in ["cold", "warm"] {
            for (sql, expected) in QUERIES.iter().zip(expected) {
                let context = format!("{context} {mode} {state}: {sql}");
                let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_same(canonical(&result), expected.clone(), false, &context);
            }
        }
    }
    // A part of the columns cached, so that bitmaps travel.
    for cached in ["SELECT sum(k) FROM t", "SELECT sum(price), max(note) FROM t", "SELECT max(day), sum(id) FROM t"] {
        session.engine().cache().clear();
        session.set("mode", "caching").unwrap();
        session.run(cached).await.unwrap();
        session.set("mode", "hybrid").unwrap();
        for (sql, expected) in QUERIES.iter().zip(expected) {
            let context = format!("{context} after {cached}: {sql}");
            let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_same(canonical(&result), expected.clone(), false, &context);
        }
    }
}

fn create(location: &str, options: &str) -> String {
    format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}' {options}")
}

/// The same rows as plain text, in each compression, and in a mixture of all.
struct Objects {
    folder: tempfile::TempDir,
    expected: Vec<Vec<Row>>,
}

impl Objects {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let texts: Vec<String> = (0..4).map(|part| text(part, part * 2000, 2000)).collect();
        let write = |kind: &str, name: &str, bytes: &[u8]| {
            let path = folder.path().join(kind).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        for (part, text) in texts.iter().enumerate() {
            write("plain", &format!("{part}.csv"), text.as_bytes());
            for (extension, compress) in COMPRESSIONS {
                write(extension, &format!("{part}.csv.{extension}"), &in_members(compress, text.as_bytes()));
            }
        }
        for (part, extension) in ["csv", "tsv.gz", "txt.ZST", "tbl.bz2"].into_iter().enumerate() {
            let text = texts[part].as_bytes();
            let bytes = match part {
                0 => text.to_vec(),
                part => COMPRESSIONS[part - 1].1(text),
            };
            write("mixed", &format!("{part}.{extension}"), &bytes);
        }
        let mut duckdb = Oracle::start();
        // DuckDB reads the same objects where it can, compressed by other programs.
        let columns = "columns = {'id': 'BIGINT', 'k': 'BIGINT', 'price': 'DOUBLE', 'day': 'DATE', 'note': 'VARCHAR'}";
        let read = |files: &str| {
            format!(
                "CREATE OR REPLACE VIEW t AS SELECT * FROM read_csv('{}/{files}', auto_detect = false, header = true, \
                 delim = ',', quote = '\"', escape = '\"', {columns})",
                folder.path().display()
            )
        };
        let mut expected: Option<Vec<Vec<Row>>> = None;
        for files in ["plain/*.csv", "gz/*.csv.gz", "zst/*.csv.zst"] {
            duckdb.query(&read(files));
            let rows: Vec<Vec<Row>> = QUERIES.iter().map(|sql| duckdb.query(sql)).collect();
            if let Some(expected) = &expected {
                for (rows, expected) in rows.iter().zip(expected) {
                    assert_same(rows.clone(), expected.clone(), false, "DuckDB over the same rows");
                }
            }
            expected = Some(rows);
        }
        Self { folder, expected: expected.unwrap() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_objects_in_every_mode() {
    let objects = Objects::new();
    for kind in ["gz", "zst", "bz2", "mixed"] {
        let location = objects.folder.path().join(kind);
        for pushback in [PushbackPolicy::Never, PushbackPolicy::Half, PushbackPolicy::Always] {
            let session = session("64KiB", pushback).await;
            session.run(&create(location.to_str().unwrap(), "")).await.unwrap();
            check(&session, &objects.expected, &format!("{kind} {pushback:?}")).await;
            // No cached bytes move again.
            session.set("mode", "caching").unwrap();
            for sql in QUERIES.iter().chain(QUERIES) {
                session.run(sql).await.unwrap();
            }
            let again = session.run(QUERIES[3]).await.unwrap();
            assert_eq!(again.stats.bytes_from_storage, 0, "{kind}: bytes moved with everything cached");
        }
        // An object that cannot be split is one partition, of its stored size.
        let session = session("64KiB", PushbackPolicy::Never).await;
        session.run(&create(location.to_str().unwrap(), "")).await.unwrap();
        let partitions = session
            .run("SELECT object, rows, stored_bytes FROM system.partitions WHERE object NOT LIKE '%.csv' ORDER BY object")
            .await
            .unwrap();
        for row in canonical(&partitions) {
            let size = fs::metadata(location.join(row[0].as_ref().unwrap())).unwrap().len();
            assert_eq!(row[1..], [Some("2000".into()), Some(size.to_string())], "{row:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_objects_at_storage_nodes_and_by_index() {
    let objects = Objects::new();
    let roots = ["left", "right"].map(|name| objects.folder.path().join(name));
    for (part, path) in fs::read_dir(objects.folder.path().join("mixed")).unwrap().enumerate() {
        let path = path.unwrap().path();
        let target = roots[part % 2].join("t");
        fs::create_dir_all(&target).unwrap();
        fs::copy(&path, target.join(path.file_name().unwrap())).unwrap();
    }
    let nodes = roots.each_ref().map(|root| NodeProcess::over(root));
    let location = format!("thermocline://{},{}/t", nodes[0].address, nodes[1].address);
    let session = fresh().await;
    session.run(&create(&location, "")).await.unwrap();
    check(&session, &objects.expected, "two nodes").await;
    for column in ["id", "k", "note"] {
        session.run(&format!("CREATE INDEX by_{column} ON t ({column})")).await.unwrap();
    }
    check(&session, &objects.expected, "two nodes with indexes").await;
    session.set("mode", "pushdown").unwrap();
    let found = session.run("SELECT id, k FROM t WHERE id IN (5, 1500, 2500, 6001)").await.unwrap();
    assert!(found.stats.partitions_indexed > 0, "no index was used");
}

/// Checks that the statement fails in every mode and the message contains every part.
async fn fails_everywhere(session: &Session, sql: &str, parts: &[&str]) {
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        let error = session.run(sql).await.expect_err(sql).to_string();
        for part in parts {
            assert!(error.contains(part), "{mode}: {sql}\nsaid: {error}\nwithout: {part}");
        }
    }
}

#[tokio::test]
async fn damaged_compressed_objects() {
    let text = text(1, 0, 3000);
    for (extension, compress) in COMPRESSIONS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("0.csv.{extension}"));
        let location = folder.path().to_str().unwrap().to_owned();
        let packed = compress(text.as_bytes());
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0xa5);
        let garbage = [&packed[..], b"and what is no member"].concat();
        let name = format!("0.csv.{extension}");
        let columns = "(id BIGINT, k BIGINT, price DOUBLE, day DATE, note VARCHAR)";
        let declared = create(&location, "").replacen("TABLE t", &format!("TABLE t {columns}"), 1);
        for (bytes, parts) in [
            (&packed[..packed.len() - 5], &[name.as_str(), "cut short"][..]),
            (&packed[..packed.len() / 2], &[&name, "cut short"]),
            (&damaged, &[&name, "damaged"]),
            (&garbage, &[&name, "damaged"]),
            (text.as_bytes(), &[&name, "not compressed with"]),
        ] {
            fs::write(&path, bytes).unwrap();
            for sql in [&declared, &create(&location, "")] {
                let error = fresh().await.run(sql).await.expect_err(sql).to_string();
                for part in parts {
                    assert!(error.contains(part), "{sql}\nsaid: {error}\nwithout: {part}");
                }
            }
        }
        // An object that is later overwritten by a damaged one.
        fs::write(&path, &packed).unwrap();
        let session = fresh().await;
        session.run(&create(&location, "")).await.unwrap();
        fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        fails_everywhere(&session, "SELECT sum(k) FROM t", &[&name, "cut short"]).await;
    }
}

/// A frame of ZSTD that repeats a byte `blocks` times 128 KiB.
fn zstd_bomb(blocks: u32) -> Vec<u8> {
    // Magic, no single segment, no checksum, a window of 2^17 bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3];
    for block in 1..=blocks {
        // Length, type RLE, last or not.
        let header = (128 << 10) << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(b'7');
    }
    frame
}

#[tokio::test]
async fn decompression_bombs() {
    let folder = tempfile::tempdir().unwrap();
    // Lines of a megabyte, so that the limit on records does not stop it first.
    let mut object = zstd(b"a\n");
    for _ in 0..3000 {
        object.extend(zstd_bomb(8));
        object.extend(zstd(b"\n"));
    }
    assert!(object.len() < 1 << 20);
    fs::write(folder.path().join("0.csv.zst"), object).unwrap();
    let sql = create(folder.path().to_str().unwrap(), "").replacen("TABLE t", "TABLE t (a VARCHAR)", 1);
    let error = fresh().await.run(&sql).await.unwrap_err().to_string();
    assert!(error.contains("0.csv.zst") && error.contains("decompresses to more than"), "{error}");
}

/// Types and rows of `SELECT *` here and in DuckDB, which gets the types.
async fn assert_inferred(folder: &Path, options: &str, types: &[&str], duckdb: &str) {
    let session = fresh().await;
    session.run(&create(folder.to_str().unwrap(), options)).await.unwrap();
    let described = session.run("DESCRIBE t").await.unwrap();
    let found: Vec<String> = canonical(&described).into_iter().map(|row| row[1].clone().unwrap()).collect();
    assert_eq!(found, types);
    let expected = Oracle::start().query(&duckdb.replace("{}", folder.to_str().unwrap()));
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        for _ in 0..2 {
            let result = session.run("SELECT * FROM t").await.unwrap();
            assert_same(canonical(&result), expected.clone(), false, &format!("{mode}"));
        }
    }
}

#[tokio::test]
async fn a_sample_that_ends_within_a_quoted_line_break() {
    // The sample is 1 MiB: it ends in a field with many line breaks, or in a record longer than it.
    for (before, lines) in [(1000, 2000), (50_000, 100_000), (0, 1_500_000)] {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "id,note\n".to_owned();
        for id in 0..before {
            writeln!(text, "{id},\"some\n1,2,3\n\"").unwrap();
        }
        while text.len() < (1 << 20) - 200 && before > 0 {
            writeln!(text, "1,\"{}\"", "x".repeat(100)).unwrap();
        }
        writeln!(text, "7,\"{}\"\n8,end", "a,b\n".repeat(lines)).unwrap();
        fs::write(folder.path().join("0.csv"), &text).unwrap();
        fs::write(folder.path().join("1.csv.gz"), gzip(text.as_bytes())).unwrap();
        let duckdb = "SELECT * FROM read_csv('{}/*', header = true, quote = '\"', escape = '\"', delim = ',', \
                      auto_detect = false, max_line_size = 20000000, columns = {'id': 'BIGINT', 'note': 'VARCHAR'})";
        assert_inferred(folder.path(), "", &["BIGINT", "TEXT"], duckdb).await;
    }
}

#[tokio::test]
async fn inference_knows_the_text_of_null() {
    for null in ["NA", "\\N", "-", "0", "null"] {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("a,b,c,d\n1,{null},2020-01-01,{null}\n{null},2.5,{null},{null}\n3,4,2020-01-03,\"{null}\"\n");
        fs::write(folder.path().join("0.csv"), text).unwrap();
        let duckdb = format!(
            "SELECT * FROM read_csv('{{}}/*', header = true, nullstr = '{null}', auto_detect = false, quote = '\"', delim = ',', \
             columns = {{'a': 'BIGINT', 'b': 'DOUBLE', 'c': 'DATE', 'd': 'VARCHAR'}}, allow_quoted_nulls = false)"
        );
        let options = format!("OPTIONS (null_value '{null}')");
        assert_inferred(folder.path(), &options, &["BIGINT", "DOUBLE PRECISION", "DATE", "TEXT"], &duckdb).await;
    }
}

#[tokio::test]
async fn timestamps_with_offsets() {
    let folder = tempfile::tempdir().unwrap();
    let text = "id,at,plain,mixed\n\
                1,2024-03-01 10:00:00+02:00,2024-03-01 10:00:00,2024-03-01 10:00:00+02:00\n\
                2,2024-03-01T10:00:00.5-0130,2024-03-01T10:00:00.25,2024-03-01 10:00:00\n\
                3,2024-03-01 10:00:00Z,2024-03-01,\n\
                4,,,\n";
    fs::write(folder.path().join("0.csv"), text).unwrap();
    let session = fresh().await;
    session.run(&create(folder.path().to_str().unwrap(), "")).await.unwrap();
    let described = session.run("DESCRIBE t").await.unwrap();
    let types: Vec<_> = canonical(&described).into_iter().map(|row| row[1].clone().unwrap()).collect();
    assert_eq!(types, ["BIGINT", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "TEXT"]);
    let mut duckdb = Oracle::start();
    duckdb.query("SET TimeZone = 'UTC'");
    let read = format!(
        "read_csv('{}/0.csv', header = true, auto_detect = false, delim = ',', quote = '\"', columns = \
         {{'id': 'BIGINT', 'a': 'TIMESTAMPTZ', 'plain': 'TIMESTAMP', 'mixed': 'VARCHAR'}})",
        folder.path().display()
    );
    let expected = duckdb.query(&format!("SELECT id, epoch_us(a), epoch_us(plain), mixed FROM {read}"));
    let sql = "SELECT id, arrow_cast(at, 'Int64'), arrow_cast(plain, 'Int64'), mixed FROM t";
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        for _ in 0..2 {
            assert_same(canonical(&session.run(sql).await.unwrap()), expected.clone(), false, mode.name());
            let below =
                session.run("SELECT count(*) FROM t WHERE at < TIMESTAMP '2024-03-01 09:00:00Z'").await.unwrap();
            assert_eq!(canonical(&below), [[Some("1".to_owned())]], "{mode}");
        }
    }
}

#[tokio::test]
async fn a_value_behind_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "id,n\n".to_owned();
    for id in 0..200_000 {
        writeln!(text, "{id},{}", id % 10).unwrap();
    }
    text.push_str("200000,many\n");
    fs::write(folder.path().join("0.csv"), text).unwrap();
    let session = fresh().await;
    session.run(&create(folder.path().to_str().unwrap(), "")).await.unwrap();
    let parts = ["0.csv", "row 200001", "column 'n'", "'many'", "bigint", "declare the column as VARCHAR"];
    fails_everywhere(&session, "SELECT sum(n) FROM t", &parts).await;
    // Other columns can be read.
    assert_eq!(canonical(&session.run("SELECT max(id) FROM t").await.unwrap()), [[Some("200000".to_owned())]]);
}

/// A view keeps the table over which it was created, whose columns may be in other fields than those of the table that
/// has its name now.
#[tokio::test]
async fn a_view_over_a_replaced_table_shares_no_segment_with_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.csv"), "a,b\n1,2\n").unwrap();
    fs::write(folder.path().join("1.csv"), "x,b\n3,4\n").unwrap();
    let location = folder.path().to_str().unwrap();
    let session = fresh().await;
    session.run(&create(location, "")).await.unwrap();
    session.run("CREATE VIEW v AS SELECT * FROM t").await.unwrap();
    let declared = create(location, "").replace("TABLE t", "TABLE t (a BIGINT, b BIGINT, x BIGINT)");
    let by_position = create(location, "").replace("TABLE t", "TABLE t (a BIGINT, b BIGINT)");
    for replaced in [declared, by_position] {
        session.run("DROP TABLE t").await.unwrap();
        session.run(&replaced).await.unwrap();
        let mut expected = vec![];
        for mode in ["pullup", "caching", "caching"] {
            session.set("mode", mode).unwrap();
            let mut found = vec![];
            for sql in ["SELECT a, b FROM v ORDER BY b", "SELECT a, b FROM t ORDER BY b"] {
                found.push(session.run(sql).await.map(|result| canonical(&result)).map_err(|error| error.to_string()));
            }
            if mode == "pullup" {
                expected.clone_from(&found);
            }
            assert_eq!(found, expected, "{mode}: {replaced}");
        }
    }
}

/// Runs the statements, reopens the database, and returns the table's columns before and after.
async fn reopened(statements: &[&str], tables: &[&str]) -> (Vec<Vec<Row>>, Vec<Vec<Row>>, String) {
    let folder = tempfile::tempdir().unwrap();
    let open = || async {
        let directory = Some(folder.path().join("db"));
        Database::open(OpenOptions { directory, ..OpenOptions::default() }, |_| {}).await.unwrap().session()
    };
    let described = |session: Session| async move {
        let mut all = vec![];
        for table in tables {
            all.push(canonical(&session.run(&format!("DESCRIBE {table}")).await.unwrap()));
            all.push(canonical(&session.run(&format!("SELECT * FROM {table}")).await.unwrap()));
        }
        all
    };
    let session = open().await;
    for statement in statements {
        session.run(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let before = described(session).await;
    let catalog = fs::read_to_string(folder.path().join("db/catalog.sql")).unwrap();
    // Twice, because the restored catalog is written again.
    let session = open().await;
    session.run("CREATE VIEW another AS SELECT 1").await.unwrap();
    drop(session);
    (before, described(open().await).await, catalog)
}

#[tokio::test]
async fn zones_survive_in_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.csv"), "a,b\n2024-03-01 10:00:00,2024-03-01 10:00:00\n").unwrap();
    let location = folder.path().display();
    for zone in ["+02:00", "-09:30"] {
        let (before, after, catalog) = reopened(
            &[
                &format!("SET datafusion.execution.time_zone = '{zone}'"),
                &format!(
                    "CREATE EXTERNAL TABLE t (a TIMESTAMP WITH TIME ZONE, b TIMESTAMP(3)) STORED AS CSV LOCATION '{location}'"
                ),
                "CREATE VIEW v AS SELECT a, b::TIMESTAMPTZ AS c FROM t",
                "RESET datafusion.execution.time_zone",
                &format!(
                    "CREATE EXTERNAL TABLE said (a TIMESTAMPTZ, b TIMESTAMPTZ) STORED AS CSV LOCATION '{location}' \
                     OPTIONS (time_zone '{zone}')"
                ),
                &format!("CREATE EXTERNAL TABLE none (a TIMESTAMPTZ, b TIMESTAMP) STORED AS CSV LOCATION '{location}'"),
            ],
            &["t", "v", "said", "none"],
        )
        .await;
        assert_eq!(before, after, "{catalog}");
        for position in [0, 2, 4] {
            let (data_type, value) = (&before[position][0][1], &before[position + 1][0][0]);
            assert!(data_type.as_ref().unwrap().ends_with("WITH TIME ZONE"), "{before:?}");
            assert!(value.as_ref().unwrap().ends_with(zone), "{before:?}");
        }
    }
    let without = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}' OPTIONS (time_zone '+02:00')");
    let error = fresh().await.run(&without).await.unwrap_err().to_string();
    assert!(error.contains("time_zone") && error.contains("WITH TIME ZONE"), "{error}");
}

#[tokio::test]
async fn types_of_values_survive_in_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let location = folder.path().join("t");
    fs::create_dir(&location).unwrap();
    let mut duckdb = Oracle::start();
    // Values of every type without fields with which a column can be declared.
    let columns = [
        ("c0", "BOOLEAN", "true"),
        ("c1", "TINYINT", "(-128)::TINYINT"),
        ("c2", "SMALLINT", "32767::SMALLINT"),
        ("c3", "INT", "(-5)::INT"),
        ("c4", "BIGINT", "9223372036854775807::BIGINT"),
        ("c5", "TINYINT UNSIGNED", "255::UTINYINT"),
        ("c6", "SMALLINT UNSIGNED", "65535::USMALLINT"),
        ("c7", "INT UNSIGNED", "4294967295::UINTEGER"),
        ("c8", "BIGINT UNSIGNED", "18446744073709551615::UBIGINT"),
        ("c9", "REAL", "1.5::FLOAT"),
        ("c10", "DOUBLE", "2.5::DOUBLE"),
        ("c11", "DECIMAL(20, 4)", "12345.6789::DECIMAL(20, 4)"),
        ("c12", "DATE", "DATE '2024-01-02'"),
        ("c13", "TIMESTAMP(3)", "TIMESTAMP_MS '2024-01-02 03:04:05.123'"),
        ("c14", "TIMESTAMP(6)", "TIMESTAMP '2024-01-02 03:04:05.123456'"),
        ("c15", "TIMESTAMP(9)", "TIMESTAMP_NS '2024-01-02 03:04:05.123456789'"),
        ("c16", "VARCHAR", "'text'"),
        ("c17", "BYTEA", "'\\xAA'::BLOB"),
    ];
    let values: Vec<String> = columns.iter().map(|(name, _, value)| format!("{value} AS {name}")).collect();
    duckdb.query(&format!("COPY (SELECT {}) TO '{}/0.parquet'", values.join(", "), location.display()));
    let typed: Vec<String> = columns.iter().map(|(name, data_type, _)| format!("{name} {data_type}")).collect();
    let declared =
        format!("CREATE EXTERNAL TABLE t ({}) STORED AS PARQUET LOCATION '{}'", typed.join(", "), location.display());
    let inferred = format!("CREATE EXTERNAL TABLE i STORED AS PARQUET LOCATION '{}'", location.display());
    let (before, after, catalog) = reopened(&[&declared, &inferred], &["t", "i"]).await;
    assert_eq!(before, after, "{catalog}");
    let types = |described: &[Row]| described.iter().map(|row| row[1].clone()).collect::<Vec<_>>();
    assert_eq!(types(&before[0]), types(&before[2]), "{catalog}");
}

#[tokio::test]
async fn types_that_are_only_declared_survive_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.csv"), "a,b\n1.5,03:04:05\n").unwrap();
    let (before, after, catalog) = reopened(
        &[&format!(
            "CREATE EXTERNAL TABLE t (a DECIMAL(50, 10) NOT NULL, b TIME) STORED AS CSV LOCATION '{}'",
            folder.path().display()
        )],
        &["t"],
    )
    .await;
    assert_eq!(before, after, "{catalog}");
    assert_eq!(before[0][0][1], Some("DECIMAL(50, 10)".into()));
    // Types that the CSV reader does not support are refused as such, with their full names.
    let session = fresh().await;
    for data_type in ["INTERVAL", "INT[3]", "STRUCT<a INT[], b STRUCT<c TIME>>", "BYTEA"] {
        let sql = format!(
            "CREATE EXTERNAL TABLE x (a {data_type}, b VARCHAR) STORED AS CSV LOCATION '{}'",
            folder.path().display()
        );
        let created = session.run(&sql).await;
        let error = match created {
            Err(error) => error.to_string(),
            Ok(_) => session.run("SELECT a FROM x").await.unwrap_err().to_string(),
        };
        assert!(error.contains("column 'a'") && error.contains("cannot read"), "{data_type}: {error}");
        let _ = session.run("DROP TABLE IF EXISTS x").await;
    }
}

/// Reasons in `system.unread_objects`, by path.
async fn unread(session: &Session) -> Vec<(String, String)> {
    let rows = session.run("SELECT object, reason FROM system.unread_objects ORDER BY object").await.unwrap();
    canonical(&rows).into_iter().map(|row| (row[0].clone().unwrap(), row[1].clone().unwrap())).collect()
}

#[tokio::test]
async fn what_is_not_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join("t").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    fs::write(at("0.csv"), "a\n1\n").unwrap();
    fs::write(at("sub/1.csv.gz"), gzip(b"a\n2\n")).unwrap();
    fs::write(at("notes.md"), "x").unwrap();
    fs::write(at("2.csv.xz"), "x").unwrap();
    fs::write(at("3.csv"), "").unwrap();
    fs::write(at("_SUCCESS"), "").unwrap();
    fs::write(at(".part.csv"), "a\n9\n").unwrap();
    fs::write(at("_temporary/4.csv"), "a\n9\n").unwrap();
    fs::create_dir_all(at("5.csv")).unwrap();
    fs::write(folder.path().join("outside.csv"), "a\n9\n").unwrap();
    let link = |target: PathBuf, name: &str| std::os::unix::fs::symlink(target, at(name)).unwrap();
    link(folder.path().join("outside.csv"), "6.csv");
    link(at("sub/1.csv.gz"), "7.csv.gz");
    link(at("nothing.csv"), "8.csv");
    // Loops: to itself, to the directory that it is in, and through two directories.
    link(at("9.csv"), "9.csv");
    link(at("sub/.."), "sub/up");
    fs::create_dir_all(at("x")).unwrap();
    fs::create_dir_all(at("y")).unwrap();
    link(at("y"), "x/y");
    link(at("x"), "y/x");
    fs::write(at("x/10.csv"), "a\n3\n").unwrap();

    let location = folder.path().join("t");
    let node = NodeProcess::over(folder.path());
    for location in [location.to_str().unwrap().to_owned(), format!("thermocline://{}/t", node.address)] {
        let session = fresh().await;
        session.run(&create(&location, "")).await.unwrap();
        let prefix = if location.starts_with("thermocline") { "t/" } else { "" };
        let found = unread(&session).await;
        let reason = |name: &str| {
            let entry = found.iter().find(|(path, _)| *path == format!("{prefix}{name}"));
            entry.map_or("", |(_, reason)| reason)
        };
        assert_eq!(reason("notes.md"), "its name has another extension", "{found:?}");
        assert_eq!(reason("2.csv.xz"), "its name has another extension");
        assert_eq!(reason("3.csv"), "it is empty");
        for hidden in ["_SUCCESS", ".part.csv", "_temporary"] {
            assert_eq!(reason(hidden), "its name begins with . or _");
        }
        assert_eq!(reason("5.csv"), "a directory without files");
        assert_eq!(reason("8.csv"), "a symbolic link to what is not there");
        assert_eq!(reason("9.csv"), "a symbolic link that leads to itself");
        assert_eq!(reason("sub/up"), "a symbolic link to a directory that it is in");
        assert_eq!(reason("x/y/x"), "a symbolic link to a directory that it is in");
        // The node has another ROOT.
        assert_eq!(reason("6.csv").is_empty(), !prefix.is_empty());
        // 1 and 2, 2 again by the link, 3 as x/10.csv and as y/x/10.csv.
        let outside = if prefix.is_empty() { 0 } else { 9 };
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            let sum = session.run("SELECT sum(a) FROM t").await.unwrap();
            assert_eq!(canonical(&sum), [[Some((1 + 2 + 2 + 3 + 3 + outside).to_string())]], "{location} {mode}");
        }
        // Later entries are known to the next query.
        fs::write(at("later.txt.bak"), "x").unwrap();
        session.run("SELECT count(*) FROM t").await.unwrap();
        let found = unread(&session).await;
        assert!(found.iter().any(|(path, _)| path.ends_with("later.txt.bak")), "{found:?}");
        fs::remove_file(at("later.txt.bak")).unwrap();
    }
}

#[tokio::test]
async fn a_vanished_location_is_an_error_and_an_empty_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("0.csv"), "a\n1\n").unwrap();
        path
    };
    let count = |session: Session| async move {
        let result = session.run("SELECT count(*) FROM t").await;
        result.map(|result| canonical(&result)[0][0].clone().unwrap()).map_err(|error| error.to_string())
    };
    let (left, right) = (NodeProcess::over(&folder.path().join(".")), tempfile::tempdir().unwrap());
    fs::create_dir_all(right.path().join("t")).unwrap();
    fs::write(right.path().join("t/1.csv"), "a\n2\n").unwrap();
    let right_node = NodeProcess::over(right.path());
    let path = make("t");
    for location in [
        path.to_str().unwrap().to_owned(),
        path.join("0.csv").to_str().unwrap().to_owned(),
        format!("thermocline://{}/t", left.address),
        format!("thermocline://{},{}/t", left.address, right_node.address),
    ] {
        let session = fresh().await;
        make("t");
        session.run(&create(&location, "")).await.unwrap();
        let all = count(session.clone()).await.unwrap();
        let is_file = location.ends_with(".csv");
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            fs::remove_file(path.join("0.csv")).unwrap();
            let emptied = count(session.clone()).await;
            match is_file {
                true => assert!(emptied.unwrap_err().contains("there is no file or directory '0.csv'")),
                false => assert_eq!(emptied.unwrap(), (all.parse::<u64>().unwrap() - 1).to_string(), "{location}"),
            }
            make("t");
            assert_eq!(count(session.clone()).await.unwrap(), all);
            fs::remove_dir_all(&path).unwrap();
            let error = count(session.clone()).await.expect_err(&location);
            let said = error.contains("there is no file or directory 't'") || error.contains("is not there any more");
            assert!(
                said && error.contains("table t") && !error.contains("planned a second time"),
                "{location}: {error}"
            );
            make("t");
            assert_eq!(count(session.clone()).await.unwrap(), all);
        }
    }
}

#[tokio::test]
async fn results_of_dictionary_types() {
    let objects = tempfile::tempdir().unwrap();
    let path = objects.path().join("t");
    fs::create_dir(&path).unwrap();
    for part in 0..3 {
        fs::write(path.join(format!("{part}.csv")), text(part, part * 1000, 1000)).unwrap();
    }
    let node = NodeProcess::over(objects.path());
    let mut duckdb = Oracle::start();
    duckdb.query(&format!(
        "CREATE VIEW t AS SELECT * FROM read_csv('{}/*.csv', auto_detect = false, header = true, delim = ',', quote = '\"', \
         escape = '\"', columns = {{'id': 'BIGINT', 'k': 'BIGINT', 'price': 'DOUBLE', 'day': 'DATE', 'note': 'VARCHAR'}})",
        path.display()
    ));
    let queries = [
        (
            "SELECT id, arrow_cast(note, 'Dictionary(Int32, Utf8)') FROM t WHERE k = 3",
            "SELECT id, note FROM t WHERE k = 3",
        ),
        (
            "SELECT arrow_cast(k, 'Dictionary(UInt8, Int64)') AS d, count(*) FROM t GROUP BY 1",
            "SELECT k, count(*) FROM t GROUP BY k",
        ),
        (
            "SELECT d, min(id) FROM (SELECT id, arrow_cast(note, 'Dictionary(Int16, Utf8View)') AS d FROM t) WHERE d <> '' GROUP BY d",
            "SELECT note, min(id) FROM t WHERE note <> '' GROUP BY note",
        ),
        (
            "SELECT id, arrow_cast(note, 'Dictionary(Int32, LargeUtf8)') AS d FROM t ORDER BY id DESC LIMIT 7",
            "SELECT id, note FROM t ORDER BY id DESC LIMIT 7",
        ),
    ];
    for location in [path.to_str().unwrap().to_owned(), format!("thermocline://{}/t", node.address)] {
        let session = fresh().await;
        session.run(&create(&location, "")).await.unwrap();
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            session.engine().cache().clear();
            for state in ["cold", "warm"] {
                for (sql, oracle) in queries {
                    let context = format!("{location} {mode} {state}: {sql}");
                    let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert_same(canonical(&result), duckdb.query(oracle), false, &context);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_without_an_equality_beyond_the_memory_limit() {
    let objects = tempfile::tempdir().unwrap();
    let path = objects.path().join("t");
    fs::create_dir(&path).unwrap();
    let mut duckdb = Oracle::start();
    duckdb.query(
        "CREATE TABLE t AS SELECT i AS id, i % 50 AS k, hash(i) % 1000 AS f, 'word' || (i % 700) AS s FROM range(60000) r(i)",
    );
    let copy = "(FORMAT parquet, ROW_GROUP_SIZE 20000)";
    duckdb.query(&format!("COPY (SELECT id, k, f::BIGINT AS f, s FROM t) TO '{}/0.parquet' {copy}", path.display()));
    let inner = "SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.id < b.id AND a.k = 1 AND b.k = 2 AND \
                 length(a.s) + length(b.s) > 11";
    let exists = "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id > a.id + 59000 AND b.f > a.f)";
    let expected = [inner, exists].map(|sql| duckdb.query(sql));
    for mode in Mode::ALL {
        let session = fresh().await;
        session.run(&create(path.to_str().unwrap(), "").replace("STORED AS CSV", "STORED AS PARQUET")).await.unwrap();
        session.set("mode", mode.name()).unwrap();
        for limit in ["24KiB", "96KiB", "256KiB", "1MiB", "2GiB"] {
            session.run(&format!("ALTER DATABASE SET query_memory_limit = '{limit}'")).await.unwrap();
            for state in ["cold", "warm"] {
                for (sql, expected) in [inner, exists].into_iter().zip(&expected) {
                    let context = format!("{mode} {limit} {state}: {sql}");
                    match session.run(sql).await {
                        Ok(result) => assert_same(canonical(&result), expected.clone(), false, &context),
                        // Running out of memory is acceptable, a wrong result is not.
                        Err(error) => {
                            let error = error.to_string();
                            assert!(limit != "2GiB" && error.contains("out of memory"), "{context}: {error}");
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn statements_that_do_not_fit_are_errors_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.csv"), text(1, 0, 100)).unwrap();
    let session = fresh().await;
    session.run(&create(folder.path().to_str().unwrap(), "")).await.unwrap();
    for (sql, said) in [
        ("SELECT sum(note) FROM t", "sum(text)"),
        ("SELECT avg(note) FROM t", "avg(text)"),
        ("SELECT sum(DISTINCT note) FROM t", "sum(text)"),
        ("SELECT sum(day) FROM t", "sum(date)"),
        ("SELECT avg(INTERVAL '1 day')", "avg(interval"),
        ("SELECT median(note) FROM t", "median(text)"),
        ("SELECT substr(id, 1, 2) FROM t", "substr(bigint"),
        ("SELECT round(note) FROM t", "function round(TEXT) does not exist"),
        ("SELECT date_trunc(5, day) FROM t", "date_trunc: the field has to be a literal"),
        ("SELECT md5(5)", "md5(bigint)"),
        ("SELECT trunc(1.5, 'a')", "'a'"),
        ("SELECT approx_percentile_cont(k, 'a') FROM t", "approx_percentile_cont(bigint"),
        ("EXPLAIN SELECT sum(note) FROM t", "sum(text)"),
        ("CREATE VIEW v AS SELECT sum(note) FROM t", "sum(text)"),
        ("COPY (SELECT sum(note) FROM t) TO 's3://bucket/x.csv'", "sum(text)"),
        ("COPY t TO 'gs://bucket/x.csv'", "unknown scheme 'gs'"),
        ("COPY t TO 'http://host/x.csv'", "unknown scheme 'http'"),
        ("SELECT * FROM t WHERE regexp_like(note, '(')", "regex parse error"),
    ] {
        for mode in [Mode::Pullup, Mode::Pushdown] {
            session.set("mode", mode.name()).unwrap();
            let error = session.run(sql).await.expect_err(sql).to_string();
            let blames_us = ["Internal error", "bug", "help us"].iter().any(|word| error.contains(word));
            assert!(error.contains(said) && !blames_us, "{sql}\nsaid: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_to_a_bucket_and_read_it_back() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("s3/bucket")).unwrap();
    fs::create_dir_all(folder.path().join("t")).unwrap();
    fs::write(folder.path().join("t/0.csv"), text(1, 0, 500)).unwrap();
    let server = crate::support::s3::S3Server::start(&folder.path().join("s3"));
    let script = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}';
         COPY (SELECT id, k, note FROM t) TO 's3://bucket/out/0.parquet' STORED AS PARQUET;
         COPY t TO 's3://bucket/text/0.csv' STORED AS CSV OPTIONS ('format.has_header' 'true');
         CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION 's3://bucket/out';
         CREATE EXTERNAL TABLE c STORED AS CSV LOCATION 's3://bucket/text';
         SELECT (SELECT count(*) FROM t), (SELECT sum(k) FROM t) - (SELECT sum(k) FROM p),
                (SELECT sum(id) FROM t) - (SELECT sum(id) FROM c)",
        folder.path().join("t").display()
    );
    let environment = server.environment();
    // The server runs in this process.
    let done = tokio::task::spawn_blocking(move || {
        let mut command = std::process::Command::new(crate::support::program::BINARY);
        command.args(["sql", "--format", "csv", "-c", &script]).envs(environment);
        command.output().unwrap()
    });
    let done = done.await.unwrap();
    let (said, failed) = (crate::support::program::text(&done.stdout), crate::support::program::text(&done.stderr));
    assert!(said.ends_with("500,0,0\n"), "{said}{failed}");
}

/// An empty text is not NULL, whatever the dialect and the number of columns.
#[tokio::test(flavor = "multi_thread")]
async fn what_copy_writes_as_csv_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let session = fresh().await;
    let texts =
        ["''", "NULL", "' '", "'\"'", "'a,b'", "'a|b'", "E'two\\nlines'", "'NULL'", "E'\\\\\"'", "'plain'", "'é'"];
    let rows: Vec<String> =
        texts.iter().enumerate().map(|(id, text)| format!("({id}, {text}, {id} * 1.5, DATE '2020-01-01')")).collect();
    let source = format!("(VALUES {}) v (id, t, d, e)", rows.join(", "));
    let dialects = [
        ("", ""),
        ("'format.delimiter' '|', 'format.null_value' 'NULL'", ", 'delimiter' '|', 'null_value' 'NULL'"),
        ("'format.double_quote' 'false', 'format.escape' '\\'", ", 'escape' '\\'"),
    ];
    for (number, (written, read)) in dialects.into_iter().enumerate() {
        for (columns, types) in [("id, t, d, e", "id BIGINT, t VARCHAR, d DOUBLE, e DATE"), ("t", "t VARCHAR")] {
            let name = format!("c{number}_{}", types.split(' ').next().unwrap());
            let path = folder.path().join(&name).join("0.csv");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let options = if written.is_empty() { String::new() } else { format!("OPTIONS ({written})") };
            for sql in [
                format!("COPY (SELECT {columns} FROM {source}) TO '{}' STORED AS CSV {options}", path.display()),
                format!(
                    "CREATE EXTERNAL TABLE {name} ({types}) STORED AS CSV LOCATION '{}'
                     OPTIONS ('has_header' 'true' {read})",
                    path.parent().unwrap().display()
                ),
            ] {
                session.run(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            let expected = session.run(&format!("SELECT {columns} FROM {source}")).await.unwrap();
            let found = session.run(&format!("SELECT {columns} FROM {name}")).await.unwrap();
            assert_same(canonical(&found), canonical(&expected), false, &name);
        }
    }
}

/// Names and numbers of the cached columns of `t`, by name.
async fn cached_columns(session: &Session) -> Vec<(String, usize)> {
    let sql = "SELECT column_name, count(*) FROM system.segments WHERE kind = 'column' GROUP BY 1 ORDER BY 1";
    let rows = canonical(&session.run(sql).await.unwrap());
    let cell = |cell: &Option<String>| cell.clone().unwrap();
    rows.iter().map(|row| (cell(&row[0]), cell(&row[1]).parse().unwrap())).collect()
}

/// Whoever loads a column of text has all of it at hand: columns that queries have asked for before are kept as well, but
/// no query fails for one that it does not need.
#[tokio::test(flavor = "multi_thread")]
async fn columns_that_were_asked_for_are_kept_with_the_first_that_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let objects = 3;
    for part in 0..objects {
        let mut text = text(part, part * 2000, 2000);
        if part == 1 {
            text = text.replacen("2000,", "2000,x", 1);
        }
        fs::write(folder.path().join(format!("{part}.csv")), text).unwrap();
    }
    let session = fresh().await;
    session.set("mode", "auto").unwrap();
    session.set("cached_answers", "off").unwrap();
    let columns = "(id BIGINT, k BIGINT, price DOUBLE, day DATE, note VARCHAR)";
    let location = folder.path().display();
    let create = format!("CREATE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{location}'");
    session.run(&create).await.unwrap();
    let sum = "SELECT sum(id), count(*) FROM t";
    let expected = canonical(&session.run(sum).await.unwrap());

    // Without a cache, nothing is kept but what was asked for.
    session.database().set("cache_size", "0").unwrap();
    session.run("SELECT max(note) FROM t WHERE price > 10").await.unwrap();
    let error = session.run("SELECT sum(k) FROM t").await.unwrap_err().to_string();
    assert!(error.contains("1.csv") && error.contains("'x") || error.contains("\"x"), "{error}");
    assert_eq!(cached_columns(&session).await, []);

    session.database().set("cache_size", "256MiB").unwrap();
    for _ in 0..10 {
        assert_eq!(canonical(&session.run(sum).await.unwrap()), expected);
    }
    let all = objects as usize;
    let kept = [("id", all), ("k", all - 1), ("note", all - 1), ("price", all - 1)];
    assert_eq!(cached_columns(&session).await, kept.map(|(name, count)| (name.to_owned(), count)));
    let before = session.run("SELECT max(note), sum(price) FROM t WHERE id < 2000").await.unwrap().stats;
    assert_eq!(before.partitions(thermocline_pushdown::Route::Local), 1, "{before:?}");
}
