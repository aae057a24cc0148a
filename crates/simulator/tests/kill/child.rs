//! Clients that transfer money and log it in a journal, using every kind of transaction.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Result;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, SnapshotSettings, StatementResult};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::recovery::Progress;
use thermocline_transactions::types::{Value, ValueRef};

pub const DIRECTORY: &str = "THERMOCLINE_KILL_DIRECTORY";
pub const SEED: &str = "THERMOCLINE_KILL_CHILD_SEED";
pub const ACCOUNTS: i64 = 50;
pub const BALANCE: i64 = 1_000_000;
pub const CLIENTS: i64 = 4;

const JOURNAL: &str = "INSERT INTO journal VALUES ($1, $2, $3, $4)";
const FROM: &str = "UPDATE accounts SET balance = balance - $4 WHERE id = $2";
const TO: &str = "UPDATE accounts SET balance = balance + $4 WHERE id = $3";
const COUNT: &str = "UPDATE counters SET v = v + 1 WHERE id = $1 / 1000000000";

/// A transfer as in the journal. `number` counts a client's transfers; rows of rolled back transfers have negative ids.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub id: i64,
    pub from: i64,
    pub to: i64,
    pub amount: i64,
}

impl Entry {
    pub fn of(row: &[i64]) -> Self {
        Self { id: row[0], from: row[1], to: row[2], amount: row[3] }
    }

    pub fn client(&self) -> i64 {
        self.id / 1_000_000_000
    }

    pub fn number(&self) -> i64 {
        self.id % 1_000_000_000
    }

    fn values(&self) -> Vec<Value> {
        [self.id, self.from, self.to, self.amount].map(Value::Int).to_vec()
    }
}

/// Fails after all its changes if the id is negative. It is called for the partition of the id, and usually needs
/// others as well.
struct Transfer;

impl Procedure for Transfer {
    fn statements(&self) -> &[&str] {
        &[
            "UPDATE accounts SET balance = balance - $2 WHERE id = $1",
            JOURNAL,
            "UPDATE accounts SET balance = balance + $2 WHERE id = $1",
            COUNT,
            "SELECT 1 / 0 FROM accounts WHERE id = 0",
        ]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [_, from, to, amount] = [0, 1, 2, 3].map(|at| arguments[at].clone());
        context.execute(0, &[from, amount.clone()])?;
        context.execute(1, arguments)?;
        context.execute(2, &[to, amount])?;
        context.execute(3, &arguments[..1])?;
        if matches!(arguments[0], Value::Int(..0)) {
            context.execute(4, &[])?;
        }
        Ok(StatementResult::default())
    }
}

fn settings() -> Settings {
    let transfer = "transfer(id BIGINT, source BIGINT, target BIGINT, amount BIGINT) PARTITION ON (id)";
    Settings {
        partitions: 2,
        procedures: vec![Registration::new(transfer, 1, Transfer).unwrap()],
        log: LogSettings { segment_bytes: 100_000, ..LogSettings::default() },
        // Often enough that some are killed in progress.
        snapshots: SnapshotSettings { log_bytes: 400_000, ..SnapshotSettings::default() },
        ..Settings::default()
    }
}

pub fn open(directory: &Path) -> Result<RowEngine> {
    open_with_progress(directory, &mut |_| {})
}

pub fn open_with_progress(directory: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<RowEngine> {
    RowEngine::open_with_progress(Arc::new(RealDisk::open(directory)?), settings(), progress)
}

pub fn define(database: &RowEngine) {
    let mut session = database.session();
    let mut run = |sql: &str| session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL) PARTITION BY (id)");
    run("CREATE TABLE counters (id BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (id)");
    run("CREATE TABLE journal (id BIGINT PRIMARY KEY, source BIGINT NOT NULL, target BIGINT NOT NULL, \
         amount BIGINT NOT NULL) PARTITION BY (id)");
    run("CREATE INDEX journal_source ON journal (source)");
    run(&format!(
        "CREATE PROCEDURE transfer_sql(id BIGINT, source BIGINT, target BIGINT, amount BIGINT) LANGUAGE sql AS \
         '{FROM}; {TO}; {COUNT}; {JOURNAL}'"
    ));
    for id in 0..ACCOUNTS {
        run(&format!("INSERT INTO accounts VALUES ({id}, {BALANCE})"));
    }
    for id in 0..CLIENTS {
        run(&format!("INSERT INTO counters VALUES ({id}, 0)"));
    }
}

/// Clients that never stop and print each commit that they are told of.
pub fn run(directory: &Path, seed: u64) {
    let database = open(directory).unwrap();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let database = &database;
            scope.spawn(move || work(database, client, seed));
        }
    });
}

fn work(database: &RowEngine, client: i64, seed: u64) {
    let mut session = database.session();
    let mut random = StdRng::seed_from_u64(seed * 10 + client.cast_unsigned());
    let sql = "SELECT count(*) FROM journal WHERE id >= $1 AND id < $2";
    let range = [client, client + 1].map(|client| Value::Int(client * 1_000_000_000));
    let answer = session.execute(sql, &range).unwrap();
    let ValueRef::Int(last) = answer.rows.value(0, 0) else { panic!("a count") };
    for number in last + 1.. {
        let [from, to] = [0, 1].map(|_| random.random_range(0..ACCOUNTS));
        let entry = Entry { id: client * 1_000_000_000 + number, from, to, amount: random.random_range(1..100) };
        if random.random_bool(0.2) {
            let failed = session.execute("CALL transfer($1, $2, $3, $4)", &Entry { id: -entry.id, ..entry }.values());
            assert_eq!(failed.unwrap_err().sqlstate(), "22012");
        }
        match random.random_range(0..4) {
            0 | 1 => drop(session.execute("CALL transfer($1, $2, $3, $4)", &entry.values()).unwrap()),
            2 => drop(session.execute("CALL transfer_sql($1, $2, $3, $4)", &entry.values()).unwrap()),
            _ => interactive(&mut session, &entry, random.random_bool(0.2)),
        }
        // A single write, so that the line is complete.
        let line = format!("committed {client} {number}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

/// The same in a session's transaction, sometimes after one that is rolled back.
fn interactive(session: &mut RowSession, entry: &Entry, rolled_back: bool) {
    let Entry { id, from, to, amount } = *entry;
    let attempts = if rolled_back { vec![(-id, "ROLLBACK"), (id, "COMMIT")] } else { vec![(id, "COMMIT")] };
    for (id, end) in attempts {
        let statements = [
            "BEGIN".to_owned(),
            format!("INSERT INTO journal VALUES ({id}, {from}, {to}, {amount})"),
            format!("UPDATE accounts SET balance = balance - {amount} WHERE id = {from}"),
            format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {to}"),
            format!("UPDATE counters SET v = v + 1 WHERE id = {}", entry.client()),
            end.to_owned(),
        ];
        // Partitions are requested in no order here, so sessions may deadlock.
        while let Err(error) = statements.iter().try_for_each(|sql| session.execute(sql, &[]).map(drop)) {
            assert_eq!(error.sqlstate(), "40P01", "{error}");
            session.execute("ROLLBACK", &[]).unwrap();
        }
    }
}
