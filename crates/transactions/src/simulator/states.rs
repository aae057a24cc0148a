use std::collections::BTreeMap;

use crate::ids::Sequence;
use crate::partition::Member;
use crate::schema::TableId;

/// Hash of each table of a partition.
pub type Hashes = BTreeMap<TableId, u64>;

/// The states that a database went through, by their last records.
///
/// Invariant: each list is sorted, and one that is found to be cut off is cut off here before the next is noted.
#[derive(Debug, Clone)]
pub struct States {
    /// Of each partition after each of its records.
    hashes: Vec<Vec<(Sequence, Hashes)>>,
    /// The schema after each definition.
    schemas: Vec<(Sequence, String)>,
}

impl States {
    /// Before the first record.
    pub fn new(partitions: u16) -> Self {
        Self { hashes: (0..partitions).map(|_| Vec::new()).collect(), schemas: Vec::new() }
    }

    /// Those up to this record.
    pub fn up_to(mut self, last: Sequence) -> Self {
        self.hashes.iter_mut().for_each(|list| list.retain(|(at, _)| *at <= last));
        self.schemas.retain(|(at, _)| *at <= last);
        self
    }

    pub fn add(&mut self, partition: usize, at: Sequence, hashes: Hashes) {
        if let Some(list) = self.hashes.get_mut(partition) {
            list.push((at, hashes));
        }
    }

    pub fn add_schema(&mut self, at: Sequence, sql: String) {
        self.schemas.push((at, sql));
    }

    /// The last record that changed a partition.
    pub fn last(&self, partition: usize) -> Sequence {
        self.hashes.get(partition).and_then(|list| list.last()).map_or(Sequence::ZERO, |(at, _)| *at)
    }

    /// Hashes of each partition's tables as of this place in the log.
    pub fn hashes_at(&self, sequence: Sequence) -> Vec<Hashes> {
        let of = |list: &Vec<(Sequence, Hashes)>| {
            list.iter().rev().find(|(at, _)| *at <= sequence).map(|(_, hashes)| hashes.clone()).unwrap_or_default()
        };
        self.hashes.iter().map(of).collect()
    }

    /// The schema as of this place in the log.
    pub fn schema_at(&self, sequence: Sequence) -> &str {
        self.schemas.iter().rev().find(|(at, _)| *at <= sequence).map_or("", |(_, sql)| sql)
    }
}

/// The state of each of these partitions.
pub fn hashes(members: &[Member]) -> Result<Vec<Hashes>, String> {
    members.iter().map(|member| member.partition.state_hashes().map_err(|error| error.to_string())).collect()
}
