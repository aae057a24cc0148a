//! A hash table in chunks, one segment of a hash index.
//!
//! ```text
//! chunk: head: tags (14), counters (2)     entries: (W + 4) x 14
//! ```
//!
//! Heads are together, apart from entries: those of many tables fit into a cache.
//!
//! An entry is in its home chunk or, if that is full, in the first one behind it with a free slot. A chunk counts the
//! entries that passed it because it was full, so a look-up ends at a chunk that none passed, and a removal leaves no
//! mark behind: it decrements the counters of the chunks that its entry had passed.
//!
//! Invariants:
//! - a slot has tag 0 if and only if it is empty; `len` = number of other tags
//! - counter of a lane = entries of that lane stored behind the chunk whose home is at the chunk or before it, or
//!   [`COUNT_MAX`], which stays until the table is rebuilt
//! - `len` < slots, or there is one chunk

/// Slots of a chunk.
const SLOTS: usize = 14;
/// Entries for each chunk at which a table of several is full, 93 %: beyond that, entries are stored far from home.
const SLOTS_USED: usize = SLOTS - 1;
/// Maximum of a counter.
const COUNT_MAX: u64 = 15;
/// Bits of the counters in the second word of a chunk.
const COUNTS_SHIFT: u32 = 48;

/// Lowest of the two hash bits that choose one of the four counters of a chunk. Lower bits are for the choice of the
/// segment.
pub const LANE_SHIFT: u32 = 22;
/// Lowest of the eight hash bits that become the tag.
const TAG_SHIFT: u32 = 24;
/// Lowest of the hash bits that choose the home chunk.
const CHUNK_SHIFT: u32 = 32;

const _: () = assert!(LANE_SHIFT + 2 == TAG_SHIFT && TAG_SHIFT + 8 == CHUNK_SHIFT);
const _: () = assert!(size_of::<Head>() == SLOTS + 2 && size_of::<Entries<8>>() == SLOTS * (8 + 4));

/// A key and a value without padding: 12 bytes for a key of 8.
#[derive(Debug, Clone, Copy)]
pub struct Entry<const W: usize> {
    pub key: [u8; W],
    pub value: [u8; 4],
}

/// Little-endian words: tags of slots 0 to 7; tags of slots 8 to 13 and four counters of four bits.
#[derive(Debug, Clone, Copy, Default)]
struct Head([[u8; 8]; 2]);

type Entries<const W: usize> = [Entry<W>; SLOTS];

/// A hash table for as many entries as its chunks have room for.
#[derive(Debug)]
pub struct Segment<const W: usize> {
    heads: Box<[Head]>,
    entries: Box<[Entries<W>]>,
    len: u32,
}

/// A table that is built from entries in about the order of their home chunks.
#[derive(Debug)]
pub struct Building<const W: usize> {
    segment: Segment<W>,
    /// Slots in use of each chunk: faster to read than a head that was just written.
    used: Vec<u8>,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;
const HIGHS_OF_TAGS: u64 = HIGHS & ((1 << COUNTS_SHIFT) - 1);

/// The highest bit of each byte that is 0, and perhaps of a byte of 1 above such a byte.
#[inline]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// A set of slots of a chunk: bit 8i for slot i below 8, bit 8i + 1 for slot 8 + i.
#[derive(Debug, Clone, Copy)]
struct SlotSet(u64);

impl Iterator for SlotSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit >> 3 | (bit & 1) << 3)
    }
}

/// Tag of a hash: neither 0, which is for empty slots, nor 1, for which [`zeros`] could take an empty slot.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> TAG_SHIFT) as u8).max(2)
}

#[inline]
const fn count_shift(hash: u64) -> u32 {
    COUNTS_SHIFT + (hash >> LANE_SHIFT & 3) as u32 * 4
}

impl Head {
    #[inline]
    fn words(&self) -> (u64, u64) {
        let [low, high] = self.0;
        (u64::from_le_bytes(low), u64::from_le_bytes(high))
    }

    /// Slots with this tag, and perhaps others that are in use.
    #[inline]
    fn with_tag(&self, tag: u8) -> SlotSet {
        let (low, high) = self.words();
        let tags = u64::from(tag) * ONES;
        SlotSet(zeros(low ^ tags) >> 7 | (zeros(high ^ tags) & HIGHS_OF_TAGS) >> 6)
    }

    #[inline]
    fn empty(&self) -> Option<usize> {
        let (low, high) = self.words();
        SlotSet(zeros(low) >> 7 | (zeros(high) & HIGHS_OF_TAGS) >> 6).next()
    }

    /// Slots in use.
    #[inline]
    fn used(&self) -> SlotSet {
        let (low, high) = self.words();
        SlotSet((zeros(low) ^ HIGHS) >> 7 | (zeros(high) & HIGHS_OF_TAGS ^ HIGHS_OF_TAGS) >> 6)
    }

    /// Whether entries with the lane of this hash passed the chunk.
    #[inline]
    fn is_passed(&self, hash: u64) -> bool {
        self.words().1 >> count_shift(hash) & COUNT_MAX != 0
    }

    fn set_passed(&mut self, hash: u64, change: impl Fn(u64) -> u64) {
        let (shift, (_, word)) = (count_shift(hash), self.words());
        let count = word >> shift & COUNT_MAX;
        if count < COUNT_MAX {
            let [_, high] = &mut self.0;
            *high = (word & !(COUNT_MAX << shift) | change(count) << shift).to_le_bytes();
        }
    }

    #[inline]
    fn set_tag(&mut self, slot: usize, tag: u8) {
        if let Some(place) = self.0.as_flattened_mut().get_mut(slot) {
            *place = tag;
        }
    }
}

/// Position of an entry.
type Position = (usize, usize);

impl<const W: usize> Segment<W> {
    /// An empty table.
    pub fn new(chunks: usize) -> Self {
        let entries = vec![[Entry { key: [0; W], value: [0; 4] }; SLOTS]; chunks].into_boxed_slice();
        Self { heads: vec![Head::default(); chunks].into_boxed_slice(), entries, len: 0 }
    }

    /// Fewest chunks with room for this many entries.
    pub const fn chunks_for(entries: usize) -> usize {
        if 0 < entries && entries <= SLOTS { 1 } else { entries.div_ceil(SLOTS_USED) }
    }

    /// Bytes of this many chunks.
    pub const fn bytes_of(chunks: usize) -> usize {
        chunks * (size_of::<Head>() + size_of::<Entries<W>>())
    }

    /// Number of chunks.
    pub const fn chunks(&self) -> usize {
        self.heads.len()
    }

    /// Bytes that it takes beside itself.
    pub const fn bytes(&self) -> usize {
        Self::bytes_of(self.chunks())
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Maximum number of entries.
    #[inline]
    pub const fn capacity(&self) -> usize {
        match self.heads.len() {
            1 => SLOTS,
            chunks => chunks * SLOTS_USED,
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> CHUNK_SHIFT) * self.heads.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.heads.len() { 0 } else { at + 1 }
    }

    #[inline]
    fn find(&self, hash: u64, eq: impl Fn(&[u8; W]) -> bool) -> Option<(Position, &Entry<W>)> {
        let (tag, mut at) = (tag(hash), self.home(hash));
        for _ in 0..self.heads.len() {
            let head = self.heads.get(at)?;
            for slot in head.with_tag(tag) {
                let entry = self.entries.get(at)?.get(slot)?;
                if eq(&entry.key) {
                    return Some(((at, slot), entry));
                }
            }
            if !head.is_passed(hash) {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// The entry with this hash and key.
    #[inline]
    pub fn get(&self, hash: u64, eq: impl Fn(&[u8; W]) -> bool) -> Option<&Entry<W>> {
        self.find(hash, eq).map(|(_, entry)| entry)
    }

    /// The entry most likely to have this hash; `None` only if none has it. Reads no entry.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<&Entry<W>> {
        self.get(hash, |_| true)
    }

    /// Replaces the value of the entry with this hash and key, if there is one.
    pub fn set(&mut self, hash: u64, eq: impl Fn(&[u8; W]) -> bool, value: u32) {
        if let Some(((at, slot), _)) = self.find(hash, eq)
            && let Some(entry) = self.entries.get_mut(at).and_then(|entries| entries.get_mut(slot))
        {
            entry.value = value.to_le_bytes();
        }
    }

    /// Adds an entry whose key is absent. There must be [room](Segment::capacity).
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: Entry<W>) {
        let mut at = self.home(hash);
        for _ in 0..self.heads.len() {
            let Some(head) = self.heads.get_mut(at) else { break };
            if let Some(slot) = head.empty() {
                head.set_tag(slot, tag(hash));
                self.put(at, slot, entry);
                return;
            }
            head.set_passed(hash, |count| count + 1);
            at = self.next(at);
        }
        debug_assert!(false, "no room in {} chunks with {} entries", self.chunks(), self.len);
    }

    #[inline]
    fn put(&mut self, at: usize, slot: usize, entry: Entry<W>) {
        if let Some(place) = self.entries.get_mut(at).and_then(|entries| entries.get_mut(slot)) {
            *place = entry;
            self.len += 1;
        }
    }

    /// Removes the entry with this hash and key.
    pub fn remove(&mut self, hash: u64, eq: impl Fn(&[u8; W]) -> bool) -> Option<Entry<W>> {
        let ((found, slot), entry) = self.find(hash, eq)?;
        let (entry, mut at) = (*entry, self.home(hash));
        self.heads.get_mut(found)?.set_tag(slot, 0);
        self.len -= 1;
        while at != found {
            self.heads.get_mut(at)?.set_passed(hash, |count| count.saturating_sub(1));
            at = self.next(at);
        }
        Some(entry)
    }

    /// Entries in about the order of their home chunks.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<W>> {
        let chunks = self.heads.iter().zip(&self.entries);
        chunks.flat_map(|(head, entries)| head.used().filter_map(|slot| entries.get(slot)))
    }

    /// Moves all entries to as many chunks, which must have room.
    pub fn rebuild(&mut self, chunks: usize, hasher: impl Fn(&[u8; W]) -> u64) {
        let mut rebuilt = Building::new(chunks);
        self.entries().for_each(|entry| rebuilt.push(hasher(&entry.key), *entry));
        *self = rebuilt.finish();
    }
}

impl<const W: usize> Building<W> {
    /// Bytes that building this many chunks takes.
    pub const fn bytes_of(chunks: usize) -> usize {
        Segment::<W>::bytes_of(chunks) + chunks
    }

    /// An empty table.
    pub fn new(chunks: usize) -> Self {
        Self { segment: Segment::new(chunks), used: vec![0; chunks] }
    }

    /// [`Segment::insert`]
    #[inline]
    pub fn push(&mut self, hash: u64, entry: Entry<W>) {
        let Self { segment, used } = self;
        let mut at = segment.home(hash);
        for _ in 0..used.len() {
            let (Some(used), Some(head)) = (used.get_mut(at), segment.heads.get_mut(at)) else { break };
            if usize::from(*used) < SLOTS {
                head.set_tag(usize::from(*used), tag(hash));
                segment.put(at, usize::from(*used), entry);
                *used += 1;
                return;
            }
            head.set_passed(hash, |count| count + 1);
            at = segment.next(at);
        }
        debug_assert!(false, "no room in {} chunks with {} entries", segment.chunks(), segment.len);
    }

    /// The table.
    pub fn finish(self) -> Segment<W> {
        self.segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32) -> Entry<4> {
        Entry { key: number.to_be_bytes(), value: number.to_le_bytes() }
    }

    /// Keys of one home chunk, one lane and one tag fill all chunks, around the end, and leave nothing behind but
    /// counters at their maximum.
    #[test]
    fn equal_hashes_fill_all_chunks() {
        for chunks in [1, 2, 3, 7] {
            let mut segment = Segment::<4>::new(chunks);
            let hash = u64::MAX;
            let count = segment.capacity() as u32;
            (0..count).for_each(|number| segment.insert(hash, entry(number)));
            assert!((0..count).all(|number| {
                segment.get(hash, |key| *key == number.to_be_bytes()).unwrap().value == number.to_le_bytes()
            }));
            assert!(segment.get(hash, |key| *key == count.to_be_bytes()).is_none());
            for number in (0..count).rev() {
                assert!(segment.remove(hash, |key| *key == number.to_be_bytes()).is_some());
                assert!(segment.remove(hash, |key| *key == number.to_be_bytes()).is_none());
            }
            assert_eq!((segment.len(), segment.entries().count()), (0, 0));
        }
    }

    #[test]
    fn removals_leave_no_mark() {
        let mut segment = Segment::<4>::new(100);
        let hash = |number: u32| u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(7);
        (0..1300).for_each(|number| segment.insert(hash(number), entry(number)));
        assert!(segment.heads.iter().any(|head| head.words().1 >> COUNTS_SHIFT != 0), "entries away from home");
        assert!((0..1300).all(|number| segment.remove(hash(number), |key| *key == number.to_be_bytes()).is_some()));
        assert!(segment.heads.iter().all(|head| head.0 == [[0; 8]; 2]));
    }

    #[test]
    fn every_tag_is_found_in_every_slot_and_no_free_slot_is() {
        for tag in 2..=255u8 {
            let mut head = Head::default();
            assert_eq!((head.with_tag(tag).count(), head.used().count()), (0, 0));
            for used in 0..SLOTS {
                let slot = head.empty().unwrap();
                head.set_tag(slot, tag);
                assert_eq!((head.with_tag(tag).count(), head.used().count()), (used + 1, used + 1));
                assert!(head.with_tag(tag).any(|found| found == slot) && head.used().any(|found| found == slot));
            }
            assert_eq!(head.empty(), None);
            head.set_tag(9, 0);
            assert!(head.with_tag(tag ^ 1).chain(head.used()).all(|found| found != 9));
            assert_eq!(head.words().1 >> COUNTS_SHIFT, 0);
        }
    }
}
