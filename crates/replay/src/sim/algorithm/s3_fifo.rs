//! S3-FIFO (Yang et al., SOSP 2023), with bytes in place of objects.

use std::collections::VecDeque;

use super::Algorithm;
use crate::numbered::Numbered;
use crate::sim::Contents;
use crate::trace::{Lookup, SegmentId};

/// Part of the cache for segments used once.
const SMALL: f64 = 0.1;
/// Maximum of the uses that are counted.
const USES_MAX: u8 = 3;

/// Place of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Small,
    Main,
    Ghost,
}

/// Three queues: segments used once, those used again, and the keys of those that left the first queue.
#[derive(Debug)]
pub struct S3Fifo {
    small_max: u64,
    ghost_max: u64,
    small: VecDeque<SegmentId>,
    main: VecDeque<SegmentId>,
    ghost: VecDeque<SegmentId>,
    small_bytes: u64,
    ghost_bytes: u64,
    /// Place, and uses since it got there.
    known: Numbered<(Place, u8)>,
}

impl S3Fifo {
    /// For this number of segments and a cache of `capacity` bytes.
    pub fn new(segments: usize, capacity: u64) -> Self {
        let small_max = (capacity as f64 * SMALL) as u64;
        Self {
            small_max,
            ghost_max: capacity - small_max,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            small_bytes: 0,
            ghost_bytes: 0,
            known: Numbered::of((Place::Nowhere, 0), segments),
        }
    }

    fn admit(&mut self, id: SegmentId, contents: &mut Contents) {
        let bytes = contents.bytes(id);
        if bytes > contents.capacity() {
            return;
        }
        while contents.room() < bytes {
            if self.small_bytes > self.small_max || self.main.is_empty() {
                self.evict_small(contents);
            } else {
                self.evict_main(contents);
            }
        }
        if self.known[id].0 == Place::Ghost {
            self.known[id] = (Place::Main, 0);
            self.main.push_back(id);
        } else {
            self.known[id] = (Place::Small, 0);
            self.small.push_back(id);
            self.small_bytes += bytes;
        }
        contents.load(id);
    }

    fn evict_small(&mut self, contents: &mut Contents) {
        let Some(id) = self.small.pop_front() else {
            return;
        };
        self.small_bytes -= contents.bytes(id);
        if self.known[id].1 > 1 {
            self.known[id] = (Place::Main, 0);
            self.main.push_back(id);
            return;
        }
        contents.evict(id);
        self.known[id] = (Place::Ghost, 0);
        self.ghost.push_back(id);
        self.ghost_bytes += contents.bytes(id);
        while self.ghost_bytes > self.ghost_max
            && let Some(oldest) = self.ghost.pop_front()
        {
            self.ghost_bytes -= contents.bytes(oldest);
            if self.known[oldest].0 == Place::Ghost {
                self.known[oldest] = (Place::Nowhere, 0);
            }
        }
    }

    fn evict_main(&mut self, contents: &mut Contents) {
        let Some(id) = self.main.pop_front() else {
            return;
        };
        if self.known[id].1 > 0 {
            self.known[id].1 -= 1;
            self.main.push_back(id);
            return;
        }
        contents.evict(id);
        self.known[id] = (Place::Nowhere, 0);
    }
}

impl Algorithm for S3Fifo {
    fn name(&self) -> String {
        "S3-FIFO".to_owned()
    }

    fn lookup(&mut self, _: usize, lookup: &Lookup, contents: &mut Contents) {
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            if contents.holds(need.id) {
                let uses = &mut self.known[need.id].1;
                *uses = (*uses + 1).min(USES_MAX);
            } else {
                self.admit(need.id, contents);
            }
        }
    }
}
