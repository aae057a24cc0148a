//! What clients do, on rows and on a model of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::database::Definitions;
use crate::engine::{Program, Route};
use crate::error::Class;
use crate::log::{self, Batch};
use crate::partition::{Head, Partition, Scope, Transaction};
use crate::procedure::{Context, Limits};
use crate::random::Random;
use crate::recovery::Execute;
use crate::schema::{IndexId, Schema, TableId};
use crate::sql::Environment;
use crate::table::TupleId;
use crate::types::{PartitionHash, Value, ValueRef, key};
use crate::{Error, Result};

/// Keys of accounts.
const KEYS: u64 = 24;
/// Keys of the replicated table.
const SETTINGS: u64 = 4;

/// The tables; made through the log like everything else.
pub const TABLES: [&str; 2] = [
    "CREATE TABLE accounts (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, note TEXT NOT NULL) PARTITION BY (k)",
    "CREATE TABLE settings (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)",
];
/// The first tables of a database have these ids.
const ACCOUNTS: TableId = TableId(0);
const SETTING: TableId = TableId(1);

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `k, v`: writes an account; gives back what it was.
    Put,
    /// `k`: removes an account; gives back what it was.
    Remove,
    /// `k`: writes an account whose value comes from the transaction's seed and time.
    Draw,
    /// `k`: the same by a script, in Lua.
    Script,
    /// `from, to, amount`: fails half-way if there is no `to` or `from` has not enough.
    Transfer,
    /// `k, v`: writes a setting in all partitions.
    Set,
    /// `k, setting`: reads both.
    Get,
    /// Reads all accounts: number and sum.
    Sum,
}

const OPERATIONS: [(Operation, &str); 8] = [
    (Operation::Put, "put"),
    (Operation::Remove, "remove"),
    (Operation::Draw, "draw"),
    (Operation::Script, "script"),
    (Operation::Transfer, "transfer"),
    (Operation::Set, "set"),
    (Operation::Get, "get"),
    (Operation::Sum, "sum"),
];

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub operation: Operation,
    /// With what.
    pub numbers: Vec<i64>,
    /// Added to what it writes and not logged: anything but 0 is a bug.
    pub noise: i64,
}

impl Call {
    /// Any call.
    pub fn random(random: &mut Random) -> Self {
        let key = |random: &mut Random, bound: u64| random.below(bound).cast_signed();
        let (operation, numbers) = match random.below(16) {
            0..5 => (Operation::Put, vec![key(random, KEYS), key(random, 1000)]),
            5 | 6 => (Operation::Remove, vec![key(random, KEYS)]),
            7 => (Operation::Draw, vec![key(random, KEYS)]),
            8 => (Operation::Script, vec![key(random, KEYS)]),
            9..12 => (Operation::Transfer, vec![key(random, KEYS), key(random, KEYS), key(random, 500)]),
            12 => (Operation::Set, vec![key(random, SETTINGS), key(random, 1000)]),
            13 | 14 => (Operation::Get, vec![key(random, KEYS), key(random, SETTINGS)]),
            _ => (Operation::Sum, Vec::new()),
        };
        Self { operation, numbers, noise: 0 }
    }

    /// Any call that a session makes together with others: one that writes without drawing.
    pub fn random_in_session(random: &mut Random) -> Self {
        loop {
            let call = Self::random(random);
            if matches!(
                call.operation,
                Operation::Put | Operation::Remove | Operation::Transfer | Operation::Set | Operation::Get
            ) {
                return call;
            }
        }
    }

    fn number(&self, place: usize) -> i64 {
        self.numbers.get(place).copied().unwrap_or(0)
    }
}

/// Text that belongs to a value, of different lengths so that rows move.
fn note(value: i64) -> String {
    "n".repeat(usize::try_from(value.rem_euclid(37)).unwrap_or(0))
}

fn drawn(head: Head) -> i64 {
    (head.seed % 1000).cast_signed() + head.timestamp.0 % 10
}

/// What [`Operation::Script`] runs.
const SCRIPT: &str = "CREATE PROCEDURE script(k BIGINT, noise BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
  local old, notes = db.value('SELECT v FROM accounts WHERE k = $1', k), {}
  local v = math.random(0) % 1000 + noise
  for i = 1, v % 37 do notes[i] = 'n' end
  db.execute('INSERT INTO accounts VALUES ($1, $2, $3) ON CONFLICT (k) DO UPDATE SET v = $2, note = $3',
             k, v, table.concat(notes))
  return old or -1
$$";

fn scripted(head: Head) -> i64 {
    Environment::new(0, head.seed, 0).random().cast_signed().rem_euclid(1000)
}

/// The tables and the script as a session would have them.
fn definitions() -> Result<&'static Definitions> {
    static DEFINITIONS: OnceLock<Result<Definitions>> = OnceLock::new();
    let made = DEFINITIONS.get_or_init(|| {
        let schema = TABLES
            .iter()
            .chain([&SCRIPT])
            .try_fold(Schema::default(), |schema, sql| schema.define(sql).map(|(after, _)| after))?;
        Definitions::new(schema, std::sync::Arc::default(), Limits::default())
    });
    made.as_ref().map_err(Clone::clone)
}

fn no_account(key: i64) -> Error {
    Class::Raised.error(format_args!("no account {key}, or not enough in it"))
}

fn hash(key: i64) -> PartitionHash {
    PartitionHash::of(ValueRef::Int(key))
}

/// The row with this key and its value.
fn find(partition: &Partition, table: TableId, number: i64) -> Result<Option<(TupleId, i64)>> {
    let table = partition.table(table)?;
    let Some(index) = table.definition().index(IndexId::PRIMARY) else { return Ok(None) };
    let mut bytes = Vec::new();
    for column in table.definition().key_columns(index) {
        key::encode(&mut bytes, column, ValueRef::Int(number))?;
    }
    let Some(id) = table.find(IndexId::PRIMARY, &bytes)? else { return Ok(None) };
    match table.row(id)?.value(1) {
        ValueRef::Int(value) => Ok(Some((id, value))),
        other => Err(Error::internal(format_args!("a value {other}"))),
    }
}

fn put(partition: &mut Partition, transaction: &mut Transaction, number: i64, value: i64) -> Result<i64> {
    let text = note(value);
    let found = find(partition, ACCOUNTS, number)?;
    match found {
        Some((id, _)) => {
            let changes = [(1, ValueRef::Int(value)), (2, ValueRef::Text(&text))];
            partition.update(ACCOUNTS, id, &changes, transaction)?;
        }
        None => {
            let row = [ValueRef::Int(number), ValueRef::Int(value), ValueRef::Text(&text)];
            partition.insert(ACCOUNTS, &row, transaction)?;
        }
    }
    Ok(found.map_or(-1, |(_, value)| value))
}

impl Program for Call {
    type Outcome = Vec<i64>;

    fn route(&self, _: &[Value]) -> Result<Route> {
        Ok(match self.operation {
            Operation::Set | Operation::Sum => Route::All,
            _ => Route::One(hash(self.number(0))),
        })
    }

    fn run(&self, scope: &mut Scope<'_>, _: &[Value]) -> Result<Vec<i64>> {
        let head = scope.head();
        let (first, second) = (self.number(0), self.number(1));
        match self.operation {
            Operation::Put | Operation::Draw => {
                let value = if self.operation == Operation::Draw { drawn(head) } else { second };
                let (partition, transaction) = scope.one(hash(first))?;
                Ok(vec![put(partition, transaction, first, value + self.noise)?])
            }
            Operation::Script => {
                let environment = Environment::new(head.timestamp.0, head.seed, u64::MAX);
                let definitions = definitions()?;
                let script = definitions.procedure("script")?;
                let arguments = [Value::Int(first), Value::Int(self.noise)];
                let answer = script.run(&mut Context::new(scope, &environment, definitions), &arguments)?;
                match answer.rows.value(0, 0) {
                    ValueRef::Int(old) => Ok(vec![old]),
                    other => Err(Error::internal(format_args!("a script that returned {other}"))),
                }
            }
            Operation::Remove => {
                let (partition, transaction) = scope.one(hash(first))?;
                let found = find(partition, ACCOUNTS, first)?;
                if let Some((id, _)) = found {
                    partition.delete(ACCOUNTS, id, transaction)?;
                }
                Ok(vec![found.map_or(-1, |(_, value)| value)])
            }
            Operation::Transfer => {
                let amount = self.number(2);
                let (partition, transaction) = scope.one(hash(first))?;
                let (_, from) = find(partition, ACCOUNTS, first)?.ok_or_else(|| no_account(first))?;
                put(partition, transaction, first, from - amount)?;
                if from < amount {
                    return Err(no_account(first));
                }
                let (partition, transaction) = scope.one(hash(second))?;
                let (_, to) = find(partition, ACCOUNTS, second)?.ok_or_else(|| no_account(second))?;
                put(partition, transaction, second, to + amount)?;
                Ok(vec![from, to])
            }
            Operation::Set => {
                for (partition, transaction) in scope.all()? {
                    match find(partition, SETTING, first)? {
                        Some((id, _)) => {
                            partition.update(SETTING, id, &[(1, ValueRef::Int(second))], transaction)?;
                        }
                        None => {
                            let row = [ValueRef::Int(first), ValueRef::Int(second)];
                            partition.insert(SETTING, &row, transaction)?;
                        }
                    }
                }
                Ok(Vec::new())
            }
            Operation::Get => {
                let (partition, _) = scope.one(hash(first))?;
                let value = |found: Option<(TupleId, i64)>| found.map_or(-1, |(_, value)| value);
                Ok(vec![value(find(partition, ACCOUNTS, first)?), value(find(partition, SETTING, second)?)])
            }
            Operation::Sum => {
                let (mut rows, mut sum) = (0, 0);
                for (partition, _) in scope.all()? {
                    let table = partition.table(ACCOUNTS)?;
                    for id in table.scan() {
                        if let ValueRef::Int(value) = table.row(id)?.value(1) {
                            (rows, sum) = (rows + 1, sum + value);
                        }
                    }
                }
                Ok(vec![rows, sum])
            }
        }
    }

    fn record(&self, batch: &mut Batch, head: &log::Head<'_>, _: &[Value]) -> Result<()> {
        let name = OPERATIONS.iter().find(|(operation, _)| *operation == self.operation).map_or("", |(_, name)| name);
        let numbers: Vec<Value> = self.numbers.iter().copied().map(Value::Int).collect();
        batch.call(head, name, 1, &numbers)
    }
}

/// Runs calls from the log.
#[derive(Debug)]
pub struct Calls;

impl Execute for Calls {
    fn call(&mut self, scope: &mut Scope<'_>, procedure: &str, version: u32, arguments: &[Value]) -> Result<()> {
        let operation = OPERATIONS.iter().find(|(_, name)| *name == procedure && version == 1);
        let (operation, _) = operation.ok_or_else(|| Error::internal(format_args!("no procedure {procedure}")))?;
        let numbers = arguments.iter().map(|value| if let Value::Int(number) = value { *number } else { 0 }).collect();
        Call { operation: *operation, numbers, noise: 0 }.run(scope, arguments).map(|_| ())
    }

    fn statement(&mut self, _: &mut Scope<'_>, sql: &str, _: &[Value]) -> Result<()> {
        Err(Error::internal(format_args!("nobody logged {sql}")))
    }

    fn defined(&mut self, _: &Schema) {}
}

/// All rows, as plain maps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    accounts: BTreeMap<i64, i64>,
    settings: BTreeMap<i64, i64>,
}

impl Model {
    /// What a call gives back, and `None` if it fails, with what it changes.
    pub fn run(&mut self, call: &Call, head: Head) -> Option<Vec<i64>> {
        let (first, second) = (call.number(0), call.number(1));
        let old = |value: Option<i64>| vec![value.unwrap_or(-1)];
        Some(match call.operation {
            Operation::Put => old(self.accounts.insert(first, second + call.noise)),
            Operation::Draw => old(self.accounts.insert(first, drawn(head) + call.noise)),
            Operation::Script => old(self.accounts.insert(first, scripted(head) + call.noise)),
            Operation::Remove => old(self.accounts.remove(&first)),
            Operation::Transfer => {
                let amount = call.number(2);
                let from = self.accounts.get(&first).copied().filter(|from| *from >= amount)?;
                // What was taken from an account is gone if it is given back to the same one.
                let to = if first == second { from - amount } else { *self.accounts.get(&second)? };
                self.accounts.insert(first, from - amount);
                self.accounts.insert(second, to + amount);
                vec![from, to]
            }
            Operation::Set => {
                self.settings.insert(first, second);
                Vec::new()
            }
            Operation::Get => {
                let value = |map: &BTreeMap<i64, i64>, key| map.get(&key).copied().unwrap_or(-1);
                vec![value(&self.accounts, first), value(&self.settings, second)]
            }
            Operation::Sum => {
                vec![self.accounts.len().try_into().unwrap_or(-1), self.accounts.values().sum()]
            }
        })
    }

    /// What calls of one transaction give back, and `None` if one fails, which takes all of them back.
    pub fn run_together(&mut self, calls: &[Call], head: Head) -> Option<Vec<Vec<i64>>> {
        let before = self.clone();
        let results: Option<Vec<_>> = calls.iter().map(|call| self.run(call, head)).collect();
        if results.is_none() {
            *self = before;
        }
        results
    }

    /// The rows of these partitions; an error if replicated rows differ or notes do not fit values.
    pub fn of<'a>(partitions: impl Iterator<Item = &'a Partition>) -> Result<Self, String> {
        let mut model = Self::default();
        for (number, partition) in partitions.enumerate() {
            let mut settings = BTreeMap::new();
            for table in partition.tables() {
                let id = table.definition().id;
                for row in table.scan().map(|tuple| table.row(tuple)) {
                    let row = row.map_err(|error| error.to_string())?;
                    let (ValueRef::Int(key), ValueRef::Int(value)) = (row.value(0), row.value(1)) else {
                        return Err(format!("a row of {}, {}", row.value(0), row.value(1)));
                    };
                    if id == SETTING {
                        settings.insert(key, value);
                    } else if id == ACCOUNTS {
                        model.accounts.insert(key, value);
                        if row.value(2) != ValueRef::Text(&note(value)) {
                            return Err(format!("account {key} has {value} and note {}", row.value(2)));
                        }
                    }
                }
            }
            if number > 0 && settings != model.settings {
                return Err(format!("settings of partition {number} differ from those of 0"));
            }
            model.settings = settings;
        }
        Ok(model)
    }
}
