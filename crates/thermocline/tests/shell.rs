//! What people see of results, and how scripts run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use support::program::{BINARY, rows, text};

/// Runs a session without a database, with this on standard input.
fn sql(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["sql", "--format", "csv"]).args(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn columns_without_a_name_are_headed_as_postgresql_does_in_every_format_and_engine() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE k (k BIGINT PRIMARY KEY); INSERT INTO k VALUES (1), (2)");
    let print = |format: &str, sql: &str| {
        let done =
            Command::new(BINARY).arg("sql").arg(&database).args(["--format", format, "-c", sql]).output().unwrap();
        assert!(done.status.success(), "{sql}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let (rows, analytic) = ("FROM k", "FROM (SELECT value AS k FROM generate_series(1, 2)) AS t");
    for from in [rows, analytic] {
        let sql = format!("SELECT 1, 2, sum(k), count(*) AS n, max(k + 1) {from}");
        assert_eq!(print("csv", &sql), "?column?,?column?,sum,n,max\n1,2,3,2,3\n");
        let json: serde_json::Value = serde_json::from_str(&print("json", &sql)).unwrap();
        let all = serde_json::json!({ "?column?": 1, "?column?_1": 2, "sum": 3, "n": 2, "max": 3 });
        assert_eq!(json, all, "{from}: no value is lost");
        let table = print("table", &format!("SELECT 7, *, k * 2 {from} ORDER BY k"));
        assert_eq!(table.lines().next(), Some(" ?column? | k | ?column?"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }
}

/// A script that says `SELECT n` for each of these, and `SELEC` behind.
fn failing(numbers: &[u64]) -> String {
    let selects: Vec<String> = numbers.iter().map(|n| format!("SELECT {n} AS n;\n")).collect();
    selects.concat() + "SELEC 9;\nSELECT 10 AS n;\n"
}

#[test]
fn a_script_runs_up_to_its_first_error_also_one_of_syntax() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    fs::write(&file, failing(&[1, 2, 3, 4])).unwrap();
    let ran = "n\n1\nn\n2\nn\n3\nn\n4\n";
    let done = sql(&["-f", file.to_str().unwrap()], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ran));
    let said = text(&done.stderr);
    assert!(said.contains("script.sql: ") && said.contains("Line: 5, Column: 1"), "{said}");
    let done = sql(&[], &failing(&[1, 2, 3, 4]));
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ran));
    // Text that is cut off.
    let done = sql(&[], "SELECT 1 AS n; SELECT 'two");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n1\n"));
    assert!(text(&done.stderr).contains("Unterminated string literal"), "{}", text(&done.stderr));
    // An error of running comes first if it stands first, and says where it is.
    let done = sql(&[], "SELECT 1 AS n;\nSELECT x;\nSELEC 2;");
    let said = text(&done.stderr);
    assert!(text(&done.stdout) == "n\n1\n" && said.contains("(in statement 2)") && !said.contains("SELEC"), "{said}");
    // An argument is read to its end before.
    let done = sql(&["-c", "SELECT 1 AS n; SELEC 2"], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ""));
}

#[test]
fn scripts_include_others() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let main = write("main.sql", "SELECT 1 AS n;\n\\ir 'sub/in side.sql'\nSELECT 4 AS n;\n\\q\nSELECT 5 AS n;");
    write("sub/in side.sql", "SELECT 2 AS n; \\ir deep.sql\nSELECT 3 AS n; \\q\nSELECT 33 AS n;");
    write("sub/deep.sql", "SELECT 22 AS n");
    let all = "n\n1\nn\n2\nn\n22\nn\n3\nn\n4\n";
    let printed = |arguments: &[&str], input: &str| {
        let done = sql(arguments, input);
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    assert_eq!(printed(&["-f", &main], ""), all);
    assert_eq!(printed(&[], &format!("\\i {main}\n")), all);
    assert_eq!(printed(&["-c", &format!("\\i {main}"), "-c", "SELECT 6 AS n"], ""), format!("{all}n\n6\n"));

    let broken = write("broken.sql", &failing(&[7]));
    let outer = write("outer.sql", "SELECT 6 AS n;\n\\ir broken.sql\nSELECT 8 AS n;\n");
    let done = sql(&["-f", &outer], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n6\nn\n7\n"));
    assert!(text(&done.stderr).contains(&format!("outer.sql: {broken}: ")), "{}", text(&done.stderr));
    let endless = write("endless.sql", "\\ir endless.sql");
    for (script, said) in [
        (format!("\\i {endless}"), "more than 16 deep"),
        ("\\i".to_owned(), "needs the name of a file"),
        ("\\i /nowhere/x.sql".to_owned(), "/nowhere/x.sql: No such file"),
        ("\\i 'a\nb'".to_owned(), "line 1: a quote is not closed"),
        ("\\copy t".to_owned(), "there is no command \\copy t"),
    ] {
        let done = sql(&[], &format!("SELECT 1 AS n; {script}\n; SELECT 2 AS n"));
        assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n1\n"), "{script}");
        assert!(text(&done.stderr).contains(said), "{script}: {}", text(&done.stderr));
    }
}
