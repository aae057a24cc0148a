//! DuckDB as a process that answers SQL.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A row in canonical text, NULL as `None`.
pub type Row = Vec<Option<String>>;

/// A DuckDB session in Python.
pub struct Oracle {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts a session.
    pub fn start() -> Self {
        Self::start_at(Path::new("."))
    }

    /// Starts a session whose working directory is a folder.
    pub fn start_at(folder: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/oracle.py");
        let mut process = Command::new(python())
            .arg(script)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle starts: run ./test, which installs DuckDB for Python");
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, requests, answers }
    }

    /// Rows of a statement.
    pub fn query(&mut self, sql: &str) -> Vec<Row> {
        self.try_query(sql).unwrap_or_else(|error| panic!("DuckDB: {error}\n{sql}"))
    }

    /// Rows of a statement, or its error.
    pub fn try_query(&mut self, sql: &str) -> Result<Vec<Row>, String> {
        writeln!(self.requests, "{}", serde_json::json!({ "sql": sql })).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).expect("an answer of the oracle");
        if let Some(error) = answer.get("error") {
            return Err(error.to_string());
        }
        Ok(serde_json::from_value(answer["rows"].clone()).unwrap())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The interpreter with DuckDB: the one that `./test` installed, or the one named.
pub fn python() -> PathBuf {
    if let Some(named) = std::env::var_os("THERMOCLINE_ORACLE_PYTHON") {
        return named.into();
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracle/bin/python");
    assert!(target.exists(), "{} is not there: run ./test, which installs DuckDB for Python", target.display());
    target
}
