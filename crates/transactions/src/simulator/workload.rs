//! What clients ask for.

use super::history::Step;
use crate::database::Answer;
use crate::random::Random;
use crate::sql::Rows;
use crate::types::{Value, ValueRef};

/// Keys of an era.
const ERA: i64 = 1000;
/// Lists and registers that are used at a time.
const SLOTS: u64 = 6;
/// Elements of a list, about.
const LIST_MAX: i64 = 12;
/// Registers from this number on are rows of the replicated table.
const FIRST_SETTING: i64 = 1_000_000;
const SETTINGS: u64 = 3;
/// A value that no register has.
const FROM_THE_FUTURE: i64 = -1;
/// Bytes of a large value.
const BLOB_BYTES: u64 = 12_000;

/// The tables and the procedure that there always are; made through the log like everything else.
pub const DEFINITIONS: [&str; 5] = [
    "CREATE TABLE lists (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)",
    "CREATE TABLE registers (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, note TEXT NOT NULL, at TIMESTAMP NOT NULL) \
     PARTITION BY (k)",
    "CREATE TABLE settings (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, kind BIGINT NOT NULL)",
    "CREATE TABLE blobs (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)",
    "CREATE PROCEDURE in_lua(k BIGINT, v BIGINT, spin BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
       local list = db.value([[INSERT INTO lists (k, v) VALUES ($1, $2) ON CONFLICT (k)
                               DO UPDATE SET v = lists.v || ',' || excluded.v RETURNING v]], k, tostring(v))
       db.execute('UPDATE registers SET note = $2 WHERE k = $1', k, tostring(math.random(0) % 1000))
       for i = 1, spin do end
       return list
     $$",
];

/// Definitions that come and go while transactions run; some fail where they do not fit.
const CHANGES: [&str; 14] = [
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
const SHRINK: &str = "DELETE FROM blobs";
pub const SCAN: &str = "SELECT k, v, at > now() FROM registers";
const BY_VALUE: &str = "SELECT k, v, at > now() FROM registers WHERE v = $1";
const PAIR: &str = "SELECT k, v, at > now() FROM registers WHERE k IN ($1, $2)";
const NOTE: &str = "UPDATE registers SET note = $3 WHERE k IN ($1, $2)";
const LISTS: &str = "SELECT k, v FROM lists";

/// The same without a look at the time: of a transaction that gets a partition later than it has its time.
pub fn late(sql: &'static str) -> &'static str {
    match sql {
        REGISTER => "SELECT v, false FROM registers WHERE k = $1",
        SCAN => "SELECT k, v, false FROM registers",
        BY_VALUE => "SELECT k, v, false FROM registers WHERE v = $1",
        PAIR => "SELECT k, v, false FROM registers WHERE k IN ($1, $2)",
        sql => sql,
    }
}

/// One thing that a transaction does.
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
    /// Key, bytes: large values, which pass a limit on memory sooner or later.
    Grow(i64, u64),
    /// Reads more rows than a transaction may.
    Many,
    /// Fails on purpose.
    Abort,
}

impl Ask {
    /// The value of the partition column that it is about.
    pub fn key(self) -> i64 {
        match self {
            Self::Append(key, _) | Self::List(key) | Self::Register(key) | Self::Replace(key, _) => key,
            Self::Grow(key, _) => key,
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
            "m" => Self::Many,
            _ => Self::Abort,
        }
    }

    /// What was done, from what was seen.
    fn done(self, seen: ValueRef<'_>) -> Option<Step> {
        let number = || if let ValueRef::Int(number) = seen { number } else { 0 };
        Some(match self {
            Self::Append(key, value) => Step::Append { key, value },
            Self::List(key) => Step::ReadList { key, list: list(seen) },
            Self::Register(key) => Step::ReadRegister { key, value: number() },
            Self::Replace(key, value) => Step::Replace { key, before: number(), value },
            Self::Grow(..) | Self::Many | Self::Abort => return None,
        })
    }

    /// What it would have written.
    pub fn written(self) -> Option<Step> {
        match self {
            Self::Append(key, value) => Some(Step::Append { key, value }),
            Self::Replace(key, value) => Some(Step::Replace { key, before: 0, value }),
            _ => None,
        }
    }

    /// The statements that do it, with their parameters.
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
                let text = "g".repeat(usize::try_from(bytes).unwrap_or(0));
                vec![(GROW, vec![Value::Int(key), Value::Text(text.into())])]
            }
            Self::Many => vec![(SCAN, Vec::new()); 30],
            Self::Abort => Vec::new(),
        }
    }

    /// What was done, from the answer of its first statement.
    pub fn seen(self, answer: &Answer) -> Vec<Step> {
        let rows = &answer.rows;
        let first = if rows.is_empty() { ValueRef::Null } else { value(rows, 0, 0) };
        let also = if let Self::Append(key, _) = self { Self::List(key).done(first) } else { None };
        self.done(first).into_iter().chain(also).collect()
    }
}

/// What a session's transaction begins with, for its partitions; `None` for all of them.
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

/// Text that belongs to a value, of different lengths so that rows move.
fn note(value: i64) -> String {
    "n".repeat(usize::try_from(value.rem_euclid(37)).unwrap_or(0))
}

/// A value of a row; instead of a register's, which stands before whether it was written at a time that has not come,
/// what nobody writes if that is so.
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

/// What one client does next.
#[derive(Debug, Clone)]
pub enum Plan {
    /// A statement that is a transaction of its own.
    Statement(Ask),
    /// All registers, or those with a value.
    Scan(Option<i64>),
    /// Two registers, which is a transaction over two partitions of several; with a text to put there, or none.
    Pair { keys: [i64; 2], note: Option<i64> },
    /// All lists.
    Lists,
    /// Removes what is large.
    Shrink,
    /// A procedure in Rust; called for the partition of its first step, which need not be the only one, or for all.
    Steps { at_first: bool, asks: Vec<Ask> },
    /// A procedure in Lua; with so many turns of a loop.
    Lua { key: i64, value: i64, spin: i64 },
    /// A transaction that a session leads.
    Session { over: Over, parts: Vec<Part>, ending: Ending },
    /// A change of the schema.
    Define(&'static str),
}

/// What a session does in one or several statements.
#[derive(Debug, Clone)]
pub enum Part {
    Ask(Ask),
    /// Of [`Plan::Steps`], which may need partitions that it is not called for, [`Plan::Scan`] or [`Plan::Pair`].
    Call(Box<Plan>),
}

impl Part {
    /// The statements that do it, with their parameters; whether its partitions may have come late.
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

    /// What was done, from the answer of its first statement.
    pub fn seen(&self, answer: &Answer) -> Vec<Step> {
        match self {
            Self::Ask(ask) => ask.seen(answer),
            Self::Call(plan) => plan.seen(answer),
        }
    }

    /// What it would have written.
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

/// The partitions of a session's transaction that it gets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    All,
    /// That of its first step.
    First,
    /// Those of its first two.
    Two,
}

/// How a session's transaction ends, unless it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Commit,
    Rollback,
    /// The session does nothing for a time, which may be too long, then commits.
    Pause,
}

impl Plan {
    /// What it would write.
    pub fn written(&self) -> Vec<Step> {
        match self {
            Self::Statement(ask) => ask.written().into_iter().collect(),
            Self::Steps { asks, .. } => asks.iter().filter_map(|ask| ask.written()).collect(),
            Self::Session { parts, .. } => parts.iter().flat_map(Part::written).collect(),
            Self::Lua { key, value, .. } => vec![Step::Append { key: *key, value: *value }],
            Self::Scan(_) | Self::Pair { .. } | Self::Lists | Self::Shrink | Self::Define(_) => Vec::new(),
        }
    }

    /// The text or the procedure that does it, with its parameters; `None` if it is no single one.
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
            Self::Session { .. } | Self::Define(_) => return None,
        })
    }

    /// What was done, from the answer to its [call](Self::call).
    pub fn seen(&self, answer: &Answer) -> Vec<Step> {
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
            Self::Pair { .. } | Self::Shrink | Self::Session { .. } | Self::Define(_) => Vec::new(),
        }
    }
}

/// What a [`Plan`] has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    Statement(&'static str),
    Procedure(&'static str),
}

/// Draws plans. A slot takes another key when its list is long.
#[derive(Debug)]
pub struct Plans {
    value: i64,
    appends: Vec<i64>,
    /// Lists and registers of other eras have other keys.
    era: i64,
}

impl Plans {
    pub fn new() -> Self {
        Self { value: 0, appends: vec![0; usize::try_from(SLOTS).unwrap_or(0)], era: 0 }
    }

    /// Nothing is read any more that was written before.
    pub fn next_era(&mut self) {
        self.era += 1;
    }

    /// Whether it is of this era.
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
            3 => asks.push(Ask::Grow(1, 20 * BLOB_BYTES)),
            _ => {}
        }
        asks
    }

    fn parts(&mut self, random: &mut Random) -> Vec<Part> {
        let mut parts: Vec<_> = self.asks(random).into_iter().map(Part::Ask).collect();
        if random.one_in(3) {
            let plan = match random.below(4) {
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
        match random.below(42) {
            0..11 => match self.ask(random) {
                // The statement does not say what was before.
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
            _ => Plan::Define(random.pick(&CHANGES).copied().unwrap_or_default()),
        }
    }
}
