//! The scripts of `tests/scripts`, each on one partition and on three, with the same results.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use common::Session;
use sqllogictest::{DBOutput, DefaultColumnType, Runner};
use thermocline_transactions::Error;

struct Database(Session);

#[derive(Debug)]
struct Failure(Error);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.sqlstate(), self.0)
    }
}

impl std::error::Error for Failure {}

impl sqllogictest::DB for Database {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Self::ColumnType>, Failure> {
        let (outcome, columns) = self.0.run(sql).map_err(Failure)?;
        self.0.check();
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(outcome.affected));
        }
        let text = |value: thermocline_transactions::types::ValueRef<'_>| match value.to_string() {
            empty if empty.is_empty() => "(empty)".to_owned(),
            text => text,
        };
        let rows = outcome.rows.iter().map(|row| row.map(text).collect()).collect();
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows })
    }

    fn engine_name(&self) -> &str {
        "rows"
    }
}

#[test]
fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    scripts.sort();
    assert!(scripts.len() >= 9, "scripts are found");
    let mut failures = Vec::new();
    for script in &scripts {
        for partitions in [1, 3] {
            let mut runner = Runner::new(|| async move { Ok(Database(Session::new(partitions))) });
            if let Err(error) = runner.run_file(script) {
                failures.push(format!("{} on {partitions} partitions: {error}", script.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
