//! Statements that use the standard streams: notices about replicated tables, and COPY.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::program::{BINARY, output, text};

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
