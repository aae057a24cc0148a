use std::collections::BTreeMap;

use thermocline_machine::ids::{LoadId, Sequence};
use thermocline_tables::partition::Member;
use thermocline_tables::schema::TableId;
use thermocline_types::Result;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hash of each table of a partition, and of the hidden rows of each load into it.
pub type Hashes = BTreeMap<(TableId, Option<LoadId>), u64>;

/// States of a database by their last records.
///
/// Invariant: each list is sorted, and is truncated to the recovered state before the next is noted.
#[derive(Debug, Clone)]
pub struct States {
    /// Hashes of each partition after each of its records.
    hashes: Vec<Vec<(Sequence, Hashes)>>,
    /// Last record that changed visible rows of each partition.
    last: Vec<Sequence>,
    /// The schema after each definition.
    schemas: Vec<(Sequence, String)>,
}

impl States {
    /// The state before the first record.
    pub fn new(partitions: u16) -> Self {
        let (hashes, last) = (0..partitions).map(|_| (Vec::new(), Sequence::ZERO)).unzip();
        Self { hashes, last, schemas: Vec::new() }
    }

    /// States up to this record.
    pub fn up_to(mut self, last: Sequence) -> Self {
        self.hashes.iter_mut().for_each(|list| list.retain(|(at, _)| *at <= last));
        self.last.iter_mut().for_each(|of| *of = last.min(*of));
        self.schemas.retain(|(at, _)| *at <= last);
        self
    }

    pub fn add(&mut self, partition: usize, at: Sequence, hashes: Hashes) {
        self.add_unseen(partition, at, hashes);
        if let Some(last) = self.last.get_mut(partition) {
            *last = at;
        }
    }

    /// Adds the state after a record without visible changes, which nobody waits for.
    pub fn add_unseen(&mut self, partition: usize, at: Sequence, hashes: Hashes) {
        if let Some(list) = self.hashes.get_mut(partition) {
            list.push((at, hashes));
        }
    }

    pub fn add_schema(&mut self, at: Sequence, sql: String) {
        self.schemas.push((at, sql));
    }

    /// Last record that changed visible rows of a partition.
    pub fn last(&self, partition: usize) -> Sequence {
        self.last.get(partition).copied().unwrap_or(Sequence::ZERO)
    }

    /// Hashes of each partition's tables at this place in the log.
    pub fn hashes_at(&self, sequence: Sequence) -> Vec<Hashes> {
        let of = |list: &Vec<(Sequence, Hashes)>| {
            list.iter().rev().find(|(at, _)| *at <= sequence).map(|(_, hashes)| hashes.clone()).unwrap_or_default()
        };
        self.hashes.iter().map(of).collect()
    }

    /// Schema at this place in the log.
    pub fn schema_at(&self, sequence: Sequence) -> &str {
        self.schemas.iter().rev().find(|(at, _)| *at <= sequence).map_or("", |(_, sql)| sql)
    }
}

/// Hashes of these partitions.
pub fn hashes(members: &[Member]) -> Result<Vec<Hashes>, String> {
    members.iter().map(|member| hashes_of(member).map_err(|error| error.to_string())).collect()
}

/// Hashes of this partition.
pub fn hashes_of(member: &Member) -> Result<Hashes> {
    let mut hashes: Hashes =
        member.partition.state_hashes()?.into_iter().map(|(table, hash)| ((table, None), hash)).collect();
    for table in member.partition.tables() {
        for (load, ids) in table.loads().filter(|(_, ids)| ids.live() > 0) {
            let mut hash = 0_u64;
            for id in ids.iter() {
                let seed = hash.wrapping_mul(31).wrapping_add(u64::from(id.0) + 1);
                member.partition.visit(table.definition().id, id, &mut |row| {
                    hash = xxh3_64_with_seed(row.image(), seed);
                    Ok(())
                })?;
            }
            hashes.insert((table.definition().id, Some(load)), hash);
        }
    }
    Ok(hashes)
}
