//! The simulated cache's contents.
//!
//! Invariants:
//! - `used` = sum of the bytes of the segments that are held
//! - `used <= capacity`
//! - `loaded` only grows within a lookup

use crate::numbered::Numbered;
use crate::trace::{SegmentId, Trace};

/// The segments that are cached, and those loaded for the current lookup.
#[derive(Debug)]
pub struct Contents {
    capacity: u64,
    used: u64,
    bytes: Numbered<u64>,
    held: Numbered<bool>,
    /// Segments loaded for the current lookup, which may have been evicted since.
    loaded: Vec<SegmentId>,
    is_loaded: Numbered<bool>,
    evictions: u64,
    /// Number of the last load, by segment.
    admissions: Numbered<u64>,
    loads: u64,
}

impl Contents {
    /// An empty cache for the segments of `trace`.
    pub fn new(trace: &Trace, capacity: u64) -> Self {
        let count = trace.segments.len();
        Self {
            capacity,
            used: 0,
            bytes: trace.segments.iter().map(|segment| segment.bytes).collect(),
            held: Numbered::of(false, count),
            loaded: vec![],
            is_loaded: Numbered::of(false, count),
            evictions: 0,
            admissions: Numbered::of(0, count),
            loads: 0,
        }
    }

    /// The limit in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes left.
    pub fn room(&self) -> u64 {
        self.capacity - self.used
    }

    /// Bytes of a segment.
    pub fn bytes(&self, id: SegmentId) -> u64 {
        self.bytes[id]
    }

    /// Whether a segment is cached now.
    pub fn holds(&self, id: SegmentId) -> bool {
        self.held[id]
    }

    /// All segments that are cached now.
    pub fn iter(&self) -> impl Iterator<Item = SegmentId> {
        let held = self.held.iter().enumerate().filter(|(_, held)| **held);
        held.map(|(position, _)| SegmentId(position as u32))
    }

    /// Loads a segment; `false` if it is there or has no room.
    pub fn load(&mut self, id: SegmentId) -> bool {
        if self.held[id] || self.bytes[id] > self.room() {
            return false;
        }
        self.held[id] = true;
        self.used += self.bytes[id];
        self.loads += 1;
        self.admissions[id] = self.loads;
        if !self.is_loaded[id] {
            self.is_loaded[id] = true;
            self.loaded.push(id);
        }
        true
    }

    /// Evicts a segment; `false` if it is not there.
    pub fn evict(&mut self, id: SegmentId) -> bool {
        let held = std::mem::replace(&mut self.held[id], false);
        if held {
            self.used -= self.bytes[id];
            self.evictions += 1;
        }
        held
    }

    /// Number of the load that brought a segment: the lower, the longer it is cached.
    pub fn admission(&self, id: SegmentId) -> u64 {
        self.admissions[id]
    }

    /// Evictions so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether the current lookup has loaded a segment.
    pub(super) fn has_loaded(&self, id: SegmentId) -> bool {
        self.is_loaded[id]
    }

    /// Ends a lookup; returns what it loaded.
    pub(crate) fn end_lookup(&mut self) -> Vec<SegmentId> {
        let loaded = std::mem::take(&mut self.loaded);
        loaded.iter().for_each(|id| self.is_loaded[*id] = false);
        loaded
    }
}
