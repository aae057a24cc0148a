//! W-TinyLFU (Einziger et al., 2017), for sizes: a candidate must outweigh all of its victims together (Einziger et
//! al., 2022).

use std::collections::VecDeque;

use super::Algorithm;
use crate::numbered::Numbered;
use crate::sim::Contents;
use crate::trace::{Lookup, SegmentId};

/// Part of the cache for segments that are not tested yet.
const WINDOW: f64 = 0.01;
/// Part of the rest for segments used again.
const PROTECTED: f64 = 0.8;
/// Uses after which all frequencies are halved, per segment of the trace.
const SAMPLE: u64 = 10;

/// A queue by the last use, its first segment the oldest.
#[derive(Debug, Default)]
struct Recency {
    queue: VecDeque<SegmentId>,
    bytes: u64,
}

impl Recency {
    fn push(&mut self, id: SegmentId, contents: &Contents) {
        self.queue.push_back(id);
        self.bytes += contents.bytes(id);
    }

    fn pop(&mut self, contents: &Contents) -> Option<SegmentId> {
        let id = self.queue.pop_front()?;
        self.bytes -= contents.bytes(id);
        Some(id)
    }

    fn remove(&mut self, id: SegmentId, contents: &Contents) -> bool {
        let found = self.queue.iter().position(|other| *other == id).and_then(|position| self.queue.remove(position));
        self.bytes -= found.map_or(0, |id| contents.bytes(id));
        found.is_some()
    }
}

/// A window by recency, and behind it a test by frequency. Frequencies are exact; a sketch would only be smaller.
#[derive(Debug)]
pub struct TinyLfu {
    window_max: u64,
    protected_max: u64,
    window: Recency,
    probation: Recency,
    protected: Recency,
    frequency: Numbered<u64>,
    uses: u64,
}

impl TinyLfu {
    /// For this number of segments and a cache of `capacity` bytes.
    pub fn new(segments: usize, capacity: u64) -> Self {
        let window_max = (capacity as f64 * WINDOW) as u64;
        Self {
            window_max,
            protected_max: ((capacity - window_max) as f64 * PROTECTED) as u64,
            window: Recency::default(),
            probation: Recency::default(),
            protected: Recency::default(),
            frequency: Numbered::of(0, segments),
            uses: 0,
        }
    }

    fn count(&mut self, id: SegmentId) {
        self.frequency[id] += 1;
        self.uses += 1;
        if self.uses >= SAMPLE * self.frequency.len() as u64 {
            self.frequency = self.frequency.iter().map(|frequency| frequency / 2).collect();
            self.uses /= 2;
        }
    }

    fn hit(&mut self, id: SegmentId, contents: &Contents) {
        if self.window.remove(id, contents) {
            self.window.push(id, contents);
            return;
        }
        let _ = self.probation.remove(id, contents) || self.protected.remove(id, contents);
        self.protected.push(id, contents);
        while self.protected.bytes > self.protected_max
            && let Some(oldest) = self.protected.pop(contents)
        {
            self.probation.push(oldest, contents);
        }
    }

    fn miss(&mut self, id: SegmentId, contents: &mut Contents) {
        let bytes = contents.bytes(id);
        if bytes > self.window_max {
            self.test(id, contents);
            return;
        }
        while self.window.bytes + bytes > self.window_max
            && let Some(oldest) = self.window.pop(contents)
        {
            contents.evict(oldest);
            self.test(oldest, contents);
        }
        self.make_room(bytes, contents);
        if contents.load(id) {
            self.window.push(id, contents);
        }
    }

    /// Moves a segment behind the window if it is used more often than all that would have to go.
    fn test(&mut self, id: SegmentId, contents: &mut Contents) {
        let main_max = contents.capacity() - self.window_max;
        let main = self.probation.bytes + self.protected.bytes;
        let wanted = (main + contents.bytes(id)).saturating_sub(main_max);
        let (mut victims, mut freed, mut weight) = (vec![], 0, 0);
        let mut candidates = self.probation.queue.iter().chain(&self.protected.queue);
        while freed < wanted {
            let Some(victim) = candidates.next() else {
                return;
            };
            freed += contents.bytes(*victim);
            weight += self.frequency[*victim];
            victims.push(*victim);
        }
        if !victims.is_empty() && self.frequency[id] <= weight {
            return;
        }
        for victim in victims {
            let _ = self.probation.remove(victim, contents) || self.protected.remove(victim, contents);
            contents.evict(victim);
        }
        if contents.load(id) {
            self.probation.push(id, contents);
        }
    }

    fn make_room(&mut self, bytes: u64, contents: &mut Contents) {
        while contents.room() < bytes {
            let victim = self.probation.pop(contents).or_else(|| self.protected.pop(contents));
            let Some(victim) = victim.or_else(|| self.window.pop(contents)) else {
                return;
            };
            contents.evict(victim);
        }
    }
}

impl Algorithm for TinyLfu {
    fn name(&self) -> String {
        "W-TinyLFU".to_owned()
    }

    fn lookup(&mut self, _: usize, lookup: &Lookup, contents: &mut Contents) {
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            self.count(need.id);
            if contents.holds(need.id) {
                self.hit(need.id, contents);
            } else {
                self.miss(need.id, contents);
            }
        }
    }
}
