//! Content of a database when it was last read, and the checks when it is read again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thermocline_transactions::database::{RowEngine, RowSession};
use thermocline_transactions::error::Class;
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_workloads::{tpcc, ycsb};

use super::child;
use super::clients::{Languages, SCALE};
use super::sent::Sent;
use super::tpcc::{State, anomalies};
use super::ycsb::Registers;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub registers: Registers,
    pub state: State,
}

impl Known {
    pub fn read(session: &mut RowSession) -> Self {
        Self { registers: Registers::read(session), state: State::read(session) }
    }

    /// All anomalies of the database, whose content is `after`, if these calls were sent to it.
    pub fn anomalies(&self, after: &Self, session: &mut RowSession, sent: &[Sent]) -> Vec<String> {
        let mut found = self.registers.anomalies(&after.registers, sent);
        found.extend(anomalies(&self.state, &after.state, sent));
        let violations = tpcc::violations(session, SCALE, &tpcc::Condition::always()).unwrap();
        found.extend(violations.iter().map(ToString::to_string));
        found
    }
}

/// A database as it is loaded.
pub struct Loaded {
    pub known: Known,
    /// All rows of each table.
    tables: BTreeMap<&'static str, BTreeSet<Vec<Value>>>,
    /// Approximate time that loading takes.
    pub duration: Duration,
}

/// In the order of their creation.
fn tables() -> impl Iterator<Item = &'static str> {
    std::iter::once(ycsb::TABLE).chain(tpcc::TABLES)
}

impl Loaded {
    /// Loads one.
    pub fn new(database: &RowEngine, languages: Languages) -> Self {
        let begin = Instant::now();
        child::load(database, languages).unwrap();
        let duration = begin.elapsed();
        let mut session = database.session();
        let tables = tables().map(|table| (table, rows(&mut session, table).unwrap().into_iter().collect())).collect();
        Self { known: Known::read(&mut session), tables, duration }
    }

    /// Anomalies of a database whose load was killed: its rows must be a part of the loaded ones.
    pub fn anomalies_of_part(&self, session: &mut RowSession) -> Vec<String> {
        let mut found = Vec::new();
        let mut missing = None;
        for table in tables() {
            let Some(rows) = rows(session, table) else {
                missing = Some(table);
                continue;
            };
            if let Some(missing) = missing {
                found.push(format!("{table} is there, and {missing}, which was made before it, is not"));
            }
            let strange = rows.iter().filter(|row| !self.tables[table].contains(*row));
            found.extend(strange.map(|row| format!("{table} has a row that nobody loads: {row:?}")));
            // They are inserted in statements of 100 rows.
            if table == "item" && rows.len() % 100 != 0 {
                found.push(format!("an INSERT is there in part: {} rows of item", rows.len()));
            }
        }
        found
    }
}

/// All rows; `None` if there is no such table.
fn rows(session: &mut RowSession, table: &str) -> Option<Vec<Vec<Value>>> {
    match session.execute(&format!("SELECT * FROM {table}"), &[]) {
        Ok(answer) => Some(answer.rows.iter().map(|row| row.map(ValueRef::to_value).collect()).collect()),
        Err(error) if error.sqlstate() == Class::UndefinedTable.sqlstate() => None,
        Err(error) => panic!("{table}: {error}"),
    }
}
