//! Batches of keys that are looked up together.

use smallvec::SmallVec;
use thermocline_types::Result;

/// Number of look-ups made together: about as many cache misses as a core can have in flight.
pub const LOOK_UPS_AHEAD: usize = 16;

/// One value for each look-up of a batch; a larger batch is on the heap.
pub type OfLookUps<T> = SmallVec<[T; LOOK_UPS_AHEAD]>;

/// Several keys in one buffer.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: OfLookUps<usize>,
}

impl Keys {
    /// An empty list that reuses the buffer.
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, ends: OfLookUps::new() }
    }

    /// Adds the key that `write` appends to the buffer, unless `write` returns false or fails; returns the result of
    /// `write`.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<bool> {
        let before = self.bytes.len();
        let written = write(&mut self.bytes);
        if matches!(written, Ok(true)) {
            self.ends.push(self.bytes.len());
        } else {
            self.bytes.truncate(before);
        }
        written
    }

    /// Adds a key.
    pub fn push_bytes(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The keys, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let key = self.bytes.get(from..*end).unwrap_or_default();
            from = *end;
            key
        })
    }

    /// The buffer, for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}
