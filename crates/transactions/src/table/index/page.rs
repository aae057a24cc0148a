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

/// Bytes of an entry beyond its content: its slot and its length.
const ENTRY_OVERHEAD: usize = 4;

/// Bytes of an entry's content at most: four entries fit into a page, so both halves of a split have
/// room for one more.
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
/// Bytes behind a page's end read as zeros and are not written; a page that is used as described
/// never gets there.
pub struct Page<B>(pub B);

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

    /// 0 for a leaf.
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

    /// What an inner page's entry says about its child: the lower bound.
    pub fn separator(&self, index: usize) -> &[u8] {
        self.entry(index).get(4..).unwrap_or(&[])
    }

    /// The child of an inner page's entry.
    pub fn child(&self, index: usize) -> u32 {
        u32_at(self.entry(index), 0)
    }

    /// Number of entries, from `from`, for which `before` holds; it holds for none behind one for which
    /// it does not.
    #[inline]
    pub fn partition_point(&self, from: usize, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (from, self.count().max(from));
        while low < high {
            let middle = (low + high) / 2;
            let entry = self.entry(middle);
            let entry = if self.level() == 0 { entry } else { entry.get(4..).unwrap_or(&[]) };
            if before(entry) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Which child holds the first entry for which `before` does not hold, unless that is the first of
    /// the next child.
    pub fn child_index(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.partition_point(1, before) - 1
    }

    fn heap(&self) -> usize {
        u16_at(self.bytes(), HEAP)
    }

    fn free_bytes(&self) -> usize {
        self.heap().saturating_sub(SLOTS + 2 * self.count())
    }

    /// Is there room for an entry with `length` bytes of content?
    pub fn has_room(&self, length: usize) -> bool {
        self.free_bytes() + u16_at(self.bytes(), DEAD) >= length + ENTRY_OVERHEAD
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Page<B> {
    fn put(&mut self, at: usize, part: &[u8]) {
        if let Some(bytes) = self.0.as_mut().get_mut(at..at + part.len()) {
            bytes.copy_from_slice(part);
        }
    }

    fn put_u16(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u16).to_le_bytes());
    }

    /// Makes the page an empty one.
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

    /// Puts an entry, given in two parts, before entry `index`. The page has room for it.
    pub fn insert(&mut self, index: usize, first: &[u8], second: &[u8]) {
        let length = first.len() + second.len();
        if self.free_bytes() < length + ENTRY_OVERHEAD {
            self.compact();
        }
        let (count, at) = (self.count(), self.heap() - length - 2);
        let slot = SLOTS + 2 * index;
        self.0.as_mut().copy_within(slot..SLOTS + 2 * count, slot + 2);
        self.put_u16(slot, at);
        self.put_u16(at, length);
        self.put(at + 2, first);
        self.put(at + 2 + first.len(), second);
        self.put_u16(COUNT, count + 1);
        self.put_u16(HEAP, at);
    }

    /// Takes entry `index` away.
    pub fn remove(&mut self, index: usize) {
        let (count, dead) = (self.count(), u16_at(self.bytes(), DEAD));
        let length = self.entry(index).len();
        let slot = SLOTS + 2 * index;
        self.0.as_mut().copy_within(slot + 2..SLOTS + 2 * count, slot);
        self.put_u16(COUNT, count - 1);
        self.put_u16(DEAD, dead + length + 2);
    }

    /// Moves the entries together.
    fn compact(&mut self) {
        let mut copy = [0; PAGE_BYTES];
        copy.copy_from_slice(self.bytes());
        let copy = Page(copy);
        self.clear(copy.level(), copy.previous(), copy.next());
        for index in 0..copy.count() {
            self.insert(index, copy.entry(index), &[]);
        }
    }

    /// Distributes this page's entries and a new one, which belongs before entry `index`, over this page
    /// and `right`, which is empty: about half of the bytes each, or only the new one to the right where
    /// it is the last of all, so that ascending keys fill their pages.
    pub fn split(&mut self, right: &mut Page<impl AsRef<[u8]> + AsMut<[u8]>>, index: usize, entry: [&[u8]; 2]) {
        let mut copy = [0; PAGE_BYTES];
        copy.copy_from_slice(self.bytes());
        let copy = Page(copy);
        let count = copy.count();
        let at = |position: usize| match position.cmp(&index) {
            std::cmp::Ordering::Less => [copy.entry(position), &[]],
            std::cmp::Ordering::Equal => entry,
            std::cmp::Ordering::Greater => [copy.entry(position - 1), &[]],
        };
        let bytes = |position: usize| at(position).iter().map(|part| part.len()).sum::<usize>() + ENTRY_OVERHEAD;
        let mut left = count;
        if index < count || copy.next() != NONE {
            let total: usize = (0..=count).map(bytes).sum();
            let mut sum = 0;
            left = (0..=count)
                .take_while(|position| {
                    sum += bytes(*position);
                    sum <= total / 2
                })
                .count();
        }
        self.clear(copy.level(), copy.previous(), copy.next());
        for position in 0..=count {
            let [first, second] = at(position);
            if position < left {
                self.insert(position, first, second);
            } else {
                right.insert(position - left, first, second);
            }
        }
    }
}
