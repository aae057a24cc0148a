//! Bad input gets an error that names the problem and its place, and nothing is lost.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Mode;

fn write_parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn numbers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

/// A folder `t` with one object of 1000 rows: `a` counts up, `s` is text.
fn good_table() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|i| format!("value {i}"))));
    write_parquet(&folder.path().join("t/0.parquet"), vec![("a", numbers(0..1000)), ("s", text)]);
    folder
}

async fn session() -> Session {
    Database::in_memory().await.unwrap().session()
}

fn create(folder: &Path, format: &str, options: &str) -> String {
    format!("CREATE EXTERNAL TABLE t {options} STORED AS {format} LOCATION '{}'", folder.join("t").display())
}

/// Checks that the statement fails and the message contains every part.
async fn fails(session: &Session, sql: &str, parts: &[&str]) {
    let error = session.run(sql).await.expect_err(sql).to_string();
    for part in parts {
        assert!(error.contains(part), "{sql}\nsaid: {error}\nwithout: {part}");
    }
}

async fn count(session: &Session, sql: &str) -> String {
    let result = session.run(sql).await.unwrap();
    arrow::util::display::array_value_to_string(result.batches[0].column(0), 0).unwrap()
}

#[tokio::test]
async fn missing_and_empty_locations() {
    let folder = tempfile::tempdir().unwrap();
    let session = session().await;
    fails(&session, &create(folder.path(), "PARQUET", ""), &["No such file", "/t"]).await;
    fs::create_dir(folder.path().join("t")).unwrap();
    fails(&session, &create(folder.path(), "PARQUET", ""), &["no PARQUET objects", "/t"]).await;
    fs::write(folder.path().join("t/notes.md"), "x").unwrap();
    fails(&session, &create(folder.path(), "CSV", ""), &["no CSV objects"]).await;
    fails(&session, "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION ''", &["LOCATION is empty"]).await;
    fails(&session, "CREATE EXTERNAL TABLE t STORED AS AVRO LOCATION '/tmp'", &["AVRO", "PARQUET and CSV"]).await;
    fails(&session, "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'ftp://x/y'", &["ftp"]).await;
    fails(&session, "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://nowhere'", &["host:port"]).await;
    fails(&session, "SELECT * FROM t", &["t"]).await;
}

#[tokio::test]
async fn objects_with_other_columns() {
    let folder = good_table();
    write_parquet(&folder.path().join("t/1.parquet"), vec![("a", numbers(0..10))]);
    let session = session().await;
    session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
    assert_eq!(count(&session, "SELECT count(*) FROM t WHERE s IS NULL").await, "10");
    session.run("DROP TABLE t").await.unwrap();
    // A column that must not be NULL in any object is a different case.
    session.run(&create(folder.path(), "PARQUET", "(a BIGINT, s VARCHAR NOT NULL)")).await.unwrap();
    fails(&session, "SELECT max(s) FROM t", &["1.parquet", "no column 's'"]).await;
    session.run("DROP TABLE t").await.unwrap();

    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    write_parquet(&folder.path().join("t/1.parquet"), vec![("a", Arc::clone(&text)), ("s", text)]);
    session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
    assert_eq!(count(&session, "SELECT count(s) FROM t").await, "1001");
    fails(&session, "SELECT max(a) FROM t", &["1.parquet", "column 'a'", "bigint"]).await;
    session.run("DROP TABLE t").await.unwrap();

    // Narrower integers are read as the table's.
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![7000]));
    write_parquet(&folder.path().join("t/1.parquet"), vec![("s", text), ("a", narrow)]);
    session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        assert_eq!(count(&session, "SELECT max(a) FROM t WHERE s <> 'y'").await, "7000");
    }
}

#[tokio::test]
async fn truncated_and_corrupt_parquet() {
    let folder = good_table();
    let session = session().await;
    let path = folder.path().join("t/0.parquet");
    let whole = fs::read(&path).unwrap();

    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    fails(&session, &create(folder.path(), "PARQUET", ""), &["0.parquet", "not a Parquet file, or cut short"]).await;
    fs::write(&path, b"PAR1").unwrap();
    fails(&session, &create(folder.path(), "PARQUET", ""), &["0.parquet", "too few"]).await;

    // A footer that claims to be longer than the object.
    let mut lying = whole.clone();
    let at = lying.len() - 8;
    lying[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&path, &lying).unwrap();
    fails(&session, &create(folder.path(), "PARQUET", ""), &["0.parquet", "corrupt Parquet"]).await;

    // Damage anywhere is an error or harmless, in every mode, and never a panic.
    for position in (4..whole.len()).step_by(whole.len() / 150 + 1) {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x5a;
        fs::write(&path, &damaged).unwrap();
        let session = self::session().await;
        if session.run(&create(folder.path(), "PARQUET", "")).await.is_err() {
            continue;
        }
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            match session.run("SELECT sum(length(s)), sum(a) FROM t WHERE a >= 0").await {
                Ok(_) => {}
                Err(error) => {
                    let error = error.to_string();
                    assert!(!error.contains("panic"), "byte {position}, {mode}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn columns_of_one_name_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("t/0.parquet"), vec![("a", numbers(0..9)), ("s", numbers(0..9))]);
    let fields =
        ["a", "s", "a"].map(|name| arrow::datatypes::Field::new(name, arrow::datatypes::DataType::Int64, true));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(schema, vec![numbers(10..19), numbers(10..19), numbers(20..29)]).unwrap();
    let file = fs::File::create(folder.path().join("t/1.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for columns in ["", "(a BIGINT, s BIGINT)"] {
        let session = session().await;
        session.run(&create(folder.path(), "PARQUET", columns)).await.unwrap();
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            assert_eq!(count(&session, "SELECT sum(s) FROM t").await, "162");
            fails(&session, "SELECT sum(a) FROM t", &["1.parquet", "'a'", "several"]).await;
        }
    }
}

#[tokio::test]
async fn bad_csv_rows_are_named() {
    let cases: &[(&[u8], &[&str])] = &[
        (b"a,b\n1,2\n3\n", &["0.csv", "row 2"]),
        (b"a,b\n1,2\n3,4,5\n", &["0.csv", "row 2"]),
        (b"a,b\n1,2\nx,4\n", &["0.csv", "row 2", "'a'", "x"]),
        (b"a,b\n1,99999999999\n", &["0.csv", "row 1", "'b'", "99999999999"]),
        (b"a,b\n1,\"2\n", &["0.csv", "quote"]),
        (b"a,b,s\n1,2,\xff\xfe\n", &["0.csv", "row 1", "'s'"]),
        (b"a,b\r1,2\r3,4\r", &["0.csv", "row 0, byte 3", "carriage return"]),
        (b"a,b\r1,2\r3,4\n5,6\n", &["0.csv", "row 0, byte 3", "carriage return"]),
    ];
    for (text, parts) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("t")).unwrap();
        fs::write(folder.path().join("t/0.csv"), text).unwrap();
        let columns = if text.starts_with(b"a,b,s") { "(a INT, b INT, s VARCHAR)" } else { "(a INT, b INT)" };
        let session = session().await;
        let created = session.run(&create(folder.path(), "CSV", columns)).await;
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            let error = match &created {
                Err(error) => error.to_string(),
                Ok(_) => {
                    let sql = if columns.contains('s') { "SELECT a, b, s FROM t" } else { "SELECT a, b FROM t" };
                    session.run(sql).await.expect_err("bad CSV").to_string()
                }
            };
            for part in *parts {
                assert!(
                    error.contains(part),
                    "{}\n{mode} said: {error}\nwithout: {part}",
                    String::from_utf8_lossy(text)
                );
            }
        }
    }
}

#[tokio::test]
async fn unusual_but_correct_csv() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    // A byte order mark, CRLF, quotes with newlines and commas, no newline at the end.
    fs::write(folder.path().join("t/0.csv"), "\u{feff}a,s\r\n1,\"x\r\ny, \"\"z\"\"\"\r\n,plain\r\n3,").unwrap();
    let session = session().await;
    session.run(&create(folder.path(), "CSV", "")).await.unwrap();
    for mode in Mode::ALL {
        session.set("mode", mode.name()).unwrap();
        assert_eq!(count(&session, "SELECT sum(a) FROM t").await, "4");
        assert_eq!(count(&session, "SELECT s FROM t WHERE a = 1").await, "x\r\ny, \"z\"");
        assert_eq!(count(&session, "SELECT count(*) FROM t WHERE s IS NULL").await, "1");
        assert_eq!(count(&session, "SELECT count(*) FROM t").await, "3");
    }
}

#[tokio::test]
async fn new_changed_and_deleted_objects() {
    for mode in Mode::ALL {
        let folder = good_table();
        let session = session().await;
        session.set("mode", mode.name()).unwrap();
        session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
        let sql = "SELECT sum(a), count(*), max(length(s)) FROM t WHERE a >= 0";
        assert_eq!(count(&session, sql).await, "499500");
        assert_eq!(count(&session, sql).await, "499500");

        let text: ArrayRef = Arc::new(StringArray::from(vec!["new"; 10]));
        write_parquet(&folder.path().join("t/1.parquet"), vec![("a", numbers(0..10)), ("s", Arc::clone(&text))]);
        assert_eq!(count(&session, sql).await, "499545", "{mode}: a new object is seen");

        write_parquet(&folder.path().join("t/0.parquet"), vec![("a", numbers(0..10)), ("s", text)]);
        assert_eq!(count(&session, sql).await, "90", "{mode}: an overwritten object is read anew");

        fs::remove_file(folder.path().join("t/0.parquet")).unwrap();
        assert_eq!(count(&session, sql).await, "45", "{mode}: a deleted object is gone");
    }
}

#[tokio::test]
async fn settings_and_statements_that_do_not_fit() {
    let session = session().await;
    fails(&session, "SET thermocline.mode = 'fast'", &["mode", "fast", "hybrid"]).await;
    fails(&session, "SET thermocline.cache_size = 'much'", &["cache_size", "much"]).await;
    fails(&session, "SET thermocline.nothing = '1'", &["nothing"]).await;
    fails(&session, "SELEC 1", &["SELEC"]).await;
    fails(&session, "DROP TABLE nothing", &["table \"nothing\" does not exist"]).await;
    session.run("DROP TABLE IF EXISTS nothing").await.unwrap();
    session.run("ALTER DATABASE SET thermocline.cache_size = '64MiB'").await.unwrap();
    assert_eq!(session.values().engine.cache_size, 64 << 20);
    let folder = good_table();
    session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
    fails(&session, &create(folder.path(), "PARQUET", ""), &["already exists"]).await;
    fails(&session, "INSERT INTO t VALUES (1, 'x')", &["read only"]).await;
}

#[tokio::test]
async fn expressions_too_deep_to_work_on() {
    let session = session().await;
    for part in ["+1", " OR 1 = 1", "||'x'", " UNION ALL SELECT 1", " JOIN t USING (k)"] {
        let sql = format!("SELECT 1 {}", part.repeat(20_000));
        fails(&session, &sql, &["more than 4000 operators in a row"]).await;
    }
    // Types are trees of the same depth.
    let of = |levels: usize| format!("CAST(NULL AS INT{})", "[]".repeat(levels));
    for sql in [format!("SELECT {}", of(4001)), format!("CREATE VIEW v AS SELECT {} AS a", of(20_000))] {
        fails(&session, &sql, &["more than 4000 operators in a row"]).await;
    }
    assert_eq!(session.run(&format!("SELECT {} AS a", of(1000))).await.unwrap().rows(), 1);
}

/// Each step reads the previous one twice, so that the expanded plan has 2^40 parts.
#[tokio::test]
async fn statements_that_double_with_each_step() {
    const STEPS: usize = 40;
    let session = session().await;
    session.run("CREATE VIEW v0 AS SELECT 1 AS a").await.unwrap();
    let ways = [
        ("SELECT a FROM {} UNION ALL SELECT a FROM {}", ""),
        ("SELECT x.a FROM {} x JOIN {} y ON x.a = y.a", ""),
        ("SELECT (SELECT max(a) FROM {}) AS a FROM {}", ""),
        ("SELECT a FROM {} WHERE EXISTS (SELECT 1 FROM {})", ""),
        ("SELECT a + a AS a FROM {}", " WHERE a > 5"),
        ("SELECT CASE WHEN a > 1 THEN a END AS a FROM {}", " WHERE a > 5"),
        ("SELECT a + a AS a FROM {} GROUP BY a + a", " HAVING a > 5"),
    ];
    for (way, (step, end)) in ways.iter().enumerate() {
        let query = |step: &str, of: &str| step.replace("{}", of);
        let end = if end.contains("HAVING") { format!(" GROUP BY a{end}") } else { (*end).to_owned() };
        // As CTEs, side by side and nested.
        let name = |n: usize| if n == 0 { "v0".to_owned() } else { format!("c{n}") };
        let cte = |n: usize| format!("c{n} AS ({})", query(step, &name(n - 1)));
        let steps: Vec<_> = (1..=STEPS).map(cte).collect();
        let sql = format!("WITH {} SELECT a FROM C{STEPS}{end}", steps.join(", "));
        fails(&session, &sql, &["too large to be planned"]).await;
        let within = (2..=STEPS)
            .fold(query(step, "v0"), |below, n| format!("WITH c{} AS ({below}) {}", n - 1, query(step, &name(n - 1))));
        fails(&session, &format!("WITH e AS ({within}) SELECT a FROM e{end}"), &["WITH clauses within each other"])
            .await;
        // As views: the first that is too large is refused when it is created or read.
        let mut last = "v0".to_owned();
        for n in 1..=STEPS {
            let name = format!("w{way}_{n}");
            if session.run(&format!("CREATE VIEW {name} AS {}", query(step, &last))).await.is_err() {
                break;
            }
            last = name;
        }
        let sql = format!("SELECT a FROM ({}) AS e{end}", query(step, &last));
        fails(&session, &sql, &["too large to be planned"]).await;
    }
    let few = "WITH a AS (SELECT 1 AS n), b AS (SELECT n + n AS n FROM a), c AS (SELECT n + n AS n FROM b UNION ALL SELECT n FROM b)
               SELECT n FROM c WHERE n > 2";
    assert_eq!(session.run(few).await.unwrap().rows(), 1);
}

#[tokio::test]
async fn prepared_statements_are_bounded_by_their_bytes() {
    let session = session().await;
    for number in 0..2000 {
        session.run(&format!("PREPARE few{number} AS SELECT {number} + $1")).await.unwrap();
    }
    session.run("DEALLOCATE ALL").await.unwrap();
    let text = "x".repeat(3 << 20);
    let mut kept = 0;
    while session.run(&format!("PREPARE large{kept} AS SELECT '{text}' || $1")).await.is_ok() {
        kept += 1;
    }
    assert_eq!(kept, 2);
    fails(&session, &format!("PREPARE more AS SELECT '{text}' || $1"), &["prepared statements", "bytes"]).await;
    session.run("DEALLOCATE large0").await.unwrap();
    session.run(&format!("PREPARE more AS SELECT '{text}' || $1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_have_no_room() {
    let session = session().await;
    session.run("CREATE VIEW numbers AS SELECT value AS k FROM generate_series(1, 9000)").await.unwrap();
    for (query, why) in [
        ("SELECT lpad('x', k * 100000) FROM numbers", "lpad: a text of more than"),
        ("SELECT rpad('x', k * 1000, 'ab') FROM numbers", "rpad"),
        ("SELECT repeat('x', k * 100000) FROM numbers", "repeat: a text of more than"),
        ("SELECT repeat(CAST(k AS TEXT), 1000000) FROM numbers", "repeat"),
        ("SELECT replace(repeat('x', k), 'x', repeat('y', 1000)) FROM numbers", "replace: more than"),
        (
            "SELECT regexp_replace(repeat('x', k), 'x', repeat('y', 1000), 'g') FROM numbers",
            "regexp_replace: more than",
        ),
        (
            "SELECT concat(a, a, a, a, a, a) FROM (SELECT repeat('x', k * 10) AS a FROM numbers) AS q",
            "concat: more than",
        ),
        ("SELECT a || a || a || a || a FROM (SELECT repeat('x', k * 20) AS a FROM numbers) AS q", "texts of"),
        ("SELECT array_repeat(k, k * 1000000) FROM numbers", "array_repeat: a result that may have"),
        ("SELECT array_resize(make_array(k), k * 1000000) FROM numbers", "array_resize: a result that may have"),
        (
            "SELECT array_to_string(array_repeat(k, 10000), repeat('x', k)) FROM numbers WHERE k > 8990",
            "array_to_string",
        ),
        ("SELECT range(k, k * 1000000000) FROM numbers", "range: a result that may have"),
        (
            "SELECT generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '2024-01-01', INTERVAL '1 microsecond')",
            "a result",
        ),
        ("SELECT repeat('x', 300000), k FROM numbers", "texts of"),
        ("SELECT count(*) FROM numbers WHERE repeat('x', 300000) || k > 'a'", "texts of"),
        ("SELECT array_agg(repeat('x', 1000000)) FROM numbers", "texts of"),
        ("SELECT count(n.*) FROM numbers AS n", "name a column in the place of n.*"),
        ("SELECT count(DISTINCT repeat('x', 300000)) FROM numbers", "texts of"),
        ("SELECT k, min(repeat('x', 300000)) OVER (ORDER BY k) FROM numbers", "texts of"),
    ] {
        let error = session.run(query).await.unwrap_err();
        assert!(error.to_string().contains(why), "{query}: {error}");
    }
    // Records within one batch have room, and no other limit.
    for length in [
        "length(repeat('x', k))",
        "length(lpad('x', k))",
        "length(regexp_replace(repeat('x', k), 'x', 'yyy', 'g'))",
        "cardinality(array_repeat(k, 1000))",
        "length(repeat('x', 60000) || k)",
    ] {
        let query = format!("SELECT count(DISTINCT k) FROM (SELECT k, {length} AS l FROM numbers) AS q WHERE l > 0");
        assert_eq!(count(&session, &query).await, "9000", "{length}");
    }
    // A value is compared with a constant of any length.
    session.run("CREATE VIEW texts AS SELECT k::text AS t FROM numbers").await.unwrap();
    let long = "x".repeat(300_000);
    for (predicate, rows) in [
        (format!("t = '{long}'"), "0"),
        (format!("'{long}' > t"), "9000"),
        (format!("t IN ('{long}', '17')"), "1"),
        (format!("t LIKE '{long}%' OR t NOT LIKE '{long}'"), "9000"),
    ] {
        let query = format!("SELECT count(*) FROM texts WHERE {predicate}");
        assert_eq!(count(&session, &query).await, rows, "{}", &predicate[..20]);
    }
    fails(&session, &format!("SELECT count(*) FROM texts WHERE t || '{long}' = '17'"), &["texts of"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_the_file_as_it_was() {
    let session = session().await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["x.parquet", "x.csv", "y.json"] {
        let target = folder.path().join(name);
        let copy = |divisor: &str| {
            let query = format!("SELECT 10 / ({divisor} - v) AS x, v FROM generate_series(1, 300000) AS g(v)");
            format!("COPY ({query}) TO '{}'", target.display())
        };
        let error = session.run(&copy("290000")).await.unwrap_err().to_string();
        assert!(error.contains("division by zero"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
        session.run(&copy("0")).await.unwrap();
        let before = fs::read(&target).unwrap();
        session.run(&copy("290000")).await.unwrap_err();
        assert_eq!(fs::read(&target).unwrap(), before, "{name}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
        fs::remove_file(&target).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_of_columns_are_refused() {
    let session = session().await;
    for item in ["y + 1", "y", "abs(y)"] {
        let list = |count: usize| vec![item; count].join(", ");
        let query = |list: &str| format!("SELECT y NOT IN ({list}) FROM generate_series(1, 3) AS x(y)");
        fails(&session, &query(&list(20_000)), &["IN", "2000"]).await;
        session.run(&query(&list(500))).await.unwrap();
    }
}

#[tokio::test]
async fn a_catalog_is_kept_and_restored() {
    let folder = good_table();
    let database = folder.path().join("db");
    let options = OpenOptions { directory: Some(database.clone()), ..OpenOptions::default() };
    let session = Database::open(options.clone(), |_| {}).await.unwrap().session();
    session.run(&create(folder.path(), "PARQUET", "")).await.unwrap();
    session.run("CREATE VIEW v AS SELECT a FROM t WHERE a < 10").await.unwrap();
    drop(session);

    let session = Database::open(options.clone(), |_| {}).await.unwrap().session();
    assert_eq!(count(&session, "SELECT count(*) FROM v").await, "10");
    session.run("DROP VIEW v").await.unwrap();
    session.run("DROP TABLE t").await.unwrap();
    drop(session);
    let session = Database::open(options, |_| {}).await.unwrap().session();
    fails(&session, "SELECT * FROM t", &["t"]).await;
    drop(session);

    let options = OpenOptions { directory: Some(database.clone()), ..OpenOptions::default() };
    fs::write(database.join("catalog.sql"), "what is this").unwrap();
    assert!(Database::open(options.clone(), |_| {}).await.unwrap_err().to_string().contains("catalog.sql"));

    // Definitions that are none of this version keep nothing else from being used, and stay as they are.
    let location = folder.path().display();
    let texts = [
        "CREATE EXTERNAL TABLE broken".to_owned(),
        format!("CREATE EXTERNAL TABLE a_type (id FOO) STORED AS CSV LOCATION '{location}'"),
        format!("CREATE EXTERNAL TABLE a_format STORED AS ORC LOCATION '{location}'"),
        format!("CREATE EXTERNAL TABLE an_option STORED AS CSV LOCATION '{location}' OPTIONS ('nosuch' '1')"),
        "CREATE OR REPLACE VIEW \"Bad\" AS SELECT 1 GROUP BY 1 WITH ROLLUP".to_owned(),
        "CREATE RECURSIVE VIEW again (n) AS SELECT 1".to_owned(),
        "CREATE VIEW top AS SELECT a FROM good".to_owned(),
        "CREATE VIEW good AS SELECT 7 AS a".to_owned(),
    ];
    fs::write(database.join("catalog.sql"), texts.join(";\n\n")).unwrap();
    for change in ["CREATE VIEW other AS SELECT 3 AS a", "CREATE OR REPLACE VIEW other AS SELECT 4 AS a"] {
        let session = Database::open(options.clone(), |_| {}).await.unwrap().session();
        assert_eq!(count(&session, "SELECT a FROM good").await, "7");
        assert_eq!(count(&session, "SELECT a FROM top").await, "7");
        for name in ["broken", "a_type", "a_format", "an_option", "Bad", "again"] {
            fails(&session, &format!("SELECT * FROM \"{name}\""), &[name]).await;
            fails(&session, &format!("CREATE VIEW \"{name}\" AS SELECT 2"), &[name]).await;
        }
        session.run(change).await.unwrap();
        session.run("CREATE OR REPLACE VIEW good AS SELECT 7 AS a").await.unwrap();
        let kept = fs::read_to_string(database.join("catalog.sql")).unwrap();
        let kept: Vec<&str> = kept.split(';').map(str::trim).collect();
        let lost = texts.iter().filter(|text| !kept.iter().any(|kept| kept.ends_with(text.as_str())));
        let lost: Vec<_> = lost.filter(|text| !text.starts_with("CREATE VIEW good")).collect();
        assert!(lost.is_empty(), "{lost:?} of {kept:?}");
    }
    let session = Database::open(options.clone(), |_| {}).await.unwrap().session();
    session.run("DROP VIEW \"Bad\"").await.unwrap();
    session.run("DROP TABLE broken").await.unwrap();
    let kept = fs::read_to_string(database.join("catalog.sql")).unwrap();
    assert!(!kept.contains("Bad") && !kept.contains("broken") && kept.contains("a_type"), "{kept}");
}

#[tokio::test]
async fn a_definition_ends_with_its_timeout_also_if_a_node_does_not_answer() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let session = session().await;
    session.set("statement_timeout", "300ms").unwrap();
    let location = format!("thermocline://{}/t", silent.local_addr().unwrap());
    let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'");
    let started = std::time::Instant::now();
    fails(&session, &create, &["statement_timeout has passed"]).await;
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    fails(&session, "SELECT count(*) FROM t", &["table \"t\" does not exist"]).await;
}
