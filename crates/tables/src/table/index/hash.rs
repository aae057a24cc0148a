//! Hash maps from keys to row numbers, for hash indexes.

mod segment;
mod segments;

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use segment::Entry;
use segments::{Segments, Staged};

use super::fill::Unfilled;
use crate::table::budget::{Budget, Full, Growth};
use crate::table::keys::{Keys, OfLookUps};
use crate::table::slab::{Item, Slabs};

/// A segment grows by a sixth when it is full: 86 % of all slots are in use on average, and an entry is moved about eight
/// times while its table grows.
const STEP: u64 = 6;
/// Where a move reads the key from slabs, a segment grows by half.
const STEP_OF_SLABS: u64 = 2;

/// Keys of fixed length beyond this are kept in slabs like those of variable length.
const PACKED_BYTES_MAX: usize = 32;

/// Takes a key and its value.
type Push<'p> = &'p mut dyn FnMut(&[u8], u32);
/// Pushes all keys.
type Each<'e> = &'e mut dyn FnMut(Push<'_>) -> Result<(), Unfilled>;

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

/// Hash of a padded key: of one or two integers where it has their size, which is faster than of bytes.
#[inline]
fn hash_of<const W: usize>(hasher: &FixedState, key: &[u8; W]) -> u64 {
    let key = key.as_slice();
    if let Ok(key) = key.try_into() {
        return hasher.hash_one(u32::from_le_bytes(key));
    }
    if let Ok(key) = key.try_into() {
        return hasher.hash_one(u64::from_le_bytes(key));
    }
    if let Ok(key) = key.try_into() {
        return hasher.hash_one(u128::from_le_bytes(key));
    }
    hasher.hash_one(key)
}

fn key_of(item: &[u8; 8]) -> Item {
    Item::from_bits(u64::from_le_bytes(*item))
}

impl HashMap {
    /// A map for keys of at most `longest` bytes; `None` if unbounded. The seed decides where entries are placed, which
    /// has no visible effect.
    pub fn new(longest: Option<usize>, seed: u64) -> Self {
        let entries = match longest {
            Some(0..=4) => Entries::W4(Segments::new(STEP)),
            Some(5..=8) => Entries::W8(Segments::new(STEP)),
            Some(9..=12) => Entries::W12(Segments::new(STEP)),
            Some(13..=16) => Entries::W16(Segments::new(STEP)),
            Some(17..=24) => Entries::W24(Segments::new(STEP)),
            Some(25..=PACKED_BYTES_MAX) => Entries::W32(Segments::new(STEP)),
            _ => Entries::Slabs(Segments::new(STEP_OF_SLABS), Slabs::new()),
        };
        Self { hasher: FixedState::with_seed(seed), entries }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        each!(&self.entries, segments => segments.len(), (segments, _keys) => segments.len())
    }

    /// Bytes of the tables and of keys in slabs.
    pub fn bytes(&self) -> usize {
        each!(&self.entries, segments => segments.bytes(), (segments, keys) => segments.bytes() + keys.bytes())
    }

    /// Gives all keys to `each`, in no particular order, with their values. Keys shorter than the longest are followed by
    /// zeros.
    pub fn each(&self, each: &mut dyn FnMut(&[u8], u32)) {
        each!(&self.entries, segments => {
            segments.entries().for_each(|entry| each(&entry.key, u32::from_le_bytes(entry.value)));
        }, (segments, keys) => {
            let text = |entry: &Entry<8>| keys.get(key_of(&entry.key)).unwrap_or_default();
            segments.entries().for_each(|entry| each(text(entry), u32::from_le_bytes(entry.value)));
        });
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        fn packed<const W: usize>(hasher: &FixedState, segments: &Segments<W>, key: &[u8]) -> Option<u32> {
            let key = pad::<W>(key);
            segments.get(hash_of(hasher, &key), |other| *other == key)
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
                hashed.push((hash_of(hasher, &key), key));
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
            segments.set(hash_of(hasher, &key), |other| *other == key, value);
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
            let hash = hash_of(hasher, &key);
            segments.reserve(hash, |key| hash_of(hasher, key), budget, growth)?;
            segments.insert(hash, Entry { key, value: value.to_le_bytes() });
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
            segments.insert(hash, entry);
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
            let mut staged = Staged::new(count);
            each(&mut |key, value| {
                let key = pad::<W>(key);
                staged.push(hash_of(hasher, &key), Entry { key, value: value.to_le_bytes() });
            })?;
            let twice = segments.fill(staged, |key| hash_of(hasher, key), |one, other| one == other, budget);
            twice.iter().for_each(|entry| again(&entry.key, u32::from_le_bytes(entry.value)));
            Ok(())
        }
        let hasher = &self.hasher;
        each!(&mut self.entries, segments => packed(hasher, segments, (count, budget), each, again), (segments, keys) => {
            let mut staged = Staged::new(count);
            let mut full = Ok(());
            each(&mut |key, value| {
                match keys.allocate(key.len(), budget, Growth::Forced) {
                    Ok(item) => {
                        if let Some(bytes) = keys.get_mut(item) {
                            bytes.copy_from_slice(key);
                        }
                        let entry = Entry { key: item.bits().to_le_bytes(), value: value.to_le_bytes() };
                        staged.push(hasher.hash_one(key), entry);
                    }
                    Err(error) => full = Err(error),
                }
            })?;
            full?;
            let text = |item: &[u8; 8]| keys.get(key_of(item)).unwrap_or(&[]);
            let hash = |item: &[u8; 8]| hasher.hash_one(text(item));
            let twice = segments.fill(staged, hash, |one, other| text(one) == text(other), budget);
            twice.iter().for_each(|entry| again(text(&entry.key), u32::from_le_bytes(entry.value)));
            twice.iter().for_each(|entry| keys.free(key_of(&entry.key), budget));
            Ok(())
        })
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8], budget: &Budget) {
        fn packed<const W: usize>(hasher: &FixedState, segments: &mut Segments<W>, key: &[u8], budget: &Budget) {
            let key = pad::<W>(key);
            segments.remove(hash_of(hasher, &key), |other| *other == key, |key| hash_of(hasher, key), budget);
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
    fn an_entry_of_eight_bytes_costs_less_than_sixteen() {
        let budget = Budget::new(1 << 30);
        let mut map = HashMap::new(Some(8), 1);
        assert_eq!(map.bytes(), 0);
        let (mut worst, mut worst_small) = (0.0f64, 0.0f64);
        for key in 0..2_000_000u64 {
            map.insert(&key.to_be_bytes(), key as u32, &budget, Growth::Asked).unwrap();
            let each = map.bytes() as f64 / (key + 1) as f64;
            match key + 1 {
                0..10 => {}
                10..50 => assert!(map.bytes() < 900, "{} bytes for {} entries", map.bytes(), key + 1),
                50..20_000 => worst_small = worst_small.max(each),
                _ => worst = worst.max(each),
            }
        }
        assert!(worst_small < 19.0, "{worst_small} bytes");
        assert!(worst <= 15.7, "{worst} bytes");
        assert_eq!(budget.used(), map.bytes() as u64);
        for count in [20_000, 33_000, 50_000, 77_000, 300_000, 1_200_000u64] {
            let mut filled = HashMap::new(Some(8), 1);
            let mut push_all = |push: Push<'_>| {
                (0..count).for_each(|key| push(&key.to_be_bytes(), key as u32));
                Ok(())
            };
            filled.fill(count as usize, &budget, &mut push_all, &mut |_, _| panic!("no key is twice")).unwrap();
            let each = filled.bytes() as f64 / count as f64;
            assert!(each <= 15.7, "{each} bytes for each of {count}");
        }
    }

    /// Random changes to a map that was filled at once.
    #[test]
    fn a_filled_map_is_what_a_plain_map_is() {
        for (seed, longest) in [4, 8, 12, 16, 24, 32, 40].into_iter().enumerate() {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed as u64);
            let budget = Budget::new(1 << 30);
            let mut map = HashMap::new(Some(longest), seed as u64);
            let mut model = std::collections::HashMap::new();
            let key_of = |number: u32| [number.to_be_bytes().as_slice(), &vec![7; longest - 4]].concat();
            let count = [0, 1, 14, 15, 3000, 30_000, 9000][seed];
            let numbers: Vec<u32> = (0..count).map(|_| rng.random_range(0..20_000)).collect();
            let mut again = Vec::new();
            map.fill(
                count,
                &budget,
                &mut |push| {
                    numbers.iter().enumerate().for_each(|(value, number)| push(&key_of(*number), value as u32));
                    Ok(())
                },
                &mut |key, value| again.push((key.to_vec(), value)),
            )
            .unwrap();
            for (value, number) in numbers.iter().enumerate() {
                model.entry(key_of(*number)).or_insert(value as u32);
            }
            assert_eq!(map.len() + again.len(), count);
            assert!(again.iter().all(|(key, value)| model[key] != *value));
            for step in 0..40_000u32 {
                let key = key_of(rng.random_range(0..20_000));
                match (model.contains_key(&key), rng.random_range(0..3)) {
                    (true, 0) => {
                        map.set(&key, step);
                        model.insert(key, step);
                    }
                    (true, 1) => {
                        map.remove(&key, &budget);
                        model.remove(&key);
                    }
                    (false, 0) => {
                        map.insert(&key, step, &budget, Growth::Asked).unwrap();
                        model.insert(key, step);
                    }
                    _ => assert_eq!(map.get(&key), model.get(&key).copied()),
                }
            }
            let (mut keys, mut found) = (Keys::default(), Vec::new());
            (0..20_000).for_each(|number| keys.push_bytes(&key_of(number)));
            map.get_all(&keys, |value| found.push(value));
            assert!(keys.iter().map(|key| model.get(key).copied()).eq(found));
            assert_eq!((map.len(), budget.used()), (model.len(), map.bytes() as u64));
        }
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
