//! Table functions that read files, compared with DuckDB's of the same names.

use std::fs;
use std::path::Path;

use thermocline_database::Session;
use thermocline_pushdown::Mode;

use crate::files::{failed, session};
use crate::support::oracle::Oracle;
use crate::support::program::{output_at, text};
use crate::support::rows::{assert_same, canonical};

/// Names of a query's columns.
async fn names(session: &Session, sql: &str) -> Vec<String> {
    let result = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    result.schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// Queries of the same files have DuckDB's rows and names of columns in every mode, first and again.
async fn assert_as_duckdb(duckdb: &mut Oracle, session: &Session, queries: &[String]) {
    let expected: Vec<_> = queries.iter().map(|sql| duckdb.query(sql)).collect();
    for sql in queries {
        let columns = duckdb.query(&format!("SELECT column_name FROM (DESCRIBE {sql})"));
        let columns: Vec<String> = columns.into_iter().flatten().flatten().collect();
        assert_eq!(names(session, sql).await, columns, "{sql}");
    }
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
}

fn in_folder(folder: &Path, queries: &[&str]) -> Vec<String> {
    queries.iter().map(|sql| sql.replace("DIR", &folder.display().to_string())).collect()
}

/// Files whose names say little, or something else than they hold.
fn write(duckdb: &mut Oracle, folder: &Path) {
    let at = folder.display();
    for sub in ["p", "parts", "text"] {
        fs::create_dir_all(folder.join(sub)).unwrap();
    }
    let rows = |first: u32| {
        format!(
            "SELECT i AS id, i % 7 AS k, 'note ' || i AS note, CAST(i AS DECIMAL(10, 2)) / 4 AS price, \
             DATE '2024-01-01' + CAST(i % 300 AS INTEGER) AS day FROM range({first}, {first} + 2000) t(i)"
        )
    };
    for (path, first, options) in [
        ("p/a.parquet", 0, "FORMAT parquet, ROW_GROUP_SIZE 2048"),
        ("p/b.parquet", 2000, "FORMAT parquet, COMPRESSION zstd"),
        ("parts/part-0", 4000, "FORMAT parquet"),
        ("parts/part-1", 6000, "FORMAT parquet"),
        ("text/a.dat", 0, "FORMAT csv, DELIMITER ';'"),
        ("text/b.dat", 2000, "FORMAT csv, DELIMITER ';'"),
        ("text/bare.log", 0, "FORMAT csv, HEADER false"),
        ("text/c.csv", 0, "FORMAT csv"),
        ("text/d.csv.gz", 2000, "FORMAT csv, COMPRESSION gzip"),
        ("text/t.tsv", 0, "FORMAT csv, DELIMITER '\t'"),
        ("text/a b.x'y", 0, "FORMAT csv"),
    ] {
        let path = path.replace('\'', "''");
        duckdb.query(&format!("COPY ({}) TO '{at}/{path}' ({options})", rows(first)));
    }
    for (name, content) in [
        ("null.csv", "a,b,c\n1,NA,x\nNA,2,\n3,4,NA\n"),
        ("quotes.csv", "a,b\n1,'x,y'\n2,'it''s'\n3,\"z\"\n"),
        ("escapes.csv", "a,b\n1,\"x \\\"y\\\"\"\n2,\"z\"\n"),
        ("types.csv", "a,b,c\n1,2.50,2024-01-02\n10,3,2024-02-03\n"),
    ] {
        fs::write(folder.join("text").join(name), content).unwrap();
    }
}

const QUERIES: &[&str] = &[
    "SELECT * FROM read_parquet('DIR/p/a.parquet') WHERE k = 3",
    "SELECT count(*) AS n, sum(id) AS s, max(note) AS m FROM read_parquet('DIR/p/*.parquet') WHERE id % 3 = 1",
    "SELECT count(*) AS n, sum(id) AS s FROM read_parquet(['DIR/p/b.parquet', 'DIR/p/a.parquet'])",
    "SELECT count(*) AS n, sum(id) AS s FROM read_parquet(['DIR/p/a.parquet', 'DIR/p/a.parquet']) WHERE k = 2",
    "SELECT count(*) AS n, sum(id) AS s FROM read_parquet(['DIR/p/*.parquet', 'DIR/parts/part-0']) WHERE k < 3",
    "SELECT k, count(*) AS n, sum(price) AS s FROM read_parquet('DIR/parts/*') GROUP BY k",
    "SELECT k, count(*) AS n, sum(price) AS s FROM read_csv('DIR/text/a.dat', delim => ';', header => true) GROUP BY k",
    "SELECT count(*) AS n, max(day) AS d FROM read_csv('DIR/text/*.dat', sep = ';', header := true) WHERE k = 5",
    "SELECT id, note FROM read_csv_auto('DIR/text/c.csv', header = true) WHERE price > 499 ORDER BY id",
    "SELECT count(*) AS n, sum(id) AS s FROM read_csv(['DIR/text/c.csv', 'DIR/text/d.csv.gz'], header = true)",
    "SELECT * FROM read_csv('DIR/text/bare.log', header => false) WHERE column1 = 6",
    "SELECT max(note) AS m FROM read_csv('DIR/text/t.tsv', header = true, delim = '\t') WHERE id < 100",
    "SELECT read_csv.id AS i, read_parquet.note AS n FROM read_csv('DIR/text/c.csv', header = true) JOIN \
     read_parquet('DIR/p/a.parquet') ON read_csv.id = read_parquet.id WHERE read_parquet.k = 4 AND read_csv.k < 5",
    "SELECT x.i AS i, y.id AS j FROM read_csv('DIR/text/bare.log', header = false) AS x(i, k, n, p, d) JOIN \
     read_csv('DIR/text/c.csv', header = true) y ON x.i = y.id + 1990",
    "SELECT count(*) AS n FROM read_csv('DIR/text/a b.x''y', header = true) WHERE note LIKE '%7'",
    "SELECT * FROM read_csv('DIR/text/null.csv', header = true, nullstr = 'NA')",
    "SELECT * FROM read_csv('DIR/text/null.csv', header = true, nullstr = 'NA', all_varchar = true)",
    "SELECT * FROM read_csv('DIR/text/null.csv', header = true) WHERE b = 'NA'",
    "SELECT * FROM read_csv('DIR/text/quotes.csv', header = true, quote = '''', delim = ',')",
    "SELECT * FROM read_csv('DIR/text/escapes.csv', header = true, escape = '\\', quote = '\"', delim = ',')",
    "SELECT * FROM read_csv('DIR/text/types.csv', header = true, columns = {'x': 'INTEGER', 'y': 'DECIMAL(8, 3)', 'z': 'VARCHAR'})",
    "SELECT a + 1 AS s, b FROM read_csv('DIR/text/types.csv', header = true, \
     columns = {'b': 'VARCHAR', 'a': 'DOUBLE', 'c': 'TIMESTAMP'}) ORDER BY b",
    "SELECT b || c AS s FROM read_csv('DIR/text/types.csv', header = true, all_varchar = true)",
    "WITH w AS (SELECT * FROM read_csv('DIR/text/types.csv', header = true)) SELECT sum(a) AS s FROM w",
    "SELECT id FROM read_parquet('DIR/p/a.parquet') o WHERE EXISTS \
     (SELECT 1 FROM read_csv('DIR/text/c.csv', header = true) c WHERE c.id = o.id AND c.id < 9)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_read_files_as_duckdbs_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start();
    write(&mut duckdb, folder.path());
    assert_as_duckdb(&mut duckdb, &session().await, &in_folder(folder.path(), QUERIES)).await;
}

/// One file read in several ways, in one statement and one after the other: no reading has the columns, the types or the
/// cached values of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readings_of_one_file_with_other_options_share_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), "a,b;c\n1,2;3\n4,NA;5\n").unwrap();
    fs::write(folder.path().join("b.csv"), "1,'2'\n10,'20'\nNA,'x'\n").unwrap();
    let readings = [
        "read_csv('DIR/a.csv', header = true, delim = ',')",
        "read_csv('DIR/a.csv', header = true, delim = ';')",
        "read_csv('DIR/a.csv', header = false, delim = ',')",
        "read_csv('DIR/a.csv', header = false, delim = ';')",
        "read_csv('DIR/a.csv', header = true, delim = ',', nullstr = 'NA;5')",
        "read_csv('DIR/a.csv', header = true, delim = ',', all_varchar = true)",
        "read_csv('DIR/a.csv', header = true, delim = ',', columns = {'a': 'DOUBLE', 'b': 'VARCHAR'})",
        "read_csv('DIR/a.csv', header = true, delim = ',', columns = {'b': 'INTEGER', 'a': 'VARCHAR'})",
        "read_csv('DIR/b.csv', header = false, delim = ',', quote = '\"')",
        "read_csv('DIR/b.csv', header = true, delim = ',', quote = '\"')",
        "read_csv('DIR/b.csv', header = false, delim = ',', quote = '''')",
        "read_csv('DIR/b.csv', header = false, delim = ',', quote = '''', nullstr = 'NA')",
        "read_csv('DIR/b.csv', header = false, delim = ',', quote = '', nullstr = 'NA')",
        "read_csv('DIR/b.csv', header = false, delim = ',', quote = '''', nullstr = '1', all_varchar = true)",
    ];
    let mut duckdb = Oracle::start();
    let session = session().await;
    let all = readings.map(|reading| format!("SELECT * FROM {reading}"));
    let mut queries: Vec<&str> = all.iter().map(String::as_str).collect();
    // Backwards as well, so that each is read with the segments of all others in the cache.
    queries.extend(all.iter().rev().map(String::as_str));
    assert_as_duckdb(&mut duckdb, &session, &in_folder(folder.path(), &queries)).await;
    for (number, left) in readings.iter().enumerate() {
        let pairs: Vec<_> =
            readings[number..].iter().map(|right| format!("SELECT * FROM {left} l, {right} r")).collect();
        for pair in pairs {
            let pair = pair.replace("DIR", &folder.path().display().to_string());
            let result = session.run(&pair).await.unwrap_or_else(|error| panic!("{pair}: {error}"));
            assert_same(canonical(&result), duckdb.query(&pair), false, &pair);
        }
    }
    // The file's own name is one more reading.
    let pair = in_folder(folder.path(), &[&format!("SELECT count(*) AS n FROM 'DIR/a.csv' l, {} r", readings[2])]);
    assert_eq!(canonical(&session.run(&pair[0]).await.unwrap())[0][0].as_deref(), Some("6"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readings_are_pushed_down_and_cached_as_named_files_are() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    let session = session().await;
    session.set("mode", "hybrid").unwrap();
    for (from, name) in [
        (format!("read_parquet('{directory}/p/a.parquet')"), format!("'{directory}/p/a.parquet'")),
        (format!("read_csv('{directory}/text/c.csv', header => true)"), format!("'{directory}/text/c.csv'")),
    ] {
        let plan = async |from: &str| {
            let sql = format!("EXPLAIN SELECT k, sum(price) FROM {from} AS t WHERE id < 1000 GROUP BY k ORDER BY k");
            let plan = canonical(&session.run(&sql).await.unwrap()).into_iter().flatten().flatten();
            plan.collect::<Vec<String>>().join("\n")
        };
        let (of_function, of_name) = (plan(&from).await, plan(&name).await);
        assert!(of_function.contains("HybridScanExec") && of_function.contains("AggregateExec"), "{of_function}");
        assert_eq!(of_function.replace(&from, "t"), of_name.replace(name.trim_matches('\''), "t"));
    }
    session.set("mode", "caching").unwrap();
    session.engine().cache().clear();
    let sum = format!("SELECT sum(id) FROM read_csv('{directory}/text/*.dat', delim = ';')");
    let cold = session.run(&sum).await.unwrap().stats;
    assert!(cold.segments_hit == 0 && cold.segments_admitted > 0, "{cold:?}");
    for again in [sum.clone(), sum.replace("delim = ", "sep := "), sum.replace("*.dat", "?.dat")] {
        let warm = session.run(&again).await.unwrap().stats;
        assert!(warm.segments_missed == 0 && warm.segments_hit > 0, "{again}: {warm:?}");
        assert_eq!(warm.bytes_from_storage, 0, "{again}");
    }
    // Another way to read the same columns is none of these segments.
    let other = session.run(&sum.replace("delim = ';'", "delim = ';', nullstr = 'x'")).await.unwrap().stats;
    assert!(other.segments_hit == 0 && other.segments_missed > 0, "{other:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_function_cannot_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    let session = session().await;
    for (call, state, said) in [
        ("read_csv('DIR/nope.csv')", "58P01", "there is no file or directory 'DIR/nope.csv'"),
        ("read_csv('DIR/nope/*')", "58P01", "no file matches 'DIR/nope/*'"),
        ("read_parquet(['DIR/p/*', 'DIR/nope/*'])", "58P01", "no file matches 'DIR/nope/*'"),
        ("read_csv('DIR/parts')", "58P01", "nothing can be read of 'DIR/parts'"),
        ("read_parquet('DIR/text/c.csv')", "42P16", "c.csv is text by its name: use read_csv"),
        ("read_parquet('DIR/text/d*')", "42P16", "d.csv.gz is text by its name: use read_csv"),
        ("read_csv('DIR/p/a.parquet')", "42P16", "a.parquet is a Parquet file by its name: use read_parquet"),
        ("read_parquet('DIR/text/a.dat')", "", "a.dat"),
        ("read_csv(['DIR/text/c.csv', 'DIR/text/t.tsv'])", "42P16", "t.tsv' has another delimiter"),
        ("read_csv('DIR/text/c.csv', delimm => ',')", "42704", "did you mean delim?"),
        ("read_csv('DIR/text/c.csv', header => 3)", "22023", "read_csv: option header is 3, expected true or false"),
        ("read_parquet('DIR/p/a.parquet', header = true)", "42704", "read_parquet has no option header"),
        ("read_csv('DIR/text/c.csv', header = true, header = true)", "22023", "option header is given twice"),
        ("read_csv('DIR/text/c.csv', columns = {'a': 'NOPE'})", "", "NOPE"),
        ("read_csv('DIR/text/c.csv', columns = {'a': 'INT INT'})", "22023", "the type of column 'a' is 'INT INT'"),
        ("read_csv('DIR/text/c.csv', columns = {'a': 'INT) x ('})", "22023", "the type of column 'a' is 'INT) x ('"),
        ("read_csv('DIR/text/c.csv', columns = {'a': 'INT'})", "", "found 5 fields, expected 1"),
        ("read_csv('DIR/text/c.csv', delim = '.', nullstr = 'a.b')", "22023", "null_text must not contain"),
        ("read_csv($1)", "22023", "read_csv: the path is $1"),
    ] {
        let (found, error) = failed(&session, &format!("SELECT * FROM {}", call.replace("DIR", &directory))).await;
        assert!(state.is_empty() || found == state, "{call}: {found} {error}");
        let said = said.replace("DIR", &directory);
        assert!(error.contains(&said) && !error.contains("internal error"), "{call}: {said}\n{error}");
    }
}

/// A session that may not name a place reads nothing there by a function either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_read_where_locations_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let session = session().await;
    let at = |path: &str| folder.path().join(path).display().to_string();
    session.set("allowed_locations", &at("text")).unwrap();
    let allowed = format!("SELECT count(*) FROM read_csv(['{}', '{}'])", at("text/c.csv"), at("text/d.csv.gz"));
    assert_eq!(canonical(&session.run(&allowed).await.unwrap())[0][0].as_deref(), Some("4000"));
    for call in [
        format!("read_parquet('{}')", at("p/a.parquet")),
        format!("read_csv(['{}', '{}'])", at("text/c.csv"), at("p/*")),
        format!("read_csv('{}')", at("text/../p/*")),
        "read_csv('/etc/passwd', delim = ':', header = false)".into(),
        "read_parquet('s3://bucket/x.parquet')".into(),
    ] {
        for sql in [format!("SELECT * FROM {call}"), format!("CREATE VIEW v AS SELECT * FROM {call}")] {
            let (state, error) = failed(&session, &sql).await;
            assert_eq!(state, "42501", "{sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_all_kinds_call_functions_that_read() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Oracle::start(), folder.path());
    let directory = folder.path().display().to_string();
    let session = session().await;
    let run = async |sql: &str| {
        let sql = sql.replace("DIR", &directory);
        canonical(&session.run(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")))
    };
    run(
        "CREATE TABLE t (PRIMARY KEY (id)) AS SELECT id, note FROM read_csv('DIR/text/a.dat', delim = ';') WHERE k = 1",
    )
    .await;
    run("INSERT INTO t SELECT id, note FROM read_parquet('DIR/p/a.parquet') WHERE k = 2").await;
    assert_eq!(run("SELECT count(*) FROM t").await[0][0].as_deref(), Some("572"));
    run("PREPARE p AS SELECT count(*) FROM read_csv('DIR/text/c.csv') WHERE id < $1").await;
    assert_eq!(run("EXECUTE p(35)").await[0][0].as_deref(), Some("35"));
    run("COPY (SELECT id FROM read_csv('DIR/text/c.csv') WHERE k = 0) TO 'DIR/out.parquet' STORED AS PARQUET").await;
    assert_eq!(run("SELECT count(*) FROM read_parquet('DIR/out.parquet')").await[0][0].as_deref(), Some("286"));
    let explained = run("EXPLAIN ANALYZE SELECT sum(id) FROM read_csv('DIR/text/*.dat', delim = ';')").await;
    assert!(format!("{explained:?}").contains("HybridScanExec"), "{explained:?}");
    let joined = "SELECT count(*) FROM t JOIN read_csv('DIR/text/c.csv') c ON t.id = c.id";
    assert_eq!(run(joined).await[0][0].as_deref(), Some("572"));
}

/// A view reads the same files in the same way wherever the program is started.
#[test]
fn views_keep_paths_absolute_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    for directory in [&here, &there] {
        fs::create_dir_all(directory.join("data")).unwrap();
    }
    fs::write(here.join("data/a.x"), "1;'a;b';NA\n2;'it''s';3\n").unwrap();
    fs::write(here.join("data/b.x"), "3;c;4\n").unwrap();
    let database = folder.path().join("db");
    let rows = |at: &Path, script: &str| {
        let done = output_at(&database, at, script);
        assert!(done.status.success(), "{script}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    rows(
        &here,
        "CREATE VIEW v AS SELECT * FROM read_csv('data/*.x', sep = ';', quote = '''', nullstr = 'NA', header = false, \
         columns = {'Id': 'INT', 'it''s': 'TEXT', 'n': 'BIGINT'}); \
         CREATE VIEW w AS SELECT read_csv.column0 AS c FROM read_csv(['data/a.x', 'data/b.x'], delim := ';', quote := '''', \
         header := false)",
    );
    let expected = "Id,it's,n\n1,a;b,\n2,it's,3\n3,c,4\nc\n1\n2\n3\n";
    assert_eq!(rows(&there, "SELECT * FROM v ORDER BY \"Id\"; SELECT c FROM w ORDER BY c"), expected);
    // Two quotes in a row would be read as one from the catalog.
    let done = output_at(&database, &here, "CREATE VIEW q AS SELECT * FROM read_csv('data/a.x', nullstr = 'a''''b')");
    assert!(!done.status.success() && text(&done.stderr).contains("quotes"), "{}", text(&done.stderr));
}

/// Texts of which nothing is said, that are read as DuckDB's `read_csv` reads them.
const TEXTS: &[(&str, &str)] = &[
    ("comma.csv", "a,b\n1,x\n2,y\n"),
    ("semicolon.csv", "a;b\n1;x\n2;y\n"),
    ("bar.csv", "a|b\n1|x\n2|y\n"),
    ("tab.csv", "a\tb\n1\tx\n2\ty\n"),
    ("tab.tsv", "a\tb\n1\tx,z\n2\ty,z\n"),
    ("comma.tsv", "a,b\n1,x\n"),
    ("bar.psv", "a|b\n1|x\n2|y\n"),
    ("one.csv", "a\n1\n2\n"),
    ("words.txt", "a b\nc d\ne f\n"),
    ("comma.txt", "a,b\n1,2.5\n"),
    ("decimals.txt", "a;b;c\n1,5;2,5;x\n2;3;y\n"),
    ("quoted.csv", "name;value\n\"x;y\";1\n\"z\n2\";2\n"),
    ("quoted2.csv", "\"a\",\"b\"\n\"1\",\"2\"\n"),
    ("lineitem.tbl", "1|x|2.5|\n2|y|3.5|\n"),
    ("bare.csv", "1,2\n3,4\n"),
    ("bare.txt", "x;1\ny;2\n"),
    ("bare1.csv", "1\n2\n"),
    ("bare_text.csv", "x,1\ny,2\n"),
    ("one_row.csv", "1,2.5\n"),
    ("header_alone.csv", "x,y\n"),
    ("all_text.csv", "x,y\nc,d\n"),
    ("all_text_and_nulls.csv", "x,y\nc,\n,d\n"),
    ("years.csv", "id,2020,2021\n1,2,3\n"),
    ("bare_years.csv", "2020,2021\n1,2\n"),
    ("number_and_header.csv", "1,a\n2,3\n"),
    ("days.csv", "2020-01-01,x\n2020-01-02,y\n"),
    ("truths.csv", "true,x\nfalse,y\n"),
    ("words_of_truth.csv", "Y,x\nN,y\n"),
    ("floats.csv", "1,x\n2.5,y\n"),
    ("floats_header.csv", "1.5,x\n2,y\n3,z\n"),
    ("zeros.csv", "zip,n\n01234,1\n98765,2\n"),
    ("bare_zeros.csv", "007,a\n008,b\n"),
    ("zeros.txt", "a;b\n0;00\n1;3\n"),
    ("negative_zeros.csv", "a,b\n-07,0.5\n-1,0\n"),
    ("fractions.csv", "a,b\n00.5,1\n0.5,2\n"),
    ("lines.csv", "\n\na,b\n\n1,2\n\n3,4\n"),
    ("returns.csv", "a;b\r\n1;2\r\n"),
    ("mark.csv", "\u{feff}a;b\n1;2\n"),
    ("unended.csv", "a|b\n1|2"),
    ("eleven.csv", "1,2,3,4,5,6,7,8,9,10,11\n"),
    ("null_column.csv", "a,b\n,1\n,2\n"),
    ("null_row.csv", "x,\ny,\nz,\n"),
    ("first_null.csv", ",x\n8,y\n"),
    ("more_bars.csv", "a,b|c|d\n1,2|3|4\n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delimiters_headers_and_zeros_are_recognised_as_duckdb_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start();
    let session = session().await;
    let mut queries = vec![];
    for (name, content) in TEXTS {
        fs::write(folder.path().join(name), content).unwrap();
        queries.push(format!("SELECT * FROM read_csv('DIR/{name}')"));
        if name.ends_with(".csv") {
            queries.push(format!("SELECT * FROM 'DIR/{name}'"));
        }
    }
    for (name, options) in [
        ("bare.csv", "header = true"),
        ("comma.csv", "header = false"),
        ("comma.csv", "delim = ';'"),
        ("years.csv", "all_varchar = true"),
        ("bare.csv", "all_varchar = true"),
        ("bare.csv", "columns = {'x': 'INTEGER', 'y': 'DOUBLE'}"),
        ("bare.csv", "columns = {'x': 'VARCHAR', 'y': 'VARCHAR'}"),
        ("bare.csv", "columns = {'1': 'INTEGER', '2': 'INTEGER'}"),
        ("comma.csv", "columns = {'x': 'INTEGER', 'y': 'VARCHAR'}"),
        ("semicolon.csv", "columns = {'b': 'BIGINT', 'a': 'VARCHAR'}"),
        ("all_text.csv", "nullstr = 'c'"),
    ] {
        queries.push(format!("SELECT * FROM read_csv('DIR/{name}', {options})"));
    }
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    assert_as_duckdb(&mut duckdb, &session, &in_folder(folder.path(), &queries)).await;
    // Endings that DuckDB does not know in the place of a table mean what its function reads.
    for (name, _) in TEXTS {
        let sql = in_folder(folder.path(), &[&format!("SELECT * FROM read_csv('DIR/{name}')")]).remove(0);
        let named = in_folder(folder.path(), &[&format!("SELECT * FROM 'DIR/{name}'")]).remove(0);
        assert_same(canonical(&session.run(&named).await.unwrap()), duckdb.query(&sql), false, &named);
    }
    // Types that stay text here are told from headers all the same.
    for (name, content) in [
        ("days_first.csv", "01/02/2020,x\n03/04/2021,y\n"),
        ("days_first_header.csv", "d,x\n03/04/2021,y\n"),
        ("times.csv", "10:20:30,x\n11:20:30,y\n"),
        ("letters.csv", "t,x\nf,y\n"),
        ("large.csv", "99999999999999999999,x\n"),
        ("no_days.csv", "99/99/2020,x\n99/98/2021,y\n"),
        ("days_and_times.csv", "01/02/2020 10:00:00,x\n03/04/2021 11:00:00,y\n"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
        let sql = in_folder(folder.path(), &[&format!("SELECT count(*) AS n FROM read_csv('DIR/{name}')")]).remove(0);
        assert_same(canonical(&session.run(&sql).await.unwrap()), duckdb.query(&sql), false, &sql);
    }
}

/// What was recognised of a file is forgotten when the file changes, and a file that is otherwise than the first is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recognised_follows_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let session = session().await;
    let rows = async |from: &str| {
        let sql = format!("SELECT * FROM {}", from.replace("DIR", &folder.path().display().to_string()));
        let result = session.run(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        (result.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>(), canonical(&result))
    };
    let row = |values: &[&str]| values.iter().map(|value| Some((*value).to_owned())).collect::<Vec<_>>();
    for from in ["'DIR/a.csv'", "read_csv('DIR/a.csv')", "read_csv('DIR/*.csv', quote = '''')"] {
        for (content, names, values) in [
            ("x,y\n1,2\n", ["x", "y"], [row(&["1", "2"])]),
            ("x;y\n1;2\n", ["x", "y"], [row(&["1", "2"])]),
            ("3;4\n", ["column0", "column1"], [row(&["3", "4"])]),
            ("x|y\n05|6\n", ["x", "y"], [row(&["05", "6"])]),
        ] {
            fs::write(at("a.csv"), content).unwrap();
            assert_eq!(rows(from).await, (names.map(str::to_owned).to_vec(), values.to_vec()), "{from} {content:?}");
        }
    }
    // A text beside tables is none, but alone it is.
    fs::write(at("a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(at("notes.txt"), "x,y\n7,8\n").unwrap();
    assert_eq!(rows("'DIR'").await.1, [row(&["1", "2"])]);
    fs::remove_file(at("a.csv")).unwrap();
    assert_eq!(rows("'DIR'").await.1, [row(&["7", "8"])]);
    // One file with commas, and one with semicolons.
    fs::write(at("a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(at("b.csv"), "x;y\n3;4\n").unwrap();
    for from in ["'DIR/*.csv'", "read_csv(['DIR/a.csv', 'DIR/b.csv'])"] {
        let sql = format!("SELECT * FROM {}", from.replace("DIR", &folder.path().display().to_string()));
        let (state, error) = failed(&session, &sql).await;
        assert!(state == "42P16" && error.contains("b.csv: its delimiter seems to be ';'"), "{state} {error}");
    }
    // One with a header, and one without, in either order.
    for (content, said) in
        [("3,4\n5,6\n", "b.csv: it seems to have no header"), ("x,y\n3,4\n", "it seems to have a header")]
    {
        fs::write(at("b.csv"), content).unwrap();
        if content.starts_with('x') {
            fs::write(at("a.csv"), "1,2\n7,8\n").unwrap();
        }
        let folder = folder.path().display();
        let (state, error) = failed(&session, &format!("SELECT * FROM '{folder}/*.csv'")).await;
        assert!(state == "42P16" && error.contains(said), "{state} {error}");
        rows("read_csv('DIR/*.csv', header = false)").await;
    }
    fs::write(at("a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(at("b.csv"), "x;y\n3;4\n").unwrap();
    let sql = format!("SELECT * FROM read_csv('{}/*.csv', delim = ',', header = false)", folder.path().display());
    let (_, error) = failed(&session, &sql).await;
    assert!(error.contains("a.csv has 2") && error.contains("b.csv has 1"), "{error}");
}
