//! Algorithm 1 of the FlexPushdownDB paper, as the engine runs it: partitions are admitted whole or not at all.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Algorithm;
use crate::sim::Contents;
use crate::trace::{Lookup, Need, SegmentId};

/// The benefit of a segment.
pub trait Score: fmt::Debug {
    /// Its name.
    fn name(&self) -> String;

    /// Records a use at `now`.
    fn record(&mut self, now: usize, need: &Need, bytes: u64);

    /// The benefit at `now`.
    fn score(&self, now: usize, id: SegmentId, bytes: u64) -> f64;

    /// Notes that a segment of this benefit was evicted.
    fn evicted(&mut self, _score: f64) {}
}

/// Algorithm 1 over a score.
#[derive(Debug)]
pub struct Framework<S> {
    score: S,
}

impl<S: Score> Framework<S> {
    /// An empty history.
    pub fn new(score: S) -> Self {
        Self { score }
    }
}

impl<S: Score> Algorithm for Framework<S> {
    fn name(&self) -> String {
        self.score.name()
    }

    fn lookup(&mut self, now: usize, lookup: &Lookup, contents: &mut Contents) {
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            self.score.record(now, need, contents.bytes(need.id));
        }
        // A missing segment with its benefit and the position of its partition.
        let mut missing: Vec<(f64, usize, SegmentId)> = vec![];
        let mut needed: HashSet<SegmentId> = HashSet::new();
        for (position, partition) in lookup.partitions.iter().enumerate() {
            for need in &partition.segments {
                if needed.insert(need.id) && !contents.holds(need.id) {
                    missing.push((self.score.score(now, need.id, contents.bytes(need.id)), position, need.id));
                }
            }
        }
        missing.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let victims = contents.iter().filter(|id| !needed.contains(id));
        let mut victims: Vec<(f64, SegmentId)> =
            victims.map(|id| (self.score.score(now, id, contents.bytes(id)), id)).collect();
        victims.sort_by(|a, b| a.0.total_cmp(&b.0).then(contents.admission(a.1).cmp(&contents.admission(b.1))));

        let mut short: HashMap<usize, usize> = HashMap::new();
        missing.iter().for_each(|(_, partition, _)| *short.entry(*partition).or_default() += 1);
        let mut free = contents.room();
        let mut victims = victims.into_iter().peekable();
        let mut taken = vec![];
        let mut admitted = vec![];
        for (benefit, partition, id) in &missing {
            let bytes = contents.bytes(*id);
            while free < bytes
                && let Some((score, victim)) = victims.next_if(|(score, _)| score < benefit)
            {
                free += contents.bytes(victim);
                taken.push((score, victim));
            }
            if free < bytes {
                break;
            }
            free -= bytes;
            admitted.push((*partition, *id));
            short.entry(*partition).and_modify(|count| *count -= 1);
        }
        // Only whole partitions are loaded, so only victims for those are evicted.
        admitted.retain(|(partition, _)| short.get(partition) == Some(&0));
        let wanted: u64 = admitted.iter().map(|(_, id)| contents.bytes(*id)).sum();
        for (score, victim) in taken {
            if contents.room() >= wanted {
                break;
            }
            contents.evict(victim);
            self.score.evicted(score);
        }
        let admitted: HashSet<SegmentId> = admitted.into_iter().map(|(_, id)| id).collect();
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            if admitted.contains(&need.id) {
                contents.load(need.id);
            }
        }
    }
}
