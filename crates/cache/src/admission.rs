//! Algorithm 1 of the FlexPushdownDB paper: which segments to load, and which to evict for them.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::cache::SegmentRequest;
use crate::policy::{Candidate, Rank};
use crate::slots::{Residency, SlotId};
use crate::state::{State, Victim};

/// One requested segment.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a SegmentRequest,
    /// Its partition's position in the request.
    pub(crate) group: usize,
    /// `None` if it was never requested before, or its uses are forgotten.
    pub(crate) slot: Option<SlotId>,
    /// Whether to admit it, unless it is cached or being loaded.
    pub(crate) missing: bool,
}

/// A decision of Algorithm 1.
pub(crate) struct Plan {
    /// By group, whether all of its missing segments are admitted, or none is missing.
    pub(crate) whole: Vec<bool>,
    /// Segments to evict for it, taken out of the eviction order.
    pub(crate) evictions: Vec<Victim>,
}

impl State {
    /// Lines 3 to 12. Considers the missing segments and as many victims as would make room for them. With `ahead`, one
    /// access of each segment is yet to be recorded.
    pub(crate) fn plan(&mut self, groups: usize, asked: &[Asked<'_>], ahead: bool) -> Plan {
        let mut missing: Vec<(Rank, &Asked<'_>)> = asked
            .iter()
            .filter(|asked| asked.missing && self.is_absent(asked.slot))
            .map(|asked| (self.rank_of(asked, ahead), asked))
            .collect();
        missing.sort_by(|(a, asked_a), (b, asked_b)| b.cmp(a).then(asked_a.group.cmp(&asked_b.group)));
        let mut short: Vec<usize> = vec![0; groups];
        for (_, asked) in &missing {
            if let Some(count) = short.get_mut(asked.group) {
                *count += 1;
            }
        }

        // Segments that this query needs are not victims, or their own partition would be incomplete.
        let needed: OnceCell<HashSet<SlotId>> = OnceCell::new();
        let is_needed =
            |slot| needed.get_or_init(|| asked.iter().filter_map(|asked| asked.slot).collect()).contains(&slot);
        let (mut taken, mut left): (Vec<Victim>, Vec<Victim>) = (vec![], vec![]);
        let mut free = self.room();
        let mut admitted: Vec<&Asked<'_>> = vec![];
        for (rank, asked) in missing {
            let bytes = signed(asked.request.bytes);
            while free < bytes
                && let Some(victim) = self.take_victim()
            {
                if is_needed(victim.slot) {
                    left.push(victim);
                } else if victim.rank() < rank {
                    free += signed(victim.bytes);
                    taken.push(victim);
                } else {
                    left.push(victim);
                    break;
                }
            }
            if free < bytes {
                break;
            }
            free -= bytes;
            admitted.push(asked);
            if let Some(count) = short.get_mut(asked.group) {
                *count -= 1;
            }
        }

        // Only whole partitions are loaded, so only victims for those are evicted.
        let whole: Vec<bool> = short.iter().map(|count| *count == 0).collect();
        let is_whole = |asked: &&&Asked<'_>| whole.get(asked.group).copied().unwrap_or(false);
        let wanted: i64 = admitted.iter().filter(is_whole).map(|asked| signed(asked.request.bytes)).sum();
        let mut room = self.room();
        let mut evictions = vec![];
        for victim in taken {
            if wanted > 0 && room < wanted {
                room += signed(victim.bytes);
                evictions.push(victim);
            } else {
                left.push(victim);
            }
        }
        self.put_back(left);
        Plan { whole, evictions }
    }

    fn is_absent(&self, slot: Option<SlotId>) -> bool {
        let slot = slot.and_then(|slot| self.slots.get(slot));
        slot.is_none_or(|slot| matches!(slot.residency, Residency::Absent { .. }))
    }

    fn rank_of(&self, asked: &Asked<'_>, ahead: bool) -> Rank {
        let slot = asked.slot.and_then(|slot| self.slots.get(slot));
        let mut uses = slot.map(|slot| slot.uses).unwrap_or_default();
        let SegmentRequest { key, bytes, miss_seconds } = asked.request;
        if ahead {
            uses.record(self.tick + 1, *miss_seconds);
            uses.inflation = self.inflation;
        }
        self.policy.rank(Candidate { key, uses: &uses, bytes: *bytes })
    }
}

/// Bytes as a signed number; no cache is larger than 8 EiB.
pub(crate) fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
