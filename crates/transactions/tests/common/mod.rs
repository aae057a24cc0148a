//! A session on partitions without threads: each statement is a transaction.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_transactions::ids::{Micros, PartitionId, TransactionId};
use thermocline_transactions::partition::{Head, Member, Participants, Partition, Scope};
use thermocline_transactions::schema::Schema;
use thermocline_transactions::sql::{Environment, Outcome, Prepared, define};
use thermocline_transactions::table::Budget;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

/// 2024-02-03 04:05:06.
pub const NOW: i64 = 1_706_933_106_000_000;

pub struct RowSession {
    pub schema: Schema,
    pub members: Vec<Member>,
    transactions: u64,
}

impl RowSession {
    pub fn new(partitions: u32) -> Self {
        let budget = Arc::new(Budget::new(256 << 20));
        let member = |number: u32| {
            let id = PartitionId(u16::try_from(number).unwrap());
            Member::new(Partition::new(id, partitions, Arc::clone(&budget), 7), 64 << 20)
        };
        Self { schema: Schema::default(), members: (0..partitions).map(member).collect(), transactions: 0 }
    }

    /// Runs a definition or a statement.
    pub fn run(&mut self, sql: &str) -> Result<(Outcome, usize)> {
        let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        if matches!(first.as_str(), "CREATE" | "DROP" | "ALTER" | "TRUNCATE") {
            self.define(sql)?;
            return Ok((Outcome::default(), 0));
        }
        let prepared = Prepared::new(&self.schema, sql)?;
        let outcome = self.execute(&prepared, &[])?;
        Ok((outcome, prepared.columns().len()))
    }

    pub fn define(&mut self, sql: &str) -> Result<()> {
        let (schema, change) = define(&self.schema, sql)?;
        for (position, member) in self.members.iter_mut().enumerate() {
            if let Err(error) = member.partition.define(&change) {
                for member in self.members.iter_mut().take(position) {
                    member.partition.undefine(&change, &self.schema).unwrap();
                }
                return Err(error);
            }
        }
        self.schema = schema;
        Ok(())
    }

    /// Runs a prepared statement over its declared participants, which must be enough.
    pub fn execute(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let count = u32::try_from(self.members.len()).unwrap();
        let participants = prepared.participants(parameters)?;
        let numbers: BTreeSet<u32> = match &participants {
            Participants::One(hash) => [hash.partition(count)].into(),
            Participants::Several(hashes) => hashes.iter().map(|hash| hash.partition(count)).collect(),
            Participants::Any => [0].into(),
            Participants::All => (0..count).collect(),
        };
        let is_of = |member: &Member| numbers.contains(&u32::from(member.partition.id().0));
        let (mut members, others): (Vec<_>, Vec<_>) = self.members.drain(..).partition(is_of);
        let result = self.execute_in(&mut members, prepared, parameters);
        self.members = members.into_iter().chain(others).collect();
        self.members.sort_by_key(|member| member.partition.id());
        result
    }

    fn execute_in(&mut self, members: &mut [Member], prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        self.transactions += 1;
        let head = Head { id: TransactionId(self.transactions), timestamp: Micros(NOW), seed: self.transactions };
        let environment = Environment::new(NOW, self.transactions, 10_000_000);
        members.iter_mut().for_each(|member| member.begin(head));
        let result = prepared.run(&mut Scope::new(&mut *members), &environment, parameters);
        if let Err(Error::OtherPartition(wanted)) = &result {
            panic!("the participants were not enough: {wanted:?}");
        }
        for member in members {
            let (partition, transaction) = member.split();
            if result.is_ok() {
                partition.commit(transaction);
            } else {
                partition.abort(transaction).unwrap();
            }
        }
        result
    }

    /// Checks all invariants of all tables, and that copies of replicated tables are equal.
    pub fn check(&self) {
        let hashes: Vec<_> = self.members.iter().map(|member| member.partition.state_hashes().unwrap()).collect();
        for member in &self.members {
            member.partition.check().unwrap();
        }
        for table in self.schema.tables().filter(|table| table.partition_by.is_none()) {
            assert!(
                hashes.iter().all(|of| of.get(&table.id) == hashes[0].get(&table.id)),
                "copies of {} differ",
                table.name
            );
        }
    }
}
