//! Clients, as both the killed process and the killing one know them.

use std::fmt;
use std::str::FromStr;

use thermocline_transactions::database::StatementResult;
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_workloads::oltp::{Call, Calls, Language};
use thermocline_workloads::tpcc::{Remote, Scale, Terminal, Transaction};
use thermocline_workloads::ycsb::{self, Mix, Skew, YcsbCalls};

use super::number;

/// Half of them YCSB's, half TPC-C's.
pub const CLIENTS: usize = 6;
/// Calls that each of them has in flight.
pub const IN_FLIGHT: usize = 8;
/// Rows of YCSB: few unless more are asked for, so that many clients write the same ones.
pub fn rows() -> u64 {
    number("THERMOCLINE_KILL_ROWS", 400)
}
/// Warehouses on both partitions.
pub const SCALE: Scale = Scale::reduced(4);

/// Language of a database's procedures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Languages {
    pub ycsb: Language,
    pub tpcc: Language,
}

impl Languages {
    /// Languages of one database of many: all combinations take turns.
    pub fn of(number: u64) -> Self {
        let ycsb = [Language::Rust, Language::Lua, Language::Sql][(number % 3) as usize];
        Self { ycsb, tpcc: [Language::Rust, Language::Lua][(number % 2) as usize] }
    }
}

impl fmt::Display for Languages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.ycsb, self.tpcc)
    }
}

impl FromStr for Languages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ycsb, tpcc) = text.split_once(',').ok_or_else(|| format!("\"{text}\" is not one language,another"))?;
        Ok(Self { ycsb: ycsb.parse()?, tpcc: tpcc.parse()? })
    }
}

/// Workload of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Ycsb,
    Tpcc,
}

impl Workload {
    pub const fn of(client: usize) -> Self {
        if client.is_multiple_of(2) { Self::Ycsb } else { Self::Tpcc }
    }

    pub fn procedures(self, languages: Languages) -> Vec<String> {
        match self {
            Self::Ycsb => ycsb::procedures(languages.ycsb),
            Self::Tpcc => Transaction::PROCEDURES.map(str::to_owned).to_vec(),
        }
    }
}

/// Requests of a client of this process, in order. They are reproducible, so the parent need not be told.
pub fn calls(client: usize, process: u64, languages: Languages) -> Box<dyn Calls> {
    match Workload::of(client) {
        Workload::Ycsb => {
            let skew = Skew { exponent: 1.0, scrambled: true };
            let seed = process * CLIENTS as u64 + client as u64;
            let calls = YcsbCalls::new((rows(), ycsb::FIELD_BYTES), skew, Mix::A, languages.ycsb, seed);
            Box::new(Stamped { calls, process, client, number: 0 })
        }
        Workload::Tpcc => Box::new(Terminal::new(SCALE, Remote::Standard, process, client as u64)),
    }
}

/// Calls of YCSB whose values begin with a unique stamp: process, client and number of the call.
struct Stamped {
    calls: YcsbCalls,
    process: u64,
    client: usize,
    number: u64,
}

impl Calls for Stamped {
    fn next_call(&mut self) -> Call {
        let mut call = self.calls.next_call();
        if let Some(Value::Text(value)) = call.arguments.get_mut(1) {
            let stamp = format!("{}.{}.{} ", self.process, self.client, self.number);
            *value = format!("{stamp}{}", &value[stamp.len()..]).into();
        }
        self.number += 1;
        call
    }
}

/// Stamp of a value; `-` for a loaded one, which is all letters.
pub fn stamp(value: &str) -> &str {
    value.split_once(' ').map_or("-", |(stamp, _)| stamp)
}

/// The part of a client's answer that names data which must be there: the stamps of all columns that it read, an
/// order's number, the customer who paid, an order's customer and number, the district and number of each delivered
/// order.
pub fn told(client: usize, procedure: usize, answer: &StatementResult) -> String {
    let rows = &answer.rows;
    let join = |parts: Vec<String>| parts.join(",");
    match (Workload::of(client), procedure) {
        (Workload::Ycsb, 0) => join(rows.row(0).map(|value| stamp(text(value)).to_owned()).collect()),
        (Workload::Ycsb, _) => String::new(),
        (Workload::Tpcc, procedure) => match Transaction::ALL[procedure] {
            Transaction::NewOrder | Transaction::Payment => int(rows.value(0, 0)).to_string(),
            Transaction::OrderStatus => {
                // In Rust the order has a row, in Lua a column.
                let order = if rows.width() == 5 { rows.value(1, 0) } else { rows.value(0, 5) };
                format!("{},{}", int(rows.value(0, 0)), int(order))
            }
            Transaction::Delivery => join(rows.iter().map(|mut row| pair(&mut row)).collect()),
            Transaction::StockLevel => String::new(),
        },
    }
}

fn pair<'v>(row: &mut impl Iterator<Item = ValueRef<'v>>) -> String {
    let [district, order] = [0, 1].map(|_| int(row.next().unwrap()));
    format!("{district}:{order}")
}

pub fn int(value: ValueRef<'_>) -> i64 {
    let ValueRef::Int(value) = value else { panic!("{value} is no integer") };
    value
}

pub fn text(value: ValueRef<'_>) -> &str {
    let ValueRef::Text(value) = value else { panic!("{value} is no text") };
    value
}
