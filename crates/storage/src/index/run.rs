//! Keys of one stretch of an object, sorted in memory.

use super::format::Position;

/// Keys and where they are, up to a bound that the caller keeps.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// All keys, one behind the other.
    keys: Vec<u8>,
    entries: Vec<RunEntry>,
}

#[derive(Debug, Clone, Copy)]
struct RunEntry {
    key_start: u32,
    key_length: u32,
    position: Position,
}

impl Run {
    /// Bytes that a key adds, beside its own.
    const ENTRY_BYTES: usize = size_of::<RunEntry>();

    /// Bytes of keys from which on a run takes no more.
    const KEYS_MAX: usize = u32::MAX as usize - super::key::KEY_BYTES_MAX;

    /// Adds a key; `false` if there is no room for it in `bytes_max`.
    pub(crate) fn push(&mut self, key: &[u8], position: Position, bytes_max: usize) -> bool {
        let bytes = self.keys.len() + key.len() + (self.entries.len() + 1) * Self::ENTRY_BYTES;
        if bytes > bytes_max || self.keys.len() > Self::KEYS_MAX {
            return false;
        }
        let (key_start, key_length) = (self.keys.len() as u32, key.len() as u32);
        self.keys.extend_from_slice(key);
        self.entries.push(RunEntry { key_start, key_length, position });
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything but the memory.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
    }

    /// Sorts by key, then by position.
    pub(super) fn sort(&mut self) {
        let Self { keys, entries } = self;
        entries.sort_unstable_by(|a, b| {
            let order = key_of(keys, a).cmp(key_of(keys, b));
            order.then_with(|| a.position.cmp(&b.position))
        });
    }

    /// Keys with their positions, in the order that they are in.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Position)> {
        self.entries.iter().map(|entry| (key_of(&self.keys, entry), entry.position))
    }
}

fn key_of<'a>(keys: &'a [u8], entry: &RunEntry) -> &'a [u8] {
    let start = entry.key_start as usize;
    keys.get(start..start + entry.key_length as usize).unwrap_or_default()
}
