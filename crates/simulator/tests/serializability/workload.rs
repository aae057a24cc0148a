//! Clients that append to lists and replace registers, using every kind of transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_simulator::{Outcome, Step, Transaction};
use thermocline_transactions::database::{RowEngine, RowSession, Settings, SnapshotSettings, StatementResult};
use thermocline_transactions::disk::Disk;
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_transactions::{Class, Error, Result};

/// Lists and registers in use at a time.
const SLOTS: i64 = 8;
/// Approximate number of elements of a list.
const LIST_MAX: i64 = 40;

const APPEND: &str =
    "INSERT INTO lists VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = lists.v || ',' || excluded.v RETURNING v";
const LIST: &str = "SELECT v FROM lists WHERE k = $1";
const REGISTER: &str = "SELECT v FROM registers WHERE k = $1";
const REPLACE: &str = "INSERT INTO registers VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";

/// A step as a client requests it.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Append(i64, i64),
    List(i64),
    Register(i64),
    Replace(i64, i64),
    Abort,
}

impl Ask {
    fn encode(self) -> String {
        match self {
            Self::Append(key, value) => format!("a {key} {value}"),
            Self::List(key) => format!("l {key} 0"),
            Self::Register(key) => format!("r {key} 0"),
            Self::Replace(key, value) => format!("w {key} {value}"),
            Self::Abort => "x 0 0".into(),
        }
    }

    fn decode(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let (key, value) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        match words[0] {
            "a" => Self::Append(key, value),
            "l" => Self::List(key),
            "r" => Self::Register(key),
            "w" => Self::Replace(key, value),
            _ => Self::Abort,
        }
    }

    /// The step with the value that it saw: a list's text, or a register's number.
    fn done(self, seen: ValueRef<'_>) -> Step {
        let number = || if let ValueRef::Int(number) = seen { number } else { 0 };
        match self {
            Self::Append(key, value) => Step::Append { key, value },
            Self::List(key) => Step::ReadList { key, list: list(seen) },
            Self::Register(key) => Step::ReadRegister { key, value: number() },
            Self::Replace(key, value) => Step::Replace { key, before: number(), value },
            Self::Abort => panic!("an aborted transaction's answer"),
        }
    }
}

fn list(seen: ValueRef<'_>) -> Vec<i64> {
    match seen {
        ValueRef::Text(text) => text.split(',').map(|element| element.parse().unwrap()).collect(),
        _ => Vec::new(),
    }
}

/// Runs steps encoded as text. It is called for a partition that need not be its only one.
struct Steps;

/// Same order as [`Procedure::statements`].
const STATEMENTS: [&str; 4] = [APPEND, LIST, REGISTER, REPLACE];

impl Procedure for Steps {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let Some(Value::Text(text)) = arguments.last() else { return Err(Class::Procedure.error("no steps")) };
        let mut rows = Rows::new(2);
        for ask in text.split(';').map(Ask::decode) {
            let (mut list, mut register) = (Rows::new(1), Rows::new(1));
            match ask {
                Ask::Append(key, value) => {
                    context.execute(0, &[Value::Int(key), Value::Text(value.to_string().into())])?;
                }
                Ask::List(key) => list = context.execute(1, &[Value::Int(key)])?.rows,
                Ask::Register(key) => register = context.execute(2, &[Value::Int(key)])?.rows,
                Ask::Replace(key, value) => {
                    register = context.execute(2, &[Value::Int(key)])?.rows;
                    context.execute(3, &[Value::Int(key), Value::Int(value)])?;
                }
                Ask::Abort => return Err(Class::Raised.error("on purpose")),
            }
            let value = |rows: &Rows| if rows.is_empty() { Value::Null } else { rows.value(0, 0).to_value() };
            rows.push(value(&list).as_ref())?;
            rows.push(value(&register).as_ref())?;
        }
        Ok(StatementResult { rows, ..StatementResult::default() })
    }
}

pub fn open(disk: Arc<dyn Disk>, partitions: u16) -> RowEngine {
    let procedures = vec![
        Registration::new("steps_at(k BIGINT, steps TEXT) PARTITION ON (k)", 1, Steps).unwrap(),
        Registration::new("steps(steps TEXT)", 1, Steps).unwrap(),
    ];
    let log = LogSettings { commit_interval_us: 50, segment_bytes: 1 << 20, ..LogSettings::default() };
    let snapshots = SnapshotSettings { time_percent: 30, ..SnapshotSettings::default() };
    let settings = Settings { partitions, procedures, log, snapshots, seed: 5, ..Settings::default() };
    RowEngine::open(disk, settings).unwrap()
}

pub fn define(database: &RowEngine) {
    let mut session = database.session();
    session.execute("CREATE TABLE lists (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)", &[]).unwrap();
    session.execute("CREATE TABLE registers (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)", &[]).unwrap();
}

/// State that clients share.
pub struct World {
    start: Instant,
    pub steps_left: AtomicI64,
    value: AtomicI64,
    /// Appends to each slot's lists: a slot moves to another key when its list is long.
    appends: Vec<AtomicI64>,
}

impl World {
    pub fn new(steps: u64) -> Self {
        let appends = (0..SLOTS).map(|_| AtomicI64::new(0)).collect();
        let steps_left = AtomicI64::new(steps.cast_signed());
        Self { start: Instant::now(), steps_left, value: AtomicI64::new(1), appends }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn list(&self, slot: i64, append: bool) -> i64 {
        let appends = &self.appends[slot as usize];
        let count = if append { appends.fetch_add(1, Ordering::Relaxed) } else { appends.load(Ordering::Relaxed) };
        slot + SLOTS * (count / LIST_MAX)
    }

    fn ask(&self, random: &mut StdRng) -> Ask {
        let slot = random.random_range(0..SLOTS);
        let value = || self.value.fetch_add(1, Ordering::Relaxed);
        match random.random_range(0..10) {
            0..3 => Ask::Append(self.list(slot, true), value()),
            3..6 => Ask::List(self.list(slot, false)),
            6 | 7 => Ask::Register(slot),
            _ => Ask::Replace(slot, value()),
        }
    }
}

/// Runs transactions until enough steps are made.
pub fn client(database: &RowEngine, world: &World, number: usize, seed: u64) -> Vec<Transaction> {
    let mut random = StdRng::seed_from_u64(seed * 1000 + number as u64);
    let mut session = database.session();
    let mut history = Vec::new();
    while world.steps_left.load(Ordering::Relaxed) > 0 {
        // A transaction that times out must leave nothing.
        let timeout =
            if number == 0 { Duration::from_micros(random.random_range(50..2000)) } else { Duration::from_secs(60) };
        session.set_statement_timeout(Some(timeout));
        let kind = random.random_range(0..20);
        let count = if kind < 6 { 1 } else { random.random_range(1..5) };
        let mut asked: Vec<Ask> = (0..count).map(|_| world.ask(&mut random)).collect();
        if kind >= 6 && random.random_range(0..12) == 0 {
            asked.push(Ask::Abort);
        }
        let begin = world.now();
        let result = match kind {
            0..5 => single(&mut session, asked[0]),
            5 => scan(&mut session),
            6..10 => call(&mut session, "CALL steps_at($1, $2)", &asked),
            10..14 => call(&mut session, "CALL steps($1)", &asked),
            // One partition after the other, in the order of its keys.
            _ => interactive(&mut session, &asked),
        };
        let end = world.now();
        if let Err(error) = &result {
            assert!(kind >= 14 || error.sqlstate() != "40P01", "{error}");
        }
        let (outcome, steps) = match result {
            Ok(steps) => (Outcome::Committed, steps),
            Err(error) => (outcome(&error), asked.into_iter().filter_map(written).collect()),
        };
        world.steps_left.fetch_sub(steps.len() as i64, Ordering::Relaxed);
        history.push(Transaction { client: number, begin, end, outcome, steps });
    }
    history
}

fn outcome(error: &Error) -> Outcome {
    match error.sqlstate() {
        "P0001" | "40001" | "40P01" | "57014" => Outcome::Aborted,
        _ => panic!("{error}"),
    }
}

/// The write that an aborted transaction would have made.
fn written(ask: Ask) -> Option<Step> {
    match ask {
        Ask::Append(key, value) => Some(Step::Append { key, value }),
        Ask::Replace(key, value) => Some(Step::Replace { key, before: 0, value }),
        _ => None,
    }
}

/// A statement that is a transaction of its own.
fn single(session: &mut RowSession, ask: Ask) -> Result<Vec<Step>> {
    let first = |answer: &StatementResult| {
        if answer.rows.is_empty() { Value::Null } else { answer.rows.value(0, 0).to_value() }
    };
    Ok(match ask {
        Ask::Append(key, value) => {
            let answer = session.execute(APPEND, &[Value::Int(key), Value::Text(value.to_string().into())])?;
            vec![ask.done(ValueRef::Null), Ask::List(key).done(first(&answer).as_ref())]
        }
        Ask::List(key) => vec![ask.done(first(&session.execute(LIST, &[Value::Int(key)])?).as_ref())],
        Ask::Register(key) => vec![ask.done(first(&session.execute(REGISTER, &[Value::Int(key)])?).as_ref())],
        // The statement does not return the previous value.
        Ask::Replace(..) => call(session, "CALL steps($1)", &[ask])?,
        Ask::Abort => Vec::new(),
    })
}

/// All registers, in one statement over all partitions.
fn scan(session: &mut RowSession) -> Result<Vec<Step>> {
    let answer = session.execute("SELECT k, v FROM registers", &[])?;
    let int = |row, column| if let ValueRef::Int(value) = answer.rows.value(row, column) { value } else { 0 };
    let rows = (0..answer.rows.len()).map(|row| Step::ReadRegister { key: int(row, 0), value: int(row, 1) });
    Ok(rows.collect())
}

fn call(session: &mut RowSession, sql: &str, asked: &[Ask]) -> Result<Vec<Step>> {
    let text = asked.iter().map(|ask| ask.encode()).collect::<Vec<_>>().join(";");
    let key = match asked[0] {
        Ask::Append(key, _) | Ask::List(key) | Ask::Register(key) | Ask::Replace(key, _) => key,
        Ask::Abort => 0,
    };
    let arguments = [Value::Int(key), Value::Text(text.into())];
    let arguments = if sql.contains("$2") { &arguments[..] } else { &arguments[1..] };
    let answer = session.execute(sql, arguments)?;
    let steps = asked.iter().enumerate().map(|(row, ask)| {
        let column = usize::from(!matches!(ask, Ask::List(_)));
        ask.done(answer.rows.value(row, column))
    });
    Ok(steps.collect())
}

fn interactive(session: &mut RowSession, asked: &[Ask]) -> Result<Vec<Step>> {
    session.execute("BEGIN", &[])?;
    let mut steps = Vec::new();
    for ask in asked {
        let result = match ask {
            Ask::Abort => Err(Class::Raised.error("on purpose")),
            Ask::Replace(key, value) => session.execute(REGISTER, &[Value::Int(*key)]).and_then(|answer| {
                session.execute(REPLACE, &[Value::Int(*key), Value::Int(*value)])?;
                Ok(vec![ask.done(if answer.rows.is_empty() { ValueRef::Null } else { answer.rows.value(0, 0) })])
            }),
            _ => single(session, *ask),
        };
        match result {
            Ok(done) => steps.extend(done),
            Err(error) => {
                session.execute("ROLLBACK", &[])?;
                return Err(error);
            }
        }
    }
    session.execute("COMMIT", &[])?;
    Ok(steps)
}

/// All lists and registers, in one transaction.
pub fn final_reads(database: &RowEngine, world: &World) -> Transaction {
    let begin = world.now();
    let mut session = database.session();
    session.execute("BEGIN", &[]).unwrap();
    let lists = session.execute("SELECT k, v FROM lists ORDER BY k", &[]).unwrap();
    let mut steps = scan(&mut session).unwrap();
    session.execute("COMMIT", &[]).unwrap();
    for row in 0..lists.rows.len() {
        let ValueRef::Int(key) = lists.rows.value(row, 0) else { panic!("a key") };
        steps.push(Step::ReadList { key, list: list(lists.rows.value(row, 1)) });
    }
    Transaction { client: usize::MAX, begin, end: world.now(), outcome: Outcome::Committed, steps }
}
