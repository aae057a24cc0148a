//! A database that runs bodies of procedures.

use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::ids::Micros;
use thermocline_transactions::procedure::Limits;
use thermocline_transactions::{Error, Result};

pub fn settings() -> Settings {
    let limits = Limits { instructions_max: 2_000_000, lua_bytes_max: 16 << 20, ..Limits::default() };
    // 2024-02-29 12:30:45.5
    Settings {
        partitions: 2,
        seed: 7,
        limits,
        clock: Box::new(|| Micros(1_709_209_845_500_000)),
        ..Settings::default()
    }
}

pub fn open(disk: &Arc<SimulatedDisk>) -> RowEngine {
    RowEngine::open(Arc::clone(disk) as _, settings()).unwrap()
}

pub fn new_disk() -> Arc<SimulatedDisk> {
    Arc::new(SimulatedDisk::new(1, Faults::default()))
}

pub fn run(session: &mut RowSession, sql: &str) -> StatementResult {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A database with a table, and machines that have run nothing.
pub struct Bench {
    _database: RowEngine,
    pub session: RowSession,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: Settings) -> Self {
        let database = RowEngine::open(new_disk() as _, settings).unwrap();
        let mut session = database.session();
        run(
            &mut session,
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, m DECIMAL(12, 2), b BYTEA, d DATE, ts TIMESTAMP, f DOUBLE PRECISION)
             PARTITION BY (k)",
        );
        run(&mut session, "INSERT INTO t (k, v, m) VALUES (1, 'one', 1.50), (2, 'two', 2.25), (3, NULL, NULL)");
        Self { _database: database, session }
    }

    /// Creates a procedure of this body and calls it.
    pub fn call(&mut self, body: &str) -> Result<StatementResult> {
        self.session.execute(&format!("CREATE OR REPLACE PROCEDURE p() LANGUAGE lua AS $lua${body}$lua$"), &[])?;
        self.session.execute("CALL p()", &[])
    }

    /// The result of a body as text.
    pub fn text(&mut self, body: &str) -> String {
        let answer = self.call(body).unwrap_or_else(|error| panic!("{body}: {error}"));
        let rows: Vec<String> =
            answer.rows.iter().map(|row| row.map(|value| value.to_string()).collect::<Vec<_>>().join("|")).collect();
        rows.join("\n")
    }

    pub fn error(&mut self, body: &str) -> Error {
        match self.call(body) {
            Err(error) => error,
            Ok(answer) => panic!("{body}: {answer:?}"),
        }
    }

    #[track_caller]
    pub fn check(&mut self, body: &str, expected: &str) {
        assert_eq!(self.text(body), expected, "{body}");
    }

    #[track_caller]
    pub fn fails(&mut self, body: &str, state: &str, part: &str) {
        let error = self.error(body);
        assert_eq!(error.sqlstate(), state, "{body}: {error}");
        assert!(error.to_string().contains(part), "{body}: {error}");
    }
}

/// Outcome of a body: its result or its error.
pub fn outcome(bench: &mut Bench, body: &str) -> String {
    match bench.call(body) {
        Ok(answer) => {
            let row = |row: Vec<String>| row.join("|");
            let rows: Vec<_> =
                answer.rows.iter().map(|values| row(values.map(|value| value.to_string()).collect())).collect();
            rows.join("\n")
        }
        Err(error) => format!("{}: {error}", error.sqlstate()),
    }
}
