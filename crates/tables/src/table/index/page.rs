//! Pages of an ordered index: entries in 4 KiB.

use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// No page.
pub const NONE: u32 = u32::MAX;

const COUNT: usize = 2;
const HEAP: usize = 4;
const DEAD: usize = 6;
const NEXT: usize = 8;
const PREVIOUS: usize = 12;
const SLOTS: usize = 16;

/// Divisor: when a page splits after a run of keys, up to an eighth of its entries may move right with the new one.
const FEW: usize = 8;

/// Bytes of an entry beyond its content: its slot and its length.
const ENTRY_OVERHEAD: usize = 4;

/// Maximum bytes of an entry's content: four entries fit into a page, so both halves of a split have room for one more.
pub const ENTRY_BYTES_MAX: usize = (PAGE_BYTES - SLOTS) / 4 - ENTRY_OVERHEAD;

/// Entries in order, as byte strings.
///
/// ```text
/// offset  0        2       4            6           8      12         16
///         level u8 count   heap start   dead bytes  next   previous   slots (u16 each) -> ... <- entries
///
/// entry:  length u16, content       content of an inner page: child u32, lower bound of its entries
/// ```
///
/// Bytes beyond a page's end read as zeros and are not written; correct use never reaches them.
pub struct Page<B>(pub B);

/// Order of two byte strings: equal to `Ord`'s, and faster for keys of a few words, which an index compares most.
#[inline(always)]
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let ((left_words, left_rest), (right_words, right_rest)) = (left.as_chunks::<8>(), right.as_chunks::<8>());
    for (left, right) in left_words.iter().zip(right_words) {
        let order = u64::from_be_bytes(*left).cmp(&u64::from_be_bytes(*right));
        if order.is_ne() {
            return order;
        }
    }
    if left_words.len() == right_words.len() {
        return compare_rests(left_rest, right_rest);
    }
    let equal = 8 * left_words.len().min(right_words.len());
    left.get(equal..).cmp(&right.get(equal..))
}

/// Compares up to seven bytes each.
#[inline]
fn compare_rests(left: &[u8], right: &[u8]) -> Ordering {
    match (left.split_first_chunk::<4>(), right.split_first_chunk::<4>()) {
        (Some((left, left_rest)), Some((right, right_rest))) if left != right || left_rest.is_empty() => {
            u32::from_be_bytes(*left).cmp(&u32::from_be_bytes(*right)).then(left_rest.len().cmp(&right_rest.len()))
        }
        _ => left.cmp(right),
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes) as usize)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Content of an entry of a page of these bytes.
#[inline]
pub fn entry_of(bytes: &[u8], index: usize) -> &[u8] {
    let at = u16_at(bytes, SLOTS + 2 * index);
    let length = u16_at(bytes, at);
    bytes.get(at + 2..at + 2 + length).unwrap_or(&[])
}

impl<B: AsRef<[u8]>> Page<B> {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Level; 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.bytes().first().copied().unwrap_or(0)
    }

    pub fn count(&self) -> usize {
        u16_at(self.bytes(), COUNT)
    }

    pub fn next(&self) -> u32 {
        u32_at(self.bytes(), NEXT)
    }

    pub fn previous(&self) -> u32 {
        u32_at(self.bytes(), PREVIOUS)
    }

    /// Content of an entry.
    #[inline]
    pub fn entry(&self, index: usize) -> &[u8] {
        entry_of(self.bytes(), index)
    }

    /// Lower bound of a child in an inner page's entry.
    pub fn separator(&self, index: usize) -> &[u8] {
        self.entry(index).get(4..).unwrap_or(&[])
    }

    /// The child of an inner page's entry.
    pub fn child(&self, index: usize) -> u32 {
        u32_at(self.entry(index), 0)
    }

    /// Number of entries, from `from`, for which `before` holds; it must hold for no later one.
    #[inline]
    pub fn partition_point(&self, from: usize, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (from, self.count().max(from));
        let child_bytes = if self.level() == 0 { 0 } else { 4 };
        while low < high {
            let middle = (low + high) / 2;
            if before(self.entry(middle).get(child_bytes..).unwrap_or(&[])) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The child that holds the first entry for which `before` does not hold, unless that is the first of the next
    /// child.
    pub fn child_index(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.partition_point(1, before) - 1
    }

    fn heap(&self) -> usize {
        u16_at(self.bytes(), HEAP)
    }

    fn free_bytes(&self) -> usize {
        self.heap().saturating_sub(SLOTS + 2 * self.count())
    }

    /// Whether there is room for an entry with `length` bytes of content.
    pub fn has_room(&self, length: usize) -> bool {
        self.free_bytes() + u16_at(self.bytes(), DEAD) >= length + ENTRY_OVERHEAD
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Page<B> {
    #[inline]
    fn put(&mut self, at: usize, part: &[u8]) {
        if let Some(bytes) = self.0.as_mut().get_mut(at..at + part.len()) {
            bytes.copy_from_slice(part);
        }
    }

    #[inline]
    fn put_u16(&mut self, at: usize, value: usize) {
        if let Some(place) = self.0.as_mut().get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
            *place = (value as u16).to_le_bytes();
        }
    }

    /// Empties the page.
    pub fn clear(&mut self, level: u8, previous: u32, next: u32) {
        self.put(0, &[level, 0]);
        self.put_u16(COUNT, 0);
        self.put_u16(HEAP, PAGE_BYTES);
        self.put_u16(DEAD, 0);
        self.set_next(next);
        self.set_previous(previous);
    }

    pub fn set_next(&mut self, page: u32) {
        self.put(NEXT, &page.to_le_bytes());
    }

    pub fn set_previous(&mut self, page: u32) {
        self.put(PREVIOUS, &page.to_le_bytes());
    }

    /// Inserts an entry, given in two parts, before entry `index`. The page has room for it.
    pub fn insert(&mut self, index: usize, first: &[u8], second: &[u8]) {
        let length = first.len() + second.len();
        if self.free_bytes() < length + ENTRY_OVERHEAD {
            self.compact();
        }
        let (count, at) = (self.count(), self.heap() - length - 2);
        let slot = SLOTS + 2 * index;
        if index < count {
            self.0.as_mut().copy_within(slot..SLOTS + 2 * count, slot + 2);
        }
        self.write(slot, at, [first, second]);
        self.put_u16(COUNT, count + 1);
        self.put_u16(HEAP, at);
    }

    /// Writes a slot and its entry.
    #[inline]
    fn write(&mut self, slot: usize, at: usize, [first, second]: [&[u8]; 2]) {
        self.put_u16(slot, at);
        self.put_u16(at, first.len() + second.len());
        self.put(at + 2, first);
        if !second.is_empty() {
            self.put(at + 2 + first.len(), second);
        }
    }

    /// Puts entries into an empty page, in order. There is room for them.
    fn fill<'e>(&mut self, entries: impl Iterator<Item = [&'e [u8]; 2]>) {
        let (mut slot, mut at) = (SLOTS, PAGE_BYTES);
        for entry in entries {
            let [first, second] = entry;
            at = at.saturating_sub(first.len() + second.len() + 2);
            self.write(slot, at, entry);
            slot += 2;
        }
        self.put_u16(COUNT, (slot - SLOTS) / 2);
        self.put_u16(HEAP, at);
    }

    /// Removes entry `index`.
    pub fn remove(&mut self, index: usize) {
        let (count, dead) = (self.count(), u16_at(self.bytes(), DEAD));
        let length = self.entry(index).len();
        let slot = SLOTS + 2 * index;
        self.0.as_mut().copy_within(slot + 2..SLOTS + 2 * count, slot);
        self.put_u16(COUNT, count - 1);
        self.put_u16(DEAD, dead + length + 2);
    }

    /// Compacts the entries.
    fn compact(&mut self) {
        let Ok(copy) = <[u8; PAGE_BYTES]>::try_from(self.bytes()) else { return };
        let copy = Page(copy);
        self.clear(copy.level(), copy.previous(), copy.next());
        self.fill((0..copy.count()).map(|index| [copy.entry(index), &[]]));
    }

    /// Distributes this page's entries and a new one, which belongs before entry `index`, over this page and the empty
    /// page `right`: about half of the bytes each, or only the new entry to the right if it is the last of all, so that
    /// ascending keys fill their pages. Runs that ascend among other keys fill their pages as well: an entry that
    /// `follows` the previous insertion gets room after it, and the entries before it stay. Returns the number of
    /// entries in this page.
    pub fn split(
        &mut self,
        right: &mut Page<impl AsRef<[u8]> + AsMut<[u8]>>,
        index: usize,
        entry: [&[u8]; 2],
        follows: bool,
    ) -> usize {
        let Ok(copy) = <[u8; PAGE_BYTES]>::try_from(self.bytes()) else { return 0 };
        let copy = Page(copy);
        let count = copy.count();
        let at = |position: usize| match position.cmp(&index) {
            Ordering::Less => [copy.entry(position), &[]],
            Ordering::Equal => entry,
            Ordering::Greater => [copy.entry(position - 1), &[]],
        };
        let bytes = |position: usize| at(position).iter().map(|part| part.len()).sum::<usize>() + ENTRY_OVERHEAD;
        let mut left = count;
        // Where more of its run will follow, an entry is left on either side, so that a finger recognizes the place. If
        // few entries follow it, they move with it; if many do, all but one make room.
        let run = if count.saturating_sub(index) <= (count / FEW).max(1) { index } else { index + 2 };
        let fits = |positions: Range<usize>| positions.map(bytes).sum::<usize>() <= PAGE_BYTES - SLOTS;
        if follows && (1..=count).contains(&run) && fits(0..run) && fits(run..count + 1) {
            left = run;
        } else if index < count || copy.next() != NONE {
            let held = PAGE_BYTES.saturating_sub(copy.heap() + u16_at(copy.bytes(), DEAD)) + 2 * count;
            let half = (held + bytes(index)) / 2;
            let mut sum = 0;
            left = (0..=count)
                .take_while(|position| {
                    sum += bytes(*position);
                    sum <= half
                })
                .count();
        }
        self.clear(copy.level(), copy.previous(), copy.next());
        self.fill((0..left).map(at));
        right.fill((left..=count).map(at));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_as_bytes_do() {
        let mut texts: Vec<Vec<u8>> = vec![vec![]];
        for length in 1..20_usize {
            for place in 0..length {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut text = vec![0x80; length];
                    text[place] = byte;
                    texts.push(text);
                }
            }
        }
        for left in &texts {
            for right in &texts {
                assert_eq!(compare(left, right), left.cmp(right), "{left:?} {right:?}");
            }
        }
    }
}
