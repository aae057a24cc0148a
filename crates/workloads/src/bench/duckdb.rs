//! DuckDB as a reference: a Python process that has its package.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use serde::Deserialize;
use serde_json::json;

use super::driver::Measurement;
use super::record::Record;
use super::results::{Results, Row};
use crate::generate::create_duckdb_sql;

const SCRIPT: &str = include_str!("duckdb.py");

/// Where DuckDB gets its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuckDbTables {
    /// Its own tables in memory, loaded beforehand.
    Memory,
    /// The files.
    Files,
}

impl DuckDbTables {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Files];

    /// The record's `mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "duckdb-memory",
            Self::Files => "duckdb-files",
        }
    }
}

/// A DuckDB with a workload's tables. It ends when it is dropped.
#[derive(Debug)]
pub struct DuckDb {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    tables: DuckDbTables,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Error { error: String },
    Timed { seconds: f64, count: u64 },
    Rows { rows: Vec<Row> },
}

impl DuckDb {
    /// A Python interpreter that has DuckDB: `named`, or the first of the usual ones.
    ///
    /// # Errors
    /// If the named one has none.
    pub fn find(named: Option<&Path>) -> Result<Option<PathBuf>> {
        let has = |python: &Path| {
            let mut import = Command::new(python);
            import.args(["-c", "import duckdb"]).stdout(Stdio::null()).stderr(Stdio::null());
            import.status().is_ok_and(|status| status.success())
        };
        match named {
            Some(python) if has(python) => Ok(Some(python.to_owned())),
            Some(python) => exec_err!("{} has no package duckdb: pip install duckdb", python.display()),
            // The second is where `./test` puts it.
            None => Ok(["python3", "target/oracle/bin/python"].map(PathBuf::from).into_iter().find(|path| has(path))),
        }
    }

    /// Starts one with the workload's tables below `data`, on `threads` threads.
    ///
    /// # Errors
    /// If Python does not start or DuckDB cannot read the files.
    pub fn start(
        python: &Path,
        tables: DuckDbTables,
        measurement: &Measurement,
        data: &Path,
        threads: usize,
    ) -> Result<Self> {
        let mut process = Command::new(python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| exec_datafusion_err!("{}: {error}", python.display()))?;
        let requests = process.stdin.take();
        let Some(answers) = process.stdout.take().map(BufReader::new) else {
            return exec_err!("DuckDB's process has no output");
        };
        let mut duckdb = Self { process, requests, answers, tables };
        duckdb.rows(&format!("SET threads = {threads}"))?;
        let kind = if tables == DuckDbTables::Memory { "TABLE" } else { "VIEW" };
        for table in measurement.workload.tables {
            let files = format!("{}/{table}/*.{}", data.display(), measurement.format.extension());
            duckdb.rows(&create_duckdb_sql(*table, measurement.format, kind, &files))?;
        }
        Ok(duckdb)
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<Answer> {
        let gone = |error: std::io::Error| exec_datafusion_err!("DuckDB's process is gone: {error}");
        let Some(requests) = &mut self.requests else { return exec_err!("DuckDB's process has no input") };
        writeln!(requests, "{request}").map_err(gone)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(gone)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Error { error }) => exec_err!("DuckDB: {error}"),
            Ok(answer) => Ok(answer),
            Err(error) => exec_err!("DuckDB's process answered '{}': {error}", line.trim()),
        }
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Row>> {
        match self.ask(&json!({ "sql": sql, "rows": true }))? {
            Answer::Rows { rows } => Ok(rows),
            other => exec_err!("DuckDB's process answered {other:?} instead of rows"),
        }
    }

    /// Runs `queries`, each once, and hands out a record each. To warm up, their rows are compared with
    /// those in `results`.
    ///
    /// # Errors
    /// The first query's that fails or has other rows.
    pub fn measure<'a>(
        &mut self,
        measurement: &Measurement,
        queries: impl IntoIterator<Item = (&'a str, &'a str)>,
        run: &'static str,
        results: &mut Results,
        mut on_record: impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let mode = self.tables.name();
        for (name, sql) in queries {
            let failed = |error: datafusion::common::DataFusionError| error.context(format!("query {name} in {mode}"));
            let Answer::Timed { seconds, count } = self.ask(&json!({ "sql": sql })).map_err(failed)? else {
                return exec_err!("DuckDB's process gave no time for query {name}");
            };
            let rows = if run == "warmup" { Some(self.rows(sql).map_err(failed)?) } else { None };
            let result_hash = results.check_rows((name, sql), mode, count, rows)?;
            on_record(Record { seconds, rows: count, result_hash, ..measurement.record(mode, (name, sql), run) })?;
        }
        Ok(())
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // It ends when its input does.
        self.requests = None;
        if let Err(error) = self.process.wait() {
            tracing::debug!("DuckDB's process: {error}");
        }
    }
}
