//! Hash maps from keys to row numbers, for hash indexes, in segments that split.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table};

use super::fill::Unfilled;
use crate::table::budget::{Budget, Full, Growth};
use crate::table::keys::{Keys, OfLookUps};
use crate::table::slab::{Item, Slabs};

/// Maximum buckets of a segment: a split moves about 14 000 entries, a quarter of a millisecond.
const SEGMENT_BUCKETS: usize = 1 << 14;
/// hashbrown fills seven eighths of its buckets.
const SEGMENT_ENTRIES: usize = SEGMENT_BUCKETS / 8 * 7;
/// Lowest of the hash bits that choose the segment. hashbrown takes the lowest bits for the bucket and the highest
/// seven for the tag.
const SEGMENT_SHIFT: u32 = 32;
const DEPTH_MAX: u32 = 24;

/// Keys of fixed length beyond this are kept in slabs like those of variable length.
const PACKED_BYTES_MAX: usize = 32;

/// A key and a value without padding: 12 bytes for a key of 8.
#[derive(Debug, Clone, Copy)]
struct Entry<const W: usize> {
    key: [u8; W],
    value: [u8; 4],
}

/// Takes a key and its value.
type Push<'p> = &'p mut dyn FnMut(&[u8], u32);
/// Pushes all keys.
type Each<'e> = &'e mut dyn FnMut(Push<'_>) -> Result<(), Unfilled>;

/// Entries by hash, extendible: a directory of 2^depth places leads to segments, each a small hash table that is split
/// in two when it is full. So a table of millions of rows never stops to rehash, and never needs the room of its old
/// and new size together.
#[derive(Debug)]
struct Segments<const W: usize> {
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment<W>>,
    len: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Segment<const W: usize> {
    table: HashTable<Entry<W>>,
    /// Hash bits shared by all its entries.
    depth: u32,
}

impl<const W: usize> Segments<W> {
    fn new() -> Self {
        Self {
            directory: vec![0],
            depth: 0,
            segments: vec![Segment { table: HashTable::new(), depth: 0 }],
            len: 0,
            bytes: 0,
        }
    }

    fn bits(hash: u64, depth: u32) -> usize {
        (hash >> SEGMENT_SHIFT) as usize & ((1 << depth) - 1)
    }

    #[inline]
    fn number(&self, hash: u64) -> usize {
        self.directory.get(Self::bits(hash, self.depth)).map_or(0, |number| *number as usize)
    }

    #[inline]
    fn get(&self, hash: u64, eq: impl Fn(&[u8; W]) -> bool) -> Option<u32> {
        let segment = self.segments.get(self.number(hash))?;
        segment.table.find(hash, |entry| eq(&entry.key)).map(|entry| u32::from_le_bytes(entry.value))
    }

    /// The entry most likely to have this hash, if there is one.
    #[inline]
    fn likely(&self, hash: u64) -> Option<&Entry<W>> {
        self.segments.get(self.number(hash))?.table.iter_hash(hash).next()
    }

    fn set(&mut self, hash: u64, eq: impl Fn(&[u8; W]) -> bool, value: u32) {
        let number = self.number(hash);
        if let Some(segment) = self.segments.get_mut(number)
            && let Some(entry) = segment.table.find_mut(hash, |entry| eq(&entry.key))
        {
            entry.value = value.to_le_bytes();
        }
    }

    /// Makes room for one more entry with this hash.
    fn reserve(
        &mut self,
        hash: u64,
        hasher: impl Fn(&[u8; W]) -> u64,
        budget: &Budget,
        growth: Growth,
    ) -> Result<(), Full> {
        loop {
            let number = self.number(hash);
            let Some(segment) = self.segments.get_mut(number) else { return Ok(()) };
            if segment.table.len() < segment.table.capacity() {
                return Ok(());
            }
            let before = segment.table.allocation_size();
            if segment.table.len() < SEGMENT_ENTRIES || segment.depth >= DEPTH_MAX {
                growth.check(budget, before + 16 * (W + 5))?;
                segment.table.reserve(1, |entry| hasher(&entry.key));
                let after = segment.table.allocation_size();
                self.bytes = self.bytes + after - before;
                budget.resize(before, after);
                return Ok(());
            }
            growth.check(budget, before + self.directory.len() * 4)?;
            self.split(number, &hasher, budget);
        }
    }

    fn split(&mut self, number: usize, hasher: impl Fn(&[u8; W]) -> u64, budget: &Budget) {
        let directory = self.directory.capacity() * 4;
        let Some(segment) = self.segments.get_mut(number) else { return };
        let before = segment.table.allocation_size();
        let depth = segment.depth;
        let mut halves = [HashTable::with_capacity(SEGMENT_ENTRIES), HashTable::with_capacity(SEGMENT_ENTRIES)];
        for entry in segment.table.drain() {
            let hash = hasher(&entry.key);
            let [low, high] = &mut halves;
            let half = if Self::bits(hash, depth + 1) >> depth == 0 { low } else { high };
            half.insert_unique(hash, entry, |entry| hasher(&entry.key));
        }
        let [low, high] = halves;
        let after = low.allocation_size() + high.allocation_size();
        *segment = Segment { table: low, depth: depth + 1 };
        let new = self.segments.len() as u32;
        self.segments.push(Segment { table: high, depth: depth + 1 });
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        for (place, segment) in self.directory.iter_mut().enumerate() {
            if *segment as usize == number && place >> depth & 1 == 1 {
                *segment = new;
            }
        }
        let after = after + self.directory.capacity() * 4;
        self.bytes = self.bytes + after - before - directory;
        budget.resize(before + directory, after);
    }

    /// Enough segments for this many entries, with a list to gather the entries of each.
    fn stage(count: usize) -> (u32, Vec<Vec<Entry<W>>>) {
        // Segments differ in their number of entries by about a hundredth.
        let fit = |depth: &u32| count >> depth <= SEGMENT_ENTRIES - SEGMENT_ENTRIES / 16;
        let depth = (0..DEPTH_MAX).find(fit).unwrap_or(DEPTH_MAX);
        let each = count >> depth;
        (depth, (0..1 << depth).map(|_| Vec::with_capacity(each + each / 32 + 1)).collect())
    }

    /// Fills an empty table with the gathered entries, one segment after the other, and returns the entries whose key
    /// is already there.
    fn fill(
        &mut self,
        (depth, staged): (u32, Vec<Vec<Entry<W>>>),
        hasher: impl Fn(&[u8; W]) -> u64,
        is_same: impl Fn(&[u8; W], &[u8; W]) -> bool,
        budget: &Budget,
    ) -> Result<Vec<Entry<W>>, Full> {
        let allocated = |of: &Self| {
            let tables: usize = of.segments.iter().map(|segment| segment.table.allocation_size()).sum();
            of.directory.capacity() * 4 + tables
        };
        let before = allocated(self);
        (self.directory, self.depth) = ((0..1 << depth).collect(), depth);
        self.segments = Vec::with_capacity(staged.len());
        let (mut again, mut beyond) = (Vec::new(), Vec::new());
        for entries in staged {
            let mut table = HashTable::with_capacity(entries.len().min(SEGMENT_ENTRIES));
            for entry in entries {
                let hash = hasher(&entry.key);
                if table.len() == table.capacity() {
                    beyond.push(entry);
                    continue;
                }
                match table.entry(hash, |other: &Entry<W>| is_same(&other.key, &entry.key), |entry| hasher(&entry.key))
                {
                    hash_table::Entry::Occupied(_) => again.push(entry),
                    hash_table::Entry::Vacant(place) => {
                        place.insert(entry);
                        self.len += 1;
                    }
                }
            }
            self.segments.push(Segment { table, depth });
        }
        let after = allocated(self);
        self.bytes = self.bytes + after - before;
        budget.resize(before, after);
        for entry in beyond {
            let hash = hasher(&entry.key);
            if self.get(hash, |other| is_same(other, &entry.key)).is_some() {
                again.push(entry);
            } else {
                self.reserve(hash, &hasher, budget, Growth::Forced)?;
                self.insert(hash, entry, &hasher);
            }
        }
        Ok(again)
    }

    /// Adds an entry whose key is absent and for which room was reserved.
    fn insert(&mut self, hash: u64, entry: Entry<W>, hasher: impl Fn(&[u8; W]) -> u64) {
        let number = self.number(hash);
        if let Some(segment) = self.segments.get_mut(number) {
            segment.table.insert_unique(hash, entry, |entry| hasher(&entry.key));
            self.len += 1;
        }
    }

    fn remove(
        &mut self,
        hash: u64,
        eq: impl Fn(&[u8; W]) -> bool,
        hasher: impl Fn(&[u8; W]) -> u64,
        budget: &Budget,
    ) -> Option<[u8; W]> {
        let number = self.number(hash);
        let segment = self.segments.get_mut(number)?;
        let entry = segment.table.find_entry(hash, |entry| eq(&entry.key)).ok()?.remove().0;
        self.len -= 1;
        let (len, capacity) = (segment.table.len(), segment.table.capacity());
        if capacity > 64 && len < capacity / 8 {
            let before = segment.table.allocation_size();
            segment.table.shrink_to(len * 2, |entry| hasher(&entry.key));
            let after = segment.table.allocation_size();
            self.bytes = self.bytes + after - before;
            budget.resize(before, after);
        }
        Some(entry.key)
    }
}

/// Map from keys to `u32` values. The width of keys is known when the index is created.
///
/// Keys are self-delimiting (no key is a prefix of another), so padding a key with zeros to the width cannot make it
/// another.
#[derive(Debug)]
pub struct HashMap {
    hasher: FixedState,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    W4(Segments<4>),
    W8(Segments<8>),
    W12(Segments<12>),
    W16(Segments<16>),
    W24(Segments<24>),
    W32(Segments<32>),
    /// The key is an [`Item`] of these slabs.
    Slabs(Segments<8>, Slabs),
}

/// Runs `$body` for a packed table, or `$slabs` for one with its keys in slabs.
macro_rules! each {
    ($entries:expr, $segments:ident => $body:expr, ($table:ident, $keys:ident) => $slabs:expr) => {
        match $entries {
            Entries::W4($segments) => $body,
            Entries::W8($segments) => $body,
            Entries::W12($segments) => $body,
            Entries::W16($segments) => $body,
            Entries::W24($segments) => $body,
            Entries::W32($segments) => $body,
            Entries::Slabs($table, $keys) => $slabs,
        }
    };
}

#[inline]
fn pad<const W: usize>(key: &[u8]) -> [u8; W] {
    if let Ok(key) = key.try_into() {
        return key;
    }
    let mut padded = [0; W];
    if let Some(start) = padded.get_mut(..key.len()) {
        start.copy_from_slice(key);
    }
    padded
}

fn key_of(item: &[u8; 8]) -> Item {
    Item::from_bits(u64::from_le_bytes(*item))
}

impl HashMap {
    /// A map for keys of at most `longest` bytes; `None` if unbounded. The seed decides where entries are placed, which
    /// has no visible effect.
    pub fn new(longest: Option<usize>, seed: u64) -> Self {
        let entries = match longest {
            Some(0..=4) => Entries::W4(Segments::new()),
            Some(5..=8) => Entries::W8(Segments::new()),
            Some(9..=12) => Entries::W12(Segments::new()),
            Some(13..=16) => Entries::W16(Segments::new()),
            Some(17..=24) => Entries::W24(Segments::new()),
            Some(25..=PACKED_BYTES_MAX) => Entries::W32(Segments::new()),
            _ => Entries::Slabs(Segments::new(), Slabs::new()),
        };
        Self { hasher: FixedState::with_seed(seed), entries }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        each!(&self.entries, segments => segments.len, (segments, _keys) => segments.len)
    }

    /// Bytes of the tables and of keys in slabs.
    pub fn bytes(&self) -> usize {
        each!(&self.entries, segments => segments.bytes, (segments, keys) => segments.bytes + keys.bytes())
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        fn packed<const W: usize>(hasher: &FixedState, segments: &Segments<W>, key: &[u8]) -> Option<u32> {
            let key = pad::<W>(key);
            segments.get(hasher.hash_one(key), |other| *other == key)
        }
        each!(&self.entries, segments => packed(&self.hasher, segments, key), (segments, keys) => {
            segments.get(self.hasher.hash_one(key), |item| keys.get(key_of(item)) == Some(key))
        })
    }

    /// Looks up many keys in steps that each wait for memory once, not once per key; keys in slabs are looked up one by
    /// one. Calls `found` with each value, in order.
    pub fn get_all(&self, keys: &Keys, mut found: impl FnMut(Option<u32>)) {
        fn packed<const W: usize>(
            hasher: &FixedState,
            segments: &Segments<W>,
            keys: &Keys,
            found: &mut impl FnMut(Option<u32>),
        ) {
            // Pushed one by one: `collect` would check the capacity at each.
            let mut hashed: OfLookUps<(u64, [u8; W])> = OfLookUps::new();
            for key in keys.iter().map(pad::<W>) {
                hashed.push((hasher.hash_one(key), key));
            }
            // The first entry whose tag matches: its address, computed from the tags alone.
            let mut entries: OfLookUps<Option<&Entry<W>>> = OfLookUps::new();
            for (hash, _) in &hashed {
                entries.push(segments.likely(*hash));
            }
            for (entry, (hash, key)) in entries.iter().zip(&hashed) {
                found(match entry {
                    Some(entry) if entry.key == *key => Some(u32::from_le_bytes(entry.value)),
                    Some(_) => segments.get(*hash, |other| other == key),
                    None => None,
                });
            }
        }
        each!(&self.entries, segments => packed(&self.hasher, segments, keys, &mut found), (_segments, _keys) => {
            keys.iter().for_each(|key| found(self.get(key)));
        });
    }

    /// Sets the value of an existing key.
    pub fn set(&mut self, key: &[u8], value: u32) {
        fn packed<const W: usize>(hasher: &FixedState, segments: &mut Segments<W>, key: &[u8], value: u32) {
            let key = pad::<W>(key);
            segments.set(hasher.hash_one(key), |other| *other == key, value);
        }
        each!(&mut self.entries, segments => packed(&self.hasher, segments, key, value), (segments, keys) => {
            segments.set(self.hasher.hash_one(key), |item| keys.get(key_of(item)) == Some(key), value);
        });
    }

    /// Adds a key that is absent.
    pub fn insert(&mut self, key: &[u8], value: u32, budget: &Budget, growth: Growth) -> Result<(), Full> {
        fn packed<const W: usize>(
            hasher: &FixedState,
            segments: &mut Segments<W>,
            key: &[u8],
            value: u32,
            (budget, growth): (&Budget, Growth),
        ) -> Result<(), Full> {
            let key = pad::<W>(key);
            let hash = hasher.hash_one(key);
            segments.reserve(hash, |key| hasher.hash_one(key), budget, growth)?;
            segments.insert(hash, Entry { key, value: value.to_le_bytes() }, |key| hasher.hash_one(key));
            Ok(())
        }
        let hasher = &self.hasher;
        each!(&mut self.entries, segments => packed(hasher, segments, key, value, (budget, growth)), (segments, keys) => {
            let hash = hasher.hash_one(key);
            segments.reserve(hash, |item| hasher.hash_one(keys.get(key_of(item)).unwrap_or(&[])), budget, growth)?;
            let item = keys.allocate(key.len(), budget, growth)?;
            if let Some(bytes) = keys.get_mut(item) {
                bytes.copy_from_slice(key);
            }
            let entry = Entry { key: item.bits().to_le_bytes(), value: value.to_le_bytes() };
            segments.insert(hash, entry, |item| hasher.hash_one(keys.get(key_of(item)).unwrap_or(&[])));
            Ok(())
        })
    }

    /// Adds about `count` keys, which `each` pushes, to an empty map. Calls `again` for those pushed already, padded,
    /// with their values. Fails with an error of `each`.
    pub fn fill(
        &mut self,
        count: usize,
        budget: &Budget,
        each: Each<'_>,
        again: &mut dyn FnMut(&[u8], u32),
    ) -> Result<(), Unfilled> {
        fn packed<const W: usize>(
            hasher: &FixedState,
            segments: &mut Segments<W>,
            (count, budget): (usize, &Budget),
            each: Each<'_>,
            again: &mut dyn FnMut(&[u8], u32),
        ) -> Result<(), Unfilled> {
            let (depth, mut staged) = Segments::<W>::stage(count);
            each(&mut |key, value| {
                let key = pad::<W>(key);
                let number = Segments::<W>::bits(hasher.hash_one(key), depth);
                if let Some(entries) = staged.get_mut(number) {
                    entries.push(Entry { key, value: value.to_le_bytes() });
                }
            })?;
            let twice =
                segments.fill((depth, staged), |key| hasher.hash_one(key), |one, other| one == other, budget)?;
            twice.iter().for_each(|entry| again(&entry.key, u32::from_le_bytes(entry.value)));
            Ok(())
        }
        let hasher = &self.hasher;
        each!(&mut self.entries, segments => packed(hasher, segments, (count, budget), each, again), (segments, keys) => {
            let (depth, mut staged) = Segments::stage(count);
            let mut full = Ok(());
            each(&mut |key, value| {
                let number = Segments::<8>::bits(hasher.hash_one(key), depth);
                match keys.allocate(key.len(), budget, Growth::Forced) {
                    Ok(item) => {
                        if let (Some(bytes), Some(entries)) = (keys.get_mut(item), staged.get_mut(number)) {
                            bytes.copy_from_slice(key);
                            entries.push(Entry { key: item.bits().to_le_bytes(), value: value.to_le_bytes() });
                        }
                    }
                    Err(error) => full = Err(error),
                }
            })?;
            full?;
            let text = |item: &[u8; 8]| keys.get(key_of(item)).unwrap_or(&[]);
            let hash = |item: &[u8; 8]| hasher.hash_one(text(item));
            let twice = segments.fill((depth, staged), hash, |one, other| text(one) == text(other), budget)?;
            twice.iter().for_each(|entry| again(text(&entry.key), u32::from_le_bytes(entry.value)));
            twice.iter().for_each(|entry| keys.free(key_of(&entry.key), budget));
            Ok(())
        })
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8], budget: &Budget) {
        fn packed<const W: usize>(hasher: &FixedState, segments: &mut Segments<W>, key: &[u8], budget: &Budget) {
            let key = pad::<W>(key);
            segments.remove(hasher.hash_one(key), |other| *other == key, |key| hasher.hash_one(key), budget);
        }
        let hasher = &self.hasher;
        each!(&mut self.entries, segments => packed(hasher, segments, key, budget), (segments, keys) => {
            let removed = segments.remove(
                hasher.hash_one(key),
                |item| keys.get(key_of(item)) == Some(key),
                |item| hasher.hash_one(keys.get(key_of(item)).unwrap_or(&[])),
                budget,
            );
            if let Some(item) = removed {
                keys.free(key_of(&item), budget);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_map_is_what_a_plain_map_is() {
        for (seed, longest) in [4, 7, 8, 12, 16, 20, 32, 33, 300].into_iter().enumerate() {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed as u64);
            let budget = Budget::new(1 << 30);
            let (mut map, mut model) = (HashMap::new((longest < 300).then_some(longest), seed as u64), BTreeMap::new());
            for step in 0..60_000u32 {
                let length = if longest > 32 { rng.random_range(4..longest) } else { longest };
                let mut key = vec![7; length];
                let number: u32 = rng.random_range(0..40_000);
                key[..4].copy_from_slice(&number.to_be_bytes());
                if step < 50_000 {
                    match model.insert(key.clone(), step) {
                        None => map.insert(&key, step, &budget, Growth::Asked).unwrap(),
                        Some(old) => {
                            assert_eq!(map.get(&key), Some(old));
                            map.set(&key, step);
                        }
                    }
                } else if let Some((key, _)) = model.pop_first() {
                    map.remove(&key, &budget);
                    assert_eq!(map.get(&key), None);
                }
            }
            assert_eq!(map.len(), model.len());
            assert!(model.iter().all(|(key, value)| map.get(key) == Some(*value)));
            assert_eq!(budget.used(), map.bytes() as u64);
            let most = map.bytes();
            for key in model.keys() {
                map.remove(key, &budget);
            }
            assert!(map.bytes() < most / 10, "{} of {most} bytes stay", map.bytes());
        }
    }

    #[test]
    fn an_entry_of_eight_bytes_costs_thirty_at_most() {
        let budget = Budget::new(1 << 30);
        let mut map = HashMap::new(Some(8), 1);
        let mut worst = 0.0f64;
        for key in 0..1_000_000u64 {
            map.insert(&key.to_be_bytes(), key as u32, &budget, Growth::Asked).unwrap();
            if key > 20_000 {
                worst = worst.max(map.bytes() as f64 / (key + 1) as f64);
            }
        }
        assert!(worst < 31.0, "{worst} bytes");
    }

    #[test]
    fn no_room_is_an_error_and_what_is_there_can_be_read() {
        let budget = Budget::new(1_000_000);
        let mut map = HashMap::new(Some(8), 1);
        let stored =
            (0..100_000u64).take_while(|key| map.insert(&key.to_be_bytes(), 1, &budget, Growth::Asked).is_ok()).count();
        assert!(stored > 20_000 && stored < 100_000, "{stored}");
        assert!((0..stored as u64).all(|key| map.get(&key.to_be_bytes()).is_some()));
        assert_eq!(map.get(&(stored as u64).to_be_bytes()), None);
        assert!(budget.used() <= budget.limit());
    }
}
