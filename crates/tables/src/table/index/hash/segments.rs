//! Entries of a hash index, in segments whose number grows with that of entries (linear hashing).
//!
//! ```text
//! low bits of a hash   ..000   ..001   ..010   ..011   ..100
//!                              ..101   ..110   ..111
//! segment                  0       1       2       3       4      4 was split from 0, and 1 is split next
//! ```
//!
//! The next segment is split when there are too many entries for the number of segments, whichever of them has most. In
//! between, each grows by a part of its size when it is full, and their sizes are such that not all are full at the
//! same time. So a table of millions of rows never stops to rehash, never needs the room of its old and new size
//! together, and has about the same load at any number of rows.
//!
//! The price is paid by inserts, each of which moves about eight entries of a segment that may not be in a cache: it
//! takes some 70 ns more than in tables that double at 100 000 entries, and twice that at millions.
//!
//! Invariants:
//! - `len` = sum of the segments' entries; `bytes` = bytes of the list of segments and of all chunks
//! - an entry is in segment `h & mask` or, where there is none, `h & mask >> 1`, for the low bits h of its hash

use super::segment::{Building, Entry, LANE_SHIFT, Segment};
use crate::table::budget::{Budget, Full, Growth};

/// Average entries of a segment at which one is split, so one has up to twice as many. Moving these takes tens of
/// microseconds.
const SEGMENT_ENTRIES: usize = 2048;
/// Fraction of [`SEGMENT_ENTRIES`] below which segments are united.
const SPARSE: usize = 4;
/// Size, in entries, from which a segment grows.
const SIZE_MIN: u64 = 8;
/// Maximum number of segments: other hash bits are for other choices.
const SEGMENTS_MAX: usize = 1 << LANE_SHIFT;

/// Entries by hash.
#[derive(Debug)]
pub struct Segments<const W: usize> {
    list: Vec<Segment<W>>,
    /// All bits of the numbers of segments.
    mask: usize,
    len: usize,
    bytes: usize,
    /// A full segment grows by this part of its size.
    step: u64,
}

/// Entries gathered by their segment, to fill an empty table.
#[derive(Debug)]
pub struct Staged<const W: usize>(Vec<Vec<Entry<W>>>);

impl<const W: usize> Staged<W> {
    /// For about this many entries.
    pub fn new(count: usize) -> Self {
        let segments = count.div_ceil(SEGMENT_ENTRIES).max(1).next_power_of_two().min(SEGMENTS_MAX);
        let each = count / segments;
        // Segments differ in their number of entries by a few hundredths.
        Self((0..segments).map(|_| Vec::with_capacity(each + each / 16 + 1)).collect())
    }

    /// Adds an entry.
    pub fn push(&mut self, hash: u64, entry: Entry<W>) {
        let mask = self.0.len() - 1;
        if let Some(entries) = self.0.get_mut(hash as usize & mask) {
            entries.push(entry);
        }
    }
}

const fn mask_of(segments: usize) -> usize {
    segments.next_power_of_two() - 1
}

impl<const W: usize> Segments<W> {
    /// An empty table without memory. A full segment grows by this part of its size.
    pub const fn new(step: u64) -> Self {
        Self { list: Vec::new(), mask: 0, len: 0, bytes: 0, step }
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it takes beside itself.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn number(&self, hash: u64) -> usize {
        let number = hash as usize & self.mask;
        if number < self.list.len() { number } else { number & self.mask >> 1 }
    }

    #[inline]
    fn segment(&self, hash: u64) -> Option<&Segment<W>> {
        self.list.get(self.number(hash))
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<W>> {
        self.list.iter().flat_map(Segment::entries)
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, hash: u64, eq: impl Fn(&[u8; W]) -> bool) -> Option<u32> {
        self.segment(hash)?.get(hash, eq).map(|entry| u32::from_le_bytes(entry.value))
    }

    /// The entry most likely to have this hash; `None` only if none has it. Reads no entry.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<&Entry<W>> {
        self.segment(hash)?.likely(hash)
    }

    /// Sets the value of an existing key.
    pub fn set(&mut self, hash: u64, eq: impl Fn(&[u8; W]) -> bool, value: u32) {
        let number = self.number(hash);
        if let Some(segment) = self.list.get_mut(number) {
            segment.set(hash, eq, value);
        }
    }

    /// Makes room for one more entry with this hash.
    #[inline]
    pub fn reserve(
        &mut self,
        hash: u64,
        hasher: impl Fn(&[u8; W]) -> u64,
        budget: &Budget,
        growth: Growth,
    ) -> Result<(), Full> {
        if self.len >= self.list.len() * SEGMENT_ENTRIES {
            self.add(&hasher, budget, growth)?;
        }
        match self.segment(hash) {
            Some(segment) if segment.len() >= segment.capacity() => self.grow(hash, hasher, budget, growth),
            _ => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(
        &mut self,
        hash: u64,
        hasher: impl Fn(&[u8; W]) -> u64,
        budget: &Budget,
        growth: Growth,
    ) -> Result<(), Full> {
        let number = self.number(hash);
        let Some(segment) = self.list.get(number) else { return Ok(()) };
        let chunks = self.chunks(number, segment.len() + 1).max(segment.chunks() + 1);
        let Some(segment) = self.list.get_mut(number) else { return Ok(()) };
        growth.check(budget, Building::<W>::bytes_of(chunks))?;
        let before = segment.bytes();
        segment.rebuild(chunks, hasher);
        let after = segment.bytes();
        self.resize(before, after, budget);
        Ok(())
    }

    /// Adds a segment. Without room for that, those that there are grow instead.
    #[cold]
    #[inline(never)]
    fn add(&mut self, hasher: impl Fn(&[u8; W]) -> u64, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let new = self.list.len();
        if new == SEGMENTS_MAX {
            return Ok(());
        }
        let listed = if new < self.list.capacity() { 0 } else { (new + new / 8 + 1) * size_of::<Segment<W>>() };
        let mask = mask_of(new + 1);
        let Some(old) = self.list.get(new & mask >> 1) else {
            growth.check(budget, listed)?;
            self.push(Segment::new(0), budget);
            return Ok(());
        };
        let chunks = Segment::<W>::chunks_for(old.len() + old.len() / self.step as usize) + 2;
        if growth.check(budget, Building::<W>::bytes_of(chunks) + old.len() * size_of::<u64>() + listed).is_err() {
            return Ok(());
        }
        let hashes: Vec<u64> = old.entries().map(|entry| hasher(&entry.key)).collect();
        let count = hashes.iter().filter(|hash| **hash as usize & mask == new).count();
        let mut low = Building::new(self.chunks(new & mask >> 1, old.len() - count));
        let mut high = Building::new(self.chunks(new, count));
        for (entry, hash) in old.entries().zip(hashes) {
            let half = if hash as usize & mask == new { &mut high } else { &mut low };
            half.push(hash, *entry);
        }
        self.replace(new & mask >> 1, low.finish(), budget);
        self.push(high.finish(), budget);
        Ok(())
    }

    /// Chunks of a segment with this many entries: enough for the next of the sizes that it takes while it grows. Those
    /// of one segment are between those of another, so that not all are full at the same time.
    fn chunks(&self, number: usize, entries: usize) -> usize {
        const ONE: u64 = 1 << 16;
        if entries == 0 {
            return 0;
        }
        // Multiples of the golden ratio are spread evenly.
        let part = (number as u32).wrapping_mul(0x9E37_79B9) >> 16;
        let mut size = (ONE + u64::from(part) / self.step) * SIZE_MIN;
        while size / ONE < entries as u64 {
            size += size / self.step;
        }
        Segment::<W>::chunks_for((size / ONE) as usize)
    }

    fn resize(&mut self, before: usize, after: usize, budget: &Budget) {
        self.bytes = self.bytes + after - before;
        budget.resize(before, after);
    }

    fn replace(&mut self, number: usize, new: Segment<W>, budget: &Budget) {
        if let Some(segment) = self.list.get_mut(number) {
            let (before, after) = (segment.bytes(), new.bytes());
            *segment = new;
            self.resize(before, after, budget);
        }
    }

    fn list_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Segment<W>>()
    }

    fn push(&mut self, new: Segment<W>, budget: &Budget) {
        let (before, bytes) = (self.list_bytes(), new.bytes());
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(self.list.len() / 8 + 1);
        }
        self.list.push(new);
        self.mask = mask_of(self.list.len());
        self.resize(before, self.list_bytes() + bytes, budget);
    }

    /// Fills an empty table with the gathered entries, one segment after the other, and returns the entries whose key
    /// is already there.
    pub fn fill(
        &mut self,
        staged: Staged<W>,
        hasher: impl Fn(&[u8; W]) -> u64,
        is_same: impl Fn(&[u8; W], &[u8; W]) -> bool,
        budget: &Budget,
    ) -> Vec<Entry<W>> {
        let before = self.bytes;
        (self.list, self.len) = (Vec::with_capacity(staged.0.len()), 0);
        let (mut again, mut after) = (Vec::new(), self.list_bytes());
        for (number, entries) in staged.0.into_iter().enumerate() {
            let mut segment = Segment::new(self.chunks(number, entries.len()));
            for entry in entries {
                let hash = hasher(&entry.key);
                match segment.get(hash, |other| is_same(other, &entry.key)) {
                    Some(_) => again.push(entry),
                    None => segment.insert(hash, entry),
                }
            }
            self.len += segment.len();
            after += segment.bytes();
            self.list.push(segment);
        }
        self.mask = mask_of(self.list.len());
        self.resize(before, after, budget);
        again
    }

    /// Adds an entry whose key is absent and for which room was reserved.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: Entry<W>) {
        let number = self.number(hash);
        if let Some(segment) = self.list.get_mut(number) {
            segment.insert(hash, entry);
            self.len += 1;
        }
    }

    /// Removes a key, and returns it.
    pub fn remove(
        &mut self,
        hash: u64,
        eq: impl Fn(&[u8; W]) -> bool,
        hasher: impl Fn(&[u8; W]) -> u64,
        budget: &Budget,
    ) -> Option<[u8; W]> {
        let number = self.number(hash);
        let segment = self.list.get_mut(number)?;
        let entry = segment.remove(hash, eq)?;
        self.len -= 1;
        let (len, chunks) = (segment.len(), segment.chunks());
        if chunks > 1 && len < segment.capacity() / 2 {
            segment.rebuild(Segment::<W>::chunks_for(len + len / 4).max(1), &hasher);
            let after = segment.bytes();
            self.resize(Segment::<W>::bytes_of(chunks), after, budget);
        }
        if self.list.len() > 1 && self.len < self.list.len() * (SEGMENT_ENTRIES / SPARSE) {
            self.unite(hasher, budget);
        }
        Some(entry.key)
    }

    /// Undoes the last split.
    #[cold]
    #[inline(never)]
    fn unite(&mut self, hasher: impl Fn(&[u8; W]) -> u64, budget: &Budget) {
        let before = self.list_bytes();
        let Some(high) = self.list.pop() else { return };
        let low = self.list.len() & self.mask >> 1;
        if self.list.len() < self.list.capacity() / 2 {
            self.list.shrink_to_fit();
        }
        self.mask = mask_of(self.list.len());
        self.resize(before + high.bytes(), self.list_bytes(), budget);
        let Some(old) = self.list.get(low) else { return };
        let mut both = Building::new(Segment::<W>::chunks_for(old.len() + high.len()));
        for entry in old.entries().chain(high.entries()) {
            both.push(hasher(&entry.key), *entry);
        }
        self.replace(low, both.finish(), budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const W: usize>(segments: &Segments<W>, budget: &Budget) {
        let chunks: usize = segments.list.iter().map(Segment::bytes).sum();
        assert_eq!(segments.bytes(), segments.list_bytes() + chunks);
        assert_eq!(segments.bytes() as u64, budget.used());
        assert_eq!(segments.len(), segments.list.iter().map(Segment::len).sum());
    }

    /// Inserts, finds and removes keys whose hashes are chosen to collide.
    fn round(count: u64, hasher: impl Fn(&[u8; 8]) -> u64) {
        let budget = Budget::new(1 << 30);
        let mut segments = Segments::<8>::new(6);
        for number in 0..count {
            let key = number.to_be_bytes();
            let hash = hasher(&key);
            segments.reserve(hash, &hasher, &budget, Growth::Asked).unwrap();
            segments.insert(hash, Entry { key, value: (number as u32).to_le_bytes() });
        }
        check(&segments, &budget);
        for number in 0..count {
            let key = number.to_be_bytes();
            assert_eq!(segments.get(hasher(&key), |other| *other == key), Some(number as u32));
        }
        for number in 0..count {
            let key = number.to_be_bytes();
            assert_eq!(segments.remove(hasher(&key), |other| *other == key, &hasher, &budget), Some(key));
        }
        check(&segments, &budget);
        assert_eq!((segments.len(), segments.list.len()), (0, 1));
    }

    #[test]
    fn hashes_with_equal_bits_work() {
        let spread = |key: &[u8; 8]| u64::from_be_bytes(*key).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        round(60_000, spread);
        // All in one segment, one home chunk, or both.
        round(20_000, |key| spread(key) << LANE_SHIFT);
        round(5_000, |key| spread(key) & 0xFFFF_FFFF);
        round(3_000, |_| 0);
    }

    #[test]
    fn no_more_memory_is_taken_than_was_checked() {
        let hasher = |key: &[u8; 8]| u64::from_be_bytes(*key).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        for limit in [0, 100, 1000, 40_000, 500_000] {
            let budget = Budget::new(limit);
            let mut segments = Segments::<8>::new(6);
            let stored = (0..100_000u64)
                .take_while(|number| {
                    let key = number.to_be_bytes();
                    let reserved = segments.reserve(hasher(&key), hasher, &budget, Growth::Asked);
                    if reserved.is_ok() {
                        segments.insert(hasher(&key), Entry { key, value: [0; 4] });
                    }
                    assert!(budget.used() <= limit);
                    reserved.is_ok()
                })
                .count();
            check(&segments, &budget);
            assert!(stored as u64 + 14 >= limit / 32, "{stored} entries in {limit} bytes");
        }
    }
}
