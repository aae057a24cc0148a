//! Partitions of one object that take one route together.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::Route;

use super::work::Work;

/// Partitions that one request carries at the most.
const PARTITIONS_MAX: usize = 64;
/// Stored bytes up to which partitions are taken together, however small partitions are to be.
const BYTES_MIN: u64 = 1 << 20;
/// Requests that there should be for each one in flight: partitions are only taken together where
/// there are many more than can be in flight, so that all keep busy until the end and a node that
/// pushes one back gives away little.
const REQUESTS_PER_FLIGHT: usize = 4;

/// Partitions of one object, at least one, that are asked for with one request.
#[derive(Debug)]
pub(super) struct Group(Vec<Work>);

impl Group {
    /// A group of one.
    pub(super) fn of(work: Work) -> Self {
        Self(vec![work])
    }

    /// The partitions.
    pub(super) fn partitions(&self) -> Vec<Arc<Partition>> {
        self.0.iter().map(|work| Arc::clone(&work.partition)).collect()
    }

    /// Their object.
    pub(super) fn object(&self) -> Option<&Arc<PlannedObject>> {
        self.0.first().map(|work| &work.object)
    }

    /// Stored bytes of `columns` of the table in all of them.
    pub(super) fn stored_bytes(&self, columns: &[usize]) -> u64 {
        self.0.iter().map(|work| work.partition.stored_bytes(columns)).sum()
    }

    /// The partition of a group of one; the group itself if it has several.
    pub(super) fn into_single(mut self) -> Result<Work, Self> {
        match self.0.pop() {
            Some(work) if self.0.is_empty() => Ok(work),
            work => {
                self.0.extend(work);
                Err(self)
            }
        }
    }
}

impl Deref for Group {
    type Target = [Work];

    fn deref(&self) -> &[Work] {
        &self.0
    }
}

/// Takes neighbours of one object together, as long as they have at most `partition_bytes` stored bytes of
/// `columns`, or [`BYTES_MIN`] if that is more, and there are enough groups to keep `in_flight` requests busy.
pub(super) fn grouped(works: Vec<Work>, columns: &[usize], partition_bytes: u64, in_flight: usize) -> VecDeque<Group> {
    let members_max = members_max(works.len(), in_flight);
    let bytes_max = partition_bytes.max(BYTES_MIN);
    let mut groups: VecDeque<Group> = VecDeque::new();
    let mut bytes = 0;
    for work in works {
        let more = work.partition.stored_bytes(columns);
        match groups.back_mut() {
            Some(Group(members))
                if members.len() < members_max
                    && bytes + more <= bytes_max
                    && members.last().is_some_and(|member| may_join(member, &work)) =>
            {
                bytes += more;
                members.push(work);
            }
            _ => {
                bytes = more;
                groups.push_back(Group::of(work));
            }
        }
    }
    groups
}

/// Whether so many partitions may be taken together where so many requests are in flight at the most.
pub(super) fn share_requests(partitions: usize, in_flight: usize) -> bool {
    members_max(partitions, in_flight) > 1
}

fn members_max(partitions: usize, in_flight: usize) -> usize {
    (partitions / in_flight.max(1).saturating_mul(REQUESTS_PER_FLIGHT)).clamp(1, PARTITIONS_MAX)
}

/// Whether two partitions can be asked for together: bitmaps, and columns that are cached or go to the
/// cache, are a partition's own.
fn may_join(member: &Work, work: &Work) -> bool {
    let alone = |work: &Work| {
        !matches!(work.route, Route::Pushdown | Route::Pullup) || !work.segments.is_empty() || work.keeps_answer()
    };
    Arc::ptr_eq(&member.object, &work.object) && member.route == work.route && !alone(member) && !alone(work)
}
