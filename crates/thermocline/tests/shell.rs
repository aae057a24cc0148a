//! What people see of results, and how scripts run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::process::Command;

use support::program::{BINARY, rows, text};

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
