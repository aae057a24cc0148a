//! DuckDB as a reference: a Python process that has its package.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::driver::Measurement;
use super::record::Record;
use super::results::{Results, Row};
use crate::generate::create_duckdb_sql;

const SCRIPT: &str = include_str!("duckdb.py");

/// Source of DuckDB's rows.
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

/// The first line of the script.
#[derive(Debug, Deserialize)]
struct Greeting {
    /// DuckDB's version.
    duckdb: String,
}

impl Greeting {
    /// Reads the lines up to it: the interpreter may have printed some before the script began.
    fn read(lines: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            if let Ok(greeting) = serde_json::from_str(&line) {
                return Ok(greeting);
            }
            line.clear();
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Error { error: String },
    Timed { seconds: f64, count: u64 },
    Rows { rows: Vec<Row> },
}

impl DuckDb {
    /// A Python interpreter that has DuckDB: `named`, or the first of the default ones.
    ///
    /// # Errors
    /// If the named one does not have it.
    pub fn find(named: Option<&Path>) -> Result<Option<PathBuf>> {
        // A successful exit alone proves nothing: /bin/true exits so.
        let has = |python: &Path| {
            let mut script = Command::new(python);
            script.args(["-c", SCRIPT]).stdin(Stdio::null()).stderr(Stdio::null());
            script.output().is_ok_and(|output| Greeting::read(&mut output.stdout.as_slice()).is_ok())
        };
        match named {
            Some(python) if has(python) => Ok(Some(python.to_owned())),
            Some(python) => {
                plan_err!("{} is no Python interpreter with the package duckdb: pip install duckdb", python.display())
            }
            // `./test` installs the second one.
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
        let Greeting { duckdb: version } = Greeting::read(&mut duckdb.answers).map_err(gone)?;
        tracing::debug!("DuckDB {version}");
        duckdb.rows(&format!("SET threads = {threads}"))?;
        let kind = if tables == DuckDbTables::Memory { "TABLE" } else { "VIEW" };
        for table in measurement.workload.tables {
            let files = format!("{}/{table}/*.{}", data.display(), measurement.format.extension());
            duckdb.rows(&create_duckdb_sql(*table, measurement.format, kind, &files))?;
        }
        Ok(duckdb)
    }

    /// The next line of output.
    fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(gone)?;
        serde_json::from_str(&line)
            .map_err(|error| exec_datafusion_err!("DuckDB's process answered '{}': {error}", line.trim()))
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<Answer> {
        let Some(requests) = &mut self.requests else { return exec_err!("DuckDB's process has no input") };
        writeln!(requests, "{request}").map_err(gone)?;
        match self.answer()? {
            Answer::Error { error } => exec_err!("DuckDB: {error}"),
            answer => Ok(answer),
        }
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Row>> {
        match self.ask(&json!({ "sql": sql, "rows": true }))? {
            Answer::Rows { rows } => Ok(rows),
            other => exec_err!("DuckDB's process answered {other:?} instead of rows"),
        }
    }

    /// Runs `queries`, each once, and passes on a record of each. A warm-up runs each once more, untimed, and compares
    /// its rows with those in `results`; for timed runs only the number of rows is compared.
    ///
    /// # Errors
    /// The first query's error or difference.
    pub fn measure<'a>(
        &mut self,
        measurement: &Measurement,
        queries: impl IntoIterator<Item = (&'a str, &'a str)>,
        run: &'static str,
        results: &Results,
        mut on_record: impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let mode = self.tables.name();
        for (name, sql) in queries {
            let failed = |error: DataFusionError| error.context(format!("query {name} in {mode}"));
            let Answer::Timed { seconds, count } = self.ask(&json!({ "sql": sql })).map_err(failed)? else {
                return exec_err!("DuckDB's process gave no time for query {name}");
            };
            let rows = if run == "warmup" { Some(self.rows(sql).map_err(failed)?) } else { None };
            results.check_rows((name, sql), mode, count, rows.as_deref())?;
            on_record(Record { seconds, rows: count, ..measurement.record(mode, (name, sql), run) })?;
        }
        Ok(())
    }
}

fn gone(error: io::Error) -> DataFusionError {
    exec_datafusion_err!("DuckDB's process is gone: {error}")
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Workload;
    use crate::generate::{Format, GenerateOptions};

    /// Installed by `./test`.
    const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracle/bin/python");

    #[test]
    fn a_program_that_only_ends_well_is_no_python() {
        let error = DuckDb::find(Some(Path::new("/bin/true"))).unwrap_err().to_string();
        assert!(error.contains("/bin/true"), "{error}");
        assert_eq!(DuckDb::find(Some(Path::new(PYTHON))).unwrap().as_deref(), Some(Path::new(PYTHON)));
    }

    #[test]
    fn what_is_printed_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let options = GenerateOptions {
            scale: 0.001,
            format: Format::Csv,
            partition_size: 1 << 20,
            out: data.clone(),
            threads: 1,
        };
        crate::ssb::generate(&options, &|_| {}).unwrap();
        let noisy = folder.path().join("python");
        fs::write(&noisy, format!("#!/bin/sh\necho noise\nexec {PYTHON} \"$@\"\n")).unwrap();
        fs::set_permissions(&noisy, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(DuckDb::find(Some(&noisy)).unwrap().is_some());
        let measurement =
            Measurement { workload: Workload::SSB, scale: 0.001, format: Format::Csv, egress_bytes_per_s: None };
        let mut duckdb = DuckDb::start(&noisy, DuckDbTables::Files, &measurement, &data, 2).unwrap();
        for statement in
            ["SET progress_bar_time = 0", "SET enable_progress_bar = true", "COPY (SELECT 'printed') TO '/dev/stdout'"]
        {
            duckdb.rows(statement).unwrap();
        }
        let answer = duckdb.ask(&json!({ "sql": "SELECT * FROM range(300000)" })).unwrap();
        assert!(matches!(answer, Answer::Timed { count: 300_000, .. }), "{answer:?}");
        let dates = duckdb.rows("SELECT count(*), NULL FROM dates").unwrap();
        assert_eq!(dates, [[Some("2557".to_owned()), None]]);
        assert!(duckdb.rows("SELECT").unwrap_err().to_string().contains("Parser Error"));
    }
}
