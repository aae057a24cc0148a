//! The simulated cache's contents.
//!
//! Invariants:
//! - `used` = sum of the bytes of the forms that are held
//! - `used <= capacity`
//! - `loaded` only grows within a lookup

use crate::numbered::Numbered;
use crate::trace::{SegmentId, Trace};

/// Form in which a segment is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Arrays: its `bytes`.
    Decoded,
    /// Its `stored_bytes`, which have to be decoded at each use.
    Stored,
}

/// The segments that are cached, and those loaded for the current lookup.
#[derive(Debug)]
pub struct Contents {
    capacity: u64,
    used: u64,
    bytes: Numbered<u64>,
    stored_bytes: Numbered<u64>,
    held: Numbered<bool>,
    held_stored: Numbered<bool>,
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
            stored_bytes: trace.segments.iter().map(|segment| segment.stored_bytes).collect(),
            held: Numbered::of(false, count),
            held_stored: Numbered::of(false, count),
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

    /// Bytes of a segment, decoded.
    pub fn bytes(&self, id: SegmentId) -> u64 {
        self.bytes[id]
    }

    /// Bytes of a segment in this form.
    pub fn bytes_in(&self, id: SegmentId, form: Form) -> u64 {
        match form {
            Form::Decoded => self.bytes[id],
            Form::Stored => self.stored_bytes[id],
        }
    }

    /// Whether a segment is cached now, decoded.
    pub fn holds(&self, id: SegmentId) -> bool {
        self.held[id]
    }

    /// The form in which a segment is used now; `None` if it is not cached.
    pub fn form(&self, id: SegmentId) -> Option<Form> {
        match (self.held[id], self.held_stored[id]) {
            (true, _) => Some(Form::Decoded),
            (false, true) => Some(Form::Stored),
            (false, false) => None,
        }
    }

    /// All segments that are cached now, decoded.
    pub fn iter(&self) -> impl Iterator<Item = SegmentId> {
        Self::numbers(&self.held)
    }

    /// All segments and the forms in which they are cached now.
    pub fn forms(&self) -> impl Iterator<Item = (SegmentId, Form)> {
        let stored = Self::numbers(&self.held_stored).map(|id| (id, Form::Stored));
        self.iter().map(|id| (id, Form::Decoded)).chain(stored)
    }

    fn numbers(held: &Numbered<bool>) -> impl Iterator<Item = SegmentId> {
        let held = held.iter().enumerate().filter(|(_, held)| **held);
        held.map(|(position, _)| SegmentId(position as u32))
    }

    fn held_in(&mut self, form: Form) -> &mut Numbered<bool> {
        match form {
            Form::Decoded => &mut self.held,
            Form::Stored => &mut self.held_stored,
        }
    }

    /// Loads a segment, decoded; `false` if it is there or has no room.
    pub fn load(&mut self, id: SegmentId) -> bool {
        self.load_in(id, Form::Decoded)
    }

    /// Loads a segment in this form; `false` if it is there or has no room.
    pub fn load_in(&mut self, id: SegmentId, form: Form) -> bool {
        let put = self.put(id, form);
        if put && !self.is_loaded[id] {
            self.is_loaded[id] = true;
            self.loaded.push(id);
        }
        put
    }

    /// Keeps a segment decoded whose stored bytes are cached and are being decoded anyway; `false` if they are not, or it
    /// has no room.
    pub fn promote(&mut self, id: SegmentId) -> bool {
        self.held_stored[id] && self.put(id, Form::Decoded)
    }

    fn put(&mut self, id: SegmentId, form: Form) -> bool {
        let bytes = self.bytes_in(id, form);
        if bytes > self.room() || std::mem::replace(&mut self.held_in(form)[id], true) {
            return false;
        }
        self.used += bytes;
        self.loads += 1;
        self.admissions[id] = self.loads;
        true
    }

    /// Evicts a decoded segment; `false` if it is not there.
    pub fn evict(&mut self, id: SegmentId) -> bool {
        self.evict_in(id, Form::Decoded)
    }

    /// Evicts a segment in this form; `false` if it is not there.
    pub fn evict_in(&mut self, id: SegmentId, form: Form) -> bool {
        let held = std::mem::replace(&mut self.held_in(form)[id], false);
        if held {
            self.used -= self.bytes_in(id, form);
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
