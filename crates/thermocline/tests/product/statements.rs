//! Statements that use the standard streams: notices about replicated tables, and COPY.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::program::{BINARY, error, output, rows, text};

#[test]
fn tables_that_every_partition_has_are_told_of_once() {
    let mut script = "CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY); \
                      CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY); \
                      CREATE TABLE p (k BIGINT PRIMARY KEY) PARTITION BY (k); \
                      SELECT table_name, partitions, copies FROM system.tables ORDER BY table_name;"
        .to_owned();
    let done = output(None, &["executor_partitions=3"], &script);
    assert_eq!(text(&done.stdout), "table_name,partitions,copies\np,3,1\nt,3,3\n", "{}", text(&done.stderr));
    let said = text(&done.stderr);
    assert_eq!(said.matches("table t has no PARTITION BY").count(), 1, "{said}");
    assert!(said.contains("each of the 3 executor partitions") && !said.contains("table p"), "{said}");
    assert_eq!(text(&output(None, &["executor_partitions=1"], &script).stderr), "");
    for key in 0..1100 {
        write!(script, "INSERT INTO {} VALUES ({key});", ["t", "p"][usize::from(key % 20 == 0)]).unwrap();
    }
    let said = text(&output(None, &["executor_partitions=2"], &script).stderr);
    assert_eq!(said.matches("has been written by 1000 statements").count(), 1, "{said}");
}

/// Runs a script with this standard input.
fn fed(directory: &Path, script: &str, input: &[u8]) -> Output {
    let mut child = Command::new(BINARY)
        .arg("sql")
        .arg(directory)
        .args(["--set", "executor_partitions=1", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It is not read after an error.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn rows_are_copied_from_standard_input_and_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let mut csv = "k,s\n".to_owned();
    for key in 0..5000 {
        writeln!(csv, "{key},\"text, {key}\"").unwrap();
    }
    let copy = "CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT); COPY t FROM STDIN WITH (FORMAT csv, HEADER)";
    let done = fed(&database, copy, csv.as_bytes());
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = "COPY (SELECT * FROM t ORDER BY k) TO STDOUT WITH (FORMAT csv, HEADER)";
    let done = fed(&database, out, b"");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), csv);
    let failed = fed(&database, "COPY t FROM STDIN", b"5000\tfine\nmany\twrong\n");
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("COPY t, line 2, column k"), "{}", text(&failed.stderr));
    let count = fed(&database, "COPY (SELECT count(*) FROM t) TO STDOUT", b"");
    assert_eq!(text(&count.stdout), "5000\n");
    // A script's standard input is the script.
    let file = folder.path().join("script.sql");
    std::fs::write(&file, "COPY t FROM STDIN;\n").unwrap();
    let done = Command::new(BINARY).arg("sql").arg(&database).arg("-f").arg(&file).output().unwrap();
    assert!(text(&done.stderr).contains("is given its rows"), "{}", text(&done.stderr));
}

/// Statements that the database writes itself go into its log as texts, and mean there what they meant when they ran.
#[test]
fn statements_made_of_parts_are_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let run = |script: &str| rows(Some(&database), script);
    run(r"CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, n BIGINT);
          PREPARE i AS INSERT INTO t VALUES ($1, $2, - - $3);
          EXECUTE i(1, 'x''''y', 1); EXECUTE i(2, 'x\''y', - -2); EXECUTE i(3, '''''', -3); EXECUTE i(4, 'a\', 4);
          PREPARE u AS UPDATE t SET v = v || 'q''''r', n = - -n WHERE k = $1;
          EXECUTE u(- -1);
          EXPLAIN ANALYZE INSERT INTO t VALUES (5, 'a''''b', - -5);
          EXPLAIN ANALYZE UPDATE t SET n = - -n + 1, v = 'x\''y' WHERE k = - -5;
          EXPLAIN ANALYZE EXECUTE i(6, '$q$''''$q$', 6);
          PREPARE d AS DELETE FROM t WHERE v = $1; EXECUTE d('''''');
          EXPLAIN ANALYZE DELETE FROM t WHERE n = - -4;
          WITH w AS (SELECT 7 AS k) INSERT INTO t SELECT k, 'a''''b', - -k FROM w;
          -- The text of a plan that is kept is not that of another statement.
          PREPARE s AS INSERT INTO t VALUES (8, 'x''''y', 1); INSERT INTO t VALUES (8, 'x''y', 1);
          CREATE TABLE c (k BIGINT PRIMARY KEY, v TEXT DEFAULT 'a''''b') AS SELECT k, v FROM t WHERE k = 1;
          INSERT INTO c (k) VALUES (9);
          CREATE VIEW w AS SELECT - -k AS m, 'x\''y' || 'a''''b' AS l FROM t;");
    let all_rows = "SELECT * FROM t ORDER BY k; SELECT * FROM c ORDER BY k; SELECT * FROM w ORDER BY m;";
    let expected = ["1,x''yq''r,1", r"2,x\'y,2", r"5,x\'y,6", "6,$q$''$q$,6", "7,a''b,7", "8,x'y,1"];
    let views: Vec<String> = [1, 2, 5, 6, 7, 8].iter().map(|k| format!(r"{k},x\'ya''b")).collect();
    let all = format!("k,v,n\n{}\nk,v\n1,x''yq''r\n9,a''b\nm,l\n{}\n", expected.join("\n"), views.join("\n"));
    for _ in 0..2 {
        assert_eq!(run(all_rows), all);
    }
    // A name that the parser does not print as it reads it.
    run(r#"CREATE TABLE "q""""t" (k BIGINT PRIMARY KEY)"#);
    let refused = fed(&database, r#"EXPLAIN ANALYZE INSERT INTO "q""""t" VALUES (1)"#, b"");
    assert!(text(&refused.stderr).contains("0A000"), "{}", text(&refused.stderr));
    assert_eq!(run(all_rows), all);
}

#[test]
fn prepared_queries_name_their_columns_as_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let run = |script: &str| rows(Some(&database), script);
    run("CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT); INSERT INTO t VALUES (1, 'b'), (2, 'a')");
    for query in [
        "SELECT s, count(*) FROM t GROUP BY s ORDER BY count, s",
        "SELECT count FROM (SELECT count(*) FROM t) AS q",
        "WITH w AS (SELECT max(k) FROM t) SELECT max FROM w",
        "SELECT row_number() OVER (ORDER BY k) FROM t ORDER BY row_number",
        "SELECT k::text FROM t ORDER BY k",
        "FROM t ORDER BY k",
        "SELECT 1_000 + k FROM t ORDER BY k",
    ] {
        assert_eq!(run(&format!("PREPARE p AS {query}; EXECUTE p")), run(query), "{query}");
    }
    assert_eq!(run("FROM t ORDER BY k"), "k,s\n1,b\n2,a\n");
    assert_eq!(run("SELECT 1_000 + k FROM t WHERE k = 1"), "?column?\n1001\n");
}

/// A file of COPY TO is replaced when all rows are there, and stays as it is if the statement fails.
#[test]
fn a_file_of_a_copy_is_whole_or_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let (database, file) = (directory.path().join("db"), directory.path().join("x.csv"));
    let link = directory.path().join("link.csv");
    std::fs::write(&file, "precious\n").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let copy = |query: &str, path: &Path| format!("COPY ({query}) TO '{}' WITH (FORMAT csv)", path.display());
    let failing = "SELECT 1000 / (20000 - value) FROM generate_series(1, 40000)";
    let message = error(Some(&database), &copy(failing, &file));
    assert!(message.contains("22012"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious\n");
    rows(Some(&database), &copy("SELECT 1 AS a, 'x' AS b", &link));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1,x\n");
    rows(Some(&database), &copy("SELECT 1", Path::new("/dev/null")));
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}
