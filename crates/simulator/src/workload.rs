//! Requests of clients.

use std::collections::BTreeMap;

use thermocline_machine::random::Random;
use thermocline_statements::{Rows, StatementResult};
use thermocline_types::{Value, ValueRef};

use super::history::Step;

/// Number of keys of an era.
const ERA: i64 = 1000;
/// Lists and registers in use at a time.
const SLOTS: u64 = 6;
/// Approximate number of elements of a list.
const LIST_MAX: i64 = 12;
/// Registers from this number on are rows of the replicated table.
const FIRST_SETTING: i64 = 1_000_000;
const SETTINGS: u64 = 3;
/// A value that no register has.
const FROM_THE_FUTURE: i64 = -1;
/// Loads are appends to lists from this number on, each to its own list; odd numbers load into the replicated table.
const FIRST_LOAD: i64 = 2_000_000;
/// Upper bound for the rows of a load.
const LOAD_ROWS: i64 = 16;
/// Value of an added column.
const ADDED: i64 = 3;
/// Bytes of a large value.
const BLOB_BYTES: u64 = 12_000;

/// The tables and the procedure of every run, defined through the log.
pub const DEFINITIONS: [&str; 7] = [
    "CREATE TABLE lists (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)",
    "CREATE TABLE registers (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, note TEXT NOT NULL, at TIMESTAMP NOT NULL) \
     PARTITION BY (k)",
    "CREATE TABLE settings (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, kind BIGINT NOT NULL)",
    "CREATE TABLE blobs (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)",
    "CREATE TABLE loaded (k BIGINT PRIMARY KEY, load BIGINT NOT NULL, total BIGINT NOT NULL) PARTITION BY (k)",
    "CREATE TABLE loaded_everywhere (k BIGINT PRIMARY KEY, load BIGINT NOT NULL, total BIGINT NOT NULL)",
    "CREATE PROCEDURE in_lua(k BIGINT, v BIGINT, spin BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
       local list = db.value([[INSERT INTO lists (k, v) VALUES ($1, $2) ON CONFLICT (k)
                               DO UPDATE SET v = lists.v || ',' || excluded.v RETURNING v]], k, tostring(v))
       db.execute('UPDATE registers SET note = $2 WHERE k = $1', k, tostring(math.random(0) % 1000))
       for i = 1, spin do end
       return list
     $$",
];

/// Definitions that come and go while transactions run; some fail where they do not fit.
const CHANGES: [&str; 23] = [
    "CREATE INDEX registers_v ON registers (v)",
    "DROP INDEX registers_v",
    "CREATE INDEX lists_v ON lists (v)",
    "DROP INDEX lists_v",
    "CREATE UNIQUE INDEX registers_kv ON registers USING HASH (v, k)",
    "DROP INDEX registers_kv",
    "CREATE UNIQUE INDEX settings_kind ON settings (kind)",
    "DROP INDEX settings_kind",
    "CREATE TABLE scratch (a BIGINT PRIMARY KEY, b TEXT) PARTITION BY (a)",
    "DROP TABLE scratch",
    "ALTER TABLE lists ADD COLUMN added BIGINT NOT NULL DEFAULT 7",
    "ALTER TABLE registers ADD COLUMN added TEXT DEFAULT 'added'",
    "CREATE INDEX loaded_load ON loaded (load)",
    "DROP INDEX loaded_load",
    "CREATE UNIQUE INDEX everywhere_load ON loaded_everywhere (load, k)",
    "DROP INDEX everywhere_load",
    "ALTER TABLE loaded ADD COLUMN added BIGINT NOT NULL DEFAULT 3",
    "ALTER TABLE loaded_everywhere ADD COLUMN added BIGINT DEFAULT 3",
    // With either of these, changes of evicted rows read what others need not.
    "CREATE INDEX blobs_again ON blobs (k)",
    "DROP INDEX blobs_again",
    "ALTER TABLE blobs ADD COLUMN added BIGINT NOT NULL DEFAULT 5",
    "CREATE PROCEDURE nothing(k BIGINT) PARTITION ON (k) LANGUAGE sql AS $$ SELECT v FROM lists WHERE lists.k = $1 $$",
    "DROP PROCEDURE nothing",
];

pub const APPEND: &str = "INSERT INTO lists (k, v) VALUES ($1, $2) ON CONFLICT (k) \
                      DO UPDATE SET v = lists.v || ',' || excluded.v RETURNING v";
pub const LIST: &str = "SELECT v FROM lists WHERE k = $1";
pub const REGISTER: &str = "SELECT v, at > now() FROM registers WHERE k = $1";
pub const REPLACE: &str = "INSERT INTO registers (k, v, note, at) VALUES ($1, $2, $3, now()) ON CONFLICT (k) \
                       DO UPDATE SET v = excluded.v, note = excluded.note, at = excluded.at";
pub const SETTING: &str = "SELECT v FROM settings WHERE k = $1";
pub const SET: &str = "INSERT INTO settings (k, v, kind) VALUES ($1, $2, $3) ON CONFLICT (k) \
                   DO UPDATE SET v = excluded.v, kind = excluded.kind";
pub const GROW: &str =
    "INSERT INTO blobs (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = blobs.v || excluded.v";
/// Changes of rows whose keys are known, which need not be read for it.
pub const REMOVE: &str = "DELETE FROM blobs WHERE k = $1";
pub const BLANK: &str = "UPDATE blobs SET v = $2 WHERE k = $1";
const SHRINK: &str = "DELETE FROM blobs";
pub const SCAN: &str = "SELECT k, v, at > now() FROM registers";
const BY_VALUE: &str = "SELECT k, v, at > now() FROM registers WHERE v = $1";
const PAIR: &str = "SELECT k, v, at > now() FROM registers WHERE k IN ($1, $2)";
const NOTE: &str = "UPDATE registers SET note = $3 WHERE k IN ($1, $2)";
const LISTS: &str = "SELECT k, v FROM lists";

/// Tables that are loaded: the partitioned one, then the replicated one. The texts below have the same order.
pub const LOADED: [&str; 2] = ["loaded", "loaded_everywhere"];
/// Query for the load of a row.
pub const LOAD_OF: [&str; 2] =
    ["SELECT load FROM loaded WHERE k = $1", "SELECT load FROM loaded_everywhere WHERE k = $1"];
const LOADS: [&str; 2] = [
    "SELECT load, count(*), min(total) FROM loaded GROUP BY load",
    "SELECT load, count(*), min(total) FROM loaded_everywhere GROUP BY load",
];
/// [`LOADS`] once the added column exists.
const LOADS_ADDED: [&str; 2] = [
    "SELECT load, count(*), min(total), min(added), max(added) FROM loaded GROUP BY load",
    "SELECT load, count(*), min(total), min(added), max(added) FROM loaded_everywhere GROUP BY load",
];
const ONE_LOAD: [&str; 2] = [
    "SELECT load, count(*), min(total) FROM loaded WHERE load = $1 GROUP BY load",
    "SELECT load, count(*), min(total) FROM loaded_everywhere WHERE load = $1 GROUP BY load",
];
const RIVAL: [&str; 2] = [
    "INSERT INTO loaded (k, load, total) VALUES ($1, $2, 1)",
    "INSERT INTO loaded_everywhere (k, load, total) VALUES ($1, $2, 1)",
];

/// The text for the table of a load.
fn text_of(texts: [&'static str; 2], load: i64) -> &'static str {
    let [partitioned, replicated] = texts;
    if load % 2 == 0 { partitioned } else { replicated }
}

/// The statement without its check of time, for a transaction that gets a partition after its timestamp is fixed.
pub fn late(sql: &'static str) -> &'static str {
    match sql {
        REGISTER => "SELECT v, false FROM registers WHERE k = $1",
        SCAN => "SELECT k, v, false FROM registers",
        BY_VALUE => "SELECT k, v, false FROM registers WHERE v = $1",
        PAIR => "SELECT k, v, false FROM registers WHERE k IN ($1, $2)",
        sql => sql,
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// List, value.
    Append(i64, i64),
    /// List.
    List(i64),
    /// Register.
    Register(i64),
    /// Register, value.
    Replace(i64, i64),
    /// Key of a load's row.
    Loaded(i64),
    /// Key, bytes: large values, which exceed a memory limit sooner or later.
    Grow(i64, u64),
    /// Reads all registers many times: more rows than a procedure may, once there are a few.
    Many,
    /// Fails on purpose.
    Abort,
}

impl Ask {
    /// Value of its partition column.
    pub fn key(self) -> i64 {
        match self {
            Self::Append(key, _) | Self::List(key) | Self::Register(key) | Self::Replace(key, _) => key,
            Self::Grow(key, _) | Self::Loaded(key) => key,
            Self::Many | Self::Abort => 0,
        }
    }

    fn encode(self) -> String {
        match self {
            Self::Append(key, value) => format!("a {key} {value}"),
            Self::List(key) => format!("l {key} 0"),
            Self::Register(key) => format!("r {key} 0"),
            Self::Replace(key, value) => format!("w {key} {value}"),
            Self::Grow(key, bytes) => format!("g {key} {bytes}"),
            Self::Loaded(key) => format!("b {key} 0"),
            Self::Many => "m 0 0".into(),
            Self::Abort => "x 0 0".into(),
        }
    }

    pub fn decode(text: &str) -> Self {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0_i64);
        let (key, value) = (number(), number());
        match name {
            "a" => Self::Append(key, value),
            "l" => Self::List(key),
            "r" => Self::Register(key),
            "w" => Self::Replace(key, value),
            "g" => Self::Grow(key, value.unsigned_abs()),
            "b" => Self::Loaded(key),
            "m" => Self::Many,
            _ => Self::Abort,
        }
    }

    /// Operation, with the value that it saw.
    fn done(self, seen: ValueRef<'_>) -> Option<Step> {
        let number = || if let ValueRef::Int(number) = seen { number } else { 0 };
        Some(match self {
            Self::Append(key, value) => Step::Append { key, value },
            Self::List(key) => Step::ReadList { key, list: list(seen) },
            Self::Register(key) => Step::ReadRegister { key, value: number() },
            Self::Replace(key, value) => Step::Replace { key, before: number(), value },
            // The row may belong to another load, and is then missing from this one.
            Self::Loaded(key) => match number() {
                0 => Step::ReadList { key: key / LOAD_ROWS, list: Vec::new() },
                load => Step::ReadList { key: load, list: vec![load] },
            },
            Self::Grow(..) | Self::Many | Self::Abort => return None,
        })
    }

    /// Operation that it would have made.
    pub fn written(self) -> Option<Step> {
        match self {
            Self::Append(key, value) => Some(Step::Append { key, value }),
            Self::Replace(key, value) => Some(Step::Replace { key, before: 0, value }),
            _ => None,
        }
    }

    /// Its statements with parameters.
    pub fn statements(self) -> Vec<(&'static str, Vec<Value>)> {
        let (read, write) = if self.key() >= FIRST_SETTING { (SETTING, SET) } else { (REGISTER, REPLACE) };
        match self {
            Self::Append(key, value) => {
                vec![(APPEND, vec![Value::Int(key), Value::Text(value.to_string().into())])]
            }
            Self::List(key) => vec![(LIST, vec![Value::Int(key)])],
            Self::Register(key) => vec![(read, vec![Value::Int(key)])],
            Self::Replace(key, value) => {
                let last = if write == REPLACE { Value::Text(note(value).into()) } else { Value::Int(value % 7) };
                let written = vec![Value::Int(key), Value::Int(value), last];
                vec![(read, vec![Value::Int(key)]), (write, written)]
            }
            Self::Grow(key, bytes) => {
                let text = Value::Text("g".repeat(usize::try_from(bytes).unwrap_or(0)).into());
                match bytes % 8 {
                    0 => vec![(REMOVE, vec![Value::Int(key)])],
                    1 => vec![(BLANK, vec![Value::Int(key), text])],
                    _ => vec![(GROW, vec![Value::Int(key), text])],
                }
            }
            Self::Loaded(key) => vec![(text_of(LOAD_OF, key / LOAD_ROWS), vec![Value::Int(key)])],
            Self::Many => vec![(SCAN, Vec::new()); 30],
            Self::Abort => Vec::new(),
        }
    }

    /// Operations, from the answer of its first statement.
    pub fn seen(self, answer: &StatementResult) -> Vec<Step> {
        let rows = &answer.rows;
        let first = if rows.is_empty() { ValueRef::Null } else { value(rows, 0, 0) };
        let also = if let Self::Append(key, _) = self { Self::List(key).done(first) } else { None };
        self.done(first).into_iter().chain(also).collect()
    }
}

/// First request of a session's transaction, for its partitions; `None` for all partitions.
pub fn first(over: Over, parts: &[Part]) -> Option<(Text, Vec<Value>)> {
    match (over, parts) {
        (Over::All, _) | (_, []) => None,
        (Over::Two, [one, other, ..]) => Some(pair([one.key()?, other.key()?])),
        (_, [first, ..]) => first.statements(true).into_iter().next(),
    }
}

/// Reads two registers.
fn pair([one, other]: [i64; 2]) -> (Text, Vec<Value>) {
    (Text::Statement(PAIR), vec![Value::Int(one), Value::Int(other)])
}

/// Text that belongs to a value; lengths differ so that rows move.
fn note(value: i64) -> String {
    "n".repeat(usize::try_from(value.rem_euclid(37)).unwrap_or(0))
}

/// Value of a row's column. If the column after a register's last says that the register was written in the future,
/// returns a value that nobody writes.
pub fn value(rows: &Rows, row: usize, column: usize) -> ValueRef<'_> {
    let mut behind = rows.row(row).skip(column + 1);
    if behind.len() == 1 && behind.next() == Some(ValueRef::Boolean(true)) {
        return ValueRef::Int(FROM_THE_FUTURE);
    }
    rows.value(row, column)
}

/// The elements of a list.
pub fn list(seen: ValueRef<'_>) -> Vec<i64> {
    match seen {
        ValueRef::Text(text) => text.split(',').filter_map(|element| element.parse().ok()).collect(),
        _ => Vec::new(),
    }
}

/// Rows of loads that a client has seen.
#[derive(Debug, Default)]
pub struct Loaded {
    /// By load: rows seen, and the load's total according to the rows.
    rows: BTreeMap<i64, (i64, i64)>,
}

impl Loaded {
    /// Adds a row.
    pub fn add(&mut self, load: i64, total: i64) {
        let (count, _) = self.rows.entry(load).or_insert((0, total));
        *count += 1;
    }

    /// Steps for the loads; one that was seen in part becomes a value that nobody writes.
    pub fn steps(&self) -> Vec<Step> {
        self.rows.iter().map(|(load, (count, total))| seen_load(*load, *count, *total, true)).collect()
    }
}

fn seen_load(load: i64, count: i64, total: i64, is_right: bool) -> Step {
    Step::ReadList { key: load, list: vec![if count == total && is_right { load } else { -count }] }
}

/// A bulk load.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Number of the table in [`LOADED`].
    pub table: usize,
    /// Number of the load, which is in all of its rows.
    pub load: i64,
    /// Number of its rows.
    pub total: i64,
    /// Key of another load's row that comes last and clashes; `None` for no such row.
    clash: Option<i64>,
    /// Rows after which its client gives up; `None` if it does not.
    pub gives_up_after: Option<i64>,
}

impl LoadPlan {
    /// Key of a row; `None` after the last.
    pub fn key(&self, number: i64) -> Option<i64> {
        if number >= self.total {
            return None;
        }
        let own = self.load * LOAD_ROWS + number;
        Some(self.clash.filter(|_| number + 1 == self.total).unwrap_or(own))
    }

    /// Operations that it would have made.
    pub fn written(&self) -> Vec<Step> {
        vec![Step::Append { key: self.load, value: self.load }]
    }
}

/// Next action of a client.
#[derive(Debug, Clone)]
pub enum Plan {
    /// A bulk load.
    Load(LoadPlan),
    /// All loads of a table, or one, perhaps with the added column.
    Loads { table: usize, of: Option<i64>, added: bool },
    /// Inserts a row with the key of a row of a load, as a load of its own.
    Rival { key: i64, load: i64 },
    /// A statement that is a transaction of its own.
    Statement(Ask),
    /// All registers, or those with a value.
    Scan(Option<i64>),
    /// Reads two registers, mostly in two of several partitions; may write a text to them.
    Pair { keys: [i64; 2], note: Option<i64> },
    /// All lists.
    Lists,
    /// Removes large values.
    Shrink,
    /// A procedure in Rust, called for the partition of its first step, which need not be its only one, or for all.
    Steps { at_first: bool, asks: Vec<Ask> },
    /// A procedure in Lua, with `spin` iterations of a loop.
    Lua { key: i64, value: i64, spin: i64 },
    /// A transaction of a session.
    Session { over: Over, parts: Vec<Part>, ending: Ending },
    /// A change of the schema.
    Define(&'static str),
}

/// A part of a session's transaction: one statement or several.
#[derive(Debug, Clone)]
pub enum Part {
    Ask(Ask),
    /// A [`Plan::Steps`], which may need partitions that it is not called for, a [`Plan::Scan`] or a [`Plan::Pair`].
    Call(Box<Plan>),
}

impl Part {
    /// Its statements with parameters; `is_late` if its partitions may have come late.
    pub fn statements(&self, is_late: bool) -> Vec<(Text, Vec<Value>)> {
        let statements: Vec<_> = match self {
            Self::Ask(ask) => {
                ask.statements().into_iter().map(|(sql, parameters)| (Text::Statement(sql), parameters)).collect()
            }
            Self::Call(plan) => plan.call().into_iter().collect(),
        };
        let of = |(text, parameters)| match text {
            Text::Statement(sql) if is_late => (Text::Statement(late(sql)), parameters),
            Text::Procedure("steps_at") if is_late => (Text::Procedure("steps_late"), parameters),
            text => (text, parameters),
        };
        statements.into_iter().map(of).collect()
    }

    /// Operations, from the answer of its first statement.
    pub fn seen(&self, plans: &Plans, answer: &StatementResult) -> Vec<Step> {
        match self {
            Self::Ask(ask) => ask.seen(answer),
            Self::Call(plan) => plans.seen(plan, answer),
        }
    }

    /// Operations that it would have made.
    pub fn written(&self) -> Vec<Step> {
        match self {
            Self::Ask(ask) => ask.written().into_iter().collect(),
            Self::Call(plan) => plan.written(),
        }
    }

    fn key(&self) -> Option<i64> {
        if let Self::Ask(ask) = self { Some(ask.key()) } else { None }
    }
}

/// The partitions that a session's transaction gets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    All,
    /// The partition of its first step.
    First,
    /// Those of its first two steps.
    Two,
}

/// How a session's transaction ends, unless it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Commit,
    Rollback,
    /// Stays idle for a time, which may exceed the limit, then commits.
    Pause,
}

impl Plan {
    /// Operations that it would make.
    pub fn written(&self) -> Vec<Step> {
        match self {
            Self::Statement(ask) => ask.written().into_iter().collect(),
            Self::Steps { asks, .. } => asks.iter().filter_map(|ask| ask.written()).collect(),
            Self::Session { parts, .. } => parts.iter().flat_map(Part::written).collect(),
            Self::Lua { key, value, .. } => vec![Step::Append { key: *key, value: *value }],
            Self::Load(plan) => plan.written(),
            Self::Rival { load, .. } => vec![Step::Append { key: *load, value: *load }],
            Self::Scan(_) | Self::Pair { .. } | Self::Lists | Self::Loads { .. } | Self::Shrink | Self::Define(_) => {
                Vec::new()
            }
        }
    }

    /// Its text or procedure with parameters; `None` if it needs several.
    pub fn call(&self) -> Option<(Text, Vec<Value>)> {
        Some(match self {
            Self::Statement(ask) => {
                let (sql, parameters) = ask.statements().into_iter().next()?;
                (Text::Statement(sql), parameters)
            }
            Self::Scan(None) => (Text::Statement(SCAN), Vec::new()),
            Self::Scan(Some(value)) => (Text::Statement(BY_VALUE), vec![Value::Int(*value)]),
            Self::Pair { keys, note: None } => pair(*keys),
            Self::Pair { keys: [one, other], note: Some(length) } => {
                let text = Value::Text(note(*length).into());
                (Text::Statement(NOTE), vec![Value::Int(*one), Value::Int(*other), text])
            }
            Self::Lists => (Text::Statement(LISTS), Vec::new()),
            Self::Shrink => (Text::Statement(SHRINK), Vec::new()),
            Self::Steps { at_first, asks } => {
                let text = asks.iter().map(|ask| ask.encode()).collect::<Vec<_>>().join(";");
                let steps = Value::Text(text.into());
                let key = asks.first().map_or(0, |ask| ask.key());
                if *at_first {
                    (Text::Procedure("steps_at"), vec![Value::Int(key), steps])
                } else {
                    (Text::Procedure("steps"), vec![steps])
                }
            }
            Self::Lua { key, value, spin } => {
                (Text::Procedure("in_lua"), vec![Value::Int(*key), Value::Int(*value), Value::Int(*spin)])
            }
            Self::Loads { of: Some(load), .. } => (Text::Statement(text_of(ONE_LOAD, *load)), vec![Value::Int(*load)]),
            Self::Loads { table, added, .. } => {
                let texts = if *added { LOADS_ADDED } else { LOADS };
                (Text::Statement(texts.get(*table).copied().unwrap_or_default()), Vec::new())
            }
            Self::Rival { key, load } => {
                (Text::Statement(text_of(RIVAL, *load)), vec![Value::Int(*key), Value::Int(*load)])
            }
            Self::Load(_) | Self::Session { .. } | Self::Define(_) => return None,
        })
    }

    /// Operations, from the answer to its [call](Self::call).
    fn seen(&self, answer: &StatementResult) -> Vec<Step> {
        let rows = &answer.rows;
        let int = |row, column| if let ValueRef::Int(value) = value(rows, row, column) { value } else { 0 };
        let all = 0..rows.len();
        match self {
            Self::Statement(ask) => ask.seen(answer),
            Self::Scan(_) => all.map(|row| Step::ReadRegister { key: int(row, 0), value: int(row, 1) }).collect(),
            Self::Pair { keys, note: None } => {
                let found = |key| all.clone().find(|row| int(*row, 0) == key).map_or(0, |row| int(row, 1));
                keys.iter().map(|key| Step::ReadRegister { key: *key, value: found(*key) }).collect()
            }
            Self::Lists => all.map(|row| Step::ReadList { key: int(row, 0), list: list(rows.value(row, 1)) }).collect(),
            Self::Steps { asks, .. } => all
                .zip(asks)
                .filter_map(|(row, ask)| ask.done(rows.value(row, usize::from(!matches!(ask, Ask::List(_))))))
                .collect(),
            Self::Lua { key, value, .. } => Ask::Append(*key, *value).seen(answer),
            Self::Loads { added, .. } => all
                .map(|row| {
                    let is_right = !added || (int(row, 3), int(row, 4)) == (ADDED, ADDED);
                    seen_load(int(row, 0), int(row, 1), int(row, 2), is_right)
                })
                .collect(),
            Self::Rival { .. } => self.written(),
            Self::Pair { .. } | Self::Load(_) | Self::Shrink | Self::Session { .. } | Self::Define(_) => Vec::new(),
        }
    }
}

/// Statement text or procedure of a [`Plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    Statement(&'static str),
    Procedure(&'static str),
}

/// Draws plans. A slot moves to another key when its list is long.
#[derive(Debug)]
pub struct Plans {
    value: i64,
    appends: Vec<i64>,
    /// Number of the era; each has its own keys of lists and registers.
    era: i64,
    /// Loads of this era, with the number with which only their keys begin.
    loads: Vec<(i64, i64)>,
}

impl Plans {
    pub fn new() -> Self {
        Self { value: 0, appends: vec![0; usize::try_from(SLOTS).unwrap_or(0)], era: 0, loads: Vec::new() }
    }

    /// Begins an era: data written before is no longer read.
    pub fn next_era(&mut self) {
        self.era += 1;
        self.loads.clear();
    }

    /// Adds that the other loads, of one table or both, were not seen.
    pub fn seen_loads(&self, table: Option<usize>, mut seen: Vec<Step>) -> Vec<Step> {
        let others: Vec<_> = self
            .loads
            .iter()
            .map(|(load, _)| *load)
            .filter(|load| table.is_none_or(|table| (load % 2 != 0) == (table != 0)))
            .filter(|load| !seen.iter().any(|step| matches!(step, Step::ReadList { key, .. } if key == load)))
            .collect();
        seen.extend(others.into_iter().map(|key| Step::ReadList { key, list: Vec::new() }));
        seen
    }

    /// Operations, from the answer to a plan's [call](Plan::call).
    pub fn seen(&self, plan: &Plan, answer: &StatementResult) -> Vec<Step> {
        let seen = plan.seen(answer);
        match plan {
            Plan::Loads { of: Some(load), .. } if seen.is_empty() => {
                vec![Step::ReadList { key: *load, list: Vec::new() }]
            }
            Plan::Loads { of: None, table, .. } => self.seen_loads(Some(*table), seen),
            _ => seen,
        }
    }

    /// Number of a new load into this table.
    fn next_load(&mut self, table: usize, own: i64) -> i64 {
        let number = FIRST_LOAD + self.era * ERA + 2 * self.loads.len() as i64 + i64::from(table != 0);
        self.loads.push((number, own));
        number
    }

    /// Key of a row of a load.
    fn loaded(&self, random: &mut Random) -> Option<i64> {
        let (load, own) = random.pick(&self.loads).copied().filter(|(_, own)| *own > 0)?;
        Some(load * LOAD_ROWS + random.below(own.unsigned_abs()).cast_signed())
    }

    fn load(&mut self, random: &mut Random) -> Plan {
        let table = random.index(LOADED.len());
        let clash = self.loaded(random).filter(|key| (key / LOAD_ROWS % 2 != 0) == (table != 0) && random.one_in(4));
        let total = 1 + random.below(LOAD_ROWS.unsigned_abs() - 2).cast_signed();
        let gives_up_after = random.one_in(4).then(|| random.below(LOAD_ROWS.unsigned_abs()).cast_signed());
        let own = total - i64::from(clash.is_some());
        Plan::Load(LoadPlan { table, load: self.next_load(table, own), total, clash, gives_up_after })
    }

    fn rival(&mut self, random: &mut Random) -> Option<Plan> {
        let key = self.loaded(random)?;
        let table = usize::from(key / LOAD_ROWS % 2 != 0);
        Some(Plan::Rival { key, load: self.next_load(table, 0) })
    }

    fn loads(&self, random: &mut Random) -> Plan {
        let of = random.pick(&self.loads).filter(|_| random.clone().one_in(2)).map(|(load, _)| *load);
        Plan::Loads { table: random.index(LOADED.len()), of, added: of.is_none() && random.one_in(3) }
    }

    /// Whether a step belongs to this era.
    pub fn is_current(&self, step: &Step) -> bool {
        let (Step::Append { key, .. }
        | Step::ReadList { key, .. }
        | Step::Replace { key, .. }
        | Step::ReadRegister { key, .. }) = step;
        key % FIRST_SETTING / ERA == self.era
    }

    fn value(&mut self) -> i64 {
        self.value += 1;
        self.value
    }

    fn list(&mut self, random: &mut Random, append: bool) -> i64 {
        let slot = random.below(SLOTS).cast_signed();
        let count = usize::try_from(slot).ok().and_then(|slot| self.appends.get_mut(slot));
        let turn = count.map_or(0, |count| {
            *count += i64::from(append);
            *count / LIST_MAX
        });
        slot + SLOTS.cast_signed() * turn + self.era * ERA
    }

    fn register(&self, random: &mut Random) -> i64 {
        let setting = random.one_in(6);
        let (first, count) = if setting { (FIRST_SETTING, SETTINGS) } else { (0, SLOTS) };
        first + random.below(count).cast_signed() + self.era * ERA
    }

    fn ask(&mut self, random: &mut Random) -> Ask {
        if random.one_in(12)
            && let Some(key) = self.loaded(random)
        {
            return Ask::Loaded(key);
        }
        match random.below(20) {
            0..7 => Ask::Append(self.list(random, true), self.value()),
            7..12 => Ask::List(self.list(random, false)),
            12..15 => Ask::Register(self.register(random)),
            15..19 => Ask::Replace(self.register(random), self.value()),
            _ => Ask::Grow(random.below(4).cast_signed(), random.below(BLOB_BYTES)),
        }
    }

    fn asks(&mut self, random: &mut Random) -> Vec<Ask> {
        let count = 1 + random.index(4);
        let mut asks: Vec<_> = (0..count).map(|_| self.ask(random)).collect();
        match random.below(40) {
            0 => asks.push(Ask::Many),
            1 | 2 => asks.push(Ask::Abort),
            3 => asks.push(Ask::Grow(1, 20 * BLOB_BYTES + 2)),
            _ => {}
        }
        asks
    }

    fn parts(&mut self, random: &mut Random) -> Vec<Part> {
        let mut parts: Vec<_> = self.asks(random).into_iter().map(Part::Ask).collect();
        if random.one_in(3) {
            let plan = match random.below(6) {
                4 => self.loads(random),
                5 => self.rival(random).unwrap_or(Plan::Lists),
                0 => Plan::Scan(random.one_in(2).then(|| random.below(40).cast_signed())),
                1 => {
                    let mut key = || random.below(SLOTS).cast_signed() + self.era * ERA;
                    Plan::Pair { keys: [key(), key()], note: random.one_in(2).then_some(7) }
                }
                _ => Plan::Steps { at_first: true, asks: vec![self.ask(random), self.ask(random), self.ask(random)] },
            };
            parts.insert(random.index(parts.len() + 1), Part::Call(Box::new(plan)));
        }
        parts
    }

    /// Any plan.
    pub fn next(&mut self, random: &mut Random) -> Plan {
        match random.below(50) {
            0..11 => match self.ask(random) {
                // The statement does not return the previous value.
                ask @ Ask::Replace(..) => Plan::Steps { at_first: true, asks: vec![ask] },
                ask => Plan::Statement(ask),
            },
            11..19 => Plan::Steps { at_first: true, asks: self.asks(random) },
            19..25 => Plan::Steps { at_first: false, asks: self.asks(random) },
            25..28 => Plan::Lua {
                key: self.list(random, true),
                value: self.value(),
                spin: if random.one_in(6) { 1_000_000 } else { random.below(20).cast_signed() },
            },
            28..31 => Plan::Scan(random.one_in(2).then(|| random.below(40).cast_signed())),
            31 => Plan::Lists,
            32 => Plan::Shrink,
            33..38 => Plan::Session {
                over: *random
                    .pick(&[Over::All, Over::First, Over::First, Over::First, Over::Two])
                    .unwrap_or(&Over::All),
                parts: self.parts(random),
                ending: *random
                    .pick(&[Ending::Commit, Ending::Commit, Ending::Rollback, Ending::Pause])
                    .unwrap_or(&Ending::Commit),
            },
            38 | 39 => {
                let mut key = || random.below(SLOTS).cast_signed() + self.era * ERA;
                let keys = [key(), key()];
                Plan::Pair { keys, note: random.one_in(2).then(|| random.below(40).cast_signed()) }
            }
            40..43 => self.load(random),
            43 => self.rival(random).unwrap_or(Plan::Lists),
            44..47 => self.loads(random),
            _ => Plan::Define(random.pick(&CHANGES).copied().unwrap_or_default()),
        }
    }
}
