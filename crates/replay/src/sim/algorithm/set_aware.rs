//! The set-aware policy: keeps the sets of segments that save the most modelled time.
//!
//! A segment by itself saves nothing: what saves time is a set that makes a partition whole for a kind of query. So the
//! unit of value is a *pattern*, a set of segments that some lookup needed for a partition. Its value is the time that
//! it saved or would have saved, older uses counting less; twice as much is expected of the future.
//!
//! A lookup chooses the contents anew among the patterns that are cached and those that it could load itself: always the
//! one with the highest value per byte that is not chosen yet, as long as it fits. A chosen segment costs the patterns
//! that share it no bytes any more; and a segment whose pattern was not chosen has no value, however often it is used.
//! A pattern with missing segments is worth its value less the time of their loads, of which it bears a part if other
//! patterns need them too. What a load saves at once does not count: with it, whatever was just asked for would push out
//! what is used as often, and the loads would cost more than they save. Segments of no chosen pattern stay while there
//! is room, the best last.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::Algorithm;
use crate::numbered::Numbered;
use crate::sim::Contents;
use crate::trace::{Lookup, Partition, SegmentId};

/// Part of the value that is expected of the future: uses are recorded over one half-life in the mean, and count on after
/// it.
const FUTURE: f64 = 2.0;

/// How much more the value of a pattern counts that is cached: a newcomer of equal value is no reason to move bytes, and
/// values are estimates.
const INCUMBENT: f64 = 2.0;

/// A set of segments that a partition needed.
#[derive(Debug)]
struct Pattern {
    segments: Vec<SegmentId>,
    /// Seconds saved by it, decayed until `then`.
    value: f64,
    then: usize,
}

/// The set-aware policy.
#[derive(Debug)]
pub struct SetAware {
    half_life: f64,
    patterns: Numbered<Pattern>,
    numbers: HashMap<Vec<SegmentId>, usize>,
    /// Patterns by segment.
    of: Numbered<Vec<usize>>,
}

/// A pattern with a number to order by.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64, usize);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl SetAware {
    /// For this number of segments; a use counts half after `half_life` lookups.
    pub fn new(segments: usize, half_life: f64) -> Self {
        Self { half_life, patterns: Numbered::default(), numbers: HashMap::new(), of: Numbered::of(vec![], segments) }
    }

    fn value(&self, number: usize, now: usize) -> f64 {
        let Pattern { value, then, .. } = &self.patterns[number];
        value * 0.5_f64.powf((now - then) as f64 / self.half_life)
    }

    fn record(&mut self, partition: &Partition, now: usize) -> usize {
        let mut segments: Vec<SegmentId> = partition.segments.iter().map(|need| need.id).collect();
        segments.sort_unstable();
        let number = self.numbers.get(&segments).copied().unwrap_or_else(|| {
            let number = self.patterns.push(Pattern { segments: segments.clone(), value: 0.0, then: now });
            segments.iter().for_each(|id| self.of[*id].push(number));
            self.numbers.insert(segments, number);
            number
        });
        let value = self.value(number, now) + partition.gain().max(0.0);
        let pattern = &mut self.patterns[number];
        (pattern.value, pattern.then) = (value, now);
        number
    }
}

impl Algorithm for SetAware {
    fn name(&self) -> String {
        format!("set-aware, half-life {}", self.half_life)
    }

    fn lookup(&mut self, now: usize, lookup: &Lookup, contents: &mut Contents) {
        // What this lookup could load, with the time of each load.
        let mut loadable: HashMap<SegmentId, f64> = HashMap::new();
        let mut candidates: HashSet<usize> = HashSet::new();
        for partition in &lookup.partitions {
            candidates.insert(self.record(partition, now));
            for need in partition.segments.iter().filter(|need| !contents.holds(need.id)) {
                loadable.insert(need.id, partition.load_seconds(need));
            }
        }
        candidates.extend(contents.iter().flat_map(|id| &self.of[id]).copied());
        candidates.extend(loadable.keys().flat_map(|id| &self.of[*id]).copied());
        candidates.retain(|number| {
            let mut segments = self.patterns[*number].segments.iter();
            segments.all(|id| contents.holds(*id) || loadable.contains_key(id))
        });

        let mut chosen: HashSet<SegmentId> = HashSet::new();
        let mut room = contents.capacity();
        let bytes_of = |number: usize, chosen: &HashSet<SegmentId>| {
            let segments = self.patterns[number].segments.iter().filter(|id| !chosen.contains(id));
            segments.map(|id| contents.bytes(*id)).sum::<u64>()
        };
        let density = |number: usize, chosen: &HashSet<SegmentId>| {
            // The load of a segment is for all patterns that need it, in proportion to their values.
            let own = self.value(number, now);
            let load = |id: &SegmentId| {
                let all: f64 = self.of[*id].iter().map(|number| self.value(*number, now)).sum();
                Some(loadable.get(id)? * own / all.max(own).max(f64::MIN_POSITIVE))
            };
            let loads = self.patterns[number].segments.iter().filter(|id| !chosen.contains(id));
            let loads: Vec<f64> = loads.filter_map(load).collect();
            let incumbent = if loads.is_empty() { INCUMBENT } else { 1.0 };
            let value = FUTURE * incumbent * own - loads.iter().sum::<f64>();
            value / bytes_of(number, chosen).max(1) as f64
        };
        let mut queue: BinaryHeap<Ordered> =
            candidates.iter().map(|number| Ordered(density(*number, &chosen), *number)).collect();
        let mut done: HashSet<usize> = HashSet::new();
        while let Some(Ordered(worth, number)) = queue.pop() {
            if worth <= 0.0 {
                break;
            }
            let bytes = bytes_of(number, &chosen);
            if done.contains(&number) || bytes > room {
                continue;
            }
            done.insert(number);
            room -= bytes;
            let new: Vec<SegmentId> =
                self.patterns[number].segments.iter().copied().filter(|id| chosen.insert(*id)).collect();
            // Patterns that share a chosen segment have become cheaper.
            let sharing: HashSet<usize> = new.iter().flat_map(|id| &self.of[*id]).copied().collect();
            for other in sharing.intersection(&candidates).filter(|other| !done.contains(other)) {
                queue.push(Ordered(density(*other, &chosen), *other));
            }
        }

        // What was not chosen goes as far as room is needed, the largest sum of values per byte last.
        let mut others: Vec<(f64, SegmentId)> = contents
            .iter()
            .filter(|id| !chosen.contains(id))
            .map(|id| {
                let values: f64 = self.of[id].iter().map(|number| self.value(*number, now)).sum();
                (values / contents.bytes(id).max(1) as f64, id)
            })
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut loads: Vec<SegmentId> = chosen.into_iter().filter(|id| !contents.holds(*id)).collect();
        loads.sort_unstable();
        let wanted: u64 = loads.iter().map(|id| contents.bytes(*id)).sum();
        for (_, id) in others {
            if contents.room() >= wanted {
                break;
            }
            contents.evict(id);
        }
        for id in loads {
            contents.load(id);
        }
    }
}
